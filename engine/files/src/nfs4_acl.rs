//! ZFS's own ACLs (NFSv4 style): rights, access checks, and conversion between lists and modes.
//!
//! Pure. Below: entries as `ondisk::acl` reads them. Above: servers, and the file system that
//! stores lists. Facts: module/os/linux/zfs/zfs_acl.c (zfs_zaccess_aces_check, zfs_mode_compute),
//! RFC 8881 6.2.

use crate::vfs::Caller;
use ondisk::acl::{Ace, Who};

/// Read contents, or list a directory.
pub const READ: u32 = 0x1;
/// Write contents, or create files in a directory.
pub const WRITE: u32 = 0x2;
/// Append data, or create directories in a directory.
pub const APPEND: u32 = 0x4;
/// `ACE4_READ_NAMED_ATTRS`: read extended attributes.
pub const READ_NAMED: u32 = 0x8;
/// `ACE4_WRITE_NAMED_ATTRS`: set extended attributes.
pub const WRITE_NAMED: u32 = 0x10;
/// Execute, or look up names.
pub const EXECUTE: u32 = 0x20;
/// Delete entries of a directory.
pub const DELETE_CHILD: u32 = 0x40;
pub const READ_ATTRIBUTES: u32 = 0x80;
/// Set times.
pub const WRITE_ATTRIBUTES: u32 = 0x100;
/// Delete this file or directory.
pub const DELETE: u32 = 0x1_0000;
pub const READ_ACL: u32 = 0x2_0000;
/// Set the ACL or the mode.
pub const WRITE_ACL: u32 = 0x4_0000;
/// Set owner and group.
pub const WRITE_OWNER: u32 = 0x8_0000;
/// Synchronize: wait for writes to complete.
pub const SYNCHRONIZE: u32 = 0x10_0000;

/// New files inherit the entry.
pub const FILE_INHERIT: u16 = 0x1;
/// New directories inherit the entry.
pub const DIRECTORY_INHERIT: u16 = 0x2;
/// Inherited by direct children only.
pub const NO_PROPAGATE: u16 = 0x4;
/// Used for inheritance only.
pub const INHERIT_ONLY: u16 = 0x8;
/// The entry was inherited.
pub const INHERITED: u16 = 0x80;

/// Kind of an entry that allows.
pub const ALLOW: u16 = 0;
/// Kind of an entry that denies.
pub const DENY: u16 = 1;

/// Maximum number of entries in a list (`MAX_ACL_ENTRIES`).
pub const ENTRIES_MAX: usize = 1024;

/// The list equivalent to a mode.
pub fn of_mode(mode: u32, is_dir: bool) -> Vec<Ace> {
    crate::zpl::trivial_list(mode, is_dir)
}

/// The rights of `want` that a list grants. For each right, the first entry that names the right
/// and matches the caller decides. As in OpenZFS, the owner can always read and write the ACL and
/// read the attributes.
pub fn granted(list: &[Ace], owner: (u32, u32), who: &Caller, want: u32) -> u32 {
    let (uid, gid) = owner;
    let is_member = |id: u32| who.gid == id || who.groups.contains(&id);
    let (mut open, mut given) = (want, 0);
    for ace in list.iter().filter(|a| a.kind <= DENY && a.flags & INHERIT_ONLY == 0) {
        let applies = match ace.who {
            Who::Everyone => true,
            Who::Owner => who.uid == uid,
            Who::OwningGroup => is_member(gid),
            Who::User(id) => u64::from(who.uid) == id,
            Who::Group(id) => u32::try_from(id).is_ok_and(is_member),
        };
        if applies {
            if ace.kind == ALLOW {
                given |= open & ace.mask;
            }
            open &= !ace.mask;
            if open == 0 {
                break;
            }
        }
    }
    if who.uid == uid {
        given |= want & (READ_ACL | WRITE_ACL | READ_ATTRIBUTES);
    }
    given
}

/// The first defect of a list, if any: its length, its kinds, or inheritance flags where nothing
/// can be inherited.
pub fn check(list: &[Ace], is_dir: bool) -> std::result::Result<(), &'static str> {
    if list.is_empty() || list.len() > ENTRIES_MAX {
        return Err("a list has 1 to 1024 entries");
    }
    for ace in list {
        let inherits = ace.flags & (FILE_INHERIT | DIRECTORY_INHERIT) != 0;
        if ace.kind > DENY {
            return Err("audit and alarm entries are not supported");
        }
        if !is_dir && inherits {
            return Err("a file cannot have inheritable entries");
        }
        if ace.flags & (INHERIT_ONLY | NO_PROPAGATE) != 0 && !inherits {
            return Err("an entry has inheritance options, but is not inheritable");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ace(kind: u16, mask: u32, who: Who) -> Ace {
        Ace { kind, flags: 0, mask, who }.with_who_flags()
    }

    fn user(uid: u32, groups: &[u32]) -> Caller {
        Caller { uid, gid: 500, groups: groups.to_vec(), ..Caller::default() }
    }

    #[test]
    fn the_first_entry_that_names_a_right_and_the_caller_decides() {
        let list = [
            ace(DENY, WRITE, Who::User(7)),
            ace(ALLOW, READ | WRITE, Who::Group(60)),
            Ace { flags: INHERIT_ONLY | FILE_INHERIT, ..ace(ALLOW, EXECUTE, Who::Everyone) },
            ace(DENY, READ, Who::Everyone),
            ace(ALLOW, READ | EXECUTE, Who::Owner),
        ];
        let all = READ | WRITE | EXECUTE;
        assert_eq!(granted(&list, (1, 2), &user(7, &[60]), all), READ);
        assert_eq!(granted(&list, (1, 2), &user(8, &[60]), all), READ | WRITE);
        assert_eq!(granted(&list, (1, 2), &user(8, &[]), all), 0);
        assert_eq!(granted(&list, (1, 2), &user(1, &[]), all | WRITE_ACL), EXECUTE | WRITE_ACL);
    }

    #[test]
    fn an_acl_of_a_mode_grants_the_access_of_the_mode() {
        for mode in 0..0o1000 {
            let list = of_mode(mode, false);
            for (who, shift) in [(user(1, &[]), 6), (user(5, &[2]), 3), (user(5, &[]), 0)] {
                for (bit, right) in [(4, READ), (2, WRITE), (1, EXECUTE)] {
                    let expected = if mode >> shift & bit != 0 { right } else { 0 };
                    assert_eq!(granted(&list, (1, 2), &who, right), expected, "{mode:o} {who:?}");
                }
            }
        }
    }

    #[test]
    fn lists_that_make_no_sense_are_refused() {
        let good = ace(ALLOW, READ, Who::Everyone);
        assert_eq!(check(&[good], false), Ok(()));
        assert!(check(&[], true).is_err());
        assert!(check(&vec![good; 1025], true).is_err());
        assert!(check(&[Ace { kind: 2, ..good }], true).is_err());
        let passed = Ace { flags: good.flags | FILE_INHERIT, ..good };
        assert!(check(&[passed], false).is_err() && check(&[passed], true).is_ok());
        assert!(check(&[Ace { flags: good.flags | INHERIT_ONLY, ..good }], true).is_err());
    }
}
