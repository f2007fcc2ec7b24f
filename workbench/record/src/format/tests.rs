//! What is written can be read back to the bit; truncated and damaged files are reported.

use super::*;
use proptest::prelude::*;

fn stamp(n: i64) -> Stamp {
    Stamp { utc_ns: 1_795_000_000_000_000_000 + n, mono_ns: 5_000_000_000 + n }
}

fn meta() -> Meta {
    Meta { started: stamp(0), ..Meta::now("a run", Duration::from_secs(1)) }
}

/// Numbers of every kind that a column may hold.
fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(0.0),
        Just(-0.0),
        Just(f64::NAN),
        Just(f64::INFINITY),
        (-9_007_199_254_740_991i64..9_007_199_254_740_991).prop_map(|n| n as f64),
        (0u32..1000).prop_map(f64::from),
        any::<f64>().prop_filter("one NaN is as good as another", |x| !x.is_nan()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Rows of columns that come and go, in any number of frames: the same bits are read back, and
    /// NaN where there was no value.
    #[test]
    fn a_run_comes_back_as_it_was(
        rows in proptest::collection::vec((proptest::collection::vec(proptest::option::of(number()), 5), 1i64..20_000_000_000, any::<bool>()), 0..150),
    ) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.weirrec");
        let mut writer = Writer::create(&path, &meta()).expect("created");
        let (mut at, mut notes, mut stamps) = (0, 0, Vec::new());
        for (numbers, later, is_noted) in &rows {
            at += later;
            let mut row = Vec::new();
            for (n, value) in numbers.iter().enumerate() {
                let column = Column::new("c", &[("n", &n.to_string())], Unit::Count, Kind::Level);
                row.extend(value.map(|value| (writer.column(&column), value)));
            }
            stamps.push(stamp(at));
            writer.row(stamp(at), &row).expect("written");
            if *is_noted {
                writer.note(stamp(at), "here").expect("noted");
                notes += 1;
            }
        }
        writer.finish(3).expect("finished");
        let run = Run::open(&path).expect("read");
        prop_assert_eq!((&run.meta, run.notes.len(), run.torn), (&meta(), notes, None));
        prop_assert_eq!(run.end.as_ref().map(|e| (e.rows, e.missed)), Some((rows.len() as u64, 3)));
        prop_assert_eq!(&run.rows, &stamps);
        for (id, column) in run.named("c") {
            let n: usize = column.labels["n"].parse().expect("a number");
            let found: Vec<Option<u64>> = run.values(id).iter().map(|v| (!v.is_nan()).then(|| v.to_bits())).collect();
            let expected: Vec<Option<u64>> =
                rows.iter().map(|(row, ..)| row[n].filter(|v| !v.is_nan()).map(f64::to_bits)).collect();
            prop_assert_eq!(found, expected);
        }
    }
}

fn written() -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.weirrec");
    let mut writer = Writer::create(&path, &meta()).expect("created");
    let column = writer.column(&Column::new("disk.read_bytes", &[("device", "sda")], Unit::Bytes, Kind::Total));
    for n in 0..90 {
        writer.row(stamp(n * 1_000_000_000), &[(column, (n * n) as f64)]).expect("written");
    }
    writer.finish(0).expect("finished");
    std::fs::read(&path).expect("read")
}

#[test]
fn a_truncated_file_is_the_run_up_to_there() {
    let whole = written();
    let mut most = 0;
    for end in MAGIC.len()..whole.len() {
        match Run::of("x".as_ref(), whole[..end].to_vec()) {
            Ok(run) => {
                assert!(run.rows.len() >= most, "{end}");
                assert!(run.end.is_none() && run.values(ColumnId(0)).len() == run.rows.len(), "{end}");
                most = run.rows.len();
            }
            Err(Error::Corrupt { what, .. }) => {
                assert_eq!((most, what.as_str()), (0, "no description of the run, expected a frame M"));
            }
            Err(error) => panic!("{end}: {error}"),
        }
    }
    assert_eq!(most, 90);
}

#[test]
fn a_changed_byte_is_noticed() {
    let whole = written();
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 0x10;
        match Run::of("x".as_ref(), changed) {
            Ok(run) => assert!(run.torn.is_some(), "byte {at}"),
            Err(Error::Corrupt { .. }) => {}
            Err(error) => panic!("{at}: {error}"),
        }
    }
}

#[test]
fn totals_become_rates_with_the_same_area() {
    let run = Run::of("x".as_ref(), written()).expect("read");
    let series = run.series(ColumnId(0)).expect("a series");
    assert_eq!((series.spans.len(), series.area(), series.per_second), (89, f64::from(89 * 89), true));
    assert_eq!(series.window(10.5, 20.0).area(), f64::from(400 - 121) + 21.0 / 2.0);
}

#[test]
fn counter_resets_and_missing_measurements_are_gaps() {
    let column = |kind| Column::new("c", &[], Unit::Count, kind);
    let rows: Vec<Stamp> = [1, 2, 3, 4, 9, 10].iter().map(|s| stamp(s * 1_000_000_000)).collect();
    let of = |kind, values: &[f64]| -> Vec<(f64, f64, f64)> {
        let series = Series::of_rows(&column(kind), &rows, values, stamp(0), 1_000_000_000);
        series.spans.iter().map(|s| (s.from, s.to, s.value)).collect()
    };
    use crate::series::Series;
    let (n, values) = (f64::NAN, [5.0, 9.0, 2.0, 4.0, 14.0, f64::NAN]);
    // 9 to 2: the counter was reset. From 4 to 9 s nothing was sampled, but the total is still
    // known.
    assert_eq!(of(Kind::Total, &values), [(1.0, 2.0, 4.0), (3.0, 4.0, 2.0), (4.0, 9.0, 2.0)]);
    assert_eq!(of(Kind::Level, &[1.0, n, 3.0, 4.0, 5.0, 6.0])[1..3], [(2.0, 3.0, 3.0), (3.0, 4.0, 4.0)]);
    assert_eq!(of(Kind::Mean, &values)[4], (8.0, 9.0, 14.0), "nothing is known about 4 to 8 s");
}

#[test]
fn an_existing_file_is_not_overwritten() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.weirrec");
    std::fs::write(&path, "mine").expect("written");
    assert!(matches!(Writer::create(&path, &meta()), Err(Error::Io { .. })));
    assert_eq!(std::fs::read(&path).expect("read"), b"mine");
}
