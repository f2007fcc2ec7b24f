//! The properties of received datasets: those in the stream, `-o` and `-x`.
//!
//! On the top dataset, `-o` sets a property and `-x` makes it inherited, whatever the stream says;
//! its descendants inherit both. Facts: `zfs_receive_checkprops`, `zfs_setup_cmdline_props` in
//! lib/libzfs/libzfs_sendrecv.c.
//!
//! A new dataset inherits the encryption of its parent, with two exceptions. `-o encryption`
//! overrides it. A plain stream with properties comes from a dataset that was not encrypted, so the
//! new dataset is not encrypted either, unless `-x encryption` drops that property.

use super::name::Destination;
use super::options::is_of_keys;
use super::receiver::Receiver;
use crate::context::{Context, Failure};
use admin::new_key::{self, Material};
use dataset::property::{Kinds, find, is_user_property};
use dataset::write::ReceivedProperties;
use dataset::{Datasets, Source, View, property};
use ondisk::send_record::{Begin, Features};
use std::sync::Arc;

/// The encryption of a new dataset.
#[derive(Default)]
pub(super) struct Encryption {
    /// The encryption properties; empty: inherited from the parent.
    pub properties: Vec<(String, String)>,
    /// The key of a new encryption root.
    pub key: Option<Material>,
}

impl Receiver<'_> {
    /// The properties to store on the dataset, and the encryption of a new dataset.
    #[allow(clippy::too_many_arguments)] // Each says something else of the one stream.
    pub(super) fn properties(
        &self,
        cx: &mut Context<'_>,
        begin: &Begin,
        tree: &Arc<Datasets>,
        to: &Destination,
        is_top: bool,
        is_volume: bool,
        makes: bool,
    ) -> Result<(ReceivedProperties, Encryption), Failure> {
        let (list, asked) = (self.list.as_ref(), &self.asked.properties);
        let kinds = if is_volume { Kinds::VOLUME } else { Kinds::FILESYSTEM };
        let applies = |name: &str| is_user_property(name) || find(name).is_some_and(|def| def.kinds.intersects(kinds));
        let recursive = list.is_some_and(|list| list.recursive);
        let mut brought = list.and_then(|list| list.properties(begin.to_guid));
        let is_raw = begin.features.contains(Features::RAW);
        let set_keys: Vec<(String, String)> = asked.set.iter().filter(|(name, _)| is_of_keys(name)).cloned().collect();
        let excluded_key = asked.exclude.iter().find(|name| is_of_keys(name));
        let refused = |name: &str, what: &str| {
            Err(Failure::failed(format!("cannot receive: encryption property '{name}' cannot be {what} streams.")))
        };
        match set_keys.first().map(|(name, _)| name).or(excluded_key) {
            Some(name) if is_raw => return refused(name, "set or excluded for raw"),
            // In a package, an incremental stream does not choose the encryption of the existing
            // dataset.
            Some(name) if !makes && !recursive && !set_keys.is_empty() => return refused(name, "set for incremental"),
            _ => {}
        }
        let mut encryption = Encryption::default();
        if makes && !is_raw {
            if is_top {
                encryption.properties = set_keys;
            }
            let says = |name: &String| name == "encryption";
            if brought.is_some() && !asked.set.iter().any(|(name, _)| says(name)) && !asked.exclude.iter().any(says) {
                encryption.properties.push(("encryption".to_owned(), "off".to_owned()));
            }
            let location = encryption.properties.iter().find(|(name, _)| name == "keylocation");
            let permitted = self.caller.check_key_location(location.map(|(_, value)| value.as_str()));
            permitted.map_err(|reason| reason.refuse("cannot receive"))?;
            let prompt = |_: &str| anyhow::bail!("Cannot use 'prompt' keylocation because stdin is in use.");
            let key =
                new_key::ask(&encryption.properties, &to.dataset, None, &prompt, &*cx.invocation(String::new()).fetch);
            encryption.key = key.map_err(|e| Failure::failed(format!("cannot receive: {e:#}")))?;
        }
        if let (true, Some(brought)) = (is_raw, &mut brought) {
            // Which datasets are encryption roots is known only after the last stream.
            brought.retain(|(name, _)| !is_of_keys(name));
        }
        let mut properties = ReceivedProperties::default();
        for (name, value) in asked.set.iter().filter(|(name, _)| !is_of_keys(name)) {
            match (applies(name), is_top) {
                (true, true) => properties.set.push((name.clone(), value.clone())),
                (true, false) => properties.inherit.push(name.clone()),
                (false, _) if recursive => {}
                (false, _) => {
                    let what = format!("property '{name}' does not apply to datasets of this type");
                    return Err(Failure::failed(format!("cannot receive: {what}")));
                }
            }
        }
        let existing = tree.entry(&to.dataset).ok();
        for name in &asked.exclude {
            if !applies(name) {
                let what = format!("property '{name}' does not apply to datasets of this type");
                cx.complain(&format!("Warning: {}: {what}", to.dataset));
                continue;
            }
            let source =
                existing.as_ref().and_then(|entry| property::get(entry, name, &View::default()).ok().flatten());
            if source.is_some_and(|p| p.source == Source::Local) {
                continue;
            }
            let is_inherited = is_user_property(name) || find(name).is_some_and(|def| def.inheritable());
            match &mut brought {
                Some(brought) if !is_inherited => brought.retain(|(other, _)| other != name),
                _ if is_inherited => properties.inherit.push(name.clone()),
                _ => {}
            }
        }
        properties.brought = brought;
        Ok((properties, encryption))
    }
}
