//! `weir beadm` and `weir bectl`: boot environments with the command lines of illumos's beadm(8)
//! and FreeBSD's bectl(8). What an environment is: [`admin::environments`].

mod bectl;
mod change;
mod create;
mod list;
mod mount;

use crate::context::{Context, Failure, Verb, for_anyone, for_owner};
use crate::getopt::Parsed;
use crate::zfs::datasets::Pools;
use crate::zpool::pools;
use admin::environments::{Environment, MenuChange, find, refresh_menus};
use admin::state::Imported;
use admin::verbs::{ReadPool, pool_of};
use admin::write::WritablePool;
use std::sync::Arc;

pub use bectl::{VERBS as BECTL, split_root};

/// The verbs of beadm(8), and `menu`.
pub static VERBS: &[Verb] = &[
    for_owner("activate", &["[-v] beName"], "Set the environment to boot", change::activate),
    for_owner(
        "create",
        &[
            "[-a] [-d description] [-e beName|beName@snapshot] [-o property=value] ... [-p zpool] [-v] beName",
            "[-v] beName@snapshot",
        ],
        "Create an environment from another one, or from a snapshot",
        create::run,
    ),
    for_owner(
        "destroy",
        &["[-fFsv] beName|beName@snapshot"],
        "Destroy an environment, or a snapshot of one",
        change::destroy,
    ),
    for_anyone(
        "list",
        &["[-a | -ds] [-H] [-j] [-k date|name|space | -K date|name|space] [-v] [beName]"],
        "Show environments",
        list::run,
    ),
    for_owner("mount", &["[-v] beName [mountpoint]"], "Mount all parts of an environment", mount::mount),
    for_owner("unmount", &["[-fv] beName|mountpoint"], "Unmount an environment", mount::unmount),
    for_owner("umount", &["[-fv] beName|mountpoint"], "Unmount an environment", mount::unmount),
    for_owner("rename", &["[-v] beName newBeName"], "Rename an environment", change::rename),
    for_owner(
        "rollback",
        &["[-v] beName snapshot", "[-v] beName@snapshot"],
        "Roll back to a snapshot",
        change::rollback,
    ),
    for_owner("menu", &["zpool"], "Write boot loader menus to a pool that has none", change::menu),
];

/// The program that is run: the messages differ, the actions do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Face {
    Beadm,
    Bectl,
}

impl Face {
    fn name(self) -> &'static str {
        match self {
            Self::Beadm => "beadm",
            Self::Bectl => "bectl",
        }
    }
}

/// An environment and its pool.
struct Found {
    pool: Arc<ReadPool>,
    environment: Environment,
}

impl Found {
    fn record(&self) -> &Imported {
        &self.pool.record
    }

    fn name(&self) -> &str {
        &self.environment.name
    }
}

/// All environments of all imported pools; with `root`, those that are children of this dataset.
fn all(cx: &mut Context<'_>, root: Option<&str>) -> Result<Vec<Found>, Failure> {
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
fn one(cx: &mut Context<'_>, name: &str, root: Option<&str>) -> Result<Found, Failure> {
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
fn snapshot_of(cx: &mut Context<'_>, name: &str, root: Option<&str>) -> Result<(Found, String), Failure> {
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
fn running() -> Option<String> {
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
fn default_source(cx: &mut Context<'_>, root: Option<&str>) -> Result<Found, Failure> {
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

/// Updates the boot menus of a pool. Failures are only reported: the change itself is kept.
fn refresh(cx: &mut Context<'_>, pool: &WritablePool, record: &Imported, change: &MenuChange, verbose: bool) {
    match refresh_menus(pool, &record.name, change) {
        Ok(done) => {
            for path in done.changed.iter().filter(|_| verbose) {
                cx.print(&format!("{}: /{path} follows\n", record.name));
            }
        }
        Err(error) => cx.complain(&format!("weir: boot menus of '{}' were not changed: {error:#}", record.name)),
    }
}

/// The one operand of a verb.
fn operand(parsed: &Parsed) -> Result<&str, Failure> {
    match parsed.operands.as_slice() {
        [one] => Ok(one),
        _ => Err(Failure::usage("")),
    }
}
