//! `zfs promote`: makes a clone independent of its origin.

use crate::kept_keys;
use crate::verbs::line::line;
use crate::verbs::{Invocation, Reason, Refusal};
use dataset::{Dataset, write};
use errors::{Error, Refusal as Denied};

/// The request as a command line, for histories and logs.
pub fn command_line(name: &str) -> String {
    line("zfs promote", &[], &[], [name])
}

/// Promotes the clone `name`.
pub fn run(invocation: &Invocation<'_>, name: &str) -> Result<(), Refusal> {
    invocation.entry(name).map(drop)?;
    let record = invocation.record("promote", name)?;
    // The origin that the caller may promote from.
    let mut checked = None;
    let permitted = invocation.permit(&record, |caller, tree| {
        caller.require(tree, name, &["promote", "mount"])?;
        let origin = tree.dataset(name)?.origin()?;
        checked = Some(origin.as_ref().map_or(0, Dataset::id));
        origin.map_or(Ok(()), |origin| caller.require(tree, origin.name(), &["promote"]))
    });
    permitted.map_err(|reason| reason.refuse(&format!("cannot promote '{name}'")))?;
    let (mut origin, mut root) = (None, None);
    let promoted = invocation.change(&record, |pool| {
        if let Ok(dataset) = pool.live.synced()?.dataset(name) {
            origin = dataset.origin()?.map(|d| d.name().to_owned());
            root = dataset.encryption_root()?.map(|d| d.name().to_owned());
        }
        write::promote_for(&pool.live, invocation.caller.other(), name, checked)
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
