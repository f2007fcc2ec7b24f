//! Flows on a local directory and on an NFS server: the published mail archive at a small scale,
//! and each profile.

use load::flow::{Flow, Format, profile};
use load::vdb::{self, Changes};
use load::{Control, Report, Target, What};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

const MAIL: &str = "\
fsd=fsd1,anchor=/data_remote/test,depth=2,width=8,files=10000,sizes=(8k,60,32k,25,512k,10,4m,5)
fwd=fwd1,fsd=fsd1,operation=read,skew=50,xfersize=8k,fileio=sequential,fileselect=random,threads=48
fwd=fwd2,fsd=fsd1,operation=read,skew=50,xfersize=8k,fileio=random,fileselect=random,threads=48
rd=rd1,fwd=(fwd1,fwd2),fwdrate=10000,format=no,elapsed=72000,interval=1
";

fn run(text: &str, changes: &Changes) -> anyhow::Result<Report> {
    let runs = vdb::parse(text, changes, &|name| anyhow::bail!("no {name}"))?;
    runs[0].flow.run(Control::plain(&AtomicBool::new(false)))
}

fn at(target: &Target) -> Changes {
    Changes {
        anchors: [("fsd1".to_owned(), target.clone())].into(),
        scale: Some(0.0001),
        elapsed: Some(Duration::from_secs(2)),
        rate: Some(300.0),
        format: Some("restart".to_owned()),
        ..Changes::default()
    }
}

fn mail(target: &Target) {
    let missing = Changes { format: None, ..at(target) };
    let error = format!("{:#}", run(MAIL, &missing).expect_err("no files"));
    assert!(error.contains("no files in"), "{error}");
    let report = run(MAIL, &at(target)).expect("a run");
    assert_eq!((report.failed, report.first_failure.as_deref()), (0, None));
    let reads = report.of(What::Read);
    // The counted operations are reads; open and close are auxiliary.
    assert_eq!(report.ops, reads.count);
    assert!(report.of(What::Open).count > 0 && reads.bytes > 0);
    // The files exist now, as format=no requires.
    assert!(run(MAIL, &missing).expect("a run").ops > 0);
}

fn profiles(target: &Target) {
    for (name, _) in profile::ALL {
        let scale = if name == "mailarchive" { 0.0001 } else { 0.01 };
        let mut flow = profile::named(name, target, scale).expect(name);
        let writes = !matches!(name, "webserver" | "mailarchive");
        worked(&mut flow, |report| report.ops > 0 && (!writes || report.of(What::Write).count > 0));
        // Once more, on the files of the first run.
        flow.format = Format::Fill;
        worked(&mut flow, |report| report.ops > 0);
    }
}

/// Runs a flow briefly, and longer if a busy machine did not execute all steps.
fn worked(flow: &mut Flow, is_enough: impl Fn(&Report) -> bool) {
    for ms in [700, 5_000, 60_000] {
        flow.time = Some(Duration::from_millis(ms));
        let report =
            flow.run(Control::plain(&AtomicBool::new(false))).unwrap_or_else(|e| panic!("{}: {e:#}", flow.name));
        assert_eq!((report.failed, report.first_failure.as_deref()), (0, None), "{}", flow.name);
        if is_enough(&report) {
            return;
        }
        flow.format = Format::Fill;
    }
    panic!("{}: too little was done in a minute", flow.name);
}

#[test]
fn flows_on_files_of_this_machine() {
    let folder = tempfile::tempdir().expect("a folder");
    mail(&Target::Path(folder.path().join("mail")));
    profiles(&Target::Path(folder.path().to_owned()));
}

#[test]
fn flows_on_a_server_of_nfs() {
    let server = crate::support::server();
    let target = |name: &str| format!("nfs://{}/export/deep/{name}", server.address).parse().expect("an URL");
    mail(&target("mail"));
    profiles(&target("profiles"));
}

#[test]
fn every_operation_of_the_language_is_done_on_both_kinds_of_files() {
    let server = crate::support::server();
    let folder = tempfile::tempdir().expect("a folder");
    let remote = format!("nfs://{}/export/all", server.address).parse().expect("an URL");
    for target in [Target::Path(folder.path().join("all")), remote] {
        let text = |operations: &str, format: &str| {
            format!(
                "fsd=fsd1,anchor=/x,depth=2,width=2,files=3,size=12k\n\
                 fwd=w,fsd=fsd1,operation=({operations}),xfersize=4k,fileselect=once,threads=2\n\
                 rd=r,fwd=w,fwdrate=max,format={format},elapsed=5\n"
            )
        };
        let changes = Changes { anchors: [("fsd1".to_owned(), target)].into(), ..Changes::default() };
        let count = |operations: &str, format: &str, what: What| {
            let report = run(&text(operations, format), &changes).unwrap_or_else(|e| panic!("{operations}: {e:#}"));
            assert_eq!((report.failed, report.first_failure.as_deref()), (0, None), "{operations}");
            report.of(what).count
        };
        assert_eq!(count("read", "yes", What::Read), 36);
        assert_eq!(count("write", "no", What::Write), 36);
        assert_eq!(count("getattr", "no", What::Look), 12);
        assert_eq!(count("setattr", "no", What::Change), 12);
        assert_eq!(count("open", "no", What::Open), 12);
        assert_eq!(count("delete", "no", What::Remove), 12);
        assert_eq!(count("create", "no", What::Create), 12);
        assert_eq!(count("read", "no", What::Read), 36);
    }
}

#[test]
fn clients_on_several_machines_begin_when_all_are_ready() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = std::env::current_exe().expect("this test");
    let example = program.parent().and_then(|p| p.parent()).expect("a folder").join("examples/load");
    assert!(example.exists(), "{} is built with the tests", example.display());
    let file = folder.path().join("%h").display().to_string();
    let words = format!("{} randread {file} --file-size 64K --seconds 0.5 --rate 200 --await-go", example.display());
    let clients = load::clients::Clients {
        hosts: load::clients::hosts("one # first\n\ntwo\nthree\n"),
        // Instead of ssh: the host is the name of the shell, the line its command.
        shell: ["sh", "-c", "eval \"$1\""].map(str::to_owned).to_vec(),
        line: words.split(' ').map(str::to_owned).collect(),
    };
    let all = clients.run().expect("three reports");
    assert_eq!(all.iter().map(|c| c.host.as_str()).collect::<Vec<_>>(), ["one", "two", "three"]);
    assert!(folder.path().join("two").exists(), "each has its own file");
    let merged = Report::merged(&all.iter().map(|c| c.report.clone()).collect::<Vec<_>>()).expect("three");
    assert_eq!((merged.failed, merged.requested), (0, Some(600.0)));
    assert!(Command::new(&example).arg("--help").output().expect("help").status.success());
    let broken = load::clients::Clients { line: vec!["false".to_owned()], ..clients };
    assert!(format!("{:#}", broken.run().expect_err("none is ready")).contains("ended before it was ready"));
}

/// Three clients of one benchmark, one of which is limited to a tenth: the judge names it, and each
/// client's own seconds are stored.
#[test]
fn a_benchmark_of_several_clients_names_the_slow_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let program = std::env::current_exe().expect("this test");
    let example = program.parent().and_then(|p| p.parent()).expect("a folder").join("examples/load");
    std::fs::write(at.join("list"), "one\ntwo\nthree\n").expect("written");
    // Instead of ssh. The example program takes no 'load' argument.
    let script = "[ \"$1\" != two ] || set -- two \"$(echo \"$2\" | sed 's/--rate 100/--rate 10/')\"\neval \"$(echo \"$2\" | sed 's/ load / /')\"\n";
    std::fs::write(at.join("rsh"), script).expect("written");
    let words = "bench run DIR/run --repeats 2 --link 1G clients -f DIR/list --rsh sh|DIR/rsh --program EXAMPLE randread DIR/%h --file-size 64K --rate 100 --seconds 1.2";
    let words: Vec<String> = words
        .split(' ')
        .map(|w| w.replace("DIR", &at.display().to_string()).replace("EXAMPLE", &example.display().to_string()))
        .map(|w| w.replace('|', " "))
        .collect();
    let matches = load::bench::command().try_get_matches_from(words).expect("a line");
    load::bench::run(&matches, None).expect("measured");
    let facts: serde_json::Value =
        serde_json::from_slice(&std::fs::read(at.join("run/facts.json")).expect("facts")).expect("JSON");
    let clients = facts["clients"].as_array().expect("clients");
    let names: Vec<_> = clients.iter().filter_map(|c| c["name"].as_str()).collect();
    assert_eq!((names, facts["load"]["requested_rate"].as_f64()), (vec!["one", "two", "three"], Some(300.0)));
    assert!(clients.iter().all(|c| c["cpu_busy"].is_number() && c["link"]["limit_bytes_per_second"] == 125e6));
    assert_eq!(facts["repeats"].as_array().map(Vec::len), Some(2));
    let verdict = std::fs::read_to_string(at.join("run/verdict.json")).expect("a verdict");
    assert!(verdict.contains("client two reached"), "{verdict}");
    let each: serde_json::Value =
        serde_json::from_slice(&std::fs::read(at.join("run/clients-2.json")).expect("kept")).expect("JSON");
    assert!(each["three"]["ops"].as_u64().is_some_and(|ops| ops > 50), "{each}");
}
