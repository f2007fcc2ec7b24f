//! `zfs create`, `zfs clone`, `zfs rename`.

use crate::context::{Context, Failure, Outcome};
use crate::getopt::{Options, Parsed};
use crate::state::Imported;
use crate::zpool::writing::{self, change, command_line, why};
use admin::verbs::pool_of;
use admin::write::WritablePool;
use anyhow::{Result, anyhow, bail};
use dataset::DatasetKind;
use dataset::property::{full_name, parse_size};
use dataset::write::{self, NewDataset};

const CREATE: Options = Options { short: "pV:b:snuvPo:", long: &[] };
const CLONE: Options = Options { short: "o:pu", long: &[] };
const RENAME: Options = Options { short: "pruf", long: &[] };
/// Default `volblocksize`.
const VOLUME_BLOCK: &str = "16384";

/// The record of a dataset's pool. `verb` is the verb in the error message.
pub fn record(cx: &Context<'_>, verb: &str, name: &str) -> Result<Imported, Failure> {
    let pool = pool_of(name);
    let found = cx.state.pool(pool).map_err(|e| Failure::failed(format!("{e:#}")))?;
    found.ok_or_else(|| Failure::failed(format!("cannot {verb} '{name}': no such pool '{pool}'")))
}

/// The properties of `-o property=value ...`.
pub fn properties(parsed: &Parsed) -> Result<Vec<(String, String)>, Failure> {
    let mut properties: Vec<(String, String)> = Vec::new();
    for option in parsed.all('o') {
        let Some((property, value)) = option.split_once('=') else {
            return Err(Failure::failed("missing '=' for property=value argument"));
        };
        if properties.iter().any(|(n, _)| n == property) {
            return Err(Failure::failed(format!("property '{property}' specified multiple times")));
        }
        properties.push((property.to_owned(), value.to_owned()));
    }
    Ok(properties)
}

/// `zfs create`.
pub fn create(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = CREATE.parse(args).map_err(Failure::usage)?;
    let is_volume = parsed.has('V');
    if (parsed.has('s') || parsed.has('b')) && !is_volume {
        return Err(Failure::usage("'-s' and '-b' can only be used when creating a volume"));
    }
    if parsed.has('u') && is_volume {
        return Err(Failure::usage("'-u' can only be used when creating a filesystem"));
    }
    let name = match parsed.operands.as_slice() {
        [] => {
            return Err(Failure::usage(format!(
                "missing {} argument",
                if is_volume { "volume" } else { "filesystem" }
            )));
        }
        [name] => name.clone(),
        _ => return Err(Failure::usage("too many arguments")),
    };
    let cannot = format!("cannot create '{name}'");
    let failed = |why: &str| Failure::failed(format!("{cannot}: {why}"));
    let mut properties = properties(&parsed)?;
    if let Some(delimiter) = name.find(['@', '#']).map(|at| &name[at..=at]) {
        let what = if delimiter == "@" { "snapshot" } else { "bookmark" };
        return Err(failed(&format!("{what} delimiter '{delimiter}' is not expected here")));
    }
    let record = record(cx, "create", &name)?;
    if !name.contains('/') {
        return Err(failed("dataset already exists"));
    }
    let opened = crate::zpool::pools::open(cx, &record)?;
    let is_enabled = |guid: &str| opened.features().count(guid).is_some();
    if let Some(size) = parsed.last('V') {
        volume(&opened, &mut properties, size, parsed.last('b'), parsed.has('s'))
            .map_err(|e| failed(&e.to_string()))?;
    }
    write::check_new(&name, is_volume, &properties, &is_enabled).map_err(|e| failed(&why(&e)))?;
    let (verbose, dry_run, parsable) = (parsed.has('v') || parsed.has('P'), parsed.has('n'), parsed.has('P'));
    if verbose {
        let mut out = match (parsable, dry_run) {
            (true, _) => format!("create\t{name}\n"),
            (_, true) => format!("would create {name}\n"),
            _ => format!("create {name}\n"),
        };
        for (property, value) in &properties {
            out +=
                &if parsable { format!("property\t{property}\t{value}\n") } else { format!("\t{property}={value}\n") };
        }
        cx.print(&out);
    }
    if dry_run {
        return Ok(0);
    }
    let key = admin::new_key::ask(&properties, &name, None, &|format| writing::ask(cx.client, format))
        .map_err(|e| failed(&format!("{e:#}")))?;
    let new = NewDataset { name: name.clone(), is_volume, properties, parents: parsed.has('p'), key: key.clone() };
    change(cx, &record, &cannot, &command_line("zfs create", args), |pool| {
        Ok(write::create(&pool.live, &new, admin::write::maker())?)
    })?;
    if let Some(key) = key {
        super::keys::keep_new(&cx.state, &record, &name, &key).map_err(|e| failed(&format!("{e:#}")))?;
    }
    if is_volume || parsed.has('u') {
        return Ok(0);
    }
    Ok(mount_new(cx, &record, &name))
}

/// Mounts a file system that was just created, after those above it that are not mounted. Returns
/// the exit code.
pub fn mount_new(cx: &mut Context<'_>, record: &Imported, name: &str) -> u8 {
    let Some(owner) = crate::mounts::owner(cx, record.guid) else { return 0 };
    let report = crate::mounts::of(&owner, record).mount_new(name);
    cx.report(report)
}

/// Adds the properties of a volume: its size in whole blocks, and the reservation unless it is
/// sparse.
fn volume(
    pool: &pool::Pool,
    properties: &mut Vec<(String, String)>,
    size: &str,
    block: Option<&str>,
    is_sparse: bool,
) -> Result<()> {
    let number =
        |text: &str| parse_size(text).ok_or_else(|| anyhow!("bad volume size '{text}': invalid numeric value"));
    if let Some(block) = block {
        properties.push(("volblocksize".into(), number(block)?.to_string()));
    }
    let asked = properties.clone();
    let given = |name: &str| asked.iter().find(|(n, _)| full_name(n) == name).map(|(_, v)| v.clone());
    let block = number(&given("volblocksize").unwrap_or_else(|| VOLUME_BLOCK.to_owned()))?.max(1);
    let size = number(size)?.div_ceil(block).saturating_mul(block);
    properties.push(("volsize".into(), size.to_string()));
    if !is_sparse && given("refreservation").is_none() && block.is_power_of_two() {
        let copies = given("copies").and_then(|c| c.parse().ok()).unwrap_or(1);
        let reserved = write::volume_reservation(pool, size, block, copies);
        properties.push(("refreservation".into(), reserved.to_string()));
    }
    Ok(())
}

/// `zfs clone`.
pub fn clone(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = CLONE.parse(args).map_err(Failure::usage)?;
    let properties = properties(&parsed)?;
    let (origin, name) = match parsed.operands.as_slice() {
        [] => return Err(Failure::usage("missing source dataset argument")),
        [_] => return Err(Failure::usage("missing target dataset argument")),
        [origin, name] => (origin.clone(), name.clone()),
        _ => return Err(Failure::usage("too many arguments")),
    };
    let mut pools = super::datasets::Pools::new(cx);
    let Some(found) = pools.entry(cx, &origin)? else { return Ok(1) };
    if !found.entry.dataset().is_some_and(|d| d.is_snapshot()) {
        return Err(Failure::failed(format!(
            "cannot open '{origin}': operation not applicable to datasets of this type"
        )));
    }
    let is_volume = found.entry.dataset().is_some_and(|d| {
        d.tree().head(d.dir()).and_then(|head| head.kind()).is_ok_and(|kind| kind == DatasetKind::Volume)
    });
    let is_there = found.pool.datasets.entry(&name).is_ok();
    let cannot = format!("cannot create '{name}'");
    if pool_of(&origin) != pool_of(&name) {
        return Err(Failure::failed(format!("{cannot}: source and target pools differ")));
    }
    drop((found, pools));
    if parsed.has('p') && is_there {
        return Ok(0);
    }
    let record = record(cx, "create", &name)?;
    change(cx, &record, &cannot, &command_line("zfs clone", args), |pool| {
        if parsed.has('p') {
            ancestors(pool, &name)?;
        }
        Ok(write::clone(&pool.live, &origin, &name, &properties)?)
    })?;
    if is_volume || parsed.has('u') { Ok(0) } else { Ok(mount_new(cx, &record, &name)) }
}

/// `zfs rename`.
pub fn rename(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = RENAME.parse(args).map_err(Failure::usage)?;
    let (from, to) = match parsed.operands.as_slice() {
        [] => return Err(Failure::usage("missing source dataset argument")),
        [_] => return Err(Failure::usage("missing target dataset argument")),
        [from, to] => (from.clone(), to.clone()),
        _ => return Err(Failure::usage("too many arguments")),
    };
    if parsed.has('r') && parsed.has('p') {
        return Err(Failure::usage("-p and -r options are mutually exclusive"));
    }
    if parsed.has('u') && parsed.has('p') {
        return Err(Failure::usage("-u and -p options are mutually exclusive"));
    }
    if parsed.has('r') && !from.contains('@') {
        return Err(Failure::usage("source dataset for recursive rename must be a snapshot"));
    }
    if super::datasets::Pools::new(cx).entry(cx, &from)?.is_none() {
        return Ok(1);
    }
    if from.contains('#') {
        return Err(Failure::failed(format!(
            "cannot rename '{from}': operation not applicable to datasets of this type"
        )));
    }
    if from.contains('@') {
        return super::snapshot::rename(cx, args, &from, &to, parsed.has('r'));
    }
    if pool_of(&from) != pool_of(&to) {
        return Err(Failure::failed(format!("cannot rename to '{to}': datasets must be within same pool")));
    }
    let record = record(cx, "rename", &from)?;
    let owner = crate::mounts::owner(cx, record.guid);
    let mut unmounted = match &owner {
        Some(owner) => {
            crate::mounts::unmount_placed(owner, &record, &from, parsed.has('f')).map_err(Failure::failed)?
        }
        None => Vec::new(),
    };
    let result = change(cx, &record, "", &command_line("zfs rename", args), |pool| {
        if parsed.has('p') {
            ancestors(pool, &to)?;
        }
        Ok(write::rename(&pool.live, &from, &to)?)
    });
    if result.is_ok() {
        super::keys::rename(&cx.state, &record, &from, &to);
        unmounted.iter_mut().for_each(|name| *name = format!("{to}{}", &name[from.len()..]));
        if let Some(owner) = &owner {
            owner.mounts.renamed(record.guid, &from, &to);
        }
    }
    let code = match owner {
        Some(owner) => crate::mounts::mount_again(cx, &owner, &record, &unmounted),
        None => 0,
    };
    match result {
        Ok(()) => Ok(code),
        Err(Failure::Failed(text)) => {
            let text = text.trim_start_matches(": ");
            let prefix = match text {
                "parent does not exist" => format!("cannot create '{to}'"),
                "dataset already exists" => format!("cannot rename '{from}'"),
                _ => format!("cannot rename '{from}'"),
            };
            Err(Failure::failed(format!("{prefix}: {text}")))
        }
        Err(other) => Err(other),
    }
}

fn ancestors(pool: &WritablePool, name: &str) -> Result<()> {
    let Some((above, _)) = name.rsplit_once('/') else { bail!("invalid dataset name") };
    if above.contains('/') {
        let new = NewDataset { name: above.to_owned(), parents: true, ..NewDataset::default() };
        write::create(&pool.live, &new, admin::write::maker())?;
    }
    Ok(())
}
