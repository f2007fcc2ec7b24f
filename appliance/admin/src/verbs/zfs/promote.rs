//! `zfs promote`: makes a clone independent of its origin.

use crate::kept_keys;
use crate::verbs::line::line;
use crate::verbs::{Invocation, Reason, Refusal};
use dataset::write;
use errors::{Error, Refusal as Denied};

/// The request as a command line, for histories and logs.
pub fn command_line(name: &str) -> String {
    line("zfs promote", &[], &[], [name])
}

/// Promotes the clone `name`.
pub fn run(invocation: &Invocation<'_>, name: &str) -> Result<(), Refusal> {
    let found = invocation.entry(name)?;
    let dataset = found.entry.dataset();
    let origin = dataset.and_then(|d| d.origin().ok().flatten()).map(|d| d.name().to_owned());
    let root = dataset.and_then(|d| d.encryption_root().ok().flatten()).map(|d| d.name().to_owned());
    drop(found);
    let record = invocation.record("promote", name)?;
    let permitted = invocation.permit(&record, |caller, tree| {
        caller.require(tree, name, &["promote", "mount"])?;
        origin.as_ref().map_or(Ok(()), |origin| caller.require(tree, origin, &["promote"]))
    });
    permitted.map_err(|reason| reason.refuse(&format!("cannot promote '{name}'")))?;
    let promoted = invocation.change(&record, |pool| {
        write::promote_for(&pool.live, invocation.caller.other(), name)
            .map_err(|e| reason(&e, origin.as_deref().unwrap_or_default()))
    });
    promoted.map_err(|reason| reason.refuse(&format!("cannot promote '{name}'")))?;
    // If the origin was the encryption root, the clone is the encryption root now.
    if let Some(root) = root.filter(|root| origin.as_ref().is_some_and(|o| o.split('@').next() == Some(root))) {
        kept_keys::hand_on(&invocation.state, &record, &root, name);
    }
    Ok(())
}

fn reason(error: &Error, origin: &str) -> Reason {
    let reason = Reason::from(error);
    match error {
        Error::Refused { why: Denied::Exists, place } => {
            let short = place.split(['@', '#']).nth(1).unwrap_or_default();
            Reason { text: format!("conflicting snapshot '{short}' from parent '{origin}'"), ..reason }
        }
        _ => reason,
    }
}
