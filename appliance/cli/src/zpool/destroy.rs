//! `zpool destroy`, `zpool sync`, `zpool reguid`, `zpool labelclear`: verbs that take a pool or a device, and little else.

use super::writing::{self, change, command_line};
use crate::context::{Context, Failure, Outcome};
use crate::getopt::Options;
use crate::state::Imported;
use admin::import::{LabelState, load_guid};
use admin::verbs::zpool as verb;
use admin::verbs::zpool::destroy::DestroyRequest;
use admin::verbs::zpool::sync::SyncRequest;
use std::path::{Path, PathBuf};

const DESTROY: Options = Options { short: "f", long: &[] };
const SYNC: Options = Options { short: "f", long: &[] };
const REGUID: Options = Options { short: "g:", long: &[] };
const LABELCLEAR: Options = Options { short: "f", long: &[] };

/// `zpool destroy`.
pub fn destroy(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = DESTROY.parse(args).map_err(Failure::usage)?;
    let pool = match parsed.operands.as_slice() {
        [] => return Err(Failure::usage("missing pool argument")),
        [pool] => pool.clone(),
        _ => return Err(Failure::usage("too many arguments")),
    };
    let request = DestroyRequest { pool, force: parsed.has('f') };
    verb::destroy::run(&cx.invocation(command_line("zpool destroy", args)), &request)?;
    Ok(0)
}

/// `zpool sync`: what commands changed is on disk when they end; a mounted pool is asked by syncing its files.
pub fn sync(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = SYNC.parse(args).map_err(Failure::usage)?;
    let request = SyncRequest { pools: parsed.operands };
    verb::sync::run(&cx.invocation(command_line("zpool sync", args)), &request)?;
    Ok(0)
}

/// `zpool reguid`.
pub fn reguid(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = REGUID.parse(args).map_err(Failure::usage)?;
    let name = match parsed.operands.as_slice() {
        [] => return Err(Failure::usage("missing pool name")),
        [name] => name,
        _ => return Err(Failure::usage("too many arguments")),
    };
    let guid = match parsed.last('g') {
        None => load_guid(),
        Some(text) => match text.parse::<u64>() {
            Ok(guid) if guid != 0 && guid != u64::MAX => guid,
            _ => return Err(Failure::usage(format!("invalid GUID: {text}"))),
        },
    };
    let record = writing::record(cx, name)?;
    let cannot = format!("cannot reguid '{name}'");
    change(cx, &record, &cannot, &command_line("zpool reguid", args), |pool| {
        let before = pool.writer().pool()?.guid();
        pool.writer().set_guid(guid)?;
        Ok(pool.writer().task(move |cx| cx.history("guid change", None, &format!("old={before} new={guid}")))?)
    })?;
    let rename = |pools: &mut Vec<Imported>| {
        pools.iter_mut().filter(|p| p.name == *name && p.guid == record.guid).for_each(|p| p.guid = guid);
    };
    cx.state.change(rename).map_err(|e| Failure::failed(format!("{e:#}")))?;
    if let Some(owner) = &cx.owner {
        owner.house.reimported(record.guid, Imported { guid, ..record.clone() });
    }
    Ok(0)
}

/// `zpool labelclear`.
pub fn labelclear(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = LABELCLEAR.parse(args).map_err(Failure::usage)?;
    let name = match parsed.operands.as_slice() {
        [] => return Err(Failure::usage("missing vdev name")),
        [name] => name,
        _ => return Err(Failure::usage("too many arguments")),
    };
    let path = if name.starts_with('/') { PathBuf::from(name) } else { Path::new("/dev").join(name) };
    if let Err(error) = std::fs::OpenOptions::new().read(true).write(true).open(&path) {
        return Err(Failure::failed(match (name.starts_with('/'), error.kind()) {
            (false, std::io::ErrorKind::NotFound) => {
                format!("failed to find device {name}, try specifying absolute path instead")
            }
            _ => format!("failed to open {}: {}", path.display(), writing::os_text(&error)),
        }));
    }
    let Some(found) = pool::devices::labelled(&path) else {
        return Err(Failure::failed(format!("failed to read label from {}", path.display())));
    };
    let force = parsed.has('f');
    let pool = found.config.get_str("name").unwrap_or_default();
    let imported = cx.state.pools().map_err(|e| Failure::failed(format!("{e:#}")))?;
    let is_imported = imported.iter().any(|p| Some(p.guid) == found.config.get_u64("pool_guid"));
    let state = LabelState::from_number(found.config.get_u64("state").unwrap_or(u64::MAX));
    let kind = match state {
        LabelState::Active | LabelState::Exported if is_imported => {
            return Err(Failure::failed(format!("{} is a member (ACTIVE) of pool \"{pool}\"", path.display())));
        }
        LabelState::Active => Some("potentially active"),
        LabelState::Exported => Some("exported"),
        _ => None,
    };
    if let (Some(kind), false) = (kind, force) {
        return Err(Failure::failed(format!(
            "use '-f' to override the following error:\n{} is a member of {kind} pool \"{pool}\"",
            path.display()
        )));
    }
    match pool::devices::clear(&path, force) {
        Ok(_) => Ok(0),
        Err(error) => {
            Err(Failure::failed(format!("failed to clear label for {}: {}", path.display(), writing::why(&error))))
        }
    }
}
