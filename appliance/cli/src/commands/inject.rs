//! `weir inject`: injects faults into a pool in use, to test the reaction. ZFS name: zinject.
//!
//! Option letters and error words are those of zinject where it has them. Rules are kept in the
//! process that has the pool imported, and end with it.

use super::inject_parse::{self as parse, Mark, Wanted};
use crate::context::{Context, Failure, Outcome};
use crate::exit_code::USAGE;
use admin::OwnedPool;
use admin::state::State;
use anyhow::Result;
use block::inject::{DataRule, Handler, What};
use clap::{Arg, ArgAction, ArgMatches};
use daemon::Owner;
use host::device::faults::errno::ENXIO;
use host::device::faults::{Area, Outcome as Effect, Rule};
use ondisk::label::{END_BYTES, START_BYTES, usable_bytes};
use pool::status::VdevStatus;
use pool::writer::Lasts;
use std::io::BufWriter;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Options of `weir inject`.
pub fn command() -> clap::Command {
    let option = |letter: char, value: &'static str, help: &'static str| {
        Arg::new(letter.to_string()).short(letter).value_name(value).help(help)
    };
    let flag = |letter: char, help: &'static str| {
        Arg::new(letter.to_string()).short(letter).action(ArgAction::SetTrue).help(help)
    };
    let missing =
        |letter: char| Arg::new(letter.to_string()).short(letter).num_args(0..=1).hide(true).action(ArgAction::Append);
    clap::Command::new("inject")
        .about("Inject device failures, wrong data and delays, or make blocks unreadable, in a pool in use")
        .long_about(
            "Adds rules that inject errors into a pool that `weir serve` or `weir mount` has open, to rehearse failures and to \
             test. Without arguments it lists the rules. A rule lasts until it is removed or the process ends. \
             Data that a rule makes a device lose is really lost: do not use a pool whose contents matter.\n\n\
             \x20 weir inject -d DEVICE [-e ERROR] [-T OPERATION,...] [-f PERCENT] [-L PART] POOL\n\
             \x20     Operations of the device fail; except with nxio and noop, those in its labels do not. ERROR: \
             nxio (the default: all operations and probes fail), io, \
             io-prefail (fails without being tried), corrupt (reads have one wrong bit), noop (reports success but does nothing), torn (writes \
             half the data and reports success). OPERATION: read, write, flush, trim, probe, all.\n\
             \x20 weir inject -d DEVICE -D MILLISECONDS:LANES [-T OPERATION,...] POOL\n\
             \x20     Each operation takes at least MILLISECONDS, and at most LANES run at a time.\n\
             \x20 weir inject -t TYPE [-C COPIES] [-e ERROR] [-l LEVEL] [-r START[,END]] [-f PERCENT] OBJECT\n\
             \x20     Reads of blocks fail; with COPIES, such as 0,1, only those of these copies. TYPE: data or dnode \
             of the file OBJECT, POOL/DATASET:/PATH (of a volume, POOL/VOLUME); or \
             metadata of the pool OBJECT: mos, mosdir, metaslab, config, bpobj, spacemap, errlog. ERROR: io (the default), checksum, \
             decompress, decrypt.\n\
             \x20 weir inject -b OBJSET:OBJECT:LEVEL:BLOCK[-BLOCK] [-e ERROR] [-f PERCENT] POOL\n\
             \x20     The same for blocks by their numbers, in hexadecimal.\n\
             \x20 weir inject -c ID|all\n\
             \x20     Removes a rule, or all.\n\
             \x20 weir inject -d DEVICE -A degrade|fault POOL\n\
             \x20     Sets the state of the device, as a diagnosis does. zpool clear ends it.\n\
             \x20 weir inject -a [POOL]\n\
             \x20     Empties the cache of the pool, or of all, and the page cache of what is mounted of it, so that blocks are \
             read again; with a rule, after adding it.",
        )
        .arg(Arg::new("target").value_name("TARGET").num_args(0..).help("A pool, or a file of one as POOL/DATASET:/PATH"))
        .arg(option('c', "ID", "Remove the rule with this number, or all"))
        .arg(option('d', "DEVICE", "A device of the pool: its path, name or guid"))
        .arg(option('e', "ERROR", "The error to return"))
        .arg(option('T', "OPERATION", "Operations that fail, separated by commas"))
        .arg(option('f', "PERCENT", "How often, from 0.0001 to 100 [default: 100]"))
        .arg(option('L', "PART", "Only in this part of the labels: nvlist, uber, pad1 or pad2"))
        .arg(option('D', "LATENCY:LANES", "Delay in milliseconds, and number of concurrent operations"))
        .arg(option('t', "TYPE", "Type of block to fail"))
        .arg(option('l', "LEVEL", "At this level of the object [default: 0]"))
        .arg(option('r', "RANGE", "Only these bytes of the object: START[,END], with suffixes such as 64K"))
        .arg(option('b', "BLOCKS", "Blocks by their numbers: OBJSET:OBJECT:LEVEL:BLOCK[-BLOCK]"))
        .arg(option('C', "COPIES", "Only these copies of the blocks: numbers from 0, separated by commas"))
        .arg(option('A', "STATE", "Set the state of the device: degrade or fault"))
        .arg(flag('a', "Empty the cache"))
        .arg(flag('q', "Print only the number of the new rule"))
        .args(parse::MISSING.iter().map(|letter| missing(*letter)))
}

pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let wanted = match parse::wanted(matches) {
        Ok(wanted) => wanted,
        Err(why) => {
            eprintln!("weir inject: {why}");
            return Ok(ExitCode::from(USAGE));
        }
    };
    let args = parse::line(matches);
    let state = State::of_process()?;
    if let Some(code) = crate::forward::to_daemon(&state, "weir", &args)? {
        return Ok(ExitCode::from(code));
    }
    // Without a daemon, each mounted pool has a process of its own.
    let mut codes = Vec::new();
    for record in state.pools()? {
        let is_meant = wanted.pool().is_none_or(|pool| pool == record.name || pool == record.guid.to_string());
        if is_meant && let Some(code) = crate::forward::to_pool(&state, &record, "weir", &args)? {
            codes.push(code);
        }
    }
    if let (true, Some(pool)) = (codes.is_empty(), wanted.pool()) {
        anyhow::bail!("'{pool}' is not open in 'weir serve' or 'weir mount', so no faults can be injected");
    }
    if codes.is_empty() {
        let (mut out, mut err) = (BufWriter::new(std::io::stdout().lock()), std::io::stderr().lock());
        let mut cx = Context::here(&mut out, &mut err, state);
        let listed = done(&mut cx, &[], &wanted);
        return Ok(ExitCode::from(cx.conclude(listed)));
    }
    // One of several processes that knew the rule is enough.
    let code = if matches!(wanted, Wanted::Clear(_)) { codes.iter().min() } else { codes.iter().max() };
    Ok(ExitCode::from(code.copied().unwrap_or(0)))
}

/// The same, in the process that has the pools imported. The caller has checked the permission.
pub fn in_owner(cx: &mut Context<'_>, owner: &Owner, args: &[String]) -> u8 {
    let injected = inject(cx, owner, args);
    cx.conclude(injected)
}

fn inject(cx: &mut Context<'_>, owner: &Owner, args: &[String]) -> Outcome {
    let wanted = command().try_get_matches_from(args).map_err(|e| e.to_string()).and_then(|m| parse::wanted(&m));
    let wanted = wanted.map_err(|why| Failure::failed(format!("weir inject: {why}")))?;
    // A pool in the state directory that is not open cannot get faults.
    if let Some(pool) = wanted.pool() {
        owner.house.pool(pool).map_err(|e| Failure::failed(format!("weir inject: {e:#}")))?;
    }
    let outcome = done(cx, &owner.house.list(), &wanted)?;
    if matches!(wanted, Wanted::Flush { .. } | Wanted::Add { flush: true, .. }) {
        let meant = |pool: &OwnedPool| wanted.pool().is_none_or(|name| is_named(pool, name));
        for pool in owner.house.list().iter().filter(|pool| meant(pool)) {
            owner.mounts.drop_pages(pool.guid());
        }
    }
    Ok(outcome)
}

fn is_named(pool: &OwnedPool, name: &str) -> bool {
    pool.name() == name || pool.guid().to_string() == name
}

fn done(cx: &mut Context<'_>, pools: &[Arc<OwnedPool>], wanted: &Wanted) -> Outcome {
    let failed = |e: anyhow::Error| Failure::failed(format!("weir inject: {e:#}"));
    match wanted {
        Wanted::List => list(cx, pools).map_err(failed)?,
        Wanted::Clear(None) => {
            for pool in pools {
                let pool = pool.pool().map_err(failed)?;
                let injection = pool.store().injection();
                injection.list().iter().for_each(|handler| {
                    injection.remove(handler.id);
                });
            }
            cx.print("removed all rules\n");
        }
        Wanted::Clear(Some(id)) => {
            let mut found = false;
            for pool in pools {
                found |= pool.pool().map_err(failed)?.store().injection().remove(*id);
            }
            if !found {
                return Err(Failure::failed(format!("weir inject: no such rule: {id}")));
            }
            cx.print(&format!("removed rule {id}\n"));
        }
        Wanted::Flush { pool: None } => pools.iter().for_each(|pool| pool.store().cache().clear()),
        Wanted::Flush { pool: Some(pool) } => of(pools, pool).map_err(failed)?.store().cache().clear(),
        Wanted::Mark { pool, device, mark } => {
            let owned = of(pools, pool).map_err(failed)?;
            set_mark(owned, device, *mark).map_err(failed)?;
        }
        Wanted::Add { pool, what, flush, quiet } => {
            let owned = of(pools, pool).map_err(failed)?;
            let what = resolve(owned, what).map_err(failed)?;
            let store = owned.pool().map_err(failed)?.store().clone();
            let description = describe(&what);
            let id = store.injection().add(what);
            tracing::warn!(pool = owned.name(), id, what = description, "faults are injected");
            if *flush {
                store.cache().clear();
            }
            match quiet {
                true => cx.print(&format!("{id}\n")),
                false => cx.print(&format!("Added rule {id} to '{}': {description}\n", owned.name())),
            }
        }
    }
    Ok(0)
}

fn of<'p>(pools: &'p [Arc<OwnedPool>], name: &str) -> Result<&'p OwnedPool> {
    let found = pools.iter().find(|pool| is_named(pool, name));
    found.map(|pool| &**pool).ok_or_else(|| anyhow::anyhow!("no such pool '{name}'"))
}

/// Sets the state of a device until it is cleared, as a diagnosis does.
fn set_mark(owned: &OwnedPool, device: &str, mark: Mark) -> Result<()> {
    let found = leaf(owned, device)?;
    let pool = owned.writable().ok_or_else(|| anyhow::anyhow!("'{}' is open read-only", owned.name()))?;
    match mark {
        Mark::Degraded => pool.writer().degrade(found.guid)?,
        Mark::Faulted => pool.writer().fault(found.guid, Lasts::UntilImport)?,
    }
    Ok(())
}

fn leaf(owned: &OwnedPool, name: &str) -> Result<VdevStatus> {
    let status = owned.pool()?.status()?;
    let found = admin::vdev_names::find(&status, name).filter(|v| v.is_leaf()).cloned();
    found.ok_or_else(|| anyhow::anyhow!("'{name}' is not a device of '{}'", owned.name()))
}

/// Where a rule without a part of the labels applies: everywhere but in the labels, which zinject
/// spares except when the device is opened.
fn outside_labels(size_bytes: u64) -> Area {
    Area { start: START_BYTES, end: usable_bytes(size_bytes).saturating_sub(END_BYTES).max(START_BYTES) }
}

/// Resolves names to on-disk identifiers: guids, object numbers, block numbers.
fn resolve(owned: &OwnedPool, what: &parse::What) -> Result<What> {
    match what {
        parse::What::Device { name, rule, region } => {
            let found = leaf(owned, name)?;
            let spares_labels = match rule.outcome {
                Effect::Failed(errno) | Effect::Prevented(errno) => errno != ENXIO,
                Effect::Flipped => true,
                _ => false,
            };
            let areas = match region {
                Some(region) => region.areas(found.phys_bytes),
                None if spares_labels && found.phys_bytes > 0 => vec![outside_labels(found.phys_bytes)],
                None => Vec::new(),
            };
            let with_placeless = region.is_none();
            Ok(What::Device(Rule { device: found.guid, areas, with_placeless, ..rule.clone() }))
        }
        parse::What::Blocks(rule) => Ok(What::Data(rule.clone())),
        parse::What::Object { dataset, path, dnode, level, bytes, copies, error, per_million } => {
            if let (Some(pool), None) = (owned.writable(), owned.suspension()) {
                // A file that was just created has its number, but its shape is what is on disk.
                pool.writer().sync()?;
            }
            let found = owned.datasets()?.dataset(dataset)?;
            let object = match path {
                None => 1,
                Some(path) => {
                    let files = owned.provider(dataset)?.root()?;
                    crate::tree::resolve(files.as_ref(), path, true)?.ino
                }
            };
            let set = found.objset(owned.keys())?;
            let (object, of, bytes) = match dnode {
                // Dnodes of 512 bytes are contiguous in object 0.
                true => (0, set.meta().dnode().clone(), Some(object * DNODE_BYTES..=object * DNODE_BYTES)),
                false => (object, set.dnode(object)?, bytes.clone()),
            };
            let blocks = parse::blocks(&of, *level, bytes)?;
            Ok(What::Data(DataRule {
                objset: found.id(),
                object: Some(object),
                kind: None,
                level: *level,
                blocks,
                copies: *copies,
                error: *error,
                per_million: *per_million,
            }))
        }
    }
}

/// `DNODE_MIN_SIZE`, in bytes.
const DNODE_BYTES: u64 = 512;

fn percent(per_million: u32) -> String {
    format!("{:.4}%", f64::from(per_million) / 10_000.0)
}

fn describe(what: &What) -> String {
    match what {
        What::Device(rule) => {
            let how = match rule.outcome {
                Effect::Slow { latency, lanes } => format!("takes {} ms, {lanes} at a time", latency.as_millis()),
                outcome => format!("{} of {}", parse::error_name(outcome), parse::operations_name(&rule.operations)),
            };
            format!("device {}: {how}, {}", rule.device, percent(rule.per_million))
        }
        What::Data(rule) => {
            let object = rule.object.map_or_else(|| "all objects".to_owned(), |object| format!("object {object}"));
            let kind = rule.kind.map(|kind| format!(" of type {}", kind.name())).unwrap_or_default();
            let blocks = parse::range_name(&rule.blocks);
            let (objset, level, error) = (rule.objset, rule.level, parse::data_error_name(rule.error));
            let copies = match rule.copies {
                0 => String::new(),
                copies => format!(", copies {}", parse::copies_name(copies)),
            };
            format!(
                "object set {objset}, {object}{kind}, level {level}, {blocks}{copies}: {error}, {}",
                percent(rule.per_million)
            )
        }
    }
}

fn list(cx: &mut Context<'_>, pools: &[Arc<OwnedPool>]) -> Result<()> {
    let mut rules: Vec<(String, Handler)> = Vec::new();
    for owned in pools {
        rules.extend(owned.pool()?.store().injection().list().into_iter().map(|handler| (owned.name(), handler)));
    }
    if rules.is_empty() {
        cx.print("No rules are active.\n");
        return Ok(());
    }
    let (devices, data): (Vec<_>, Vec<_>) = rules.iter().partition(|(_, h)| matches!(h.what, What::Device(_)));
    if !devices.is_empty() {
        cx.print(&format!(
            "{:>3}  {:15}  {:20}  {:10}  {:16}  {:>9}  {:>8}  {:>8}\n",
            "ID", "POOL", "GUID", "TYPE", "ERROR", "FREQ", "MATCH", "INJECT"
        ));
    }
    for (pool, handler) in devices {
        let What::Device(rule) = &handler.what else { continue };
        let error = match rule.outcome {
            Effect::Slow { latency, lanes } => format!("{}ms:{lanes}", latency.as_millis()),
            outcome => parse::error_name(outcome).to_owned(),
        };
        let (matched, injected) = counts(handler);
        cx.print(&format!(
            "{:>3}  {pool:15}  {:20}  {:10}  {error:16}  {:>9}  {matched:>8}  {injected:>8}\n",
            handler.id,
            rule.device,
            parse::operations_name(&rule.operations),
            percent(rule.per_million)
        ));
    }
    if !data.is_empty() {
        cx.print(&format!(
            "{:>3}  {:15}  {:>6}  {:>6}  {:16}  {:>3}  {:5}  {:16}  {:10}  {:>9}  {:>8}  {:>8}\n",
            "ID", "POOL", "OBJSET", "OBJECT", "TYPE", "LVL", "DVAS", "RANGE", "ERROR", "FREQ", "MATCH", "INJECT"
        ));
    }
    for (pool, handler) in data {
        let What::Data(rule) = &handler.what else { continue };
        let (matched, injected) = counts(handler);
        cx.print(&format!(
            "{:>3}  {pool:15}  {:>6}  {:>6}  {:16}  {:>3}  {:5}  {:16}  {:10}  {:>9}  {matched:>8}  {injected:>8}\n",
            handler.id,
            rule.objset,
            rule.object.map_or_else(|| "-".to_owned(), |object| object.to_string()),
            rule.kind.map_or("-", |kind| kind.name()),
            rule.level,
            parse::copies_name(rule.copies),
            parse::range_name(&rule.blocks),
            parse::data_error_name(rule.error),
            percent(rule.per_million)
        ));
    }
    Ok(())
}

fn counts(handler: &Handler) -> (u64, u64) {
    (handler.struck.matched.load(Ordering::Relaxed), handler.struck.injected.load(Ordering::Relaxed))
}
