//! ACLs of all forms: any bytes; a POSIX ACL that parses is written back unchanged.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ondisk::Endian;
use ondisk::acl::{Ace, AclPhys, parse_posix, write_posix};

fuzz_target!(|data: &[u8]| {
    for endian in [Endian::Little, Endian::Big] {
        let _ = (Ace::parse_v0(data, endian), Ace::parse_v1(data, endian));
        if let Ok(acl) = AclPhys::parse(data, endian) {
            let _ = (acl.entries(None), acl.entries(Some(data)));
        }
    }
    if let Ok(entries) = parse_posix(data) {
        assert_eq!(write_posix(&entries), data);
    }
});
