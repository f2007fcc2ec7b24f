//! Error log: blocks that could not be read or repaired, so that `status -v` can name the files.
//!
//! The MOS objects `errlog_last` and `errlog_scrub` are ZAPs. The entry names hold the data:
//! hexadecimal numbers separated by colons. The values are irrelevant (the name of a dataset, or
//! empty).
//!
//! | form            | since       | name                        | location                       |
//! |-----------------|-------------|-----------------------------|--------------------------------|
//! | old             | v1          | `objset:object:level:block` | in the ZAP itself              |
//! | by head dataset | head_errlog | `object:level:block:birth`  | in a ZAP for each dataset; the |
//! |                 |             |                             | outer ZAP maps the dataset's   |
//! |                 |             |                             | number (hexadecimal) to that   |
//! |                 |             |                             | ZAP's number                   |
//!
//! Levels are signed: -1 is the object set's root block, -2 the intent log; printed as 16
//! hexadecimal digits. With head_errlog, one entry covers all snapshots and clones that contain the
//! block.
//!
//! ```text
//! 36:2:0:1a          dataset 0x36, object 2, level 0, block 0x1a
//! 2:0:1a:3f          object 2, level 0, block 0x1a, born in txg 0x3f
//! ```
//!
//! Source: module/zfs/spa_errlog.c.

use crate::error::{Error, Result};
use crate::types::Txg;

/// A block of a dataset or snapshot (`zbookmark_phys_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorBookmark {
    /// Object number of the dataset in the MOS; 0 is the MOS itself.
    pub objset: u64,
    /// Object number; 0 is the meta-dnode.
    pub object: u64,
    /// Level in the block tree; negative as described above.
    pub level: i64,
    /// Block number at that level.
    pub block: u64,
}

/// A block of a dataset and of the datasets that share it (`zbookmark_err_phys_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HeadError {
    /// Object number; 0 is the meta-dnode.
    pub object: u64,
    /// Level in the block tree.
    pub level: i64,
    /// Block number at that level.
    pub block: u64,
    /// Txg in which the block was born.
    pub birth: Txg,
}

fn fields<const N: usize>(name: &[u8]) -> Result<[u64; N]> {
    let wrong = || {
        let found = String::from_utf8_lossy(&name[..name.len().min(80)]).into_owned();
        Error::corrupt("errlog", "name", found, format_args!("{N} hexadecimal numbers"))
    };
    let text = std::str::from_utf8(name).map_err(|_| wrong())?;
    let mut parts = text.split(':');
    let mut out = [0; N];
    for slot in &mut out {
        let part = parts.next().filter(|p| p.bytes().all(|b| b.is_ascii_hexdigit())).ok_or_else(wrong)?;
        *slot = u64::from_str_radix(part, 16).map_err(|_| wrong())?;
    }
    if parts.next().is_some() { Err(wrong()) } else { Ok(out) }
}

/// Some versions truncated levels to 32 bits.
fn level(raw: u64) -> i64 {
    raw as u32 as i32 as i64
}

impl ErrorBookmark {
    /// Parses a name in the old form.
    pub fn parse(name: &[u8]) -> Result<Self> {
        let [objset, object, raw_level, block] = fields(name)?;
        Ok(Self { objset, object, level: level(raw_level), block })
    }
}

impl std::fmt::Display for ErrorBookmark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:x}:{:x}:{:x}:{:x}", self.objset, self.object, self.level, self.block)
    }
}

impl HeadError {
    /// Parses a name in the head_errlog form.
    pub fn parse(name: &[u8]) -> Result<Self> {
        let [object, raw_level, block, birth] = fields(name)?;
        Ok(Self { object, level: level(raw_level), block, birth: Txg(birth) })
    }
}

impl std::fmt::Display for HeadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:x}:{:x}:{:x}:{:x}", self.object, self.level, self.block, self.birth.0)
    }
}

/// With head_errlog: the dataset that a name of the outer ZAP refers to.
pub fn parse_head(name: &[u8]) -> Result<u64> {
    fields::<1>(name).map(|[object]| object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::never_panics;

    #[test]
    fn names_of_both_forms_write_back() {
        let old = ErrorBookmark::parse(b"36:2:0:1a").unwrap();
        assert_eq!(old, ErrorBookmark { objset: 0x36, object: 2, level: 0, block: 0x1a });
        assert_eq!(old.to_string(), "36:2:0:1a");
        let new = HeadError::parse(b"2:0:1a:3f").unwrap();
        assert_eq!(new, HeadError { object: 2, level: 0, block: 0x1a, birth: Txg(0x3f) });
        assert_eq!(new.to_string(), "2:0:1a:3f");
        assert_eq!(parse_head(b"36").unwrap(), 0x36);
    }

    #[test]
    fn levels_are_signed() {
        let root = ErrorBookmark::parse(b"36:0:ffffffffffffffff:0").unwrap();
        assert_eq!((root.level, root.to_string().as_str()), (-1, "36:0:ffffffffffffffff:0"));
        assert_eq!(ErrorBookmark::parse(b"36:0:fffffffe:0").unwrap().level, -2);
    }

    #[test]
    fn other_names_are_refused() {
        for name in [&b""[..], b"1:2:3", b"1:2:3:4:5", b"1:2:3:", b"+1:2:3:4", b"1:2:3:10000000000000000", b"g:2:3:4"] {
            assert!(ErrorBookmark::parse(name).is_err(), "{name:?}");
        }
        never_panics(b"36:2:0:1a", |bytes| {
            let _ = (ErrorBookmark::parse(bytes), HeadError::parse(bytes), parse_head(bytes));
        });
    }
}
