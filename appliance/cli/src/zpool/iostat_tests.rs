use super::super::iostat_counts::OfClass;
use super::*;
use crate::zpool::samples::{rz, tank};

fn sample(view: admin::view::PoolView, work: &[(&str, u64, u64)]) -> Sample {
    let now = Instant::now();
    let mut status = view.status;
    let view_tops: Vec<(u64, u64)> = status.root.children.iter().map(|c| (c.alloc_bytes, c.space_bytes)).collect();
    let mut measured = HashMap::new();
    fn leaves<'a>(v: &'a mut VdevStatus, out: &mut Vec<&'a mut VdevStatus>) {
        if v.children.is_empty() {
            out.push(v);
        } else {
            v.children.iter_mut().for_each(|c| leaves(c, out));
        }
    }
    // As in the engine: the pool's space is the sum of its top-level devices.
    let tops = || view_tops.iter();
    status.root.alloc_bytes = tops().map(|t| t.0).sum();
    status.root.space_bytes = tops().map(|t| t.1).sum();
    let mut all = Vec::new();
    leaves(&mut status.root, &mut all);
    for leaf in all {
        let Some((path, reads, writes)) = work.iter().find(|w| leaf.path.as_deref() == Some(w.0)) else { continue };
        (leaf.read_ops, leaf.read_bytes) = (*reads, reads * 4096);
        (leaf.write_ops, leaf.write_bytes) = (*writes, writes * 8192);
        let spread = |n: u64, each: u64, last: u64| Spread { count: n, sum: n * each, classes: vec![(last, n)] };
        let mut of = Measured {
            read_time: spread(*reads, 1_500_000, 1_507_327),
            write_time: spread(*writes, 1_500_000, 1_507_327),
            read_total: spread(*reads, 2_500_000, 2_621_439),
            write_total: spread(*writes, 1_500_000, 1_507_327),
            ..Measured::default()
        };
        // Reads wait and are single, writes do not wait and are joined.
        let (wait, single) = (spread(*reads, 4000, 4095), spread(*reads, 4096, 4351));
        of.classes[0] = OfClass { pending: 2, active: 1, wait, single, ..OfClass::default() };
        of.classes[3] =
            OfClass { wait: spread(*writes, 0, 0), joined: spread(*writes, 8192, 8703), ..OfClass::default() };
        measured.insert((*path).to_owned(), of);
    }
    Sample { status, at: now, opened: Some(now - Duration::from_secs(10)), measured }
}

#[test]
fn pools_are_laid_out_as_openzfs_does() {
    let tank = sample(tank(), &[("/tmp/v/a", 100, 50), ("/tmp/v/b", 20, 50)]);
    let expected = "              capacity     operations     bandwidth 
pool        alloc   free   read  write   read  write
----------  -----  -----  -----  -----  -----  -----
tank         140K   112M     12     10    48K    80K
";
    let one = std::slice::from_ref(&tank);
    assert_eq!(report(one, &[], &Shown::default(), true), expected);
    let scripted = Shown { scripted: true, literal: true, ..Shown::default() };
    assert_eq!(report(one, &[], &scripted, true), "tank\t143872\t117296640\t12\t10\t49152\t81920\n");
}

#[test]
fn devices_and_their_waits_are_laid_out_as_openzfs_does() {
    let tank = sample(tank(), &[("/tmp/v/a", 100, 50), ("/tmp/v/b", 20, 50)]);
    let shown = Shown { verbose: true, latency: true, ..Shown::default() };
    let expected = "              capacity     operations     bandwidth    total_wait     disk_wait    syncq_wait    asyncq_wait  scrub   trim  rebuild
pool        alloc   free   read  write   read  write   read  write   read  write   read  write   read  write   wait   wait   wait
----------  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----
tank         140K   112M     12     10    48K    80K    2ms    1ms    1ms    1ms    4us      -      -      -      -      -      -
  mirror-0   140K   112M     12     10    48K    80K    2ms    1ms    1ms    1ms    4us      -      -      -      -      -      -
    /tmp/v/a      -      -     10      5    40K    40K    2ms    1ms    1ms    1ms    4us      -      -      -      -      -      -
    /tmp/v/b      -      -      2      5     8K    40K    2ms    1ms    1ms    1ms    4us      -      -      -      -      -      -
----------  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----
";
    let text = report(std::slice::from_ref(&tank), &[], &shown, true);
    // The name column is as wide as the longest name.
    let narrow: Vec<String> = text.lines().map(|l| l.replace("--  -----  -", "  -----  -")).collect();
    assert_eq!(narrow.len(), expected.lines().count(), "{text}");
    let words = |text: &str| {
        text.lines().map(|l| l.split_whitespace().map(str::to_owned).collect()).collect::<Vec<Vec<String>>>()
    };
    let rows = |all: Vec<Vec<String>>| all.into_iter().filter(|l| !l[0].starts_with('-')).collect::<Vec<_>>();
    assert_eq!(rows(words(&text)), rows(words(expected)));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[1].len(), lines[3].len(), "rows end where headings do");
}

#[test]
fn classes_have_a_line_of_their_own_and_intervals_show_what_is_new() {
    let shown = Shown { verbose: true, ..Shown::default() };
    let mut later = sample(rz(), &[("/tmp/v/c", 300, 0), ("/tmp/v/f", 0, 20)]);
    let mut first = sample(rz(), &[("/tmp/v/c", 100, 0), ("/tmp/v/f", 0, 20)]);
    later.at = first.at + Duration::from_secs(2);
    first.opened = None;
    let text = report(&[later], &[first], &shown, false);
    let find = |name: &str| {
        text.lines()
            .find(|l| l.trim_start().starts_with(name))
            .map(|l| l.split_whitespace().skip(3).map(str::to_owned).collect::<Vec<_>>())
            .expect(name)
    };
    assert_eq!(find("logs"), ["-", "-", "-", "-"]);
    assert_eq!(find("cache"), ["-", "-", "-", "-"]);
    // The first sample is of a pool that no process had open: everything in the second is new.
    assert_eq!(find("/tmp/v/c"), ["150", "0", "600K", "0"]);
    assert_eq!(find("/tmp/v/f"), ["0", "10", "0", "80K"]);
}

#[test]
fn what_is_in_the_queues_is_shown_as_it_is_at_the_end_of_the_interval() {
    let tank = |seconds| {
        let mut tank = sample(tank(), &[("/tmp/v/a", 100, 50), ("/tmp/v/b", 20, 50)]);
        tank.at += Duration::from_secs(seconds);
        tank
    };
    let shown = Shown { queues: true, ..Shown::default() };
    let expected = "              capacity     operations     bandwidth    syncq_read    syncq_write   asyncq_read  asyncq_write   scrubq_read   trimq_write  rebuildq_write
pool        alloc   free   read  write   read  write   pend  activ   pend  activ   pend  activ   pend  activ   pend  activ   pend  activ   pend  activ
----------  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----
tank         140K   112M     12     10    48K    80K      4      2      0      0      0      0      0      0      0      0      0      0      0      0
";
    assert_eq!(report(&[tank(0)], &[], &shown, true), expected);
    let scripted = Shown { scripted: true, ..shown };
    let later = report(&[tank(1)], &[tank(0)], &scripted, false);
    assert_eq!(later, "tank\t140K\t112M\t0\t0\t0\t0\t4\t2\t0\t0\t0\t0\t0\t0\t0\t0\t0\t0\t0\t0\n");
}

#[test]
fn histograms_of_times_have_a_row_for_each_power_of_two() {
    let tank = sample(tank(), &[("/tmp/v/a", 100, 50), ("/tmp/v/b", 20, 50)]);
    let shown = Shown { histogram: Some(Histogram::Latency), ..Shown::default() };
    let text = report(std::slice::from_ref(&tank), &[], &shown, true);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[1], "tank         total_wait     disk_wait    syncq_wait    asyncq_wait");
    assert_eq!(lines[2], "latency      read  write   read  write   read  write   read  write  scrub   trim  rebuild");
    assert_eq!(lines.len(), 1 + 3 + 37 + 1);
    for (line, row) in [
        // Those that did not wait.
        (4, "1ns             0      0      0      0      0      0      0    100      0      0      0"),
        (15, "4us             0      0      0      0    120      0      0      0      0      0      0"),
        (24, "2ms             0    100    120    100      0      0      0      0      0      0      0"),
        (25, "4ms           120      0      0      0      0      0      0      0      0      0      0"),
        (40, "137s            0      0      0      0      0      0      0      0      0      0      0"),
    ] {
        assert_eq!(lines[line], row);
    }
}

#[test]
fn histograms_of_sizes_have_rows_from_512_bytes_to_16_mib() {
    let tank = sample(tank(), &[("/tmp/v/a", 100, 50), ("/tmp/v/b", 20, 50)]);
    let shown = Shown { histogram: Some(Histogram::Size), ..Shown::default() };
    let text = report(std::slice::from_ref(&tank), &[], &shown, true);
    let lines: Vec<&str> = text.lines().collect();
    // The heading is that of OpenZFS 2.3.2.
    assert_eq!(
        lines[1],
        "tank          sync_read    sync_write    async_read    async_write      scrub         trim         rebuild  "
    );
    assert_eq!(
        lines[2],
        "req_size      ind    agg    ind    agg    ind    agg    ind    agg    ind    agg    ind    agg    ind    agg"
    );
    assert_eq!((lines.len(), lines[20]), (1 + 3 + 16 + 1, "-".repeat(108).as_str()));
    let zeros = |n: usize| "      0".repeat(n);
    for (line, row) in [
        (4, format!("512       {}", zeros(14))),
        (7, format!("4K            120{}", zeros(13))),
        (8, format!("8K        {}    100{}", zeros(7), zeros(6))),
        (19, format!("16M       {}", zeros(14))),
    ] {
        assert_eq!(lines[line], row);
    }
    let scripted = Shown { scripted: true, verbose: true, ..shown };
    let text = report(std::slice::from_ref(&tank), &[], &scripted, true);
    let lines: Vec<&str> = text.lines().collect();
    // The pool, the mirror and its two sides.
    assert_eq!((lines.len(), lines[0], lines[34]), (4 * 17, "tank", "/tmp/v/a"));
    assert_eq!(lines[34 + 4], "4096\t100\t0\t0\t0\t0\t0\t0\t0\t0\t0\t0\t0\t0\t0");
    let beyond = Spread { count: 3, sum: 0, classes: vec![(103, 1), ((1 << 31) - 1, 2)] };
    let rows = Histogram::Size.rows(&beyond);
    assert_eq!((rows[0], rows[15]), (1, 2));
}

#[test]
fn numbers_at_the_end_are_interval_and_count() {
    let parsed = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
        pace(&VERB.parse(&words).expect("good"))
    };
    let tank = || vec!["tank".to_owned()];
    assert_eq!(parsed(&["tank"]), (tank(), None, None));
    assert_eq!(parsed(&["tank", "0.5"]), (tank(), Some(Duration::from_millis(500)), None));
    assert_eq!(parsed(&["tank", "1", "3"]), (tank(), Some(Duration::from_secs(1)), Some(3)));
    assert_eq!(
        [nice_time(0), nice_time(1023), nice_time(1_500_000), nice_time(137 << 30)],
        ["0ns", "1us", "1ms", "147s"]
    );
}
