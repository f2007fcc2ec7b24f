//! Contents that are stored once and used several times. `pool::dedup` keeps the tables; here are only the questions.
//!
//! The cut is that of [`Allocate`](crate::Allocate): tables are objects made of blocks, so blocks cannot know them.
//!
//! ```text
//!   find ─┬─ Stored: the pointer gets its addresses, the block is used once more
//!         ├─ Write: who asked writes, others who ask for the same contents wait ─┬─ wrote
//!         │                                                                      └─ gave_up
//!         └─ No: write it as if there were no tables
//! ```

use crate::Result;
use ondisk::{BlkPtr, Dva, Txg};

/// Where contents are that a table knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// Addresses; of encrypted blocks the third is salt and IV.
    pub dvas: [Dva; 3],
    /// Txg in which they were written.
    pub birth: Txg,
}

impl Stored {
    /// Lets a pointer to the same contents, born in `txg`, lead there.
    pub fn fill(&self, bp: &mut BlkPtr, txg: Txg) {
        let addresses = if bp.is_encrypted() { 2 } else { 3 };
        for (index, dva) in self.dvas.iter().enumerate().take(addresses) {
            bp.set_dva(index, *dva);
        }
        bp.set_birth(txg, self.birth);
    }
}

/// What a table says of contents that are to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// They are there, and count one use more.
    Stored(Stored),
    /// They are not there, or in fewer copies than are wanted: who asked writes them, and tells.
    Write {
        /// Copies to write.
        copies: u8,
        /// Copies that are there already.
        have: Option<Stored>,
    },
    /// No table takes them.
    No,
}

/// Knows the blocks that were deduplicated.
pub trait Duplicates: Send + Sync {
    /// Looks for the contents of a pointer whose checksum, sizes and compression are set. Waits for whoever writes the same.
    fn find(&self, bp: &BlkPtr, copies: u8) -> Result<Found>;
    /// After [`Found::Write`]: the contents are at the addresses of `bp`, those that were there before among them, and are
    /// used once, or once more.
    fn wrote(&self, bp: &BlkPtr, copies: u8);
    /// After [`Found::Write`]: they are not written, or without a table.
    fn gave_up(&self, bp: &BlkPtr);
    /// Takes one use of a block away. False: no table has the block, and it is used once.
    fn release(&self, bp: &BlkPtr) -> Result<bool>;
}
