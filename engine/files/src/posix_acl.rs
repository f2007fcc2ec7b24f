//! POSIX access control lists, in the form that Linux passes as extended attributes.
//!
//! Above: all code that changes files ([`crate::memory`], `zpl`). OpenZFS stores the very same
//! bytes (`acltype=posix`).
//!
//! ```text
//! u32 version = 2, then for each entry:
//!   u16 tag, u16 permission bits (rwx), u32 user or group (u32::MAX: none). Little-endian.
//! ```
//!
//! Invariants of a [`PosixAcl`]:
//!   * exactly one entry each for owner, owning group and others; named entries require a mask
//!   * sorted: owner, named users, owning group, named groups, mask, others

use errors::{Error, Result};

/// Extended attribute that holds the access ACL.
pub const ACCESS: &[u8] = b"system.posix_acl_access";
/// Extended attribute of a directory that holds the default ACL of new files in it.
pub const DEFAULT: &[u8] = b"system.posix_acl_default";

const VERSION: u32 = 2;
const NO_ID: u32 = u32::MAX;

/// The subject of an entry, in list order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Tag {
    Owner = 0x01,
    User = 0x02,
    OwningGroup = 0x04,
    Group = 0x08,
    Mask = 0x10,
    Others = 0x20,
}

impl Tag {
    fn parse(n: u16) -> Option<Self> {
        [Self::Owner, Self::User, Self::OwningGroup, Self::Group, Self::Mask, Self::Others]
            .into_iter()
            .find(|t| *t as u16 == n)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    tag: Tag,
    bits: u32,
    id: u32,
}

/// A list with sorted entries, and with a mask if users or groups are named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PosixAcl(Vec<Entry>);

impl PosixAcl {
    /// Parses an attribute's value; `None` for a list without entries, which means "no list".
    pub fn parse(value: &[u8]) -> Result<Option<Self>> {
        let invalid = |what: &str| Error::invalid("POSIX ACL", what);
        if value.is_empty() {
            return Ok(None);
        }
        let (version, rest) = value.split_first_chunk::<4>().ok_or_else(|| invalid("shorter than its header"))?;
        if u32::from_le_bytes(*version) != VERSION {
            return Err(invalid("version is not 2"));
        }
        if rest.is_empty() {
            return Ok(None);
        }
        let (chunks, left) = rest.as_chunks::<8>();
        if !left.is_empty() {
            return Err(invalid("size is not that of whole entries"));
        }
        let mut entries = Vec::with_capacity(chunks.len());
        for &[t0, t1, b0, b1, i0, i1, i2, i3] in chunks {
            let tag = Tag::parse(u16::from_le_bytes([t0, t1])).ok_or_else(|| invalid("unknown tag"))?;
            let bits = u32::from(u16::from_le_bytes([b0, b1]));
            let id = u32::from_le_bytes([i0, i1, i2, i3]);
            let named = matches!(tag, Tag::User | Tag::Group);
            if bits > 7 || (named && id == NO_ID) {
                return Err(invalid("entry with invalid permissions or without an id"));
            }
            entries.push(Entry { tag, bits, id: if named { id } else { NO_ID } });
        }
        if !entries.is_sorted_by_key(|e| e.tag) {
            return Err(invalid("entries are not in order"));
        }
        let count = |tag| entries.iter().filter(|e| e.tag == tag).count();
        let named = count(Tag::User) + count(Tag::Group) > 0;
        let single = [Tag::Owner, Tag::OwningGroup, Tag::Others].iter().all(|&t| count(t) == 1);
        if !single || count(Tag::Mask) > 1 || (named && count(Tag::Mask) == 0) {
            return Err(invalid("owner, group, others or mask are missing or doubled"));
        }
        Ok(Some(Self(entries)))
    }

    /// Encodes the list as an attribute's value.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(4 + self.0.len() * 8);
        out.extend_from_slice(&VERSION.to_le_bytes());
        for e in &self.0 {
            out.extend_from_slice(&(e.tag as u16).to_le_bytes());
            out.extend_from_slice(&(e.bits as u16).to_le_bytes());
            out.extend_from_slice(&e.id.to_le_bytes());
        }
        out
    }

    /// Permission bits (0777) equivalent to this list; the mask, if present, supplies the group
    /// bits.
    pub fn mode(&self) -> u32 {
        let bits = |tag| self.0.iter().find(|e| e.tag == tag).map(|e| e.bits);
        let group = bits(Tag::Mask).or(bits(Tag::OwningGroup)).unwrap_or(0);
        bits(Tag::Owner).unwrap_or(0) << 6 | group << 3 | bits(Tag::Others).unwrap_or(0)
    }

    /// Whether the list grants all of `want` (rwx as 4, 2, 1) to a user who is not the superuser,
    /// on a file owned by `owner` and `owning_group`.
    pub fn permits(
        &self,
        owner: u32,
        owning_group: u32,
        uid: u32,
        is_in_group: impl Fn(u32) -> bool,
        want: u32,
    ) -> bool {
        let mask = self.0.iter().find(|e| e.tag == Tag::Mask).map_or(7, |e| e.bits);
        let has = |bits: u32| bits & want == want;
        let mut is_in_some_group = false;
        for e in &self.0 {
            match e.tag {
                Tag::Owner if uid == owner => return has(e.bits),
                Tag::User if uid == e.id => return has(e.bits & mask),
                Tag::OwningGroup if is_in_group(owning_group) => {
                    if has(e.bits & mask) {
                        return true;
                    }
                    is_in_some_group = true;
                }
                Tag::Group if is_in_group(e.id) => {
                    if has(e.bits & mask) {
                        return true;
                    }
                    is_in_some_group = true;
                }
                Tag::Others => return !is_in_some_group && has(e.bits),
                _ => {}
            }
        }
        false
    }

    /// Whether the permission bits express the whole list, so that it need not be stored.
    pub fn is_mode_alone(&self) -> bool {
        self.0.len() == 3
    }

    /// The list after chmod(2) to `mode`.
    #[must_use]
    pub fn with_mode(&self, mode: u32) -> Self {
        let has_mask = self.0.iter().any(|e| e.tag == Tag::Mask);
        let change = |mut e: Entry| {
            match e.tag {
                Tag::Owner => e.bits = mode >> 6 & 7,
                Tag::OwningGroup if !has_mask => e.bits = mode >> 3 & 7,
                Tag::Mask => e.bits = mode >> 3 & 7,
                Tag::Others => e.bits = mode & 7,
                Tag::OwningGroup | Tag::User | Tag::Group => {}
            }
            e
        };
        Self(self.0.iter().copied().map(change).collect())
    }

    /// What a new file created with `mode` inherits from this default list: its own list and its
    /// permission bits (all 07777). The umask is ignored.
    #[must_use]
    pub fn inherited(&self, mode: u32) -> (Self, u32) {
        let has_mask = self.0.iter().any(|e| e.tag == Tag::Mask);
        let change = |mut e: Entry| {
            match e.tag {
                Tag::Owner => e.bits &= mode >> 6,
                Tag::OwningGroup if !has_mask => e.bits &= mode >> 3,
                Tag::Mask => e.bits &= mode >> 3,
                Tag::Others => e.bits &= mode,
                Tag::OwningGroup | Tag::User | Tag::Group => {}
            }
            e
        };
        let acl = Self(self.0.iter().copied().map(change).collect());
        let mode = mode & 0o7000 | acl.mode();
        (acl, mode)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The value of the extended attribute with these tags, permissions and ids.
    pub(crate) fn bytes(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let mut out = 2_u32.to_le_bytes().to_vec();
        for (tag, bits, id) in entries {
            out.extend_from_slice(&tag.to_le_bytes());
            out.extend_from_slice(&bits.to_le_bytes());
            out.extend_from_slice(&id.to_le_bytes());
        }
        out
    }

    fn full() -> PosixAcl {
        let value = bytes(&[(1, 7, NO_ID), (2, 6, 1000), (4, 5, NO_ID), (8, 7, 50), (16, 6, NO_ID), (32, 1, NO_ID)]);
        let acl = PosixAcl::parse(&value).expect("valid").expect("has entries");
        assert_eq!(acl.to_bytes(), value);
        acl
    }

    #[test]
    fn the_mask_replaces_the_group_in_the_mode() {
        assert_eq!(full().mode(), 0o761);
        assert!(!full().is_mode_alone());
        assert_eq!(full().with_mode(0o640).mode(), 0o640);
        let group = full().with_mode(0o640).0.iter().find(|e| e.tag == Tag::OwningGroup).map(|e| e.bits);
        assert_eq!(group, Some(5), "chmod changes the mask and not the group's entry");
    }

    #[test]
    fn a_new_file_gets_the_access_that_the_list_and_its_creator_allow() {
        let (acl, mode) = full().inherited(0o2666);
        assert_eq!(mode, 0o2660);
        assert_eq!(acl.mode(), 0o660);
        let plain =
            PosixAcl::parse(&bytes(&[(1, 7, NO_ID), (4, 5, NO_ID), (32, 5, NO_ID)])).expect("valid").expect("some");
        let (acl, mode) = plain.inherited(0o777);
        assert_eq!((acl.is_mode_alone(), mode), (true, 0o755));
    }

    #[test]
    fn an_invalid_list_is_refused() {
        let whole = [(1, 7, NO_ID), (4, 5, NO_ID), (32, 5, NO_ID)];
        let mut bad = vec![vec![1], vec![1, 0, 0, 0], bytes(&whole)[..20].to_vec()];
        bad.push(bytes(&whole[..2]));
        bad.push(bytes(&[(4, 5, NO_ID), (1, 7, NO_ID), (32, 5, NO_ID)]));
        bad.push(bytes(&[(1, 8, NO_ID), (4, 5, NO_ID), (32, 5, NO_ID)]));
        bad.push(bytes(&[(1, 7, NO_ID), (2, 7, 5), (4, 5, NO_ID), (32, 5, NO_ID)]));
        bad.push(bytes(&[(1, 7, NO_ID), (4, 5, NO_ID), (16, 5, NO_ID), (16, 5, NO_ID), (32, 5, NO_ID)]));
        for value in bad {
            assert!(matches!(PosixAcl::parse(&value), Err(Error::Invalid { .. })), "{value:?}");
        }
        assert_eq!(PosixAcl::parse(b"").expect("no list"), None);
        assert_eq!(PosixAcl::parse(&bytes(&[])).expect("no list"), None);
    }
}
