//! `zfs receive`: a stream on standard input becomes a snapshot.
//!
//! In a process that owns the pool, standard input is the caller's, asked for piece by piece ([`crate::client::Client::input`]): what
//! is not asked for waits there, and a caller that goes away ends the stream.

mod name;

use super::create::record;
use crate::context::{Context, Failure, Outcome};
use crate::getopt::{Options, Parsed};
use crate::number::nice_bytes;
use crate::state::Imported;
use crate::zpool::writing::{Lent, command_line, open, why};
use dataset::receive::{self, Checked, Target};
use dataset::{Error, Refusal};
use name::Destination;
use ondisk::send_record::{Begin, Body};
use std::cell::RefCell;
use std::io::Read;
use std::time::Instant;

const OPTIONS: Options = Options { short: "o:x:dehMnuvFsAc", long: &[] };

/// How it is called.
pub const USAGE: &[&str] = &[
    "[-vMnFhu] [-o origin=snapshot] filesystem|volume|snapshot",
    "[-vMnFhu] [-o origin=snapshot] [-d | -e] filesystem",
];

/// Header type of a package of streams (`DMU_COMPOUNDSTREAM`).
const PACKAGE: u8 = 2;
/// BEGIN: the stream builds on a snapshot of another dataset.
const FLAG_CLONE: u32 = 1;

/// What options say.
struct Asked {
    to: String,
    is_prefix: bool,
    is_tail: bool,
    is_dry: bool,
    verbose: bool,
    force: bool,
    force_unmount: bool,
    no_mount: bool,
    origin: Option<String>,
}

impl Asked {
    fn new(parsed: &Parsed) -> Result<Self, Failure> {
        let unsupported =
            |what: &str| Err(Failure::failed(format!("unsupported: {what} is not in this version of weir")));
        for (letter, what) in [
            ('s', "receiving so that it can be resumed (-s)"),
            ('A', "giving up what was received in part (-A)"),
            ('c', "healing of a snapshot by a stream (-c)"),
            ('x', "leaving out received properties (-x)"),
        ] {
            if parsed.has(letter) {
                return unsupported(what);
            }
        }
        let mut origin = None;
        for option in parsed.all('o') {
            match option.split_once('=') {
                Some(("origin", snapshot)) => origin = Some(snapshot.to_owned()),
                Some(_) => return unsupported("setting properties of what is received (-o)"),
                None => return Err(Failure::usage("missing '=' for property=value argument")),
            }
        }
        let to = match parsed.operands.as_slice() {
            [] => return Err(Failure::usage("missing snapshot argument")),
            [to] => to.clone(),
            _ => return Err(Failure::usage("too many arguments")),
        };
        Ok(Self {
            to,
            is_tail: parsed.has('e'),
            is_prefix: parsed.has('d') || parsed.has('e'),
            is_dry: parsed.has('n'),
            verbose: parsed.has('v'),
            force: parsed.has('F'),
            force_unmount: parsed.has('M'),
            no_mount: parsed.has('u'),
            origin,
        })
    }
}

/// `zfs receive`.
pub fn run(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = OPTIONS.parse(args).map_err(Failure::usage)?;
    let asked = Asked::new(&parsed)?;
    if cx.client.input_is_terminal() {
        let what = "Error: Backup stream can not be read from a terminal.\nYou must redirect standard input.";
        return Err(Failure::failed(what));
    }
    let record = record(cx, "receive", asked.to.split('@').next().unwrap_or_default())?;
    let mut stream = Checked::new(cx.client.input().map_err(|e| Failure::failed(format!("cannot receive: {e}")))?);
    let begin = first(&mut stream)?;
    if begin.header_type == PACKAGE {
        let what = "receiving of packages of streams (zfs send -R, -I, -p)";
        return Err(Failure::failed(format!("unsupported: {what} is not in this version of weir")));
    }
    let pool = open(cx, &record, "cannot receive")?;
    let outcome = one(cx, &record, &pool, &asked, &mut stream, &begin);
    let command = command_line("zfs receive", args);
    let outcome = outcome.and_then(|done| match asked.is_dry {
        true => Ok(done),
        false => {
            pool.note_command(&command).map(|()| done).map_err(|e| Failure::failed(format!("cannot receive: {e:#}")))
        }
    });
    let finished = pool.finish().map_err(|e| Failure::failed(format!("cannot receive: {e:#}")));
    let done = outcome?;
    finished?;
    Ok(mount(cx, &record, &asked, done))
}

/// The first record.
fn first<R: Read>(stream: &mut Checked<R>) -> Result<Begin, Failure> {
    let failed = |why: String| Failure::failed(format!("cannot receive: {why}"));
    match stream.next_record().map_err(|e| failed(said(&e)))?.map(|packet| packet.record.body) {
        Some(Body::Begin(begin)) => Ok(begin),
        Some(_) => Err(failed("invalid stream (bad magic number)".to_owned())),
        None => Err(failed("failed to read from stream".to_owned())),
    }
}

/// What is to be mounted after a receive.
struct Done {
    /// A file system that was not there before.
    made: Option<String>,
    /// Had to be let go of.
    unmounted: Vec<String>,
}

fn mount(cx: &mut Context<'_>, record: &Imported, asked: &Asked, done: Done) -> u8 {
    let mut code = 0;
    if let Some(owner) = crate::mounts::owner(cx, record.guid)
        && !done.unmounted.is_empty()
    {
        code |= crate::mounts::mount_again(cx, &owner, record, &done.unmounted);
    }
    match done.made {
        Some(made) if !asked.no_mount => code | super::create::mount_new(cx, record, &made),
        _ => code,
    }
}

/// One stream, whose BEGIN was read.
fn one<R: Read>(
    cx: &mut Context<'_>,
    record: &Imported,
    pool: &Lent,
    asked: &Asked,
    stream: &mut Checked<R>,
    begin: &Begin,
) -> Result<Done, Failure> {
    let to_name = String::from_utf8_lossy(&begin.to_name).into_owned();
    let sent = to_name.split('@').next().unwrap_or_default().to_owned();
    let to = Destination::new(asked, &to_name, &sent)?;
    let makes = begin.from_guid == 0 || begin.flags & FLAG_CLONE != 0 || asked.origin.is_some();
    let cannot = if makes { "cannot receive new filesystem stream" } else { "cannot receive incremental stream" };
    let failed = |e: Error| Failure::failed(tell(cannot, &to, &e));
    let tree = pool.live.synced().map_err(failed)?;
    let is_there = tree.dataset(&to.dataset).is_ok();
    if asked.is_prefix && !asked.is_dry {
        make_parents(pool, asked, &to)?;
    }
    if asked.verbose {
        let verb = if asked.is_dry { "would receive" } else { "receiving" };
        let kind = if begin.from_guid != 0 { "incremental" } else { "full" };
        cx.print(&format!("{verb} {kind} stream of {to_name} into {to}\n"));
        let _ = cx.out.flush();
    }
    if asked.is_dry {
        receive::skip(stream).map_err(failed)?;
        return Ok(Done { made: None, unmounted: Vec::new() });
    }
    let started = Instant::now();
    let unmounted = RefCell::new(Vec::new());
    let owner = crate::mounts::owner(cx, record.guid);
    let let_go = || {
        if let Some(owner) = &owner {
            let names = crate::mounts::unmount_placed(owner, record, &to.dataset, asked.force_unmount);
            *unmounted.borrow_mut() = names.map_err(|why| Error::invalid(&*to.dataset, why))?;
        }
        pool.close_dataset(&to.dataset).map_err(|e| Error::invalid(&*to.dataset, format!("{e:#}")))
    };
    let target = Target {
        dataset: to.dataset.clone(),
        snapshot: to.snapshot.clone(),
        force: asked.force,
        origin: asked.origin.clone(),
        owners_of: admin::write::maker().owners_of,
        let_go: &let_go,
    };
    let received = receive::receive(&pool.live, stream, begin, &target);
    let done = Done { made: (!is_there).then(|| to.dataset.clone()), unmounted: unmounted.take() };
    match received {
        Ok(bytes) => {
            if asked.verbose {
                let seconds = started.elapsed().as_secs().max(1);
                let rate = nice_bytes(bytes / seconds);
                cx.print(&format!("received {} stream in {seconds} seconds ({rate}/sec)\n", nice_bytes(bytes)));
            }
            Ok(done)
        }
        Err(error) => {
            mount(cx, record, asked, Done { made: None, ..done });
            Err(failed(error))
        }
    }
}

/// With `-d` and `-e`, file systems above what is received are made.
fn make_parents(pool: &Lent, asked: &Asked, to: &Destination) -> Result<(), Failure> {
    let failed = |e: &Error| Failure::failed(format!("cannot receive: failed to create ancestors: {}", why(e)));
    let tree = pool.live.synced().map_err(|e| failed(&e))?;
    if tree.dataset(&asked.to).is_err() {
        return Err(Failure::failed(format!("cannot receive: specified fs ({}) does not exist", asked.to)));
    }
    let Some((parent, _)) = to.dataset.rsplit_once('/').filter(|(parent, _)| tree.dataset(parent).is_err()) else {
        return Ok(());
    };
    let new = dataset::write::NewDataset { name: parent.to_owned(), parents: true, ..Default::default() };
    dataset::write::create(&pool.live, &new, admin::write::maker()).map_err(|e| failed(&e))
}

fn tell(cannot: &str, to: &Destination, error: &Error) -> String {
    match error {
        Error::Refused { why: Refusal::Exists, .. } => format!("cannot restore to {to}: destination already exists"),
        error => format!("{cannot}: {}", said(error)),
    }
}

/// What is wrong, in OpenZFS's words where it has some; of a stream that is damaged, also with the record.
fn said(error: &Error) -> String {
    match error {
        Error::Corrupt { place, what } => {
            let short = if what.contains("checksum is ") {
                "checksum mismatch"
            } else if what.contains("the stream ends") {
                "incomplete stream"
            } else if place.starts_with("record ") || place.starts_with("dmu_replay_record") {
                "invalid backup stream"
            } else {
                return error.to_string();
            };
            format!("{short}\n{}", error.to_string().trim_start_matches(": "))
        }
        Error::Refused { why: Refusal::Busy, .. } => "dataset is busy".to_owned(),
        error => why(error),
    }
}
