//! Counts the operations of one statistic: those that match its predicates, by its breakdown.
//!
//! Used for the current second and for recorded events: both give the same columns.
//!
//! Invariant: each operation that matches the predicates adds its weight to the total once, and to
//! the cells once.

mod counts;

use crate::catalogue::{self, Origin, Weight};
use crate::column::{Column, OTHER, UNRECORDED};
use crate::name::{BadName, Field, Name, Predicate, Wanted};
use crate::scheme::Scheme;
use counts::Counts;
pub(crate) use counts::Key;
use observe::event::{Event, Layer, Lookups, WRONG_BYTES};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// Resolves the numbers in events to names, and assigns numbers to words.
pub trait Describe {
    /// Name of a client.
    fn client(&self, number: u32) -> String;
    /// Name of a user.
    fn user(&self, number: u32) -> String;
    /// Name of a share or a device.
    fn place(&self, number: u32) -> String;
    /// Path of a file in a share; empty if unknown.
    fn file(&self, place: u32, object: u64) -> String;
    /// The number of a word, for cells.
    fn word(&self, text: &str) -> u32;
}

/// Displayed if a name is unknown.
pub const UNKNOWN: &str = "<unknown>";

/// Results of cache lookups, in the order of [`counts`].
const OUTCOMES: [&str; 6] =
    ["data hits", "data misses", "prefetched data hits", "metadata hits", "metadata misses", "L2ARC hits"];

fn counts(c: Lookups) -> [u16; 6] {
    [c.data_hits, c.data_misses, c.prefetched, c.metadata_hits, c.metadata_misses, c.level2_hits]
}

/// The slowest cache lookup of an operation, as an index of [`OUTCOMES`], or its length if there
/// was none.
fn outcome(c: Lookups) -> usize {
    match c {
        c if c.data_misses > 0 => 1,
        c if c.level2_hits > 0 => 5,
        c if c.metadata_misses > 0 => 4,
        c if c.prefetched > 0 => 2,
        c if c.data_hits > 0 => 0,
        c if c.metadata_hits > 0 => 3,
        _ => OUTCOMES.len(),
    }
}

/// Maximum number of distinct values of a field in one second, the most frequent ones.
const NAMED: usize = 200;
/// Maximum number of cached results of predicates that need names.
const REMEMBERED: usize = 65_536;

struct Test {
    predicate: Predicate,
    known: FxHashMap<Key, bool>,
}

/// Counts the operations of one statistic.
pub struct Tally {
    /// A bit for each counted layer.
    layers: u16,
    weight: Weight,
    tests: Vec<Test>,
    breakdown: Option<Field>,
    scheme: Option<Scheme>,
    total: u64,
    sum: u64,
    max: u64,
    dense: Vec<u64>,
    touched: Vec<u32>,
    cells: Counts,
    lost: u64,
}

fn bit(layer: Layer) -> u16 {
    1 << layer as u8
}

/// The layers of the operations, a bit each, for [`Tally::wants_any`].
pub fn layers_of(events: &[Event]) -> u16 {
    events.iter().fold(0, |all, event| all | bit(event.layer))
}

/// The value of a numeric field.
fn number(event: &Event, field: Field) -> u64 {
    match field {
        Field::Latency => event.latency,
        Field::Size => event.note.size.into(),
        Field::Offset => event.note.offset,
        Field::QueueWait => u64::from(event.note.queue_wait) * 1000,
        Field::LogWait => u64::from(event.note.log_wait) * 1000,
        Field::TxgWait => u64::from(event.note.txg_wait) * 1000,
        Field::DiskWait => u64::from(event.note.disk_wait) * 1000,
        _ => 0,
    }
}

fn op_key(layer: Layer, op: u8) -> Key {
    (0, (layer as u64) << 8 | u64::from(op))
}

/// The key of an operation in a field with names.
pub(crate) fn key(event: &Event, field: Field) -> Key {
    match field {
        // In one number: small numbers are counted faster.
        Field::Op => op_key(event.layer, event.op),
        Field::Client | Field::Pool => (0, event.client.into()),
        Field::User => (0, event.user.into()),
        Field::Share | Field::Disk | Field::Volume => (0, event.note.place.into()),
        Field::File => (event.note.place, event.note.object),
        Field::Result => (0, event.note.result.into()),
        Field::HitMiss => (0, outcome(event.note.cache) as u64),
        _ => (0, 0),
    }
}

/// The name of a value of a field.
pub(crate) fn text(key: Key, field: Field, names: &dyn Describe) -> String {
    let low = u32::try_from(key.1).unwrap_or(0);
    let text = match field {
        Field::Op => {
            let layer = Layer::ALL.into_iter().find(|l| *l as u64 == key.1 >> 8).unwrap_or_default();
            layer.operation((key.1 & 0xff) as u8).to_owned()
        }
        Field::Client | Field::Pool => names.client(low),
        Field::User => names.user(low),
        Field::Share | Field::Disk | Field::Volume => names.place(low),
        Field::File => names.file(key.0, key.1),
        Field::Result => match key.1 {
            0 => "ok".to_owned(),
            n if n == u64::from(WRONG_BYTES) => "checksum".to_owned(),
            n => std::io::Error::from_raw_os_error(i32::try_from(n).unwrap_or(0)).to_string(),
        },
        Field::HitMiss => OUTCOMES.get(key.1 as usize).copied().unwrap_or("no lookup").to_owned(),
        _ => String::new(),
    };
    if text.is_empty() { UNKNOWN.to_owned() } else { text }
}

/// Whether the number is in the range of a predicate; true for predicates on names.
pub fn is_in_range(event: &Event, predicate: &Predicate) -> bool {
    let Wanted::Between(from, to) = predicate.wanted else { return true };
    let value = number(event, predicate.field);
    from <= value && (value < to || to == u64::MAX)
}

/// A directory matches everything below it; other values match themselves.
fn is_wanted(text: &str, wanted: &str, field: Field) -> bool {
    if field == Field::File && wanted.ends_with('/') {
        return text.starts_with(wanted);
    }
    text == wanted
}

impl Tally {
    /// A tally for a statistic that counts operations; `None` for others.
    pub fn new(name: &Name) -> Result<Option<Self>, BadName> {
        let statistic = catalogue::find(name)?;
        let Origin::Events(layers, weight) = statistic.origin else { return Ok(None) };
        let scheme = name.breakdown.and_then(Field::scheme);
        let test = |p: &Predicate| Test { predicate: p.clone(), known: FxHashMap::default() };
        Ok(Some(Self {
            layers: layers.iter().fold(0, |all, layer| all | bit(*layer)),
            weight,
            tests: name.predicates.iter().map(test).collect(),
            breakdown: name.breakdown,
            scheme,
            total: 0,
            sum: 0,
            max: 0,
            dense: vec![0; scheme.map_or(0, |s| s.classes() as usize)],
            touched: Vec::new(),
            cells: Counts::default(),
            lost: 0,
        }))
    }

    /// Whether operations of a layer can match.
    pub fn wants(&self, layer: Layer) -> bool {
        self.layers & bit(layer) != 0
    }

    /// The scheme of its heat map.
    pub fn scheme(&self) -> Option<Scheme> {
        self.scheme
    }

    /// Whether an operation matches.
    pub fn takes(&mut self, event: &Event, names: &dyn Describe) -> bool {
        self.passes(event, names).is_some()
    }

    /// Whether an operation matches, and if so, the only lookup result to count, if a predicate
    /// selects one.
    fn passes(&mut self, event: &Event, names: &dyn Describe) -> Option<Option<usize>> {
        if !self.wants(event.layer) {
            return None;
        }
        let mut only = None;
        for Test { predicate, known } in &mut self.tests {
            let passes = match &predicate.wanted {
                Wanted::Between(..) => is_in_range(event, predicate),
                Wanted::Is(wanted) if predicate.field == Field::HitMiss && self.weight == Weight::Lookups => {
                    only = OUTCOMES.iter().position(|o| o == wanted);
                    only.is_some()
                }
                Wanted::Is(wanted) => {
                    let key = key(event, predicate.field);
                    if known.len() >= REMEMBERED {
                        known.clear();
                    }
                    *known
                        .entry(key)
                        .or_insert_with(|| is_wanted(&text(key, predicate.field, names), wanted, predicate.field))
                }
            };
            if !passes {
                return None;
            }
        }
        Some(only)
    }

    /// Whether operations of one of these layers can match.
    pub fn wants_any(&self, layers: u16) -> bool {
        self.layers & layers != 0
    }

    /// Counts operations. The most frequent case, a count of all operations by one field, has a
    /// fast path.
    pub fn add_all(&mut self, events: &[Event], names: &dyn Describe) {
        if !self.tests.is_empty() || self.weight != Weight::Operations {
            return events.iter().for_each(|event| self.add(event, names));
        }
        let layers = self.layers;
        let wanted = events.iter().filter(|event| layers & bit(event.layer) != 0);
        match (self.breakdown, self.scheme) {
            (None, _) => self.total += wanted.count() as u64,
            (Some(field), Some(scheme)) => {
                for event in wanted {
                    self.add_number(number(event, field), scheme, 1);
                }
            }
            (Some(field), None) => {
                for event in wanted {
                    self.total += 1;
                    self.cells.add(key(event, field), 1);
                }
            }
        }
    }

    fn add_number(&mut self, value: u64, scheme: Scheme, weight: u64) {
        self.total += weight;
        self.sum = self.sum.wrapping_add(value.wrapping_mul(weight));
        self.max = self.max.max(value);
        let class = scheme.class(value);
        if let Some(cell) = self.dense.get_mut(class as usize) {
            if *cell == 0 {
                self.touched.push(class);
            }
            *cell += weight;
        }
    }

    /// Counts an operation if it matches the predicates.
    pub fn add(&mut self, event: &Event, names: &dyn Describe) {
        let Some(only) = self.passes(event, names) else { return };
        let lookups = counts(event.note.cache);
        let weight = match (self.weight, only) {
            (Weight::Operations, _) => 1,
            (Weight::Bytes, _) => event.note.size.into(),
            (Weight::Lookups, Some(one)) => lookups.get(one).copied().unwrap_or(0).into(),
            (Weight::Lookups, None) => lookups.iter().map(|n| u64::from(*n)).sum(),
        };
        if weight == 0 {
            return;
        }
        if let (Some(field), Some(scheme)) = (self.breakdown, self.scheme) {
            return self.add_number(number(event, field), scheme, weight);
        }
        self.total += weight;
        match (self.breakdown, self.scheme) {
            (None, _) | (Some(_), Some(_)) => {}
            (Some(Field::HitMiss), None) if self.weight == Weight::Lookups => {
                let all = lookups.iter().enumerate().filter(|(n, _)| only.is_none_or(|only| only == *n));
                for (n, count) in all.filter(|(_, count)| **count > 0) {
                    self.cells.add((0, n as u64), u64::from(*count));
                }
            }
            (Some(field), None) => self.cells.add(key(event, field), weight),
        }
    }

    /// Counts operations of which only the type is known.
    pub fn add_lost(&mut self, layer: Layer, op: u8, count: u64) {
        let is_op = |p: &Predicate| matches!(&p.wanted, Wanted::Is(name) if p.field == Field::Op && name == layer.operation(op));
        if !self.wants(layer) || self.weight != Weight::Operations || !self.tests.iter().all(|t| is_op(&t.predicate)) {
            return;
        }
        self.total += count;
        match self.breakdown {
            None => {}
            Some(Field::Op) => self.cells.add(op_key(layer, op), count),
            Some(_) => self.lost += count,
        }
    }

    /// Returns the column of one second and resets the tally.
    pub fn close(&mut self, names: &dyn Describe) -> Column {
        let mut out = Column {
            total: std::mem::take(&mut self.total),
            sum: std::mem::take(&mut self.sum),
            max: std::mem::take(&mut self.max),
            seconds: 1,
            cells: Vec::new(),
        };
        self.touched.sort_unstable();
        for class in self.touched.drain(..) {
            if let Some(cell) = self.dense.get_mut(class as usize) {
                out.cells.push((class, std::mem::take(cell)));
            }
        }
        if let Some(field) = self.breakdown.filter(|_| self.scheme.is_none()) {
            // Names are resolved, and numbers assigned to them, only for values that are kept.
            let mut cells = self.cells.take();
            let mut words: FxHashMap<u32, u64> = FxHashMap::default();
            if cells.len() > NAMED {
                cells.select_nth_unstable_by_key(NAMED, |(key, n)| (Reverse(*n), *key));
                words.insert(OTHER, cells.drain(NAMED..).map(|(_, n)| n).sum());
            }
            // Two keys can have the same name: an old and a new file.
            for (key, count) in cells {
                *words.entry(names.word(&text(key, field, names))).or_default() += count;
            }
            out.cells = words.into_iter().collect();
            out.cells.sort_unstable();
        }
        let lost = std::mem::take(&mut self.lost);
        if lost > 0 {
            out.cells.push((UNRECORDED, lost));
            out.cells.sort_unstable();
        }
        self.forget_names();
        out
    }

    /// Names change: a name that was unknown a second ago may be known now.
    pub fn forget_names(&mut self) {
        self.tests.iter_mut().for_each(|test| test.known.clear());
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use observe::event::{Names, Note};
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// Numbers are their own names.
    pub struct Plain(pub Names);

    impl Default for Plain {
        fn default() -> Self {
            Self(Names::new(10_000))
        }
    }

    impl Describe for Plain {
        fn client(&self, number: u32) -> String {
            format!("10.0.0.{number}")
        }
        fn user(&self, number: u32) -> String {
            number.to_string()
        }
        fn place(&self, number: u32) -> String {
            format!("tank/{number}")
        }
        fn file(&self, place: u32, object: u64) -> String {
            if object == 0 { String::new() } else { format!("/{place}/{object}") }
        }
        fn word(&self, text: &str) -> u32 {
            self.0.number(text)
        }
    }

    pub fn events(most: usize) -> impl Strategy<Value = Vec<Event>> {
        let lookups = (0u16..3, 0u16..2, 0u16..2, 0u16..3, 0u16..2, 0u16..2).prop_map(|(a, b, c, d, e, f)| Lookups {
            data_hits: a,
            data_misses: b,
            prefetched: c,
            metadata_hits: d,
            metadata_misses: e,
            level2_hits: f,
        });
        let note = (0u32..3, 0u64..6, 0u64..1 << 40, 0u32..2 << 20, lookups, 0u32..2_000_000).prop_map(
            |(place, object, offset, size, cache, wait)| Note {
                result: 0,
                place,
                object,
                offset,
                size,
                cache,
                queue_wait: wait / 5,
                log_wait: wait,
                txg_wait: wait / 3,
                disk_wait: wait / 7,
            },
        );
        let layer = proptest::sample::select(Layer::ALL.to_vec());
        let event = (layer, 0u8..25, 0u64..40, 0u32..5, 0u32..4, prop_oneof![Just(0u16), Just(2), Just(28)], note)
            .prop_map(|(layer, op, shift, client, user, result, note)| Event {
                done: 1_700_000_000_000_000_000 + (shift << 28),
                latency: (0x9e37_79b9 + u64::from(op) * 77_777) << shift >> 8,
                layer,
                op,
                client,
                user,
                note: Note { result, ..note },
            });
        proptest::collection::vec(event, 0..most)
    }

    fn column(name: &str, events: &[Event], names: &Plain) -> Column {
        let name = name.parse().expect("a name");
        let mut tally = Tally::new(&name).expect("known").expect("of operations");
        events.iter().for_each(|e| tally.add(e, names));
        tally.close(names)
    }

    proptest! {
        #[test]
        fn the_cells_of_any_breakdown_add_up_to_the_raw_count(events in events(300)) {
            let names = Plain::default();
            for s in catalogue::CATALOGUE.iter().filter(|s| s.origin != Origin::Sampled) {
                let raw = column(s.name, &events, &names);
                for field in s.fields {
                    let by = column(&format!("{}[{}]", s.name, field.name()), &events, &names);
                    prop_assert_eq!(by.total, raw.total);
                    prop_assert_eq!(by.cells.iter().map(|(_, n)| n).sum::<u64>(), raw.total, "{}[{}]", s.name, field.name());
                }
            }
        }

        #[test]
        fn drilling_into_every_value_finds_everything_once(events in events(200)) {
            let names = Plain::default();
            for (stat, field) in [("nfs3.ops", "client"), ("nfs4-1.ops", "file"), ("fuse.ops", "op"), ("io.ops", "disk"),
                ("nfs3.ops", "hit/miss"), ("arc.accesses", "hit/miss"), ("nfs3.bytes", "user"), ("nfs3.ops", "result")] {
                let by = column(&format!("{stat}[{field}]"), &events, &names);
                for (word, count) in &by.cells {
                    let value = names.0.name(*word).expect("a word");
                    let one = column(&format!("{stat}[{field}={value}]"), &events, &names);
                    prop_assert_eq!(one.total, *count, "{}[{}={}]", stat, field, value);
                }
            }
            for (stat, field) in [("nfs3.ops", "latency"), ("io.bytes", "offset"), ("fuse.ops", "size")] {
                let by = column(&format!("{stat}[{field}]"), &events, &names);
                let scheme = field_scheme(field);
                for (class, count) in &by.cells {
                    let (from, to) = scheme.range(*class);
                    let to = if to == u64::MAX { String::new() } else { to.to_string() };
                    let one = column(&format!("{stat}[{field}={from}..{to}]"), &events, &names);
                    prop_assert_eq!(one.total, *count);
                }
            }
        }
    }

    fn field_scheme(name: &str) -> Scheme {
        Field::all().find(|f| f.name() == name).and_then(Field::scheme).expect("a number")
    }

    #[test]
    fn a_directory_includes_its_descendants_and_averages_are_exact() {
        let names = Plain::default();
        let event = |object, latency| Event {
            latency,
            op: 6,
            note: Note { place: 1, object, size: 10, ..Note::default() },
            ..Event::default()
        };
        let events = [event(1, 1000), event(2, 2000), event(0, 6000)];
        assert_eq!(column("nfs3.ops[file=/1/]", &events, &names).total, 2);
        assert_eq!(column("nfs3.ops[file=/1/2]", &events, &names).total, 1);
        assert_eq!(column("nfs3.ops[file=<unknown>]", &events, &names).total, 1);
        assert_eq!(column("nfs3.ops[op=write]", &events, &names).total, 0);
        let latency = column("nfs3.ops[op=read][latency]", &events, &names);
        assert_eq!((latency.total, latency.sum, latency.max, latency.cells.len()), (3, 9000, 6000, 3));
        let weighed = column("nfs3.bytes[latency]", &events, &names);
        assert_eq!((weighed.total, weighed.sum), (30, 90_000));
    }

    #[test]
    fn outcomes_have_readable_names() {
        let names = Plain::default();
        let cache = Lookups { data_hits: 3, data_misses: 1, ..Lookups::default() };
        let events = [Event { note: Note { cache, ..Note::default() }, ..Event::default() }];
        let reported: HashMap<_, _> = column("arc.accesses[hit/miss]", &events, &names)
            .cells
            .into_iter()
            .map(|(word, n)| (names.0.name(word).expect("a word").to_string(), n))
            .collect();
        assert_eq!(reported, HashMap::from([("data hits".to_owned(), 3), ("data misses".to_owned(), 1)]));
        assert_eq!(column("nfs3.ops[hit/miss=data misses]", &events, &names).total, 1);
    }
}
