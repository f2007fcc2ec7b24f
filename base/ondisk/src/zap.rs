//! ZAP ("ZFS attribute processor"): a hash table stored in an object. Directories, properties and
//! nearly all indexes are ZAPs.
//!
//! ```text
//! micro: one block             fat: block 0         table blocks       leaf blocks
//! +--------+----+----+----+    +--------+-------+   +------------+     +--------+------+--------+
//! | header | entry | ...  |    | header | table |-->| block nos. |---> | header | hash | chunks |
//! +--------+----+----+----+    +--------+-------+   +------------+     +--------+------+--------+
//! ```
//!
//! The first word of a block identifies its kind. A small ZAP, whose names have at most 49 bytes
//! and whose values are one 64-bit number, is a [`micro`] ZAP. Others are [`fat`]: the top bits of
//! a name's [`hash`] index a table of block numbers, which leads to a [`leaf`].
//!
//! Sources: include/sys/zap_impl.h, zap_leaf.h, zap.h; module/zfs/zap*.c.

mod block;
pub mod fat;
mod flags;
pub mod hash;
pub mod leaf;
pub mod micro;
pub mod swap;
mod value;

pub use block::BlockKind;
pub use fat::Header;
pub use flags::{Flags, NormFlags};
pub use leaf::edit::{Key, LeafMut};
pub use leaf::{Leaf, LeafEntry};
pub use micro::{Micro, MicroEntry};
pub use value::Value;
pub(crate) use value::first_words;

#[cfg(test)]
mod tests;
