//! What comes over a connection of NFS: records out of any stream of bytes, and answers to any record. The server must neither panic
//! nor take memory that was not sent.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    serve::nfs::fuzz::stream(data);
});
