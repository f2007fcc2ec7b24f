use super::*;
use crate::drive::Report;
use crate::target::Target;
use record::chart::{Content, Data, Kind, Wanted, figure};
use record::import::Options;

fn bench(folder: &Path, line: &str) -> (ExitCode, Option<Facts>) {
    let words = format!("bench {line}").replace("DIR", &folder.display().to_string());
    let matches = command().try_get_matches_from(words.split(' ')).unwrap_or_else(|e| panic!("{e}"));
    let code = run(&matches, None).unwrap_or_else(|e| panic!("{line}: {e:#}"));
    (code, load(&folder.join("run")).ok())
}

/// Seconds from the start of a run to the start of one of its repetitions.
fn data_begin(run: &Path, n: usize, data: &Data) -> f64 {
    let file = record::Run::open(&run.join(format!("load-{n}.weirrec"))).expect("a run");
    file.meta.started.utc_ns as f64 / 1e9 - data.clock.expect("it has a clock")
}

#[test]
fn a_run_stores_all_measurements_and_a_refused_result_is_printed_only_with_a_stamp() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let refused = format!("{:?}", ExitCode::from(REFUSED));
    let (code, facts) = bench(at, "run DIR/run --repeats 2 randread DIR/file --file-size 1M --size 4K --seconds 1.2");
    // One second is too short, and everything is in the machine's memory.
    assert_eq!(format!("{code:?}"), refused);
    let facts = facts.expect("facts");
    assert_eq!(
        (facts.repeats.len(), facts.load.op_bytes, facts.load.working_set_bytes),
        (2, 4096, Some(f64::from(1 << 20)))
    );
    let run = at.join("run");
    for name in ["record.weirrec", "load-1.weirrec", "load-2.csv", "report-2.json", "verdict.json", "report.html"] {
        assert!(run.join(name).metadata().is_ok_and(|m| m.len() > 100), "{name}");
    }
    // Charts are drawn from the directory as it is, by the names that they look for.
    let data = Data::load(&run, &Options::default()).expect("a run");
    let reports: Vec<Report> = ["report-1.json", "report-2.json"]
        .map(|name| std::fs::read_to_string(run.join(name)).expect("a report"))
        .iter()
        .filter_map(|text| Report::from_json(&serde_json::from_str(text).ok()?))
        .collect();
    let counted: u64 = reports.iter().flat_map(|r| &r.series).map(|s| s.ops).sum();
    let near = |drawn: f64| (drawn / counted as f64 - 1.0).abs() < 1e-6;
    let drawn = figure(Kind::Iops, std::slice::from_ref(&data), &Wanted::default()).expect("operations");
    let Content::Lines(lines) = drawn.content else { panic!("no lines") };
    assert_eq!((lines.len(), lines[0].name.as_str()), (1, "operations"));
    assert!(drawn.notes.iter().any(|n| n.starts_with("UNVERIFIED")), "{:?}", drawn.notes);
    assert!(counted > 100 && near(lines[0].series.area()), "{} of {counted}", lines[0].series.area());
    let drawn = figure(Kind::Heat, std::slice::from_ref(&data), &Wanted::default()).expect("latencies");
    assert!(drawn.notes.contains(&"of load.latency_bucket".to_owned()), "{:?}", drawn.notes);
    let Content::Heat(cells) = drawn.content else { panic!("no heat map") };
    let sum: f64 = cells.iter().map(|c| c.count).sum();
    assert!(near(sum), "{sum} of {counted}");
    assert!(cells.iter().all(|c| c.range.1 / c.range.0 < 1.2), "classes are as narrow as they were counted");
    let begins = |n: usize| cells.iter().any(|c| (c.time.0 - data_begin(&run, n, &data)).abs() < 1e-3);
    assert!(begins(1) && begins(2), "each repetition at its time");
    let page = std::fs::read_to_string(run.join("report.html")).expect("a page");
    assert!(
        page.contains("randread: REFUSE") && page.contains("too short") && !page.contains("a second,"),
        "no result"
    );
    assert!(!run.join("latency-1.svg").exists(), "nor a picture");
    let (code, _) = bench(at, "judge DIR/run --force");
    assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::SUCCESS));
    let page = std::fs::read_to_string(run.join("report.html")).expect("a page");
    assert!(page.contains("UNVERIFIED randread: ") && page.contains("operations a second,"));
    let picture = std::fs::read_to_string(run.join("latency-1.svg")).expect("a picture");
    assert!(picture.contains(">UNVERIFIED<"));
    // An existing directory is refused as output, and refused results are not compared.
    let words = format!("bench run {} randread x", run.display());
    let matches = command().try_get_matches_from(words.split(' ')).expect("a line");
    assert!(super::run(&matches, None).is_err());
    let (code, _) = bench(at, "compare DIR/run DIR/run");
    assert_eq!(format!("{code:?}"), refused);
}

#[test]
fn profiles_and_runs_of_vdbench_are_judged_one_at_a_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let line = "run DIR/run --repeats 2 --warm 100ms profile oltp DIR/files --scale 0.02 --seconds 0.6 --rate 200";
    let (_, facts) = bench(at, line);
    let facts = facts.expect("facts");
    assert_eq!((facts.repeats.len(), facts.load.op_bytes, facts.load.name.as_str()), (2, 0, "oltp"));
    assert!(facts.load.random && facts.load.sync && facts.load.requested_rate == Some(200.0) && facts.ops() > 20.0);
    // The disk usage is measured on the files: they do not consist of zeros.
    let ratio = facts.server.and_then(|s| s.compress_ratio).expect("queried");
    assert!(ratio < 1.5, "{ratio}");
    let text = "fsd=f,anchor=/x,depth=1,width=2,files=4,size=8k\nfwd=w,fsd=f,operation=read,xfersize=4k,threads=2\n";
    std::fs::write(at.join("one"), format!("{text}rd=r,fwd=w,fwdrate=100,format=yes,elapsed=1,warmup=2\n"))
        .expect("written");
    std::fs::write(at.join("two"), format!("{text}rd=r,fwd=w,fwdrate=(100,200),format=yes,elapsed=1\n"))
        .expect("written");
    std::fs::remove_dir_all(at.join("run")).expect("removed");
    let (_, facts) = bench(at, "run DIR/run --repeats 2 vdb DIR/one --anchor f=DIR/tree");
    let facts = facts.expect("facts");
    assert_eq!((facts.load.working_set_bytes, facts.load.requested_rate), (Some(65536.0), Some(100.0)));
    assert!(facts.seconds < 2.9, "the warm-up does not count: {}", facts.seconds);
    let words = format!("bench run {0}/other vdb {0}/two --anchor f={0}/tree", at.display());
    let matches = command().try_get_matches_from(words.split(' ')).expect("a line");
    let error = format!("{:#}", super::run(&matches, None).expect_err("two runs"));
    assert!(error.contains("2 runs are in the file"), "{error}");
}

#[test]
fn the_command_line_is_well_formed_and_links_are_given_in_bits() {
    command().debug_assert();
    assert_eq!((bits("1G"), bits("100M"), bits("9600")), (Ok(1e9), Ok(1e8), Ok(9600.0)));
    assert!(bits("-1").is_err() && bits("fast").is_err());
    assert!(server::is_here(&Target::Path("/x".into())));
    assert!(server::is_here(&"nfs://127.0.0.1/x".parse().expect("an URL")));
    assert!(!server::is_here(&"nfs://192.0.2.1/x".parse().expect("an URL")));
}
