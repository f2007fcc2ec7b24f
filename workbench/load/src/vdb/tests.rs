use super::*;
use crate::flow::{Format, Order, Step};
use crate::pace::Arrivals;
use std::time::Duration;

/// As published in the comparison of layouts under the load of a mail archive.
const MAIL: &str = "\
fsd=fsd1,anchor=/data_remote/test,depth=2,width=8,files=10000,sizes=(8k,60,32k,25,512k,10,4m,5)
fwd=fwd1,fsd=fsd1,operation=read,skew=50,xfersize=8k,fileio=sequential,fileselect=random,threads=48
fwd=fwd2,fsd=fsd1,operation=read,skew=50,xfersize=8k,fileio=random,fileselect=random,threads=48
rd=rd1,fwd=(fwd1,fwd2),fwdrate=10000,format=no,elapsed=72000,interval=1
";

fn parsed(text: &str, changes: &Changes) -> Result<Vec<Run>> {
    parse(text, changes, &|name| anyhow::bail!("no {name} here"))
}

fn refused(text: &str) -> String {
    format!("{:#}", parsed(text, &Changes::default()).expect_err(text))
}

#[test]
fn the_published_mail_archive_is_read_unchanged() {
    let runs = parsed(MAIL, &Changes::default()).expect("runs");
    let [run] = &runs[..] else { panic!("{runs:?}") };
    let [set] = &run.flow.filesets[..] else { panic!("one set") };
    assert_eq!((set.count(), set.anchor.to_string().as_str()), (640_000, "/data_remote/test"));
    // 640,000 files of 268.8 KiB: 164 GiB.
    assert_eq!((set.bytes() / (1u64 << 30) as f64).round(), 164.0);
    assert_eq!(run.flow.groups.iter().map(|g| g.threads).sum::<usize>(), 96);
    assert_eq!((run.flow.arrivals, run.flow.format), (Arrivals::Poisson(10_000.0), Format::Keep));
    assert_eq!(run.flow.time, Some(Duration::from_secs(72_000)));
    let [whole, random] = &run.flow.groups[..] else { panic!("two groups") };
    assert!(matches!(
        &whole.steps[..],
        [Step::Open(false), Step::Parts { reads: 100, random: false, count: None, .. }, _]
    ));
    assert!(matches!(&random.steps[..], [_, Step::Parts { random: true, count: Some(100), .. }, Step::Close]));
    assert_eq!((whole.skew, whole.order), (Some(50.0), Order::Random));
    // Scaled to a hundredth: files, rate and time.
    let runs = parsed(MAIL, &Changes { scale: Some(0.01), ..Changes::default() }).expect("runs");
    let flow = &runs[0].flow;
    assert_eq!((flow.filesets[0].count(), flow.arrivals), (6_400, Arrivals::Poisson(100.0)));
    assert_eq!(flow.time, Some(Duration::from_secs(720)));
}

#[test]
fn keywords_may_be_short_defaults_apply_to_what_follows_and_lines_continue() {
    let text = "\
* a comment
hd=localhost
fsd=default,dep=1,w=2,files=5,size=4k   what follows a blank is no part of it
fsd=fsd1,anch=/a,
   shared=yes
fsd=fsd2,anchor=/b,depth=3
fwd=default,xf=8k,thr=4,op=write
fwd=f1,fsd=fsd*
rd=rd1,fwd=f*,fwdr=max,form=yes,el=1m
";
    let runs = parsed(text, &Changes::default()).expect("runs");
    let flow = &runs[0].flow;
    assert_eq!((flow.filesets[0].count(), flow.filesets[1].count()), (10, 40));
    assert!(flow.filesets[0].shared && !flow.filesets[1].shared);
    assert_eq!(
        (flow.format, flow.arrivals, flow.time),
        (Format::Fresh, Arrivals::Closed, Some(Duration::from_secs(60)))
    );
    // Four threads on two file systems.
    assert_eq!(flow.groups.iter().map(|g| g.threads).collect::<Vec<_>>(), [2, 2]);
}

#[test]
fn loops_make_a_run_for_each_choice_the_first_outermost() {
    let text = "\
fsd=f,anchor=$where,depth=1,width=1,files=1,size=1m
fwd=w,fsd=f,operation=read,rdpct=70
rd=r,fwd=w,fwdrate=(100,200),forthreads=(1-4,d),forxfersizes=(4k,8k),elapsed=5
";
    let mut changes = Changes::default();
    changes.variables.insert("where".to_owned(), "/tmp/x".to_owned());
    let runs = parsed(text, &changes).expect("runs");
    assert_eq!(runs.len(), 3 * 2 * 2);
    let choices = |run: &Run| run.chosen.iter().map(|(w, v)| format!("{w}={v}")).collect::<Vec<_>>().join(" ");
    assert_eq!(choices(&runs[0]), "threads=1 xfersizes=4k fwdrate=100");
    assert_eq!(choices(&runs[11]), "threads=4 xfersizes=8k fwdrate=200");
    assert_eq!(runs[11].flow.groups[0].threads, 4);
    assert!(matches!(&runs[0].flow.groups[0].steps[1], Step::Parts { reads: 70, .. }));
}

#[test]
fn unknown_and_unsupported_words_are_named() {
    let fsd = "fsd=f,anchor=/a,files=1,size=1k\n";
    let fwd = "fwd=w,fsd=f,operation=read\n";
    for (text, wanted) in [
        (fsd.to_owned() + fwd, "no rd"),
        ("sd=sd1,lun=/dev/x\n".to_owned(), "Unsupported: sd"),
        ("hd=h,system=other\n".to_owned(), "Unsupported: hd on other machines"),
        ("fsd=f,colour=red\n".to_owned(), "line 1: 'colour' is not a keyword of fsd"),
        ("fsd=f,anchor=/a,size=(4k,50,8k,40)\nfwd=w,fsd=f\nrd=r,fwd=w\n".to_owned(), "add up to 90"),
        (fsd.to_owned() + "fwd=w,fsd=f,operation=fly\nrd=r,fwd=w\n", "Unsupported: operation=fly"),
        (fsd.to_owned() + fwd + "rd=r,fwd=x\n", "no fwd is named x"),
        (fsd.to_owned() + fwd + "rd=r,fwd=w,replay=x\n", "Unsupported: replay"),
        ("fsd=f,anchor=/a,\n".to_owned(), "is continued, but the file ends"),
        ("fsd=f,anchor=$a\n".to_owned(), "$a has no value"),
        ("fsd=f,size=(1,2\n".to_owned(), "does not end"),
    ] {
        let error = refused(&text);
        assert!(error.contains(wanted), "{text}: {error}");
    }
}
