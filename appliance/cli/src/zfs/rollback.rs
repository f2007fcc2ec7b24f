//! `zfs rollback`: returns a file system or volume to the state of one of its snapshots. `zfs
//! promote`: makes a clone independent of its origin.

use super::create::record;
use super::datasets::Pools;
use crate::context::{Context, Failure, Outcome};
use crate::getopt::Options;
use crate::zpool::writing::{change, command_line, why};
use admin::verbs::zfs::rollback::{self, RollbackRequest};
use dataset::write;

const OPTIONS: Options = Options { short: "rRf", long: &[] };

/// `zfs rollback`.
pub fn rollback(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = OPTIONS.parse(args).map_err(Failure::usage)?;
    let name = match parsed.operands.as_slice() {
        [] => return Err(Failure::usage("missing dataset argument")),
        [name] => name.clone(),
        _ => return Err(Failure::usage("too many arguments")),
    };
    let request =
        RollbackRequest { snapshot: name, recursive: parsed.has('r'), clones: parsed.has('R'), force: parsed.has('f') };
    let report = rollback::run(&cx.invocation(command_line("zfs rollback", args)), &request)?;
    Ok(cx.report(report))
}

/// Why a clone cannot be promoted, in OpenZFS's words.
fn conflict(error: &dataset::Error, origin: &str) -> String {
    match error {
        dataset::Error::Refused { why: dataset::Refusal::Exists, place } => {
            let short = place.split(['@', '#']).nth(1).unwrap_or_default();
            format!("conflicting snapshot '{short}' from parent '{origin}'")
        }
        error => why(error),
    }
}

/// `zfs promote`.
pub fn promote(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = Options { short: "", long: &[] }.parse(args).map_err(Failure::usage)?;
    let name = match parsed.operands.as_slice() {
        [] => return Err(Failure::usage("missing clone filesystem argument")),
        [name] => name.clone(),
        _ => return Err(Failure::usage("too many arguments")),
    };
    let Some(found) = Pools::new(cx).entry(cx, &name)? else { return Ok(1) };
    let origin = found.entry.dataset().and_then(|d| d.origin().ok().flatten()).map(|d| d.name().to_owned());
    let root = found.entry.dataset().and_then(|d| d.encryption_root().ok().flatten()).map(|d| d.name().to_owned());
    drop(found);
    let record = record(cx, "promote", &name)?;
    let cannot = format!("cannot promote '{name}'");
    change(cx, &record, &cannot, &command_line("zfs promote", args), |pool| {
        let told = |e: dataset::Error| anyhow::anyhow!(conflict(&e, origin.as_deref().unwrap_or_default()));
        write::promote(&pool.live, &name).map_err(told)
    })?;
    // If the origin was the encryption root, the clone is the encryption root now.
    if let Some(root) = root.filter(|root| origin.as_ref().is_some_and(|o| o.split('@').next() == Some(root))) {
        super::keys::hand_on(&cx.state, &record, &root, &name);
    }
    Ok(0)
}
