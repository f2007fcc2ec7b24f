//! Wrapped keys received with a raw stream, and the dataset whose wrapping key unwraps them.
//!
//! A full stream makes its dataset an encryption root: the receiver may not have the source's key.
//! An incremental stream carries the keys as currently wrapped at the source (`zfs change-key` may
//! have rewrapped them); the keys themselves never change. Afterwards, a package (`zfs send -R`)
//! lists which datasets were encryption roots, and the others inherit their key again.
//!
//! Facts: `dsl_crypto_recv_raw_key_sync`, `spa_keystore_change_key_sync` with
//! `DCP_CMD_FORCE_INHERIT` and `DCP_CMD_FORCE_NEW_KEY` in module/zfs/dsl_crypt.c,
//! `recv_fix_encryption_hierarchy` in lib/libzfs/libzfs_sendrecv.c.

use super::cx::Cx;
use super::keys::{key_of, sharing};
use super::tree::{self, Node};
use super::{feature, values};
use crate::KeyStore;
use crate::live::LiveDatasets;
use crate::property::Value;
use block::crypt::{DatasetKeys, KeyObject, attribute as name};
use errors::{Error, Result};
use ondisk::ObjectType;
use ondisk::dsl_dir::FIELD_CRYPTO_KEY_OBJ;
use ondisk::zap::Value as ZapValue;

/// Version of received key objects.
const VERSION: u64 = 1;

/// Wrapped keys, and how their wrapping key is derived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReceivedKey {
    pub suite: u64,
    pub guid: u64,
    pub iv: [u8; 12],
    pub mac: [u8; 16],
    pub master_key: [u8; 32],
    pub hmac_key: [u8; 64],
    pub key_format: u64,
    pub pbkdf2_salt: u64,
    pub pbkdf2_iterations: u64,
}

impl ReceivedKey {
    /// Rejects keys that differ from the existing keys of directory `dir`.
    pub(crate) fn check(&self, cx: &Cx<'_>, dir: u64, place: &str) -> Result<()> {
        match key_of(cx, dir)? {
            Some((_, found)) if found.wrapped.guid != self.guid => {
                Err(Error::invalid(place, "encryption key does not match existing key"))
            }
            _ => Ok(()),
        }
    }

    fn is_in(&self, object: &KeyObject) -> bool {
        let w = &object.wrapped;
        (w.iv, w.mac, w.wrapped_master_key, w.wrapped_hmac_key) == (self.iv, self.mac, self.master_key, self.hmac_key)
    }

    /// The key object that holds them, with `root_dir` as encryption root.
    fn object(&self, root_dir: u64) -> KeyObject {
        KeyObject {
            wrapped: block::crypt::WrappedKeyParams {
                suite: self.suite,
                guid: self.guid,
                version: VERSION,
                iv: self.iv,
                mac: self.mac,
                wrapped_master_key: self.master_key,
                wrapped_hmac_key: self.hmac_key,
            },
            root_dir,
            key_format: self.key_format,
            pbkdf2_salt: self.pbkdf2_salt,
            pbkdf2_iterations: self.pbkdf2_iterations,
        }
    }

    /// Creates the key object of the new dataset `node`, which becomes an encryption root.
    pub(crate) fn create(&self, cx: &Cx<'_>, node: &Node) -> Result<()> {
        let id = cx.create_zap(ObjectType::OTN_ZAP_METADATA)?;
        cx.zap(id)?.update_u64(cx.tx(), name::REFCOUNT.as_bytes(), 1)?;
        cx.set_field(node.dir, FIELD_CRYPTO_KEY_OBJ, &ZapValue::one(id))?;
        feature::activate(cx, node.head, feature::ENCRYPTION)?;
        put_location(cx, node.dir, Some("prompt"))?;
        self.put(cx, id, node.dir)
    }

    /// Updates the datasets that share the key object of `dir` to the current wrapping.
    ///
    /// If the key is inherited from a dataset above, whose wrapping key cannot be the sender's,
    /// the existing wrapping is kept: otherwise no key could unwrap it any more. OpenZFS uses
    /// the sender's wrapping in every case.
    pub(crate) fn renew(&self, cx: &Cx<'_>, store: &KeyStore, dir: u64) -> Result<()> {
        let Some((id, old)) = key_of(cx, dir)? else { return Ok(()) };
        if self.is_in(&old) {
            return Ok(());
        }
        let new = self.object(old.root_dir);
        let opens = store.wrapping_key_of(old.root_dir).map(|key| DatasetKeys::unwrap(&new.wrapped, &key).is_ok());
        let is_own = old.root_dir == dir;
        if !is_own {
            let root = key_of(cx, old.root_dir)?.map(|(_, root)| root);
            let like_root = root.is_some_and(|root| {
                let given = (new.key_format, new.pbkdf2_salt, new.pbkdf2_iterations);
                (root.key_format, root.pbkdf2_salt, root.pbkdf2_iterations) == given
            });
            if !opens.unwrap_or(like_root) {
                return Ok(());
            }
        }
        self.put(cx, id, old.root_dir)?;
        if is_own && opens == Some(false) {
            store.forget(dir);
        }
        Ok(())
    }

    fn put(&self, cx: &Cx<'_>, id: u64, root_dir: u64) -> Result<()> {
        for (name, value) in self.object(root_dir).attributes() {
            let value = ZapValue { int_bytes: value.int_bytes, ints: value.ints };
            cx.zap(id)?.update(cx.tx(), name.as_bytes(), &value)?;
        }
        Ok(())
    }
}

/// Sets the key location of directory `dir`, or removes it.
fn put_location(cx: &Cx<'_>, dir: u64, location: Option<&str>) -> Result<()> {
    let props = cx.dir(dir)?.phys.props_zap;
    match location {
        Some(location) => {
            let value = values::on_disk(&Value::Text(location.to_owned()));
            cx.zap(props)?.update(cx.tx(), b"keylocation", &value)
        }
        None if cx.zap(props)?.lookup("keylocation")?.is_some() => {
            cx.zap(props)?.remove(cx.tx(), b"keylocation").map(drop)
        }
        None => Ok(()),
    }
}

/// Sets whether dataset `name`, received raw, is an encryption root, as it was at the source;
/// `location`: its key location in that case. Nothing is rewrapped: the keys are already wrapped
/// with that dataset's key.
pub fn set_encryption_root(live: &LiveDatasets, name: &str, is_root: bool, location: Option<&str>) -> Result<()> {
    let (name, location) = (name.to_owned(), location.map(str::to_owned));
    let (store, _) = live.parts();
    live.writer().task(move |sync| {
        let cx = Cx::new(sync);
        let node = tree::find(&cx, &name)?;
        let Some((_, key)) = key_of(&cx, node.dir)? else { return Ok(()) };
        let dir = cx.dir(node.dir)?.phys;
        let is_clone = dir.origin != 0 && Some(dir.origin) != cx.origin_snapshot()?;
        let was_root = key.root_dir == node.dir;
        let to = match (is_root, was_root) {
            _ if is_clone => None,
            (true, false) => Some(node.dir),
            (false, true) if dir.parent != 0 => key_of(&cx, dir.parent)?.map(|(_, above)| above.root_dir),
            _ => None,
        };
        sync.all_or_nothing(|| {
            if let Some(to) = to {
                for (_, id, _) in sharing(&cx, node.dir, key.root_dir)? {
                    cx.zap(id)?.update_u64(cx.tx(), name::ROOT_DIR.as_bytes(), to)?;
                }
                put_location(&cx, node.dir, is_root.then_some("prompt"))?;
                cx.history("change key", &node.name, node.head, " ")?;
            }
            if let (true, Some(location)) = (is_root && !is_clone, &location) {
                put_location(&cx, node.dir, Some(location))?;
            }
            Ok(())
        })?;
        if to.is_some() {
            store.forget(node.dir);
        }
        Ok(())
    })?;
    live.refresh()
}
