//! `beadm activate`, `destroy`, `rename`, `rollback`, `menu`.

use super::face::{Face, operand};
use super::lookup::{Found, one, running, snapshot_of};
use super::menus::refresh;
use crate::context::{Context, Failure, Outcome};
use crate::getopt::{ArgKind, Opt, flag};
use crate::mounts::{owner, unmount_below};
use crate::verb::{Call, Verb, for_owner};
use crate::zpool::writing::{change, open, reason, record};
use admin::environments::{self, MenuChange, find, forget_origins, promote_dependents, write_menus};
use admin::verbs::zfs::destroy::destroy_all;
use api::Wanted;

/// The row of `beadm activate`.
pub static ACTIVATE: Verb = for_owner("activate", "Set the environment to boot", activate)
    .usage(&["[-v] beName"])
    .options(PLAIN)
    .operands(&[ArgKind::Text])
    .history("beadm activate")
    .examples(&[("beadm activate new", "Boot the environment new from now on.")]);

/// The row of `beadm rename`.
pub static RENAME: Verb = for_owner("rename", "Rename an environment", rename)
    .usage(&["[-v] beName newBeName"])
    .options(PLAIN)
    .operands(&[ArgKind::Text])
    .history("beadm rename")
    .examples(&[("beadm rename new old", "Give an environment another name.")]);

/// The row of `beadm rollback`.
pub static ROLLBACK: Verb = for_owner("rollback", "Roll back to a snapshot", rollback)
    .usage(&["[-v] beName snapshot", "[-v] beName@snapshot"])
    .options(PLAIN)
    .operands(&[ArgKind::Text])
    .history("beadm rollback")
    .examples(&[("beadm rollback new@monday", "Discard all changes of an environment since a snapshot.")]);

/// The row of `beadm menu`.
pub static MENU: Verb = for_owner("menu", "Write boot loader menus to a pool that has none", menu)
    .usage(&["zpool"])
    .options(PLAIN)
    .operands(&[ArgKind::Pool])
    .history("beadm menu")
    .examples(&[("beadm menu rpool", "Write the menus of a pool.")]);

const PLAIN: &[Opt] = &[flag('v', "Print each step.")];

/// The row of `beadm destroy`.
pub static DESTROY: Verb = for_owner("destroy", "Destroy an environment, or a snapshot of one", destroy)
    .usage(&["[-fFsv] beName|beName@snapshot"])
    .options(&[
        flag('f', "Unmount the environment if it is mounted."),
        flag('F', "Do not ask for confirmation."),
        flag('s', "Destroy its snapshots too."),
        flag('v', "Print each step."),
    ])
    .operands(&[ArgKind::Text])
    .history("beadm destroy")
    .examples(&[("beadm destroy -F old", "Destroy an environment without a question.")]);

/// `beadm activate`.
pub fn activate(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let name = operand(parsed)?.to_owned();
    let found = one(cx, &name, None)?;
    start(cx, &found, &call.history(), parsed.has('v'), None)
        .map_err(|why| Failure::failed(format!("Unable to activate {name}.\n{why}")))?;
    cx.print("Activated successfully\n");
    Ok(0)
}

/// Makes a pool boot an environment. The error is a sentence.
pub(super) fn start(
    cx: &mut Context<'_>,
    found: &Found,
    command: &str,
    verbose: bool,
    root: Option<&str>,
) -> Result<(), String> {
    let (record, environment) = (found.record().clone(), found.environment.clone());
    let pool = open(cx, &record, "").map_err(|failure| match failure {
        Failure::Failed(why) => why.trim_start_matches(": ").to_owned(),
        _ => "the pool cannot be opened".to_owned(),
    })?;
    let result = environments::activate(&pool, &environment.name, root).and_then(|()| pool.note_command(command));
    if result.is_ok() {
        refresh(cx, &pool, &record, &MenuChange::Activated { root: environment.root().to_owned() }, verbose);
    }
    let closed = pool.finish();
    result.and(closed).map_err(|e| reason(&e))
}

/// Asks whether an environment may be destroyed.
fn confirmed(cx: &mut Context<'_>, name: &str) -> Result<bool, Failure> {
    cx.print(&format!("Are you sure you want to destroy {name}?\nThis action cannot be undone (y/[n]): "));
    let _ = cx.out.flush();
    let answer = cx.client.ask(Wanted::Line).map_err(|e| Failure::failed(format!("no answer: {e}")))?;
    match answer.first() {
        Some(b'y' | b'Y') => Ok(true),
        None | Some(b'n' | b'N') => Ok(false),
        Some(_) => {
            cx.complain("Invalid response. Please enter 'y' or 'n'.");
            Ok(false)
        }
    }
}

/// `beadm destroy`.
pub fn destroy(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let name = operand(parsed)?.to_owned();
    if !parsed.has('F') && !confirmed(cx, &name)? {
        cx.print(&format!("{name} has not been destroyed.\n"));
        return Ok(0);
    }
    let command = call.history();
    if name.contains('@') {
        let (found, short) = snapshot_of(cx, &name, None)?;
        snapshots(cx, &found, &short, &command)?;
    } else {
        let found = one(cx, &name, None)?;
        let how = Destroy {
            force: parsed.has('f'),
            snapshots: parsed.has('s'),
            origins: false,
            root: None,
            verbose: parsed.has('v'),
        };
        environment(cx, &found, &command, &how)?;
    }
    cx.print("Destroyed successfully\n");
    Ok(0)
}

/// Destroys a snapshot of all parts of an environment.
pub(super) fn snapshots(cx: &mut Context<'_>, found: &Found, short: &str, command: &str) -> Result<(), Failure> {
    let names: Vec<String> = found.environment.parts.iter().map(|part| format!("{}@{short}", part.name)).collect();
    Ok(destroy_all(&cx.invocation(command.to_owned()), found.record(), &names)?)
}

/// How to destroy an environment.
pub(super) struct Destroy<'a> {
    /// Unmount it even if it is in use.
    pub force: bool,
    /// Destroy its snapshots too.
    pub snapshots: bool,
    /// Destroy the snapshots from which it was created too, even those created by the user.
    pub origins: bool,
    /// The container given by the user.
    pub root: Option<&'a str>,
    /// Print each step (`-v`).
    pub verbose: bool,
}

pub(super) fn environment(
    cx: &mut Context<'_>,
    found: &Found,
    command: &str,
    how: &Destroy<'_>,
) -> Result<(), Failure> {
    let (name, record) = (found.name().to_owned(), found.record().clone());
    let environment = found.environment.clone();
    if running().as_deref() == Some(environment.root()) {
        return Err(Failure::failed(format!(
            "{name} is the currently active BE and cannot be destroyed.\nYou must boot from another BE in order to destroy {name}."
        )));
    }
    let cannot = format!("Unable to destroy {name}.");
    if environment.on_boot {
        return Err(Failure::failed(format!("{cannot}\nIt is active on boot: activate another environment first.")));
    }
    let mounted = crate::mounts::mounted(cx);
    if !how.force && environment.parts.iter().any(|part| mounted.iter().any(|(d, _)| *d == part.name)) {
        return Err(Failure::failed(format!(
            "{cannot}\nIt is currently mounted and must be unmounted before it can be destroyed.\nUse 'beadm unmount {name}' to unmount the BE before destroying\nit or 'beadm destroy -f {name}'."
        )));
    }
    if let Some(owner) = owner(cx, record.guid) {
        unmount_below(&owner, &record, environment.root(), how.force).map_err(Failure::failed)?;
    }
    // Clones of this environment are promoted; what remains afterwards belongs only to it.
    let left = change(cx, &record, &cannot, command, |pool| {
        let own = |pool: &admin::write::WritablePool| {
            let all = environments::find(&pool.live.synced()?, how.root)?;
            let found = all.into_iter().find(|e| e.root() == environment.root());
            found.ok_or_else(|| anyhow::anyhow!("the environment no longer exists"))
        };
        let before = own(pool)?;
        if !how.snapshots
            && let Some(kept) = environments::named_snapshot(pool, &before)?
        {
            anyhow::bail!("BE has snapshots ({kept}).\nUse 'beadm destroy -s {name}' to destroy them, too.");
        }
        promote_dependents(pool, &before)?;
        own(pool)
    })?;
    let mut names: Vec<String> = Vec::new();
    for part in left.parts.iter().rev() {
        names.extend(part.snapshots.iter().map(|s| s.name.clone()));
        names.push(part.name.clone());
    }
    destroy_all(&cx.invocation(command.to_owned()), &record, &names)?;
    let pool = open(cx, &record, &cannot)?;
    let origins = forget_origins(&pool, &left, how.origins);
    refresh(cx, &pool, &record, &MenuChange::Gone { root: left.root().to_owned() }, how.verbose);
    let closed = pool.finish();
    let failed = |e: anyhow::Error| Failure::failed(format!("{cannot}\n{}", reason(&e)));
    let gone = origins.map_err(failed)?;
    closed.map_err(failed)?;
    for origin in gone.iter().filter(|_| how.verbose) {
        cx.print(&format!("{origin} is destroyed too\n"));
    }
    Ok(())
}

/// `beadm rename`.
pub fn rename(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let [from, to] = parsed.operands.as_slice() else { return Err(Failure::usage("")) };
    let (from, to) = (from.clone(), to.clone());
    let found = one(cx, &from, None)?;
    rename_to(cx, &found, &to, parsed.has('v'), None, Face::Beadm)?;
    cx.print("Renamed successfully\n");
    Ok(0)
}

pub(super) fn rename_to(
    cx: &mut Context<'_>,
    found: &Found,
    to: &str,
    verbose: bool,
    root: Option<&str>,
    face: Face,
) -> Result<(), Failure> {
    let (record, environment) = (found.record().clone(), found.environment.clone());
    let name = environment.name.clone();
    let cannot = match face {
        Face::Beadm => format!("Rename of BE {name} failed."),
        Face::Bectl => format!("Failed to rename bootenv {name} to {to}"),
    };
    let failed = |why: &str| Failure::failed(format!("{cannot}\n{why}"));
    if running().as_deref() == Some(environment.root()) {
        return Err(failed("It is the currently active BE: boot from another one to rename it."));
    }
    environments::check_name(to).map_err(|e| failed(&e.to_string()))?;
    let all = find(&found.pool.datasets, root).map_err(|e| failed(&format!("{e:#}")))?;
    if all.iter().any(|e| e.name == to) {
        return Err(failed(&format!("BE {to} already exists.")));
    }
    let Some((above, _)) = environment.root().rsplit_once('/') else { return Err(failed("it is the root of a pool")) };
    let new = format!("{above}/{to}");
    let call = crate::zfs::create::RENAME.call(&[environment.root().to_owned(), new.clone()])?;
    match crate::zfs::create::rename(cx, &call)? {
        0 => {}
        code => return Err(Failure::Code(code)),
    }
    let pool = open(cx, &record, &cannot)?;
    let change = MenuChange::Renamed { from: environment.root().to_owned(), to: new };
    refresh(cx, &pool, &record, &change, verbose);
    pool.finish().map_err(|e| failed(&format!("{e:#}")))
}

/// `beadm rollback`.
pub fn rollback(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let name = match parsed.operands.as_slice() {
        [one] => one.clone(),
        [name, short] => format!("{name}@{}", short.strip_prefix('@').unwrap_or(short)),
        _ => return Err(Failure::usage("")),
    };
    let (found, short) = snapshot_of(cx, &name, None)?;
    if running().as_deref() == Some(found.environment.root()) {
        return Err(Failure::failed(format!(
            "Rollback of BE {} failed.\nIt is the currently active BE: boot from another one first.",
            found.name()
        )));
    }
    let parts: Vec<String> = found.environment.parts.iter().map(|p| p.name.clone()).collect();
    drop(found);
    // All parts are checked before anything is changed.
    for part in &parts {
        let snapshot = format!("{part}@{short}");
        let call = crate::zfs::rollback::ROLLBACK.call(&["-r".to_owned(), snapshot])?;
        let code = crate::zfs::rollback::rollback(cx, &call)?;
        if code != 0 {
            return Ok(code);
        }
    }
    cx.print("Rolled back successfully\n");
    Ok(0)
}

/// `beadm menu`.
pub fn menu(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let name = operand(parsed)?.to_owned();
    let record = record(cx, &name)?;
    let cannot = format!("cannot write menus into '{name}'");
    let done = change(cx, &record, &cannot, &call.history(), |pool| {
        let all = environments::find(&pool.live.synced()?, None)?;
        anyhow::ensure!(!all.is_empty(), "the pool has no boot environments");
        write_menus(pool, &name, &all)
    })?;
    for path in &done.changed {
        cx.print(&format!("{name}: /{path}\n"));
    }
    if done.changed.is_empty() {
        cx.print(&format!("{name}: all menus are up to date\n"));
    }
    Ok(0)
}
