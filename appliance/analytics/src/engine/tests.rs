//! Tests the engine with a simulated clock.

use super::*;
use crate::sampler::Label;
use crate::tally::tests::events;
use observe::event::{Event, Layer, Note};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A second that starts a minute and an hour.
const START: u64 = 1_700_006_400 / 3600 * 3600;

struct Rig {
    folder: tempfile::TempDir,
    events: Arc<Events>,
    engine: Engine,
}

/// Reports how often it was sampled.
struct Clock(u64);

impl Sampler for Clock {
    fn sample(&mut self, out: &mut Vec<Sample>) {
        self.0 += 1;
        out.push(Sample::new("arc.size", &[(crate::name::Field::Pool, "tank")], self.0));
        let labels = vec![
            (crate::name::Field::Disk, Label::Text("sda".to_owned())),
            (crate::name::Field::Utilization, Label::Number(self.0 % 101)),
        ];
        out.push(Sample { stat: "io.disks", labels, value: 1 });
    }
}

impl Rig {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (events, engine) = open(&folder);
        Self { folder, events, engine }
    }

    fn reopen(self) -> Self {
        let Self { folder, engine, events } = self;
        engine.finish();
        drop((engine, events));
        let (events, engine) = open(&folder);
        Self { folder, events, engine }
    }

    fn record(&self, second: u64, events: &[Event]) {
        for (n, event) in events.iter().enumerate() {
            self.events.record(Event { done: second * SECOND + n as u64, ..*event });
        }
    }

    fn answer(&self, name: &str, from: u64, to: u64, step: u64) -> Vec<(u64, u64)> {
        let answer = self.engine.query(&name.parse().expect("a name"), from, to, step).expect("an answer");
        answer.columns.iter().map(|(start, c)| (*start - START, c.total)).collect()
    }
}

fn open(folder: &tempfile::TempDir) -> (Arc<Events>, Engine) {
    open_with(folder, 1_000_000)
}

fn open_with(folder: &tempfile::TempDir, room: usize) -> (Arc<Events>, Engine) {
    let events = Arc::new(Events::new(1, room));
    events.switch(true);
    events.clients.number("deimos");
    events.clients.number("phobos");
    events.places.number("tank/home");
    let config = Config { folder: Some(folder.path().to_owned()), ring: 64 << 20, retention: Retention::default() };
    let engine = Engine::open(&config, events.clone(), Arc::new(()), vec![Box::new(Clock(0))]).expect("opened");
    engine.0.state.lock().second = START * SECOND;
    (events, engine)
}

fn read(client: u32, latency: u64) -> Event {
    Event {
        op: 6,
        client,
        latency,
        note: Note { place: 1, object: 5, size: 4096, ..Note::default() },
        ..Event::default()
    }
}

#[test]
fn a_second_is_shown_when_it_is_over_and_later_ones_wait() {
    let rig = Rig::new();
    rig.record(START, &[read(1, 1000); 3]);
    rig.record(START + 1, &[read(2, 5000); 2]);
    rig.engine.turn(START * SECOND + 500_000_000);
    assert_eq!(rig.answer("nfs3.ops", START, START + 10, 1), []);
    rig.engine.turn((START + 1) * SECOND + SLACK);
    assert_eq!(rig.answer("nfs3.ops", START, START + 10, 1), [(0, 3)]);
    // A late event counts in the open second.
    rig.record(START, &[read(1, 1000)]);
    rig.engine.turn((START + 3) * SECOND + SLACK);
    assert_eq!(rig.answer("nfs3.ops", START, START + 10, 1), [(0, 3), (1, 3), (2, 0)]);
    assert_eq!(rig.answer("nfs3.ops[op]", START, START + 10, 2), [(0, 6), (2, 0)]);
    assert_eq!(rig.engine.wait(0, Duration::ZERO), START + 2);
}

#[test]
fn operations_while_off_count_as_not_recorded() {
    let rig = Rig::new();
    rig.engine.switch(false);
    rig.record(START, &[read(1, 1000); 3]);
    rig.engine.turn((START + 1) * SECOND + SLACK);
    rig.engine.switch(true);
    assert_eq!(rig.answer("nfs3.ops", START, START + 10, 1), []);
    // The second in which recording resumed is incomplete; later ones are complete, by the
    // machine's clock.
    let later = now() / SECOND + 3600;
    rig.engine.0.state.lock().second = later * SECOND;
    rig.record(later, &[read(1, 1000); 3]);
    rig.engine.turn((later + 1) * SECOND + SLACK);
    rig.engine.switch(false);
    rig.record(later + 1, &[read(1, 1000); 3]);
    rig.engine.turn((later + 2) * SECOND + SLACK);
    assert_eq!(rig.answer("nfs3.ops", later, later + 10, 1), [(later - START, 3)]);
}

#[test]
fn uncounted_statistics_are_computed_by_the_recorder_afterwards() {
    let rig = Rig::new();
    for second in 0..20 {
        rig.record(START + second, &[read(1, 1000); 7]);
        rig.record(START + second, &[read(2, 9_000_000)]);
        rig.engine.turn((START + second + 1) * SECOND + SLACK);
    }
    let name = "nfs3.ops[client=phobos][latency]";
    assert_eq!(rig.answer(name, START, START + 5, 1), [(0, 1), (1, 1), (2, 1), (3, 1), (4, 1)]);
    assert_eq!(rig.answer("nfs3.bytes[file]", START, START + 10, 5), [(0, 8 * 5 * 4096), (5, 8 * 5 * 4096)]);
    rig.engine.count(&name.parse().expect("a name"), false).expect("counted");
    for second in 20..23 {
        rig.record(START + second, &[read(2, 9_000_000); 2]);
        rig.engine.turn((START + second + 1) * SECOND + SLACK);
    }
    // Before counting started: from the recorder. After that: from memory.
    assert_eq!(rig.answer(name, START + 18, START + 23, 1), [(18, 1), (19, 1), (20, 2), (21, 2), (22, 2)]);
    let found = rig.engine.explain(
        &"nfs3.ops[latency]".parse().expect("a name"),
        (START, START + 20),
        Some((5_000_000, 20_000_000)),
        (START, START + 20),
    );
    let found = found.expect("explained");
    assert_eq!((found.inside, found.outside), (20, 140));
    assert_eq!(
        (found.fields[0].field, found.fields[0].values[0].value.as_str()),
        (crate::name::Field::Client, "phobos")
    );
}

#[test]
fn minutes_and_hours_are_sums_of_seconds_also_across_a_restart() {
    let mut rig = Rig::new();
    let id = rig.engine.count(&"nfs3.ops[client]".parse().expect("a name"), true).expect("counted");
    for second in 0..4000 {
        rig.record(START + second, &[read(1, 1000), read(2, 2000), read(2, 3000)]);
        rig.engine.turn((START + second + 1) * SECOND + SLACK);
        if second == 1234 || second == 3601 {
            rig = rig.reopen();
            rig.engine.0.state.lock().second = (START + second + 1) * SECOND;
        }
    }
    let total = |step: u64| {
        let all = rig.answer("nfs3.ops[client]", START, START + 4000, step);
        assert_eq!(all.len() as u64, 4000u64.div_ceil(step), "{step}");
        all.iter().map(|(_, n)| n).sum::<u64>()
    };
    for step in [1, 5, 60, 120, 1800, 3600] {
        assert_eq!(total(step), 12_000, "{step}");
    }
    let sets = rig.engine.datasets().expect("read");
    let set = sets.iter().find(|d| d.id == id).expect("there");
    assert!(set.archived && set.ondisk > 0 && set.incore > 0 && set.cost > 0.0, "{set:?}");
    assert!(rig.engine.prune(id, START + 3990).expect("pruned"));
    assert!(rig.engine.suspend(id, true).expect("suspended"));
    assert!(rig.engine.destroy(id).expect("destroyed"));
    assert!(!rig.engine.destroy(id).expect("nothing to do"));
}

#[test]
fn levels_are_averaged_and_gaps_are_no_zeros() {
    let rig = Rig::new();
    rig.engine.count(&"arc.size[pool]".parse().expect("a name"), false).expect("counted");
    rig.engine.turn((START + 4) * SECOND + SLACK);
    let answer = rig.engine.query(&"arc.size[pool]".parse().expect("a name"), START - 5, START + 9, 1).expect("one");
    let reported: Vec<_> = answer.columns.iter().map(|(s, c)| (s - START, c.total, c.seconds)).collect();
    assert_eq!(reported, [(0, 1, 1), (1, 2, 1), (2, 3, 1), (3, 4, 1)]);
    assert_eq!(answer.words.values().map(|w| &**w).collect::<Vec<_>>(), ["tank"]);
    let answer = rig.engine.query(&"arc.size".parse().expect("a name"), START, START + 4, 4).expect("one");
    assert_eq!(answer.columns.get(&START).map(|c| (c.total, c.seconds)), Some((10, 4)));
    // After sleep, the time in between counts as not recorded.
    rig.engine.turn((START + 1000) * SECOND + SLACK);
    rig.engine.turn((START + 1001) * SECOND + SLACK);
    assert_eq!(
        rig.answer("arc.size", START, START + 2000, 1).iter().map(|(s, _)| *s).collect::<Vec<_>>(),
        [0, 1, 2, 3, 999, 1000]
    );
    assert!(matches!(rig.engine.query(&"arc.size".parse().expect("a name"), 0, START, 1), Err(Error::TooMany(..))));
}

#[test]
fn dropped_operations_count_as_not_recorded() {
    let folder = tempfile::tempdir().expect("a folder");
    let events = Arc::new(Events::new(1, 10));
    events.switch(true);
    let config = Config { folder: Some(folder.path().to_owned()), ring: 0, retention: Retention::default() };
    let engine = Engine::open(&config, events.clone(), Arc::new(()), Vec::new()).expect("opened");
    engine.0.state.lock().second = START * SECOND;
    for name in ["nfs3.ops[client]", "nfs3.ops[op=read]", "nfs3.ops[op=write]"] {
        engine.count(&name.parse().expect("a name"), false).expect("counted");
    }
    (0..25).for_each(|n| events.record(Event { done: START * SECOND + n, ..read(0, 7) }));
    engine.turn((START + 1) * SECOND + SLACK);
    let total = |name: &str| {
        let answer = engine.query(&name.parse().expect("a name"), START, START + 1, 1).expect("one");
        let column = answer.columns.get(&START).cloned().unwrap_or_default();
        assert!(column.cells.is_empty() || column.cells.iter().map(|(_, n)| n).sum::<u64>() == column.total, "{name}");
        column.total
    };
    assert_eq!((total("nfs3.ops"), total("nfs3.ops[op]"), total("nfs3.ops[client]")), (25, 25, 25));
    assert_eq!((total("nfs3.ops[op=read]"), total("nfs3.ops[op=write]")), (25, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10))]
    #[test]
    fn memory_and_recorder_report_the_same(all in proptest::collection::vec(events(40), 1..6)) {
        let rig = Rig::new();
        let names = ["nfs3.ops[latency]", "nfs3.ops[file]", "fuse.bytes[client]", "io.ops[op]", "arc.accesses[hit/miss]", "nfs4-1.ops[op=read][offset]"];
        for name in names {
            rig.engine.count(&name.parse().expect("a name"), false).expect("counted");
        }
        for (second, events) in (START..).zip(&all) {
            rig.record(second, events);
            rig.engine.turn((second + 1) * SECOND + SLACK);
        }
        let last = START + all.len() as u64;
        for name in names {
            let name = name.parse().expect("a name");
            let live = rig.engine.query(&name, START, last, 1).expect("an answer").columns;
            let reported = answer::recorded(&rig.engine.0, &name, START, last).expect("an answer");
            for (second, column) in &reported {
                prop_assert_eq!(live.get(second), Some(column), "{} {}", name, second);
            }
        }
    }
}

#[test]
fn watched_statistics_are_counted_while_watched_from_a_whole_second_on() {
    let rig = Rig::new();
    let name = "nfs3.ops[client]".parse().expect("a name");
    rig.record(START, &[read(1, 1000); 3]);
    rig.engine.turn(START * SECOND + 500_000_000);
    // The second is half over, and already counted.
    let (one, two) = (rig.engine.watch(&name).expect("counted"), rig.engine.watch(&name).expect("counted"));
    rig.record(START, &[read(2, 1000); 4]);
    rig.engine.turn((START + 1) * SECOND + SLACK);
    let reported = rig.engine.watched(START);
    assert_eq!(reported.len(), 1);
    let column = reported[0].columns.get(&START).expect("counted");
    assert_eq!((column.total, column.cells.len()), (7, 2));
    assert!(rig.engine.watched(START + 1)[0].columns.is_empty(), "not over yet");
    assert!(rig.engine.datasets().expect("read").iter().any(|d| d.passing));
    drop(one);
    assert_eq!(rig.engine.watched(START).len(), 1);
    // Counted on request: it stays when nothing watches it.
    let id = rig.engine.count(&name, false).expect("counted");
    drop(two);
    assert!(rig.engine.watched(START).is_empty());
    assert!(rig.engine.datasets().expect("read").iter().any(|d| d.id == id && !d.passing));
    // After being destroyed it is counted for its watcher, and removed with it.
    let three = rig.engine.watch(&name).expect("counted");
    assert!(rig.engine.destroy(id).expect("destroyed"));
    assert!(!rig.engine.destroy(id).expect("nothing to do"));
    rig.engine.turn((START + 2) * SECOND + SLACK);
    assert_eq!(rig.engine.watched(START + 1)[0].columns.len(), 1);
    drop(three);
    assert!(rig.engine.datasets().expect("read").iter().all(|d| d.id != id));
    let many: Vec<_> =
        (0..70).map(|n| rig.engine.watch(&format!("nfs3.ops[client={n}]").parse().expect("a name"))).collect();
    assert!(matches!(many.last(), Some(Err(Error::Watched(_)))));
}

#[test]
fn without_a_recorder_a_second_that_was_counted_in_part_is_not_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let events = Arc::new(Events::new(1, 1000));
    events.switch(true);
    let config = Config { folder: Some(folder.path().to_owned()), ring: 0, retention: Retention::default() };
    let engine = Engine::open(&config, events.clone(), Arc::new(()), Vec::new()).expect("opened");
    engine.0.state.lock().second = START * SECOND;
    (0..5).for_each(|n| events.record(Event { done: START * SECOND + n, ..read(0, 7) }));
    engine.turn(START * SECOND + 500_000_000);
    let name = "nfs3.ops[client]".parse().expect("a name");
    engine.count(&name, false).expect("counted");
    engine.turn((START + 2) * SECOND + SLACK);
    let reported = engine.query(&name, START, START + 2, 1).expect("an answer");
    assert_eq!(reported.columns.keys().collect::<Vec<_>>(), [&(START + 1)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    /// Whatever the breakdown, a second adds up to the same total; in every tier, after a restart,
    /// and if details were lost. Random operations, drained in random batches with small buffers,
    /// across the end of a minute.
    #[test]
    fn every_view_of_a_second_adds_up_to_what_passed(
        all in proptest::collection::vec(proptest::collection::vec(events(30), 1..4), 2..6),
        room in 5usize..60,
    ) {
        const NAMES: [&str; 8] = [
            "nfs3.ops", "nfs3.ops[client]", "nfs3.ops[file]", "nfs3.ops[op]", "nfs3.ops[latency]", "nfs3.ops[user]",
            "nfs3.ops[share]", "nfs3.ops[hit/miss]",
        ];
        let folder = tempfile::tempdir().expect("a folder");
        let (taken, engine) = open_with(&folder, room);
        let rig = Rig { folder, events: taken, engine };
        let first = START + 57;
        rig.engine.0.state.lock().second = first * SECOND;
        for name in NAMES {
            rig.engine.count(&name.parse().expect("a name"), true).expect("counted");
        }
        let mut passed: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        let mut lost = 0;
        let mut whole = Vec::new();
        for (second, portions) in (first..).zip(&all) {
            let latencies = passed.entry(second).or_default();
            for (turn, portion) in (1..).zip(portions) {
                let portion: Vec<Event> = portion.iter().map(|e| Event { layer: Layer::Nfs3, ..*e }).collect();
                latencies.extend(portion.iter().map(|e| e.latency));
                rig.record(second, &portion);
                rig.engine.turn(second * SECOND + turn * 200_000_000);
            }
            rig.engine.turn((second + 1) * SECOND + SLACK);
            let now = rig.events.lost().iter().map(|(.., n)| n).sum::<u64>();
            if now == lost {
                whole.push(second);
            }
            lost = now;
        }
        let end = first + all.len() as u64;
        let check = |rig: &Rig| -> Result<(), TestCaseError> {
            for (name, step) in NAMES.iter().flat_map(|name| [1, 2, 60, 3600].map(|step| (name, step))) {
                let reported = rig.engine.query(&name.parse().expect("a name"), first, end, step).expect("an answer");
                let mut sums: BTreeMap<u64, u64> = BTreeMap::new();
                passed.iter().for_each(|(s, all)| *sums.entry(s - s % step).or_default() += all.len() as u64);
                let totals: BTreeMap<u64, u64> = reported.columns.iter().map(|(s, c)| (*s, c.total)).collect();
                prop_assert_eq!(&totals, &sums, "{} {}", name, step);
                for column in reported.columns.values().filter(|_| reported.name.breakdown.is_some()) {
                    prop_assert_eq!(column.cells.iter().map(|(_, n)| n).sum::<u64>(), column.total, "{} {}", name, step);
                }
            }
            Ok(())
        };
        check(&rig)?;
        // Percentiles are accurate to the width of a bucket.
        let reported = rig.engine.query(&"nfs3.ops[latency]".parse().expect("a name"), first, end, 1).expect("an answer");
        for second in whole {
            let mut latencies = passed.get(&second).cloned().unwrap_or_default();
            latencies.sort_unstable();
            let column = reported.columns.get(&second).cloned().unwrap_or_default();
            for rank in (0..latencies.len()).step_by(7) {
                let mut seen = 0;
                let class = column.cells.iter().find(|(_, n)| {
                    seen += n;
                    seen > rank as u64
                });
                let (class, _) = class.expect("as many as passed");
                prop_assert_eq!(crate::scheme::Scheme::Latency.class(latencies[rank]), *class);
            }
        }
        let rig = rig.reopen();
        rig.engine.0.state.lock().second = (end + 1) * SECOND;
        check(&rig)?;
    }
}
