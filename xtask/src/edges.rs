//! Checks the dependencies between crates: compares the table of ARCHITECTURE.md with the output of
//! `cargo metadata`.

use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::process::Command;

/// Crate -> workspace crates that it may depend on. Dev-dependencies (tests, benches, examples) are
/// not restricted.
const ALLOWED: &[(&str, &[&str])] = &[
    ("ondisk", &[]),
    ("transform", &[]),
    ("host", &[]),
    ("observe", &[]),
    ("block", &["ondisk", "transform", "host", "observe"]),
    ("object", &["ondisk", "observe", "block"]),
    ("pool", &["ondisk", "host", "observe", "block", "object"]),
    ("dataset", &["ondisk", "transform", "observe", "object", "pool"]),
    ("files", &["ondisk", "observe", "object", "dataset"]),
    ("serve", &["files", "host", "observe"]),
    ("admin", &["pool", "dataset", "files"]),
    ("api", &[]),
    ("analytics", &["observe", "host"]),
    // Status and similar types come from the engine.
    ("daemon", &["serve", "admin", "analytics", "api", "host", "observe", "pool", "dataset", "files"]),
    ("judge", &[]),
    ("load", &["serve", "observe", "record", "judge"]),
    ("record", &[]),
    // `inspect` reads the engine.
    (
        "cli",
        &[
            "serve", "admin", "api", "daemon", "load", "record", "host", "ondisk", "observe", "block", "object",
            "pool", "dataset", "files",
        ],
    ),
    // These may depend on everything, and no crate may depend on them.
    ("crash", &["*"]),
    ("damage", &["*"]),
    ("matrix", &["*"]),
    ("oracle", &["*"]),
    ("posix", &["*"]),
    ("sim", &["*"]),
    ("wire", &["*"]),
    ("bench", &["*"]),
    ("bench-analytics", &["*"]),
];

/// Dependencies that the table does not allow, as sentences.
pub fn violations() -> Result<Vec<String>> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .output()
        .context("cannot run cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    }
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED.iter().copied().collect();
    let mut found = Vec::new();
    for package in metadata["packages"].as_array().context("no packages")? {
        let name = package["name"].as_str().context("a package without a name")?;
        if name == "xtask" {
            continue;
        }
        let Some(name) = name.strip_prefix("weir-") else {
            found.push(format!("{name}: the names of our packages begin with weir-"));
            continue;
        };
        let Some(may) = allowed.get(name) else {
            found.push(format!("{name} is not in the table of crates"));
            continue;
        };
        for dependency in package["dependencies"].as_array().context("no dependencies")? {
            let used = dependency["name"].as_str().unwrap_or_default();
            let Some(used) = used.strip_prefix("weir-") else { continue };
            if dependency["kind"] == "dev" || may.contains(&"*") || may.contains(&used) {
                continue;
            }
            found.push(format!("{name} uses {used}, which the table of crates does not allow"));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    #[test]
    fn crates_use_only_what_the_table_allows() {
        assert_eq!(super::violations().unwrap(), Vec::<String>::new());
    }

    #[test]
    fn nobody_depends_on_tests_and_benches() {
        let all = super::ALLOWED.iter().filter(|(_, may)| may.contains(&"oracle") || may.contains(&"bench"));
        assert_eq!(all.count(), 0);
    }
}
