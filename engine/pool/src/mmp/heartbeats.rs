//! The thread that writes heartbeats while a pool is open for writing and `multihost` is on.
//!
//! ```text
//!   txg-sync ── synced(uberblock) ──> State <── multihost thread: next leaf ─> host::work: one label ─> ended
//!                                       └─ extends the fence ─> writes to all devices pass
//! ```
//! Each heartbeat is a write of its own thread, so that a device that hangs delays only its own.
//! Facts: module/zfs/mmp.c.
//!
//! Invariants:
//!   * a leaf has at most one heartbeat on its way
//!   * none is on its way once [`Heartbeats::stop`] has returned: another process may open the
//!     devices then

use super::history::{Heartbeat, History, NOT_WRITABLE, WRITE_PENDING};
use super::pace::Pace;
use super::settings::settings;
use block::Store;
use block::label::write_heartbeat;
use block::vdev::{Leaf, Tree};
use errors::{Error, Result};
use host::clock::Instant;
use host::sync::{Condvar, Mutex, MutexGuard};
use host::threads::JoinHandle;
use ondisk::label::LABELS;
use ondisk::uberblock::{Multihost, Uberblock};
use std::io;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

/// A pool that has heartbeats.
pub(crate) trait MultihostPool: Send + Sync {
    /// Its devices, and their fence.
    fn store(&self) -> &Store;
    fn heartbeats(&self) -> &Heartbeats;
    fn is_suspended(&self) -> bool;
    /// The heartbeats are late: nothing may be written any more.
    fn suspend_late(&self);
}

/// The heartbeats of a pool.
pub(crate) struct Heartbeats {
    start: Instant,
    state: Mutex<State>,
    /// Wakes the thread, and threads that wait for heartbeats on their way.
    changed: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// The pool, once it is open.
    pool: OnceLock<Weak<dyn MultihostPool>>,
}

struct State {
    is_on: bool,
    must_stop: bool,
    /// The thread runs, and has not found a reason to end.
    is_running: bool,
    pace: Pace,
    /// What heartbeats repeat: the uberblock of the last synced txg.
    uberblock: Option<Uberblock>,
    /// Of the next heartbeat within its second.
    sequence: u16,
    /// Guids of the leaves with a heartbeat on its way.
    pending: Vec<u64>,
    last_leaf: u64,
    next_id: u64,
    /// Why the last heartbeat was skipped; 0 if it was not.
    skipped: i32,
    history: History,
}

impl Default for Heartbeats {
    /// `multihost` is off.
    fn default() -> Self {
        let state = State {
            is_on: false,
            must_stop: false,
            is_running: false,
            pace: Pace::new(settings()),
            uberblock: None,
            sequence: 1,
            pending: Vec::new(),
            last_leaf: 0,
            next_id: 1,
            skipped: 0,
            history: History::default(),
        };
        Self {
            start: Instant::now(),
            state: Mutex::new(state),
            changed: Condvar::new(),
            thread: Mutex::default(),
            pool: OnceLock::new(),
        }
    }
}

/// How soon a change of the settings is noticed: the next heartbeat may be hours away. Guessed.
const LOOK: Duration = Duration::from_millis(500);

/// A leaf that may get heartbeats, with the `ashift` of its top-level vdev.
type Target = (Leaf, u8);

fn targets(tree: &Tree) -> Vec<Target> {
    let below = tree.tops.iter().map(|top| (top.ashift, top.leaves()));
    let all = below.flat_map(|(ashift, leaves)| leaves.into_iter().map(move |leaf| (leaf.clone(), ashift)));
    all.filter(|(leaf, _)| !leaf.is_distributed()).collect()
}

impl Heartbeats {
    /// Those of a pool whose property `multihost` is `is_on`, last written with `uberblock`.
    pub fn new(is_on: bool, uberblock: &Uberblock) -> Self {
        let heartbeats = Self::default();
        {
            let mut state = heartbeats.state.lock();
            (state.is_on, state.uberblock) = (is_on, Some(uberblock.clone()));
        }
        heartbeats
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Whether `multihost` is on.
    pub fn is_on(&self) -> bool {
        self.state.lock().is_on
    }

    /// The fields of the next txg's uberblock.
    pub fn stamp(&self) -> Multihost {
        let state = self.state.lock();
        if state.is_on { state.fields(0) } else { Multihost::OFF }
    }

    /// The heartbeats, oldest first.
    pub fn history(&self) -> Vec<Heartbeat> {
        self.state.lock().history.list()
    }

    /// The pool is open for writing: begins, if `multihost` is on.
    pub fn start(&self, shared: &Arc<dyn MultihostPool>) -> Result<()> {
        let _ = self.pool.set(Arc::downgrade(shared));
        if self.is_on() { self.begin(shared) } else { Ok(()) }
    }

    /// Begins or ends writing heartbeats. Called in the txg that changes the property.
    pub fn switch(&self, is_on: bool) -> Result<()> {
        let Some(shared) = self.pool.get().and_then(Weak::upgrade) else { return Ok(()) };
        if std::mem::replace(&mut self.state.lock().is_on, is_on) == is_on {
            return Ok(());
        }
        if is_on {
            return self.begin(&shared);
        }
        self.changed.notify_all();
        shared.store().fence().open(None);
        Ok(())
    }

    fn begin(&self, shared: &Arc<dyn MultihostPool>) -> Result<()> {
        {
            let mut state = self.state.lock();
            state.pace.settings = settings();
            self.restart(&mut state, &**shared);
            // One that was switched off and on again may not have noticed.
            if std::mem::replace(&mut state.is_running, true) {
                return Ok(());
            }
        }
        let theirs = shared.clone();
        let spawned = host::threads::spawn("multihost", move || theirs.heartbeats().run(&theirs));
        let before = self.thread.lock().replace(spawned.map_err(|e| Error::io(shared.store().name(), e))?);
        if let Some(before) = before {
            // It is about to end.
            let _ = before.join();
        }
        Ok(())
    }

    /// No other host has the pool: writes may pass again, and the next heartbeat is due.
    pub fn reopen(&self, shared: &dyn MultihostPool) {
        let mut state = self.state.lock();
        if state.is_on {
            self.restart(&mut state, shared);
        }
    }

    fn restart(&self, state: &mut State, shared: &dyn MultihostPool) {
        state.pace.restart(self.now());
        shared.store().fence().open(state.pace.deadline());
    }

    /// The uberblock of a txg is on disk: it counts as a heartbeat.
    pub fn synced(&self, shared: &dyn MultihostPool, uberblock: &Uberblock) {
        let leaves = targets(&shared.store().tree()).len() as u32;
        let mut state = self.state.lock();
        state.uberblock = Some(uberblock.clone());
        state.sequence = 1;
        if state.is_on {
            self.note(&mut state, shared, leaves, true);
        }
    }

    fn note(&self, state: &mut State, shared: &dyn MultihostPool, leaves: u32, is_good: bool) {
        state.pace.note(self.now(), leaves, is_good);
        if is_good {
            // If it comes too late, the thread finds the fence closed.
            shared.store().fence().extend(state.pace.deadline());
        }
    }

    /// Stops the thread, and waits for heartbeats on their way.
    pub fn stop(&self) {
        self.state.lock().must_stop = true;
        self.changed.notify_all();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            // A panic was reported when it happened.
            let _ = thread.join();
        }
        let mut state = self.state.lock();
        while !state.pending.is_empty() {
            self.changed.wait(&mut state);
        }
    }

    fn run(&self, shared: &Arc<dyn MultihostPool>) {
        loop {
            let all = targets(&shared.store().tree());
            let (leaves, is_suspended) = (all.len() as u32, shared.is_suspended());
            let mut state = self.state.lock();
            if state.must_stop || !state.is_on {
                state.is_running = false;
                return;
            }
            state.pace.adopt(settings(), leaves);
            let late = state.pace.lateness(self.now());
            if !is_suspended && (late.is_some() || shared.store().fence().is_closed()) {
                drop(state);
                shared.suspend_late();
                state = self.state.lock();
            } else if !is_suspended {
                state = self.beat(state, shared, &all);
            }
            let wait = state.pace.next(leaves);
            let end = Instant::now() + wait;
            while !state.must_stop && state.is_on && settings() == state.pace.settings && Instant::now() < end {
                self.changed.wait_for(&mut state, (end - Instant::now()).min(LOOK));
            }
        }
    }

    /// Starts a heartbeat on the next leaf that can take one.
    fn beat<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        shared: &Arc<dyn MultihostPool>,
        all: &[Target],
    ) -> MutexGuard<'s, State> {
        let leaves = all.len() as u32;
        let (leaf, ashift) = match state.choose(all) {
            Ok(target) => target.clone(),
            Err(why) => {
                self.note(&mut state, &**shared, leaves, false);
                state.note_skipped(why);
                return state;
            }
        };
        state.skipped = 0;
        let label = (host::random::u64() % LABELS as u64) as usize;
        let Some((id, uberblock)) = state.issue(&leaf, label) else { return state };
        drop(state);
        let begun = self.now();
        let job = {
            let (shared, leaf) = (shared.clone(), leaf.clone());
            move || {
                let result = write_heartbeat(&leaf, ashift, label, &uberblock);
                shared.heartbeats().ended(&*shared, leaves, (leaf.guid, id, begun), result);
            }
        };
        if !host::work::start(job) {
            self.ended(&**shared, leaves, (leaf.guid, id, begun), Err(io::ErrorKind::WouldBlock.into()));
        }
        self.state.lock()
    }

    /// `begun`: guid of the leaf, number of the heartbeat, and when it began.
    fn ended(
        &self,
        shared: &dyn MultihostPool,
        leaves: u32,
        (guid, id, begun): (u64, u64, Duration),
        result: io::Result<()>,
    ) {
        let mut state = self.state.lock();
        if state.is_on {
            self.note(&mut state, shared, leaves, result.is_ok());
        }
        let errno = result.err().map_or(0, |error| error.raw_os_error().unwrap_or(EIO));
        let duration = self.now().saturating_sub(begun);
        state.history.update(id, |heartbeat| (heartbeat.error, heartbeat.duration) = (errno, duration));
        state.pending.retain(|pending| *pending != guid);
        drop(state);
        self.changed.notify_all();
    }
}

/// Errno of an error that the operating system did not return.
const EIO: i32 = 5;

impl State {
    fn fields(&self, sequence: u16) -> Multihost {
        let settings = settings();
        Multihost::heartbeat(self.pace.delay_ns(), settings.interval_ms, sequence, settings.fail_intervals)
    }

    /// The leaf after the last one that can take a heartbeat, or why there is none.
    fn choose<'t>(&mut self, all: &'t [Target]) -> std::result::Result<&'t Target, i32> {
        let after = all.iter().position(|(leaf, _)| leaf.guid == self.last_leaf).map_or(0, |at| at + 1);
        let mut why = 0;
        for number in 0..all.len() {
            let target = &all[(after + number) % all.len()];
            if !target.0.is_open() || target.0.has_failed() {
                why |= NOT_WRITABLE;
            } else if self.pending.contains(&target.0.guid) {
                why |= WRITE_PENDING;
            } else {
                self.last_leaf = target.0.guid;
                return Ok(target);
            }
        }
        Err(why.max(NOT_WRITABLE))
    }

    /// The uberblock of the next heartbeat, with its number. `None` before the first txg.
    fn issue(&mut self, leaf: &Leaf, label: usize) -> Option<(u64, Uberblock)> {
        let before = self.uberblock.as_ref()?.timestamp;
        // A clock that is set back does not make a heartbeat older than the one before.
        let timestamp = host::clock::seconds().max(before);
        if timestamp != before {
            self.sequence = 1;
        }
        let fields = self.fields(self.sequence);
        let uberblock = self.uberblock.as_mut()?;
        (uberblock.timestamp, uberblock.multihost) = (timestamp, Some(fields));
        let uberblock = uberblock.clone();
        self.sequence = self.sequence.wrapping_add(1).max(1);
        let id = self.next_id;
        self.next_id += 1;
        self.pending.push(leaf.guid);
        self.history.add(Heartbeat {
            id,
            txg: uberblock.txg.0,
            timestamp: uberblock.timestamp,
            error: 0,
            duration: Duration::ZERO,
            delay_ns: fields.delay_ns,
            skipped: 0,
            vdev_guid: leaf.guid,
            label: label as u32,
            path: Some(leaf.path.clone()),
        });
        Some((id, uberblock))
    }

    /// Adds a time without heartbeats to the history, or extends the last one.
    fn note_skipped(&mut self, why: i32) {
        let now = host::clock::seconds();
        if std::mem::replace(&mut self.skipped, why) == why {
            let id = self.next_id - 1;
            self.history.update(id, |heartbeat| {
                heartbeat.skipped += 1;
                heartbeat.duration = Duration::from_secs(now.saturating_sub(heartbeat.timestamp));
            });
            return;
        }
        let id = self.next_id;
        self.next_id += 1;
        self.history.add(Heartbeat {
            id,
            txg: self.uberblock.as_ref().map_or(0, |u| u.txg.0),
            timestamp: now,
            error: why,
            duration: Duration::ZERO,
            delay_ns: self.pace.delay_ns(),
            skipped: 1,
            vdev_guid: 0,
            label: 0,
            path: None,
        });
    }
}
