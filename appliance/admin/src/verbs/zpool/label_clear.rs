//! `zpool labelclear`: removes a pool's labels from a device.

use super::imported_devices::ImportedDevices;
use crate::layout::{Owner, owner};
use crate::verbs::line::line;
use crate::verbs::{Invocation, Kind, Reason, Refusal};
use pool::devices;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A device to remove labels from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelClearRequest {
    /// A path, or a name in /dev.
    pub device: String,
    /// Of an exported pool, or one that may be in use elsewhere (`-f`).
    pub force: bool,
}

impl LabelClearRequest {
    /// The request as a command line, for logs.
    pub fn command_line(&self) -> String {
        line("zpool labelclear", &[(self.force, "-f")], &[], [&*self.device])
    }
}

/// Exit code of OpenZFS's command for a device without labels: -1 of a C function.
const NO_LABEL: u8 = 255;

/// Erases the labels. Refused for devices without labels, for devices of imported pools, and
/// without `force` for those of other pools.
pub fn run(invocation: &Invocation<'_>, request: &LabelClearRequest) -> Result<(), Refusal> {
    let LabelClearRequest { device: name, force } = request;
    let is_path = name.starts_with('/');
    let path = if is_path { PathBuf::from(name) } else { Path::new("/dev").join(name) };
    if let Err(error) = std::fs::OpenOptions::new().read(true).write(true).open(&path) {
        return Err(cannot_open(name, &path, is_path, &error));
    }
    let shown = path.display();
    let imported = ImportedDevices::new(invocation)?;
    let member = |state: &str, pool: &str| {
        Err(Refusal::new(Kind::Conflict, format!("{shown} is a member ({state}) of pool \"{pool}\"")))
    };
    // Labels of a device that left its pool name none: `labelled` does not return them.
    let left = match devices::labelled(&path).and_then(|found| owner(&found, &imported)) {
        Some(Owner::Active(pool)) => return member("ACTIVE", &pool),
        Some(Owner::Spare(pool)) => return member("SPARE", &pool),
        Some(Owner::Cache(pool)) => return member("L2CACHE", &pool),
        Some(Owner::PotentiallyActive(pool)) => Some(("potentially active", pool)),
        Some(Owner::Exported(pool)) => Some(("exported", pool)),
        None => None,
    };
    if let (Some((kind, pool)), false) = (left, *force) {
        let why = format!("use '-f' to override the following error:\n{shown} is a member of {kind} pool \"{pool}\"");
        return Err(Refusal::new(Kind::Conflict, why));
    }
    let cannot = format!("failed to clear label for {shown}");
    match devices::clear(&path) {
        Ok(0) => Err(Refusal::new(Kind::Invalid, cannot).with_code(NO_LABEL)),
        Ok(_) => Ok(()),
        Err(error) => Err(Reason::from(error).refuse(&cannot)),
    }
}

fn cannot_open(name: &str, path: &Path, is_path: bool, error: &std::io::Error) -> Refusal {
    let kind = match error.kind() {
        ErrorKind::NotFound => Kind::NotFound,
        ErrorKind::PermissionDenied => Kind::Forbidden,
        _ => Kind::Failed,
    };
    Refusal::new(
        kind,
        match (is_path, error.kind()) {
            (false, ErrorKind::NotFound) => {
                format!("failed to find device {name}, try specifying absolute path instead")
            }
            _ => format!("failed to open {}: {}", path.display(), host::os_text(error)),
        },
    )
}
