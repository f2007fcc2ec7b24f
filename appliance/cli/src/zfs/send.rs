//! `zfs send`: writes a snapshot, or several, as a stream to standard output.
//!
//! In a process that owns the pool, standard output is the caller's: the bytes are transferred
//! beside the text ([`crate::client::Client::output`]). In both cases the blocks being read are
//! kept from being freed ([`crate::hold::keep`]).

mod find;
mod meter;
mod options;
mod source;
mod stream;

use super::datasets::Pools;
use super::flow;
use crate::commands::stream::print;
use crate::context::{Context, Failure, Outcome};
use crate::getopt::{ArgKind, Parsed, flag, value};
use crate::number::{nice_bytes, nice_number};
use crate::verb::{Call, Verb, for_delegates};
use admin::verbs::ReadPool;
use daemon::Direction;
use daemon::flows::Begun;
use dataset::Entry;
use dataset::send::{self, Base, Outgoing, Package, PackageOptions, Planned, Resume};
use dataset::stream::Writer;
use errors::Error;
use find::{base_by_guid, base_of, bookmark_by_snaps, contents, redaction_bookmark, words};
use meter::Meter;
use ondisk::{Endian, Nvlist};
use options::Asked;
use source::Source;
use std::io::Write;
use stream::Stream;

/// The row of `zfs send`.
pub static VERB: Verb = for_delegates("send", "Write a send stream to standard output", run)
    .usage(&[
        "[-DLPbcehnpsUVvw] [-i|-I snapshot] [-R [-X dataset[,dataset]...]] snapshot",
        "[-LPVcenpvw] [-i snapshot|bookmark] filesystem|volume|snapshot",
        "[-DLPVcenpv] [-i bookmark|snapshot] --redact bookmark snapshot",
        "[-PVenv] -t receive_resume_token",
    ])
    .options(&[
        value('i', "snapshot|bookmark", ArgKind::Snapshot, "Send the changes since this snapshot or bookmark."),
        value(
            'I',
            "snapshot",
            ArgKind::Snapshot,
            "Send this snapshot's successors too, up to the snapshot that is sent.",
        ),
        flag('R', "Send all descendants, snapshots, clones and properties.").long("replicate"),
        flag('s', "With -R, leave out datasets that do not have the snapshot.").long("skip-missing"),
        flag('D', "Deduplicated streams are obsolete: print a warning, and send a normal one.").long("dedup"),
        flag('p', "Send the properties of the dataset.").long("props"),
        flag('V', "For the process title of zfs(8), which Weir does not set.").long("proctitle"),
        flag('v', "Print the estimated size, and the progress every second.").long("verbose"),
        flag('n', "Print what would be sent, and send nothing.").long("dryrun"),
        flag('P', "Print exact numbers with tabs between fields.").long("parsable"),
        flag('L', "Send blocks of more than 128 KiB as they are.").long("large-block"),
        flag('e', "Send blocks that are stored in their pointers as they are.").long("embed"),
        flag('h', "Send the names of holds.").long("holds"),
        value(
            't',
            "receive_resume_token",
            ArgKind::Text,
            "Resume the stream with this token, the property receive_resume_token.",
        )
        .long("resume"),
        flag('c', "Send blocks as they are compressed on disk.").long("compressed"),
        flag('w', "Send blocks exactly as they are on disk; encrypted ones need no key.").long("raw"),
        flag('b', "Send received property values instead of those that were set here.").long("backup"),
        value('d', "bookmark", ArgKind::Text, "Leave out the blocks of this redaction bookmark.").long("redact"),
        flag('S', "Send a dataset that was received in part.")
            .long("saved")
            .refused("unsupported: sending a partially received dataset (-S) is not in this version of weir"),
        value('X', "dataset,...", ArgKind::Dataset, "With -R, leave out these datasets and their descendants.")
            .long("exclude")
            .repeated(),
        flag('U', "Send an encrypted dataset so that it can be received into a dataset with another key, or none.")
            .long("no-preserve-encryption"),
    ])
    .operands(&[ArgKind::AnyDataset])
    .examples(&[
        ("zfs send -w tank/home@monday | ssh host zfs receive backup/home", "Copy a snapshot to another machine."),
        ("zfs send -R -I @sunday tank/home@monday > file", "Write all snapshots since another one to a file."),
    ]);

/// `zfs send`.
pub fn run(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    if parsed.has('D') {
        cx.complain(
            "WARNING: deduplicated send is no longer supported.  A regular,\nnon-deduplicated stream will be generated.\n",
        );
    }
    check(cx, parsed)?;
    let asked = Asked::new(parsed);
    let mut source = Source { pools: Pools::new(cx), holds: Vec::new(), kept: Vec::new() };
    let outcome = match parsed.last('t') {
        Some(token) => resume(cx, &mut source, token, asked),
        None if parsed.has('R') || parsed.has('I') => many(cx, &mut source, parsed, &asked),
        None => one(cx, &mut source, parsed, &asked),
    };
    if outcome.is_err() && !source.is_whole() {
        cx.complain(
            "the pool is nearly full, and the space being read was reused: try again when the pool is less full",
        );
    }
    outcome
}

/// Refuses combinations of options that contradict each other.
fn check(cx: &mut Context<'_>, parsed: &Parsed) -> Result<(), Failure> {
    let has = |letters: &str| letters.chars().any(|letter| parsed.has(letter));
    if parsed.given.iter().filter(|(letter, _)| matches!(letter, 'i' | 'I')).count() > 1 {
        return Err(Failure::usage(""));
    }
    if has("X") && !has("R") {
        return Err(Failure::failed("Cannot specify dataset exclusion (-X) on a non-recursive send."));
    }
    let operands = parsed.operands.len();
    if has("t") {
        if has("iIRpbhd") {
            return Err(Failure::usage("invalid flags combined with -t"));
        }
        if operands > 0 {
            return Err(Failure::usage("too many arguments"));
        }
    } else if operands != 1 {
        return Err(Failure::usage(if operands == 0 { "missing snapshot argument" } else { "too many arguments" }));
    }
    if has("w") && has("d") {
        return Err(Failure::failed("Error: raw sends may not be redacted."));
    }
    if !has("n") && cx.client.output_is_terminal() {
        let what = "Error: Stream can not be written to a terminal.\nYou must redirect standard output.";
        return Err(Failure::failed(what));
    }
    if has("s") && !has("R") {
        return Err(Failure::usage("skip-missing flag can only be used in conjunction with replicate"));
    }
    Ok(())
}

fn cannot(name: &str, error: &Error) -> Failure {
    let why = match error {
        Error::KeyUnavailable { .. } => "dataset key must be loaded".to_owned(),
        // Use OpenZFS's words where it has some.
        Error::Invalid { what, .. } if what.ends_with("not an earlier snapshot from the same fs") => {
            "not an earlier snapshot from the same fs".to_owned()
        }
        Error::Invalid { what, .. } => what.clone(),
        error => error.to_string().trim_start_matches(&format!("{name}: ")).to_owned(),
    };
    Failure::failed(format!("warning: cannot send '{name}': {why}"))
}

/// Requires the caller's permission to send these datasets.
fn require<'n>(cx: &Context<'_>, pool: &ReadPool, names: impl IntoIterator<Item = &'n str>) -> Result<(), Failure> {
    for name in names {
        let invocation = cx.invocation(String::new());
        let permitted = invocation.permit(&pool.record, |caller, tree| caller.require(tree, name, &["send"]));
        permitted.map_err(|reason| reason.refuse(&format!("warning: cannot send '{name}'")))?;
    }
    Ok(())
}

/// The same in the last synced txg, before the pool is kept or anything is planned. What does not
/// exist is reported as if it were looked up.
fn require_first(cx: &Context<'_>, name: &str, guid: Option<u64>) -> Result<(), Failure> {
    if cx.caller.is_owner() {
        return Ok(());
    }
    let pool = name.split(['/', '@', '#']).next().unwrap_or(name);
    let record = cx.state.pool(pool).map_err(|e| Failure::failed(format!("{e:#}")))?;
    let Some(record) = record else { return Ok(()) };
    let mut missing = None;
    let permitted = cx.invocation(String::new()).permit(&record, |caller, tree| {
        // A resumed stream finds its snapshot by guid, whatever its name is now.
        let found = guid.map(|guid| contents(tree, name, guid)).transpose()?.flatten();
        match (found, tree.entry(name)) {
            (Some(to), _) => caller.require(tree, to.name(), &["send"]),
            (_, Ok(_)) => caller.require(tree, name, &["send"]),
            (_, Err(error)) => {
                missing = Some(super::datasets::cannot_open(name, &error));
                Ok(())
            }
        }
    });
    permitted.map_err(|reason| reason.refuse(&format!("warning: cannot send '{name}'")))?;
    missing.map_or(Ok(()), |message| Err(Failure::failed(message)))
}

fn package_options(parsed: &Parsed) -> PackageOptions {
    PackageOptions {
        replicate: parsed.has('R'),
        all: parsed.has('I') || (parsed.has('R') && !parsed.has('i')),
        props: parsed.has('p'),
        backup: parsed.has('b'),
        holds: parsed.has('h'),
        raw: parsed.has('w'),
        skip_missing: parsed.has('s'),
        decrypt: parsed.has('U'),
        exclude: parsed.all('X').flat_map(|list| list.split(',').map(str::to_owned)).collect(),
        from_origin: false,
    }
}

/// Sends one stream: neither `-R` nor `-I` is given.
fn one(cx: &mut Context<'_>, source: &mut Source, parsed: &Parsed, asked: &Asked) -> Outcome {
    let name = &parsed.operands[0];
    let from_name = parsed.last('i').map(|from| {
        let from = match from.contains(['@', '#']) {
            true => from.to_owned(),
            false => {
                cx.complain(
                    "Warning: incremental source didn't specify type, assuming snapshot. Use '@' or '#' prefix to avoid ambiguity.",
                );
                format!("@{from}")
            }
        };
        match from.starts_with(['@', '#']) {
            true => format!("{}{from}", name.split('@').next().unwrap_or(name)),
            false => from,
        }
    });
    require_first(cx, name, None)?;
    let Some(found) = source.entry(cx, name)? else { return Ok(1) };
    let Entry::Dataset(to) = found.entry else {
        let why = "operation not applicable to datasets of this type";
        return Err(Failure::failed(format!("cannot open '{name}': {why}")));
    };
    require(cx, &found.pool, [to.name()])?;
    if !to.is_snapshot() && source.pools.is_mounted(name) {
        let why = "target is busy; if a filesystem, it must not be mounted";
        return Err(Failure::failed(format!("warning: cannot send '{name}': {why}")));
    }
    let base = match &from_name {
        Some(from) => match source.entry(cx, from)? {
            Some(found) => Some(base_of(found.entry)),
            None => return Ok(1),
        },
        None => None,
    };
    let redact = match parsed.last('d') {
        Some(bookmark) => match redaction_bookmark(cx, source, &to, bookmark)? {
            Some(mark) => Some(mark),
            None => return Ok(1),
        },
        None => None,
    };
    let options = package_options(parsed);
    let package = match options.props || options.backup || options.holds {
        false => None,
        true => {
            let snapshot = to.snapshot_name().ok_or_else(|| {
                Failure::failed(format!("warning: cannot send '{name}': properties go with snapshots (-p, -b, -h)"))
            })?;
            let head = to.tree().head(to.dir()).map_err(|e| cannot(name, &e))?;
            Some(Package::new(&head, None, snapshot, options).map_err(|e| cannot(name, &e))?)
        }
    };
    let stream = Stream { to: &to, base: base.as_ref(), redact: redact.as_ref(), at: None, done: 0 };
    let keys = &found.pool.keys;
    if asked.verbose > 0 {
        let bytes = stream.size(keys, asked).map_err(|e| match e {
            // The walk tries what the stream would.
            e @ Error::Invalid { .. } if stream.needs_measuring() => cannot(name, &e),
            e => Failure::failed(format!("warning: cannot estimate space for '{name}': {e}")),
        })?;
        tell_estimate(cx, asked, name, from_name.as_deref(), bytes);
    }
    let outgoing = stream.outgoing(keys, asked).map_err(|e| cannot(name, &e))?;
    if asked.is_dry {
        return Ok(0);
    }
    let flow = flow::begin(cx, Direction::Send, name);
    if let Some(flow) = &flow {
        flow.total(stream.quick_size(asked));
    }
    write(cx, asked, flow, package.as_ref(), &mut std::iter::once(Ok(outgoing)))
}

/// Prints the estimate for one stream before it is sent.
fn tell_estimate(cx: &mut Context<'_>, asked: &Asked, name: &str, from: Option<&str>, bytes: u64) {
    if asked.progress || asked.parsable {
        asked.tell_stream(cx, name, from, bytes);
        asked.tell(
            cx,
            &match asked.parsable {
                true => format!("size\t{bytes}"),
                false => format!("total estimated size is {}", nice_number(bytes)),
            },
        );
    }
}

/// Sends a package, for `-R` or `-I`.
fn many(cx: &mut Context<'_>, source: &mut Source, parsed: &Parsed, asked: &Asked) -> Outcome {
    let mut options = package_options(parsed);
    let from = parsed.last('i').or(parsed.last('I'));
    if from.is_some_and(|from| from.contains('#')) {
        return Err(Failure::failed("Error: multiple snapshots cannot be sent from a bookmark."));
    }
    if parsed.has('d') {
        return Err(Failure::failed("Error: multiple snapshots cannot be sent redacted."));
    }
    let Some((name, snapshot)) = parsed.operands[0].split_once('@') else {
        return Err(Failure::failed("Error: Unsupported flag with filesystem or bookmark."));
    };
    require_first(cx, &parsed.operands[0], None)?;
    let Some(found) = source.entry(cx, name)? else { return Ok(1) };
    let Entry::Dataset(head) = &found.entry else { return Ok(1) };
    let cannot = |e: Error| cannot(name, &e);
    let mut from = from.map(str::to_owned);
    if let Some(full) = from.clone()
        && let Some((dataset, short)) = full.split_once('@')
    {
        if head.origin().map_err(cannot)?.is_some_and(|origin| origin.name() == full) {
            (from, options.from_origin) = (None, true);
        } else if !dataset.is_empty() && dataset != name {
            return Err(Failure::usage("incremental source must be in same filesystem"));
        } else if short.contains(['@', '/']) {
            return Err(Failure::usage("invalid incremental source"));
        } else {
            from = Some(short.to_owned());
        }
    }
    for short in from.as_deref().into_iter().chain([snapshot]) {
        if source.entry(cx, &format!("{name}@{short}"))?.is_none() {
            return Ok(1);
        }
    }
    let package = Package::new(head, from.as_deref(), snapshot, options).map_err(cannot)?;
    let planned = package.streams().map_err(|error| match error {
        // Of a dataset without one of the snapshots: a warning in OpenZFS, which then fails.
        Error::Invalid { what, .. } => Failure::failed(format!("WARNING: {what}")),
        error => cannot(error),
    })?;
    require(cx, &found.pool, planned.iter().map(|stream| stream.to.name()))?;
    for warning in &package.warnings {
        cx.complain(warning);
    }
    if asked.verbose > 0 {
        tell_estimates(cx, asked, &planned);
    }
    if asked.is_dry {
        return Ok(0);
    }
    let flow = flow::begin(cx, Direction::Send, &parsed.operands[0]);
    if let Some(flow) = &flow {
        flow.total(planned.iter().filter_map(|stream| estimated(stream, asked).1.ok()).sum());
    }
    let keys = &found.pool.keys;
    let mut streams = planned.iter().map(|stream| {
        let outgoing = Outgoing::new(&stream.to, stream.from.as_ref(), keys, asked.options, None);
        outgoing.map_err(|e| self::cannot(stream.to.name(), &e))
    });
    write(cx, asked, flow, Some(&package), &mut streams)
}

/// The base of a stream of a package, and the estimated size. Like OpenZFS, it ignores the base of
/// the first stream of a clone.
fn estimated<'s>(stream: &'s Planned, asked: &Asked) -> (Option<&'s Base>, errors::Result<u64>) {
    let base = stream.from.as_ref().filter(|from| match from {
        Base::Snapshot(from) => from.dir().id() == stream.to.dir().id(),
        Base::Bookmark(_) => true,
    });
    (base, send::estimate(&stream.to, base, asked.options))
}

fn tell_estimates(cx: &mut Context<'_>, asked: &Asked, planned: &[Planned]) {
    let mut sum = 0;
    for stream in planned {
        let (base, bytes) = estimated(stream, asked);
        match bytes {
            Ok(bytes) => {
                let from = match base {
                    Some(Base::Snapshot(from)) => from.snapshot_name(),
                    _ => None,
                };
                asked.tell_stream(cx, stream.to.name(), from, bytes);
                sum += bytes;
            }
            Err(e) => cx.complain(&format!("warning: cannot estimate space for '{}': {e}", stream.to.name())),
        }
    }
    asked.tell(
        cx,
        &match asked.parsable {
            true => format!("size\t{sum}"),
            false => format!("total estimated size is {}", nice_bytes(sum)),
        },
    );
}

/// `-t`: sends the rest of an interrupted stream.
fn resume(cx: &mut Context<'_>, source: &mut Source, token: &str, mut asked: Asked) -> Outcome {
    let failed = |why: &str| Failure::failed(format!("cannot resume send: {why}"));
    let state = dataset::resume::parse(token).map_err(|e| failed(e.to_string().trim_start_matches(": ")))?;
    if asked.verbose > 0 {
        asked.tell(cx, "resume token contents:");
        let mut text = Vec::new();
        print::list(&mut text, &state, 0).map_err(|e| failed(&e.to_string()))?;
        asked.tell(cx, String::from_utf8_lossy(&text).trim_end());
    }
    let number = |name: &str| state.get_u64(name).ok_or_else(|| failed("resume token is corrupt"));
    let name = state.get_str("toname").ok_or_else(|| failed("resume token is corrupt"))?.to_owned();
    let (object, offset, done, guid) = (number("object")?, number("offset")?, number("bytes")?, number("toguid")?);
    let options = &mut asked.options;
    let ok = |state: &Nvlist, name: &str| state.contains(name);
    options.large_blocks |= ok(&state, "largeblockok");
    options.embedded |= ok(&state, "embedok");
    options.compressed |= ok(&state, "compressok");
    options.raw |= ok(&state, "rawok");
    require_first(cx, &name, Some(guid))?;
    let Some(found) = source.entry(cx, name.split(['/', '@']).next().unwrap_or(&name))? else { return Ok(1) };
    let Some(to) = contents(&found.pool.datasets, &name, guid).map_err(|e| cannot(&name, &e))? else {
        return Err(failed(&match found.pool.datasets.entry(&name) {
            Ok(_) => format!("'{name}' is no longer the same snapshot used in the initial send"),
            Err(_) => format!("'{name}' used in the initial send no longer exists"),
        }));
    };
    require(cx, &found.pool, [to.name()])?;
    let from = state.get_u64("fromguid").filter(|guid| *guid != 0);
    let base = match from {
        Some(guid) => Some(
            base_by_guid(&found.pool.datasets, &name, guid, words(&state, "book_redact_snaps"))
                .map_err(|e| cannot(&name, &e))?
                .ok_or_else(|| failed(&format!("incremental source {guid:#x} no longer exists")))?,
        ),
        None => None,
    };
    let redact = match words(&state, "redact_snaps") {
        Some(guids) => Some(bookmark_by_snaps(&found.pool.datasets, &name, guids).map_err(|why| failed(&why))?),
        None => None,
    };
    let at = (object != 0 || offset != 0).then_some(Resume { object, offset });
    let stream = Stream { to: &to, base: base.as_ref(), redact: redact.as_ref(), at, done };
    let keys = &found.pool.keys;
    if asked.verbose > 0 {
        let bytes = stream.size(keys, &asked).map_err(|e| cannot(&name, &e))?;
        let from = base.as_ref().map(|base| match base {
            Base::Snapshot(d) => d.name().to_owned(),
            Base::Bookmark(b) => b.name().to_owned(),
        });
        tell_estimate(cx, &asked, to.name(), from.as_deref(), bytes);
    }
    let outgoing = stream.outgoing(keys, &asked).map_err(|e| cannot(to.name(), &e))?;
    if asked.is_dry {
        return Ok(0);
    }
    let flow = flow::begin(cx, Direction::Send, to.name());
    if let Some(flow) = &flow {
        flow.total(stream.quick_size(&asked));
    }
    write(cx, &asked, flow, None, &mut std::iter::once(Ok(outgoing)))
}

/// Writes the streams, with the records of `package` around them if there is one.
fn write(
    cx: &mut Context<'_>,
    asked: &Asked,
    flow: Option<Begun>,
    package: Option<&Package>,
    streams: &mut dyn Iterator<Item = Result<Outgoing, Failure>>,
) -> Outcome {
    let outcome = written(cx, asked, flow.as_ref(), package, streams);
    flow::end(flow, &outcome);
    outcome
}

fn written(
    cx: &mut Context<'_>,
    asked: &Asked,
    flow: Option<&Begun>,
    package: Option<&Package>,
    streams: &mut dyn Iterator<Item = Result<Outgoing, Failure>>,
) -> Outcome {
    let client = cx.client;
    let mut bytes = client.output().map_err(|e| Failure::failed(format!("warning: cannot send: {e}")))?;
    let Context { out, err, .. } = cx;
    let out: &mut dyn Write = match &mut bytes {
        Some(bytes) => &mut **bytes,
        None => &mut **out,
    };
    let meter = Meter::new(out, &mut **err, asked);
    let mut streams = streams.peekable();
    let endian = match streams.peek() {
        Some(Ok(first)) => first.endian(),
        _ => Endian::Little,
    };
    let mut writer = Writer::new(meter, endian).watched(flow::sending(flow));
    let lost = |e: Error| Failure::failed(format!("warning: cannot send: {e}"));
    if let Some(package) = package {
        package.open(&mut writer, endian).map_err(lost)?;
    }
    let mut outcome = Ok(0);
    for outgoing in streams {
        outcome = outgoing.and_then(|outgoing| {
            writer.get_mut().begin(outgoing.name());
            if let Some(flow) = flow {
                flow.doing(flow::words(outgoing.name(), outgoing.from()));
            }
            outgoing.run(&mut writer).map_err(|e| cannot(outgoing.name(), &e)).map(|()| 0)
        });
        if outcome.is_err() {
            break;
        }
    }
    if let Some(package) = package {
        // Close the package after a stream that failed, too: the streams before it may be usable.
        package.close(&mut writer).map_err(lost)?;
    }
    writer.flush().map_err(lost)?;
    outcome
}
