//! Measures how many small operations per second one core does in memory. It prints the results and
//! asserts nothing. Run with `--ignored --nocapture`.

use crate::support::Fixture;
use files::vfs::{Caller, NewNode, Vfs};
use files::zpl::CreateOptions;
use files::zpl::backing::Settings;
use std::time::Instant;

fn per_second(what: &str, count: u64, run: impl FnOnce()) {
    let start = Instant::now();
    run();
    println!("{what}: {:.0} a second", count as f64 / start.elapsed().as_secs_f64());
}

#[test]
#[ignore = "a measurement"]
fn small_operations() {
    let f = Fixture::new(Settings::default(), &CreateOptions::default());
    f.backing.keeps_records.store(false, std::sync::atomic::Ordering::Relaxed);
    let who = Caller { privileged: true, ..Caller::default() };
    let top = f.fs.root();
    let file = f.fs.create(&who, top, b"a", &NewNode::Regular, 0o644, 0).unwrap().node;
    let data = [7u8; 8192];
    per_second("8 KiB sequential writes", 4096, || {
        for i in 0..4096 {
            f.fs.write(&who, file, i * 8192, &data).unwrap();
        }
    });
    per_second("8 KiB random rewrites", 200_000, || {
        for i in 0..200_000u64 {
            f.fs.write(&who, file, i * 7919 % 4096 * 8192, &data).unwrap();
        }
    });
    per_second("8 KiB random reads", 20_000, || {
        for i in 0..20_000u64 {
            f.fs.read(file, i * 7919 % 4096 * 8192, 8192).unwrap();
        }
    });
    per_second("getattr", 100_000, || {
        for _ in 0..100_000u64 {
            f.fs.attr(file).unwrap();
        }
    });
    let names: Vec<String> = (0..10_000).map(|i| format!("file-{i}")).collect();
    per_second("create", 10_000, || {
        for name in &names {
            f.fs.create(&who, top, name.as_bytes(), &NewNode::Regular, 0o644, 0).unwrap();
        }
    });
    per_second("lookup", 10_000, || {
        for name in &names {
            f.fs.lookup(top, name.as_bytes()).unwrap();
        }
    });
    per_second("unlink", 10_000, || {
        for name in &names {
            f.fs.unlink(&who, top, name.as_bytes()).unwrap();
        }
    });
}
