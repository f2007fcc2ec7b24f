//! Deduplicated blocks: contents that are stored once and used several times.
//!
//! Only the interface is here; `pool::dedup` keeps the tables. As with
//! [`Allocate`](crate::Allocate), the tables are objects made of blocks, so the block layer cannot
//! depend on them.
//!
//! ```text
//!   find ─┬─ Stored: the pointer gets its addresses, the block is used once more
//!         ├─ Write: the caller writes; others with the same contents wait ─┬─ wrote
//!         │                                                                └─ gave_up
//!         └─ No: write it as if there were no tables
//! ```

use errors::Result;
use ondisk::{BlkPtr, Dva, Txg};

/// Location of contents that a dedup table knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// Addresses. For encrypted blocks, the third one holds salt and IV.
    pub dvas: [Dva; 3],
    /// Txg in which the contents were written.
    pub birth: Txg,
}

impl Stored {
    /// Makes `bp`, born in `txg`, point to these contents. Leaves the third address of an encrypted
    /// block alone.
    pub fn fill(&self, bp: &mut BlkPtr, txg: Txg) {
        let addresses = if bp.is_encrypted() { 2 } else { 3 };
        for (index, dva) in self.dvas.iter().enumerate().take(addresses) {
            bp.set_dva(index, *dva);
        }
        bp.set_birth(txg, self.birth);
    }
}

/// Result of looking up contents that are about to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// They are stored already. The lookup counted one more reference.
    Stored(Stored),
    /// They are not stored, or in fewer copies than requested. The caller writes them and then
    /// calls [`Duplicates::wrote`] or [`Duplicates::gave_up`].
    Write {
        /// Number of copies to write, in addition to those in `have`.
        copies: u8,
        /// The copies that exist already.
        have: Option<Stored>,
    },
    /// No table covers them.
    No,
}

/// The dedup tables, for the block layer. `pool::dedup` implements it.
pub trait Duplicates: Send + Sync {
    /// Looks up the contents of a pointer whose checksum, sizes and compression are set. Blocks
    /// while another thread is writing the same contents.
    fn find(&self, bp: &BlkPtr, copies: u8) -> Result<Found>;
    /// Ends a [`Found::Write`]: the contents are stored at the addresses of `bp`, which include the
    /// addresses that existed before, and have one reference more.
    fn wrote(&self, bp: &BlkPtr, copies: u8);
    /// Ends a [`Found::Write`]: the contents were not written, or were written outside the table.
    fn gave_up(&self, bp: &BlkPtr);
    /// Drops one reference to a block. Returns false if no table knows the block: then it has one
    /// reference only.
    fn release(&self, bp: &BlkPtr) -> Result<bool>;
}
