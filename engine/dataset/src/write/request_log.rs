//! Records of whole requests in the pool's history, beside those of what they changed: OpenZFS's
//! kernel module writes one for each ioctl that changes datasets, with its arguments (`zpool
//! history -i`).
//!
//! Facts: `zfsdev_ioctl_common` and the rows of `zfs_ioctl_init` that log, in
//! module/zfs/zfs_ioctl.c; arguments in lib/libzfs_core/libzfs_core.c.

use super::cx::Cx;
use super::values::Setting;
use crate::property::Value as Property;
use errors::Result;
use ondisk::nvlist::{Nvlist, Value};

/// `zfs snapshot`: names of the snapshots, and their user properties.
pub(super) fn snapshot(cx: &Cx<'_>, names: &[String], properties: &[(String, String)]) -> Result<()> {
    let mut input = one("snaps", flags(names));
    if !properties.is_empty() {
        let mut list = Nvlist::new();
        properties.iter().for_each(|(name, text)| list.put(name, text.as_str()));
        input.put("props", list);
    }
    cx.sync.history_ioctl("snapshot", input)
}

/// `zfs destroy` of snapshots.
pub(super) fn destroy_snapshots(cx: &Cx<'_>, names: &[String], deferred: bool) -> Result<()> {
    let mut input = one("snaps", flags(names));
    if deferred {
        input.put("defer", Value::Boolean);
    }
    cx.sync.history_ioctl("destroy_snaps", input)
}

/// `zfs hold`.
pub(super) fn hold(cx: &Cx<'_>, names: &[String], tag: &str) -> Result<()> {
    let mut holds = Nvlist::new();
    names.iter().for_each(|name| holds.put(name, tag));
    cx.sync.history_ioctl("hold", one("holds", holds))
}

/// `zfs release`.
pub(super) fn release(cx: &Cx<'_>, names: &[String], tag: &str) -> Result<()> {
    let mut input = Nvlist::new();
    names.iter().for_each(|name| input.put(name, one(tag, Value::Boolean)));
    cx.sync.history_ioctl("release", input)
}

/// `zfs bookmark`: pairs of a source and the bookmark.
pub(super) fn bookmark(cx: &Cx<'_>, pairs: &[(String, String)]) -> Result<()> {
    let mut input = Nvlist::new();
    pairs.iter().for_each(|(source, name)| input.put(name, source.as_str()));
    cx.sync.history_ioctl("bookmark", input)
}

/// `zfs destroy` of a bookmark.
pub(super) fn destroy_bookmark(cx: &Cx<'_>, name: &str) -> Result<()> {
    cx.sync.history_ioctl("destroy_bookmarks", one(name, Value::Boolean))
}

/// `zfs clone`.
pub(super) fn clone(cx: &Cx<'_>, origin: &str, settings: &[Setting]) -> Result<()> {
    let mut input = one("origin", origin);
    if !settings.is_empty() {
        let mut list = Nvlist::new();
        for setting in settings {
            match &setting.value {
                Property::Number(number) => list.put(&setting.name, *number),
                Property::Text(text) => list.put(&setting.name, text.as_str()),
            }
        }
        input.put("props", list);
    }
    cx.sync.history_ioctl("clone", input)
}

/// `zfs rollback` to this snapshot.
pub(super) fn rollback(cx: &Cx<'_>, to: &str) -> Result<()> {
    cx.sync.history_ioctl("rollback", one("target", to))
}

fn one(name: &str, value: impl Into<Value>) -> Nvlist {
    let mut list = Nvlist::new();
    list.put(name, value);
    list
}

fn flags(names: &[String]) -> Nvlist {
    let mut list = Nvlist::new();
    names.iter().for_each(|name| list.put(name, Value::Boolean));
    list
}
