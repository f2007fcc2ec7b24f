//! Setting and inheriting properties, and the effects of some of them beyond the stored value.
//!
//! | property              | also                                                    |
//! |-----------------------|---------------------------------------------------------|
//! | quota                 | `dd_quota`                                              |
//! | reservation           | `dd_reserved`, and what the directories above count     |
//! | refreservation        | the breakdown's part for it                             |
//! | filesystem_limit, snapshot_limit | counts from here down                        |
//! | compression           | zstd: the feature is active, before anything is written |
//! | redundant_metadata, snapdir | words that older readers do not know go to `NAME$iuv` |
//!
//! Facts: `dsl_prop_set_sync_impl`, `dsl_prop_set_iuv` in module/zfs/dsl_prop.c; the checks and
//! effects of quotas in dsl_dir.c and dsl_dataset.c; dsl_dataset_set_compression.

use super::cx::Cx;
use super::space::{self, Delta, Part};
use super::values::{Setting, on_disk};
use super::{deadlist, feature, limits, tree::Node};
use crate::property::set::{PropertySet, SetBy};
use crate::property::{Value, find};
use errors::{Refusal, Result};
use ondisk::{DslDataset, ObjectType};

/// `ZIO_COMPRESS_ZSTD`.
const ZSTD: u64 = 16;

/// Change of a property.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Set the value locally.
    Set(Setting),
    /// Inherit the value from the parent, or use the default.
    Inherit(String),
    /// Revert to the received value, if there is one (`zfs inherit -S`).
    Revert(String),
    /// Store a received value: effective unless a local value is set.
    Receive(Setting),
    /// Remove a received value that the newest stream no longer contains.
    Forget(String),
}

impl Change {
    pub fn name(&self) -> &str {
        match self {
            Self::Set(setting) | Self::Receive(setting) => &setting.name,
            Self::Inherit(name) | Self::Revert(name) | Self::Forget(name) => name,
        }
    }
}

/// The effective number of a property that is not inherited.
pub(crate) fn own_number(cx: &Cx<'_>, dir: u64, name: &str) -> Result<u64> {
    let set = PropertySet::load(cx.mos(), cx.dir(dir)?.phys.props_zap)?;
    let default = find(name).map_or(0, |def| def.default_number());
    Ok(match set.get(name) {
        Some(SetBy::Local(Value::Number(n)) | SetBy::Received(Value::Number(n))) => *n,
        _ => default,
    })
}

/// The effective number of a property that is not inherited, after `change`.
fn predict(cx: &Cx<'_>, dir: u64, change: &Change) -> Result<u64> {
    let default = find(change.name()).map_or(0, |def| def.default_number());
    let set = PropertySet::load(cx.mos(), cx.dir(dir)?.phys.props_zap)?;
    let local = match set.get(change.name()) {
        Some(SetBy::Local(Value::Number(n))) => Some(*n),
        _ => None,
    };
    Ok(match change {
        Change::Set(setting) => setting.number(),
        Change::Receive(setting) => local.unwrap_or(setting.number()),
        Change::Forget(_) => local.unwrap_or(default),
        Change::Inherit(_) => default,
        Change::Revert(name) => match set.received(name) {
            Some(Value::Number(n)) => *n,
            _ => default,
        },
    })
}

/// Rejects an invalid change; modifies nothing.
pub(crate) fn check(cx: &Cx<'_>, node: &Node, change: &Change) -> Result<()> {
    let value = match change.name() {
        "quota" | "reservation" | "refquota" | "refreservation" => predict(cx, node.dir, change)?,
        _ => return Ok(()),
    };
    let no_space = || Err(Refusal::NoSpace.at(format!("{}: {}", node.name, change.name())));
    let dir = cx.dir(node.dir)?.phys;
    let head = cx.dataset(dir.head_dataset)?.phys;
    match change.name() {
        "quota" if value != 0 && (value < dir.reserved_bytes || value < dir.used_bytes) => no_space(),
        "reservation" => {
            let available = match dir.parent {
                0 => cx.sync.pool_bytes().saturating_sub(dir.used_bytes),
                parent => space::available(cx, parent, cx.sync.pool_bytes())?,
            };
            let (old, new) = (dir.used_bytes.max(dir.reserved_bytes), dir.used_bytes.max(value));
            let over_quota = dir.quota_bytes > 0 && value > dir.quota_bytes;
            if new > old && (new - old > available || over_quota) { no_space() } else { Ok(()) }
        }
        "refquota" if value != 0 => {
            let reserved = own_number(cx, node.dir, "refreservation")?;
            if value < head.referenced_bytes || value < reserved { no_space() } else { Ok(()) }
        }
        "refreservation" => {
            let (reserved, quota) =
                (own_number(cx, node.dir, "refreservation")?, own_number(cx, node.dir, "refquota")?);
            let unique = deadlist::unique_bytes(cx, &head)?;
            let (old, new) = (unique.max(reserved), unique.max(value));
            let available = space::available(cx, node.dir, cx.sync.pool_bytes())?;
            if new > old && (new - old > available || (quota > 0 && value > quota)) { no_space() } else { Ok(()) }
        }
        _ => Ok(()),
    }
}

/// Applies a change that passed [`check`].
pub(crate) fn apply(cx: &Cx<'_>, node: &Node, change: &Change) -> Result<()> {
    let before = match change.name() {
        "refreservation" if node.snapshot.is_none() => own_number(cx, node.dir, "refreservation")?,
        _ => 0,
    };
    if change.name() == "refreservation" && node.snapshot.is_none() {
        deadlist::count_unique(cx, node.head)?;
    }
    note(cx, node, change)?;
    if node.snapshot.is_some() {
        return Ok(());
    }
    match change.name() {
        "quota" => {
            let value = own_number(cx, node.dir, "quota")?;
            cx.change_dir(node.dir, |dir| dir.quota_bytes = value)
        }
        "reservation" => space::set_reserved(cx, node.dir, own_number(cx, node.dir, "reservation")?),
        "refreservation" => did_set_refreservation(cx, node.dir, before, own_number(cx, node.dir, "refreservation")?),
        "filesystem_limit" | "snapshot_limit" => match change {
            Change::Set(setting) | Change::Receive(setting) if setting.number() != u64::MAX => {
                limits::activate(cx, node.dir)
            }
            _ => Ok(()),
        },
        "compression" => match change {
            // The low bits are the algorithm, the others its level.
            Change::Set(setting) | Change::Receive(setting) if setting.number() & 0x7f == ZSTD => {
                feature::activate(cx, node.head, feature::ZSTD)
            }
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Updates the space that the refreservation holds back for the head, after a change from `before`
/// to `now`.
pub(crate) fn did_set_refreservation(cx: &Cx<'_>, dir: u64, before: u64, now: u64) -> Result<()> {
    let unique = cx.dataset(cx.dir(dir)?.phys.head_dataset)?.phys.unique_bytes;
    let delta = now.saturating_sub(unique).wrapping_sub(before.saturating_sub(unique)) as i64;
    space::did_use(cx, dir, Part::Refreservation, Delta::used(delta))
}

/// Records the change in the ZAP, and in the pool's history.
fn note(cx: &Cx<'_>, node: &Node, change: &Change) -> Result<()> {
    let zap = match node.snapshot {
        None => cx.dir(node.dir)?.phys.props_zap,
        Some(id) => snapshot_zap(cx, id, change)?,
    };
    if zap == 0 {
        return Ok(());
    }
    let name = change.name();
    let (inherit, iuv, received) = (format!("{name}$inherit"), format!("{name}$iuv"), format!("{name}$recvd"));
    // Reopened each time: an open ZAP does not see changes made through another handle.
    let remove = |name: &str| match cx.zap(zap)?.lookup(name)? {
        Some(_) => cx.zap(zap)?.remove(cx.tx(), name.as_bytes()),
        None => Ok(()),
    };
    let put = |name: &str, value: &Value| cx.zap(zap)?.update(cx.tx(), name.as_bytes(), &on_disk(value));
    match change {
        Change::Set(setting) => {
            remove(&inherit)?;
            if is_new_word(setting) {
                let default = find(name).map_or(0, |def| def.default_number());
                put(&iuv, &setting.value)?;
                put(name, &Value::Number(default))?;
            } else {
                put(name, &setting.value)?;
                remove(&iuv)?;
            }
        }
        Change::Inherit(_) => {
            remove(name)?;
            remove(&iuv)?;
            if cx.zap(zap)?.lookup("$hasrecvd")?.is_some() {
                put(&inherit, &Value::Number(0))?;
            }
        }
        Change::Revert(_) => {
            remove(name)?;
            remove(&inherit)?;
        }
        Change::Receive(setting) => put(&received, &setting.value)?,
        Change::Forget(_) => remove(&received)?,
    }
    if let Some(id) = node.snapshot
        && cx.zap(zap)?.count()? == 0
    {
        cx.change_dataset(id, |phys| phys.props_zap = 0)?;
        cx.free_object(zap)?;
    }
    let (event, text) = match change {
        Change::Set(setting) => ("set", format!("{name}={}", setting.text())),
        Change::Receive(setting) => ("set", format!("{received}={}", setting.text())),
        Change::Inherit(_) | Change::Revert(_) | Change::Forget(_) => {
            ("inherit", format!("{name}={}", in_force(cx, node, name)?))
        }
    };
    cx.history(event, &node.name, node.snapshot.unwrap_or(node.head), &text)
}

fn snapshot_zap(cx: &Cx<'_>, id: u64, change: &Change) -> Result<u64> {
    let phys: DslDataset = cx.dataset(id)?.phys;
    if phys.props_zap != 0 || !matches!(change, Change::Set(_) | Change::Receive(_)) {
        return Ok(phys.props_zap);
    }
    let zap = cx.create_zap(ObjectType::DSL_PROPS)?;
    cx.change_dataset(id, |phys| phys.props_zap = zap)?;
    Ok(zap)
}

/// Whether older readers do not know this value.
fn is_new_word(setting: &Setting) -> bool {
    matches!((setting.name.as_str(), setting.number()), ("redundant_metadata", 2 | 3) | ("snapdir", 2))
}

/// The effective value of a property, as histories print it.
fn in_force(cx: &Cx<'_>, node: &Node, name: &str) -> Result<String> {
    let def = find(name);
    let inherits = def.is_none_or(|def| def.inheritable());
    if let Some(id) = node.snapshot {
        let set = PropertySet::load(cx.mos(), cx.dataset(id)?.phys.props_zap)?;
        if let Some(SetBy::Local(value) | SetBy::Received(value)) = set.get(name) {
            return Ok(Setting { name: String::new(), value: value.clone() }.text());
        }
    }
    let mut at = node.dir;
    while at != 0 {
        let dir = cx.dir(at)?.phys;
        let set = PropertySet::load(cx.mos(), dir.props_zap)?;
        if let Some(SetBy::Local(value) | SetBy::Received(value)) = set.get(name) {
            return Ok(Setting { name: String::new(), value: value.clone() }.text());
        }
        if !inherits {
            break;
        }
        at = dir.parent;
    }
    Ok(match def {
        Some(def) => def.default_text().map_or_else(|| (def.default_number() as i64).to_string(), str::to_owned),
        None => String::new(),
    })
}

/// Clears the pool's `bootfs` if it refers to the destroyed dataset.
pub(crate) fn clear_bootfs(cx: &Cx<'_>, id: u64) -> Result<()> {
    let Some(props) = cx.directory(ondisk::pool_dir::directory::PROPS)? else { return Ok(()) };
    if cx.zap(props)?.lookup_u64("bootfs")? == Some(id) {
        cx.zap(props)?.remove(cx.tx(), b"bootfs")?;
    }
    Ok(())
}
