//! The work on a pool that runs in the background, over many txgs: scans, trim and initialize,
//! expansion, removal, discarding a checkpoint. It resumes when the pool is opened again.
//!
//! Here is all that the txg engine asks of such work; `txg::sync` and `lifecycle` know no more of
//! it. New work implements [`Background`], keeps its state in
//! [`BackgroundState`](super::background_state::BackgroundState), and is listed in
//! [`Shared::background_work`].
//!
//! ```text
//!   opened:  start
//!   a txg:   is_dirty ─> sync ─> sync_pass, in each pass ─> flush ─> around_uberblock
//!   then:    wants_txgs ─> the next txg at once
//!   closed:  stop
//! ```

use super::spa::{Shared, SyncTx};
use errors::Result;
use std::sync::Arc;

/// Work in the background, as the txg engine sees it.
pub(crate) trait Background: Sync {
    /// The pool is open for writing. Called once.
    fn start(&self, shared: &Arc<Shared>) {
        let _ = shared;
    }

    /// Whether it changes something in the open txg, so that the txg is synced even if nothing else
    /// changes.
    fn is_dirty(&self) -> bool {
        false
    }

    /// Whether the next txg must follow at once.
    fn wants_txgs(&self) -> bool {
        false
    }

    /// Its part of a txg, after the changes of datasets and tasks.
    fn sync(&self, cx: &SyncTx<'_>) -> Result<()> {
        let _ = cx;
        Ok(())
    }

    /// Called in each pass over the MOS, before the space maps are written.
    fn sync_pass(&self, cx: &SyncTx<'_>) -> Result<()> {
        let _ = cx;
        Ok(())
    }

    /// Called when everything of the txg is flushed. `write` writes its uberblock, unless it
    /// returns false: then another pass is needed, and this is called again. Calls `write` once,
    /// and returns its result.
    fn around_uberblock(&self, cx: &SyncTx<'_>, write: WriteUberblock<'_>) -> Result<bool> {
        let _ = cx;
        write()
    }

    /// Ends its threads and waits for them. Called before the pool is closed, possibly several
    /// times.
    fn stop(&self, shared: &Shared) {
        let _ = shared;
    }
}

/// Writes the uberblock. Returns whether it was written.
pub(crate) type WriteUberblock<'a> = &'a mut dyn FnMut() -> Result<bool>;

/// See [`Background::around_uberblock`].
pub(crate) fn around_uberblock(work: &[&dyn Background], cx: &SyncTx<'_>, write: WriteUberblock<'_>) -> Result<bool> {
    match work {
        [] => write(),
        [first, rest @ ..] => first.around_uberblock(cx, &mut || around_uberblock(rest, cx, write)),
    }
}

impl Shared {
    /// All work in the background, in the order in which it takes part in a txg and is stopped.
    /// Removal comes last: it copies what the others changed.
    pub(crate) fn background_work(&self) -> [&dyn Background; 5] {
        let all = &self.background;
        [&all.discarding, &all.expansion, &all.sweeps, &all.scan, &all.evacuation]
    }

    /// Ends what runs in the background, and waits for it.
    pub(crate) fn stop_background(&self) {
        self.background_work().iter().for_each(|work| work.stop(self));
    }
}
