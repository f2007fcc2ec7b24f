//! Objects made of blocks.
pub mod zap;

pub use block::{Block, Bookmark, Error, Place, Result};
pub use zap::{Zap, ZapEntry, ZapValue};
