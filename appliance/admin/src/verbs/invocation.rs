//! One run of a verb: the process it runs in, its caller, and the pools that it opens.

use super::authority::Caller;
use super::refusal::{Kind, Reason, Refusal};
use crate::house::{self, Leave};
use crate::mounts::{Mounter, NotUnmounted, PoolMounts};
use crate::new_key::Fetch;
use crate::state::{Imported, State};
use crate::write::{self, WritablePool};
use crate::{House, OwnedPool, cache_file, kept_keys};
use anyhow::Result;
use dataset::write::Failures;
use dataset::{Datasets, KeyStore};
use errors::Error;
use pool::Pool;
use std::sync::Arc;

/// Whether a server of this program understands a property's value. True for all properties but
/// `sharenfs` and `sharesmb`.
pub type CheckShare = fn(property: &str, value: &str) -> bool;

/// Unmounts a pool that another process has mounted; with `true`, even if it is in use.
pub type UnmountElsewhere<'a> = dyn Fn(&Imported, bool) -> Result<(), NotUnmounted> + 'a;

/// One run of a verb.
pub struct Invocation<'a> {
    /// The list of imported pools.
    pub state: State,
    /// The pools of this process, if it owns pools. A pool that it does not own is open for the
    /// duration of one verb.
    pub house: Option<Arc<House>>,
    /// Mounts the file systems of the pools in `house`.
    pub mounter: Option<Arc<dyn Mounter>>,
    /// Who runs the verb. For others than the owner, `mounter` is [`super::Unprivileged`].
    pub caller: Caller,
    /// The line for the history of the pool.
    pub command: String,
    /// Unmounts a pool that another process has mounted; with `true`, even if it is in use.
    pub unmount_elsewhere: Box<UnmountElsewhere<'a>>,
    /// Checks values of `sharenfs` and `sharesmb`.
    pub check_share: CheckShare,
    /// Reads keys from web servers.
    pub fetch: Box<Fetch<'a>>,
    /// Whether the caller has disconnected: long verbs then end early.
    pub is_gone: Box<dyn Fn() -> bool + 'a>,
}

/// A pool that is open for writing, for one verb.
pub struct PoolLease {
    pool: Arc<WritablePool>,
    /// This process owns the pool: it stays open after the verb.
    stays: bool,
}

impl std::ops::Deref for PoolLease {
    type Target = WritablePool;

    fn deref(&self) -> &WritablePool {
        &self.pool
    }
}

impl PoolLease {
    /// Whether this process owns the pool and keeps it open after the verb.
    pub fn stays(&self) -> bool {
        self.stays
    }

    /// Closes the pool if this process opened it for the verb. A pool that stays open needs no
    /// sync: the changes have waited for their txg.
    pub fn finish(self) -> Result<()> {
        if self.stays { Ok(()) } else { self.pool.close() }
    }

    /// Syncs all changes to disk, and closes the pool if this process opened it for the verb.
    pub fn sync(self) -> Result<()> {
        if self.stays { Ok(self.pool.writer().sync()?) } else { self.pool.close() }
    }

    /// Closes, exports or destroys the pool `record`, whether this process owns it or not.
    pub fn leave(self, house: Option<&House>, record: &Imported, how: Leave) -> Result<()> {
        match (house, how) {
            (Some(house), _) if self.stays => house.release(record.guid, how),
            (_, Leave::Close) => self.pool.close(),
            (_, Leave::Export) => self.pool.export(),
            (_, Leave::Destroy) => self.pool.destroy(),
        }
    }
}

fn cannot_open_pool(record: &Imported, error: &anyhow::Error) -> Refusal {
    Refusal::new(Reason::from(error).kind, format!("cannot open '{}': {error:#}", record.name))
}

impl Invocation<'_> {
    /// The house that owns the pool, if it is this process's.
    pub(super) fn house_of(&self, record: &Imported) -> Option<&Arc<House>> {
        self.house.as_ref().filter(|house| house.owns(record.guid))
    }

    /// The mounts of a pool that this process owns.
    pub fn mounts<'b>(&'b self, record: &'b Imported) -> Option<PoolMounts<'b>> {
        let (house, mounter) = (self.house_of(record)?, self.mounter.as_ref()?);
        Some(PoolMounts::new(&**mounter, house, record))
    }

    /// Unmounts all file systems of a pool, in whichever process.
    pub fn unmount_all(&self, record: &Imported, force: bool) -> Result<(), NotUnmounted> {
        match self.mounts(record) {
            Some(mounts) => mounts.unmount_below(&record.name, force).map(drop),
            None => (self.unmount_elsewhere)(record, force),
        }
    }

    /// Whether a volume of the pool is in use: then the pool must not be closed, even by force.
    pub fn has_used_volume(&self, record: &Imported) -> bool {
        let pool = self.house_of(record).and_then(|house| house.opened(record.guid));
        pool.and_then(|pool| pool.writable()?.used_volume()).is_some()
    }

    /// The open pool in this process. `None`: this process does not own the pool, so the verb opens
    /// it by itself.
    pub fn owned(&self, record: &Imported) -> Result<Option<Arc<OwnedPool>>> {
        self.house_of(record).map(|house| house.import(record)).transpose()
    }

    /// Opens an imported pool for reading, in the state of the last synced txg.
    pub fn open_to_read(&self, record: &Imported) -> Result<Arc<Pool>, Refusal> {
        let pool = self.owned(record).and_then(|owned| match owned {
            Some(owned) => owned.pool(),
            None => crate::import::open(&house::request(record)),
        });
        pool.map_err(|e| cannot_open_pool(record, &e))
    }

    /// The datasets of an imported pool, and its loaded keys.
    pub(super) fn datasets(&self, record: &Imported) -> Result<(Arc<Datasets>, Arc<KeyStore>), Refusal> {
        let failed = |e: anyhow::Error| cannot_open_pool(record, &e);
        if let Some(owned) = self.owned(record).map_err(failed)? {
            return Ok((owned.datasets().map_err(failed)?, owned.keys().clone()));
        }
        let datasets = Datasets::open(self.open_to_read(record)?).map_err(|e| failed(e.into()))?;
        let keys = Arc::new(KeyStore::new());
        kept_keys::restore(&self.state, record, &datasets, &keys);
        Ok((datasets, keys))
    }

    /// Checks what the caller may do, in the last synced txg: the view for display may be older,
    /// and show what was taken back since. For the owner of the pools this reads nothing.
    pub fn permit(
        &self,
        record: &Imported,
        check: impl FnOnce(&Caller, &Arc<Datasets>) -> Result<(), Reason>,
    ) -> Result<(), Reason> {
        if self.caller.is_owner() {
            return Ok(());
        }
        let tree = match self.owned(record)?.as_ref().and_then(|owned| owned.writable()) {
            Some(pool) => pool.live.synced()?,
            None => self.datasets(record).map_err(|refusal| Reason::new(refusal.kind, refusal.message))?.0,
        };
        check(&self.caller, &tree)
    }

    /// Refuses values of `sharenfs` and `sharesmb` that no server would understand.
    pub(super) fn check_shares(&self, properties: &[(String, String)]) -> Result<(), Reason> {
        let wrong = properties.iter().find(|(name, value)| !(self.check_share)(name, value));
        let refuse = |name: &str| Reason::new(Kind::Invalid, format!("'{name}' cannot be set to invalid options"));
        wrong.map_or(Ok(()), |(name, _)| Err(refuse(name)))
    }

    /// Opens an imported pool for writing, with the loaded keys.
    pub fn open(&self, record: &Imported) -> Result<PoolLease, Reason> {
        self.caller.check_opening(record.guid)?;
        let read_only = || Reason::new(Kind::Failed, "pool is read-only");
        if record.readonly {
            return Err(read_only());
        }
        if let Some(owned) = self.owned(record)? {
            return match (owned.writable(), owned.why_read_only()) {
                (Some(pool), _) => Ok(PoolLease { pool: pool.clone(), stays: true }),
                (None, Some(why)) => Err(Reason::new(Kind::Failed, why)),
                (None, None) => Err(read_only()),
            };
        }
        let pool = write::open(&house::request(record))?;
        kept_keys::restore(&self.state, record, &pool.live.synced()?, &pool.keys);
        Ok(PoolLease { pool: Arc::new(pool), stays: false })
    }

    /// Opens the pool, changes it, notes the command in its history, and closes it again. A failed
    /// change is not noted.
    pub fn change<R>(
        &self,
        record: &Imported,
        change: impl FnOnce(&WritablePool) -> Result<R, Reason>,
    ) -> Result<R, Reason> {
        let pool = self.open(record)?;
        let result = change(&pool).and_then(|result| {
            pool.note_command(&self.command)?;
            cache_file::try_update(record, &pool);
            Ok(result)
        });
        let closed = pool.finish();
        let result = result?;
        closed?;
        Ok(result)
    }

    /// Changes a pool by an operation that may fail for each name separately. `each` formats such
    /// errors; errors that concern no single name begin with `whole`.
    pub fn change_each(
        &self,
        record: &Imported,
        whole: &str,
        each: &dyn Fn(&str, &Error) -> Refusal,
        run: impl FnOnce(&WritablePool) -> Result<(), Failures>,
    ) -> Result<(), Refusal> {
        let mut failures = Failures::new();
        let changed = self.change(record, |pool| {
            run(pool).map_err(|all| {
                failures = all;
                Reason::new(Kind::Failed, "not all can be")
            })
        });
        let Err(reason) = changed else { return Ok(()) };
        let refusals = failures.iter().map(|(name, error)| match name.is_empty() {
            true => Reason::from(error).refuse(whole),
            false => each(name, error),
        });
        Err(Refusal::all(refusals).unwrap_or_else(|| reason.refuse(whole)))
    }
}
