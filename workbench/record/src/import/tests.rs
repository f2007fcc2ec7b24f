//! Compares real output of each tool with sums of the same columns computed by awk: the area under
//! a curve is what the source reports.
//!
//! samples/: procps 4.0.2, sysstat 12.6.1, nicstat 1.95 and fio 3.33 on Linux 6.18; zpool iostat of
//! OpenZFS 2.3.2's kernel module; its arcstat on statistics of that module, changed each second;
//! published tables of Solaris, illumos and vdbench.

use super::*;
use proptest::prelude::*;
use std::path::Path;

macro_rules! sample {
    ($name:literal) => {
        read(Path::new($name), include_str!(concat!("samples/", $name)), &Options::default()).expect($name)
    };
}

fn one<'a>(from: &'a Imported, name: &str, whose: &str) -> &'a Series {
    let found = from.series.iter().find(|s| s.name == name && s.whose() == whose);
    found.unwrap_or_else(|| {
        panic!("no {name} of '{whose}' in {:?}", from.series.iter().map(|s| &s.name).collect::<Vec<_>>())
    })
}

/// Compares area and number of spans.
#[track_caller]
fn holds(from: &Imported, name: &str, whose: &str, spans: usize, area: f64) {
    let series = one(from, name, whose);
    assert_eq!(series.spans.len(), spans, "{name} of {whose}");
    assert!(
        (series.area() - area).abs() <= area.abs() * 1e-9 + 1e-6,
        "{name} of {whose}: {} is not {area}",
        series.area()
    );
}

#[test]
fn vmstat_of_linux_and_of_solaris() {
    let plain = sample!("linux-vmstat.txt");
    holds(&plain, "paging.in_bytes", "", 14, 257_851_392.0);
    holds(&plain, "paging.out_bytes", "", 14, 258_408_448.0);
    assert_eq!(plain.clock, Clock::Counted);
    assert_eq!(plain.notes[0], "left out: the first report, of what was since boot");
    let timed = sample!("linux-vmstat-t.txt");
    holds(&timed, "paging.out_bytes", "", 14, 258_408_448.0);
    assert_eq!(
        (timed.clock, timed.start),
        (Clock::Utc, 1_795_416_864.0),
        "the first interval began a second before its report"
    );
    let old = sample!("solaris-vmstat.txt");
    holds(&old, "paging.in_bytes", "", 3, (44.0 + 20.0 + 9.0) * 1024.0);
    let system: Vec<f64> = one(&old, "cpu.system", "").spans.iter().map(|s| s.value).collect();
    assert_eq!(system, [35.0, 33.0, 21.0], "not the calls, which are also named sy");
}

#[test]
fn iostat_of_linux_with_its_columns_units_and_times() {
    for (from, read, wrote) in [
        (sample!("linux-iostat-x.txt"), 255_242_240.0, 256_311_296.0),
        (sample!("linux-iostat-xtzc.txt"), 255_242_240.0, 256_311_296.0),
        (sample!("linux-iostat-dxm.txt"), 255_244_369.92, 256_313_917.44),
    ] {
        holds(&from, "disk.read_bytes", "vda", 11, read);
        holds(&from, "disk.written_bytes", "vda", 11, wrote);
        assert_eq!(one(&from, "disk.busy", "vda").spans.len(), 11);
    }
    let timed = sample!("linux-iostat-xtzc.txt");
    assert_eq!((timed.clock, timed.start), (Clock::Utc, 1_795_416_864.0));
    assert_eq!(one(&timed, "cpu.user", "").spans[0].value, 87.5);
    holds(&sample!("linux-iostat-t.txt"), "disk.read_bytes", "vda", 5, 94_842_880.0);
}

#[test]
fn iostat_of_solaris_gets_its_idle_rows_back() {
    let from = sample!("solaris-iostat-xnzc.txt");
    holds(&from, "disk.written_bytes", "c0t16d0", 3, (5035.9 + 5040.3) * 1024.0);
    holds(&from, "disk.read_bytes", "c2d0", 3, 3609.6 * 1024.0);
    let service: Vec<f64> = one(&from, "disk.service_each", "c0t16d0").spans.iter().map(|s| s.value).collect();
    assert_eq!(service, [4.1 * 1e-3, 0.0, 4.3 * 1e-3]);
    assert_eq!(one(&from, "cpu.system", "").spans.iter().map(|s| s.value).collect::<Vec<_>>(), [13.0, 1.0, 4.0]);
    assert!(from.notes.iter().any(|n| n.contains("zeros of idle devices")), "{:?}", from.notes);
    assert!(from.series.iter().all(|s| s.whose() != "c1t0d1"), "it was only in the report since boot");
    let from = sample!("illumos-iostat-xn.txt");
    holds(&from, "disk.read_bytes", "zones", 1, 128.9 * 1024.0);
    holds(&from, "disk.read_bytes", "lofi1", 1, 0.0);
}

#[test]
fn nicstat_in_its_four_forms() {
    holds(&sample!("nicstat.txt"), "net.received_bytes", "lo", 11, 11_560_345.6);
    let from = sample!("nicstat-p.txt");
    holds(&from, "net.received_bytes", "lo", 11, 11_592_704.0);
    assert_eq!((from.clock, from.start), (Clock::Utc, 1_795_416_864.0));
    holds(&sample!("nicstat-x.txt"), "net.received_bytes", "lo", 4, 0.0);
    // All devices were idle, so -z omitted everything but the headings: seven intervals of zeros
    // for unknown devices.
    assert!(matches!(
        read(Path::new("z"), include_str!("samples/nicstat-z.txt"), &Options::default()).map(|i| i.series.len()),
        Ok(0)
    ));
    let text = include_str!("samples/nicstat-z.txt");
    let kept = read(Path::new("z"), text, &Options { keep_first: true, ..Options::default() }).expect("read");
    holds(&kept, "net.received_bytes", "lo", 8, 886.5 * 1024.0);
}

#[test]
fn zpool_iostat_with_its_mixed_units_trees_tabs_and_times() {
    let from = sample!("zpool-T.txt");
    holds(&from, "pool.written_bytes", "one", 9, 33_236_213.76);
    holds(&from, "pool.writes", "two", 9, 239.0);
    assert_eq!((from.clock, from.start), (Clock::Utc, 1_795_418_180.0));
    let from = sample!("zpool-v.txt");
    holds(&from, "pool.written_bytes", "one", 7, 23_316_684.8);
    holds(&from, "vdev.written_bytes", "two /v/b", 7, 2_232_135.68);
    holds(&sample!("zpool-pH.txt"), "pool.written_bytes", "two", 9, 8_689_756.0);
    holds(&sample!("zpool-one.txt"), "pool.written_bytes", "one", 9, 35_787_898.88);
    let text = include_str!("samples/zpool-l.txt");
    let from = read(Path::new("l"), text, &Options { keep_first: true, ..Options::default() }).expect("called with -y");
    holds(&from, "pool.written_bytes", "one", 6, 16_483_614.72);
    assert_eq!(one(&from, "pool.disk_write_each", "two").spans[0].value, 0.002);
}

#[test]
fn arcstat_with_units_of_1000_and_of_1024() {
    let from = sample!("arcstat-f.txt");
    holds(&from, "arc.hits", "", 8, 276_700.0);
    holds(&from, "arc.misses", "", 8, 4297.0);
    assert_eq!(one(&from, "arc.size", "").spans[0].value, 49.1 * 1048576.0);
    assert_eq!(one(&sample!("arcstat.txt"), "arc.demand_data_hit_share", "").spans[7].value, 100.0);
    let ours = "    time  read  ddh%  size_MiB\n    boot   9.0  50.0       1.5\n15:00:01   4.0   100       2.5\n15:00:02     0     -       2.5\n";
    let from = read(Path::new("ours"), ours, &Options::default()).expect("read");
    holds(&from, "arc.reads", "", 2, 4.0);
    assert_eq!(
        (one(&from, "arc.size", "").spans[0].value, one(&from, "arc.demand_data_hit_share", "").spans.len()),
        (2.5 * 1048576.0, 1)
    );
}

#[test]
fn logs_of_fio_averaged_single_and_as_histograms() {
    let from = sample!("mix_bw.1.log");
    // KiB/s, each for the time it was averaged over.
    let log = include_str!("samples/mix_bw.1.log");
    let mut before = [0.0; 2];
    let mut sums = [0.0; 2];
    for line in log.lines() {
        let n: Vec<f64> = line.split(',').map(|w| w.trim().parse().expect("a number")).collect();
        let d = n[2] as usize;
        sums[d] += n[1] * 1024.0 * (n[0] - before[d]) / 1000.0;
        before[d] = n[0];
    }
    holds(&from, "load.read_bytes", "mix", 11, sums[0]);
    holds(&from, "load.written_bytes", "mix", 11, sums[1]);
    assert_eq!(one(&sample!("mix_lat.1.log"), "load.read_each", "mix").spans[0].value, 311_653e-9);
    assert_eq!(one(&sample!("mix_iops.1.log"), "load.writes", "mix").spans[0].value, 506.0);
    // From fio's own summary of that job: 1773568 bytes in 88 reads, 2420736 in 91 writes.
    let from = sample!("each_lat.1.log");
    holds(&from, "load.read_bytes", "each", 1, 1_773_568.0);
    holds(&from, "load.written_bytes", "each", 1, 2_420_736.0);
    holds(&from, "load.reads", "each", 1, 88.0);
    assert_eq!(from.operations.len(), 179);
    let average = from.operations.iter().filter(|o| !o.is_write).map(|o| o.seconds).sum::<f64>() / 88.0;
    assert!((average - 65_835.147_727e-9).abs() < 1e-6, "{average}: fio reports 65.8 us");
    let from = sample!("mix_clat_hist.1.log");
    let counts: f64 = from.latencies.iter().map(|b| b.count).sum();
    assert_eq!(counts, 514.0 + 514.0 + 512.0 + 512.0);
    assert!(from.latencies.iter().all(|b| b.range.0 < b.range.1 && (1e-6..0.5).contains(&b.range.0)));
}

#[test]
fn vdbench_of_file_systems() {
    let from = sample!("vdbench-fwd.txt");
    holds(&from, "load.operations", "", 3, 7876.0 + 10_744.0 + 10_200.0);
    holds(&from, "load.read_bytes", "", 3, (27.62 + 37.79 + 35.93) * 1_048_576.0);
    assert_eq!(from.clock, Clock::Utc);
    assert_eq!(from.notes, ["runs: rd1"]);
}

#[test]
fn unknown_input_is_named_in_the_error() {
    let fails =
        |name: &str, text: &str| read(Path::new(name), text, &Options::default()).expect_err("refused").to_string();
    assert!(fails("x", "hello\n").contains("no heading of vmstat"));
    let bad = "procs\n r  b   swpd   free  us sy id\n 1 2 3 4 5 6 7\n 1 2 3 x 5 6 7\n";
    assert_eq!(fails("v", bad), "v: line 4: free is 'x', expected a number");
    let short = "procs\n r  b   swpd   free  us sy id\n 1 2 3 4 5 6 7\n";
    assert!(fails("v", short).contains("no report after the first"));
    assert!(fails("n", "   InKB   OutKB  rKB/s Int\n 1 2 3 4\n").contains("Unsupported"));
    let histogram = "tank  capacity operations bandwidth\nlatency      read  write\n";
    assert!(fails("w", histogram).contains("Unsupported: zpool iostat -w"));
}

/// Reports that lack times, skip seconds, or cross midnight.
#[test]
fn a_jump_of_the_clock_is_a_gap_and_a_late_second_is_not() {
    let table = |clocks: &[&str]| {
        let rows: String = clocks.iter().map(|c| format!("{c} 10 5 50\n")).collect();
        let text = format!("    time  hits  miss  hit%\n00:00:00 1 1 1\n{rows}");
        let from = read(Path::new("a"), &text, &Options::default()).expect("read");
        one(&from, "arc.hits", "").spans.iter().map(|s| (s.from, s.to)).collect::<Vec<_>>()
    };
    let late = table(&["10:00:01", "10:00:02", "10:00:04", "10:00:04", "10:00:05"]);
    assert_eq!(late, [(0.0, 1.0), (1.0, 2.0), (2.0, 3.0), (3.0, 4.0), (4.0, 5.0)]);
    let gap = table(&["10:00:01", "10:00:02", "10:00:07", "10:00:08"]);
    assert_eq!(gap, [(0.0, 1.0), (1.0, 2.0), (6.0, 7.0), (7.0, 8.0)]);
    assert_eq!(table(&["23:59:59", "00:00:00", "00:00:01"])[2], (2.0, 3.0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Any sequence of numbers with any units, with idle devices omitted or not: nothing is lost
    /// and nothing is added.
    #[test]
    fn the_area_is_the_sum_of_the_source(
        rows in proptest::collection::vec((proptest::option::of(0u32..5_000_000), proptest::option::of(0u32..5_000)), 1..60),
        hide in any::<bool>(), every in 1u32..20,
    ) {
        let block = |a: Option<u32>, b: Option<u32>| {
            let row = |n: Option<u32>, name: &str| match n {
                None | Some(0) if hide => String::new(),
                n => format!("0.0 0.0 {}.0 0.0 0.0 0.0 0.0 0.0 0 0 {name}\n", n.unwrap_or(0)),
            };
            format!(" extended device statistics\n r/s w/s kr/s kw/s wait actv wsvc_t asvc_t %w %b device\n{}{}", row(a, "c0"), row(b, "c1"))
        };
        let text: String = std::iter::once(block(Some(77), Some(77))).chain(rows.iter().map(|(a, b)| block(*a, *b))).collect();
        let options = Options { interval: Some(f64::from(every)), ..Options::default() };
        let from = read(Path::new("x"), &text, &options).expect("read");
        for (name, expected) in [("c0", rows.iter().filter_map(|r| r.0).map(f64::from).sum::<f64>()), ("c1", rows.iter().filter_map(|r| r.1).map(f64::from).sum())] {
            let found = from.series.iter().find(|s| s.name == "disk.read_bytes" && s.whose() == name);
            let area = found.map_or(0.0, Series::area);
            let expected = expected * 1024.0 * f64::from(every);
            prop_assert!((area - expected).abs() <= expected * 1e-9, "{} is not {}", area, expected);
            prop_assert!(found.is_none_or(|s| s.spans.len() == rows.len()));
        }
    }

    /// Units of every kind: a number in zpool's output format is read as what was printed.
    #[test]
    fn units_of_any_kind_are_read(whole in 0u32..1024, hundredths in 0u32..100, unit in 0usize..7) {
        let suffix = ["", "K", "M", "G", "T", "P", "E"][unit];
        let number = f64::from(whole) + f64::from(hundredths) / 100.0;
        let parsed = text::scaled(&format!("{number}{suffix}"), 1024.0).expect("a number");
        let expected = number * 1024f64.powi(i32::try_from(unit).expect("small"));
        prop_assert!((parsed - expected).abs() <= expected * 1e-12);
    }

    /// No text makes the importer panic.
    #[test]
    fn no_text_breaks_it(lines in proptest::collection::vec("[ -~\\t]{0,60}", 0..20), heading in 0usize..6, name in "[a-z]{1,4}(_bw|_lat|_hist)?(\\.log)?") {
        let headings = ["r b swpd free us sy id", "Device r/s w/s", "time Int rKB/s", "pool alloc free read write read write", "time hits miss hit%", " .Interval. .ReqstdOps... "];
        let text = format!("{}\n{}\n", headings[heading], lines.join("\n"));
        let _ = read(Path::new(&name), &text, &Options::default());
    }
}
