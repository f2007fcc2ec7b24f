//! A client of NBD that only writes. Facts: doc/proto.md of NetworkBlockDevice/nbd.

use std::io::{Read as _, Result, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

const BLOCK_BYTES: u32 = 128 << 10;
const IHAVEOPT: u64 = u64::from_be_bytes(*b"IHAVEOPT");

/// Writes blocks one after the other from the start of an export.
pub fn write(socket: &Path, export: &str, blocks: u32) -> Result<()> {
    let mut stream = UnixStream::connect(socket)?;
    // "NBDMAGIC", IHAVEOPT, flags.
    stream.read_exact(&mut [0; 18])?;
    // Fixed newstyle, no zeroes after the answer; NBD_OPT_EXPORT_NAME.
    let head = [&3u32.to_be_bytes()[..], &IHAVEOPT.to_be_bytes(), &1u32.to_be_bytes()].concat();
    let length = u32::try_from(export.len()).expect("a short name");
    stream.write_all(&[&head[..], &length.to_be_bytes(), export.as_bytes()].concat())?;
    // Size and flags.
    stream.read_exact(&mut [0; 10])?;
    let mut random = 1u64;
    for block in 0..blocks {
        let words = (0..BLOCK_BYTES / 8).flat_map(|_| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random.to_be_bytes()
        });
        let mut request = request(1, u64::from(block * BLOCK_BYTES), BLOCK_BYTES);
        request.extend(words);
        stream.write_all(&request)?;
        let mut reply = [0; 16];
        stream.read_exact(&mut reply)?;
        assert_eq!(reply[4..8], [0; 4], "block {block} is refused");
    }
    // Disconnect.
    stream.write_all(&request(2, 0, 0))
}

/// Magic, no flags, type, cookie, offset, length.
fn request(kind: u16, offset: u64, length: u32) -> Vec<u8> {
    let head = [&0x2560_9513u32.to_be_bytes()[..], &0u16.to_be_bytes(), &kind.to_be_bytes(), &[0; 8]];
    [&head.concat()[..], &offset.to_be_bytes(), &length.to_be_bytes()].concat()
}
