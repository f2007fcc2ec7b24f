//! `zfs mount` and `zfs unmount`: mounts file systems where their `mountpoint` property says.
//!
//! A process that owns pools (`weir serve`) mounts them itself. Without it, `weir mount` does: one
//! process serves a file system with all its descendants, and owns the pool while it runs: there,
//! `-R` is what happens anyway.
//!
//! A file system that was received from a redacted stream lacks blocks, which read as zeros: it is
//! mounted only with `-f`, and read-only.

use super::datasets::{Pools, Types, Wanted};
use crate::context::{Context, Failure, Outcome};
use crate::getopt::{ArgKind, Parsed, flag, value};
use crate::json::{self, Object};
use crate::shared_options::JSON;
use crate::verb::{Call, Verb, for_owner};
use crate::zpool::pools;
use admin::mounts::{Plan, Redacted, rules};
use admin::state::Imported;
use admin::verbs::Found;
use admin::verbs::zfs::keys::{self, KeysRequest};
use dataset::{DatasetKind, View, property};
use serde_json::{Value, json};
use std::path::Path;

/// The row of `zfs mount`.
pub static MOUNT: Verb = for_owner("mount", "Mount file systems with FUSE, or list the mounted ones", run)
    .usage(&["[-j]", "[-flOv] [-o opts] -a | -R filesystem ... | filesystem"])
    .options(&[
        JSON,
        flag('R', "Mount all descendants too."),
        flag('l', "Load keys first."),
        flag('v', "Print the progress."),
        flag('f', "Mount file systems that were received from a redacted stream too, read-only."),
        flag('a', "Mount all file systems of all pools."),
        flag('O', "Mount over a directory that is not empty."),
        value(
            'o',
            "opts",
            ArgKind::Words(&[
                "ro", "rw", "suid", "nosuid", "dev", "nodev", "exec", "noexec", "atime", "noatime", "remount",
            ]),
            "Use these mount options, with commas between them.",
        )
        .repeated(),
    ])
    .operands(&[ArgKind::Dataset])
    .history("zfs mount")
    .examples(&[("zfs mount -al", "Load all keys, and mount all file systems.")]);

/// The row of `zfs unmount`.
pub static UNMOUNT: Verb = UNMOUNT_ROW;

/// The row of `zfs umount`.
pub static UMOUNT: Verb = UNMOUNT_ROW.called("umount");

const UNMOUNT_ROW: Verb = for_owner("unmount", "Unmount file systems", unmount)
    .usage(&["[-fu] <-a | filesystem|mountpoint>"])
    .options(&[
        flag('a', "Unmount all file systems of all pools."),
        flag('f', "No effect, as with OpenZFS on Linux: file systems in use stay mounted."),
        flag('u', "Unload the keys of the encryption roots among them."),
    ])
    .operands(&[ArgKind::Dataset])
    .history("zfs unmount")
    .examples(&[("zfs unmount tank/home", "Unmount a file system and those mounted below it.")]);

/// `zfs mount`.
pub fn run(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    if parsed.has('a') || parsed.has('R') || !parsed.operands.is_empty() {
        return mount_some(cx, parsed);
    }
    if parsed.given.iter().any(|(letter, _)| *letter != 'j') {
        return Err(Failure::usage("missing filesystem argument (specify -a for all)"));
    }
    let mounted = crate::mounts::mounted(cx);
    if parsed.has('j') {
        let mut datasets = Object::new();
        for (name, place) in mounted {
            datasets.insert(name.clone(), json!({"filesystem": name, "mountpoint": place}));
        }
        let mut document = json::document("zfs mount");
        document.insert("datasets".into(), Value::Object(datasets));
        cx.print(&json::line(document));
        return Ok(0);
    }
    for (name, place) in mounted {
        cx.print(&format!("{name:30}  {place}\n"));
    }
    Ok(0)
}

fn mount_some(cx: &mut Context<'_>, parsed: &Parsed) -> Outcome {
    let (all, with_children) = (parsed.has('a'), parsed.has('R'));
    let is_too_many = if all { !parsed.operands.is_empty() } else { parsed.operands.len() > 1 && !with_children };
    if parsed.has('j') || is_too_many {
        return Err(Failure::usage("too many arguments"));
    }
    if !all && parsed.operands.is_empty() {
        return Err(Failure::usage("no dataset provided"));
    }
    if all && with_children {
        return Err(Failure::usage("-a and -R are mutually exclusive"));
    }
    if (all || with_children) && cx.owner.is_some() {
        return mount_all(cx, parsed);
    }
    let names: Vec<String> = match all {
        true => pools::records(cx, &[])?.0.into_iter().filter(|r| !r.no_mount).map(|r| r.name).collect(),
        false => parsed.operands.clone(),
    };
    // Without an owner, a mount shows the descendants too.
    let depth = cx.owner.is_some().then_some(0);
    let (mut code, total) = (0, names.len());
    for (done, name) in (1..).zip(names) {
        if parsed.has('l') {
            match load_keys(cx, &name, depth)? {
                Some(loaded) => code |= loaded,
                None => {
                    code = 1;
                    continue;
                }
            }
        }
        match mount_one(cx, &name, parsed) {
            Ok(()) => {}
            // `-a` skips file systems that are mounted already.
            Err(_) if all && crate::mounts::mounted(cx).iter().any(|(d, _)| *d == name) => {}
            Err(message) => {
                if !message.is_empty() {
                    cx.complain(&message);
                }
                code = 1;
            }
        }
        report_progress(cx, parsed, done, total);
    }
    Ok(code)
}

/// `zfs mount -a` and `-R` in a process that owns pools.
fn mount_all(cx: &mut Context<'_>, parsed: &Parsed) -> Outcome {
    let Some(owner) = cx.owner.clone() else { return Ok(0) };
    let mut code = 0;
    let mut wanted = Vec::new();
    for top in &parsed.operands {
        if Pools::new(cx).entry(cx, top)?.is_none() {
            return Ok(1);
        }
    }
    let records = pools::records(cx, &[])?.0;
    for record in &records {
        let tops: Vec<&String> = match parsed.operands.is_empty() {
            true => vec![&record.name],
            false => parsed.operands.iter().filter(|top| admin::verbs::pool_of(top) == record.name).collect(),
        };
        let Some(pool) = pools::owned(cx, record).ok().flatten().filter(|_| !tops.is_empty()) else { continue };
        if parsed.has('l') {
            for top in &tops {
                code |= load_keys(cx, top, None)?.unwrap_or(1);
            }
        }
        let redacted = if parsed.has('f') { Redacted::Mount } else { Redacted::Skip };
        let all = rules::all(&pool, redacted);
        let all = all.map_err(|e| Failure::failed(format!("cannot mount '{}': {e:#}", record.name)))?;
        let is_below = |dataset: &str| tops.iter().any(|top| admin::mounts::is_at_or_below(dataset, top));
        let all = all.into_iter().filter(|(dataset, _)| is_below(dataset) && owner.mounts.of(dataset).is_none());
        wanted.extend(all.map(|(dataset, plan)| (pool.clone(), dataset, plan)));
    }
    let total = wanted.len();
    for (done, (pool, dataset, mut plan)) in (1..).zip(wanted) {
        let atime = rules::text(&pool, &dataset, "atime").unwrap_or_default();
        change_plan(&mut plan, parsed, &atime)
            .map_err(|why| Failure::failed(format!("cannot mount '{dataset}': {why}")))?;
        // A mount may show other file systems too.
        if owner.mounts.of(&dataset).is_none()
            && let Err(error) = owner.mounts.mount(&pool, &dataset, &plan)
        {
            cx.complain(&format!("cannot mount '{}': {}", plan.place.display(), admin::mounts::text(&error)));
            code = 1;
        }
        report_progress(cx, parsed, done, total);
    }
    Ok(code)
}

/// Loads the keys of the file systems at and below `name` that `zfs mount` would mount, each once.
/// Returns the exit code, or `None` if there is no such dataset. Errors have been printed.
fn load_keys(cx: &mut Context<'_>, name: &str, depth: Option<usize>) -> Result<Option<u8>, Failure> {
    let types = Types { volumes: false, ..Types::HEADS };
    let mut pools = Pools::new(cx);
    let (found, code) = pools.list(cx, &[name.to_owned()], Wanted { types, depth, is_recursive: depth != Some(0) })?;
    if code != 0 {
        return Ok(None);
    }
    let mut roots: Vec<String> = Vec::new();
    for one in found.iter().filter(|one| !pools.is_mounted(one.entry.name())) {
        let is_mountable = match text(one, "canmount").as_str() {
            "on" => true,
            "noauto" => one.entry.name() == name,
            _ => false,
        };
        if is_mountable
            && text(one, "mountpoint").starts_with('/')
            && let Some(root) = super::keys::locked(one)
            && !roots.contains(&root)
        {
            roots.push(root);
        }
    }
    let mut code = 0;
    for root in roots {
        code |= u8::from(!super::keys::load_root(cx, root)?);
    }
    Ok(Some(code))
}

/// A property of a file system as text.
fn text(found: &Found, property: &str) -> String {
    let view = View { altroot: found.pool.record.altroot.as_deref(), ..View::default() };
    property::get(&found.entry, property, &view).ok().flatten().map(|p| p.value.raw).unwrap_or_default()
}

/// Whether the file system is mounted already, and its options are to change.
fn is_remount(parsed: &Parsed) -> bool {
    parsed.all('o').flat_map(|o| o.split(',')).any(|option| option == "remount")
}

/// Applies the options of a command line to the mount that the properties describe; `atime`: the
/// property.
fn change_plan(plan: &mut Plan, parsed: &Parsed, atime: &str) -> Result<(), String> {
    plan.needs_empty &= !parsed.has('O');
    for option in parsed.all('o').flat_map(|o| o.split(',')) {
        match option {
            "remount" | "defaults" => {}
            "atime" if atime == "on" => plan.no_atime = false,
            "atime" => return Err("unsupported: mount option 'atime' of a file system with atime=off".to_owned()),
            other => plan.apply(other)?,
        }
    }
    Ok(())
}

/// Prints what `-v` shows: on a terminal after each file system, elsewhere after the last one.
fn report_progress(cx: &mut Context<'_>, parsed: &Parsed, done: usize, total: usize) {
    let on_terminal = cx.client.output_is_terminal();
    if parsed.has('v') && (on_terminal || done == total) {
        let (start, end) = (if on_terminal { "\r" } else { "" }, if done == total { "\n" } else { "" });
        cx.print(&format!("{start}Mounting ZFS filesystems: ({done}/{total}){end}"));
    }
}

fn mount_one(cx: &mut Context<'_>, name: &str, parsed: &Parsed) -> Result<(), String> {
    let mut all = Pools::new(cx);
    let found = all.entry(cx, name).map_err(|e| match e {
        Failure::Failed(message) | Failure::Usage(message) | Failure::Refused { message, .. } => message,
        Failure::Code(_) => String::new(),
    })?;
    let Some(found) = found else { return Err(String::new()) };
    let dataset = match found.entry.dataset() {
        Some(d) if matches!(found.entry.kind(), Ok(DatasetKind::FileSystem)) => d,
        _ => return Err(format!("cannot open '{name}': operation not applicable to datasets of this type")),
    };
    let cannot = |why: &str| Err(format!("cannot mount '{name}': {why}"));
    if is_remount(parsed) {
        return remount(cx, &found, parsed).or_else(|why| cannot(&why));
    }
    if all.is_mounted(name) {
        return cannot("filesystem already mounted");
    }
    let place = text(&found, "mountpoint");
    // `-a` leaves out what is not to be mounted by itself.
    if parsed.has('a') && (matches!(place.as_str(), "legacy" | "none") || text(&found, "canmount") != "on") {
        return Ok(());
    }
    match place.as_str() {
        "legacy" => return cannot("legacy mountpoint\nuse weir mount to mount this filesystem"),
        "none" => return cannot("no mountpoint set"),
        _ if text(&found, "canmount") == "off" => return cannot("'canmount' property is set to 'off'"),
        _ => {}
    }
    if !found.pool.keys.is_available(dataset).unwrap_or(true) {
        // With `-l`, the reason has been printed.
        return if parsed.has('l') { Err(String::new()) } else { cannot("encryption key not loaded") };
    }
    if !parsed.has('f') && text(&found, "redacted") == "1" {
        // `-a` leaves it out.
        let why = "Dataset is not complete, was created by receiving a redacted zfs send stream.";
        return if parsed.has('a') { Ok(()) } else { cannot(why) };
    }
    let failed = |why: String| format!("cannot mount '{place}': {why}");
    if let Some(owner) = crate::mounts::owner(cx, found.pool.record.guid) {
        let pool = owner.house.import(&found.pool.record).map_err(|e| failed(format!("{e:#}")))?;
        let mut plan = rules::plan(&pool, name, Redacted::Mount).map_err(|e| failed(format!("{e:?}")))?;
        change_plan(&mut plan, parsed, &text(&found, "atime")).map_err(failed)?;
        return owner.mounts.mount(&pool, name, &plan).map_err(|e| failed(admin::mounts::text(&e)));
    }
    if text(&found, "overlay") == "off" && !parsed.has('O') && admin::mounts::has_entries(Path::new(&place)) {
        return Err(failed(admin::mounts::NOT_EMPTY.to_owned()));
    }
    std::fs::create_dir_all(&place).map_err(|e| failed(format!("failed to create mountpoint: {e}")))?;
    let program = std::env::current_exe().map_err(|e| format!("cannot mount '{name}': {e}"))?;
    let mut command = std::process::Command::new(program);
    command.arg("--state").arg(cx.state.folder()).args(["mount", name, &place]);
    parsed.all('o').for_each(|o| {
        command.args(["-o", o]);
    });
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        // The verb has printed the error.
        Ok(_) => Err(String::new()),
        Err(e) => cannot(&e.to_string()),
    }
}

/// `-o remount`: changes the options of a mounted file system to its properties and the options of
/// the command line.
fn remount(cx: &Context<'_>, found: &Found, parsed: &Parsed) -> Result<(), String> {
    let name = found.entry.name();
    let Some(owner) = crate::mounts::owner(cx, found.pool.record.guid) else {
        return Err("unsupported: remounting without a daemon that has the pool".to_owned());
    };
    let pool = owner.house.import(&found.pool.record).map_err(|e| format!("{e:#}"))?;
    let mut plan = rules::plan(&pool, name, Redacted::Mount).map_err(|e| format!("{e:?}"))?;
    change_plan(&mut plan, parsed, &text(found, "atime"))?;
    owner.mounts.remount(name, &plan).map_err(|e| admin::mounts::text(&e))
}

/// `zfs unmount`.
pub fn unmount(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    if !parsed.has('u') {
        return unmount_some(cx, parsed);
    }
    let before = mounts_of_keys(cx);
    let code = unmount_some(cx, parsed)?;
    let after = crate::mounts::mounted(cx);
    let is_gone = |mount: &KeyUser| after.iter().all(|(dataset, _)| *dataset != mount.dataset);
    let gone: Vec<KeyUser> = before.into_iter().filter(is_gone).collect();
    let names: Vec<String> = gone.iter().filter(|mount| !mount.with_children).map(|m| m.dataset.clone()).collect();
    let unloaded = unload_keys(cx, gone)?;
    if unloaded != 0 {
        mount_again(cx, &names)?;
    }
    Ok(code | unloaded)
}

/// Mounts file systems again of which a key could not be unloaded, parents first: `-u` then has
/// changed nothing. Facts: `changelist_remount_subtree` in lib/libzfs/libzfs_changelist.c.
fn mount_again(cx: &mut Context<'_>, names: &[String]) -> Result<(), Failure> {
    let (records, _) = pools::records(cx, &[])?;
    for record in &records {
        let of_pool = |name: &&String| admin::verbs::pool_of(name) == record.name;
        let names: Vec<String> = names.iter().filter(of_pool).cloned().collect();
        if let Some(owner) = crate::mounts::owner(cx, record.guid).filter(|_| !names.is_empty()) {
            crate::mounts::mount_again(cx, &owner, record, &names);
        }
    }
    Ok(())
}

/// A mounted file system, whose keys `-u` may unload.
struct KeyUser {
    dataset: String,
    /// The mount shows the descendants too.
    with_children: bool,
}

fn mounts_of_keys(cx: &Context<'_>) -> Vec<KeyUser> {
    match &cx.owner {
        Some(owner) => {
            let user = |m: admin::mounts::Mounted| KeyUser { dataset: m.dataset, with_children: m.by_hand };
            owner.mounts.list().into_iter().map(user).collect()
        }
        None => crate::mount_table::mounted()
            .into_iter()
            .map(|(dataset, _)| KeyUser { dataset, with_children: true })
            .collect(),
    }
}

/// Unloads the keys of the encryption roots among these file systems.
fn unload_keys(cx: &mut Context<'_>, gone: Vec<KeyUser>) -> Outcome {
    let (mut roots, mut code): (Vec<String>, u8) = (Vec::new(), 0);
    for KeyUser { dataset, with_children } in gone {
        let depth = if with_children { None } else { Some(0) };
        let types = Types { volumes: false, ..Types::HEADS };
        let (found, failed) =
            Pools::new(cx).list(cx, &[dataset], Wanted { types, depth, is_recursive: depth != Some(0) })?;
        code |= failed;
        for one in &found {
            let Some(dataset) = one.entry.dataset() else { continue };
            let root = dataset.encryption_root().ok().flatten();
            let is_root = root.is_some_and(|root| root.name() == dataset.name());
            if is_root && super::keys::locked(one).is_none() && roots.iter().all(|root| root != dataset.name()) {
                roots.push(dataset.name().to_owned());
            }
        }
    }
    for root in roots {
        let request = KeysRequest { datasets: vec![root], recursive: false };
        let outcome = keys::unload(&cx.invocation(request.command_line()), &request)?;
        code |= super::keys::report(cx, outcome, "unloaded", false)?;
    }
    Ok(code)
}

fn unmount_some(cx: &mut Context<'_>, parsed: &Parsed) -> Outcome {
    let (records, _) = pools::records(cx, &[])?;
    let name = match (parsed.has('a'), parsed.operands.as_slice()) {
        (true, []) => return unmount_all(cx, &records),
        (false, [name]) => name,
        (false, []) => return Err(Failure::usage("missing filesystem argument")),
        _ => return Err(Failure::usage("too many arguments")),
    };
    let is_it = |d: &str, p: &str| if name.starts_with('/') { p == name } else { d == name };
    let found =
        crate::mounts::mounted(cx).into_iter().find(|(d, p)| is_it(d, p) && crate::mounts::is_ours(cx, &records, d, p));
    let Some((dataset, place)) = found else {
        if name.starts_with('/') {
            return Err(Failure::failed(format!("cannot unmount '{name}': not currently mounted")));
        }
        return match Pools::new(cx).entry(cx, name)? {
            None => Ok(1),
            Some(_) => Err(Failure::failed(format!("cannot unmount '{name}': not currently mounted"))),
        };
    };
    if let Some(found) = Pools::new(cx).entry(cx, &dataset)?
        && text(&found, "mountpoint") == "legacy"
    {
        let how = "use umount(8) to unmount this filesystem";
        return Err(Failure::failed(format!("cannot unmount '{dataset}': legacy mountpoint\n{how}")));
    }
    let record = records.iter().find(|r| r.name == admin::verbs::pool_of(&dataset));
    if let Some((owner, record)) = record.and_then(|r| Some((crate::mounts::owner(cx, r.guid)?, r))) {
        crate::mounts::unmount_below(&owner, record, &dataset, false).map_err(Failure::failed)?;
        return Ok(0);
    }
    serve::fuse::unmount_below(Path::new(&place), false).map_err(|e| {
        let why = match e.kind() {
            std::io::ErrorKind::ResourceBusy => "pool or dataset is busy".to_owned(),
            _ => e.to_string(),
        };
        Failure::failed(format!("cannot unmount '{place}': {why}"))
    })?;
    records
        .iter()
        .filter(|r| r.name == admin::verbs::pool_of(&dataset))
        .for_each(|r| crate::mount_process::wait_for(&cx.state, r));
    Ok(0)
}

/// `-a`: every file system on its own, children first; those that are not mounted by `zfs mount -a`
/// stay. Facts: `unshare_unmount` in cmd/zfs/zfs_main.c.
fn unmount_all(cx: &mut Context<'_>, records: &[Imported]) -> Outcome {
    let Some(owner) = cx.owner.clone() else {
        for record in records {
            crate::mounts::release(cx, record, false).map_err(Failure::failed)?;
        }
        return Ok(0);
    };
    let mut code = 0;
    for mounted in owner.mounts.list().into_iter().rev().filter(|mounted| !mounted.dataset.contains('@')) {
        let Some(found) = Pools::new(cx).entry(cx, &mounted.dataset)? else {
            code = 1;
            continue;
        };
        if text(&found, "mountpoint") == "legacy" || text(&found, "canmount") == "noauto" {
            continue;
        }
        if let Err(error) = owner.unmount(&mounted.dataset) {
            cx.complain(&admin::mounts::cannot_unmount(&(mounted.place, error)));
            code = 1;
        }
    }
    Ok(code)
}
