//! JSON files that contain secrets.

use host::durable;
use serde::Serialize;
use std::path::Path;

/// Replaces the file at `path` with `value` (`host::durable`); only its owner can read it.
pub(crate) fn replace(path: &Path, value: &impl Serialize) -> std::io::Result<()> {
    durable::replace(path, &serde_json::to_vec_pretty(value)?, durable::PRIVATE)
}
