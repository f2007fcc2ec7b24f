//! Converts datasets and their properties to API types.

use admin::OwnedPool;
use anyhow::Result;
use api::{Dataset, DatasetKind, KeyState, Property, PropertyDefinition, PropertyOf, Source, ValueKind};
use dataset::pages::Names;
use dataset::property::{self, CATALOGUE, Unit, ValueType};
use dataset::{Entry, Mounts, Source as From, View};
use std::collections::BTreeSet;

/// Datasets that are mounted on this machine.
pub fn mounted() -> BTreeSet<String> {
    let table = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let source = |line: &str| {
        let mut parts = line.split(' ');
        let (source, _, kind) = (parts.next()?, parts.next()?, parts.next()?);
        (kind == "fuse.weir").then(|| source.replace("\\040", " "))
    };
    table.lines().filter_map(source).collect()
}

/// Converts the engine's kinds to those of the interface.
fn kind(kind: dataset::DatasetKind) -> DatasetKind {
    match kind {
        dataset::DatasetKind::FileSystem => DatasetKind::Filesystem,
        dataset::DatasetKind::Volume => DatasetKind::Volume,
        dataset::DatasetKind::Snapshot => DatasetKind::Snapshot,
        dataset::DatasetKind::Bookmark => DatasetKind::Bookmark,
    }
}

fn with_view<T>(pool: &OwnedPool, mounted: &BTreeSet<String>, with: impl FnOnce(&View<'_>) -> T) -> T {
    let record = pool.record();
    let is_mounted = |name: &str| mounted.contains(name);
    with(&View {
        keys: Some(pool.keys()),
        mounts: Mounts::Of(&is_mounted),
        altroot: record.altroot.as_deref(),
        read_only: pool.writable().is_none(),
    })
}

/// A dataset, in short form.
pub fn dataset(pool: &OwnedPool, entry: &Entry, mounted: &BTreeSet<String>) -> Result<Dataset> {
    with_view(pool, mounted, |view| line(entry, view, pool.names()))
}

fn line(entry: &Entry, view: &View<'_>, names: &Names) -> Result<Dataset> {
    let text = |name: &str| -> Result<Option<String>> {
        let value = property::get(entry, name, view)?.map(|p| p.value.raw);
        Ok(value.filter(|v| v != "-"))
    };
    let number = |name: &str| -> Result<Option<u64>> { Ok(text(name)?.and_then(|v| v.parse().ok())) };
    let kind = kind(entry.kind()?);
    let (mut children, mut snapshots, mut holds, mut clones) = (0, 0, None, None);
    if let (Entry::Dataset(d), DatasetKind::Filesystem | DatasetKind::Volume) = (entry, kind) {
        children = names.child_count(d.tree(), d.dir())?;
        snapshots = d.snapshot_names()?.len() as u64;
    }
    if let (Entry::Dataset(d), DatasetKind::Snapshot) = (entry, kind) {
        (holds, clones) = (Some(d.hold_count()?), Some(d.clones()?.len() as u64));
    }
    let key = match text("keystatus")?.as_deref() {
        Some("available") => KeyState::Available,
        Some("unavailable") => KeyState::Unavailable,
        _ => KeyState::NotEncrypted,
    };
    Ok(Dataset {
        name: entry.name().to_owned(),
        kind,
        guid: text("guid")?.unwrap_or_default(),
        created: number("creation")?.unwrap_or(0),
        used_bytes: number("used")?.unwrap_or(0),
        available_bytes: number("available")?,
        referenced_bytes: number("referenced")?.unwrap_or(0),
        quota_bytes: number("quota")?.filter(|q| *q > 0),
        volume_bytes: number("volsize")?,
        compress_ratio: text("compressratio")?.and_then(|r| r.trim_end_matches('x').parse().ok()),
        mountpoint: text("mountpoint")?,
        mounted: text("mounted")?.map(|m| m == "yes"),
        origin: text("origin")?,
        key,
        children,
        snapshots,
        holds,
        clones,
    })
}

/// All properties of a dataset.
pub fn properties(pool: &OwnedPool, entry: &Entry, mounted: &BTreeSet<String>) -> Result<Vec<Property>> {
    let all = with_view(pool, mounted, |view| property::all(entry, view))?;
    let writable = pool.writable().is_some() && !matches!(entry.kind()?, dataset::DatasetKind::Bookmark);
    let snapshot = entry.dataset().is_some_and(|d| d.is_snapshot());
    let shown = |p: property::Property| {
        let def = property::find(&p.name);
        let (source, inherited_from) = match p.source {
            From::None => (Source::None, None),
            From::Default => (Source::Default, None),
            From::Temporary => (Source::Temporary, None),
            From::Local => (Source::Local, None),
            From::Inherited(from) => (Source::Inherited, Some(from)),
            From::Received => (Source::Received, None),
        };
        // On snapshots only user properties can be set.
        let editable = writable && def.is_none_or(|d| !d.readonly() && !snapshot);
        Property { name: p.name, value: p.value.raw, text: p.value.human, source, inherited_from, editable }
    };
    Ok(all.into_iter().map(shown).collect())
}

/// Definitions of the dataset properties.
pub fn definitions() -> impl Iterator<Item = PropertyDefinition> {
    use property::Kinds;
    let kinds = |of: Kinds| {
        let all = [
            (Kinds::FILESYSTEM, "filesystem"),
            (Kinds::VOLUME, "volume"),
            (Kinds::SNAPSHOT, "snapshot"),
            (Kinds::BOOKMARK, "bookmark"),
        ];
        all.iter().filter(|(kind, _)| of.intersects(*kind)).map(|(_, name)| (*name).to_owned()).collect()
    };
    CATALOGUE.iter().filter(|d| d.listed()).map(move |def| PropertyDefinition {
        name: def.name.to_owned(),
        of: PropertyOf::Dataset,
        kind: match def.value_type {
            ValueType::Number(Unit::Bytes) => ValueKind::Bytes,
            ValueType::Number(Unit::Ratio) => ValueKind::Ratio,
            ValueType::Number(Unit::Time) => ValueKind::Time,
            ValueType::Number(Unit::Count) => ValueKind::Number,
            ValueType::Number(Unit::Id) | ValueType::Text => ValueKind::Text,
            ValueType::Index(_) => ValueKind::Choice,
        },
        choices: match def.value_type {
            ValueType::Index(words) => words.iter().map(|(word, _)| (*word).to_owned()).collect(),
            _ => Vec::new(),
        },
        default: def.default_text().map(str::to_owned).or_else(|| def.word(def.default_number()).map(str::to_owned)),
        values: def.values.to_owned(),
        help: def.help.to_owned(),
        editable: !def.readonly(),
        set_once: def.set_once(),
        inheritable: def.inheritable(),
        kinds: kinds(def.kinds),
    })
}
