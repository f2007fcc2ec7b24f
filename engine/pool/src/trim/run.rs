//! The thread of a top-level device: processes range after range.

use super::leaf_zap;
use super::progress::{Work, WorkState};
use super::state::is_there;
use crate::space::alloc::{Held, RangeKind, Sweep};
use crate::writer::Shared;
use block::vdev::{DATA_START_BYTES, Kind, Leaf, Vdev};
use errors::{Error, Result};
use host::clock::Instant;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

/// The pattern (`zfs_initialize_value`), and the bytes written at a time
/// (`zfs_initialize_chunk_size`).
const PATTERN: u64 = 0xdead_beef_dead_beee;
const CHUNK_BYTES: u64 = 1 << 20;
/// Shorter ranges are not trimmed (`zfs_trim_extent_bytes_min`).
pub(super) const TRIM_BYTES_MIN: u64 = 32 << 10;
/// Bytes held at a time, for each child, while patterns are written: about a second of a disk.
/// Guessed.
const WRITE_BYTES: u64 = 64 << 20;
/// Interval at which progress is recorded.
const NOTE: Duration = Duration::from_secs(1);
/// Interval at which a sleeping thread checks whether it must end.
const LOOK: Duration = Duration::from_millis(50);
/// Time to wait after a failure.
const PATIENCE: Duration = Duration::from_secs(5);

/// A leaf on which the work is active.
struct Worker<'v> {
    /// Index of the child that is this leaf, or is above it.
    child: usize,
    leaf: &'v Leaf,
    /// Everything before this offset on the leaf is done.
    since: u64,
}

/// Why a pass over a device ended.
enum Pass {
    Done,
    /// Leaves joined or left.
    Changed,
    Stop,
}

impl Shared {
    /// Starts a thread for each top-level device with active leaves that has none.
    pub(super) fn start_sweeps(self: &Arc<Self>) -> Result<()> {
        let tree = self.store.tree();
        let mut state = self.background.sweeps.state.lock();
        for work in [Work::Trim, Work::Initialize] {
            for top in &tree.tops {
                let is_wanted = top.leaves().into_iter().any(|leaf| state.wants(work, leaf));
                if state.stop || !is_wanted || !state.running.insert((top.guid, work)) {
                    continue;
                }
                let (shared, top) = (self.clone(), top.guid);
                let spawned = host::threads::spawn("sweep", move || {
                    let ended = catch_unwind(AssertUnwindSafe(|| sweep(&shared, top, work)));
                    if ended.is_err() {
                        // The panic was reported. No thread waits for the end of this one.
                        shared.background.sweeps.state.lock().running.remove(&(top, work));
                        shared.background.sweeps.changed.notify_all();
                    }
                });
                match spawned {
                    Ok(thread) => {
                        let mut threads = self.background.sweeps.threads.lock();
                        threads.retain(|thread| !thread.is_finished());
                        threads.push(thread);
                    }
                    Err(e) => {
                        state.running.remove(&(top, work));
                        return Err(Error::io(self.store.name(), e));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Works on the leaves of a top-level device until none is active.
fn sweep(shared: &Arc<Shared>, top_guid: u64, work: Work) {
    loop {
        let Some((generation, top, active)) = active(shared, top_guid, work) else { return };
        let result = pass(shared, &top, work, generation, &active);
        match result {
            Ok(Pass::Stop) => {
                note(shared, work, &active);
                shared.background.sweeps.state.lock().running.remove(&(top_guid, work));
                return;
            }
            Ok(Pass::Changed) => note(shared, work, &active),
            Ok(Pass::Done) => {
                // The work is done before its completion is recorded.
                let done = active.clone();
                let ended = shared.task(move |cx| cx.all_or_nothing(|| leaf_zap::complete(cx, work, &done)));
                if let Err(error) = ended {
                    wait(shared, &error);
                }
            }
            Err(error) => wait(shared, &error),
        }
    }
}

fn wait(shared: &Shared, error: &Error) {
    tracing::warn!(pool = shared.store.name(), %error, "trim or initialize is interrupted");
    let mut state = shared.background.sweeps.state.lock();
    if !state.stop {
        shared.background.sweeps.changed.wait_for(&mut state, PATIENCE);
    }
}

/// The device and its active leaves; `None`: there are none, and the thread is removed from the
/// list.
fn active(shared: &Shared, top_guid: u64, work: Work) -> Option<(u64, Arc<Vdev>, Vec<u64>)> {
    let tree = shared.store.tree();
    let top = tree.tops.iter().find(|top| top.guid == top_guid).cloned();
    let mut state = shared.background.sweeps.state.lock();
    let leaves = top.iter().flat_map(|top| top.leaves()).filter(|leaf| state.wants(work, leaf));
    let leaves: Vec<u64> = leaves.map(|leaf| leaf.guid).collect();
    match top.filter(|_| !leaves.is_empty() && !state.stop) {
        Some(top) => Some((state.generation, top, leaves)),
        None => {
            state.running.remove(&(top_guid, work));
            shared.background.sweeps.changed.notify_all();
            None
        }
    }
}

/// One pass over the free space.
fn pass(shared: &Arc<Shared>, top: &Vdev, work: Work, generation: u64, active: &[u64]) -> Result<Pass> {
    let leaves: Vec<(usize, &Leaf)> =
        top.leaves_by_child().into_iter().filter(|(_, leaf)| active.contains(&leaf.guid)).collect();
    let vdev = top.id as u32;
    let (range_kind, max_bytes) = {
        let state = shared.background.sweeps.state.lock();
        let partial = |guid: &u64| state.leaves.get(&(*guid, work)).is_some_and(|p| p.partial);
        let range_kind = if active.iter().all(partial) { RangeKind::Used } else { RangeKind::Free };
        (range_kind, if work == Work::Trim { u64::MAX } else { WRITE_BYTES * top.children.len().max(1) as u64 })
    };
    // Offsets up to which each leaf is done. On a draid, offsets on a leaf are not in the order of
    // the device's offsets: start at 0.
    let resume: Vec<u64> = leaves
        .iter()
        .map(|(_, leaf)| match top.kind {
            Kind::Draid(_) => 0,
            _ => last_offset(shared, work, leaf.guid),
        })
        .collect();
    let leaves: Vec<Worker<'_>> =
        leaves.into_iter().zip(resume).map(|((child, leaf), since)| Worker { child, leaf, since }).collect();
    let (started, mut noted, mut done_bytes) = (Instant::now(), Instant::now(), 0u64);
    let mut at = Sweep::default();
    while let Some((from, to)) = shared.allocator.slab_bounds(vdev, at.slab) {
        // What is free in memory need not be free on disk once no txg follows.
        if let Some(error) = shared.txgs.progress.failure() {
            return Err(error);
        }
        // A metaslab that is done on all leaves need not be loaded.
        let is_behind = |w: &Worker<'_>| {
            let ends = top.places(w.child, from, to - from).into_iter().map(|(at, len)| DATA_START_BYTES + at + len);
            ends.max().is_none_or(|end| end <= w.since)
        };
        if leaves.iter().all(is_behind) {
            at.skip_slab();
            continue;
        }
        let Some(held) = shared.allocator.hold_next(vdev, &mut at, max_bytes, range_kind)? else {
            return Ok(Pass::Done);
        };
        let bytes = apply(shared, top, work, &leaves, &held);
        drop(held);
        done_bytes += bytes;
        // A device that left meanwhile did not do this range: the pass ends before it counts.
        if leaves.iter().any(|w| !is_there(w.leaf)) {
            return Ok(Pass::Changed);
        }
        if noted.elapsed() >= NOTE {
            noted = Instant::now();
            note(shared, work, active);
        }
        if let Some(pass) = interruption(shared, generation) {
            return Ok(pass);
        }
        if let Some(pass) = slow_down(shared, work, active, generation, started, done_bytes) {
            return Ok(pass);
        }
    }
    Ok(Pass::Done)
}

fn interruption(shared: &Shared, generation: u64) -> Option<Pass> {
    let state = shared.background.sweeps.state.lock();
    if state.stop {
        return Some(Pass::Stop);
    }
    (state.generation != generation).then_some(Pass::Changed)
}

/// Keeps to the requested rate.
fn slow_down(
    shared: &Shared,
    work: Work,
    active: &[u64],
    generation: u64,
    started: Instant,
    bytes: u64,
) -> Option<Pass> {
    loop {
        let rate = {
            let state = shared.background.sweeps.state.lock();
            active.iter().filter_map(|guid| state.leaves.get(&(*guid, work))).map(|p| p.rate).filter(|r| *r > 0).min()
        }?;
        if bytes as f64 / started.elapsed().as_secs_f64().max(0.001) <= rate as f64 {
            return None;
        }
        if let Some(pass) = interruption(shared, generation) {
            return Some(pass);
        }
        let mut state = shared.background.sweeps.state.lock();
        shared.background.sweeps.changed.wait_for(&mut state, LOOK);
    }
}

fn last_offset(shared: &Shared, work: Work, guid: u64) -> u64 {
    shared.background.sweeps.state.lock().leaves.get(&(guid, work)).map_or(0, |p| p.last_offset)
}

/// Processes a range on all active leaves. Returns the bytes of the leaf with most of them.
fn apply(shared: &Shared, top: &Vdev, work: Work, leaves: &[Worker<'_>], held: &Held) -> u64 {
    let txg = shared.txgs.gate.open();
    let one = |w: &Worker<'_>| -> u64 {
        let _doing = block::doing(block::Task::Initialize);
        let (leaf, mut bytes) = (w.leaf, 0);
        for (at, len) in top.places(w.child, held.offset_bytes, held.size_bytes) {
            let (from, to) = ((DATA_START_BYTES + at).max(w.since), DATA_START_BYTES + at + len);
            if from >= to {
                continue;
            }
            let done = match work {
                Work::Trim if to - from < TRIM_BYTES_MIN => true,
                Work::Trim => trim(leaf, from, to - from),
                Work::Initialize => write_pattern(leaf, txg, from, to),
            };
            if done {
                bytes += to - from;
                let mut state = shared.background.sweeps.state.lock();
                if let Some(p) = state.leaves.get_mut(&(leaf.guid, work)).filter(|p| p.state == WorkState::Active) {
                    p.last_offset = p.last_offset.max(to);
                    leaf.note_swept(work == Work::Trim, p.last_offset);
                }
            }
        }
        bytes
    };
    match leaves {
        [single] => one(single),
        // Each waits for its device, so they run in parallel.
        several => host::threads::scope(|scope| {
            let running: Vec<_> = several.iter().map(|w| scope.spawn(|| one(w))).collect();
            let ended = running.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
            ended.max().unwrap_or(0)
        }),
    }
}

/// Trims a range. Returns false if the device cannot trim; a failed trim is only counted.
pub(super) fn trim(leaf: &Leaf, offset: u64, len: u64) -> bool {
    match leaf.discard(offset, len) {
        Some(Ok(())) => true,
        Some(Err(error)) => {
            tracing::debug!(device = leaf.path, %error, offset, len, "a range could not be trimmed");
            leaf.note_sweep_error(true);
            true
        }
        None => false,
    }
}

fn write_pattern(leaf: &Leaf, txg: u64, from: u64, to: u64) -> bool {
    let pattern = PATTERN.to_le_bytes().repeat((CHUNK_BYTES / 8) as usize);
    let mut at = from;
    while at < to {
        let len = (to - at).min(CHUNK_BYTES);
        match leaf.write(txg, at, &pattern[..len as usize]) {
            None => return false,
            // Best effort, as in OpenZFS: the error is counted.
            Some(written) => {
                if written.is_err() {
                    leaf.note_sweep_error(false);
                }
                at += len;
            }
        }
    }
    true
}

/// Records the progress of these leaves in the next txg, without waiting.
fn note(shared: &Arc<Shared>, work: Work, leaves: &[u64]) {
    let leaves = leaves.to_vec();
    let Some(_tx) = shared.txgs.gate.enter() else { return };
    shared.txgs.jobs.lock().push(Box::new(move |cx| {
        for guid in leaves {
            let progress = cx.shared.background.sweeps.state.lock().leaves.get(&(guid, work)).copied();
            let Some(progress) = progress.filter(|p| p.state != WorkState::None) else { continue };
            if let Err(error) = leaf_zap::keep(cx, work, guid, &progress) {
                tracing::warn!(%error, "how far trimming or initializing is cannot be noted");
            }
        }
    }));
}
