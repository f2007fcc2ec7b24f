//! Keys of datasets, written: created for a new encrypted dataset, rewrapped when the wrapping key
//! changes.
//!
//! ```text
//!   wrapping key (from the user or a file; never stored) wraps
//!     master key + HMAC key (random, permanent) in a key object
//! ```
//! Facts: `dsl_crypto_key_create_sync`, `spa_keystore_change_key_sync` and its check,
//! `dmu_objset_create_crypt_check` in module/zfs/dsl_crypt.c.

use super::cx::Cx;
use super::feature;
use super::tree::{self, Node};
use super::values::{self, Target};
use crate::KeyStore;
use crate::delegation::Credentials;
use crate::keys::KeyLocation;
use crate::property::Kinds;
use crate::zap::open_zap;
use block::crypt::{Attribute as KeyAttribute, DatasetKeys, KeyObject};
use errors::{Error, Result};
use host::random;
use ondisk::ObjectType;
use ondisk::dsl_dir::FIELD_CRYPTO_KEY_OBJ;
use ondisk::uberblock::VERSION_FEATURES;
use ondisk::zap::Value as ZapValue;
use std::collections::HashSet;
use std::sync::Arc;
use transform::crypt::{KeyFormat, Suite, WrapContext, unwrap_keys, wrap_keys, wrapping_key};
use zeroize::Zeroizing;

/// Version of new key objects.
const VERSION: u64 = 1;
/// Default PBKDF2 iterations for a passphrase.
pub const PBKDF2_ITERATIONS: u64 = 350_000;
/// Minimum PBKDF2 iterations accepted.
const PBKDF2_ITERATIONS_MIN: u64 = 100_000;
/// Maximum PBKDF2 iterations for users who are not the owner of the pools: some seconds of work.
pub const PBKDF2_ITERATIONS_MAX: u64 = 10_000_000;
/// The meaning of `encryption=on`.
const ON: Suite = Suite::Aes256Gcm;
/// Allowed length of a passphrase, in characters.
const PASSPHRASE: std::ops::RangeInclusive<usize> = 8..=512;
const WHICH_FORMAT: &str = "keyformat must be raw, hex or passphrase";

/// A wrapping key as the user supplies it.
#[derive(Clone)]
pub struct NewKey {
    pub format: KeyFormat,
    /// Where the key will be loaded from: the property `keylocation`.
    pub location: String,
    /// PBKDF2 iterations, for a passphrase; `None`: the default.
    pub iterations: Option<u64>,
    /// The key: a passphrase, hex digits or raw bytes.
    pub material: Zeroizing<Vec<u8>>,
}

/// The format of a key, by its word for `keyformat`: `raw`, `hex`, or a passphrase.
pub fn key_format(word: &str) -> KeyFormat {
    match word {
        "raw" => KeyFormat::Raw,
        "hex" => KeyFormat::Hex,
        _ => KeyFormat::Passphrase,
    }
}

/// Encryption of a new dataset.
pub(crate) enum Plan {
    None,
    /// The wrapping key is that of the encryption root above.
    Inherit {
        suite: u64,
        wrapping: Zeroizing<[u8; 32]>,
        template: KeyObject,
    },
    /// The dataset is an encryption root itself.
    Root {
        suite: u64,
        key: Arc<Derived>,
        location: String,
    },
}

impl Plan {
    /// Cipher of the dataset; `None` if it is not encrypted.
    pub(super) fn suite(&self) -> Option<Suite> {
        match self {
            Self::None => None,
            Self::Inherit { suite, .. } | Self::Root { suite, .. } => Suite::from_raw(*suite),
        }
    }
}

/// The properties `encryption`, `keyformat`, `keylocation` and `pbkdf2iters` of a new dataset, as
/// number and text.
#[derive(Default)]
pub(crate) struct Wanted {
    pub(crate) encryption: Option<u64>,
    pub(crate) format: Option<u64>,
    pub(crate) location: Option<String>,
    pub(crate) iterations: Option<u64>,
    pub(crate) key: Option<Arc<Derived>>,
}

/// The key object of directory `dir`, if it is encrypted.
pub(crate) fn key_of(cx: &Cx<'_>, dir: u64) -> Result<Option<(u64, KeyObject)>> {
    let Some(id) = cx.field_u64(dir, FIELD_CRYPTO_KEY_OBJ)?.filter(|id| *id != 0) else { return Ok(None) };
    let zap = open_zap(cx.mos(), id)?;
    let attribute = |name: &str| Ok(zap.lookup(name)?.map(|v| KeyAttribute { int_bytes: v.int_bytes, ints: v.ints }));
    KeyObject::read(attribute).map(|key| Some((id, key)))
}

/// The encryption that a dataset below `parent` (`None`: the pool's own) will have; rejects invalid
/// requests.
pub(crate) fn plan(cx: &Cx<'_>, store: &KeyStore, parent: Option<u64>, place: &str, wanted: Wanted) -> Result<Plan> {
    let invalid = |what: &str| Err(Error::invalid(place, what));
    let above = match parent {
        Some(dir) => key_of(cx, dir)?.map(|(_, key)| key),
        None => None,
    };
    let given = wanted.format.is_some() || wanted.key.is_some() || wanted.iterations.is_some();
    let suite = match wanted.encryption {
        None => above.as_ref().map_or(2, |key| key.wrapped.suite),
        Some(1) => ON.to_raw(),
        Some(n) => n,
    };
    if suite < 3 {
        if given || wanted.location.is_some_and(|l| l != "none") {
            return invalid("a key was given, but encryption was not requested");
        }
        return Ok(Plan::None);
    }
    if !cx.is_enabled(feature::ENCRYPTION) || (parent.is_some() && !cx.is_enabled(feature::BOOKMARK_V2)) {
        return invalid("the pool must have the features encryption and bookmark_v2 enabled");
    }
    if !given {
        let Some(key) = above else {
            return invalid("Keyformat required for new encryption root.");
        };
        if wanted.location.is_some() {
            return invalid("keylocation is given without keyformat");
        }
        let unavailable = || Error::KeyUnavailable { place: place.to_owned() };
        let wrapping = store.wrapping_key_of(key.root_dir).ok_or_else(unavailable)?;
        return Ok(Plan::Inherit { suite, wrapping, template: key });
    }
    let format = wanted.format.and_then(KeyFormat::from_raw);
    let Some(format) = format else { return invalid(WHICH_FORMAT) };
    let Some(key) = wanted.key else { return invalid("a key is needed") };
    if key.format != format {
        return invalid("the key has another keyformat");
    }
    let location = wanted.location.unwrap_or_else(|| "prompt".to_owned());
    check_location(place, &location)?;
    Ok(Plan::Root { suite, key, location })
}

fn check_location(place: &str, location: &str) -> Result<()> {
    match KeyLocation::parse(location) {
        None | Some(KeyLocation::None) => {
            let what = "keylocation must be 'prompt', or begin with file:///, https:// or http://";
            Err(Error::invalid(place, what))
        }
        Some(_) => Ok(()),
    }
}

/// Rejects an invalid key.
fn check_new(place: &str, key: &NewKey, user: Option<&Credentials>) -> Result<()> {
    let invalid = |what: &str| Err(Error::invalid(place, what));
    check_location(place, &key.location)?;
    if key.format == KeyFormat::Passphrase {
        if key.iterations.is_some_and(|n| n < PBKDF2_ITERATIONS_MIN) {
            return invalid("pbkdf2iters must be at least 100000");
        }
        if user.is_some() && key.iterations.is_some_and(|n| n > PBKDF2_ITERATIONS_MAX) {
            return invalid("pbkdf2iters must be at most 10000000 for users other than the owner of the pools");
        }
        let line = key.material.split(|b| *b == b'\n').next().unwrap_or_default();
        if !PASSPHRASE.contains(&line.len()) {
            return invalid("a passphrase has 8 to 512 characters");
        }
    } else if key.iterations.is_some() {
        return invalid("pbkdf2iters is for passphrases only");
    }
    Ok(())
}

/// A new wrapping key, derived from what the user supplied.
///
/// It is derived before the change begins: a passphrase takes long, and all changes of the pool
/// would wait for a sync task that derives it.
pub(crate) struct Derived {
    key: Zeroizing<[u8; 32]>,
    format: KeyFormat,
    salt: u64,
    iterations: u64,
}

impl Derived {
    /// Derives the key, if it is valid. `user`: who sets it; `None`: the owner of the pools.
    pub(crate) fn new(place: &str, key: &NewKey, user: Option<&Credentials>) -> Result<Self> {
        check_new(place, key, user)?;
        let (salt, iterations) = match key.format {
            KeyFormat::Passphrase => (tree::unique(), key.iterations.unwrap_or(PBKDF2_ITERATIONS)),
            _ => (0, 0),
        };
        let derived = wrapping_key(key.format, &key.material, salt, iterations);
        let derived = derived.map_err(|e| Error::invalid(place, e.to_string()))?;
        Ok(Self { key: derived, format: key.format, salt, iterations })
    }

    /// The same from the properties of a new dataset, if there is a key.
    pub(crate) fn of_new(
        place: &str,
        properties: &[(String, String)],
        material: Option<&Zeroizing<Vec<u8>>>,
        user: Option<&Credentials>,
    ) -> Result<Option<Arc<Self>>> {
        let Some(material) = material else { return Ok(None) };
        let target = Target {
            dataset: place,
            kinds: Kinds::FILESYSTEM,
            is_new: true,
            version: VERSION_FEATURES,
            is_enabled: &|_| true,
        };
        let number = |property: &str| -> Result<Option<u64>> {
            let given = properties.iter().rev().find(|(name, _)| name == property);
            given.map(|(name, text)| Ok(values::check(&target, name, text)?.number())).transpose()
        };
        let format = number("keyformat")?.and_then(KeyFormat::from_raw);
        let format = format.ok_or_else(|| Error::invalid(place, WHICH_FORMAT))?;
        // Where it is loaded from is checked with the other properties.
        let (location, iterations) = ("prompt".to_owned(), number("pbkdf2iters")?);
        let key = NewKey { format, location, iterations, material: material.clone() };
        Self::new(place, &key, user).map(|derived| Some(Arc::new(derived)))
    }
}

/// A wrapping key with everything recorded about its derivation.
struct Wrapping {
    key: Zeroizing<[u8; 32]>,
    root_dir: u64,
    format: u64,
    salt: u64,
    iterations: u64,
}

impl Wrapping {
    fn new(derived: &Derived, root_dir: u64) -> Self {
        let Derived { key, format, salt, iterations } = derived;
        Self { key: key.clone(), root_dir, format: format.to_raw(), salt: *salt, iterations: *iterations }
    }

    fn like(key: Zeroizing<[u8; 32]>, template: &KeyObject) -> Self {
        Self {
            key,
            root_dir: template.root_dir,
            format: template.key_format,
            salt: template.pbkdf2_salt,
            iterations: template.pbkdf2_iterations,
        }
    }
}

/// Wraps the keys and writes everything to key object `id`.
fn seal(
    cx: &Cx<'_>,
    id: u64,
    (suite, guid, version): (u64, u64, u64),
    (master, hmac): (&[u8; 32], &[u8; 64]),
    wrapping: &Wrapping,
) -> Result<()> {
    use block::crypt::attribute as name;
    let known = Suite::from_raw(suite).ok_or_else(|| Error::unsupported("", format!("encryption suite {suite}")))?;
    let iv: [u8; 12] = random::bytes();
    let context = WrapContext { suite: known, guid, version, iv };
    let (mac, sealed_master, sealed_hmac) = wrap_keys(&wrapping.key, &context, master, hmac);
    let zap = |name: &str, value: ZapValue| cx.zap(id)?.update(cx.tx(), name.as_bytes(), &value);
    let number = |name: &str, n: u64| zap(name, ZapValue::one(n));
    let bytes =
        |name: &str, b: &[u8]| zap(name, ZapValue { int_bytes: 1, ints: b.iter().map(|b| u64::from(*b)).collect() });
    number(name::SUITE, suite)?;
    number(name::ROOT_DIR, wrapping.root_dir)?;
    number(name::GUID, guid)?;
    bytes(name::IV, &iv)?;
    bytes(name::MAC, &mac)?;
    bytes(name::MASTER_KEY, &sealed_master)?;
    bytes(name::HMAC_KEY, &sealed_hmac)?;
    number(name::KEY_FORMAT, wrapping.format)?;
    number(name::PBKDF2_SALT, wrapping.salt)?;
    number(name::PBKDF2_ITERATIONS, wrapping.iterations)
}

/// Creates the key object of the new dataset as planned; returns its keys if it is encrypted. A new
/// wrapping key is loaded.
pub(crate) fn create(cx: &Cx<'_>, store: &KeyStore, node: &Node, plan: Plan) -> Result<Option<Arc<DatasetKeys>>> {
    use block::crypt::attribute as name;
    let (suite, wrapping, location) = match plan {
        Plan::None => return Ok(None),
        Plan::Inherit { suite, wrapping, template } => (suite, Wrapping::like(wrapping, &template), None),
        Plan::Root { suite, key, location } => (suite, Wrapping::new(&key, node.dir), Some(location)),
    };
    let id = cx.create_zap(ObjectType::OTN_ZAP_METADATA)?;
    let (master, hmac) = (Zeroizing::new(master_key(suite)), Zeroizing::new(random::bytes::<64>()));
    seal(cx, id, (suite, tree::unique(), VERSION), (&master, &hmac), &wrapping)?;
    cx.zap(id)?.update_u64(cx.tx(), name::REFCOUNT.as_bytes(), 1)?;
    cx.zap(id)?.update_u64(cx.tx(), name::VERSION.as_bytes(), VERSION)?;
    cx.set_field(node.dir, FIELD_CRYPTO_KEY_OBJ, &ZapValue::one(id))?;
    feature::activate(cx, node.head, feature::ENCRYPTION)?;
    if let Some(location) = location {
        let value = super::values::on_disk(&crate::property::Value::Text(location));
        cx.zap(cx.dir(node.dir)?.phys.props_zap)?.update(cx.tx(), b"keylocation", &value)?;
    }
    let (_, object) = key_of(cx, node.dir)?.ok_or_else(|| Error::corrupt(&*node.name, "its key object is missing"))?;
    let keys = DatasetKeys::unwrap(&object.wrapped, &wrapping.key)?;
    store.put(wrapping.root_dir, wrapping.key, id, keys.clone());
    Ok(Some(keys))
}

/// A random key, of as many bytes as the suite uses.
fn master_key(suite: u64) -> [u8; 32] {
    let mut key: [u8; 32] = random::bytes();
    let used = Suite::from_raw(suite).map_or(32, Suite::key_bytes);
    key[used..].fill(0);
    key
}

/// Gives clone `dir` the keys of its origin, `origin`.
pub(crate) fn share(cx: &Cx<'_>, origin: u64, dir: u64) -> Result<()> {
    use block::crypt::attribute as name;
    let Some(id) = cx.field_u64(origin, FIELD_CRYPTO_KEY_OBJ)?.filter(|id| *id != 0) else { return Ok(()) };
    let users = cx.zap(id)?.lookup_u64(name::REFCOUNT)?.unwrap_or(1);
    cx.zap(id)?.update_u64(cx.tx(), name::REFCOUNT.as_bytes(), users + 1)?;
    cx.set_field(dir, FIELD_CRYPTO_KEY_OBJ, &ZapValue::one(id))
}

/// Frees the key object of directory `dir`, or drops one reference to it.
pub(crate) fn destroy(cx: &Cx<'_>, dir: u64) -> Result<()> {
    use block::crypt::attribute as name;
    let Some(id) = cx.field_u64(dir, FIELD_CRYPTO_KEY_OBJ)?.filter(|id| *id != 0) else { return Ok(()) };
    match cx.zap(id)?.lookup_u64(name::REFCOUNT)?.unwrap_or(1) {
        0 | 1 => cx.free_object(id),
        users => cx.zap(id)?.update_u64(cx.tx(), name::REFCOUNT.as_bytes(), users - 1),
    }
}

/// Change of a dataset's wrapping key.
#[derive(Clone)]
pub enum KeyChange {
    /// A new key; the dataset becomes an encryption root if it is not one.
    New(NewKey),
    /// The key of the parent dataset (`zfs change-key -i`).
    Inherit,
}

/// A change of a wrapping key, with the new one derived.
pub(crate) enum Planned {
    New { location: String, key: Derived },
    Inherit,
}

impl KeyChange {
    /// Derives the new key; to be done before the change begins.
    pub(crate) fn plan(self, place: &str, user: Option<&Credentials>) -> Result<Planned> {
        Ok(match self {
            Self::New(key) => Planned::New { key: Derived::new(place, &key, user)?, location: key.location },
            Self::Inherit => Planned::Inherit,
        })
    }
}

/// Changes the wrapping key of dataset `node`, and of those below that share it.
pub(crate) fn change(cx: &Cx<'_>, store: &KeyStore, node: &Node, change: &Planned) -> Result<()> {
    let invalid = |what: &str| Error::invalid(&*node.name, what);
    let dir = cx.dir(node.dir)?.phys;
    let (_, old) = key_of(cx, node.dir)?.ok_or_else(|| invalid("it is not encrypted"))?;
    if dir.origin != 0 && Some(dir.origin) != cx.origin_snapshot()? {
        return Err(invalid("a clone always has the key of its origin"));
    }
    let unavailable = |place: &str| Error::KeyUnavailable { place: place.to_owned() };
    let old_wrapping = store.wrapping_key_of(old.root_dir).ok_or_else(|| unavailable(&node.name))?;
    let wrapping = match change {
        Planned::New { key, .. } => Wrapping::new(key, node.dir),
        Planned::Inherit => {
            if old.root_dir != node.dir {
                return Err(invalid("it is not an encryption root"));
            }
            let above = if dir.parent == 0 { None } else { key_of(cx, dir.parent)? };
            let (_, above) = above.ok_or_else(|| invalid("the dataset above is not encrypted"))?;
            let key = store.wrapping_key_of(above.root_dir).ok_or_else(|| unavailable("the dataset above"))?;
            Wrapping::like(key, &above)
        }
    };
    // Every key to be rewrapped is unwrapped first: nothing is changed unless all of them can
    // be.
    let found = sharing(cx, node.dir, old.root_dir)?;
    let opened = found.iter().map(|key| open(key, &old_wrapping)).collect::<Result<Vec<_>>>()?;
    cx.sync.all_or_nothing(|| put_changed(cx, node, change, &opened, &wrapping))?;
    if old.root_dir == node.dir {
        store.forget(node.dir);
    }
    store.put_wrapping(wrapping.root_dir, wrapping.key);
    Ok(())
}

/// Writes the result of [`change`] to the MOS.
fn put_changed(cx: &Cx<'_>, node: &Node, change: &Planned, opened: &[Opened], wrapping: &Wrapping) -> Result<()> {
    let props = cx.dir(node.dir)?.phys.props_zap;
    match change {
        Planned::New { location, .. } => {
            let value = super::values::on_disk(&crate::property::Value::Text(location.clone()));
            cx.zap(props)?.update(cx.tx(), b"keylocation", &value)?;
        }
        Planned::Inherit => {
            if cx.zap(props)?.lookup("keylocation")?.is_some() {
                cx.zap(props)?.remove(cx.tx(), b"keylocation")?;
            }
        }
    }
    for (id, wrapped, master, hmac) in opened {
        seal(cx, *id, *wrapped, (master, hmac), wrapping)?;
    }
    cx.history("change key", &node.name, node.head, " ")
}

type Opened = (u64, (u64, u64, u64), Zeroizing<[u8; 32]>, Zeroizing<[u8; 64]>);

/// A key object: the directory where it was found, its number, and its contents.
pub(crate) type Found = (u64, u64, KeyObject);

fn open((dir, id, key): &Found, wrapping: &Zeroizing<[u8; 32]>) -> Result<Opened> {
    let w = &key.wrapped;
    let context = WrapContext { suite: w.known_suite()?, guid: w.guid, version: w.version, iv: w.iv };
    let (master, hmac) = unwrap_keys(wrapping, &context, &w.mac, &w.wrapped_master_key, &w.wrapped_hmac_key)
        .map_err(|_| Error::corrupt("", format!("the keys of directory {dir} do not open with their root's key")))?;
    Ok((*id, (w.suite, w.guid, w.version), master, hmac))
}

/// The key objects of `dir` and of all directories below that share the wrapping key of `root`,
/// each once. Clones have their origin's object.
///
/// Uses a list instead of recursion, and visits each directory once: chains of clones can be
/// arbitrarily long, and a directory may be a clone of one below it.
pub(crate) fn sharing(cx: &Cx<'_>, dir: u64, root: u64) -> Result<Vec<Found>> {
    let (mut found, mut seen, mut objects) = (Vec::new(), HashSet::new(), HashSet::new());
    let mut left = vec![(dir, false)];
    while let Some((dir, is_clone_of_seen)) = left.pop() {
        let Some((id, key)) = key_of(cx, dir)? else { continue };
        let phys = cx.dir(dir)?.phys;
        if !is_clone_of_seen && (key.root_dir != root || is_clone(cx, dir, phys.origin)?) {
            continue;
        }
        if !seen.insert(dir) {
            continue;
        }
        if objects.insert(id) {
            found.push((dir, id, key));
        }
        for entry in cx.zap(phys.children_zap)?.entries()? {
            if let (Some(child), false) = (entry.value.as_u64(), entry.name.starts_with(b"$")) {
                left.push((child, false));
            }
        }
        if phys.clones_zap != 0 {
            for entry in cx.zap(phys.clones_zap)?.entries()? {
                if let Some(clone) = entry.value.as_u64() {
                    left.push((cx.dataset(clone)?.phys.dir, true));
                }
            }
        }
    }
    Ok(found)
}

/// Whether directory `dir` gets its key object from a directory elsewhere. If the origin is below
/// it, because a clone created below its origin was promoted, the path to the origin passes through
/// this directory.
fn is_clone(cx: &Cx<'_>, dir: u64, origin: u64) -> Result<bool> {
    if origin == 0 || Some(origin) == cx.origin_snapshot()? {
        return Ok(false);
    }
    Ok(!tree::ancestors(cx, cx.dataset(origin)?.phys.dir)?.contains(&dir))
}

/// Makes clone `to` the encryption root in place of its origin's directory `from`, with the same
/// key.
pub(crate) fn hand_on_root(cx: &Cx<'_>, store: &KeyStore, from: u64, to: u64) -> Result<()> {
    for (_, id, _) in sharing(cx, from, from)? {
        cx.zap(id)?.update_u64(cx.tx(), block::crypt::attribute::ROOT_DIR.as_bytes(), to)?;
    }
    let (theirs, ours) = (cx.dir(from)?.phys.props_zap, cx.dir(to)?.phys.props_zap);
    if let Some(location) = cx.zap(theirs)?.lookup("keylocation")? {
        cx.zap(ours)?.update(cx.tx(), b"keylocation", &location)?;
        cx.zap(theirs)?.remove(cx.tx(), b"keylocation")?;
    }
    if let Some(key) = store.wrapping_key_of(from) {
        store.forget(from);
        store.put_wrapping(to, key);
    }
    Ok(())
}

/// The encryption root of directory `dir`, if it is encrypted.
pub(crate) fn root_of(cx: &Cx<'_>, dir: u64) -> Result<Option<u64>> {
    Ok(key_of(cx, dir)?.map(|(_, key)| key.root_dir))
}

/// Returns an error if directory `dir` cannot be moved below `parent` because its key would not be
/// found there.
pub(crate) fn check_move(cx: &Cx<'_>, dir: u64, parent: u64, place: &str) -> Result<()> {
    let Some(root) = root_of(cx, dir)? else {
        return Ok(());
    };
    if root != dir && root_of(cx, parent)? != Some(root) {
        return Err(Error::invalid(place, "it inherits its key from a dataset that would no longer be an ancestor"));
    }
    Ok(())
}
