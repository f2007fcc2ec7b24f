//! Compares charts with golden files, and tests properties of every curve. `WEIR_BLESS=1` updates
//! the golden files.

use super::*;
use crate::format::{Column, Kind as ColumnKind, Meta, Run, Stamp, Writer};
use crate::import::{self, Options};
use crate::series::Span;
use proptest::prelude::*;
use std::path::Path;
use std::time::Duration;

fn imported(names: &[(&str, &str)]) -> Data {
    let read = |(name, text): &(&str, &str)| import::read(Path::new(name), text, &Options::default()).expect("read");
    Data::of("jbod".to_owned(), Vec::new(), names.iter().map(read).collect())
}

macro_rules! sample {
    ($name:literal) => {
        ($name, include_str!(concat!("../import/samples/", $name)))
    };
}

/// A run of ten minutes in four steps, with the machine and a pool, a gap and a counter reset.
fn recorded(seed: u64) -> Data {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.weirrec");
    let at = |s: u64| Stamp { utc_ns: 1_795_416_000_000_000_000, mono_ns: 1_000_000_000 }.plus(Duration::from_secs(s));
    let meta = Meta { started: at(0), ..Meta::now("steps", Duration::from_secs(1)) };
    let mut writer = Writer::create(&path, &meta).expect("created");
    let mut column =
        |name: &str, labels: &[(&str, &str)], unit, kind| writer.column(&Column::new(name, labels, unit, kind));
    let total = ColumnKind::Total;
    let disk = [("device", "sda")];
    let ids = [
        column("cpu.time", &[("mode", "user")], Unit::Seconds, total),
        column("cpu.time", &[("mode", "system")], Unit::Seconds, total),
        column("cpu.time", &[("mode", "idle")], Unit::Seconds, total),
        column("disk.read_bytes", &disk, Unit::Bytes, total),
        column("disk.reads", &disk, Unit::Count, total),
        column("disk.read_time", &disk, Unit::Seconds, total),
        column("disk.busy_time", &disk, Unit::Seconds, total),
        column("weir_device_read_bytes_total", &[("pool", "tank"), ("device", "a")], Unit::Bytes, total),
        column("weir_cache_hits_total", &[("pool", "tank")], Unit::Count, total),
        column("weir_cache_misses_total", &[("pool", "tank")], Unit::Count, total),
        column("weir_nfs_call_time_seconds_bucket", &[("le", "0.001")], Unit::Count, total),
        column("weir_nfs_call_time_seconds_bucket", &[("le", "0.002")], Unit::Count, total),
        column("weir_nfs_call_time_seconds_bucket", &[("le", "+Inf")], Unit::Count, total),
        column("load.operations", &[], Unit::Count, ColumnKind::Rate),
    ];
    let (mut sums, mut random) = ([0.0; 13], seed);
    for s in 0..600u64 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let noise = (random >> 40) as f64 / f64::from(1 << 24);
        let step = (s / 150 + 1) as f64;
        if s % 150 == 0 {
            writer.note(at(s), &format!("{step} clients")).expect("noted");
        }
        let ops = 1000.0 * step * (0.9 + 0.2 * noise);
        let user = 0.45 * step;
        let grown = [
            user,
            0.1,
            1.9 - user,
            ops * 8192.0,
            ops,
            ops * 0.0004 * step,
            0.2 * step,
            ops * 8192.0,
            ops * 9.0,
            ops,
            ops * 0.6,
            ops * 0.9,
            ops,
        ];
        for (sum, grown) in sums.iter_mut().zip(grown) {
            *sum += grown;
        }
        if s == 400 {
            sums[7] = 0.0;
        }
        if (300..320).contains(&s) {
            continue;
        }
        let mut row: Vec<_> = ids.iter().copied().zip(sums.iter().map(|v| (v * 1000.0).round() / 1000.0)).collect();
        row.push((ids[13], ops.round()));
        writer.row(at(s), &row).expect("written");
    }
    writer.finish(0).expect("finished");
    Data::of(format!("run{seed}"), vec![Run::open(&path).expect("read")], Vec::new())
}

/// Size and pixels of a picture.
fn pixels(png: &[u8]) -> (u32, u32, Vec<u8>) {
    let mut reader = png::Decoder::new(std::io::Cursor::new(png)).read_info().expect("a picture");
    let mut out = vec![0; reader.output_buffer_size().expect("it has a size")];
    let info = reader.next_frame(&mut out).expect("pixels");
    (info.width, info.height, out)
}

/// Compares a drawing with its golden file. `WEIR_BLESS` replaces the file.
#[track_caller]
fn golden(name: &str, drawn: &[u8]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/chart/golden").join(name);
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(&path, drawn).expect("written");
    }
    let kept = std::fs::read(&path).unwrap_or_default();
    // Compression depends on the PNG encoder, so compare pixels.
    let same = match name.ends_with(".png") {
        true => pixels(&kept) == pixels(drawn),
        false => kept == drawn,
    };
    assert!(same, "{} is not what is drawn now ({} bytes); WEIR_BLESS=1 renews it", path.display(), drawn.len());
}

#[track_caller]
fn drawn(name: &str, kind: Kind, runs: &[Data], wanted: &Wanted) {
    let figure = figure(kind, runs, wanted).expect(name);
    let svg = figure.svg(wanted).expect(name);
    assert_eq!(svg, figure.svg(wanted).expect(name), "drawn twice");
    golden(name, svg.as_bytes());
}

#[test]
fn the_ten_charts_match_their_golden_files() {
    let wanted = Wanted { size: (900, 420), ..Wanted::default() };
    let disks = [imported(&[sample!("solaris-iostat-xnzc.txt"), sample!("solaris-vmstat.txt")])];
    drawn("cpu.svg", Kind::Cpu, &[imported(&[sample!("linux-vmstat-t.txt")])], &wanted);
    drawn("disk.svg", Kind::Disk, &disks, &Wanted { device: Some("c0t16d0".into()), ..wanted.clone() });
    drawn("service.svg", Kind::Service, &disks, &wanted);
    drawn("net.svg", Kind::Net, &[imported(&[sample!("nicstat-p.txt")])], &wanted);
    drawn("pool.svg", Kind::Pool, &[imported(&[sample!("zpool-T.txt")])], &wanted);
    let three = [recorded(1), recorded(2), imported(&[sample!("vdbench-fwd.txt")])];
    drawn("iops.svg", Kind::Iops, &three, &Wanted { smooth: Some(30.0), ..wanted.clone() });
    drawn(
        "iops-window.svg",
        Kind::Iops,
        &three,
        &Wanted { window: (140.0, Some(30.0)), theme: Theme::Dark, ..wanted.clone() },
    );
    drawn(
        "heat-offset.svg",
        Kind::Heat,
        &[imported(&[sample!("each_lat.1.log")])],
        &Wanted { heat: Heat::Offset, ..wanted.clone() },
    );
    drawn("heat-latency.svg", Kind::Heat, &[imported(&[sample!("mix_clat_hist.1.log")])], &wanted);
    drawn("steps.svg", Kind::Steps, &three[..1], &wanted);
    drawn("hits.svg", Kind::Hits, &three[..1], &wanted);
    drawn("times.svg", Kind::Times, &three, &wanted);
}

#[test]
fn png_pictures_match_their_golden_files() {
    let wanted = Wanted { size: (640, 300), ..Wanted::default() };
    let runs = [imported(&[sample!("linux-iostat-xtzc.txt")])];
    let png = figure(Kind::Disk, &runs, &wanted).and_then(|f| f.png(&wanted)).expect("drawn");
    golden("disk.png", &png);
    let heat = Wanted { theme: Theme::Dark, ..wanted };
    let png = figure(Kind::Heat, &[recorded(1)], &heat).and_then(|f| f.png(&heat)).expect("drawn");
    golden("heat.png", &png);
}

#[test]
fn steps_show_what_limits_them() {
    let Figure { marks, .. } = figure(Kind::Steps, &[recorded(1)], &Wanted::default()).expect("drawn");
    let texts: Vec<&str> = marks.iter().map(|m| m.text.as_str()).collect();
    assert_eq!(texts[0], "1 clients: CPU 28 %");
    assert_eq!(texts[3], "4 clients: limited by CPU, 95 %");
}

#[test]
fn an_error_names_the_missing_series_and_those_that_exist() {
    let runs = [imported(&[sample!("nicstat-p.txt")])];
    let error = figure(Kind::Cpu, &runs, &Wanted::default()).expect_err("refused").to_string();
    assert!(
        error.starts_with("jbod: nothing to draw: it has no cpu.user, cpu.system; it has net.busy net."),
        "{error}"
    );
    let small = Wanted { size: (10, 10), ..Wanted::default() };
    assert!(matches!(figure(Kind::Net, &runs, &small).and_then(|f| f.svg(&small)), Err(Error::Size(10, 10))));
}

#[test]
fn a_device_is_chosen_by_its_whole_name() {
    let runs = [imported(&[sample!("solaris-iostat-xnzc.txt")])];
    let lines = |device: &str| {
        let wanted = Wanted { device: Some(device.to_owned()), ..Wanted::default() };
        match figure(Kind::Disk, &runs, &wanted) {
            Ok(Figure { content: Content::Lines(lines), .. }) => lines.len(),
            _ => 0,
        }
    };
    assert_eq!((lines("c0t16d0"), lines("c0*"), lines("c0"), lines("*d0")), (4, 4, 0, 8));
}

/// On a logarithmic axis, zeros lie on a marked line of their own; gaps are not bridged.
#[test]
fn zeros_have_a_floor_and_gaps_stay_gaps() {
    let axis = Vertical { unit: Unit::Bytes, per_second: true, name: String::new(), log: true };
    let scale = axis::Scale::new(&axis, 1024.0, 1024.0 * 1024.0 * 50.0, true);
    assert_eq!((scale.label(scale.at(0.0)), scale.label(scale.ticks[1])), ("0".to_owned(), "0.0001".to_owned()));
    assert!(scale.at(0.0) < scale.at(1024.0));
    let run = recorded(1);
    let series = run.named("load.operations").remove(0);
    let gaps = series.spans.windows(2).filter(|w| w[1].from - w[0].to > 0.5).count();
    assert_eq!(gaps, 1);
    let svg = figure(Kind::Iops, &[run], &Wanted::default()).and_then(|f| f.svg(&Wanted::default())).expect("drawn");
    assert_eq!(
        svg.matches("<polyline fill=\"none\" opacity=\"1\" stroke=\"#0072B2\"").count(),
        2,
        "two pieces of one line"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    /// For any number of columns and any window, the area under the drawing equals that of the
    /// source.
    #[test]
    fn fewer_columns_have_the_same_area(
        spans in proptest::collection::vec((0.001f64..5.0, prop_oneof![Just(0.0), 0.001f64..7.0], 0.0f64..1e9), 1..400),
        columns in 1usize..300, ends in (0.0f64..1.0, 0.0f64..1.0), width in 0.1f64..100.0,
    ) {
        let mut series = Series::new("x", &[], Unit::Bytes, true);
        let mut at = 0.0;
        for (long, gap, value) in spans {
            series.spans.push(Span { from: at + gap, to: at + gap + long, value });
            at += gap + long;
        }
        let (from, to) = (at * ends.0.min(ends.1), at * ends.0.max(ends.1) + 0.01);
        let part = series.window(from, to);
        let drawn = reduce::reduce(&series, (from, to), columns);
        let area: f64 = drawn.iter().map(|c| c.mean * c.seconds).sum();
        prop_assert!((area - part.area()).abs() <= part.area() * 1e-9 + 1e-6, "{} is not {}", area, part.area());
        let most = part.spans.iter().map(|s| s.value).fold(0.0, f64::max);
        prop_assert_eq!(drawn.iter().map(|c| c.most).fold(0.0, f64::max), most, "no peak is lost");
        prop_assert!(drawn.iter().all(|c| c.least <= c.mean * (1.0 + 1e-9) + 1e-9 && c.mean <= c.most * (1.0 + 1e-9) + 1e-9));
        let smooth = reduce::smooth(&series, width);
        let (least, most) = series.spans.iter().fold((f64::MAX, 0.0f64), |(a, b), s| (a.min(s.value), b.max(s.value)));
        // Differences of sums of up to 1e12 are exact to three decimals.
        prop_assert!(smooth.spans.iter().all(|s| s.value >= least - 10.0 && s.value <= most + 10.0));
    }
}
