//! Creating file systems and volumes, and the datasets that every pool has.
//!
//! ```text
//!   check everything -> directory, head, key object -> properties
//!                    -> contents, written at once -> history
//! ```
//! Facts: `dmu_objset_create_check`, `dmu_objset_create_sync` in module/zfs/dmu_objset.c,
//! `zfs_ioc_create` in zfs_ioctl.c, `dsl_pool_create` in dsl_pool.c.

use super::contents::{self, FileSystemMaker, FileSystemTraits, NewContents};
use super::cx::Cx;
use super::keys::Derived;
use super::limits::Counted;
use super::props::{self, Change};
use super::tree::{self, Node};
use super::values::{self, Target};
use super::{keys, limit_check, limits, space, upgrade, volume_reservation};
use crate::KeyStore;
use crate::delegation::Credentials;
use crate::live::LiveDatasets;
use crate::property::{Kinds, Value, full_name};
use errors::{Error, Refusal, Result};
use ondisk::{Checksum, DslDataset, version};
use pool::{SpaceCheck, SyncTx};
use std::sync::Arc;
use zeroize::Zeroizing;

/// A dataset to create.
#[derive(Default, Clone)]
pub struct NewDataset {
    pub name: String,
    /// A volume, not a file system. Requires the property `volsize`.
    pub is_volume: bool,
    /// Properties as the user writes them, including those that can be set only at creation.
    pub properties: Vec<(String, String)>,
    /// Create missing parent file systems, too.
    pub parents: bool,
    /// The key, if the dataset is to be an encryption root (property `keyformat`).
    pub key: Option<Zeroizing<Vec<u8>>>,
    /// The user who creates it; `None`: the owner of the pools.
    pub user: Option<Credentials>,
}

/// Properties grouped by how they are applied.
struct Sorted {
    traits: FileSystemTraits,
    wanted: keys::Wanted,
    volume: (u64, u32),
    changes: Vec<Change>,
}

/// Blocks of the pool's own objects that a new dataset allocates, as in OpenZFS.
pub(super) const CREATED_BLOCKS: u64 = 6;

/// First version of file systems for which it can be set how names compare.
const NAMES_VERSION: u64 = 3;

/// Checks that a pool of version `pool` can have a new file system with these properties, and that
/// its version allows them. Facts: zfs_fill_zplprops_impl.
pub fn check_version(properties: &[(String, String)], pool: u64) -> Result<()> {
    let asked = properties.iter().rev().find(|(name, _)| name == "version");
    let asked = asked.map(|(_, text)| values::parse_version(text)).transpose();
    let version = asked.map_err(|why| Error::invalid("", why))?.unwrap_or_else(|| contents::newest_in(pool));
    let of_names = |name: &str| matches!(full_name(name), "normalization" | "utf8only" | "casesensitivity");
    if contents::pool_version_for(version) > pool {
        return Err(Error::unsupported("", format!("file systems of version {version} in a pool of version {pool}")));
    }
    if let Some((name, _)) = properties.iter().find(|(name, _)| of_names(name))
        && version < NAMES_VERSION
    {
        return Err(Error::unsupported("", format!("{name} of file systems before version {NAMES_VERSION}")));
    }
    Ok(())
}

/// Creates a file system or volume.
pub fn create(live: &LiveDatasets, new: &NewDataset, maker: FileSystemMaker) -> Result<()> {
    tree::check_new_name(&new.name)?;
    let key = Derived::of_new(&new.name, &new.properties, new.key.as_ref(), new.user.as_ref())?;
    let ((keys, _), new) = (live.parts(), new.clone());
    live.writer().task(move |sync| create_in(&Cx::on_behalf(sync, new.user.as_ref()), &keys, &new, key, maker))?;
    live.refresh()
}

fn create_in(
    cx: &Cx<'_>,
    store: &KeyStore,
    new: &NewDataset,
    key: Option<Arc<Derived>>,
    maker: FileSystemMaker,
) -> Result<()> {
    cx.sync.check_space(&new.name, CREATED_BLOCKS, SpaceCheck::Normal)?;
    // Missing parents are created first, each a file system without properties of its own. All
    // of them are below an existing one, so the checks for the last apply to them as well.
    let mut missing = Vec::new();
    let mut at = new.name.as_str();
    while let Some((above, _)) = at.rsplit_once('/') {
        if tree::find_dir(cx, above)?.is_some() {
            break;
        }
        missing.push(above.to_owned());
        at = above;
    }
    if !missing.is_empty() && !new.parents {
        return Err(Error::not_found(&missing[0], "the parent dataset"));
    }
    if tree::find_dir(cx, &new.name)?.is_some() {
        // With -p, an existing dataset is no error.
        return if new.parents { Ok(()) } else { Err(Refusal::Exists.at(&new.name)) };
    }
    let (parent, _) = tree::find_parent(cx, at)?;
    limit_check::check(cx, parent, Counted::FileSystems, missing.len() as u64 + 1, 0)?;
    let head = cx.dir(parent)?.phys.head_dataset;
    let sorted = sort(cx, new, key, contents::traits_of(cx, head)?)?;
    check_settings(cx, parent, new, &sorted)?;
    let plan = keys::plan(cx, store, Some(parent), &new.name, wanted(&sorted))?;
    if let (true, Some(suite)) = (new.is_volume, plan.suite())
        && u64::from(sorted.volume.1) > suite.message_bytes_max()
    {
        let what = format!("a volume with blocks of {} bytes and {}", sorted.volume.1, suite.name());
        return Err(Error::unsupported(&*new.name, what));
    }
    let plans = missing.iter().map(|name| keys::plan(cx, store, Some(parent), name, keys::Wanted::default()));
    let plans = plans.collect::<Result<Vec<_>>>()?;
    let traits = contents::traits_of(cx, head)?;
    let contents = match new.is_volume {
        false => NewContents::FileSystem(sorted.traits, maker),
        true => NewContents::Volume { size_bytes: sorted.volume.0, block_bytes: sorted.volume.1 },
    };
    cx.sync.all_or_nothing(|| {
        for (name, plan) in missing.iter().zip(plans).rev() {
            make(cx, store, name, plan, &[], &NewContents::FileSystem(traits, maker))?;
        }
        make(cx, store, &new.name, plan, &sorted.changes, &contents)
    })
}

/// The encryption requested by the properties of a new dataset.
pub(crate) fn encryption(
    cx: &Cx<'_>,
    name: &str,
    properties: &[(String, String)],
    key: Option<Arc<Derived>>,
) -> Result<keys::Wanted> {
    let new = NewDataset { name: name.to_owned(), properties: properties.to_vec(), ..NewDataset::default() };
    Ok(sort(cx, &new, key, FileSystemTraits::default())?.wanted)
}

fn wanted(sorted: &Sorted) -> keys::Wanted {
    let w = &sorted.wanted;
    keys::Wanted {
        encryption: w.encryption,
        format: w.format,
        location: w.location.clone(),
        iterations: w.iterations,
        key: w.key.clone(),
    }
}

/// Checks properties, and groups them by how they are applied. `traits` are those of the parent
/// file system.
fn sort(cx: &Cx<'_>, new: &NewDataset, key: Option<Arc<Derived>>, mut traits: FileSystemTraits) -> Result<Sorted> {
    let kinds = if new.is_volume { Kinds::VOLUME } else { Kinds::FILESYSTEM };
    let is_enabled = |guid: &str| cx.is_enabled(guid);
    let target =
        Target { dataset: &new.name, kinds, is_new: true, version: cx.sync.version(), is_enabled: &is_enabled };
    let invalid = |what: String| Error::invalid(&*new.name, what);
    let mut wanted = keys::Wanted { key, ..keys::Wanted::default() };
    let (mut size, mut block) = (0, 16 << 10);
    let mut changes: Vec<Change> = Vec::new();
    for (name, text) in &new.properties {
        let setting = values::check(&target, name, text)?;
        let number = setting.number();
        match setting.name.as_str() {
            "version" => traits.version = number,
            "normalization" => traits.normalization = number,
            "utf8only" => traits.utf8_only = number != 0,
            "casesensitivity" => traits.case_sensitivity = number,
            "volsize" => size = number,
            "volblocksize" => block = number as u32,
            "encryption" => wanted.encryption = Some(number),
            "keyformat" => wanted.format = Some(number),
            "pbkdf2iters" => wanted.iterations = Some(number),
            "pbkdf2salt" => return Err(invalid("'pbkdf2salt' is readonly".to_owned())),
            "keylocation" => {
                if let Value::Text(text) = &setting.value {
                    wanted.location = Some(text.clone());
                }
            }
            _ => {
                changes.retain(|c| c.name() != setting.name);
                changes.push(Change::Set(setting));
            }
        }
    }
    if !new.is_volume {
        check_version(&new.properties, cx.sync.version()).map_err(|e| e.at(&new.name))?;
    }
    // The last value counts, as above.
    let asked = |name: &str| new.properties.iter().rev().find(|(n, _)| full_name(n) == name).map(|(_, text)| &**text);
    let asked_off = asked("utf8only") == Some("off");
    if asked_off && asked("normalization").is_none() {
        // An inherited normalization requires Unicode, too.
        traits.normalization = 0;
    }
    if traits.normalization != 0 {
        // Names compared in a normalized form must be Unicode.
        if asked_off {
            return Err(invalid("'utf8only' must be on with 'normalization'".to_owned()));
        }
        traits.utf8_only = true;
    }
    if new.is_volume && (size == 0 || size % u64::from(block) != 0) {
        return Err(invalid(format!("'volsize' is needed, and must be a multiple of volblocksize ({block})")));
    }
    let copies = changes.iter().find_map(|change| match change {
        Change::Set(setting) if setting.name == "copies" => Some(setting.number()),
        _ => None,
    });
    for change in &mut changes {
        if let Change::Set(setting) = change {
            volume_reservation::resolve_auto(cx, setting, (size, u64::from(block)), copies.unwrap_or(1));
        }
    }
    Ok(Sorted { traits, wanted, volume: (size, block), changes })
}

/// Rejects quotas and reservations of a new dataset that do not fit, and inherited settings that
/// Weir cannot write with.
fn check_settings(cx: &Cx<'_>, parent: u64, new: &NewDataset, sorted: &Sorted) -> Result<()> {
    let number = |name: &str| {
        sorted.changes.iter().find_map(|change| match change {
            Change::Set(setting) if setting.name == name => Some(setting.number()),
            _ => None,
        })
    };
    contents::settings(cx, parent, &new.name)?;
    if let Some(n) = number("checksum")
        && n != 1
        && u8::try_from(n).ok().and_then(|n| Checksum::from_raw(n).ok()).is_none()
    {
        return Err(Error::invalid(&*new.name, format!("checksum {n}")));
    }
    let (quota, refquota) = (number("quota").unwrap_or(0), number("refquota").unwrap_or(0));
    let (reserved, refreserved) = (number("reservation").unwrap_or(0), number("refreservation").unwrap_or(0));
    let reserve = reserved.max(refreserved);
    let over = |limit: u64, reserve: u64| limit != 0 && reserve > limit;
    if over(quota, reserved) || over(quota, refreserved) || over(refquota, refreserved) {
        return Err(Refusal::NoSpace.at(format!("{}: reservation above quota", new.name)));
    }
    if reserve > space::available(cx, parent, cx.sync.pool_bytes())? {
        return Err(Refusal::NoSpace.at(&*new.name));
    }
    Ok(())
}

/// Creates a dataset whose parent exists; everything is checked.
fn make(
    cx: &Cx<'_>,
    store: &KeyStore,
    name: &str,
    plan: keys::Plan,
    changes: &[Change],
    contents: &NewContents,
) -> Result<()> {
    let (parent, last) = tree::find_parent(cx, name)?;
    let dir = tree::create_dir(cx, parent, last)?;
    fill(cx, store, (name, dir), plan, changes, contents)?;
    Ok(())
}

fn fill(
    cx: &Cx<'_>,
    store: &KeyStore,
    (name, dir): (&str, u64),
    plan: keys::Plan,
    changes: &[Change],
    contents: &NewContents,
) -> Result<u64> {
    let flags = match contents {
        NewContents::FileSystem(traits, _) if traits.case_sensitivity == 1 => DslDataset::FLAG_CI_DATASET,
        _ => 0,
    };
    let head = tree::create_head(cx, dir, cx.origin_snapshot()?, flags)?;
    let node = Node { name: name.to_owned(), dir, head, snapshot: None };
    let keys = keys::create(cx, store, &node, plan)?;
    limits::start(cx, dir)?;
    cx.history("create", name, head, " ")?;
    for change in changes {
        props::apply(cx, &node, change)?;
    }
    contents::create(cx, &node, keys, contents)?;
    Ok(head)
}

/// The root file system of a new pool.
pub struct Bootstrap<'a> {
    /// Its properties (`zpool create -O`).
    pub properties: Vec<(String, String)>,
    /// Its key, if it is encrypted.
    pub key: Option<Zeroizing<Vec<u8>>>,
    /// The loaded keys; the new key is added.
    pub keys: &'a KeyStore,
    pub maker: FileSystemMaker,
}

/// Creates the datasets that a pool of its version has, in the first txg of a new pool: the root,
/// `$MOS`, `$FREE`, `$ORIGIN` with its snapshot, and the root file system. The object directory and
/// the feature ZAPs must exist.
pub fn bootstrap(sync: &SyncTx<'_>, options: &Bootstrap<'_>) -> Result<()> {
    let cx = Cx::new(sync);
    let name = cx.mos().store().name().to_owned();
    let new = NewDataset { name: name.clone(), properties: options.properties.clone(), ..NewDataset::default() };
    let newest = FileSystemTraits { version: contents::newest_in(sync.version()), ..FileSystemTraits::default() };
    let key = Derived::of_new(&name, &new.properties, options.key.as_ref(), None)?;
    let sorted = sort(&cx, &new, key, newest)?;
    let plan = keys::plan(&cx, options.keys, None, &name, wanted(&sorted))?;

    let root = tree::create_dir(&cx, 0, "")?;
    tree::create_dir(&cx, root, "$MOS")?;
    if sync.version() >= version::DEADLISTS {
        upgrade::create_free(&cx, root)?;
    }
    if sync.version() >= version::ORIGIN {
        upgrade::create_origin(&cx, root)?;
    }
    let contents = NewContents::FileSystem(sorted.traits, options.maker);
    fill(&cx, options.keys, (&name, root), plan, &sorted.changes, &contents).map(drop)
}
