//! Objects made of blocks.
pub use block::{Block, Bookmark, Error, Place, Result};
