//! The counting thread: drains the events ten times per second, closes a column each second, and
//! stores it.
//!
//! ```text
//! Events ─ drain ─┬─> Ring (each operation)
//!                 └─> tallies ─ each second ─> columns ─┬─> window in memory ─> queries, watchers
//! samplers ─────────────────────────────────────────────┴─> rows ─ every 10 s ─> Archive
//!                                                              (seconds, minutes, hours)
//! ```
//!
//! Invariants:
//!   * every event is counted in one second: the one it ended in or, if it arrived too late for
//!     that, the currently open one
//!   * a column is visible within half a second after its second ended
//!   * an archive or directory that cannot be written loses only what would have been stored there

mod answer;
mod config;
mod error;
mod followers;
mod live;
mod names;
mod operations;
mod state;
mod watch;

use crate::archive::{Archive, Definition, Tier};
use crate::catalogue;
use crate::explain::{Explainer, Explanation};
use crate::name::Name;
use crate::ring::{Extent, Ring};
use crate::sampler::{Sample, Sampler};
use crate::tally::Describe;
pub use answer::{Answer, Columns};
pub use config::{Config, Retention};
pub use error::Error;
use followers::Followers;
pub use live::DEFAULTS;
use live::{Counting, Live};
pub use names::Resolver;
use names::Words;
use observe::event::Events;
pub use operations::Follower;
use parking_lot::{Condvar, Mutex};
use rustc_hash::FxHashMap;
use state::{CELLS, Describer, Inner, SECOND, State};
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
pub use watch::Watch;

/// How often events are drained.
const TURN: Duration = Duration::from_millis(100);
/// How long a second stays open after its end for late events, in nanoseconds.
const SLACK: u64 = 150_000_000;
/// How often the archive is written, in seconds.
const COMMIT: u64 = 10;
/// Maximum number of statistics that are counted.
const COUNTED: usize = 1000;
/// Maximum number of rows waiting while the archive cannot be written.
const WAITING: usize = 100_000;
/// After this many seconds without a turn (the machine was asleep), the time in between counts as
/// not recorded.
const ASLEEP: u64 = 10;

/// A counted statistic, for display.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Dataset {
    /// Number of the statistic.
    pub id: u32,
    pub name: String,
    /// Title derived from the name.
    pub title: String,
    /// Creation time in seconds since 1970.
    pub created: u64,
    /// Whether counting is suspended.
    pub suspended: bool,
    /// Whether it is archived, rather than kept in memory only.
    pub archived: bool,
    /// Whether it is counted only while it is being watched.
    pub passing: bool,
    /// Size in memory in bytes.
    pub incore: u64,
    /// Size in the archive in bytes.
    pub ondisk: u64,
    /// Cost of counting: nanoseconds of processor time per operation, measured over the last
    /// seconds.
    pub cost: f64,
}

/// The analytics engine of a process.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
}

impl Engine {
    /// Opens the archive and the recorder. Counting starts with [`Engine::run`].
    pub fn open(
        config: &Config,
        events: Arc<Events>,
        resolver: Arc<dyn Resolver>,
        samplers: Vec<Box<dyn Sampler>>,
    ) -> io::Result<Self> {
        let (archive, ring) = match &config.folder {
            None => (Archive::in_memory()?, None),
            Some(folder) => {
                DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
                let ring =
                    (config.ring > 0).then(|| Ring::open(&folder.join("operations"), config.ring, events.clone()));
                (Archive::open(&folder.join("statistics.redb"))?, ring.transpose()?)
            }
        };
        let mut definitions = archive.definitions()?;
        if definitions.is_empty() {
            for (id, name) in (1..).zip(DEFAULTS) {
                let definition = Definition { id, name: (*name).to_owned(), created: now() / SECOND, suspended: false };
                archive.define(&definition)?;
                definitions.push(definition);
            }
        }
        let next = definitions.iter().map(|d| d.id).max().unwrap_or(0) + 1;
        let (mut live, mut rows) = (Vec::new(), Vec::new());
        for definition in definitions {
            match Live::new(definition.clone(), true) {
                Ok(mut one) => {
                    one.resume(&archive, now() / SECOND, &mut rows)?;
                    live.push(one);
                }
                // From another version, with statistics unknown to this one: left unchanged.
                Err(error) => tracing::warn!(dataset = definition.name, %error, "an archived statistic is not counted"),
            }
        }
        // Minutes and hours that the last process did not finish are available from now on. If they
        // cannot be stored yet, they wait.
        if archive.append(&rows).is_ok() {
            rows.clear();
        }
        let words = Words::new(events.clone(), resolver);
        let state = State {
            live,
            next,
            samplers,
            second: now() / SECOND * SECOND,
            begun: false,
            early: Vec::new(),
            lost: FxHashMap::default(),
            rows,
            stopped_archiving: false,
        };
        Ok(Self(Arc::new(Inner {
            events,
            archive,
            ring,
            words,
            retention: config.retention,
            turning: Mutex::default(),
            followers: Followers::default(),
            state: Mutex::new(state),
            closed: Condvar::new(),
            stop: AtomicBool::new(false),
            on: AtomicBool::new(true),
            in_part: AtomicU64::new(0),
        })))
    }

    /// Counts on a new thread until [`Engine::stop`].
    pub fn run(&self) -> io::Result<std::thread::JoinHandle<()>> {
        self.0.events.switch(self.0.on.load(Ordering::Relaxed));
        let this = self.clone();
        std::thread::Builder::new().name("weir-analytics".to_owned()).spawn(move || {
            while !this.0.stop.load(Ordering::Relaxed) {
                std::thread::sleep(TURN);
                this.turn(now());
            }
            this.0.events.switch(false);
            this.finish();
        })
    }

    /// Pauses or resumes recording and counting. The seconds in between, including partial ones,
    /// count as not recorded.
    pub fn switch(&self, on: bool) {
        if self.0.on.swap(on, Ordering::Relaxed) != on {
            self.0.in_part.store(now() / SECOND, Ordering::Relaxed);
            self.0.events.switch(on);
        }
    }

    /// Stops counting. Unfinished columns are stored.
    pub fn stop(&self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }

    /// Processes the events up to `now` (nanoseconds since 1970). Called by the thread; tests pass
    /// their own time.
    pub fn turn(&self, now: u64) {
        let _turning = self.0.turning.lock();
        let mut new = Vec::new();
        self.0.events.drain(&mut new);
        if let Some(ring) = &self.0.ring {
            ring.append(&new);
        }
        let names = Describer(&self.0);
        self.0.followers.offer(&new, &names);
        let mut state = self.0.state.lock();
        let state = &mut *state;
        if now / SECOND > state.second / SECOND + ASLEEP {
            state.second = now / SECOND * SECOND - SECOND;
        }
        let end = state.second + SECOND;
        state.count(&new, end, &names);
        while now >= state.second + SECOND + SLACK {
            self.close(state, &names);
            let early = std::mem::take(&mut state.early);
            state.count(&early, state.second + SECOND, &names);
        }
    }

    fn close(&self, state: &mut State, names: &dyn Describe) {
        let second = state.second / SECOND;
        let whole = self.0.on.load(Ordering::Relaxed) && second > self.0.in_part.load(Ordering::Relaxed);
        state.count_lost(&self.0.events);
        let mut samples: Vec<Sample> = Vec::new();
        for sampler in &mut state.samplers {
            sampler.sample(&mut samples);
        }
        for live in state.live.iter_mut().filter(|l| !l.definition.suspended) {
            let column = match &mut live.counting {
                Counting::Events(tally) => Some(tally.close(names)),
                Counting::Sampled(tally) => {
                    samples.iter().for_each(|s| tally.add(s, names));
                    tally.close()
                }
            };
            let partial = std::mem::take(&mut live.partial);
            if let Some(mut column) = column.filter(|_| whole && !partial) {
                if live.scheme.is_none() {
                    column.keep(CELLS);
                }
                live.push(second, column, &mut state.rows);
            }
        }
        state.second += SECOND;
        state.begun = false;
        if second.is_multiple_of(COMMIT) {
            self.keep(state, second);
        }
        self.0.closed.notify_all();
    }

    /// Writes the waiting rows.
    fn keep(&self, state: &mut State, second: u64) {
        let mut done = self.0.archive.append(&state.rows);
        if done.is_ok() {
            state.rows.clear();
            // Blocks of different statistics may end at any second: maintain one statistic at a
            // time.
            let turn = usize::try_from(second / COMMIT).unwrap_or(0);
            let count = state.live.len().max(1);
            if let Some(live) = state.live.get(turn % count).filter(|l| l.archived) {
                done = self.tidy(live, second);
            }
        }
        match done {
            Ok(()) => state.stopped_archiving = false,
            Err(error) => {
                if !state.stopped_archiving {
                    tracing::warn!(%error, "statistics are not archived until this is repaired");
                }
                state.stopped_archiving = true;
                let excess = state.rows.len().saturating_sub(WAITING);
                state.rows.drain(..excess);
            }
        }
    }

    fn tidy(&self, live: &Live, second: u64) -> io::Result<()> {
        let id = live.definition.id;
        self.0.archive.seal(id, live.scheme, second)?;
        for tier in Tier::ALL {
            let before = second.saturating_sub(self.0.retention.of(tier));
            // Whole blocks only: rewriting a block each time would be wasteful.
            self.0.archive.prune(id, tier, live.scheme, before - before % (tier.span() * 1800))?;
        }
        Ok(())
    }

    /// Stores what is waiting. The open minute and hour are recomputed from their seconds later.
    pub fn finish(&self) {
        let mut state = self.0.state.lock();
        let state = &mut *state;
        self.keep(state, state.second / SECOND);
        if let Some(ring) = &self.0.ring {
            ring.flush();
        }
    }

    /// All counted statistics, including suspended ones and those that are only watched. Reads the
    /// archive.
    pub fn datasets(&self) -> io::Result<Vec<Dataset>> {
        let sizes = self.0.archive.sizes()?;
        let state = self.0.state.lock();
        let dataset = |live: &Live| Dataset {
            id: live.definition.id,
            name: live.name.to_string(),
            title: catalogue::title(&live.name),
            created: live.definition.created,
            suspended: live.definition.suspended,
            archived: live.archived,
            passing: !live.wanted,
            incore: live.incore(),
            ondisk: sizes.get(&live.definition.id).copied().unwrap_or(0),
            cost: if live.cost.1 == 0 { 0.0 } else { live.cost.0 as f64 / live.cost.1 as f64 },
        };
        Ok(state.live.iter().map(dataset).collect())
    }

    /// Counts a statistic from now on, if it is not counted yet, and returns its number. `archived`
    /// statistics survive the process.
    pub fn count(&self, name: &Name, archived: bool) -> Result<u32, Error> {
        catalogue::find(name)?;
        let _turning = self.0.turning.lock();
        let mut state = self.0.state.lock();
        let state = &mut *state;
        if !state.live.iter().any(|l| l.name == *name) {
            if state.live.iter().filter(|l| l.wanted).count() >= COUNTED {
                return Err(Error::Counted(COUNTED));
            }
            state.begin(&self.0, name, archived)?;
        }
        let live = state.live.iter_mut().find(|l| l.name == *name).ok_or(Error::NotRecorded)?;
        live.wanted = true;
        if archived {
            self.0.archive.define(&live.definition)?;
            live.archived = true;
        }
        Ok(live.definition.id)
    }

    /// Suspends or resumes a statistic; stored columns are kept. Returns whether it exists.
    pub fn suspend(&self, id: u32, suspended: bool) -> Result<bool, Error> {
        let mut state = self.0.state.lock();
        let Some(live) = state.live.iter_mut().find(|l| l.definition.id == id) else { return Ok(false) };
        live.definition.suspended = suspended;
        if live.archived {
            self.0.archive.define(&live.definition)?;
        }
        Ok(true)
    }

    /// Stops counting a statistic and deletes it. Returns whether it existed.
    pub fn destroy(&self, id: u32) -> Result<bool, Error> {
        let mut state = self.0.state.lock();
        state.rows.retain(|r| r.dataset != id);
        self.0.archive.destroy(id)?;
        let Some(live) = state.live.iter_mut().find(|l| l.definition.id == id && l.wanted) else { return Ok(false) };
        // Watchers continue to see it, starting now.
        (live.wanted, live.archived, live.definition.suspended) = (false, false, false);
        live.window.clear();
        state.live.retain(|l| l.wanted || l.watchers > 0);
        Ok(true)
    }

    /// Deletes the columns of a statistic before a second. Returns whether it exists.
    pub fn prune(&self, id: u32, before: u64) -> Result<bool, Error> {
        let mut state = self.0.state.lock();
        let State { live, rows, .. } = &mut *state;
        let Some(live) = live.iter_mut().find(|l| l.definition.id == id) else { return Ok(false) };
        live.window.retain(|(second, _)| *second >= before);
        rows.retain(|r| r.dataset != id || r.start >= before);
        for tier in Tier::ALL {
            self.0.archive.prune(id, tier, live.scheme, before)?;
        }
        Ok(true)
    }

    /// The extent of the recorder.
    pub fn recorded(&self) -> Option<Extent> {
        self.0.ring.as_ref().map(Ring::extent)
    }

    /// The columns of a statistic in `from..to` (seconds since 1970), one for each `step` seconds.
    /// Data that was not counted at the time is counted from the recorder.
    pub fn query(&self, name: &Name, from: u64, to: u64, step: u64) -> Result<Answer, Error> {
        answer::query(&self.0, name, from, to, step)
    }

    /// Explains the operations in a rectangle: those that ended in `span` and whose number
    /// (latency, size …) is in `rows`, compared with the others of the same statistic that ended in
    /// `among` (all in seconds since 1970).
    pub fn explain(
        &self,
        name: &Name,
        span: (u64, u64),
        rows: Option<(u64, u64)>,
        among: (u64, u64),
    ) -> Result<Explanation, Error> {
        let nanos = |second: u64| second.saturating_mul(SECOND);
        let mut explainer = Explainer::new(name, (nanos(span.0), nanos(span.1)), rows)?;
        let names = Describer(&self.0);
        let ring = self.0.ring.as_ref().ok_or(Error::NotRecorded)?;
        ring.read(nanos(among.0.min(span.0)), nanos(among.1.max(span.1)), |event| explainer.add(event, &names))?;
        Ok(explainer.finish(&names, |word| self.0.archive.text(word).to_string()))
    }
}

#[cfg(test)]
mod tests;
