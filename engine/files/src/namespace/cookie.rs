//! Cookies of the entries that no directory of a dataset contains.
//!
//! ```text
//!   directory             entry               cookie
//!   .zfs/snapshot, ...    . and ..            1 and 2
//!                         anything else       2 + its number
//!   of a dataset          its own             those of the dataset
//!                         an extra            2^62 + its number
//! ```
//! The number of a snapshot or volume is that of its object, the number of any other entry a hash
//! of its name. So a cookie is valid after a restart of the server, and a listing resumes at the
//! first entry whose number is greater, whether the entry that the cookie belongs to still exists
//! or not.
//!
//! Invariants:
//!   * entries are listed by increasing cookie
//!   * a cookie is below 2^63 - 3: it fits into an `off_t` (FUSE), and NFSv4 adds 3

use crate::vfs::NodeId;
use std::collections::BTreeMap;

/// Cookie of `.` in a synthetic directory.
pub(super) const SELF: u64 = 1;
/// Cookie of `..`. Those of the other entries come after it.
pub(super) const PARENT: u64 = 2;
/// Cookies from here on belong to entries that the dataset's own directory does not contain. A
/// directory's own cookies are far below (a serialised ZAP cursor has at most 48 + 14 bits, and in
/// practice 32).
pub(super) const EXTRA: u64 = 1 << 62;
/// Bits of a hash.
const HASH_BITS: u32 = 61;
/// Numbers of entries are below this. More than a hash, and than an object number has.
const NUMBERS: u64 = 1 << (HASH_BITS + 1);
const _: () = assert!(EXTRA + NUMBERS - 1 <= i64::MAX as u64);

/// The cookie of an entry of a synthetic directory that has this number. A number from disk that is
/// too large is treated as the largest.
pub(super) fn of_number(number: u64) -> u64 {
    PARENT + number.clamp(1, NUMBERS - PARENT - 4)
}

/// FNV-1a.
fn hash(name: &[u8]) -> u64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    name.iter().fold(0xcbf2_9ce4_8422_2325, mix) & ((1 << HASH_BITS) - 1)
}

/// Entries that are known by name only, by their numbers.
#[derive(Default)]
pub(super) struct Extras(BTreeMap<u64, (Vec<u8>, NodeId)>);

impl Extras {
    /// Adds an entry. Of two names with the same hash, which is very unlikely, the later one gets
    /// the next number.
    pub fn add(&mut self, name: &[u8], node: NodeId) {
        let first = hash(name).max(1);
        let free = (first..NUMBERS).find(|number| !self.0.contains_key(number));
        self.0.insert(free.expect("a directory has fewer than 2^61 entries"), (name.to_vec(), node));
    }

    /// The entries with their numbers, by increasing number.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[u8], NodeId)> {
        self.0.iter().map(|(number, (name, node))| (*number, name.as_slice(), *node))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_are_positive_and_leave_room_for_server_entries() {
        for number in [0, 1, 34, 1 << 48, u64::MAX] {
            assert!((PARENT + 1..EXTRA - 3).contains(&of_number(number)), "{number:#x}");
        }
        let mut extras = Extras::default();
        for name in [&b"a"[..], b"b", b"a"] {
            extras.add(name, NodeId(1));
        }
        assert_eq!(extras.iter().count(), 3);
        for (number, ..) in extras.iter() {
            assert!((1..NUMBERS - 4).contains(&number));
        }
    }
}
