//! `bitmap4`, and the numbers of the attributes (RFC 7530 section 5, RFC 8881 section 5, RFC 7862
//! section 12.2, RFC 8275, RFC 8276).

use crate::nfs::xdr::{self, Reader, Writer};

/// A set of attributes by number. Numbers from 96 on are not defined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Bitmap([u32; 3]);

/// Maximum number of words in a bitmap. Further words cannot hold defined attributes.
const WORDS_MAX: usize = 128;

impl Bitmap {
    pub const fn of(numbers: &[u32]) -> Self {
        let (mut words, mut i) = ([0; 3], 0);
        while i < numbers.len() {
            words[(numbers[i] / 32) as usize] |= 1 << (numbers[i] % 32);
            i += 1;
        }
        Self(words)
    }

    pub fn read(r: &mut Reader<'_>) -> xdr::Result<Self> {
        let (mut words, count) = ([0; 3], r.list(WORDS_MAX, 4)?);
        for i in 0..count {
            let word = r.u32()?;
            if let Some(slot) = words.get_mut(i) {
                *slot = word;
            }
        }
        Ok(Self(words))
    }

    pub fn write(&self, w: &mut Writer) {
        let len = self.0.iter().rposition(|word| *word != 0).map_or(0, |i| i + 1);
        w.u32(len as u32);
        self.0[..len].iter().for_each(|word| w.u32(*word));
    }

    pub fn has(&self, number: u32) -> bool {
        self.0[(number / 32) as usize] & 1 << (number % 32) != 0
    }

    pub fn insert(&mut self, number: u32) {
        self.0[(number / 32) as usize] |= 1 << (number % 32);
    }

    pub fn and(&self, other: Self) -> Self {
        Self([self.0[0] & other.0[0], self.0[1] & other.0[1], self.0[2] & other.0[2]])
    }

    pub fn or(&self, other: Self) -> Self {
        Self([self.0[0] | other.0[0], self.0[1] | other.0[1], self.0[2] | other.0[2]])
    }

    pub fn minus(&self, other: Self) -> Self {
        Self([self.0[0] & !other.0[0], self.0[1] & !other.0[1], self.0[2] & !other.0[2]])
    }

    pub fn is_empty(&self) -> bool {
        self.0 == [0; 3]
    }

    /// The numbers in ascending order.
    pub fn numbers(self) -> impl Iterator<Item = u32> {
        (0..96).filter(move |n| self.has(*n))
    }
}

macro_rules! numbers {
    ($($name:ident = $value:expr),+ $(,)?) => { $(pub(crate) const $name: u32 = $value;)+ };
}

numbers! {
    SUPPORTED_ATTRS = 0, TYPE = 1, FH_EXPIRE_TYPE = 2, CHANGE = 3, SIZE = 4, LINK_SUPPORT = 5, SYMLINK_SUPPORT = 6,
    NAMED_ATTR = 7, FSID = 8, UNIQUE_HANDLES = 9, LEASE_TIME = 10, RDATTR_ERROR = 11, ACL = 12, ACLSUPPORT = 13,
    CANSETTIME = 15, CASE_INSENSITIVE = 16, CASE_PRESERVING = 17, CHOWN_RESTRICTED = 18, FILEHANDLE = 19, FILEID = 20,
    FILES_AVAIL = 21, FILES_FREE = 22, FILES_TOTAL = 23, HOMOGENEOUS = 26, MAXFILESIZE = 27, MAXLINK = 28,
    MAXNAME = 29, MAXREAD = 30, MAXWRITE = 31, MODE = 33, NO_TRUNC = 34, NUMLINKS = 35, OWNER = 36, OWNER_GROUP = 37,
    RAWDEV = 41, SPACE_AVAIL = 42, SPACE_FREE = 43, SPACE_TOTAL = 44, SPACE_USED = 45, TIME_ACCESS = 47,
    TIME_ACCESS_SET = 48, TIME_CREATE = 50, TIME_DELTA = 51, TIME_METADATA = 52, TIME_MODIFY = 53,
    TIME_MODIFY_SET = 54, MOUNTED_ON_FILEID = 55, FS_LAYOUT_TYPES = 62, MODE_SET_MASKED = 74,
    SUPPATTR_EXCLCREAT = 75, CHANGE_ATTR_TYPE = 79, MODE_UMASK = 81, XATTR_SUPPORT = 82,
}

/// Supported attributes that RFC 7530 defines.
const OF_V40: Bitmap = Bitmap::of(&[
    SUPPORTED_ATTRS,
    TYPE,
    FH_EXPIRE_TYPE,
    CHANGE,
    SIZE,
    LINK_SUPPORT,
    SYMLINK_SUPPORT,
    NAMED_ATTR,
    FSID,
    UNIQUE_HANDLES,
    LEASE_TIME,
    RDATTR_ERROR,
    ACL,
    ACLSUPPORT,
    CANSETTIME,
    CASE_INSENSITIVE,
    CASE_PRESERVING,
    CHOWN_RESTRICTED,
    FILEHANDLE,
    FILEID,
    FILES_AVAIL,
    FILES_FREE,
    FILES_TOTAL,
    HOMOGENEOUS,
    MAXFILESIZE,
    MAXLINK,
    MAXNAME,
    MAXREAD,
    MAXWRITE,
    MODE,
    NO_TRUNC,
    NUMLINKS,
    OWNER,
    OWNER_GROUP,
    RAWDEV,
    SPACE_AVAIL,
    SPACE_FREE,
    SPACE_TOTAL,
    SPACE_USED,
    TIME_ACCESS,
    TIME_ACCESS_SET,
    TIME_CREATE,
    TIME_DELTA,
    TIME_METADATA,
    TIME_MODIFY,
    TIME_MODIFY_SET,
    MOUNTED_ON_FILEID,
]);
const ADDED_BY_V41: Bitmap = Bitmap::of(&[FS_LAYOUT_TYPES, MODE_SET_MASKED, SUPPATTR_EXCLCREAT]);
const ADDED_BY_V42: Bitmap = Bitmap::of(&[CHANGE_ATTR_TYPE, MODE_UMASK, XATTR_SUPPORT]);
/// Attributes that can be set but not read.
pub(crate) const ONLY_SET: Bitmap = Bitmap::of(&[TIME_ACCESS_SET, TIME_MODIFY_SET, MODE_SET_MASKED, MODE_UMASK]);
/// Attributes that SETATTR accepts.
pub(crate) const SETTABLE: Bitmap = Bitmap::of(&[
    SIZE,
    ACL,
    MODE,
    OWNER,
    OWNER_GROUP,
    TIME_ACCESS_SET,
    TIME_CREATE,
    TIME_MODIFY_SET,
    MODE_SET_MASKED,
    MODE_UMASK,
]);
/// Attributes that an exclusive create accepts (4.1); the verifier occupies the times.
pub(crate) const EXCLUSIVE_CREATE: Bitmap =
    Bitmap::of(&[SIZE, ACL, MODE, OWNER, OWNER_GROUP, TIME_CREATE, MODE_SET_MASKED, MODE_UMASK]);

/// The attributes that a minor version supports.
pub(crate) fn supported(minor: u32) -> Bitmap {
    match minor {
        0 => OF_V40,
        1 => OF_V40.or(ADDED_BY_V41),
        _ => OF_V40.or(ADDED_BY_V41).or(ADDED_BY_V42),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailing_zero_words_are_not_written() {
        let mut w = Writer::new();
        Bitmap::of(&[TYPE, MODE]).write(&mut w);
        Bitmap::default().write(&mut w);
        assert_eq!(w.to_vec(), [0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 0]);
        let bytes = w.to_vec();
        let mut r = Reader::new(&bytes);
        assert_eq!(Bitmap::read(&mut r), Ok(Bitmap::of(&[MODE, TYPE])));
        assert_eq!(Bitmap::read(&mut r).map(|b| b.is_empty()), Ok(true));
    }

    #[test]
    fn attributes_of_later_versions_are_not_returned_to_earlier_ones() {
        assert!(!supported(0).has(SUPPATTR_EXCLCREAT) && supported(1).has(SUPPATTR_EXCLCREAT));
        assert!(!supported(1).has(XATTR_SUPPORT) && supported(2).has(XATTR_SUPPORT));
        assert!(SETTABLE.minus(supported(2)).is_empty());
    }
}
