//! The NFSv4-style ACL equivalent to a mode, which OpenZFS gives to every file, and the mode of an
//! ACL.
//!
//! Pure functions. Above: new files and chmod. Facts: module/os/linux/zfs/zfs_acl.c.

use ondisk::acl::{Ace, Who};
use ondisk::znode::Flags;

const READ: u32 = 0x1;
const WRITE: u32 = 0x2;
const APPEND: u32 = 0x4;
const READ_NAMED: u32 = 0x8;
const WRITE_NAMED: u32 = 0x10;
const EXECUTE: u32 = 0x20;
const DELETE_CHILD: u32 = 0x40;
const READ_ATTRIBUTES: u32 = 0x80;
const WRITE_ATTRIBUTES: u32 = 0x100;
const READ_ACL: u32 = 0x2_0000;
const WRITE_ACL: u32 = 0x4_0000;
const WRITE_OWNER: u32 = 0x8_0000;
const SYNCHRONIZE: u32 = 0x10_0000;

const ALLOW: u16 = 0;
const DENY: u16 = 1;
/// Files (1) or directories (2) created in the directory inherit the entry.
const INHERITABLE: u16 = 3;
const INHERIT_ONLY: u16 = 8;
const FILE_INHERIT: u16 = 1;
const DIRECTORY_INHERIT: u16 = 2;
const NO_PROPAGATE: u16 = 4;
const INHERITED: u16 = 0x80;

/// Rights of owner, group and others beyond those of the mode.
const ALWAYS: u32 = READ_ACL | READ_ATTRIBUTES | READ_NAMED | SYNCHRONIZE;
const OWNER_ALWAYS: u32 = ALWAYS | WRITE_ATTRIBUTES | WRITE_OWNER | WRITE_ACL | WRITE_NAMED;

/// How chmod treats entries that the mode does not express (`aclmode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AclMode {
    /// They are removed.
    #[default]
    Discard,
    /// They are kept, but grant no more than the group's bits.
    GroupMask,
    /// They are kept.
    Passthrough,
    /// chmod fails if there are any.
    Restricted,
}

/// Which entries of a directory new files in it inherit (`aclinherit`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AclInherit {
    /// None.
    Discard,
    /// Only deny entries.
    NoAllow,
    /// All inheritable entries, without the rights to set the ACL and the owner.
    #[default]
    Restricted,
    /// All inheritable entries. What owner, group and everyone get from them replaces the mode.
    Passthrough,
    /// As `Passthrough`, but execute is granted only if the file was created with execute
    /// permission.
    PassthroughX,
}

/// The entries that a new file inherits from the ACL of its directory, and whether the requested
/// mode still applies.
pub(super) fn inherited(
    parent: &[Ace],
    how: AclInherit,
    is_dir: bool,
    is_regular: bool,
    mode: u64,
) -> (Vec<Ace>, bool) {
    let (mut list, mut mode_counts) = (Vec::new(), true);
    if how == AclInherit::Discard {
        return (list, mode_counts);
    }
    let passes = matches!(how, AclInherit::Passthrough | AclInherit::PassthroughX);
    for e in parent.iter().filter(|e| e.kind <= DENY) {
        let (for_files, for_dirs) = (e.flags & FILE_INHERIT != 0, e.flags & DIRECTORY_INHERIT != 0);
        let is_last = e.flags & NO_PROPAGATE != 0;
        let applies = if is_dir { for_dirs || for_files && !is_last } else { for_files };
        if !applies || how == AclInherit::NoAllow && e.kind == ALLOW {
            continue;
        }
        let is_class = matches!(e.who, Who::Owner | Who::OwningGroup | Who::Everyone);
        if passes && is_class && (is_regular || is_dir && for_dirs) {
            mode_counts = false;
        }
        let mut e = *e;
        if e.kind == ALLOW && how == AclInherit::PassthroughX && !is_dir && mode & 0o111 == 0 {
            e.mask &= !EXECUTE;
        }
        if e.kind == ALLOW && how == AclInherit::Restricted {
            e.mask &= !(WRITE_ACL | WRITE_OWNER);
        }
        if !is_dir || is_last {
            e.flags &= !(INHERITABLE | NO_PROPAGATE | INHERIT_ONLY);
        } else if !for_dirs {
            e.flags |= INHERIT_ONLY;
        } else {
            e.flags &= !INHERIT_ONLY;
        }
        e.flags |= INHERITED;
        list.push(e);
    }
    (list, mode_counts)
}

fn ace(kind: u16, mask: u32, who: Who) -> Ace {
    let flags = match who {
        Who::Owner => Ace::FLAG_OWNER,
        Who::OwningGroup => Ace::FLAG_GROUP | Ace::FLAG_IDENTIFIER_GROUP,
        Who::Everyone => Ace::FLAG_EVERYONE,
        Who::User(_) => 0,
        Who::Group(_) => Ace::FLAG_IDENTIFIER_GROUP,
    };
    Ace { kind, flags, mask, who }
}

/// The ACL for permission bits `mode`.
pub(super) fn trivial(mode: u64, is_dir: bool) -> Vec<Ace> {
    with_mode(&[], mode, is_dir, false)
}

/// The ACL that results from `old` under permission bits `mode`. If `trim`, entries for others than
/// owner, group and everyone grant no more than the group has.
pub(super) fn with_mode(old: &[Ace], mode: u64, is_dir: bool, trim: bool) -> Vec<Ace> {
    around(old, mode, is_dir, trim, true)
}

/// The ACL of a new file that inherited `list` and was created with `mode`.
pub(super) fn of_new(list: &[Ace], mode: u64, is_dir: bool, trim: bool) -> Vec<Ace> {
    around(list, mode, is_dir, trim, false)
}

/// The mode's entries around those of `old`. If `replaces`, the mode replaces the entries for
/// owner, group and everyone.
fn around(old: &[Ace], mode: u64, is_dir: bool, trim: bool, replaces: bool) -> Vec<Ace> {
    let write = WRITE | APPEND | if is_dir { DELETE_CHILD } else { 0 };
    let bits = [(4, READ), (2, write), (1, EXECUTE)];
    let granted = |shift: u32, only: &dyn Fn(u64) -> bool| -> u32 {
        bits.iter().filter(|(bit, _)| mode & (bit << shift) != 0 && only(*bit)).map(|b| b.1).fold(0, |a, b| a | b)
    };
    let any = |_: u64| true;
    // If a class has fewer rights than one that comes after it, the difference must be denied
    // first. If the owner has rights that the group is then denied, the owner must be allowed them
    // before that.
    let denied = |shift: u32, after: u64| -> u32 {
        bits.iter()
            .filter(|(bit, _)| mode & (bit << shift) == 0 && mode & (bit * after) != 0)
            .map(|b| b.1)
            .fold(0, |a, b| a | b)
    };
    let allow_first = granted(6, &|bit| mode & (bit << 3) == 0 && mode & bit != 0);
    let deny_owner = denied(6, 0o11);
    let deny_group = denied(3, 0o1);
    let (owner, group, everyone) =
        (granted(6, &any) | OWNER_ALWAYS, granted(3, &any) | ALWAYS, granted(0, &any) | ALWAYS);

    let mut list = Vec::with_capacity(6 + old.len());
    for (mask, kind, who) in
        [(allow_first, ALLOW, Who::Owner), (deny_owner, DENY, Who::Owner), (deny_group, DENY, Who::OwningGroup)]
    {
        if mask != 0 {
            list.push(ace(kind, mask, who));
        }
    }
    for e in old {
        let mut e = *e;
        if replaces && matches!(e.who, Who::Owner | Who::OwningGroup | Who::Everyone) {
            // The new mode replaces them; their inheritable part is kept.
            if !is_dir || e.flags & INHERITABLE == 0 {
                continue;
            }
            e.flags |= INHERIT_ONLY;
        }
        if trim && e.kind == ALLOW && e.flags & INHERIT_ONLY == 0 {
            e.mask &= group;
        }
        list.push(e);
    }
    list.push(ace(ALLOW, owner, Who::Owner));
    list.push(ace(ALLOW, group, Who::OwningGroup));
    list.push(ace(ALLOW, everyone, Who::Everyone));
    list
}

/// Whether an ACL expresses no more than a mode.
pub(super) fn is_trivial(list: &[Ace]) -> bool {
    // No inheritance bits (mask 0xf), and no entries for a particular user or group.
    list.iter()
        .all(|e| matches!(e.who, Who::Owner | Who::OwningGroup | Who::Everyone) && e.flags & 0xf == 0 && e.kind <= DENY)
}

/// The permission bits of an ACL, and [`Flags::NO_EXECS_DENIED`] if it denies execute to no one.
pub(super) fn mode_of(list: &[Ace], uid: u64, gid: u64) -> (u64, Flags) {
    let (mut mode, mut seen, mut exec_denied) = (0u64, 0u64, false);
    for e in list.iter().filter(|e| e.kind <= DENY && e.flags & INHERIT_ONLY == 0) {
        let classes: &[u32] = match e.who {
            Who::Owner => &[6],
            Who::User(id) if id == uid => &[6],
            Who::OwningGroup => &[3],
            Who::Group(id) if id == gid => &[3],
            Who::Everyone => &[6, 3, 0],
            _ => {
                exec_denied |= e.kind == DENY && e.mask & EXECUTE != 0;
                &[]
            }
        };
        for shift in classes {
            for (bit, mask) in [(4u64, READ), (2, WRITE), (1, EXECUTE)] {
                let bit = bit << shift;
                if e.mask & mask != 0 && seen & bit == 0 {
                    seen |= bit;
                    mode |= if e.kind == ALLOW { bit } else { 0 };
                }
            }
        }
    }
    let all_may = !exec_denied && seen & 0o111 == 0o111 && mode & 0o111 == 0o111;
    (mode, if all_may { Flags::NO_EXECS_DENIED } else { Flags::empty() })
}

/// Whether an entry also has two types of objects, which [`Ace`] lacks: it cannot be encoded again.
pub(super) fn is_for_objects(e: &Ace) -> bool {
    (5..=8).contains(&e.kind)
}

/// Encodes entries as in the attribute `ZPL_DACL_ACES`, little-endian. There must be none
/// [for objects](is_for_objects).
pub(super) fn pack(list: &[Ace]) -> Vec<u8> {
    let mut out = Vec::with_capacity(list.len() * 8);
    for e in list {
        out.extend_from_slice(&e.kind.to_le_bytes());
        out.extend_from_slice(&e.flags.to_le_bytes());
        out.extend_from_slice(&e.mask.to_le_bytes());
        if let Who::User(id) | Who::Group(id) = e.who {
            out.extend_from_slice(&id.to_le_bytes());
        } else if e.kind > DENY {
            out.extend_from_slice(&u64::MAX.to_le_bytes());
        }
    }
    out
}

/// Encodes entries of version 0, little-endian. Identities have 32 bits.
pub(super) fn pack_old(list: &[Ace]) -> Vec<u8> {
    let mut out = Vec::with_capacity(list.len() * 12);
    for e in list {
        let id = match e.who {
            Who::User(id) | Who::Group(id) => id as u32,
            Who::Owner | Who::OwningGroup | Who::Everyone => 0,
        };
        out.extend_from_slice(&id.to_le_bytes());
        out.extend_from_slice(&e.mask.to_le_bytes());
        out.extend_from_slice(&e.flags.to_le_bytes());
        out.extend_from_slice(&e.kind.to_le_bytes());
    }
    out
}

/// Permission bits equivalent to an ACL.
pub(crate) fn mode_of_list(list: &[Ace], uid: u32, gid: u32) -> u32 {
    mode_of(list, u64::from(uid), u64::from(gid)).0 as u32
}

/// The ACL equivalent to permission bits.
pub(crate) fn trivial_list(mode: u32, is_dir: bool) -> Vec<Ace> {
    trivial(u64::from(mode & 0o777), is_dir)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondisk::Endian;

    #[test]
    fn every_mode_comes_back_from_its_list() {
        for is_dir in [false, true] {
            for mode in 0..0o1000 {
                let list = trivial(mode, is_dir);
                let (back, flags) = mode_of(&list, 1, 1);
                assert_eq!(back, mode, "{list:?}");
                assert_eq!(flags.contains(Flags::NO_EXECS_DENIED), mode & 0o111 == 0o111);
                assert!(is_trivial(&list) && list.len() <= 6);
                assert_eq!(Ace::parse_v1(&pack(&list), Endian::Little).unwrap(), list);
                assert_eq!(Ace::parse_v0(&pack_old(&list), Endian::Little), list);
            }
        }
    }

    #[test]
    fn the_usual_file_has_the_entries_that_openzfs_gives_it() {
        let masks: Vec<_> = trivial(0o644, false).iter().map(|e| (e.kind, e.flags, e.mask)).collect();
        assert_eq!(masks, [(0, 0x1000, 0x1e_019f), (0, 0x2040, 0x12_0089), (0, 0x4000, 0x12_0089)]);
        // 0604: the owner is allowed before the group is denied.
        let kinds: Vec<_> = trivial(0o604, false).iter().map(|e| (e.kind, e.who)).collect();
        assert_eq!(kinds[..2], [(0, Who::Owner), (1, Who::OwningGroup)]);
    }

    #[test]
    fn new_files_get_what_their_directory_passes_on() {
        let to = |flags: u16, kind, mask, who| Ace { flags, ..ace(kind, mask, who) }.with_who_flags();
        let parent = [
            to(FILE_INHERIT | DIRECTORY_INHERIT, ALLOW, READ | WRITE_ACL, Who::User(7)),
            to(FILE_INHERIT, ALLOW, READ | EXECUTE, Who::Everyone),
            to(DIRECTORY_INHERIT | NO_PROPAGATE, DENY, WRITE, Who::Group(9)),
            to(0, ALLOW, READ, Who::Owner),
        ];
        let flags = |list: &[Ace]| list.iter().map(|e| e.flags & 0xf).collect::<Vec<_>>();
        let (file, mode_counts) = inherited(&parent, AclInherit::Restricted, false, true, 0o644);
        assert!(mode_counts && file.iter().all(|e| e.flags & INHERITED != 0));
        assert_eq!((flags(&file), file[0].mask), (vec![0, 0], READ), "rights over the list are not passed on");
        let (dir, _) = inherited(&parent, AclInherit::Restricted, true, false, 0o755);
        assert_eq!(flags(&dir), [FILE_INHERIT | DIRECTORY_INHERIT, FILE_INHERIT | INHERIT_ONLY, 0]);
        let (file, mode_counts) = inherited(&parent, AclInherit::PassthroughX, false, true, 0o644);
        assert_eq!((mode_counts, file[0].mask, file[1].mask), (false, READ | WRITE_ACL, READ));
        let (dir, _) = inherited(&parent, AclInherit::NoAllow, true, false, 0o755);
        assert_eq!(dir.len(), 1);
        assert_eq!(inherited(&parent, AclInherit::Discard, true, false, 0o755), (vec![], true));
        // The mode's own entries surround the inherited ones and do not replace them.
        let list = of_new(&file, 0o640, false, false);
        assert!(list.contains(&file[1]) && !is_trivial(&list));
    }

    #[test]
    fn chmod_keeps_what_is_passed_on_and_what_others_were_given() {
        let inherited = Ace { flags: Ace::FLAG_OWNER | 2, ..ace(ALLOW, READ, Who::Owner) };
        let old = [inherited, ace(ALLOW, READ | WRITE, Who::User(7)), ace(ALLOW, READ, Who::Everyone)];
        let list = with_mode(&old, 0o750, true, true);
        assert_eq!(list[0].flags, Ace::FLAG_OWNER | 2 | INHERIT_ONLY);
        assert_eq!((list[1].who, list[1].mask), (Who::User(7), READ));
        assert_eq!(list.len(), 5);
        assert!(!is_trivial(&list));
        assert_eq!(mode_of(&list, 1, 1).0, 0o750);
    }
}
