//! What a caller may receive who is not the owner of the pools.
//!
//! Facts: `zfs_secpolicy_recv`, `zfs_set_prop_nvlist` in module/zfs/zfs_ioctl.c, `lzc_receive_impl`
//! in lib/libzfs_core/libzfs_core.c.
//!
//! Invariants:
//!   * each stream is checked against the dataset that it really goes to
//!   * a clone needs permission to clone its origin, which OpenZFS does not require: the sender of
//!     a stream chooses the origin, by its guid
//!   * replication, which renames, promotes and destroys what the stream names, is for the owner

use super::options::Asked;
use super::receiver::Receiver;
use crate::context::{Context, Failure};
use admin::state::Imported;
use admin::verbs::{Caller, Kind, Reason};
use dataset::Datasets;
use dataset::write::ReceivedProperties;
use std::sync::Arc;

/// Requires permission to receive into `dataset`, or into a new dataset of that name. Without
/// `force` (`-F`), which destroys what is there, permission to append is enough.
fn require(caller: &Caller, tree: &Arc<Datasets>, dataset: &str, force: bool) -> Result<(), Reason> {
    let place = match tree.dataset(dataset) {
        Ok(_) => dataset,
        Err(_) => dataset.rsplit_once('/').map_or(dataset, |(parent, _)| parent),
    };
    match caller.require(tree, place, &["receive", "mount", "create"]) {
        Err(reason) if !force && reason.kind == Kind::Forbidden => {
            caller.require(tree, place, &["receive:append", "mount", "create"])
        }
        result => result,
    }
}

/// Before anything of the stream is read, even if nothing is to be received (`-n`).
pub(super) fn to_begin(cx: &Context<'_>, record: &Imported, asked: &Asked) -> Result<(), Failure> {
    let to = asked.to.split('@').next().unwrap_or_default();
    let invocation = cx.invocation(String::new());
    let permitted = invocation.permit(record, |caller, tree| require(caller, tree, to, asked.force));
    Ok(permitted.map_err(|reason| reason.refuse("cannot receive"))?)
}

/// Before the state of an interrupted receive is removed: it is destroyed, wherever it is.
pub(super) fn to_give_up(cx: &Context<'_>, record: &Imported, cannot: &str, names: [&str; 2]) -> Result<(), Failure> {
    let permitted = cx.invocation(String::new()).permit(record, |caller, tree| {
        let mut there = names.into_iter().filter(|name| tree.dataset(name).is_ok());
        there.try_for_each(|name| caller.require(tree, name, &["mount", "destroy"]))
    });
    Ok(permitted.map_err(|reason| reason.refuse(cannot))?)
}

impl Receiver<'_> {
    /// Before a stream is received into `dataset`.
    pub(super) fn require(
        &self,
        tree: &Arc<Datasets>,
        dataset: &str,
        origin: Option<&str>,
        cannot: &str,
    ) -> Result<(), Failure> {
        let origin = origin.map_or(Ok(()), |origin| self.caller.require(tree, origin, &["clone"]));
        let permitted = origin.and_then(|()| require(&self.caller, tree, dataset, self.asked.force));
        Ok(permitted.map_err(|reason| reason.refuse(cannot))?)
    }

    /// Before a replication stream changes what is there.
    pub(super) fn require_owner(&self) -> Result<(), Failure> {
        let what = "cannot receive: unsupported: incremental replication streams (-R -i) for users other than the owner \
                    of the pools";
        self.caller.require_owner().map_err(|_| Failure::failed(what))
    }

    /// The `keylocation` that a stream brings for an encryption root, if the caller may set it;
    /// otherwise the key is asked for.
    pub(super) fn permitted_location(
        &self,
        tree: &Arc<Datasets>,
        dataset: &str,
        location: Option<String>,
    ) -> Option<String> {
        let may = self.caller.check_key_location(location.as_deref());
        let may = may.and_then(|()| self.caller.require_property(tree, dataset, "keylocation"));
        location.map(|location| if may.is_ok() { location } else { "prompt".to_owned() })
    }

    /// The properties that the caller may set on `dataset`, which the stream creates unless
    /// `is_there`; says which were left out.
    pub(super) fn permitted(
        &self,
        cx: &mut Context<'_>,
        tree: &Arc<Datasets>,
        dataset: &str,
        is_there: bool,
        mut properties: ReceivedProperties,
    ) -> ReceivedProperties {
        if self.caller.is_owner() {
            return properties;
        }
        let mut may_set = |property: &str| {
            let permitted = match is_there {
                true => self.caller.require_property(tree, dataset, property),
                false => self.caller.require_to_create(tree, dataset, false, [property]),
            };
            if let Err(reason) = &permitted {
                cx.complain(&format!("cannot receive {property} property on {dataset}: {}", reason.text));
            }
            permitted.is_ok()
        };
        properties.set.retain(|(name, _)| may_set(name));
        properties.inherit.retain(|name| may_set(name));
        if let Some(brought) = &mut properties.brought {
            brought.retain(|(name, _)| may_set(name));
        }
        properties
    }
}
