//! `zpool create`: creates a pool with its root file system.
//!
//! Invariants:
//!   * everything that can be checked is checked before the first byte is written

use crate::layout::{Draid, Flaw, Group, Layout, Leaf, Purpose, Top, Wrong};
use crate::pool_properties::PoolSetting;
use crate::write::{self, WritablePool, lock_owner};
use anyhow::{Result, bail};
use block::Class;
use dataset::KeyStore;
use dataset::write::Bootstrap;
use errors::{Error, Refusal};
use host::device::Device;
use pool::devices;
use pool::property::SetValue;
use pool::writer::{self, CreatePool, NewAuxiliary, NewDevices, NewDraid, NewVdev, WriteOptions};
use pool::{OpenOptions, Writer};
use std::path::PathBuf;
use std::sync::Arc;
use zeroize::Zeroizing;

const SAME_DEVICE: &str =
    "one or more vdevs refer to the same device, or one of\nthe devices is part of an active md or lvm device";
/// Maximum length of a pool name, in bytes.
const NAME_BYTES_MAX: usize = 256 - 2 - 2 * "$ORIGIN".len();

/// A pool to create.
pub struct CreateRequest {
    pub name: String,
    /// Temporary name, used until the pool is exported.
    pub temporary_name: Option<String>,
    /// Devices of the pool; [`crate::layout`] has validated them.
    pub layout: Layout,
    /// log2 of the allocation unit; `None` for each device's own.
    pub ashift: Option<u8>,
    /// On-disk version.
    pub version: u64,
    /// Names of the features to enable.
    pub features: Vec<String>,
    pub settings: Vec<PoolSetting>,
    /// Properties of the root file system.
    pub properties: Vec<(String, String)>,
    /// Key of the root file system, if it is encrypted.
    pub key: Option<Zeroizing<Vec<u8>>>,
    /// The command, for the pool history.
    pub command: String,
}

impl Default for CreateRequest {
    fn default() -> Self {
        Self {
            name: String::new(),
            temporary_name: None,
            layout: Layout::default(),
            ashift: None,
            version: writer::VERSION_FEATURES,
            features: Vec::new(),
            settings: Vec::new(),
            properties: Vec::new(),
            key: None,
            command: String::new(),
        }
    }
}

/// Validates a pool name. The error is OpenZFS's wording.
pub fn check_name(name: &str) -> Result<(), String> {
    let is_good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | ' ');
    if name.len() >= NAME_BYTES_MAX {
        return Err("name is too long".to_owned());
    }
    if let Some(bad) = name.chars().find(|c| !is_good(*c)) {
        return Err(format!("invalid character '{bad}' in pool name"));
    }
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return Err("name must begin with a letter".to_owned());
    }
    if name == "log" || ["mirror", "raidz", "draid", "spare"].iter().any(|word| name.starts_with(word)) {
        return Err("name is reserved".to_owned());
    }
    Ok(())
}

/// Validates properties of the root file system of a pool of `version` with these features.
pub fn check_properties(properties: &[(String, String)], version: u64, features: &[String]) -> errors::Result<()> {
    let is_enabled = |guid: &str| features.iter().any(|name| writer::is_called(name, guid));
    dataset::write::check_new("", false, properties, version, &is_enabled)
}

/// ashift of a top-level vdev: the largest of its leaves.
fn ashift(top: &Top) -> u8 {
    top.leaves.iter().map(|leaf| devices::ashift(&leaf.path)).max().unwrap_or(9)
}

fn class(purpose: Purpose) -> Class {
    match purpose {
        Purpose::Normal => Class::Normal,
        Purpose::Log => Class::Log,
        Purpose::Special => Class::Special,
        Purpose::Dedup => Class::Dedup,
    }
}

/// Messages for devices that cannot be used.
pub(crate) struct Devices {
    /// The device is in use, perhaps by this process.
    pub same: &'static str,
    pub too_small: &'static str,
}

/// Opens a device for writing and locks it. Fails if it is in use or too small.
pub(crate) fn open_device(leaf: &Leaf, words: &Devices) -> Result<Arc<dyn Device>> {
    let device = devices::open_for_writing(&leaf.path).map_err(|error| match error {
        Error::Refused { why: Refusal::Busy, .. } => {
            let owner = lock_owner(&leaf.path).map(|o| format!("\n{} is locked by {o}", leaf.name()));
            Wrong { flaw: Flaw::InUse, text: format!("{}{}", words.same, owner.unwrap_or_default()) }.into()
        }
        error => anyhow::Error::from(error),
    })?;
    if devices::is_too_small(device.size_bytes()) {
        bail!(Wrong { flaw: Flaw::Invalid, text: words.too_small.into() });
    }
    Ok(device)
}

/// Opens and locks all devices of a layout. `ashift`: log2 of the allocation unit; by default each
/// device's own.
pub(crate) fn open_devices(layout: &Layout, ashift: Option<u8>, words: &Devices) -> Result<NewDevices> {
    let auxiliary = |leaves: &[Leaf]| leaves.iter().map(|l| auxiliary(l, ashift, words)).collect::<Result<Vec<_>>>();
    Ok(NewDevices {
        tops: layout.tops.iter().map(|t| top(t, ashift, words)).collect::<Result<_>>()?,
        spares: auxiliary(&layout.spares)?,
        caches: auxiliary(&layout.caches)?,
    })
}

fn auxiliary(leaf: &Leaf, ashift: Option<u8>, words: &Devices) -> Result<NewAuxiliary> {
    Ok(NewAuxiliary {
        kind: leaf.kind(),
        path: leaf.name(),
        device: open_device(leaf, words)?,
        ashift: ashift.unwrap_or_else(|| devices::ashift(&leaf.path)),
    })
}

fn top(top: &Top, wanted: Option<u8>, words: &Devices) -> Result<NewVdev> {
    let leaf = |leaf: &Leaf| -> Result<NewVdev> {
        Ok(NewVdev {
            kind: leaf.kind(),
            parity: 0,
            draid: None,
            class: Class::Normal,
            leaf: Some((leaf.name(), open_device(leaf, words)?)),
            ashift: 0,
            children: Vec::new(),
        })
    };
    let mut leaves = top.leaves.iter().map(leaf).collect::<Result<Vec<_>>>()?;
    let (class, ashift) = (class(top.purpose), wanted.unwrap_or_else(|| ashift(top)));
    let group = |kind, parity, children| NewVdev { kind, parity, draid: None, class, leaf: None, ashift, children };
    Ok(match top.group {
        Group::Single => NewVdev { class, ashift, ..leaves.remove(0) },
        Group::Mirror => group("mirror", 0, leaves),
        Group::Raidz(parity) => group("raidz", parity, leaves),
        Group::Draid(Draid { parity, data, spares }) => {
            NewVdev { draid: Some(NewDraid { data, spares }), ..group("draid", parity, leaves) }
        }
    })
}

/// Creates a pool, after opening and locking its devices. Fails with [`Wrong`] if a device cannot
/// be used.
pub fn create(request: &CreateRequest) -> Result<WritablePool> {
    if request.layout.has_duplicate() {
        bail!(Wrong { flaw: Flaw::InUse, text: SAME_DEVICE.into() });
    }
    let words = Devices { same: SAME_DEVICE, too_small: "one or more devices is less than the minimum size (64M)" };
    let NewDevices { tops, spares, caches } = open_devices(&request.layout, request.ashift, &words)?;
    let text = |name: &str| {
        request.settings.iter().find_map(|s| match s {
            PoolSetting::Stored(n, SetValue::Text(text)) if n == name && !text.is_empty() => Some(text.clone()),
            _ => None,
        })
    };
    let new = CreatePool {
        name: request.name.clone(),
        version: request.version,
        tops,
        features: request.features.clone(),
        comment: text("comment"),
        compatibility: text("compatibility").filter(|t| t != "off"),
    };
    let keys = Arc::new(KeyStore::new());
    let (name, temporary_name) = (request.temporary_name.clone(), request.temporary_name.is_some());
    let open = OpenOptions { name, temporary_name, ..OpenOptions::default() };
    let writer = Writer::create(&new, &open, &WriteOptions::default(), |cx| {
        for name in &request.features {
            cx.history("set", None, &format!("feature@{name}=enabled"))?;
        }
        dataset::write::bootstrap(
            cx,
            &Bootstrap {
                properties: request.properties.clone(),
                key: request.key.clone(),
                keys: &keys,
                maker: write::maker(),
            },
        )?;
        for setting in &request.settings {
            if let PoolSetting::Stored(name, value) = setting {
                cx.set_pool_property(name, value)?;
            }
        }
        cx.history_command(&request.command)
    })?;
    if !spares.is_empty() || !caches.is_empty() {
        writer.add(NewDevices { spares, caches, ..NewDevices::default() }, false)?;
    }
    writer.store().reporter().sysevent(block::zevent::class::POOL_CREATE, |_| ());
    Ok(write::of_writer(writer, keys))
}

/// Paths of all devices of a layout.
pub fn places(layout: &Layout) -> Vec<PathBuf> {
    layout.leaves().map(|leaf| leaf.path.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pool_names_are_checked_with_openzfs_messages() {
        for good in ["tank", "a", "my pool", "x-1_2.3:4"] {
            assert_eq!(check_name(good), Ok(()), "{good}");
        }
        let cases = [
            ("mirror", "name is reserved"),
            ("mirrored", "name is reserved"),
            ("log", "name is reserved"),
            ("9bad", "name must begin with a letter"),
            ("a@b", "invalid character '@' in pool name"),
            ("", "name must begin with a letter"),
            (&"x".repeat(300), "name is too long"),
        ];
        for (name, message) in cases {
            assert_eq!(check_name(name).expect_err(name), message);
        }
    }
}
