//! `zfs share` and `zfs unshare`: control for now which file systems NFS and SMB clients may use.
//!
//! `weir serve` applies changes of `sharenfs` and `sharesmb` itself, as soon as they are set. An
//! unshared file system stays unshared until `zfs share`, or until the daemon restarts. `share -l`
//! first loads the keys of the file systems that it shares. A file system whose key is not loaded
//! is refused, or left out by `-a`, as by OpenZFS.

use super::datasets::{Pools, Types, Wanted};
use crate::context::{Context, Failure, Outcome};
use crate::getopt::{ArgKind, flag};
use crate::verb::{Call, Verb, for_owner};
use admin::verbs::Found;
use daemon::Owner;
use dataset::{DatasetKind, View, property};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// The row of `zfs share`.
pub static SHARE: Verb = for_owner("share", "Share file systems according to sharenfs and sharesmb", share)
    .usage(&["[-l] <-a [nfs|smb] | filesystem>"])
    .options(&[flag('a', "Share all file systems of all pools."), flag('l', "Load keys first.")])
    .operands(&[ArgKind::Dataset])
    .history("zfs share")
    .examples(&[("zfs share -a nfs", "Share everything by NFS again.")]);

/// The row of `zfs unshare`.
pub static UNSHARE: Verb = for_owner("unshare", "Stop sharing file systems", unshare)
    .usage(&["<-a [nfs|smb] | filesystem|mountpoint>"])
    .options(&[flag('a', "Stop sharing all file systems of all pools.")])
    .operands(&[ArgKind::Dataset])
    .history("zfs unshare")
    .examples(&[("zfs unshare tank/home", "Stop sharing a file system until zfs share or a restart.")]);

/// The property of a protocol, and the set of file systems that are unshared for it.
type Protocol = (&'static str, fn(&Owner) -> &Mutex<BTreeSet<String>>);

const NFS: Protocol = ("sharenfs", |owner| &owner.unshared);
const SMB: Protocol = ("sharesmb", |owner| &owner.unshared_smb);

/// The protocols that the operands select.
fn protocols(all: bool, operands: &[String]) -> Vec<Protocol> {
    match (all, operands) {
        (true, [only]) if only == "nfs" => vec![NFS],
        (true, [only]) if only == "smb" => vec![SMB],
        _ => vec![NFS, SMB],
    }
}

/// `zfs share`.
pub fn share(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    if !parsed.has('a') && parsed.operands.is_empty() {
        return Err(Failure::usage("missing filesystem argument (specify -a for all)"));
    }
    if let [name] = parsed.operands.as_slice()
        && !parsed.has('a')
        && name.starts_with('/')
    {
        return Err(Failure::failed(format!("cannot open '{name}': leading slash in name")));
    }
    let Some((owner, found, mut code)) = wanted(cx, "share", parsed.has('a'), &parsed.operands)? else { return Ok(0) };
    let protocols = protocols(parsed.has('a'), &parsed.operands);
    for one in found {
        let name = one.entry.name();
        let on: Vec<&Protocol> = protocols.iter().filter(|(property, _)| value(&one, property) != "off").collect();
        if on.is_empty() {
            if !parsed.has('a') {
                cx.complain(&format!(
                    "cannot share '{name}': legacy share\nuse exports(5) or smb.conf(5) to share this filesystem, or set the \
                     sharenfs or sharesmb property"
                ));
                code = 1;
            }
            continue;
        }
        if let Some(why) = not_shown(&one) {
            if !parsed.has('a') {
                cx.complain(&format!("cannot share '{name}': {why}"));
                code = 1;
            }
            continue;
        }
        let root = super::keys::locked(&one);
        let was_locked = root.is_some();
        if let Some(root) = root {
            match parsed.has('l') {
                true if super::keys::load_root(cx, root)? => {}
                true => {
                    code = 1;
                    continue;
                }
                false if parsed.has('a') => continue,
                false => {
                    cx.complain(&format!("cannot share '{name}': encryption key not loaded"));
                    code = 1;
                    continue;
                }
            }
        }
        let was = on.iter().filter(|(_, unshared)| unshared(&owner).lock().remove(name)).count();
        if was == 0 && !was_locked && !parsed.has('a') {
            cx.complain(&format!("cannot share '{name}': filesystem already shared"));
            code = 1;
        }
    }
    Ok(code)
}

/// Why a file system has no place where clients could see it.
fn not_shown(found: &Found) -> Option<&'static str> {
    match value(found, "mountpoint").as_str() {
        "legacy" => Some("legacy mountpoint\nuse share(8) to share this filesystem"),
        "none" => Some("no mountpoint set"),
        _ if value(found, "canmount") == "off" => Some("'canmount' property is set to 'off'"),
        _ => None,
    }
}

/// `zfs unshare`.
pub fn unshare(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let Some((owner, found, mut code)) = wanted(cx, "unshare", parsed.has('a'), &parsed.operands)? else {
        return Ok(0);
    };
    let protocols = protocols(parsed.has('a'), &parsed.operands);
    for one in found {
        let name = one.entry.name().to_owned();
        let on: Vec<&Protocol> = protocols.iter().filter(|(property, _)| value(&one, property) != "off").collect();
        let removed = on.iter().filter(|(_, unshared)| unshared(&owner).lock().insert(name.clone())).count();
        if removed > 0 || parsed.has('a') {
            continue;
        }
        // OpenZFS names what the user typed, and other tools for a mount point.
        let typed = parsed.operands.first().unwrap_or(&name);
        let tools = if typed.starts_with('/') { "exportfs(8) or smbcontrol(1)" } else { "exports(5) or smb.conf(5)" };
        cx.complain(&match on.is_empty() {
            true => format!("cannot unshare '{typed}': legacy share\nuse {tools} to unshare this filesystem"),
            false => format!("cannot unshare '{typed}': not currently shared"),
        });
        code = 1;
    }
    Ok(code)
}

type Chosen = (Arc<Owner>, Vec<Found>, u8);

/// The file systems that the operands select, by name or by mount point.
fn wanted(cx: &mut Context<'_>, verb: &str, all: bool, operands: &[String]) -> Result<Option<Chosen>, Failure> {
    let names = match (all, operands) {
        (true, []) => Vec::new(),
        (true, [protocol]) if protocol == "nfs" || protocol == "smb" => Vec::new(),
        (true, [_]) => return Err(Failure::usage("share type must be one of: nfs, smb")),
        (false, [name]) => vec![name.clone()],
        (false, []) => return Err(Failure::usage("missing filesystem argument")),
        _ => return Err(Failure::usage("too many arguments")),
    };
    let Some(owner) = cx.owner.clone() else {
        return Err(Failure::failed(format!(
            "cannot {verb}: 'weir serve' is not running, and it is what serves NFS and SMB"
        )));
    };
    let (depth, types) = if all { (None, Types::HEADS) } else { (Some(0), Types::HEADS) };
    let mut pools = Pools::new(cx);
    let place = names.first().filter(|n| n.starts_with('/')).map(|n| match n.trim_end_matches('/') {
        "" => "/".to_owned(),
        trimmed => trimmed.to_owned(),
    });
    let names = if place.is_some() { Vec::new() } else { names };
    let (found, code) = pools.list(cx, &names, Wanted { types, depth, is_recursive: depth != Some(0) })?;
    let is_wanted = |f: &Found| {
        let is_files = matches!(f.entry.kind(), Ok(DatasetKind::FileSystem));
        is_files && place.as_ref().is_none_or(|place| value(f, "mountpoint") == *place)
    };
    let found: Vec<Found> = found.into_iter().filter(is_wanted).collect();
    if !all && found.is_empty() && code == 0 {
        let name = &operands[0];
        let why = match place {
            Some(place) => not_a_mount_point(verb, name, Path::new(&place)),
            None => format!("cannot open '{name}': operation not applicable to datasets of this type"),
        };
        return Err(Failure::failed(why));
    }
    Ok(Some((owner, found, code)))
}

/// Why a path selects no file system.
fn not_a_mount_point(verb: &str, name: &str, place: &Path) -> String {
    match place.canonicalize() {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            format!("cannot open '{name}': No such file or directory\ncannot {verb} '{name}': not currently mounted")
        }
        Ok(path) if crate::mount_table::holding(&path, &[]).is_some() => {
            format!("cannot {verb} '{name}': not a mountpoint")
        }
        _ => format!("cannot {verb} '{name}': not a ZFS filesystem"),
    }
}

fn value(found: &Found, name: &str) -> String {
    let view = View { altroot: found.pool.record.altroot.as_deref(), ..View::default() };
    property::get(&found.entry, name, &view).ok().flatten().map(|p| p.value.raw).unwrap_or_default()
}
