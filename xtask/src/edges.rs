//! Checks the dependencies between crates: compares the table "Who may use whom" of ARCHITECTURE.md
//! with the output of `cargo metadata`.
//!
//! A row names crates or layers (top-level folders), then what they may use: crates, layers,
//! `none` or `everything`, separated by commas. A crate's own row replaces that of its layer.
//! Remarks are in parentheses. Dev-dependencies (tests, benches, examples) are not restricted.

use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

const HEADING: &str = "## Who may use whom";

/// A package of the workspace, without the prefix `weir-` of its name.
struct Package {
    name: String,
    layer: String,
    uses: Vec<String>,
}

/// Crate -> crates that it may use; `None` means all.
type Allowed = BTreeMap<String, Option<BTreeSet<String>>>;

/// Dependencies that the table does not allow and mistakes of the table, as sentences.
pub fn violations(root: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(root.join("ARCHITECTURE.md")).context("ARCHITECTURE.md")?;
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root)
        .output()
        .context("cannot run cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    }
    let metadata = serde_json::from_slice(&output.stdout)?;
    let mut found = Vec::new();
    let packages = packages(&metadata, &mut found)?;
    let allowed = allowed(&text, &packages, &mut found);
    compare(&packages, &allowed, &mut found);
    Ok(found)
}

fn packages(metadata: &serde_json::Value, found: &mut Vec<String>) -> Result<Vec<Package>> {
    let root = metadata["workspace_root"].as_str().context("no workspace_root")?;
    let mut packages = Vec::new();
    for package in metadata["packages"].as_array().context("no packages")? {
        let name = package["name"].as_str().context("a package without a name")?;
        if name == "xtask" {
            continue;
        }
        let Some(name) = name.strip_prefix("weir-") else {
            found.push(format!("{name}: the names of our packages begin with weir-"));
            continue;
        };
        let manifest = package["manifest_path"].as_str().context("no manifest_path")?;
        let inside = Path::new(manifest).strip_prefix(root).context("a package outside of the workspace")?;
        let layer = inside.components().next().context("an empty manifest_path")?;
        let dependencies = package["dependencies"].as_array().context("no dependencies")?;
        packages.push(Package {
            name: name.to_string(),
            layer: layer.as_os_str().to_string_lossy().into_owned(),
            uses: dependencies
                .iter()
                .filter(|dependency| dependency["kind"] != "dev")
                .filter_map(|dependency| dependency["name"].as_str()?.strip_prefix("weir-"))
                .map(str::to_string)
                .collect(),
        });
    }
    Ok(packages)
}

/// Reads the table below [`HEADING`].
fn allowed(text: &str, packages: &[Package], found: &mut Vec<String>) -> Allowed {
    let mut allowed = Allowed::new();
    let section = text.split_once(HEADING).map_or("", |(_, rest)| rest);
    let rows = section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let rows: Vec<&str> = rows.skip(2).collect();
    let is_layer = |word: &str| packages.iter().any(|package| package.layer == word);
    let first = rows.iter().filter_map(|row| row.trim_matches('|').split('|').next());
    let with_own_row: BTreeSet<String> = first.flat_map(words).filter(|word| !is_layer(word)).collect();
    let mut count = 0;
    for row in rows {
        count += 1;
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let &[who, may] = &cells[..] else {
            found.push(format!("ARCHITECTURE.md: the row \"{row}\" has {} cells, expected 2", cells.len()));
            continue;
        };
        let mut unknown = Vec::new();
        let mut used = Some(BTreeSet::new());
        for word in words(may) {
            match &word[..] {
                "none" => {}
                "everything" => used = None,
                _ => match (members(&word, packages), &mut used) {
                    (names, _) if names.is_empty() => unknown.push(word.clone()),
                    (names, Some(used)) => used.extend(names),
                    (_, None) => {}
                },
            }
        }
        for word in words(who) {
            let mut names = members(&word, packages);
            if names.is_empty() {
                unknown.push(word.clone());
            }
            names.retain(|name| *name == word || !with_own_row.contains(name));
            for name in names {
                if allowed.insert(name.clone(), used.clone()).is_some() {
                    found.push(format!("ARCHITECTURE.md: two rows for {name}"));
                }
            }
        }
        for word in unknown {
            found.push(format!("ARCHITECTURE.md: \"{word}\" is neither a crate nor a layer, in \"{row}\""));
        }
    }
    if count == 0 {
        found.push(format!("ARCHITECTURE.md: no table below \"{HEADING}\""));
    }
    allowed
}

/// The words of a cell, without remarks in parentheses.
fn words(cell: &str) -> Vec<String> {
    let mut depth = 0;
    let mut plain = String::new();
    for c in cell.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ if depth == 0 => plain.push(c),
            _ => {}
        }
    }
    plain.split(',').map(|word| word.trim().to_string()).filter(|word| !word.is_empty()).collect()
}

/// The crates of this layer, or the crate of this name. The layer wins: `bench` is both.
fn members(word: &str, packages: &[Package]) -> Vec<String> {
    let layer = packages.iter().filter(|package| package.layer == word);
    let mut names: Vec<String> = layer.map(|package| package.name.clone()).collect();
    if names.is_empty() {
        names.extend(packages.iter().find(|package| package.name == word).map(|package| package.name.clone()));
    }
    names
}

fn compare(packages: &[Package], allowed: &Allowed, found: &mut Vec<String>) {
    for Package { name, uses, .. } in packages {
        let Some(may) = allowed.get(name) else {
            found.push(format!("{name} is not in the table of ARCHITECTURE.md"));
            continue;
        };
        let Some(may) = may else { continue };
        for used in uses.iter().filter(|&used| !may.contains(used)) {
            found.push(format!("{name} uses {used}, which ARCHITECTURE.md does not allow"));
        }
        for used in may.iter().filter(|&used| allowed.get(used) == Some(&None)) {
            found
                .push(format!("ARCHITECTURE.md: {name} may not use {used}: only tests and benches may use everything"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_use_only_what_the_table_allows() {
        assert_eq!(violations(&crate::root()).unwrap(), Vec::<String>::new());
    }

    const TABLE: &str = "## Who may use whom\n\n\
        | crate | may use |\n|---|---|\n\
        | ondisk, host | none (libraries; not each other) |\n\
        | block | base |\n\
        | cli | engine (for `inspect`), host |\n\
        | testing | everything (no crate uses them) |\n\nNo row: | a |\n";

    fn check(table: &str, uses: &[(&str, &str, &[&str])]) -> Vec<String> {
        let package = |&(layer, name, uses): &(&str, &str, &[&str])| Package {
            name: name.to_string(),
            layer: layer.to_string(),
            uses: uses.iter().map(ToString::to_string).collect(),
        };
        let packages: Vec<Package> = uses.iter().map(package).collect();
        let mut found = Vec::new();
        let allowed = allowed(table, &packages, &mut found);
        compare(&packages, &allowed, &mut found);
        found
    }

    #[test]
    fn layers_include_their_crates_and_remarks_are_ignored() {
        let uses: &[(&str, &str, &[&str])] = &[
            ("base", "ondisk", &[]),
            ("base", "host", &[]),
            ("engine", "block", &["ondisk", "host"]),
            ("appliance", "cli", &["block", "host"]),
            ("testing", "sim", &["cli", "ondisk", "wire"]),
            ("testing", "wire", &[]),
        ];
        assert_eq!(check(TABLE, uses), Vec::<String>::new());
    }

    #[test]
    fn the_row_of_a_crate_replaces_that_of_its_layer() {
        let table = TABLE.replace("| testing |", "| sim | block |\n| testing |");
        let uses: &[(&str, &str, &[&str])] = &[
            ("base", "ondisk", &[]),
            ("base", "host", &[]),
            ("engine", "block", &[]),
            ("appliance", "cli", &[]),
            ("testing", "sim", &["block", "host"]),
            ("testing", "wire", &["sim", "host"]),
        ];
        assert_eq!(check(&table, uses), ["sim uses host, which ARCHITECTURE.md does not allow"]);
    }

    #[test]
    fn an_edge_that_the_table_does_not_allow_is_named() {
        let uses: &[(&str, &str, &[&str])] = &[
            ("base", "ondisk", &["host"]),
            ("base", "host", &[]),
            ("engine", "block", &["cli"]),
            ("appliance", "cli", &["ondisk"]),
            ("testing", "sim", &[]),
            ("appliance", "daemon", &[]),
        ];
        let expected = [
            "ondisk uses host, which ARCHITECTURE.md does not allow",
            "block uses cli, which ARCHITECTURE.md does not allow",
            "cli uses ondisk, which ARCHITECTURE.md does not allow",
            "daemon is not in the table of ARCHITECTURE.md",
        ];
        assert_eq!(check(TABLE, uses), expected);
    }

    #[test]
    fn a_crate_that_uses_tests_is_an_error_even_if_a_row_allows_it() {
        let table = TABLE.replace("engine (for `inspect`), host", "engine, sim");
        let uses: &[(&str, &str, &[&str])] = &[
            ("base", "ondisk", &[]),
            ("base", "host", &[]),
            ("engine", "block", &[]),
            ("appliance", "cli", &["sim"]),
            ("testing", "sim", &[]),
        ];
        let found = check(&table, uses);
        assert_eq!(found, ["ARCHITECTURE.md: cli may not use sim: only tests and benches may use everything"]);
    }

    #[test]
    fn a_row_that_cannot_be_understood_is_an_error() {
        let uses: &[(&str, &str, &[&str])] = &[("base", "ondisk", &[])];
        assert_eq!(check("", uses).len(), 2);
        let table = "## Who may use whom\n| crate | may use |\n|---|---|\n| ondisk | std and libraries |\n";
        let expected = "ARCHITECTURE.md: \"std and libraries\" is neither a crate nor a layer, in \
                        \"| ondisk | std and libraries |\"";
        assert_eq!(check(table, uses), [expected]);
    }
}
