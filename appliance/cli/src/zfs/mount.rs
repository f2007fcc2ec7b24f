//! `zfs mount` and `zfs unmount`: mounts file systems where their `mountpoint` property says.
//!
//! A process that owns pools (`weir serve`) mounts them itself. Without it, `weir mount` does: one
//! process serves a file system with all its descendants, and owns the pool while it runs.

use super::datasets::Pools;
use crate::context::{Context, Failure, Outcome};
use crate::getopt::Options;
use crate::json::{self, Object};
use crate::zpool::pools;
use admin::mounts::rules;
use dataset::{DatasetKind, View, property};
use serde_json::{Value, json};
use std::path::Path;

const OPTIONS: Options = Options { short: "jRlvfaOo:", long: &[("json", false, 'j')] };
const UNMOUNT: Options = Options { short: "afu", long: &[] };

/// What the kernel calls Weir's mounts.
const KIND: &str = "fuse.weir";

/// A mount of the kernel's table.
struct KernelMount {
    /// The dataset, of a mount of Weir.
    source: String,
    place: String,
    kind: String,
}

/// The kernel's table; a later mount hides an earlier one at the same place.
fn table() -> Vec<KernelMount> {
    let table = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let entry = |line: &str| {
        let mut parts = line.split(' ');
        let (source, place, kind) = (parts.next()?, parts.next()?, parts.next()?);
        Some(KernelMount { source: unescape(source), place: unescape(place), kind: kind.to_owned() })
    };
    table.lines().filter_map(entry).collect()
}

/// Datasets that `weir mount` has mounted, and where.
pub fn mounted() -> Vec<(String, String)> {
    table().into_iter().filter(|m| m.kind == KIND).map(|m| (m.source, m.place)).collect()
}

/// The dataset whose mount contains a path, which must be free of symbolic links; `None`: the path
/// is in no mount of Weir. `ours` are the datasets that this process serves, some of them through
/// the mount of another dataset.
pub fn holding(path: &Path, ours: &[(String, String)]) -> Option<String> {
    let depth = |place: &str| path.starts_with(place).then(|| Path::new(place).components().count());
    let kernel = table();
    let mount = kernel.iter().filter_map(|m| Some((depth(&m.place)?, m))).max_by_key(|(depth, _)| *depth);
    let shown = ours.iter().filter_map(|(dataset, place)| Some((depth(place)?, dataset))).max();
    match (mount, shown) {
        (Some((outer, mount)), Some((inner, dataset))) if inner > outer && mount.kind == KIND => Some(dataset.clone()),
        (Some((_, mount)), _) if mount.kind == KIND => Some(mount.source.clone()),
        _ => None,
    }
}

/// The kernel writes spaces and the like as a backslash and three octal digits.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let octal = tail.get(..3).filter(|d| *first == b'\\' && d.iter().all(|d| (b'0'..=b'7').contains(d)));
        match octal {
            Some(digits) => {
                let number = digits.iter().fold(0u32, |n, d| n * 8 + u32::from(d - b'0'));
                bytes.push(u8::try_from(number).unwrap_or(b'?'));
                rest = &tail[3..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// `zfs mount`.
pub fn run(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = OPTIONS.parse(args).map_err(Failure::usage)?;
    if parsed.has('a') || !parsed.operands.is_empty() {
        return mount_some(cx, &parsed);
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

fn mount_some(cx: &mut Context<'_>, parsed: &crate::getopt::Parsed) -> Outcome {
    if parsed.has('a') && parsed.operands.is_empty() && cx.owner.is_some() {
        return mount_all(cx);
    }
    let names: Vec<String> = match (parsed.has('a'), parsed.operands.as_slice()) {
        (true, []) => pools::records(cx, &[])?.0.into_iter().filter(|r| !r.no_mount).map(|r| r.name).collect(),
        (false, [name]) => vec![name.clone()],
        _ => return Err(Failure::usage("too many arguments")),
    };
    let mut code = 0;
    for name in names {
        match mount_one(cx, &name, parsed) {
            Ok(()) => {}
            // `-a` skips file systems that are mounted already.
            Err(_) if parsed.has('a') && crate::mounts::mounted(cx).iter().any(|(d, _)| *d == name) => {}
            Err(message) => {
                if !message.is_empty() {
                    cx.complain(&message);
                }
                code = 1;
            }
        }
    }
    Ok(code)
}

/// `zfs mount -a` in a process that owns pools.
fn mount_all(cx: &mut Context<'_>) -> Outcome {
    let Some(owner) = cx.owner.clone() else { return Ok(0) };
    let mut code = 0;
    for record in pools::records(cx, &[])?.0 {
        let Ok(Some(pool)) = pools::owned(cx, &record) else { continue };
        let all = rules::all(&pool).map_err(|e| Failure::failed(format!("cannot mount '{}': {e:#}", record.name)))?;
        for (dataset, plan) in all.iter().filter(|(dataset, _)| owner.mounts.of(dataset).is_none()) {
            if let Err(error) = owner.mounts.mount(&pool, dataset, plan) {
                cx.complain(&format!("cannot mount '{}': {}", plan.place.display(), admin::mounts::text(&error)));
                code = 1;
            }
        }
    }
    Ok(code)
}

fn mount_one(cx: &mut Context<'_>, name: &str, parsed: &crate::getopt::Parsed) -> Result<(), String> {
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
    if all.is_mounted(name) {
        return cannot("filesystem already mounted");
    }
    let view = View { altroot: found.pool.record.altroot.as_deref(), ..View::default() };
    let text = |property: &str| {
        property::get(&found.entry, property, &view).ok().flatten().map(|p| p.value.raw).unwrap_or_default()
    };
    let place = text("mountpoint");
    // `-a` leaves out what is not to be mounted by itself.
    if parsed.has('a') && (matches!(place.as_str(), "legacy" | "none") || text("canmount") != "on") {
        return Ok(());
    }
    match place.as_str() {
        "legacy" => return cannot("legacy mountpoint\nuse weir mount to mount this filesystem"),
        "none" => return cannot("no mountpoint set"),
        _ if text("canmount") == "off" => return cannot("'canmount' property is set to 'off'"),
        _ => {}
    }
    if parsed.has('l') && !found.pool.keys.is_available(dataset).unwrap_or(true) {
        match super::keys::load(cx, &[name.to_owned()]) {
            Ok(0) => {}
            _ => return Err(String::new()),
        }
    } else if !found.pool.keys.is_available(dataset).unwrap_or(true) {
        return cannot("encryption key not loaded");
    }
    if let Some(owner) = crate::mounts::owner(cx, found.pool.record.guid) {
        let failed = |why: String| format!("cannot mount '{place}': {why}");
        let pool = owner.house.import(&found.pool.record).map_err(|e| failed(format!("{e:#}")))?;
        let mut plan = rules::plan(&pool, name).map_err(|e| failed(format!("{e:?}")))?;
        for option in parsed.all('o').flat_map(|o| o.split(',')) {
            match option {
                "ro" => plan.read_only = true,
                "rw" => plan.read_only = false,
                "suid" | "nosuid" => plan.setuid = option == "suid",
                "dev" | "nodev" => plan.devices = option == "dev",
                "exec" | "noexec" => plan.no_exec = option == "noexec",
                other => return Err(failed(format!("unsupported: mount option '{other}'"))),
            }
        }
        return owner.mounts.mount(&pool, name, &plan).map_err(|e| failed(admin::mounts::text(&e)));
    }
    std::fs::create_dir_all(&place).map_err(|e| format!("cannot mount '{place}': failed to create mountpoint: {e}"))?;
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

/// `zfs unmount`.
pub fn unmount(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = UNMOUNT.parse(args).map_err(Failure::usage)?;
    let (records, _) = pools::records(cx, &[])?;
    let force = parsed.has('f');
    let name = match (parsed.has('a'), parsed.operands.as_slice()) {
        (true, []) => {
            for record in &records {
                crate::mounts::release(cx, record, force).map_err(Failure::failed)?;
            }
            return Ok(0);
        }
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
    let record = records.iter().find(|r| r.name == admin::verbs::pool_of(&dataset));
    if let Some((owner, record)) = record.and_then(|r| Some((crate::mounts::owner(cx, r.guid)?, r))) {
        crate::mounts::unmount_below(&owner, record, &dataset, force).map_err(Failure::failed)?;
        return Ok(0);
    }
    serve::fuse::unmount_below(std::path::Path::new(&place), force).map_err(|e| {
        let why = match e.kind() {
            std::io::ErrorKind::ResourceBusy => "pool or dataset is busy".to_owned(),
            _ => e.to_string(),
        };
        Failure::failed(format!("cannot unmount '{place}': {why}"))
    })?;
    records
        .iter()
        .filter(|r| r.name == admin::verbs::pool_of(&dataset))
        .for_each(|r| crate::mounts::wait_for(&cx.state, r));
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_table_is_unescaped() {
        assert_eq!(unescape(r"tank/sp\040ace"), "tank/sp ace");
        assert_eq!(unescape(r"a\134b\9"), r"a\b\9");
    }
}
