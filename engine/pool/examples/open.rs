//! Opens every pool found in the given places and prints what it is.
use std::path::PathBuf;
fn main() {
    let places: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    for found in pool::search(&places).pools {
        match pool::Pool::open(&found, &pool::OpenOptions::default()) {
            Ok(p) => {
                println!(
                    "{} {} v{} txg {} root dir {:?}",
                    p.name(),
                    p.guid(),
                    p.version(),
                    p.uberblock().txg,
                    p.root_dir()
                );
                let (mut id, mut n) = (0, 0);
                while let Some(next) = p.mos().next_object(id).unwrap() {
                    id = next;
                    n += 1;
                }
                println!("  {:?}", p.stats().unwrap());
                println!(
                    "  {} {:?}",
                    p.history().unwrap().len(),
                    p.status().map(|s| (s.root.state, s.scan, s.removal, s.checkpoint, s.expand))
                );
                let t = std::time::Instant::now();
                let r = pool::scan::verify(&p, &pool::scan::Options { threads: 0 }, &|_| true).unwrap();
                println!("  {} in {:?}: {r:?}", if r.is_clean() { "CLEAN" } else { "NOT CLEAN" }, t.elapsed());
                let space = pool::space::Space::load(&p).unwrap();
                for d in &space.devices {
                    let (all, headers) = (d.allocated.count() << d.shift, d.header_bytes);
                    println!("  device {}: {all} of {} allocated ({headers} by headers)", d.vdev, d.size_bytes);
                }
                println!("  {:?}", space.anomalies);
                println!(
                    "  {n} MOS objects, {} entries in the directory, {:?}",
                    p.directory().entries().unwrap().len(),
                    p.warnings()
                );
            }
            Err(e) => println!("{}: {e}", found.name()),
        }
    }
}
