//! The contents of Linux files become columns with units.

use super::*;
use crate::format::{Kind, Run, Unit};
use crate::recorder::Recording;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

fn of(sample: &Sample, name: &str, label: &str) -> Option<f64> {
    let found = sample.values.iter().find(|(c, _)| c.name == name && c.labels.values().any(|v| v == label));
    found.or_else(|| sample.values.iter().find(|(c, _)| c.name == name && label.is_empty())).map(|(_, n)| *n)
}

#[test]
fn lines_of_linux_become_columns() {
    let mut sample = Sample::default();
    processors::stat(
        "cpu  1000 20 300 5000 40 5 6 7 0 0\ncpu0 600 0 100 2500 0 0 0 0 0 0\nctxt 77\nprocs_running 3\n",
        &mut sample,
    );
    assert_eq!((of(&sample, "cpu.time", "user"), of(&sample, "cpu.time", "steal")), (Some(10.0), Some(0.07)));
    assert_eq!((of(&sample, "cpu.count", ""), of(&sample, "process.runnable", "")), (Some(1.0), Some(3.0)));
    let mut sample = Sample::default();
    let text = " 8 0 sda 100 5 2048 40 200 6 4096 90 2 70 130 0 0 0 0 9 12\n 8 1 sda1 1 0 8 1 0 0 0 0 0 1 1\n 7 0 loop0 0 0 0 0 0 0 0 0 0 0 0\n";
    disks::diskstats(text, |name| name != "sda1", &mut sample);
    assert_eq!(of(&sample, "disk.read_bytes", "sda"), Some(2048.0 * 512.0));
    assert_eq!((of(&sample, "disk.write_time", "sda"), of(&sample, "disk.busy_time", "sda")), (Some(0.09), Some(0.07)));
    assert_eq!((of(&sample, "disk.flushes", "sda"), of(&sample, "disk.in_flight", "sda")), (Some(9.0), Some(2.0)));
    assert!(sample.values.iter().all(|(c, _)| c.labels["device"] == "sda"));
    let mut sample = Sample::default();
    network::tcp("Ip: A\nIp: 1\nTcp: MaxConn InSegs OutSegs\nTcp: -1 50 60\nUdp: X\nUdp: 1\n", &mut sample);
    assert_eq!((of(&sample, "tcp.sent_segments", ""), sample.values.len()), (Some(60.0), 2));
    let mut sample = Sample::default();
    machine::memory("MemTotal: 2 kB\nMemFree:        1 kB\n", &mut sample);
    machine::paging("pgpgin 3\npswpin 1\n", &mut sample);
    assert_eq!((of(&sample, "memory.free", ""), of(&sample, "paging.in_bytes", "")), (Some(1024.0), Some(3072.0)));
    let mut sample = Sample::default();
    daemon::metrics(
        "weir_device_read_bytes_total{pool=\"t\"} 5\nweir_cache_size_bytes 7\nweir_x_seconds_bucket{le=\"1\"} 2\n",
        &mut sample,
    );
    let kinds: Vec<_> = sample.values.iter().map(|(c, _)| (c.name.as_str(), c.unit, c.kind)).collect();
    assert_eq!(
        kinds,
        [
            ("weir_cache_size_bytes", Unit::Bytes, Kind::Level),
            ("weir_device_read_bytes_total", Unit::Bytes, Kind::Total),
            ("weir_x_seconds_bucket", Unit::Count, Kind::Total),
        ]
    );
}

/// A failing source is noted once, and recorded again from the moment it responds.
#[test]
fn a_recording_continues_without_a_source_and_resumes_it() {
    struct Sometimes(Arc<AtomicU32>);
    impl Source for Sometimes {
        fn name(&self) -> &str {
            "it"
        }
        fn sample(&mut self, into: &mut Sample) -> Result<(), String> {
            let calls = self.0.fetch_add(1, Ordering::Relaxed) + 1;
            if calls < 4 {
                return Err("not yet".to_owned());
            }
            into.total("calls", &[], Unit::Count, f64::from(calls));
            Ok(())
        }
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.weirrec");
    let meta = crate::Meta::now("x", Duration::from_millis(5));
    let mut sources = machine();
    let calls = Arc::new(AtomicU32::new(0));
    sources.push(Box::new(Sometimes(calls.clone())));
    let (recording, orders) = Recording::new(&path, &meta, sources, Some(Duration::from_secs(60))).expect("begun");
    orders.note("begin");
    let thread = std::thread::spawn(move || recording.run());
    let patience = std::time::Instant::now();
    while calls.load(Ordering::Relaxed) < 5 && patience.elapsed() < Duration::from_secs(50) {
        std::thread::sleep(Duration::from_millis(10));
    }
    orders.stop();
    thread.join().expect("no panic").expect("recorded");
    let run = Run::open(&path).expect("read");
    let notes: Vec<&str> = run.notes.iter().map(|n| n.text.as_str()).collect();
    assert_eq!(notes, ["it cannot be read: not yet", "begin", "it responds again"]);
    assert_eq!(run.end.as_ref().map(|e| e.rows), Some(run.rows.len() as u64));
    let (id, _) = run.named("calls").next().expect("a column");
    assert_eq!(run.values(id)[..4].iter().filter(|v| v.is_nan()).count(), 3);
    let (id, _) = run.named("cpu.time").next().expect("a column");
    assert!(run.series(id).expect("a series").area() >= 0.0);
    assert!(run.named("net.received_bytes").count() > 0 && run.named("memory.free").count() == 1);
}
