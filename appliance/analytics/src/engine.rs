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
mod live;
mod names;
mod operations;
mod watch;

use crate::archive::{Archive, Definition, Row, Tier};
use crate::catalogue;
use crate::explain::{Explainer, Explanation};
use crate::name::{BadName, Name};
use crate::ring::{Extent, Ring};
use crate::sampler::{Sample, Sampler};
use crate::tally::{Describe, layers_of};
pub use answer::{Answer, Columns};
pub use live::DEFAULTS;
use live::{Counting, Live};
pub use names::Resolver;
use names::Words;
use observe::event::{Event, Events, Layer};
pub use operations::Follower;
use operations::Followers;
use parking_lot::{Condvar, Mutex};
use rustc_hash::FxHashMap;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
pub use watch::Watch;

/// How often events are drained.
const TURN: Duration = Duration::from_millis(100);
/// How long a second stays open after its end for late events, in nanoseconds.
const SLACK: u64 = 150_000_000;
const SECOND: u64 = 1_000_000_000;
/// Number of events that all statistics count before the next ones: 24 KiB.
const PIECE: usize = 256;
/// Number of cells kept in a column, the largest ones; the others are summed.
const CELLS: usize = 200;
/// How often the archive is written, in seconds.
const COMMIT: u64 = 10;
/// Maximum number of statistics that are counted.
const COUNTED: usize = 1000;
/// Maximum number of rows waiting while the archive cannot be written.
const WAITING: usize = 100_000;
/// After this many seconds without a turn (the machine was asleep), the time in between counts as
/// not recorded.
const ASLEEP: u64 = 10;

/// How long columns of each tier are kept, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Columns of a second.
    pub second: u64,
    /// Columns of a minute.
    pub minute: u64,
    /// Columns of an hour.
    pub hour: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Self { second: 7 * 86_400, minute: 14 * 86_400, hour: 90 * 86_400 }
    }
}

impl Retention {
    fn of(self, tier: Tier) -> u64 {
        match tier {
            Tier::Second => self.second,
            Tier::Minute => self.minute,
            Tier::Hour => self.hour,
        }
    }
}

/// Configuration of the engine.
#[derive(Debug, Clone)]
pub struct Config {
    /// Directory of the archive and the recorder; without it, everything is in memory.
    pub folder: Option<PathBuf>,
    /// Size limit of the recorder in bytes; 0 records no operations.
    pub ring: u64,
    pub retention: Retention,
}

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

struct State {
    live: Vec<Live>,
    next: u32,
    samplers: Vec<Box<dyn Sampler>>,
    /// Start of the open second: nanoseconds since 1970.
    second: u64,
    /// Whether anything was counted in it.
    begun: bool,
    early: Vec<Event>,
    lost: FxHashMap<(Layer, u8), u64>,
    rows: Vec<Row>,
    stopped_archiving: bool,
}

struct Inner {
    events: Arc<Events>,
    archive: Archive,
    ring: Option<Ring>,
    words: Words,
    retention: Retention,
    /// Held while events are drained and counted: its holder sees recorder and tallies at the same
    /// event. Locked before `state`.
    turning: Mutex<()>,
    followers: Followers,
    state: Mutex<State>,
    closed: Condvar,
    stop: AtomicBool,
    on: AtomicBool,
    /// The last second that was only partially counted because of [`Engine::switch`].
    in_part: AtomicU64,
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
        self.0.followers.offer(&new, &self.0);
        let names = Describer(&self.0);
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
                    tracing::warn!(%error, "statistics are not archived until this is mended");
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

    /// All counted statistics.
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
            watch::begin(&self.0, state, name, archived)?;
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

impl State {
    /// Counts the events that ended before `end`; later ones wait.
    fn count(&mut self, events: &[Event], end: u64, names: &dyn Describe) {
        if events.iter().any(|e| e.done >= end) {
            self.early.extend(events.iter().filter(|e| e.done >= end));
            let in_time: Vec<Event> = events.iter().filter(|e| e.done < end).copied().collect();
            return self.count_in_time(&in_time, names);
        }
        self.count_in_time(events, names);
    }

    fn count_in_time(&mut self, events: &[Event], names: &dyn Describe) {
        self.begun |= !events.is_empty();
        // In batches that stay in the nearest cache while each statistic processes them.
        for events in events.chunks(PIECE) {
            let layers = layers_of(events);
            for live in self.live.iter_mut().filter(|l| !l.definition.suspended) {
                let Counting::Events(tally) = &mut live.counting else { continue };
                if !tally.wants_any(layers) {
                    continue;
                }
                let begun = std::time::Instant::now();
                tally.add_all(events, names);
                let spent = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
                // A decaying average: the older half counts half.
                let (nanos, count) = live.cost;
                let keep = if count > 1 << 20 { 2 } else { 1 };
                live.cost = (nanos / keep + spent, count / keep + events.len() as u64);
            }
        }
    }

    /// Counts events whose details were lost.
    fn count_lost(&mut self, events: &Events) {
        for (layer, op, lost) in events.lost() {
            let before = self.lost.insert((layer, op), lost).unwrap_or(0);
            if lost == before {
                continue;
            }
            for live in self.live.iter_mut().filter(|l| !l.definition.suspended) {
                if let Counting::Events(tally) = &mut live.counting {
                    tally.add_lost(layer, op, lost - before);
                }
            }
        }
    }
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The name is invalid.
    #[error(transparent)]
    Name(#[from] BadName),
    /// The archive cannot be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Operations are not recorded.
    #[error("operations are not recorded: the recorder is off, or the statistic does not count operations")]
    NotRecorded,
    /// Too many columns for one answer.
    #[error("{0} columns are more than {1}: ask for a shorter time or a larger step")]
    TooMany(u64, u64),
    /// The limit of counted statistics.
    #[error("{0} statistics are counted: destroy some before others are counted")]
    Counted(usize),
    /// The limit of watched statistics.
    #[error("{0} statistics are looked at that are not counted otherwise")]
    Watched(usize),
    /// The limit of operation followers.
    #[error("operations are followed by {0} already")]
    Followed(usize),
}

/// Resolves the numbers in events to names, and words to numbers of the archive.
struct Describer<'a>(&'a Inner);

impl Describe for Describer<'_> {
    fn client(&self, number: u32) -> String {
        self.0.words.client(number)
    }
    fn user(&self, number: u32) -> String {
        self.0.words.user(number)
    }
    fn place(&self, number: u32) -> String {
        self.0.words.place(number)
    }
    fn file(&self, place: u32, object: u64) -> String {
        self.0.words.file(place, object)
    }
    fn word(&self, text: &str) -> u32 {
        self.0.archive.word(text)
    }
}

#[cfg(test)]
mod tests;
