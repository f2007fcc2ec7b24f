//! A file system over a dataset that the pool's txg engine keeps live.
//!
//! Below: [`LiveDataset`] provides transactions, settings and the intent log. Above: the code that
//! mounts the file system.

use super::backing::time_now;
use super::backing::{AclInherit, AclMode, AtimeMode, Backing, Estimate, Settings, XattrMode};
use super::{
    CaseSensitivity, CreateOptions, FileSystem, MASTER_NODE, NormFlags, Options, Space, Version, create_contents,
    owners_of,
};
use crate::vfs::{Quota, Txgs};
use dataset::intent_log::{Encoded, Reach};
use dataset::live::{self, AclType, LateChanges, LiveDataset, SyncMode, XattrStore};
use dataset::quota::Principal;
use dataset::write::{FileSystemMaker, FileSystemTraits};
use errors::{Error, Result};
use host::sync::{Mutex, RwLock};
use object::zap::ZapSpec;
use object::{ObjectSet, Tx, Zap};
use ondisk::zil::{Body, RecordType};
use ondisk::{ObjectType, Objset};
use std::sync::Arc;

/// Feature that is required for names of more than 255 bytes.
const LONG_NAME: &str = "org.zfsonlinux:longname";
/// Names in the master node of the byte quotas, then the object quotas, by user, group and project.
const QUOTAS: [&str; 6] =
    ["userquota@", "groupquota@", "projectquota@", "userobjquota@", "groupobjquota@", "projectobjquota@"];
/// Prefix of the names of object counts.
const OBJECTS_PREFIX: &str = "obj-";
/// Message about a log with skipped records.
pub(crate) const KEPT: &str = "records of the intent log could not be replayed: 'weir inspect log' lists them, 'zpool clear' \
     discards the log; until then each fsync waits for a transaction group";
/// Bytes that setting a quota may write. Guessed.
const QUOTA_BYTES: u64 = 64 << 10;

/// Creates the contents of new file systems on behalf of `dataset`, which has no knowledge of them.
pub const MAKER: FileSystemMaker = FileSystemMaker { fill, owners_of };

fn fill(objset: &Arc<ObjectSet>, tx: &Tx, traits: &FileSystemTraits, (uid, gid): (u32, u32)) -> Result<()> {
    if !(1..=Version::MAX.0).contains(&traits.version) {
        return Err(Error::unsupported("", format!("making file systems of ZPL version {}", traits.version)));
    }
    let case = match traits.case_sensitivity {
        0 => CaseSensitivity::Sensitive,
        1 => CaseSensitivity::Insensitive,
        2 => CaseSensitivity::Mixed,
        n => return Err(Error::invalid("", format!("casesensitivity {n}"))),
    };
    let options = CreateOptions {
        version: Version(traits.version),
        case,
        normalization: NormFlags::from_bits_retain(traits.normalization),
        utf8_only: traits.utf8_only,
        uid,
        gid,
        time: time_now(),
        projects: objset.flags() & Objset::FLAG_PROJECTQUOTA_COMPLETE != 0,
        dnode_slots: 1,
    };
    create_contents(objset, tx, &options)
}

/// Index into [`QUOTAS`].
fn quota_index(principal: Principal, objects: bool) -> usize {
    let principal = match principal {
        Principal::User => 0,
        Principal::Group => 1,
        Principal::Project => 2,
    };
    principal + if objects { 3 } else { 0 }
}

struct DatasetBacking {
    live: Arc<LiveDataset>,
    /// The most recently read settings, and their translation for this layer.
    settings: Mutex<(Arc<live::Settings>, Arc<Settings>)>,
    /// Objects of the quotas; 0: none is set.
    quotas: RwLock<[u64; 6]>,
    fsid_guid: u64,
}

fn translate(from: &live::Settings, objset: &ObjectSet) -> Settings {
    Settings {
        read_only: from.read_only,
        record_bytes: from.record_bytes,
        atime: match (from.atime, from.relatime) {
            (false, _) => AtimeMode::Off,
            (true, true) => AtimeMode::Relative,
            (true, false) => AtimeMode::Always,
        },
        xattr: match from.xattr {
            XattrStore::Off => XattrMode::Off,
            XattrStore::Directory => XattrMode::Dir,
            XattrStore::SystemAttribute => XattrMode::Sa,
        },
        posix_acl: from.acl_type == AclType::Posix,
        acl_mode: match from.acl_mode {
            2 => AclMode::GroupMask,
            3 => AclMode::Passthrough,
            4 => AclMode::Restricted,
            _ => AclMode::Discard,
        },
        acl_inherit: match from.acl_inherit {
            0 => AclInherit::Discard,
            1 => AclInherit::NoAllow,
            3 => AclInherit::Passthrough,
            5 => AclInherit::PassthroughX,
            _ => AclInherit::Restricted,
        },
        dnode_slots: (from.dnode_bytes / 512).clamp(1, 32) as u8,
        long_names: from.long_names,
        clones: from.clones,
        sync_always: from.sync == SyncMode::Always,
        projects: objset.flags() & Objset::FLAG_PROJECTQUOTA_COMPLETE != 0,
    }
}

impl DatasetBacking {
    fn new(live: Arc<LiveDataset>) -> Result<Self> {
        let objset = live.objset();
        let settings = live.settings();
        let ours = Arc::new(translate(&settings, objset));
        let master = Zap::open(objset.object(MASTER_NODE)?)?;
        let mut quotas = [0; 6];
        for (quota, name) in quotas.iter_mut().zip(QUOTAS) {
            *quota = master.lookup_u64(name)?.unwrap_or(0);
        }
        let fsid_guid = live.synced()?.phys().fsid_guid;
        Ok(Self { settings: Mutex::new((settings, ours)), quotas: RwLock::new(quotas), live, fsid_guid })
    }
}

impl Backing for DatasetBacking {
    fn begin(&self, estimate: Estimate) -> Result<Tx> {
        match estimate.frees {
            true => self.live.begin_freeing(estimate.bytes),
            false => self.live.begin(estimate.bytes),
        }
    }

    fn record(&self, tx: &Tx, node: u64, kind: RecordType, body: &Body<'_>) {
        self.live.log().record(tx, node, kind, body);
    }

    fn record_together(&self, tx: &Tx, node: u64, reach: Reach, records: Vec<Encoded>) {
        self.live.log().record_together(tx, node, reach, records);
    }

    fn unloggable(&self, tx: &Tx, node: u64) {
        self.live.log().record_unloggable(tx, Some(node));
    }

    fn unloggable_for_all(&self, tx: &Tx) {
        self.live.log().record_unloggable(tx, None);
    }

    fn forget(&self, node: u64) {
        self.live.log().forget(node);
    }

    fn commit(&self, node: Option<u64>) -> Result<()> {
        self.live.log().commit(node)
    }

    fn sync_soon(&self) {
        self.live.writer().sync_soon();
    }

    fn settings(&self) -> Arc<Settings> {
        let newest = self.live.settings();
        let mut known = self.settings.lock();
        if !Arc::ptr_eq(&known.0, &newest) {
            *known = (newest.clone(), Arc::new(translate(&newest, self.live.objset())));
        }
        known.1.clone()
    }

    fn space(&self) -> Space {
        let space = self.live.space();
        Space {
            referenced_bytes: space.referenced_bytes,
            available_bytes: space.available_bytes,
            objects: self.live.objset().root().fill(),
            fsid_guid: self.fsid_guid,
        }
    }

    fn txgs(&self) -> Option<Txgs> {
        let writer = self.live.writer();
        Some(Txgs { open: writer.open_txg(), synced: writer.synced_txg() })
    }

    fn is_over_quota(&self, principal: Principal, id: u64, objects: bool) -> Result<bool> {
        let quota = self.quotas.read()[quota_index(principal, objects)];
        if quota == 0 {
            return Ok(false);
        }
        let objset = self.live.objset();
        let Some(limit) = Zap::open(objset.object(quota)?)?.lookup_u64(format!("{id:x}"))? else { return Ok(false) };
        let used = match principal {
            Principal::User => objset.user_used(),
            Principal::Group => objset.group_used(),
            Principal::Project => objset.project_used(),
        };
        let Some(used) = used else { return Ok(false) };
        let key = format!("{}{id:x}", if objects { OBJECTS_PREFIX } else { "" });
        Ok(Zap::open(used)?.lookup_u64(key)?.is_some_and(|used| used >= limit))
    }

    fn quota(&self, principal: Principal, id: u64) -> Result<Option<Quota>> {
        let objset = self.live.objset();
        let limit = |objects: bool| {
            let quota = self.quotas.read()[quota_index(principal, objects)];
            if quota == 0 { Ok(None) } else { Zap::open(objset.object(quota)?)?.lookup_u64(format!("{id:x}")) }
        };
        let (bytes_max, objects_max) = (limit(false)?, limit(true)?);
        if bytes_max.is_none() && objects_max.is_none() {
            return Ok(None);
        }
        let used = match principal {
            Principal::User => objset.user_used(),
            Principal::Group => objset.group_used(),
            Principal::Project => objset.project_used(),
        };
        let Some(used) = used else { return Ok(None) };
        let used = Zap::open(used)?;
        let bytes = used.lookup_u64(format!("{id:x}"))?.unwrap_or(0);
        let objects = used.lookup_u64(format!("{OBJECTS_PREFIX}{id:x}"))?.unwrap_or(0);
        Ok(Some(Quota { bytes, bytes_max, objects, objects_max }))
    }

    fn set_quota(&self, tx: &Tx, principal: Principal, id: u64, objects: bool, limit: u64) -> Result<()> {
        let index = quota_index(principal, objects);
        let objset = self.live.objset();
        let mut quotas = self.quotas.write();
        if quotas[index] == 0 {
            if limit == 0 {
                return Ok(());
            }
            let master = Zap::open(objset.object(MASTER_NODE)?)?;
            let spec = ZapSpec::new(ObjectType::USERGROUP_QUOTA);
            let made = Zap::create_linked(objset, tx, &spec, &master, QUOTAS[index])?;
            quotas[index] = made.object().map_or(0, object::Object::id);
        }
        let zap = Zap::open(objset.object(quotas[index])?)?;
        let key = format!("{id:x}");
        match limit {
            0 => match zap.remove(tx, key) {
                Err(errors::Error::NotFound { .. }) => Ok(()),
                other => other,
            },
            limit => zap.update_u64(tx, key, limit),
        }
    }

    fn uses_long_name(&self) {
        self.live.use_feature(LONG_NAME);
    }
}

impl LateChanges for FileSystem {
    fn bring(&self, begin: &dyn Fn(u64) -> Result<Tx>) -> bool {
        self.store_accesses(begin)
    }
}

impl FileSystem {
    /// Opens the files of a live dataset: frees files that were removed while open before, and
    /// replays the intent log.
    pub fn mount(live: &Arc<LiveDataset>) -> Result<Arc<Self>> {
        let name = live.name();
        let backing = DatasetBacking::new(live.clone())?;
        let settings = backing.settings();
        let options = Options {
            posix_acl: settings.posix_acl,
            user_xattr: settings.xattr != XattrMode::Off,
            record_bytes: settings.record_bytes,
            long_names: settings.long_names,
            space: backing.space(),
            name,
        };
        let this = Self::open_live(live.objset().clone(), options, Arc::new(backing))?;
        live.set_late_changes(this.clone());
        if settings.read_only && !live.log().needs_replay() {
            return Ok(this);
        }
        // Before the log: replay may create files under numbers that these files still occupy.
        this.replaying(|| this.drain_unlinked())?;
        if live.log().needs_replay() {
            let find = |directory: u64, name: &[u8]| this.find_entry(directory, name).ok().flatten();
            let replayed =
                this.replaying(|| live.log().replay(&mut |record, body| this.replay_record(record, body), &find))?;
            if replayed.is_kept {
                tracing::error!(dataset = live.name(), "{KEPT}");
            }
            this.replaying(|| this.drain_unlinked())?;
        }
        Ok(this)
    }

    /// Sets how many bytes, or objects, a user, group or project may use (for example
    /// `userquota@1000`); 0 means no limit.
    pub fn set_quota(&self, principal: Principal, id: u64, objects: bool, limit: u64) -> Result<()> {
        if !self.version().has_quotas() {
            let what = format!("quotas of users and groups before ZPL version 4 (this is {})", self.version().0);
            return Err(Error::unsupported(&*self.options.name, what));
        }
        self.named(
            self.operate(QUOTA_BYTES, limit == 0, |tx, live, _| {
                live.backing.set_quota(tx, principal, id, objects, limit)
            }),
        )
    }
}
