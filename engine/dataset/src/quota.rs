//! Space and object usage by user, group and project, with their quotas.
//!
//! Below: the accounting objects of an object set (space used) and the ZAPs that object 1 names
//! (quotas). Both are keyed by an identity in hexadecimal: the low 32 bits are an id, the high ones
//! the number of a domain in the FUID table (0: POSIX). Object counts are stored next to the bytes
//! used, under `obj-`. Facts: module/zfs/zfs_quota.c.

use crate::dataset::Dataset;
use crate::keys::KeyStore;
use crate::property::{PropertyValue, View};
use crate::zap::open_zap;
use errors::{Error, Place, Result};
use object::{ObjectSet, Zap};
use ondisk::{Objset, ObjsetKind, znode};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The master node of a file system, which names all its other special objects.
const MASTER_NODE: u64 = 1;
/// Prefix of object counts.
const OBJECTS_PREFIX: &str = "obj-";
/// Maximum bytes of a FUID table; 1 MiB is tens of thousands of domains.
const FUID_TABLE_MAX: u64 = 1 << 20;

/// The kind of identity that is accounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Principal {
    /// File owners.
    User,
    Group,
    Project,
}

/// Usage and quotas of one user, group or project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    /// User, group or project.
    pub principal: Principal,
    /// Domain of a Windows identity; `None`: a POSIX id.
    pub domain: Option<String>,
    /// The id within its domain.
    pub id: u64,
    pub used_bytes: Option<u64>,
    /// Maximum bytes; 0: no limit.
    pub quota_bytes: Option<u64>,
    /// Objects used; `None`: not counted.
    pub used_objects: Option<u64>,
    /// Maximum objects; 0: no limit.
    pub quota_objects: Option<u64>,
}

/// One of the twelve numbers returned by properties such as `userused@1000`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Number {
    principal: Principal,
    quota: bool,
    objects: bool,
}

impl Number {
    /// Parses the part of a property name before the `@`.
    fn parse(prefix: &str) -> Option<Self> {
        let (principal, rest) =
            [("user", Principal::User), ("group", Principal::Group), ("project", Principal::Project)]
                .into_iter()
                .find_map(|(name, principal)| prefix.strip_prefix(name).map(|rest| (principal, rest)))?;
        let (objects, rest) = rest.strip_prefix("obj").map_or((false, rest), |rest| (true, rest));
        match rest {
            "used" | "quota" => Some(Self { principal, quota: rest == "quota", objects }),
            _ => None,
        }
    }

    /// Name in object 1 of the ZAP with this quota.
    fn master_node_name(self) -> String {
        let principal = match self.principal {
            Principal::User => "user",
            Principal::Group => "group",
            Principal::Project => "project",
        };
        format!("{principal}{}quota@", if self.objects { "obj" } else { "" })
    }
}

/// The usage accounting of one file system.
pub struct Accounts {
    name: String,
    objset: Arc<ObjectSet>,
    master: Zap,
}

impl Accounts {
    /// Opens the accounting of `dataset`. If it is encrypted, this requires its key.
    pub fn open(dataset: &Dataset, keys: &KeyStore) -> Result<Self> {
        Self::of(dataset, dataset.objset(keys)?)
    }

    fn of(dataset: &Dataset, objset: Arc<ObjectSet>) -> Result<Self> {
        if objset.phys().kind != ObjsetKind::FileSystem {
            return Err(Error::invalid(dataset.name(), "only file systems count space by user, group and project"));
        }
        let master = open_zap(&objset, MASTER_NODE).at(dataset.name())?;
        Ok(Self { name: dataset.name().to_owned(), objset, master })
    }

    /// Whether space is accounted for this kind of identity.
    pub fn counts_bytes(&self, principal: Principal) -> bool {
        let complete = self.has(Objset::FLAG_USERACCOUNTING_COMPLETE);
        complete && (principal != Principal::Project || self.has(Objset::FLAG_PROJECTQUOTA_COMPLETE))
    }

    /// Whether objects are accounted for this kind of identity.
    pub fn counts_objects(&self, principal: Principal) -> bool {
        self.counts_bytes(principal) && self.has(Objset::FLAG_USEROBJACCOUNTING_COMPLETE)
    }

    fn has(&self, flag: u64) -> bool {
        self.objset.phys().flags & flag != 0
    }

    fn zap(&self, number: Number) -> Result<Option<Zap>> {
        if number.quota {
            let id = self.master.lookup_u64(number.master_node_name()).at(&self.name)?.filter(|id| *id != 0);
            return id.map(|id| open_zap(&self.objset, id).at(&self.name)).transpose();
        }
        let object = match number.principal {
            Principal::User => self.objset.user_used(),
            Principal::Group => self.objset.group_used(),
            Principal::Project => self.objset.project_used(),
        };
        object.map(|object| Zap::open(object).at(&self.name)).transpose()
    }

    /// All users, groups or projects that use space or have a quota, POSIX ids first, each in
    /// order. Returns an error if they are not accounted.
    pub fn all(&self, principal: Principal) -> Result<Vec<Usage>> {
        if !self.counts_bytes(principal) {
            return Err(Error::unsupported(&self.name, "space by user, group or project: it is not counted here"));
        }
        let domains = self.domains()?;
        let mut found = BTreeMap::<(Option<String>, u64), Usage>::new();
        for (quota, objects) in [(false, false), (true, false), (false, true), (true, true)] {
            if objects && !self.counts_objects(principal) {
                continue;
            }
            let Some(zap) = self.zap(Number { principal, quota, objects })? else { continue };
            for step in zap.cursor(0) {
                let (entry, _) = step.at(&self.name)?;
                let key = String::from_utf8_lossy(&entry.name);
                let counted_objects = key.strip_prefix(OBJECTS_PREFIX);
                // Bytes and objects used share a ZAP; quotas have one each, without a prefix.
                if !quota && counted_objects.is_some() != objects {
                    continue;
                }
                let Ok(identity) = u64::from_str_radix(counted_objects.unwrap_or(&key), 16) else { continue };
                let Some(value) = entry.value.as_u64() else { continue };
                let (domain, id) = match identity >> 32 {
                    0 => (None, identity),
                    _ if principal == Principal::Project => (None, identity),
                    index => {
                        let unknown = || format!("unknown-domain-{index}");
                        (Some(domains.get(&index).cloned().unwrap_or_else(unknown)), identity & 0xffff_ffff)
                    }
                };
                let usage = found.entry((domain.clone(), id)).or_insert(Usage {
                    principal,
                    domain,
                    id,
                    used_bytes: None,
                    quota_bytes: None,
                    used_objects: None,
                    quota_objects: None,
                });
                match (quota, objects) {
                    (false, false) => {
                        (usage.used_bytes, usage.quota_bytes) = (Some(value), usage.quota_bytes.or(Some(0)))
                    }
                    (true, false) => {
                        (usage.used_bytes, usage.quota_bytes) = (usage.used_bytes.or(Some(0)), Some(value))
                    }
                    (false, true) => {
                        (usage.used_objects, usage.quota_objects) = (Some(value), usage.quota_objects.or(Some(0)));
                    }
                    (true, true) => {
                        (usage.used_objects, usage.quota_objects) = (usage.used_objects.or(Some(0)), Some(value));
                    }
                }
            }
        }
        Ok(found.into_values().collect())
    }

    /// One number of one identity; 0 if there is no entry, `None` if it is not accounted.
    fn one(&self, number: Number, id: u64) -> Result<Option<u64>> {
        let counted = match number.objects {
            true => self.counts_objects(number.principal),
            false => self.counts_bytes(number.principal),
        };
        if !counted {
            return Ok(None);
        }
        let Some(zap) = self.zap(number)? else { return Ok(Some(0)) };
        let prefix = if number.objects && !number.quota { OBJECTS_PREFIX } else { "" };
        Ok(Some(zap.lookup_u64(format!("{prefix}{id:x}")).at(&self.name)?.unwrap_or(0)))
    }

    /// Domains of Windows identities, by number.
    fn domains(&self) -> Result<BTreeMap<u64, String>> {
        let Some(id) = self.master.lookup_u64("FUID").at(&self.name)?.filter(|id| *id != 0) else {
            return Ok(BTreeMap::new());
        };
        let object = self.objset.object(id).at(&self.name)?;
        let size = object.bonus().get(..8).map_or(0, |bytes| object.endian().u64(bytes));
        if size > FUID_TABLE_MAX {
            let what = format!("FUID table of {size} bytes, expected at most {FUID_TABLE_MAX}");
            return Err(Error::corrupt(&self.name, what));
        }
        let bytes = object.read_vec(0, size as usize).at(&self.name)?;
        let domains = znode::domains(&bytes).at(&self.name)?;
        Ok(domains.into_iter().map(|(index, domain)| (u64::from(index), domain)).collect())
    }
}

/// The property `name`, if it is one such as `userused@1000`; the caller resolves user names to
/// ids.
pub(crate) fn property(d: &Dataset, name: &str, view: &View<'_>) -> Result<Option<PropertyValue>> {
    let Some((prefix, who)) = name.split_once('@') else { return Ok(None) };
    let (Some(number), Ok(id)) = (Number::parse(prefix), who.parse::<u64>()) else { return Ok(None) };
    if d.contents()? != ObjsetKind::FileSystem {
        return Ok(None);
    }
    let value = match Accounts::of(d, view.objset(d)?).and_then(|accounts| accounts.one(number, id)) {
        Ok(value) => value,
        Err(Error::KeyUnavailable { .. }) => None,
        Err(e) => return Err(e),
    };
    Ok(value.map(|n| match (number.quota, number.objects) {
        (true, _) if n == 0 => PropertyValue { human: "none".into(), ..PropertyValue::bytes(0) },
        (_, false) => PropertyValue::bytes(n),
        (_, true) => PropertyValue::count(n),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twelve_numbers_have_names() {
        let n = Number::parse("projectobjquota").unwrap();
        assert_eq!((n.principal, n.quota, n.objects), (Principal::Project, true, true));
        assert_eq!(n.master_node_name(), "projectobjquota@");
        assert_eq!(Number::parse("userused").map(|n| n.quota), Some(false));
        assert!(Number::parse("userwritten").is_none() && Number::parse("used").is_none());
    }
}
