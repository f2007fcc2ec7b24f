//! `zpool labelclear`: removes a pool's labels from a device.

use super::imported;
use crate::verbs::line::line;
use crate::verbs::{Invocation, Kind, Reason, Refusal};
use pool::{PoolState, devices};
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

/// Removes the labels.
pub fn run(invocation: &Invocation<'_>, request: &LabelClearRequest) -> Result<(), Refusal> {
    let LabelClearRequest { device: name, force } = request;
    let is_path = name.starts_with('/');
    let path = if is_path { PathBuf::from(name) } else { Path::new("/dev").join(name) };
    if let Err(error) = std::fs::OpenOptions::new().read(true).write(true).open(&path) {
        return Err(cannot_open(name, &path, is_path, &error));
    }
    let shown = path.display();
    let Some(found) = devices::labelled(&path) else {
        return Err(Refusal::new(Kind::Invalid, format!("failed to read label from {shown}")));
    };
    let pool = found.config.get_str("name").unwrap_or_default();
    let is_imported = imported(invocation)?.iter().any(|p| Some(p.guid) == found.config.get_u64("pool_guid"));
    let kind = match PoolState::from_number(found.config.get_u64("state").unwrap_or(u64::MAX)) {
        PoolState::Active | PoolState::Exported if is_imported => {
            return Err(Refusal::new(Kind::Conflict, format!("{shown} is a member (ACTIVE) of pool \"{pool}\"")));
        }
        PoolState::Active => Some("potentially active"),
        PoolState::Exported => Some("exported"),
        _ => None,
    };
    if let (Some(kind), false) = (kind, *force) {
        let why = format!("use '-f' to override the following error:\n{shown} is a member of {kind} pool \"{pool}\"");
        return Err(Refusal::new(Kind::Conflict, why));
    }
    let cleared = devices::clear(&path, *force);
    cleared.map(drop).map_err(|e| Reason::from(e).refuse(&format!("failed to clear label for {shown}")))
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
            _ => {
                let why = error.to_string();
                format!("failed to open {}: {}", path.display(), why.split(" (os error").next().unwrap_or(&why))
            }
        },
    )
}
