//! `zfs wait`: waits until all files that were removed while open have been freed (`deleteq`).

use super::datasets::{self, Pools, cannot_open};
use crate::context::{Context, Failure, Outcome};
use crate::getopt::{ArgKind, value};
use crate::verb::{Call, Verb, for_owner};
use dataset::DatasetKind;
use std::time::Duration;

/// The row of `zfs wait`.
pub static VERB: Verb = for_owner("wait", "Wait for background activity to finish", run)
    .usage(&["[-t activity] <filesystem>"])
    .options(&[value(
        't',
        "activity,...",
        ArgKind::Words(&["deleteq"]),
        "Wait for this activity; deleteq is the only one.",
    )])
    .operands(&[ArgKind::Dataset])
    .examples(&[("zfs wait tank/home", "Wait until all removed files are freed.")]);

/// The polling interval. OpenZFS gets a notification instead; a txg usually takes at least this
/// long.
const EVERY: Duration = Duration::from_millis(300);

/// `zfs wait`.
pub fn run(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    for activity in parsed.last('t').into_iter().flat_map(|list| list.split(',')) {
        if activity != "deleteq" {
            return Err(Failure::usage(format!("invalid activity '{activity}'")));
        }
    }
    let name = match parsed.operands.as_slice() {
        [] => return Err(Failure::usage("missing 'filesystem' argument")),
        [name] => name.clone(),
        _ => return Err(Failure::usage("too many arguments")),
    };
    let mut is_first = true;
    loop {
        // What was deleted while it is open, and what was closed since.
        datasets::sync(cx, &name).map_err(Failure::failed)?;
        // A dataset that was destroyed or exported in the meantime has no work left.
        let Some(found) = Pools::new(cx).entry(cx, &name)? else { return Ok(u8::from(is_first)) };
        let Some(dataset) = found.entry.dataset().filter(|d| d.kind().ok() == Some(DatasetKind::FileSystem)) else {
            let what = format!("cannot open '{name}': operation not applicable to datasets of this type");
            return Err(Failure::failed(what));
        };
        let waiting = match dataset.unlinked(&found.pool.keys) {
            Ok(waiting) => waiting,
            // Without its key the dataset is not mounted.
            Err(errors::Error::KeyUnavailable { .. }) => 0,
            Err(e) => return Err(Failure::failed(cannot_open(&name, &e))),
        };
        if waiting == 0 || cx.client.is_gone() {
            return Ok(0);
        }
        is_first = false;
        drop(found);
        std::thread::sleep(EVERY);
    }
}
