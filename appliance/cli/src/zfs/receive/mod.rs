//! `zfs receive`: reads a stream, or a package of streams, from standard input and creates
//! snapshots.
//!
//! ```text
//!   mod      options; what is mounted afterwards     name       the names of received snapshots
//!   one      one stream                              props      properties: stream's, -o and -x
//!   package  several streams, with a list of them    replicate  renames, promotions and destroys
//!                                                               since the base (-R -i)
//! ```
//! In a process that owns the pool, standard input is the caller's and arrives as fast as it is
//! read ([`crate::client::Client::input`]): bytes behind the end of the stream may have been read
//! too, and the stream ends when the caller disconnects.

mod name;
mod one;
mod package;
mod props;
mod replicate;

use super::create::record;
use super::datasets::Pools;
use super::flow;
use crate::context::{Context, Failure, Outcome};
use crate::getopt::{Options, Parsed};
use crate::zpool::writing::{command_line, open, why};
use admin::state::Imported;
use admin::verbs::PoolLease;
use daemon::{Direction, Flow, Owner};
use dataset::receive::{CLONE, VerifiedRecord, VerifyingReader};
use dataset::{Datasets, LiveDatasets, write};
use errors::{Error, Refusal};
use ondisk::send_record::Body;
use package::List;
use props::Asked as AskedProperties;
use std::cell::RefCell;
use std::io::Read;
use std::sync::Arc;

const OPTIONS: Options = Options { short: "o:x:dehMnuvFsAc", long: &[] };

pub const USAGE: &[&str] = &[
    "[-vMnsFhu] [-o property=value] ... [-x property] ... filesystem|volume|snapshot",
    "[-vMnsFhu] [-o property=value] ... [-x property] ... [-d | -e] filesystem",
    "-c [-vn] filesystem|volume|snapshot",
    // zrepl looks for this spelling before it asks for resume tokens.
    "-A <filesystem|volume>",
];

/// The options of one call.
struct Asked {
    to: String,
    is_prefix: bool,
    is_tail: bool,
    is_dry: bool,
    verbose: bool,
    force: bool,
    force_unmount: bool,
    resumable: bool,
    skip_holds: bool,
    no_mount: bool,
    /// `-c`: the snapshot exists, and the stream heals its blocks.
    heals: bool,
    properties: AskedProperties,
}

impl Asked {
    fn new(parsed: &Parsed) -> Result<Self, Failure> {
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
            resumable: parsed.has('s'),
            skip_holds: parsed.has('h'),
            no_mount: parsed.has('u'),
            heals: parsed.has('c'),
            properties: AskedProperties::new(parsed)?,
        })
    }
}

/// The pool to receive into.
enum Pool<'r> {
    Writing(&'r PoolLease),
    /// Only read, for `-n`.
    Looking(Arc<Datasets>),
}

/// The state of one call.
struct Receiver<'r> {
    record: &'r Imported,
    pool: Pool<'r>,
    asked: &'r Asked,
    /// The owner of the pool, if this process mounts its file systems.
    owner: Option<Arc<Owner>>,
    /// The list at the start of the package, if it has one.
    list: Option<List>,
    /// The dataset that was sent: the names in the streams begin with it.
    sent: String,
    /// The first dataset received into. `-o` and `-x` apply to it.
    top: Option<String>,
    /// The file systems created by this call.
    made: Vec<String>,
    /// The file systems unmounted by this call.
    unmounted: RefCell<Vec<String>>,
    /// The flow that reports progress to the daemon.
    flow: Option<Arc<Flow>>,
}

impl<'r> Receiver<'r> {
    fn new(cx: &Context<'_>, record: &'r Imported, pool: Pool<'r>, asked: &'r Asked) -> Self {
        Self {
            record,
            pool,
            asked,
            owner: crate::mounts::owner(cx, record.guid),
            list: None,
            sent: String::new(),
            top: None,
            made: Vec::new(),
            unmounted: RefCell::default(),
            flow: None,
        }
    }

    /// The datasets of the last synced txg.
    fn tree(&self) -> Result<Arc<Datasets>, Error> {
        match &self.pool {
            Pool::Writing(pool) => pool.live.synced(),
            Pool::Looking(tree) => Ok(tree.clone()),
        }
    }

    fn live(&self) -> &LiveDatasets {
        match &self.pool {
            Pool::Writing(pool) => &pool.live,
            Pool::Looking(_) => unreachable!("a dry run ends before anything is changed"),
        }
    }

    /// Unmounts and closes a dataset that is about to be replaced, renamed, destroyed or updated.
    /// It is mounted again at the end, except one that is replaced as a whole, with `-u`.
    fn let_go(&self, name: &str, is_replaced: bool) -> Result<(), Error> {
        if let Some(owner) = &self.owner {
            let names = crate::mounts::unmount_placed(owner, self.record, name, self.asked.force_unmount);
            let names = names.map_err(|why| Error::invalid(name, why))?;
            if !(is_replaced && self.asked.no_mount) {
                self.unmounted.borrow_mut().extend(names);
            }
        }
        match &self.pool {
            Pool::Writing(pool) => pool.close_dataset(name).map_err(|e| Error::invalid(name, format!("{e:#}"))),
            Pool::Looking(_) => Ok(()),
        }
    }
}

/// `zfs receive`.
pub fn run(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = OPTIONS.parse(args).map_err(Failure::usage)?;
    let asked = Asked::new(&parsed)?;
    let command = command_line("zfs receive", args);
    let record = record(cx, "receive", asked.to.split('@').next().unwrap_or_default())?;
    if parsed.has('A') {
        if parsed.given.iter().any(|(letter, _)| "densu".contains(*letter)) {
            return Err(Failure::usage("invalid option"));
        }
        return give_up(cx, &record, &asked.to, &command);
    }
    if cx.client.input_is_terminal() {
        let what = "Error: Backup stream can not be read from a terminal.\nYou must redirect standard input.";
        return Err(Failure::failed(what));
    }
    let input = cx.client.input().map_err(|e| Failure::failed(format!("cannot receive: {e}")))?;
    let flow = if asked.is_dry { None } else { flow::begin(cx, Direction::Receive, &asked.to) };
    let mut stream = VerifyingReader::new(input).watched(flow::receiving(flow.as_ref()));
    let first = begin_of(&mut stream)?.ok_or_else(|| Failure::failed("cannot receive: failed to read from stream"))?;
    if asked.is_dry {
        let looked = Pools::new(cx).pool(cx, &record.name)?;
        let gone = || Failure::failed(format!("cannot receive: no such pool '{}'", record.name));
        let tree = looked.ok_or_else(gone)?.datasets.clone();
        return Receiver::new(cx, &record, Pool::Looking(tree), &asked).all(cx, &mut stream, first);
    }
    let pool = open(cx, &record, "cannot receive")?;
    let mut receiver = Receiver::new(cx, &record, Pool::Writing(&pool), &asked);
    receiver.flow = flow.as_ref().map(|flow| Arc::clone(flow));
    let outcome = receiver.all(cx, &mut stream, first);
    flow::end(flow, &outcome);
    if outcome.is_ok() {
        pool.note_command(&command).map_err(|e| Failure::failed(format!("cannot receive: {e:#}")))?;
    }
    let (made, unmounted) = (receiver.made, receiver.unmounted.take());
    let finished = pool.finish().map_err(|e| Failure::failed(format!("cannot receive: {e:#}")));
    let code = mount(cx, &record, &asked, &made, &unmounted);
    let done = outcome?;
    finished?;
    Ok(done.max(code))
}

/// Reads the next stream's BEGIN. `None`: the input ends here, or the package does.
fn begin_of<R: Read>(stream: &mut VerifyingReader<R>) -> Result<Option<VerifiedRecord>, Failure> {
    let failed = |why: String| Failure::failed(format!("cannot receive: {why}"));
    let packet = stream.next_record().map_err(|e| failed(said(&e)))?;
    match packet {
        Some(packet) => match &packet.record.body {
            Body::Begin(_) => Ok(Some(packet)),
            Body::End { .. } => Ok(None),
            _ => Err(failed("invalid stream (bad magic number)".to_owned())),
        },
        None => Ok(None),
    }
}

/// Mounts what was unmounted, and the new file systems. Returns the exit code.
fn mount(cx: &mut Context<'_>, record: &Imported, asked: &Asked, made: &[String], unmounted: &[String]) -> u8 {
    let mut code = 0;
    if let Some(owner) = crate::mounts::owner(cx, record.guid)
        && !unmounted.is_empty()
    {
        code |= crate::mounts::mount_again(cx, &owner, record, unmounted);
    }
    if !asked.no_mount {
        made.iter().for_each(|name| code |= super::create::mount_new(cx, record, name));
    }
    code
}

/// `-A`: removes the state of an interrupted receive.
fn give_up(cx: &mut Context<'_>, record: &Imported, name: &str, command: &str) -> Outcome {
    let cannot = format!("cannot abort the receive into '{name}'");
    let hidden = format!("{name}/{CLONE}");
    crate::zpool::writing::change(cx, record, &cannot, command, |pool| {
        let tree = pool.live.synced()?;
        if tree.dataset(&hidden).is_ok() {
            return Ok(write::destroy(&pool.live, &hidden)?);
        }
        let is_left = match tree.dataset(name) {
            Ok(dataset) => dataset::resume::token(&dataset)?.is_some(),
            Err(Error::NotFound { .. }) => false,
            Err(error) => return Err(error.into()),
        };
        anyhow::ensure!(is_left, "'{name}' does not have any resumable receive state to abort");
        Ok(write::destroy(&pool.live, name)?)
    })
    .map(|()| 0)
    .map_err(|failure| match failure {
        // OpenZFS prints this message without a prefix.
        Failure::Failed(text) if text.ends_with("receive state to abort") => {
            Failure::Failed(text.trim_start_matches(&format!("{cannot}: ")).to_owned())
        }
        failure => failure,
    })
}

/// The message for an error, in OpenZFS's words where it has some; for a damaged stream it includes
/// the record.
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
