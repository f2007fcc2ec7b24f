//! `zpool attach`, `zpool replace`, `zpool detach`.
//!
//! Invariants:
//!   * the path of a new device is stored before it joins: after a crash in between, the import
//!     finds it if it belongs to the pool

use super::states::{is_idle_spare, operands};
use super::writing::{self, command_line, reason};
use super::{pools, scrub};
use crate::context::{Context, Failure, Outcome};
use crate::getopt::{Options, Parsed};
use crate::state::Imported;
use admin::attach::{self, Joins};
use admin::layout::{Group, Layout, Leaf, check_unused};
use admin::status::{PoolStatus, VdevClass, VdevStatus};
use admin::vdev_names as names;
use admin::verbs::zpool::create;
use std::time::Duration;

const JOIN: Options = Options { short: "fo:sw", long: &[] };
const DETACH: Options = Options { short: "", long: &[] };
/// How often to check whether the caller has disconnected.
const LOOK: Duration = Duration::from_millis(200);
/// The exit code of these verbs when the pool refuses: -1 of a C function.
const REFUSED: u8 = 255;

/// `zpool attach`.
pub fn attach(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    join(cx, args, Joins::Attach)
}

/// `zpool replace`.
pub fn replace(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    join(cx, args, Joins::Replace)
}

fn words(parsed: &Parsed, how: Joins) -> Result<(&String, &String, &String), Failure> {
    match (parsed.operands.as_slice(), how) {
        ([], _) => Err(Failure::usage("missing pool name argument")),
        ([_], _) => Err(Failure::usage("missing <device> specification")),
        ([_, _], Joins::Attach) => Err(Failure::usage("missing <new_device> specification")),
        ([name, old], Joins::Replace) => Ok((name, old, old)),
        ([name, old, new], _) => Ok((name, old, new)),
        _ => Err(Failure::usage("too many arguments")),
    }
}

fn join(cx: &mut Context<'_>, args: &[String], how: Joins) -> Outcome {
    let parsed = JOIN.parse(args).map_err(Failure::usage)?;
    let (name, old, word) = words(&parsed, how)?;
    let mut properties = Vec::new();
    for option in parsed.all('o') {
        let (property, value) = option.split_once('=').ok_or_else(|| Failure::usage("missing '=' for -o option"))?;
        if property != "ashift" {
            return Err(Failure::usage(""));
        }
        properties.push((property.to_owned(), value.to_owned()));
    }
    let ashift = create::ashift(&properties)?;
    let verb = if how == Joins::Attach { "attach" } else { "replace" };
    let sequentially = parsed.has('s');
    let record = writing::record(cx, name)?;
    let cannot = match how {
        Joins::Attach => format!("cannot attach {word} to {old}"),
        Joins::Replace => format!("cannot replace {old} with {word}"),
    };
    let status = pools::open(cx, &record)?.status().map_err(|e| Failure::failed(writing::why(&e)))?;
    let (new, spare) = new_leaf(cx, &status, word, how, parsed.has('f'))?;
    let refused = |cx: &mut Context<'_>, why: &str| {
        cx.complain(&format!("{cannot}: {why}"));
        Err(Failure::Code(REFUSED))
    };
    let found = match names::find(&status, old) {
        None => return refused(cx, "no such device in pool"),
        Some(found) if is_idle_spare(found) => return refused(cx, "device is reserved as a hot spare"),
        Some(found) if found.class == VdevClass::Cache => return refused(cx, "device is in use as a cache"),
        Some(found) => found,
    };
    let (found, widens) = (found.guid, found.kind == "raidz" && how == Joins::Attach);
    let Some(new) = new else { return refused(cx, "new device must be a single disk") };
    // A distributed spare has no path of its own.
    let is_new = !record.places.contains(&new.path) && !is_distributed(&status, spare);
    if is_new {
        writing::change_places(cx, &record, &cannot, &|known| known.push(new.path.clone()))?;
    }
    let command = command_line(&format!("zpool {verb}"), args);
    let result = writing::change_or(cx, &record, &command, |pool| {
        attach::attach(pool, found, &new, how, ashift, spare, sequentially)
    });
    let Err(error) = result else {
        // From here on the pool is found with the new device.
        let record = writing::record(cx, name)?;
        match widens {
            true => widen_now(cx, &record, parsed.has('w'))?,
            false => scrub::resilver_now(cx, &record, parsed.has('w'))?,
        }
        return Ok(0);
    };
    let now = pools::open(cx, &record).ok().and_then(|pool| pool.status().ok());
    if is_new && now.is_some_and(|now| now.all_vdevs().len() == status.all_vdevs().len()) {
        writing::change_places(cx, &record, &cannot, &|known| known.retain(|path| *path != new.path))?;
    }
    refused(cx, &error.text)
}

fn is_distributed(status: &PoolStatus, spare: Option<u64>) -> bool {
    status.spares.iter().any(|s| Some(s.guid) == spare && s.kind == "dspare")
}

/// Expands the raidz. The process that owns the pool does it in the background. If no process owns
/// the pool, this command does it, scrubs what it moved, and returns then.
fn widen_now(cx: &mut Context<'_>, record: &Imported, wait: bool) -> Result<(), Failure> {
    let cannot = format!("cannot widen a raidz of {}", record.name);
    let pool = writing::open(cx, record, &cannot)?;
    let failed = |e: &anyhow::Error| Failure::failed(format!("{cannot}: {}", reason(e)));
    let writer = pool.writer();
    let stays = pool.stays();
    let done = if stays { Ok(()) } else { writer.run_expansion().map_err(|e| failed(&e.into())) };
    while done.is_ok() && (wait || !stays) && writer.expansion_state().0 && writer.failure().is_none() {
        if cx.client.is_gone() {
            break;
        }
        writer.wait_for_expansion(LOOK);
    }
    let scrubbed = if stays { Ok(()) } else { scrub::finish(cx, &pool, &record.name).map_err(|e| failed(&e)) };
    let closed = pool.finish().map_err(|e| failed(&e));
    done.and(scrubbed).and(closed)
}

/// The device to add, and the guid of the spare that it is. `None`: the word does not name a single
/// device.
fn new_leaf(
    cx: &Context<'_>,
    status: &PoolStatus,
    word: &str,
    how: Joins,
    force: bool,
) -> Result<(Option<Leaf>, Option<u64>), Failure> {
    if how == Joins::Replace
        && let Some(spare) = status.spares.iter().find(|s| s.kind == "dspare" && s.path.as_deref() == Some(word))
    {
        return Ok((Some(Leaf { path: word.into(), is_disk: false }), Some(spare.guid)));
    }
    // A path identifies a device better than its last component.
    let layout = match Layout::parse(&[word.to_owned()]) {
        Ok(layout) => layout,
        Err(wrong) => return Err(Failure::failed(wrong)),
    };
    let [top] = layout.tops.as_slice() else { return Ok((None, None)) };
    let (Group::Single, [leaf]) = (top.group, top.leaves.as_slice()) else { return Ok((None, None)) };
    let is_it = |spare: &&VdevStatus| spare.path.as_deref() == Some(&*leaf.name());
    if how == Joins::Replace
        && let Some(spare) = status.spares.iter().find(is_it)
    {
        return Ok((Some(leaf.clone()), Some(spare.guid)));
    }
    let imported = cx.state.pools().map_err(|e| Failure::failed(format!("{e:#}")))?;
    let is_imported = |guid: u64, device: u64| {
        let is_its_own = || status.all_vdevs().iter().any(|v| v.guid == device);
        imported.iter().any(|p| p.guid == guid) && (guid != status.guid || is_its_own())
    };
    check_unused(&layout, force, &is_imported).map_err(Failure::failed)?;
    Ok((Some(leaf.clone()), None))
}

/// `zpool detach`.
pub fn detach(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = DETACH.parse(args).map_err(Failure::usage)?;
    let (name, devices) = operands(&parsed, "missing <device> specification")?;
    let device = &devices[0];
    let record = writing::record(cx, name)?;
    let status = pools::open(cx, &record)?.status().map_err(|e| Failure::failed(writing::why(&e)))?;
    let why = match names::find(&status, device) {
        None => "no such device in pool".to_owned(),
        Some(found) if is_idle_spare(found) => "device is reserved as a hot spare".to_owned(),
        Some(found) if found.class == VdevClass::Cache => "device is in use as a cache".to_owned(),
        Some(found) if !found.is_leaf() => ONLY_MIRRORS.to_owned(),
        Some(found) => {
            let command = command_line("zpool detach", args);
            match writing::change_or(cx, &record, &command, |pool| attach::detach(pool, found.guid)) {
                Ok(()) => return Ok(0),
                Err(error) => error.text,
            }
        }
    };
    cx.complain(&format!("cannot detach {device}: {why}"));
    Err(Failure::Code(REFUSED))
}

const ONLY_MIRRORS: &str = "only applicable to mirror and replacing vdevs";
