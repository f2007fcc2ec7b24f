//! `zfs receive`: reads a stream, or a package of streams, from standard input and creates
//! snapshots.
//!
//! ```text
//!   mod        one call; what is mounted afterwards
//!   package    several streams, with a list of them
//!   replicate  renames, promotions and destroys since the base (-R -i)
//!   one        one stream
//!   props      properties: stream's, -o and -x
//!   receiver   the state of one call
//!   name       the names of received snapshots
//!   permission  what a caller may receive who is not the owner of the pools
//!   options, list, error_text
//! ```
//! In a process that owns the pool, standard input is the caller's and arrives as fast as it is
//! read ([`crate::client::Client::input`]): bytes behind the end of the stream may have been read
//! too, and the stream ends when the caller disconnects.

mod error_text;
mod list;
mod name;
mod one;
mod options;
mod package;
mod permission;
mod props;
mod receiver;
mod replicate;

use super::create::record;
use super::datasets::Pools;
use super::flow;
use crate::context::{Context, Failure, Outcome};
use crate::getopt::{ArgKind, flag, value};
use crate::verb::{Call, Verb, for_delegates};
use crate::zpool::writing::open;
use admin::state::Imported;
use daemon::Direction;
use dataset::receive::{CLONE, VerifyingReader};
use dataset::write;
use errors::Error;
use options::Asked;
use package::begin_of;
use receiver::{Pool, Receiver};
use std::sync::Arc;

/// The row of `zfs receive`.
pub static RECEIVE: Verb = ROW;

/// The row of `zfs recv`.
pub static RECV: Verb = ROW.called("recv");

const ROW: Verb = for_delegates("receive", "Receive a send stream from standard input", run)
    .usage(&[
        "[-vMnsFhu] [-o property=value] ... [-x property] ... filesystem|volume|snapshot",
        "[-vMnsFhu] [-o property=value] ... [-x property] ... [-d | -e] filesystem",
        "-c [-vn] filesystem|volume|snapshot",
        // zrepl looks for this spelling before it asks for resume tokens.
        "-A <filesystem|volume>",
    ])
    .options(&[
        value('o', "property=value", ArgKind::DatasetAssignment, "Set a property, whatever the stream says.")
            .repeated(),
        value('x', "property", ArgKind::DatasetProperties, "Ignore this property of the stream.").repeated(),
        flag('d', "Name the dataset as the sender does, without the pool's name, below the operand."),
        flag('e', "Name the dataset as the last part of the sender's name, below the operand."),
        flag('h', "Ignore the holds of the stream."),
        flag('M', "Unmount file systems even if they are in use, for incremental streams."),
        flag('n', "Print what would be received, and receive nothing."),
        flag('u', "Do not mount the received file systems."),
        flag('v', "Print the name, size and time of each received stream."),
        flag('F', "Roll back to the last snapshot first; with a stream of -R, destroy what the sender no longer has."),
        flag('s', "Keep what an interrupted stream brought, so that it can be resumed."),
        flag('A', "Remove what an interrupted stream brought."),
        flag('c', "Repair the damaged blocks of the snapshot from the stream."),
    ])
    .operands(&[ArgKind::NewDataset])
    .history("zfs receive")
    .examples(&[
        ("zfs receive -s backup/home < file", "Receive a stream so that it can be resumed if it is interrupted."),
        ("zfs receive -A backup/home", "Give up an interrupted stream."),
    ]);

/// `zfs receive`.
pub fn run(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let asked = Asked::new(parsed)?;
    let command = call.history();
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
    permission::to_begin(cx, &record, &asked)?;
    if asked.is_prefix
        && let Some(pool) = Pools::new(cx).pool(cx, &record.name)?
        && pool.datasets.dataset(&asked.to).is_err()
    {
        return Err(Failure::failed(format!("cannot receive: specified fs ({}) does not exist", asked.to)));
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

/// Mounts what was unmounted, and the new file systems. Returns the exit code.
fn mount(cx: &mut Context<'_>, record: &Imported, asked: &Asked, made: &[String], unmounted: &[String]) -> u8 {
    let mut code = 0;
    if !cx.caller.is_owner() {
        return code;
    }
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
    permission::to_give_up(cx, record, &cannot, [&hidden, name])?;
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
