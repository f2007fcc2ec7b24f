//! Changes boot environments: snapshots and clones all of their parts, and activates one.
//!
//! **Invariant: of all environments of a pool, at most the activated one has parts with
//! `canmount=on`,** so that mounting everything mounts each place once. For other environments, the
//! parts that would be mounted automatically are marked with [`super::CANMOUNT`].

use super::{CANMOUNT, DESCRIPTION, Environment, POLICY, Part, UUID, find, set_here, text};
use crate::write::WritablePool;
use anyhow::{Context, Result, anyhow, bail};
use dataset::property::{self, PropertyDef, Source};
use dataset::tree::Entry;
use dataset::write;
use dataset::{DatasetKind, Datasets, View};
use errors::{Error, Refusal};
use pool::property::SetValue;
use std::sync::Arc;

/// Format of the names of automatic snapshots, in local time: as beadm(8) and bectl(8) use.
const SNAPSHOT_FORM: &str = "%Y-%m-%d-%H:%M:%S";
/// Properties that a clone inherits from its origin, or that must not exist twice.
const NOT_COPIED: &[&str] = &[
    "keylocation",
    "keyformat",
    "pbkdf2iters",
    "encryption",
    "volsize",
    "reservation",
    "refreservation",
    "quota",
    "refquota",
    "sharenfs",
    "sharesmb",
    "mlslabel",
];
/// Maximum number of promotions of a part: no chain of clones is longer.
const PROMOTIONS: usize = 1 << 10;

/// An environment to create.
#[derive(Debug, Clone, Default)]
pub struct NewEnvironment<'a> {
    pub name: &'a str,
    /// The snapshot to clone; all parts of `source` must have it.
    pub snapshot: &'a str,
    /// Properties of its root.
    pub properties: &'a [(String, String)],
    pub description: Option<&'a str>,
    /// Its UUID, if the source has one.
    pub uuid: &'a str,
}

/// The name of an automatic snapshot taken now. No environment of the pool may have it, because
/// promotions move snapshots between them.
pub fn snapshot_name(all: &[Environment]) -> String {
    let taken = |name: &str| all.iter().flat_map(|e| &e.parts).any(|p| p.snapshots.iter().any(|s| s.short() == name));
    numbered(taken)
}

/// The current time, followed by a number if the name is taken.
fn numbered(taken: impl Fn(&str) -> bool) -> String {
    let base = jiff::Zoned::now().strftime(SNAPSHOT_FORM).to_string();
    let numbered = (0u32..).map(|n| if n == 0 { base.clone() } else { format!("{base}-{n}") });
    numbered.into_iter().find(|name| !taken(name)).unwrap_or(base.clone())
}

/// Whether a snapshot was taken automatically for a clone, according to its name.
pub fn is_automatic(short: &str) -> bool {
    let form = b"dddd-dd-dd-dd:dd:dd";
    let head = short.as_bytes().get(..form.len());
    let fits = |head: &[u8]| head.iter().zip(form).all(|(b, f)| if *f == b'd' { b.is_ascii_digit() } else { b == f });
    let rest = short.get(form.len()..).unwrap_or_default();
    let is_number = |rest: &str| rest.bytes().all(|b| b.is_ascii_digit()) && !rest.is_empty();
    head.is_some_and(fits) && (rest.is_empty() || rest.strip_prefix('-').is_some_and(is_number))
}

/// Takes a snapshot of all parts, atomically.
pub fn snapshot(pool: &WritablePool, environment: &Environment, short: &str) -> Result<()> {
    let names: Vec<String> = environment.parts.iter().map(|part| format!("{}@{short}", part.name)).collect();
    write::snapshot(&pool.live, &names, &[]).map_err(|mut all| {
        let first = if all.is_empty() { None } else { Some(all.remove(0)) };
        match first {
            Some((name, error)) => anyhow!(error).context(format!("cannot take snapshot '{name}'")),
            None => anyhow!("cannot take the snapshots"),
        }
    })
}

/// Creates an environment next to `source` from a snapshot of all its parts. Returns the full name
/// of its root.
pub fn clone_into(pool: &WritablePool, source: &Environment, new: &NewEnvironment<'_>) -> Result<String> {
    check_name(new.name)?;
    let datasets = pool.live.synced()?;
    let (above, _) = source.root().rsplit_once('/').context("the root of a pool cannot be cloned beside itself")?;
    let root = format!("{above}/{}", new.name);
    if datasets.entry(&root).is_ok() {
        bail!("dataset '{root}' already exists");
    }
    let lacking = source.without(new.snapshot);
    if let Some(first) = lacking.first() {
        bail!(
            "'{}@{}' is not a snapshot of the whole environment: {first} has none of that name{}",
            source.name,
            new.snapshot,
            if lacking.len() > 1 { format!(", nor have {} others", lacking.len() - 1) } else { String::new() }
        );
    }
    let mut made: Vec<String> = Vec::new();
    let result = source.parts.iter().try_for_each(|part| {
        let name = format!("{root}{}", &part.name[source.root().len()..]);
        let properties = properties_of_clone(&datasets, part, part.name == source.root(), new)?;
        write::clone(&pool.live, &format!("{}@{}", part.name, new.snapshot), &name, &properties)
            .with_context(|| format!("cannot create '{name}'"))?;
        made.push(name);
        Ok(())
    });
    if let Err(error) = result {
        // All or nothing.
        for name in made.iter().rev() {
            write::destroy(&pool.live, name).with_context(|| format!("after \"{error:#}\", cannot remove '{name}'"))?;
        }
        return Err(error);
    }
    Ok(root)
}

/// Fails for names that environments cannot have.
pub fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.contains(['/', '@', '#', '%']) || name.contains(char::is_whitespace) {
        bail!(
            "'{name}' cannot be the name of a boot environment: it is the last part of a dataset's name, without spaces"
        );
    }
    Ok(())
}

/// The properties to set on the clone of a part.
fn properties_of_clone(
    datasets: &Arc<Datasets>,
    part: &Part,
    is_root: bool,
    new: &NewEnvironment<'_>,
) -> Result<Vec<(String, String)>> {
    let entry = datasets.entry(&part.name)?;
    let copies = |def: Option<&PropertyDef>, name: &str| match def {
        Some(def) => !def.readonly() && !NOT_COPIED.contains(&name),
        None => ![UUID, DESCRIPTION, CANMOUNT].contains(&name),
    };
    let mut all: Vec<(String, String)> = Vec::new();
    let listed = property::all(&entry, &View::default())?;
    // The mount point as set, not as resolved.
    for found in listed.iter().filter(|p| matches!(p.source, Source::Local | Source::Received)) {
        if copies(property::find(&found.name), &found.name) && found.name != "canmount" {
            all.push((found.name.clone(), found.value.raw.clone()));
        }
    }
    if entry.kind()? == DatasetKind::FileSystem {
        let is_off = text(&entry, "canmount")?.is_some_and(|v| v.raw == "off");
        all.push(("canmount".into(), if is_off { "off" } else { "noauto" }.into()));
        if !is_root && part.automounts {
            all.push((CANMOUNT.into(), "on".into()));
        }
    }
    if is_root {
        if set_here(&entry, UUID)?.is_some() {
            all.push((UUID.into(), new.uuid.to_owned()));
            if all.iter().all(|(name, _)| name != POLICY) {
                all.push((POLICY.into(), "static".into()));
            }
        }
        if let Some(text) = new.description {
            all.push((DESCRIPTION.into(), text.to_owned()));
        }
        for (name, value) in new.properties {
            all.retain(|(n, _)| n != name);
            all.push((name.clone(), value.clone()));
        }
    }
    Ok(all)
}

/// Sets the description of an environment.
pub fn describe(pool: &WritablePool, root: &str, description: &str) -> Result<()> {
    Ok(write::set(&pool.live, root, &[(DESCRIPTION.into(), description.to_owned())])?)
}

/// Makes the pool boot `name`: promotes it, and lets its parts be mounted automatically instead of
/// those of other environments.
pub fn activate(pool: &WritablePool, name: &str, container: Option<&str>) -> Result<()> {
    let all = find(&pool.live.synced()?, container)?;
    let target = all.iter().find(|e| e.name == name).with_context(|| format!("no such environment '{name}'"))?;
    for part in &target.parts {
        promote(pool, &part.name)?;
    }
    let datasets = pool.live.synced()?;
    for environment in all.iter().filter(|e| e.root() != target.root()) {
        for part in environment.parts.iter().skip(1) {
            let entry = datasets.entry(&part.name)?;
            if is_automount(&entry)? {
                let now = [("canmount".to_owned(), "noauto".to_owned()), (CANMOUNT.to_owned(), "on".to_owned())];
                write::set(&pool.live, &part.name, &now)?;
            }
        }
    }
    for part in target.parts.iter().skip(1) {
        if set_here(&datasets.entry(&part.name)?, CANMOUNT)?.is_some_and(|(value, here)| here && value == "on") {
            write::set(&pool.live, &part.name, &[("canmount".into(), "on".into())])?;
            write::inherit(&pool.live, &part.name, CANMOUNT, false)?;
        }
    }
    // A root is mounted by the boot process. With `canmount=on`, it would be mounted over the
    // running root.
    let root = datasets.entry(target.root())?;
    if is_automount(&root)? {
        write::set(&pool.live, target.root(), &[("canmount".into(), "noauto".into())])?;
    }
    let id = datasets.dataset(target.root())?.id();
    Ok(pool.writer().task(move |cx| cx.set_pool_property("bootfs", &SetValue::Number(id)))?)
}

fn is_automount(entry: &Entry) -> Result<bool> {
    Ok(entry.kind()? == DatasetKind::FileSystem && text(entry, "canmount")?.is_some_and(|v| v.raw == "on"))
}

/// Promotes `name` until it has no origin.
fn promote(pool: &WritablePool, name: &str) -> Result<()> {
    for _ in 0..PROMOTIONS {
        if pool.live.synced()?.dataset(name)?.origin()?.is_none() {
            return Ok(());
        }
        write::promote(&pool.live, name).map_err(|error| match error {
            Error::Refused { why: Refusal::Exists, place } => {
                anyhow!("cannot promote '{name}': snapshot '{place}' exists twice, rename one of them")
            }
            error => anyhow!(error).context(format!("cannot promote '{name}'")),
        })?;
    }
    bail!("cannot promote '{name}': its chain of clones is endless")
}

/// Promotes the clones of an environment that are not parts of it, so that it can be destroyed. The
/// clone of the latest snapshot takes over all older snapshots.
pub fn promote_dependents(pool: &WritablePool, environment: &Environment) -> Result<()> {
    for part in &environment.parts {
        for _ in 0..PROMOTIONS {
            let datasets = pool.live.synced()?;
            let mut latest = None;
            for snapshot in datasets.dataset(&part.name)?.snapshots()? {
                let clones = snapshot.clones()?;
                if let Some(clone) = clones.into_iter().find(|c| !environment.has(c.name())) {
                    latest = Some(clone.name().to_owned());
                }
            }
            match latest {
                None => break,
                Some(clone) => {
                    write::promote(&pool.live, &clone).with_context(|| format!("cannot promote '{clone}'"))?;
                }
            }
        }
    }
    Ok(())
}

/// A snapshot with a user's name that would be destroyed with an environment. Snapshots that a
/// clone's promotion takes over are not.
pub fn named_snapshot(pool: &WritablePool, environment: &Environment) -> Result<Option<String>> {
    let datasets = pool.live.synced()?;
    for part in &environment.parts {
        for snapshot in datasets.dataset(&part.name)?.snapshots()?.iter().rev() {
            if snapshot.clones()?.iter().any(|c| !environment.has(c.name())) {
                break;
            }
            let short = snapshot.snapshot_name().unwrap_or_default();
            if !dataset::name::is_hidden(short) && !is_automatic(short) {
                return Ok(Some(snapshot.name().to_owned()));
            }
        }
    }
    Ok(None)
}

/// Sets up `root`, received from `source`, without mounting it: restores the UUID, markers, and the
/// given properties.
pub fn settle_received(
    pool: &WritablePool,
    source: &Environment,
    root: &str,
    properties: &[(String, String)],
    uuid: &str,
) -> Result<()> {
    let datasets = pool.live.synced()?;
    for part in source.parts.iter().filter(|part| !part.is_volume) {
        let is_root = part.name == source.root();
        let name = format!("{root}{}", &part.name[source.root().len()..]);
        let mut wanted = Vec::new();
        if !is_root && part.automounts {
            wanted.push((CANMOUNT.to_owned(), "on".to_owned()));
        }
        if is_root && set_here(&datasets.entry(&name)?, UUID)?.is_some() {
            wanted.push((UUID.to_owned(), uuid.to_owned()));
        }
        if is_root {
            wanted.extend(properties.iter().cloned());
        }
        if !wanted.is_empty() {
            write::set(&pool.live, &name, &wanted)?;
        }
    }
    Ok(())
}

/// Destroys the origin snapshots of an environment that was destroyed: automatic ones without
/// clones or holds and, with `all`, also those with a user's name. Returns their names.
pub fn forget_origins(pool: &WritablePool, environment: &Environment, all: bool) -> Result<Vec<String>> {
    let datasets = pool.live.synced()?;
    let mut gone = Vec::new();
    for origin in environment.parts.iter().filter_map(|part| part.origin.as_ref()) {
        let Ok(snapshot) = datasets.dataset(&origin.name) else { continue };
        if (all || is_automatic(origin.short())) && snapshot.clones()?.is_empty() && snapshot.hold_count()? == 0 {
            gone.push(origin.name.clone());
        }
    }
    if !gone.is_empty() {
        write::destroy_snapshots(&pool.live, &gone, false).map_err(|all| match all.into_iter().next() {
            Some((name, error)) => anyhow!(error).context(format!("cannot destroy snapshot '{name}'")),
            None => anyhow!("cannot destroy the origins"),
        })?;
    }
    Ok(gone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_that_were_taken_to_be_cloned_are_known_by_name() {
        let name = numbered(|_| false);
        assert!(is_automatic(&name), "{name}");
        let second = numbered(|n| !n.ends_with("-1"));
        assert!(is_automatic(&second) && second.ends_with("-1"), "{second}");
        for other in
            ["2026-11-23", "before", "2026-11-23-10:00:0x", "2026-11-23-10:00:00-", "2026-11-23-10:00:00-x", ""]
        {
            assert!(!is_automatic(other), "{other}");
        }
    }

    #[test]
    fn names_are_parts_of_dataset_names() {
        assert!(check_name("debian-12.8_1").is_ok());
        for bad in ["", "a/b", "a b", "a@b"] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }
}
