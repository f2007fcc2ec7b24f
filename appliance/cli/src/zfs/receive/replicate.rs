//! Repeats what happened to datasets and snapshots since the last `zfs send -R`. Datasets and
//! snapshots are identified by guid.
//!
//! | in the sending pool                 | here                       |
//! |-------------------------------------|----------------------------|
//! | a snapshot or dataset was destroyed | it is destroyed, with `-F` |
//! | it was renamed, or moved            | it is renamed              |
//! | a clone was promoted                | it is promoted             |
//! | a snapshot has other properties     | they are received          |
//!
//! A step that is not possible yet, because a name is taken or a parent has not arrived, is
//! retried. Facts: `recv_incremental_replication` in lib/libzfs/libzfs_sendrecv.c.

use super::list::List;
use super::name::Destination;
use super::receiver::Receiver;
use crate::context::{Context, Failure};
use dataset::{Dataset, ListOptions, write};
use errors::Error;

/// The limit of passes. Each pass must make progress.
const PASSES_MAX: usize = 1000;

/// A dataset in this pool.
struct Local {
    name: String,
    snapshots: Vec<(String, u64)>,
    origin: u64,
    /// The guid of the parent's snapshot that the package builds on.
    parent: u64,
}

/// The result of a pass.
#[derive(Default)]
struct Pass {
    progress: bool,
    again: bool,
}

impl Pass {
    fn done(&mut self, is_done: bool) {
        self.progress |= is_done;
        self.again |= !is_done;
    }
}

impl Receiver<'_> {
    /// Runs passes until one makes no progress. Returns the exit code.
    pub(super) fn replicate(&self, cx: &mut Context<'_>, to_name: &str) -> Result<u8, Failure> {
        let Some(list) = &self.list else { return Ok(0) };
        let top = Destination::new(self.asked, to_name, &self.sent)?.dataset;
        self.snapshot_properties(cx, list, &top).map_err(|e| Failure::failed(format!("cannot receive: {e}")))?;
        for _ in 0..PASSES_MAX {
            let mut pass = Pass::default();
            for local in self.locals(&top, list).map_err(|e| Failure::failed(format!("cannot receive: {e}")))? {
                self.follow(cx, list, &top, &local, &mut pass);
                // Start the next pass: the datasets that follow may have new names.
                if pass.progress {
                    break;
                }
            }
            if !pass.progress {
                return Ok(u8::from(pass.again));
            }
        }
        Ok(1)
    }

    /// Updates the properties of snapshots that an earlier package brought to their values in this
    /// package.
    fn snapshot_properties(&self, cx: &mut Context<'_>, list: &List, top: &str) -> Result<(), Error> {
        let tree = self.tree()?;
        if tree.dataset(top).is_err() {
            return Ok(());
        }
        let mut changed = Vec::new();
        for entry in tree.list(&[top], &ListOptions::heads())?.entries {
            let Some(head) = entry.dataset() else { continue };
            for snapshot in head.snapshots()? {
                let Some(brought) = list.snapshot_properties(snapshot.phys().guid) else { continue };
                if write::snapshot_differs(&snapshot, &brought)? {
                    changed.push((snapshot.name().to_owned(), brought));
                }
            }
        }
        for (name, brought) in changed {
            self.receive_snapshot_properties(cx, &name, brought)?;
        }
        Ok(())
    }

    fn locals(&self, top: &str, list: &List) -> Result<Vec<Local>, Error> {
        let tree = self.tree()?;
        if tree.dataset(top).is_err() {
            return Ok(Vec::new());
        }
        let base = |dataset: &Dataset| -> Result<u64, Error> {
            let snapshots = dataset.snapshots()?;
            let from = snapshots.iter().find(|s| s.snapshot_name() == list.from.as_deref());
            Ok(from.map_or(0, |s| s.phys().guid))
        };
        let mut found = Vec::new();
        for entry in tree.list(&[top], &ListOptions::heads())?.entries {
            let Some(head) = entry.dataset() else { continue };
            let parent = match head.name().rsplit_once('/').filter(|_| head.name() != top) {
                Some((above, _)) => base(&tree.dataset(above)?)?,
                None => 0,
            };
            let names = head.snapshots()?.into_iter();
            found.push(Local {
                name: head.name().to_owned(),
                snapshots: names.map(|s| (s.snapshot_name().unwrap_or_default().to_owned(), s.phys().guid)).collect(),
                origin: head.origin()?.map_or(0, |origin| origin.phys().guid),
                parent,
            });
        }
        Ok(found)
    }

    fn follow(&self, cx: &mut Context<'_>, list: &List, top: &str, local: &Local, pass: &mut Pass) {
        let member = local.snapshots.iter().find_map(|(_, guid)| list.of(*guid));
        if let Some(member) = member
            && member.origin != local.origin
            && local.origin != 0
            && (member.origin == 0 || local.snapshots.iter().all(|(_, guid)| *guid != member.origin))
            && list.of(local.origin).is_some_and(|of| of.name == member.name)
        {
            let done = self.attempt(cx, &format!("attempting promote {}", local.name), &mut |receiver| {
                write::promote(receiver.live(), &local.name)
            });
            return pass.done(done);
        }
        let mut base = 0;
        for (short, guid) in &local.snapshots {
            let name = format!("{}@{short}", local.name);
            match list.of(*guid).and_then(|member| member.snapshot(*guid)) {
                None if self.asked.force => {
                    let done = self.attempt(cx, &format!("attempting destroy {name}"), &mut |receiver| {
                        let gone = write::destroy_snapshots(receiver.live(), std::slice::from_ref(&name), false);
                        gone.map_err(|mut all| all.pop().map_or_else(|| Error::invalid(&*name, "it stays"), |(_, e)| e))
                    });
                    pass.done(done);
                }
                None => {}
                Some(sent) => {
                    if sent != short {
                        pass.done(self.rename_snapshot(cx, &local.name, short, sent));
                    }
                    if Some(sent) == list.from.as_deref() {
                        base = *guid;
                    }
                }
            }
        }
        let Some(member) = member else {
            // Destroy descendants of the top dataset that the package does not list: they were
            // destroyed at the sender.
            if self.asked.force && local.name != top {
                let done = self.attempt(cx, &format!("attempting destroy {}", local.name), &mut |receiver| {
                    receiver.let_go(&local.name, false)?;
                    write::destroy(receiver.live(), &local.name)?;
                    receiver.unmounted.borrow_mut().retain(|name| *name != local.name);
                    Ok(())
                });
                pass.done(done);
            }
            return;
        };
        if base == 0 {
            if self.asked.verbose {
                let from = list.from.as_deref().unwrap_or_default();
                cx.print(&format!(
                    "local fs {} does not have fromsnap ({from} in stream); must have been deleted locally; ignoring\n",
                    local.name
                ));
            }
            return;
        }
        let last = |name: &str| name.rsplit_once('/').map(|(_, last)| last.to_owned());
        let moved = member.parent != 0 && local.parent != 0 && member.parent != local.parent;
        let renamed = (self.asked.is_prefix || local.name != top)
            && last(&local.name).is_some()
            && last(&member.name).is_some_and(|sent| Some(sent) != last(&local.name));
        if moved || renamed {
            let tree = self.tree();
            let parent = tree.ok().and_then(|tree| super::one::closest(&tree, top, member.parent));
            let Some(parent) = parent else {
                if self.asked.verbose {
                    cx.print(&format!("local fs {} new parent not found\n", local.name));
                }
                pass.again = true;
                return;
            };
            let to =
                format!("{}/{}", parent.split('@').next().unwrap_or_default(), last(&member.name).unwrap_or_default());
            let done = self.attempt(cx, &format!("attempting rename {} to {to}", local.name), &mut |receiver| {
                receiver.let_go(&local.name, false)?;
                write::rename(receiver.live(), &local.name, &to)?;
                // Mount under the new name.
                let below = |name: &str| name.strip_prefix(&local.name).map(|rest| format!("{to}{rest}"));
                receiver.unmounted.borrow_mut().iter_mut().for_each(|name| *name = below(name).unwrap_or(name.clone()));
                Ok(())
            });
            pass.done(done);
        }
    }

    /// Renames a snapshot. If that fails, because another snapshot still has the name, gives it a
    /// temporary name, which frees its own name for the snapshots that follow. Returns whether
    /// either rename succeeded.
    fn rename_snapshot(&self, cx: &mut Context<'_>, dataset: &str, from: &str, to: &str) -> bool {
        let rename = |receiver: &Self, from: &str, to: &str| {
            let (from, to) = (format!("{dataset}@{from}"), format!("{dataset}@{to}"));
            let renamed = write::rename_snapshot(receiver.live(), &from, &to, false);
            renamed.map_err(|mut all| all.pop().map_or_else(|| Error::invalid(&*from, "it stays"), |(_, e)| e))
        };
        let text = format!("attempting rename {dataset}@{from} to {dataset}@{to}");
        self.attempt(cx, &text, &mut |receiver| rename(receiver, from, to))
            || (!from.starts_with("recv-") && {
                let other = format!("recv-{}-{from}", std::process::id());
                let text = format!("failed - trying rename {dataset}@{from} to {dataset}@{other}");
                self.attempt(cx, &text, &mut |receiver| rename(receiver, from, &other))
            })
    }

    fn attempt(&self, cx: &mut Context<'_>, text: &str, work: &mut dyn FnMut(&Self) -> Result<(), Error>) -> bool {
        if self.asked.verbose {
            cx.print(&format!("{text}\n"));
        }
        let done = work(self);
        if self.asked.verbose {
            cx.print(match &done {
                Ok(()) => "success\n",
                Err(_) => "failed - will try again on next pass\n",
            });
        }
        if let Err(error) = &done {
            tracing::debug!(%error, "{text}");
        }
        done.is_ok()
    }
}
