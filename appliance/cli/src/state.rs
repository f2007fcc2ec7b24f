//! Where the program keeps what it has to remember: imported pools, logs of mounts.

use anyhow::{Context, Result};
use std::path::PathBuf;

/// `$WEIR_STATE`; else /var/lib/weir for root, `$XDG_STATE_HOME/weir` or ~/.local/state/weir for others.
pub fn folder() -> Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    if let Some(dir) = set("WEIR_STATE") {
        return Ok(dir);
    }
    if rustix::process::geteuid().is_root() {
        return Ok(PathBuf::from("/var/lib/weir"));
    }
    let state = set("XDG_STATE_HOME").or_else(|| set("HOME").map(|home| home.join(".local/state")));
    Ok(state.context("set WEIR_STATE: neither HOME nor XDG_STATE_HOME is set")?.join("weir"))
}
