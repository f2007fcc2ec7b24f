//! Parts of labels: configuration, boot environment, trailer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ondisk::label::{BOOTENV_BYTES, BootEnv, CONFIG_BYTES, Trailer, parse_config};

fuzz_target!(|data: &[u8]| {
    let mut part = data.to_vec();
    part.resize(CONFIG_BYTES, 0);
    let _ = (parse_config(&part), BootEnv::parse(&part[..BOOTENV_BYTES]));
    if let Ok(trailer) = Trailer::parse(data) {
        assert_eq!(trailer.to_bytes(), data[data.len() - Trailer::SIZE_BYTES..]);
    }
});
