//! Looks up the environments and snapshots that arguments name.

use crate::context::{Context, Failure};
use crate::zfs::datasets::Pools;
use crate::zpool::pools;
use admin::environments::{Environment, find};
use admin::state::Imported;
use admin::verbs::{ReadPool, pool_of};
use std::sync::Arc;

/// An environment and its pool.
pub(super) struct Found {
    pub(super) pool: Arc<ReadPool>,
    pub(super) environment: Environment,
}

impl Found {
    pub(super) fn record(&self) -> &Imported {
        &self.pool.record
    }

    pub(super) fn name(&self) -> &str {
        &self.environment.name
    }
}

/// All environments of all imported pools; with `root`, those that are children of this dataset.
pub(super) fn all(cx: &mut Context<'_>, root: Option<&str>) -> Result<Vec<Found>, Failure> {
    let (mut opened, mut found) = (Pools::new(cx), Vec::new());
    for record in pools::records(cx, &[])?.0 {
        if root.is_some_and(|root| pool_of(root) != record.name) {
            continue;
        }
        let pool = match opened.pool(cx, &record.name) {
            Ok(Some(pool)) => pool,
            Ok(None) => continue,
            // Another pool may contain the environment.
            Err(Failure::Failed(message)) => {
                cx.complain(&message);
                continue;
            }
            Err(other) => return Err(other),
        };
        let environments = find(&pool.datasets, root)
            .map_err(|e| Failure::failed(format!("cannot search for environments in '{}': {e:#}", record.name)))?;
        found.extend(environments.into_iter().map(|environment| Found { pool: pool.clone(), environment }));
    }
    Ok(found)
}

/// The environment called `name`, which may be qualified by its pool or be the name of its dataset.
pub(super) fn one(cx: &mut Context<'_>, name: &str, root: Option<&str>) -> Result<Found, Failure> {
    if let Some((head, short)) = name.split_once('@') {
        return Err(Failure::failed(format!(
            "'{name}' is a snapshot of '{head}', not an environment: specify '{head}', without '@{short}'"
        )));
    }
    let mut matching: Vec<Found> = all(cx, root)?
        .into_iter()
        .filter(|f| {
            f.name() == name || f.environment.root() == name || format!("{}/{}", f.record().name, f.name()) == name
        })
        .collect();
    match (matching.pop(), matching.as_slice()) {
        (Some(found), []) => Ok(found),
        (Some(last), others) => {
            let names: Vec<&str> = others.iter().chain([&last]).map(|f| f.environment.root()).collect();
            Err(Failure::failed(format!("there is more than one environment '{name}': specify {}", names.join(" or "))))
        }
        (None, _) => Err(Failure::failed(format!(
            "{name} does not exist or appear to be a valid BE.\nPlease check that the name of the BE provided is correct."
        ))),
    }
}

/// The environment and the snapshot of `beName@snapshot`. A snapshot of only some datasets is not
/// one of the environment.
pub(super) fn snapshot_of(cx: &mut Context<'_>, name: &str, root: Option<&str>) -> Result<(Found, String), Failure> {
    let Some((head, short)) = name.split_once('@').filter(|(head, short)| !head.is_empty() && !short.is_empty()) else {
        return Err(Failure::usage(""));
    };
    let found = match one(cx, head, root) {
        Ok(found) => found,
        Err(failure) => {
            let holder = all(cx, root)?.into_iter().find(|f| f.environment.has(head));
            return Err(match holder {
                Some(f) => Failure::failed(format!(
                    "'{name}' is a snapshot of the dataset '{head}', which is a part of the environment '{}': an environment's snapshot is named '{}@{short}', and is one of all of \
                     its {} datasets",
                    f.name(),
                    f.name(),
                    f.environment.parts.len()
                )),
                None => failure,
            });
        }
    };
    let lacking = found.environment.without(short);
    if lacking.len() == found.environment.parts.len() {
        return Err(Failure::failed(format!(
            "{short} does not exist or appear to be a valid snapshot.\nPlease check that the name of the snapshot provided is correct."
        )));
    }
    if let Some(first) = lacking.first() {
        return Err(Failure::failed(format!(
            "'{head}@{short}' is not a snapshot of the environment: some of its datasets have one of that name, '{first}' has none. Only 'beadm create {head}@NAME' and 'zfs snapshot -r' \
             take one of all",
        )));
    }
    Ok((found, short.to_owned()))
}

/// The dataset of this machine's root file system, if it is in a pool.
pub(super) fn running() -> Option<String> {
    let table = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mut root = None;
    for line in table.lines() {
        let mut words = line.split(' ');
        if let (Some(source), Some("/"), Some("zfs" | "fuse.weir")) = (words.next(), words.next(), words.next()) {
            root = Some(source.to_owned());
        }
    }
    root
}

/// The default source of a new environment: the running one, or else the one that will be booted.
pub(super) fn default_source(cx: &mut Context<'_>, root: Option<&str>) -> Result<Found, Failure> {
    let mut found = all(cx, root)?;
    let runs = running();
    let at = found.iter().position(|f| Some(f.environment.root()) == runs.as_deref());
    let boots: Vec<usize> = found.iter().enumerate().filter(|(_, f)| f.environment.on_boot).map(|(i, _)| i).collect();
    match (at, boots.as_slice()) {
        (Some(at), _) => Ok(found.swap_remove(at)),
        (None, [one]) => Ok(found.swap_remove(*one)),
        (None, []) if found.is_empty() => Err(Failure::failed("No boot environments found on this system.")),
        (None, []) => {
            Err(Failure::failed("no environment is running, and none is active on boot: use -e to select the source"))
        }
        (None, several) => {
            let names: Vec<&str> = several.iter().filter_map(|i| found.get(*i)).map(|f| f.environment.root()).collect();
            Err(Failure::failed(format!("none of {} is running: use -e to select the source", names.join(" and "))))
        }
    }
}
