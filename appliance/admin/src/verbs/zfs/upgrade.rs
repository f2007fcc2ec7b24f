//! `zfs upgrade`: raises the versions of file systems.
//!
//! Facts: zfs_do_upgrade, zfs_spa_version_map.

use crate::verbs::line::line;
use crate::verbs::lookup::{Lookup, not_applicable};
use crate::verbs::tally::Tally;
use crate::verbs::zfs::set::BAD_PROPERTY;
use crate::verbs::{Found, Invocation, Kind, Reason, Refusal, pool_of};
use dataset::property;
use dataset::write::{FILE_SYSTEM_VERSION, pool_version_for};
use dataset::{DatasetKind, ListOptions, View};
use std::collections::BTreeSet;

/// File systems to upgrade.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpgradeRequest {
    /// Their names; empty for all file systems of all pools (`-a`).
    pub file_systems: Vec<String>,
    /// All file systems below too (`-r`).
    pub recursive: bool,
    /// The version that they get (`-V`).
    pub version: u64,
}

impl UpgradeRequest {
    /// The request as a command line, for histories and logs.
    pub fn command_line(&self) -> String {
        let flags = [(self.recursive, "-r"), (self.file_systems.is_empty(), "-a")];
        let options: &[(&str, String)] = match self.version {
            FILE_SYSTEM_VERSION => &[],
            version => &[("-V", version.to_string())],
        };
        line("zfs upgrade", &flags, options, self.file_systems.iter().map(String::as_str))
    }
}

/// What became of the file systems.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpgradeOutcome {
    /// Why file systems cannot have the version. OpenZFS prints them to standard output.
    pub notes: Vec<String>,
    pub upgraded: usize,
    /// File systems that had the version.
    pub unchanged: usize,
    /// Messages for standard error.
    pub errors: Vec<String>,
    /// Not all of them have the version now.
    pub failed: bool,
}

/// A file system and its version.
pub struct Versioned {
    pub name: String,
    pub version: u64,
}

fn version_of(found: &Found) -> Result<u64, errors::Error> {
    let property = property::get(&found.entry, "version", &View { keys: Some(&found.pool.keys), ..View::default() })?;
    Ok(property.and_then(|p| p.value.raw.parse().ok()).unwrap_or(0))
}

fn list(
    invocation: &Invocation<'_>,
    names: &[String],
    recursive: bool,
    tally: &mut Tally,
) -> Result<Vec<Found>, Refusal> {
    let depth = if recursive || names.is_empty() { None } else { Some(0) };
    let options = ListOptions { volumes: false, depth, ..ListOptions::heads() };
    let mut lookup = Lookup::new(invocation);
    let found = lookup.list(names, &options, tally)?;
    for name in names {
        if let Ok(Ok(found)) = lookup.find(name)
            && found.entry.kind().is_ok_and(|kind| kind == DatasetKind::Volume)
        {
            tally.refuse(not_applicable(name));
        }
    }
    Ok(found)
}

/// The file systems of all pools whose version is not the newest one. Those that cannot be read are
/// in neither part.
pub fn outdated(invocation: &Invocation<'_>) -> Result<Vec<Versioned>, Refusal> {
    let all = list(invocation, &[], true, &mut Tally::default())?;
    let versions = all.iter().filter_map(|found| {
        let version = version_of(found).ok()?;
        Some(Versioned { name: found.entry.name().to_owned(), version })
    });
    Ok(versions.filter(|one| one.version != FILE_SYSTEM_VERSION).collect())
}

/// Upgrades the file systems, pool by pool.
pub fn run(invocation: &Invocation<'_>, request: &UpgradeRequest) -> Result<UpgradeOutcome, Refusal> {
    let mut tally = Tally::default();
    let found = match list(invocation, &request.file_systems, request.recursive, &mut tally) {
        Ok(found) => found,
        Err(refusal) => return Err(tally.abort(refusal)),
    };
    let mut outcome = UpgradeOutcome::default();
    for pool in found.iter().map(|f| pool_of(f.entry.name())).collect::<BTreeSet<_>>() {
        let all: Vec<&Found> = found.iter().filter(|f| pool_of(f.entry.name()) == pool).collect();
        in_pool(invocation, request.version, &all, &mut outcome, &mut tally)?;
    }
    outcome.failed |= tally.is_refused();
    if let Err(refusal) = tally.finish() {
        outcome.errors.push(refusal.message);
    }
    Ok(outcome)
}

fn in_pool(
    invocation: &Invocation<'_>,
    version: u64,
    all: &[&Found],
    outcome: &mut UpgradeOutcome,
    tally: &mut Tally,
) -> Result<(), Refusal> {
    let Some(first) = all.first() else { return Ok(()) };
    let record = &first.pool.record;
    let needed = pool_version_for(version);
    if invocation.open_to_read(record)?.version() < needed {
        outcome.notes.extend(all.iter().map(|found| {
            let name = found.entry.name();
            format!("{name}: can not be upgraded; the pool version needs to first be upgraded\nto version {needed}\n")
        }));
        outcome.failed = true;
        return Ok(());
    }
    let mut older = Vec::new();
    for found in all {
        let name = found.entry.name();
        match version_of(found) {
            Ok(n) if n < version => older.push(name),
            Ok(n) if n > version => {
                outcome.notes.push(format!("{name}: can not be downgraded; it is already at version {n}"));
                outcome.failed = true;
            }
            Ok(_) => outcome.unchanged += 1,
            Err(error) => tally.refuse(cannot(name, error.into())),
        }
    }
    if older.is_empty() {
        return Ok(());
    }
    let (mut refusals, mut is_open, mut upgraded) = (Vec::new(), false, 0);
    let changed = invocation.change(record, |pool| {
        is_open = true;
        for name in &older {
            match pool.upgrade_files(name, version) {
                Ok(()) => upgraded += 1,
                Err(error) => refusals.push(cannot(name, (&error).into())),
            }
        }
        // As with OpenZFS, what was not done as a whole is not in the history.
        match refusals.is_empty() {
            true => Ok(()),
            false => Err(Reason::new(Kind::Failed, "not all are upgraded")),
        }
    });
    outcome.upgraded += upgraded;
    if let Err(reason) = changed
        && (refusals.is_empty() || !is_open)
    {
        return Err(cannot(older[0], reason));
    }
    refusals.into_iter().for_each(|refusal| tally.refuse(refusal));
    Ok(())
}

fn cannot(name: &str, reason: Reason) -> Refusal {
    reason.refuse(&format!("cannot set property for '{name}'")).with_code(BAD_PROPERTY)
}
