//! `beadm create`: an environment from another one, in the same pool or another; a snapshot of an
//! environment.

use super::face::{Face, operand};
use super::lookup::{Found, default_source, one, snapshot_of};
use super::menus::refresh;
use crate::context::{Context, Failure, Outcome};
use crate::getopt::{ArgKind, flag, value};
use crate::verb::{Call, Verb, for_owner};
use crate::zfs::create::properties;
use crate::zpool::writing::{change, record};
use admin::environments::{
    self, CONTAINER, Environment, MenuChange, NewEnvironment, activate, clone_into, describe, find, shared,
    snapshot_name,
};
use std::process::{Command, Stdio};

/// The row of `beadm create`.
pub static VERB: Verb = for_owner("create", "Create an environment from another one, or from a snapshot", run)
    .usage(&[
        "[-a] [-d description] [-e beName|beName@snapshot] [-o property=value] ... [-p zpool] [-v] beName",
        "[-v] beName@snapshot",
    ])
    .options(&[
        flag('a', "Activate the new environment."),
        value('d', "description", ArgKind::Text, "Describe the environment so in boot menus."),
        value(
            'e',
            "beName|beName@snapshot",
            ArgKind::Text,
            "Copy this environment or snapshot instead of the running one.",
        ),
        value('o', "property=value", ArgKind::DatasetAssignment, "Set a property of the root of the environment.")
            .repeated(),
        value('p', "zpool", ArgKind::Pool, "Create the environment in this pool."),
        flag('v', "Print each step."),
    ])
    .operands(&[ArgKind::Text])
    .history("beadm create")
    .examples(&[("beadm create -a new", "Copy the running environment, and boot the copy from now on.")]);

/// `beadm create`.
pub fn run(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let name = operand(parsed)?.to_owned();
    let properties = properties(parsed)?;
    let command = call.history();
    if name.contains('@') {
        if ['a', 'd', 'e', 'o', 'p'].iter().any(|option| parsed.has(*option)) {
            return Err(Failure::usage("-a, -d, -e, -o and -p do not apply to a snapshot"));
        }
        snapshot(cx, &name, &command, None)?;
        cx.print("Created successfully\n");
        return Ok(0);
    }
    let (found, given) = source(cx, parsed.last('e'), None)?;
    let wanted = Wanted {
        name: &name,
        found: &found,
        given: given.as_deref(),
        properties: &properties,
        description: parsed.last('d'),
        activate: parsed.has('a'),
        verbose: parsed.has('v'),
        container: None,
        shallow: false,
    };
    match parsed.last('p').filter(|pool| *pool != found.record().name) {
        Some(pool) => elsewhere(cx, &wanted, pool, &command)?,
        None => here(cx, &wanted, &command, Face::Beadm)?,
    }
    cx.print(if wanted.activate { "Activated successfully\n" } else { "Created successfully\n" });
    Ok(0)
}

/// The environment to create, from which one, and how.
pub struct Wanted<'a> {
    /// Name of the new environment.
    pub name: &'a str,
    /// The boot environment to copy.
    pub(super) found: &'a Found,
    /// The snapshot given by the user.
    pub given: Option<&'a str>,
    /// Properties for its root.
    pub properties: &'a [(String, String)],
    pub description: Option<&'a str>,
    /// Whether the pool boots it from now on.
    pub activate: bool,
    /// Whether to print each step.
    pub verbose: bool,
    /// The container given by the user.
    pub container: Option<&'a str>,
    /// Only the root, without the datasets below.
    pub shallow: bool,
}

/// The operand of `-e`: an environment, and a snapshot of it if one is given.
pub(super) fn source(
    cx: &mut Context<'_>,
    given: Option<&str>,
    root: Option<&str>,
) -> Result<(Found, Option<String>), Failure> {
    match given {
        None => Ok((default_source(cx, root)?, None)),
        Some(name) if name.contains('@') => snapshot_of(cx, name, root).map(|(found, short)| (found, Some(short))),
        Some(name) => Ok((one(cx, name, root)?, None)),
    }
}

/// Takes a snapshot of each part of an environment: `beadm create beName@snapshot`.
pub(super) fn snapshot(cx: &mut Context<'_>, name: &str, command: &str, root: Option<&str>) -> Result<(), Failure> {
    let Some((head, short)) = name.split_once('@').filter(|(head, short)| !head.is_empty() && !short.is_empty()) else {
        return Err(Failure::usage(""));
    };
    let found = one(cx, head, root)?;
    if found.environment.without(short).len() < found.environment.parts.len() {
        return Err(Failure::failed(format!(
            "BE {head} snapshot {short} already exists.\nPlease choose a different snapshot name."
        )));
    }
    let cannot = format!("Unable to create snapshot {short}.");
    let (record, environment) = (found.record().clone(), found.environment.clone());
    drop(found);
    change(cx, &record, &cannot, command, |pool| environments::snapshot(pool, &environment, short))
}

/// A random UUID of RFC 9562.
fn uuid() -> String {
    let mut bytes = host::random::bytes::<16>();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// Creates it in the pool of its source.
pub(super) fn here(cx: &mut Context<'_>, wanted: &Wanted<'_>, command: &str, face: Face) -> Result<(), Failure> {
    let (record, environment) = (wanted.found.record().clone(), wanted.found.environment.clone());
    let all = find(&wanted.found.pool.datasets, wanted.container).map_err(|e| Failure::failed(format!("{e:#}")))?;
    if all.iter().any(|e| e.name == wanted.name) {
        return Err(Failure::failed(format!("BE {} already exists\nPlease choose a different BE name.", wanted.name)));
    }
    let cannot = match face {
        Face::Beadm => format!("Unable to create {}.", wanted.name),
        Face::Bectl => format!("Failed to create bootenv {}", wanted.name),
    };
    let short = match wanted.given {
        Some(short) => short.to_owned(),
        None => snapshot_name(&all),
    };
    let uuid = uuid();
    let new = NewEnvironment {
        name: wanted.name,
        snapshot: &short,
        properties: wanted.properties,
        description: wanted.description,
        uuid: &uuid,
    };
    let mut notes: Vec<(MenuChange, bool)> = Vec::new();
    let pool = crate::zpool::writing::open(cx, &record, &cannot)?;
    let result = (|| {
        let mut source = environment.clone();
        if wanted.given.is_none() {
            environments::snapshot(&pool, &environment, &short)?;
            source = again(&pool, &environment, wanted.container)?;
            if wanted.shallow {
                source.parts.truncate(1);
            }
        }
        let root = clone_into(&pool, &source, &new)?;
        let title = wanted.description.unwrap_or(wanted.name).to_owned();
        notes.push((MenuChange::Made { root: root.clone(), like: source.root().to_owned(), title }, wanted.verbose));
        if wanted.activate {
            activate(&pool, wanted.name, wanted.container)?;
            notes.push((MenuChange::Activated { root }, wanted.verbose));
        }
        pool.note_command(command)
    })();
    for (note, verbose) in &notes {
        refresh(cx, &pool, &record, note, *verbose);
    }
    let closed = pool.finish();
    let failed = |e: anyhow::Error| Failure::failed(format!("{cannot}\n{}", crate::zpool::writing::reason(&e)));
    result.map_err(failed)?;
    closed.map_err(failed)?;
    if wanted.verbose {
        cx.print(&format!("{}: created from {}@{short}\n", wanted.name, environment.name));
    }
    Ok(())
}

/// The current state of the environment after a change.
fn again(
    pool: &admin::write::WritablePool,
    environment: &Environment,
    container: Option<&str>,
) -> anyhow::Result<Environment> {
    let all = find(&pool.live.synced()?, container)?;
    let found = all.into_iter().find(|e| e.root() == environment.root());
    found.ok_or_else(|| anyhow::anyhow!("the environment '{}' no longer exists", environment.name))
}

/// Creates it in another pool from a stream of all parts. Datasets that the environment used
/// without owning them are not copied, and are listed.
fn elsewhere(cx: &mut Context<'_>, wanted: &Wanted<'_>, target: &str, command: &str) -> Result<(), Failure> {
    let cannot = format!("Unable to create {}.", wanted.name);
    let failed = |why: String| Failure::failed(format!("{cannot}\n{why}"));
    let to = record(cx, target)?;
    let (from, environment) = (wanted.found.record().clone(), wanted.found.environment.clone());
    let root = format!("{target}/{CONTAINER}/{}", wanted.name);
    let environments = find(&wanted.found.pool.datasets, None).map_err(|e| failed(format!("{e:#}")))?;
    let left = shared(&wanted.found.pool.datasets, &environments).map_err(|e| failed(format!("{e:#}")))?;
    let there = crate::zpool::writing::open(cx, &to, &cannot)?;
    let prepared = (|| {
        let datasets = there.live.synced()?;
        anyhow::ensure!(datasets.entry(&root).is_err(), "dataset '{root}' already exists");
        let container = format!("{target}/{CONTAINER}");
        if datasets.entry(&container).is_err() {
            let properties = [("canmount", "off"), ("mountpoint", "none")].map(|(n, v)| (n.to_owned(), v.to_owned()));
            let new = dataset::write::NewDataset {
                name: container,
                properties: properties.to_vec(),
                ..dataset::write::NewDataset::default()
            };
            dataset::write::create(&there.live, &new, admin::write::maker())?;
        }
        Ok(())
    })();
    there.finish().map_err(|e| failed(format!("{e:#}")))?;
    prepared.map_err(|e: anyhow::Error| failed(format!("{e:#}")))?;

    let short = match wanted.given {
        Some(short) => short.to_owned(),
        None => {
            let short = snapshot_name(&environments);
            change(cx, &from, &cannot, command, |pool| environments::snapshot(pool, &environment, &short))?;
            short
        }
    };
    transfer(cx, &short, &root, &environment).map_err(failed)?;

    let mut notes = Vec::new();
    let there = crate::zpool::writing::open(cx, &to, &cannot)?;
    let result = (|| {
        let settle = environments::settle_received(&there, &environment, &root, wanted.properties, &uuid());
        settle?;
        if let Some(text) = wanted.description {
            describe(&there, &root, text)?;
        }
        let title = wanted.description.unwrap_or(wanted.name).to_owned();
        notes.push(MenuChange::Made { root: root.clone(), like: environment.root().to_owned(), title });
        if wanted.activate {
            activate(&there, wanted.name, None)?;
            notes.push(MenuChange::Activated { root: root.clone() });
        }
        there.note_command(command)
    })();
    for note in &notes {
        refresh(cx, &there, &to, note, wanted.verbose);
    }
    let closed = there.finish();
    result.map_err(|e| failed(crate::zpool::writing::reason(&e)))?;
    closed.map_err(|e| failed(format!("{e:#}")))?;
    for (dataset, place) in left {
        cx.complain(&format!(
            "weir: '{dataset}' ({place}) belongs to no environment and stays in '{}': 'zfs send -R {dataset}@NAME | zfs receive' takes it along",
            from.name
        ));
    }
    Ok(())
}

/// Sends the parts of an environment from pool to pool with two processes: each reaches the process
/// that has its pool imported.
fn transfer(cx: &Context<'_>, short: &str, root: &str, environment: &Environment) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|e| format!("cannot find the path of this program: {e}"))?;
    let command = |args: &[&str]| {
        let mut command = Command::new(&program);
        command.arg("--state").arg(cx.state.folder()).arg("zfs").args(args);
        command
    };
    for part in &environment.parts {
        let name = format!("{root}{}", &part.name[environment.root().len()..]);
        let from = format!("{}@{short}", part.name);
        let mut sender = command(&["send", "-p", "-L", "-e", "-c", &from])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| format!("cannot start the sender: {e}"))?;
        let Some(stream) = sender.stdout.take() else { return Err("the sender has no output".to_owned()) };
        let mut receive = vec!["receive", "-u"];
        if !part.is_volume {
            receive.extend(["-o", "canmount=noauto"]);
        }
        receive.push(&name);
        let received = command(&receive)
            .stdin(Stdio::from(stream))
            .output()
            .map_err(|e| format!("cannot start the receiver: {e}"))?;
        let sent = sender.wait_with_output().map_err(|e| e.to_string())?;
        if !received.status.success() {
            return Err(String::from_utf8_lossy(&received.stderr).trim().to_owned());
        }
        if !sent.status.success() {
            return Err(String::from_utf8_lossy(&sent.stderr).trim().to_owned());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_are_random_ones_of_version_4() {
        let text = uuid();
        let parts: Vec<usize> = text.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12], "{text}");
        assert_eq!(text.as_bytes()[14], b'4', "{text}");
        assert!(matches!(text.as_bytes()[19], b'8' | b'9' | b'a' | b'b'), "{text}");
        assert_ne!(text, uuid());
    }
}
