//! Files of JSON that hold secrets: for their owner alone, and either the old or the new one whatever happens.

use serde::Serialize;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Writes `value` in place of what is at `path`; its folder is made if it is missing.
pub(crate) fn replace(path: &Path, value: &impl Serialize) -> std::io::Result<()> {
    let fresh = path.with_extension("json.new");
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let _ = fs::remove_file(&fresh);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
    file.write_all(&serde_json::to_vec_pretty(value)?)?;
    file.sync_all()?;
    fs::rename(&fresh, path)
}
