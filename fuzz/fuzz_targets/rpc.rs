//! Input of an NFS connection: records from any byte stream, and replies to any record. The server
//! must neither panic nor allocate memory for bytes that were not sent.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    serve::nfs::fuzz::stream(data);
});
