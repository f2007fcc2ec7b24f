//! What both encodings reject.

use crate::error::{Error, Result};

/// Maximum nesting depth: what OpenZFS accepts in user space (20 in the kernel).
pub const MAX_DEPTH: usize = 100;

/// Rejects an element count that is invalid for the type, as OpenZFS does.
pub fn check_count(type_number: u32, count: usize) -> Result<()> {
    let expected = match type_number {
        1 => 0,
        2..=9 | 18 | 19 | 21..=23 | 27 => 1,
        10..=17 | 20 | 24..=26 => return Ok(()),
        other => return Err(Error::corrupt("nvpair", "nvp_type", other, "1 to 27")),
    };
    if count != expected {
        return Err(Error::corrupt("nvpair", "nvp_value_elem", count, expected));
    }
    Ok(())
}

pub fn check_depth(depth: usize) -> Result<()> {
    if depth > MAX_DEPTH {
        return Err(Error::corrupt("nvlist", "depth", depth, format_args!("at most {MAX_DEPTH}")));
    }
    Ok(())
}

pub fn check_version(version: u32) -> Result<()> {
    if version != 0 {
        return Err(Error::Unsupported { structure: "nvlist", what: format!("nvl_version {version}") });
    }
    Ok(())
}

pub fn boolean(raw: u32) -> Result<bool> {
    match raw {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(Error::corrupt("nvpair", "boolean", other, "0 or 1")),
    }
}
