//! Undoing an operation on names that fails half-way.
//!
//! Such an operation changes directories, files and the queue of unlinked files in turn. Any of
//! these steps may first have to read a block, and fail. The steps before it are then undone, so
//! that the caller finds everything as it was, and a record of the intent log can be replayed again
//! or skipped.
//!
//! Invariants:
//!   * a step makes its whole change or none
//!   * undoing reads nothing from a device: what a step changed stays in memory until its txg is
//!     synced
//!   * freeing a file cannot be undone, so it is the last step

use super::FileSystem;
use super::live::Locked;
use super::state::State;
use errors::Result;
use object::Tx;
use ondisk::zap::Value as ZapValue;
use ondisk::znode::DirEntryValue;

/// The steps of an operation that are complete, and the attributes that its files had before.
pub(super) struct Undo {
    states: Vec<State>,
    steps: Vec<Step>,
}

enum Step {
    /// A name was added to a directory.
    Entered { dir: u64, name: Vec<u8> },
    /// A name was removed from a directory, or leads to another file than `value` now.
    Changed { dir: u64, name: Vec<u8>, value: DirEntryValue },
    /// A file was created. Its name is a step of its own.
    Made { id: u64 },
}

impl Undo {
    pub fn entered(&mut self, dir: u64, name: &[u8]) {
        self.steps.push(Step::Entered { dir, name: name.to_vec() });
    }

    pub fn changed(&mut self, dir: u64, name: &[u8], value: DirEntryValue) {
        self.steps.push(Step::Changed { dir, name: name.to_vec(), value });
    }

    pub fn made(&mut self, id: u64) {
        self.steps.push(Step::Made { id });
    }
}

impl FileSystem {
    /// Runs the steps of an operation on the locked files `ids`. If a step fails, those before it
    /// are undone.
    pub(super) fn in_steps<R>(
        &self,
        tx: &Tx,
        l: &mut Locked<'_>,
        ids: &[u64],
        steps: impl FnOnce(&mut Locked<'_>, &mut Undo) -> Result<R>,
    ) -> Result<R> {
        let mut ids = ids.to_vec();
        ids.sort_unstable();
        ids.dedup();
        let mut undo = Undo { states: ids.into_iter().map(|id| l.get(id).clone()).collect(), steps: Vec::new() };
        let result = steps(l, &mut undo);
        if result.is_err()
            && let Err(error) = self.undo(tx, l, undo)
        {
            tracing::error!(dataset = self.options.name, %error, "an operation failed and could not be undone");
            if let Some(live) = self.live.as_ref().filter(|_| !self.is_replaying()) {
                // No record describes the steps that remain.
                live.backing.unloggable_for_all(tx);
            }
        }
        result
    }

    /// Undoes as many steps as possible; returns the first error.
    fn undo(&self, tx: &Tx, l: &mut Locked<'_>, undo: Undo) -> Result<()> {
        let mut result = Ok(());
        for step in undo.steps.into_iter().rev() {
            result = result.and(self.undo_step(tx, step));
        }
        for before in undo.states {
            let state = l.get(before.object.id());
            result = result.and(state.put_back(self, tx, before));
        }
        result
    }

    fn undo_step(&self, tx: &Tx, step: Step) -> Result<()> {
        match step {
            Step::Entered { dir, name } => self.dir_zap(dir)?.remove(tx, name),
            Step::Changed { dir, name, value } => self.dir_zap(dir)?.update(tx, name, &ZapValue::one(value.pack())),
            Step::Made { id } => self.unmake(tx, id),
        }
    }

    /// Frees a file that was created in `tx`, with its extended attributes.
    pub(super) fn unmake(&self, tx: &Tx, id: u64) -> Result<()> {
        let live = self.live()?;
        let file = self.load_state(id)?;
        let hidden = file.xattr_dir;
        let mut gone = vec![id];
        gone.extend(file.entries_object(self)?.map(|object| object.id()));
        if hidden != 0 {
            let entries = self.dir_zap(hidden)?.entries()?;
            gone.extend(entries.iter().filter_map(|e| e.value.ints.first()).map(|v| DirEntryValue::unpack(*v).object));
            gone.push(hidden);
        }
        gone.into_iter().try_for_each(|id| {
            self.objset.free_object(tx, id)?;
            live.backing.forget(id);
            live.forget(id);
            Ok(())
        })
    }
}
