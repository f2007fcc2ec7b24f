//! What the engine holds, and how it counts events.

use super::config::Retention;
use super::error::Error;
use super::followers::Followers;
use super::live::{Counting, Live};
use super::names::Words;
use crate::archive::{Archive, Definition, Row};
use crate::name::Name;
use crate::ring::Ring;
use crate::sampler::Sampler;
use crate::tally::{Describe, layers_of};
use observe::event::{Event, Events, Layer};
use parking_lot::{Condvar, Mutex};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

pub const SECOND: u64 = 1_000_000_000;

/// Number of events that all statistics count before the next ones: 24 KiB.
const PIECE: usize = 256;

/// Number of cells kept in a column, the largest ones; the others are summed.
pub const CELLS: usize = 200;

/// The counted statistics and the open second.
pub struct State {
    pub live: Vec<Live>,
    pub next: u32,
    pub samplers: Vec<Box<dyn Sampler>>,
    /// Start of the open second: nanoseconds since 1970.
    pub second: u64,
    /// Whether anything was counted in it.
    pub begun: bool,
    pub early: Vec<Event>,
    pub lost: FxHashMap<(Layer, u8), u64>,
    pub rows: Vec<Row>,
    pub stopped_archiving: bool,
}

/// The parts of an engine.
pub struct Inner {
    pub events: Arc<Events>,
    pub archive: Archive,
    pub ring: Option<Ring>,
    pub words: Words,
    pub retention: Retention,
    /// Held while events are drained and counted: its holder sees recorder and tallies at the same
    /// event. Locked before `state`.
    pub turning: Mutex<()>,
    pub followers: Followers,
    pub state: Mutex<State>,
    pub closed: Condvar,
    pub stop: AtomicBool,
    pub on: AtomicBool,
    /// The last second that was only partially counted because of
    /// [`Engine::switch`](super::Engine::switch).
    pub in_part: AtomicU64,
}

impl State {
    /// Starts counting a statistic. The caller holds `turning`: all drained events are counted and
    /// recorded.
    pub fn begin(&mut self, inner: &Inner, name: &Name, archived: bool) -> Result<u32, Error> {
        let id = self.next;
        let definition = Definition { id, name: name.to_string(), created: self.second / SECOND, suspended: false };
        let mut live = Live::new(definition, archived)?;
        if let (Counting::Events(tally), true) = (&mut live.counting, self.begun) {
            match &inner.ring {
                Some(ring) => {
                    let names = Describer(inner);
                    ring.read(self.second, self.second + SECOND, |event| tally.add(event, &names))?;
                }
                None => live.partial = true,
            }
        }
        self.next += 1;
        self.live.push(live);
        Ok(id)
    }

    /// Counts the events that ended before `end`; later ones wait.
    pub fn count(&mut self, events: &[Event], end: u64, names: &dyn Describe) {
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
    pub fn count_lost(&mut self, events: &Events) {
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

/// Resolves the numbers in events to names, and words to numbers of the archive.
pub struct Describer<'a>(pub &'a Inner);

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
