//! `beadm mount` and `unmount`: mounts an environment with all of its parts at another place than
//! where it would run.

use super::face::operand;
use super::lookup::{Found, one, running};
use crate::context::{Context, Failure, Outcome};
use crate::getopt::{ArgKind, flag, value};
use crate::mounts::owner;
use crate::verb::{Call, Verb, for_owner};
use daemon::mounts::Shape;
use serve::fuse::MountOptions;
use std::path::{Path, PathBuf};

/// The row of `beadm mount`.
pub static MOUNT: Verb = for_owner("mount", "Mount all parts of an environment", mount)
    .usage(&["[-v] beName [mountpoint]"])
    .options(&[
        value('s', "ro|rw", ArgKind::Words(&["ro", "rw"]), "Mount file systems that zones share.")
            .refused("unsupported: -s (shared file systems of zones)"),
        flag('v', "Print each step."),
    ])
    .operands(&[ArgKind::Text, ArgKind::File])
    .history("beadm mount")
    .examples(&[("beadm mount new /mnt", "Mount an environment to look at it or to change it.")]);

/// The row of `beadm unmount`.
pub static UNMOUNT: Verb = UNMOUNT_ROW;

/// The row of `beadm umount`.
pub static UMOUNT: Verb = UNMOUNT_ROW.called("umount");

const UNMOUNT_ROW: Verb = for_owner("unmount", "Unmount an environment", unmount)
    .usage(&["[-fv] beName|mountpoint"])
    .options(&[flag('f', "Unmount the environment even if it is in use."), flag('v', "Print each step.")])
    .operands(&[ArgKind::Text])
    .history("beadm unmount")
    .examples(&[("beadm unmount new", "Unmount an environment.")]);

/// `beadm mount`.
pub fn mount(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let (name, place) = match parsed.operands.as_slice() {
        [name] => (name.clone(), None),
        [name, place] => (name.clone(), Some(place.clone())),
        _ => return Err(Failure::usage("")),
    };
    if let Some(place) = place.as_deref().filter(|place| !place.starts_with('/')) {
        return Err(Failure::failed(format!("Invalid mount point {place}. Mount point must start with a /.")));
    }
    let found = one(cx, &name, None)?;
    let place =
        at(cx, &found, place.as_deref()).map_err(|why| Failure::failed(format!("Unable to mount {name}.\n{why}")))?;
    cx.print(&format!("Mounted successfully on: '{}'\n", place.display()));
    Ok(0)
}

/// Mounts an environment at `place`, or in a new temporary directory. The error is a sentence.
pub(super) fn at(cx: &mut Context<'_>, found: &Found, place: Option<&str>) -> Result<PathBuf, String> {
    let root = found.environment.root().to_owned();
    if let Some((_, place)) = crate::mounts::mounted(cx).into_iter().find(|(dataset, _)| *dataset == root) {
        return Err(format!(
            "{} is already mounted on '{place}'.\nPlease unmount the BE before mounting it again.",
            found.name()
        ));
    }
    if running().as_deref() == Some(&root) {
        return Err("The machine is running from it.".to_owned());
    }
    let dir = match place {
        Some(place) => PathBuf::from(place),
        None => temporary().map_err(|e| format!("cannot create a temporary directory: {e}"))?,
    };
    std::fs::create_dir_all(&dir).map_err(|e| format!("cannot create '{}': {e}", dir.display()))?;
    match owner(cx, found.record().guid) {
        Some(owner) => {
            let failed = |e: &dyn std::fmt::Display| e.to_string();
            let pool = owner.house.import(found.record()).map_err(|e| failed(&format!("{e:#}")))?;
            let provider = pool.provider(&root).map_err(|e| failed(&format!("{e:#}")))?;
            let shape = Shape { children: true, separate: rustix::process::geteuid().is_root() };
            // Writes of other servers must be visible: no write-back cache.
            let options = MountOptions { write_back: false, ..MountOptions::default() };
            let mounted = owner.mounts.mount_tree(pool.guid(), provider, &dir, &options, shape);
            mounted.map_err(|e| admin::mounts::text(&e))?;
        }
        None => by_process(cx, &root, &dir)?,
    }
    Ok(dir)
}

fn by_process(cx: &Context<'_>, dataset: &str, dir: &Path) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut command = std::process::Command::new(program);
    command.arg("--state").arg(cx.state.folder()).args(["mount", dataset]).arg(dir);
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err("See the message of weir mount above.".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// A directory for one mount. It is not removed at unmount, as with bectl(8).
fn temporary() -> std::io::Result<PathBuf> {
    let above = std::env::temp_dir();
    loop {
        let dir = above.join(format!("be_mount.{:08x}", host::random::u64() >> 32));
        match std::fs::create_dir(&dir) {
            Ok(()) => return Ok(dir),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

/// `beadm unmount`.
pub fn unmount(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let name = operand(parsed)?.to_owned();
    from(cx, &name, parsed.has('f'), None)?;
    cx.print("Unmounted successfully\n");
    Ok(0)
}

/// Unmounts an environment, given by name or mount point.
pub(super) fn from(cx: &mut Context<'_>, name: &str, force: bool, root: Option<&str>) -> Result<(), Failure> {
    let what = match name.starts_with('/') {
        true => name.to_owned(),
        false => {
            let found = one(cx, name, root)?;
            if running().as_deref() == Some(found.environment.root()) {
                return Err(Failure::failed(format!(
                    "{name} is the currently active BE.\nIt cannot be unmounted unless another BE is the currently active BE."
                )));
            }
            found.environment.root().to_owned()
        }
    };
    let args: Vec<String> = force.then(|| "-f".to_owned()).into_iter().chain([what]).collect();
    match crate::zfs::mount::unmount(cx, &crate::zfs::mount::UNMOUNT.call(&args)?)? {
        0 => Ok(()),
        code => Err(Failure::Code(code)),
    }
}
