//! Changing the dataset tree: create, destroy, rename, set properties and change keys.
//!
//! ```text
//!   operations (this file, create, destroy, rename, keys) -- one task each, in syncing context
//!     cx        directories and datasets read from the MOS and written back
//!     space     space accounting, up to the root      deadlist  blocks that snapshots still hold
//!     props     properties with their effects         values    user input, checked
//!     limits    counts of datasets                    feature   features that datasets use
//!     contents  object sets of new datasets           free      blocks of destroyed ones
//!     snapshot  snapshots taken                       unsnap    snapshots destroyed
//!     bookmark  bookmarks                             holds     holds on snapshots
//!     redaction       redactions in progress
//!     redaction_list  what redaction bookmarks list
//!     received  properties received with streams      raw_keys  wrapped keys of raw streams
//!     delegation  permissions of users, changed         permissions  their ZAPs
//!     limit_check  counts that users may not exceed
//!     receive_progress  how far a receive has come
//!     pending   destroyed data that is not freed yet
//!     upgrade   the version of the pool rises
//!     one_txg   several of these operations in one txg
//! ```
//! Below: `pool::Writer::task`. ZFS name: DSL sync tasks.
//!
//! Invariants:
//!   * a task checks everything before it changes anything: an error from it means that nothing was
//!     changed
//!   * open datasets are refreshed from the synced txg after each operation

pub(crate) mod bookmark;
pub(crate) mod clone;
pub(crate) mod contents;
pub(crate) mod create;
pub(crate) mod cx;
pub(crate) mod deadlist;
mod delegation;
pub(crate) mod destroy;
pub(crate) mod feature;
pub(crate) mod free;
pub(crate) mod holds;
pub(crate) mod keys;
pub(crate) mod limit_check;
pub(crate) mod limits;
mod one_txg;
pub(crate) mod pending;
mod permissions;
mod promote;
pub(crate) mod props;
pub(crate) mod raw_keys;
pub(crate) mod receive_progress;
mod received_props;
pub(crate) mod redaction;
mod redaction_list;
mod remaps;
mod rename;
mod request_log;
pub(crate) mod rollback;
pub(crate) mod snapshot;
pub(crate) mod space;
pub(crate) mod tree;
pub(crate) mod unsnap;
mod upgrade;
mod values;
mod volume_reservation;

pub use bookmark::{bookmark, destroy_bookmark};
pub use clone::{clone, clone_for};
pub use contents::{FILE_SYSTEM_VERSION, FileSystemMaker, FileSystemTraits, Fill, pool_version_for};
pub use create::{Bootstrap, NewDataset, bootstrap, check_version, create};
pub use cx::Failures;
pub use delegation::{Delegation, delegate};
pub use destroy::destroy;
pub use holds::{hold, release};
pub use keys::{KeyChange, NewKey, PBKDF2_ITERATIONS, PBKDF2_ITERATIONS_MAX, key_format};
pub use one_txg::{Denied, IsUsed, OneTxg, in_one_txg};
pub use promote::{promote, promote_for};
pub use props::Change;
pub use raw_keys::set_encryption_root;
pub use received_props::{ReceivedProperties, receive_properties, snapshot_differs};
pub use rename::{rename, rename_for, rename_snapshot};
pub use rollback::rollback;
pub use snapshot::{snapshot, snapshot_for};
pub use tree::TXG_INITIAL;
pub use unsnap::destroy_snapshots;
pub use upgrade::{enable_feature, upgrade_pool};
pub use values::{Setting, check_new, parse_version};
pub use volume_reservation::{reservation_of_volumes, volume_reservation};

use crate::delegation::Credentials;
use crate::live::LiveDatasets;
use crate::property::{Attr, find, full_name, is_user_property};
use cx::Cx;
use errors::{Error, Result};
use pool::SpaceCheck;

/// Sets properties of dataset `name`, all of them or none. `volsize` is stored in the volume's
/// contents and is set after the others.
pub fn set(live: &LiveDatasets, name: &str, properties: &[(String, String)]) -> Result<()> {
    let full = name.to_owned();
    let properties = properties.to_vec();
    let size = live.writer().task(move |sync| {
        let cx = Cx::new(sync);
        let node = tree::find(&cx, &full)?;
        let mut settings = values::settings_for(&cx, &node, &properties)?;
        if let Some(location) = settings.iter().find(|s| s.name == "keylocation") {
            check_key_location(&cx, &node, &location.text())?;
        }
        volume_reservation::complete(&cx, &node, &mut settings)?;
        let size = settings.iter().find(|s| s.name == "volsize").map(Setting::number);
        settings.retain(|s| s.name != "volsize");
        apply_all(&cx, &node, settings.into_iter().map(Change::Set).collect())?;
        Ok(size)
    })?;
    live.refresh()?;
    let Some(size) = size else { return Ok(()) };
    let was_open = live.get(live.synced()?.dataset(name)?.id());
    let volume = live.open(name, None)?;
    let result = volume.set_volume_size(size).and_then(|()| volume.sync());
    if was_open.is_none() {
        live.close(&volume)?;
    }
    result
}

/// Records in the pool's history that the version of file system `name` was raised.
pub fn note_upgrade(live: &LiveDatasets, name: &str, (from, to): (u64, u64)) -> Result<()> {
    let name = name.to_owned();
    live.writer().task(move |sync| {
        let cx = Cx::new(sync);
        let node = tree::find(&cx, &name)?;
        cx.history("upgrade", &name, node.head, &format!("from {from} to {to}"))
    })
}

/// Makes dataset `name` inherit property `property`; with `received`, reverts to the value received
/// with a stream.
pub fn inherit(live: &LiveDatasets, name: &str, property: &str, received: bool) -> Result<()> {
    let property = full_name(property);
    check_inherit(name, property, received)?;
    let change = if received { Change::Revert(property.to_owned()) } else { Change::Inherit(property.to_owned()) };
    let name = name.to_owned();
    live.writer().task(move |sync| {
        let cx = Cx::new(sync);
        apply_all(&cx, &tree::find(&cx, &name)?, vec![change])
    })?;
    live.refresh()
}

fn check_inherit(name: &str, property: &str, received: bool) -> Result<()> {
    match find(property) {
        _ if is_user_property(property) => Ok(()),
        None => Err(Error::invalid(name, format!("'{property}': there is no such property"))),
        Some(def) if def.readonly() => Err(Error::invalid(name, format!("'{property}' is readonly"))),
        // Quotas and similar properties are not inherited: they can only revert to a
        // received value.
        Some(def) if def.attr != Attr::Inherit && !received => {
            Err(Error::invalid(name, format!("'{property}' cannot be inherited; set it instead")))
        }
        Some(_) => Ok(()),
    }
}

/// Changes the wrapping key of dataset `name`, whose key must be loaded.
pub fn change_key(live: &LiveDatasets, name: &str, change: KeyChange) -> Result<()> {
    change_key_for(live, None, name, change)
}

/// The same for a user; `None`: for the owner of the pools.
pub fn change_key_for(live: &LiveDatasets, user: Option<&Credentials>, name: &str, change: KeyChange) -> Result<()> {
    let change = change.plan(name, user)?;
    let ((keys, _), name) = (live.parts(), name.to_owned());
    live.writer().task(move |sync| {
        let cx = Cx::new(sync);
        sync.check_space(&name, 1, SpaceCheck::Reserved)?;
        keys::change(&cx, &keys, &tree::find(&cx, &name)?, &change)
    })?;
    live.refresh()
}

fn apply_all(cx: &Cx<'_>, node: &tree::Node, changes: Vec<Change>) -> Result<()> {
    // Limits can be changed on a full pool, because that is one way to make room.
    let is_limit =
        |change: &Change| matches!(change.name(), "quota" | "reservation" | "refquota" | "refreservation" | "volsize");
    let check = if changes.iter().all(is_limit) { SpaceCheck::ExtraReserved } else { SpaceCheck::Reserved };
    cx.sync.check_space(&node.name, changes.len() as u64, check)?;
    changes.iter().try_for_each(|change| props::check(cx, node, change))?;
    cx.sync.all_or_nothing(|| changes.iter().try_for_each(|change| props::apply(cx, node, change)))
}

/// Facts: zfs_valid_proplist, dsl_crypto_can_set_keylocation.
fn check_key_location(cx: &Cx<'_>, node: &tree::Node, location: &str) -> Result<()> {
    let invalid = |what: &str| Err(Error::invalid(&*node.name, what));
    match (keys::root_of(cx, node.dir)?, location) {
        (None, "none") => Ok(()),
        (None, _) => invalid("keylocation must be 'none' for unencrypted datasets"),
        (Some(_), "none") => invalid("keylocation must not be 'none' for encrypted datasets"),
        (Some(root), _) if root == node.dir => Ok(()),
        (Some(_), _) => invalid("keylocation may only be set on encryption roots"),
    }
}
