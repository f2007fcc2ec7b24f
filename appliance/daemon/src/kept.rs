//! Files of JSON that hold secrets.

use admin::durable;
use serde::Serialize;
use std::path::Path;

/// Writes `value` in place of what is at `path` (`admin::durable`), for its owner alone.
pub(crate) fn replace(path: &Path, value: &impl Serialize) -> std::io::Result<()> {
    durable::replace(path, &serde_json::to_vec_pretty(value)?, durable::PRIVATE)
}
