//! `zpool import`: marks a pool as in use by this host and stores it in the list of imported pools.
//!
//! [`plan`] opens the pool read-only and changes nothing; [`ImportPlan::run`] imports it.
//!
//! A pool with features that Weir cannot write is imported read-only, with the reason. Nothing is
//! written to such a pool, nor to one imported with `readonly` or at an older txg.

use super::imported;
use crate::cache_file;
use crate::clear::discard_unread_logs;
use crate::create::check_name;
use crate::house;
use crate::import::{self, NotAlone};
use crate::keys::Ask;
use crate::mounts::{MountReport, Plan};
use crate::state::Imported;
use crate::verbs::line::line;
use crate::verbs::zfs::keys::{self, KeysOutcome, KeysRequest, LoadKeyRequest};
use crate::verbs::{Invocation, Kind, Reason, Refusal};
use crate::write;
use pool::mmp::{Owner, Unchanged};
use pool::status::{PoolStatus, VdevAux, VdevClass, VdevState, VdevStatus};
use pool::{FoundPool, PoolState};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Where devices are searched for by default.
const DEFAULT_PLACES: &[&str] = &["/dev"];
/// The error of a rewind to a checkpoint that does not exist.
const NO_CHECKPOINT: &str = "checkpoint does not exist";

/// How to import pools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportRequest {
    /// Name or guid of the pool.
    pub pool: String,
    /// Its name from now on.
    pub new_name: Option<String>,
    /// Folders and devices to search (`-d`). None means the machine's disks.
    pub places: Vec<PathBuf>,
    /// Guids of the pools to consider: those of a cache file (`-c`). `None`: all.
    pub only: Option<Vec<u64>>,
    /// Only destroyed pools (`-D`).
    pub destroyed: bool,
    /// Even if another host may be using it (`-f`).
    pub force: bool,
    /// Without the records on log devices that are missing (`-m`).
    pub without_log: bool,
    /// The new name is used here only (`-t`).
    pub temporary_name: bool,
    /// Mount nothing (`-N`).
    pub no_mount: bool,
    /// Mount with these options until it is exported, whatever the properties say (`-o ro`).
    pub mount_options: Option<String>,
    /// `-o readonly=on`.
    pub readonly: bool,
    /// `-R` or `-o altroot=`.
    pub altroot: Option<String>,
    /// `-o cachefile=`.
    pub cachefile: Option<String>,
    /// The latest txg to show (`-T`).
    pub txg: Option<u64>,
    /// Older uberblocks may be tried (`-F`).
    pub rewind: bool,
    /// Return to the checkpoint (`--rewind-to-checkpoint`).
    pub checkpoint: bool,
}

/// A pool that can be imported.
pub struct ImportPlan {
    found: FoundPool,
    record: Imported,
    /// What is on missing log devices is discarded.
    lacks_log: bool,
    /// No other host wrote to the pool for a while.
    unchanged: Option<Unchanged>,
    mount_options: Option<String>,
    /// The pool returns to an older state.
    pub rewound: Option<Rewound>,
}

/// Transactions that an older uberblock leaves out: times in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rewound {
    pub newest: u64,
    pub shown: u64,
}

/// A pool that was imported.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportOutcome {
    /// Name under which it is imported.
    pub name: String,
    /// Why it can only be read, and what is not mounted.
    pub report: MountReport,
    /// The keys that were to be loaded.
    pub keys: Option<KeysOutcome>,
}

/// A pool that is not imported. OpenZFS prints what is in `detail` besides the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportRefusal {
    pub refusal: Refusal,
    pub detail: Option<Detail>,
}

/// What a refusal's message does not say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Detail {
    /// Another host may be using the pool.
    LastHost {
        /// The pool's own name.
        name: String,
        host: String,
        hostid: u64,
        /// When the host last wrote to the pool, in seconds since 1970.
        accessed: u64,
    },
    /// The pool has to be recreated from a backup.
    Lost,
    /// Features that are not supported: the error with their names.
    Features(String),
    /// Log devices that are missing.
    Logs(Vec<VdevStatus>),
}

impl From<Refusal> for ImportRefusal {
    fn from(refusal: Refusal) -> Self {
        Self { refusal, detail: None }
    }
}

impl From<ImportRefusal> for Refusal {
    fn from(refused: ImportRefusal) -> Self {
        refused.refusal
    }
}

impl ImportRequest {
    /// The request as a command line, for histories and logs.
    pub fn command_line(&self) -> String {
        let flags = [
            (self.destroyed, "-D"),
            (self.force, "-f"),
            (self.without_log, "-m"),
            (self.temporary_name, "-t"),
            (self.no_mount, "-N"),
            (self.rewind, "-F"),
            (self.checkpoint, "--rewind-to-checkpoint"),
        ];
        let mut options: Vec<(&str, String)> =
            self.places.iter().map(|place| ("-d", place.display().to_string())).collect();
        options.extend(self.altroot.iter().map(|root| ("-R", root.clone())));
        options.extend(self.mount_options.iter().map(|mount| ("-o", mount.clone())));
        options.extend(self.readonly.then(|| ("-o", "readonly=on".to_owned())));
        options.extend(self.cachefile.iter().map(|file| ("-o", format!("cachefile={file}"))));
        options.extend(self.txg.iter().map(|txg| ("-T", txg.to_string())));
        let operands = std::iter::once(&*self.pool).chain(self.new_name.as_deref());
        line("zpool import", &flags, &options, operands)
    }

    /// Considers only the pools of a cache file, and searches for their devices where they were:
    /// in the same folders, as their names may have changed.
    pub fn of_cache_file(&mut self, file: &Path) -> Result<(), Refusal> {
        let pools = cache_file::read(file).map_err(|error| {
            let (what, why) = match error.downcast_ref::<std::io::Error>() {
                Some(error) => ("failed to open cache file", host::os_text(error)),
                None => ("invalid or corrupt cache file contents", format!("{error:#}")),
            };
            Refusal::new(Kind::Invalid, format!("{what}: {why}"))
        })?;
        let folders = pools.iter().flat_map(|pool| &pool.devices).filter_map(|path| path.parent());
        let folders: BTreeSet<PathBuf> = folders.filter(|path| path.is_absolute()).map(PathBuf::from).collect();
        self.places = folders.into_iter().collect();
        self.only = Some(pools.iter().map(|pool| pool.guid).collect());
        Ok(())
    }

    /// The places to search.
    pub fn places(&self) -> Vec<PathBuf> {
        match self.places.is_empty() {
            true => DEFAULT_PLACES.iter().map(PathBuf::from).collect(),
            false => self.places.clone(),
        }
    }
}

/// Pools that were found, and are not imported.
pub struct Search {
    pub found: Vec<FoundPool>,
    /// Whether any pool was found, imported or not.
    pub any: bool,
}

/// Searches for pools that the request does not name: those with its places, destroyed or not.
pub fn search(invocation: &Invocation<'_>, request: &ImportRequest) -> Result<Search, Refusal> {
    let imported = imported(invocation)?;
    let mut found = import::search(&request.places());
    let any = !found.is_empty();
    found.retain(|p| imported.iter().all(|i| i.guid != p.guid));
    found.retain(|p| request.only.as_ref().is_none_or(|only| only.contains(&p.guid)));
    found.retain(|p| (p.state() == PoolState::Destroyed) == request.destroyed);
    Ok(Search { found, any })
}

/// The pool that the request names.
pub fn find(invocation: &Invocation<'_>, request: &ImportRequest) -> Result<FoundPool, Refusal> {
    let name = &request.pool;
    let cannot = format!("cannot import '{name}'");
    let guid = name.parse::<u64>().ok();
    let Search { found, any } = search(invocation, request)?;
    let exists = imported(invocation)?.iter().any(|p| p.name == *name || Some(p.guid) == guid);
    if exists && any && request.new_name.as_ref().is_none_or(|n| n == name) {
        return Err(name_exists(name));
    }
    let mut matching: Vec<FoundPool> = found.into_iter().filter(|p| p.name() == name || Some(p.guid) == guid).collect();
    if matching.len() > 1 {
        let why = "more than one matching pool\nimport by numeric ID instead";
        return Err(Reason::new(Kind::Conflict, why).refuse(&cannot));
    }
    matching.pop().ok_or_else(|| Reason::new(Kind::NotFound, "no such pool available").refuse(&cannot))
}

fn name_exists(name: &str) -> Refusal {
    let why = "a pool with that name already exists\nuse the form 'zpool import <pool | id> <newpool>' to give it a \
               new name";
    Reason::new(Kind::Conflict, why).refuse(&format!("cannot import '{name}'"))
}

/// Finds out whether a pool can be imported. Of the request, the pool's name is not used.
pub fn plan(
    invocation: &Invocation<'_>,
    request: &ImportRequest,
    found: FoundPool,
) -> Result<ImportPlan, ImportRefusal> {
    let own_name = found.name().to_owned();
    if let Some(options) = &request.mount_options {
        Plan::default().apply(options).map_err(|why| Refusal::new(Kind::Unsupported, why))?;
    }
    let name = request.new_name.clone().unwrap_or_else(|| own_name.clone());
    if imported(invocation)?.iter().any(|p| p.name == name) {
        return Err(name_exists(&own_name).into());
    }
    if let Some(new) = &request.new_name {
        check_name(new).map_err(|why| Reason::new(Kind::Invalid, why).refuse(&format!("cannot import '{new}'")))?;
    }
    let unchanged = import::watch(&found, &*invocation.is_gone).map_err(|why| not_alone(&found, why, request.force))?;
    if import::needs_force(&found) && !request.force {
        return Err(used_elsewhere(&found));
    }
    let is_temporary = request.altroot.is_some() || request.temporary_name;
    let mut record = Imported {
        name,
        guid: found.guid,
        load_guid: import::load_guid(),
        places: request.places(),
        readonly: request.readonly,
        cachefile: request.cachefile.clone().or_else(|| is_temporary.then(|| "none".to_owned())),
        altroot: request.altroot.clone(),
        txg: request.txg,
        rewind: request.rewind || request.txg.is_some(),
        checkpoint: request.checkpoint,
        temporary_name: request.temporary_name,
        offline: Vec::new(),
        no_mount: request.no_mount,
    };
    let mut status = opened_status(&found, &record);
    if let Some(status) = status.as_mut().filter(|_| record.readonly) {
        import::tolerate_missing(status);
    }
    check_whole(&own_name, status.as_ref(), request.without_log)?;
    let lacks_log = status.as_ref().is_some_and(|status| !missing_logs(status).is_empty());
    let newest = pool::uberblocks(&found).first().map(|u| (u.txg, u.timestamp));
    let opened = match import::open_found(&found, &house::request(&record)) {
        Ok(opened) => opened,
        Err(error) => return Err(refuse(&own_name, found, &error, &record)),
    };
    if let Err(why) = import::check_hostid(&opened) {
        return Err(not_alone(&found, NotAlone { why, owner: None }, request.force));
    }
    let shown = (opened.uberblock().txg, opened.uberblock().timestamp);
    let is_older = newest.is_some_and(|n| n.0 > shown.0);
    let rewound = newest.filter(|_| is_older && request.rewind).map(|n| Rewound { newest: n.1, shown: shown.1 });
    // Writing after an older txg would discard the newer ones, so such an import is read-only.
    record.readonly |= record.txg.is_some() || is_older;
    let mount_options = request.mount_options.clone();
    Ok(ImportPlan { found, record, lacks_log, unchanged, mount_options, rewound })
}

/// Why a pool is not imported that another host has or may have. OpenZFS's words depend on `-f`,
/// because then the kernel module refuses.
fn not_alone(found: &FoundPool, not_alone: NotAlone, is_forced: bool) -> ImportRefusal {
    let (cannot, force) = (format!("cannot import '{}'", found.name()), is_forced);
    let NotAlone { why, owner } = not_alone;
    let Owner { host, hostid } = owner.unwrap_or(Owner { host: "<unknown>".into(), hostid: 0 });
    let export = "Export the pool on the other system, then run 'zpool import'.";
    let no_id = "pool has the multihost property on and the\nsystem's hostid is not set. Set a unique";
    let refusal = match (why.refusal(), force) {
        (Some(errors::Refusal::ImportedElsewhere), false) => {
            let text = format!("pool is imported on {host} (hostid: {hostid:#x})\n{export}");
            Reason::new(Kind::Conflict, text).refuse(&cannot)
        }
        (Some(errors::Refusal::ImportedElsewhere), true) => {
            let text = format!("pool is imported on host '{host}' (hostid={hostid:x}).\n{export}");
            Reason::new(Kind::Conflict, text).refuse(&cannot)
        }
        (Some(errors::Refusal::NoHostId), false) => {
            let text = format!("{no_id} hostid with the zgenhostid(8) command.");
            Reason::new(Kind::Conflict, text).refuse(&cannot.replacen('c', "C", 1))
        }
        (Some(errors::Refusal::NoHostId), true) => {
            let text = format!("{no_id} system hostid with the zgenhostid(8) command.\n");
            Reason::new(Kind::Conflict, text).refuse(&cannot)
        }
        _ => Reason::from(&anyhow::Error::from(why)).refuse(&cannot),
    };
    refusal.into()
}

fn used_elsewhere(found: &FoundPool) -> ImportRefusal {
    let (hostid, host) = import::last_host(found);
    let name = found.name().to_owned();
    let why = format!(
        "pool was previously in use from another system.\nLast accessed by {host} (hostid={hostid:x})\nThe pool can be \
         imported, use 'zpool import -f' to import the pool."
    );
    let refusal = Reason::new(Kind::Conflict, why).refuse(&format!("cannot import '{name}'"));
    let accessed = pool::uberblocks(found).first().map_or(0, |u| u.timestamp);
    ImportRefusal { refusal, detail: Some(Detail::LastHost { name, host, hostid, accessed }) }
}

/// The status of a pool that can be opened; `None` otherwise: [`refuse`] handles that.
fn opened_status(found: &FoundPool, record: &Imported) -> Option<PoolStatus> {
    let candidate = import::examine(found.clone(), &house::request(record));
    candidate.problem.is_none().then_some(candidate.status)
}

/// Refuses a pool with a missing top-level device, as OpenZFS does, although the rest of it can be
/// read.
fn check_whole(name: &str, status: Option<&PoolStatus>, without_log: bool) -> Result<(), ImportRefusal> {
    let Some(status) = status else { return Ok(()) };
    let cannot = format!("cannot import '{name}'");
    if status.root.state == VdevState::CantOpen {
        let why = "no such pool or dataset\nweir: intact data can still be read without an import: weir ls -d DIR \
                   POOL/DATASET";
        let refusal = Reason::new(Kind::Failed, why).refuse(&cannot);
        return Err(ImportRefusal { refusal, detail: Some(Detail::Lost) });
    }
    let logs = missing_logs(status);
    if logs.is_empty() || without_log {
        return Ok(());
    }
    let refusal = Reason::new(Kind::Conflict, "one or more devices is currently unavailable").refuse(&cannot);
    Err(ImportRefusal { refusal, detail: Some(Detail::Logs(logs.into_iter().cloned().collect())) })
}

/// Log devices that are missing.
fn missing_logs(status: &PoolStatus) -> Vec<&VdevStatus> {
    let logs = status.root.children.iter().filter(|v| v.class == VdevClass::Log && v.kind != "hole");
    logs.filter(|v| v.state < VdevState::Degraded).collect()
}

/// Why a pool cannot be opened: OpenZFS's words first, then the specific error.
fn refuse(name: &str, found: FoundPool, error: &anyhow::Error, record: &Imported) -> ImportRefusal {
    let cannot = format!("cannot import '{name}'");
    if record.checkpoint && Reason::from(error).text == NO_CHECKPOINT {
        return Reason::new(Kind::NotFound, NO_CHECKPOINT).refuse(&cannot).into();
    }
    let candidate = import::examine(found, &house::request(record));
    let with_error = |why: &str| format!("{why}\nweir: {error:#}");
    let (kind, why, detail) = match (candidate.status.root.aux, candidate.status.root.state) {
        (VdevAux::VersionNewer, _) => {
            (Kind::Unsupported, with_error("pool is formatted using an unsupported ZFS version"), None)
        }
        (VdevAux::UnsupFeat, _) => {
            let features = Detail::Features(format!("{error:#}"));
            (Kind::Unsupported, "unsupported version or feature".to_owned(), Some(features))
        }
        (VdevAux::NoReplicas | VdevAux::BadGuidSum, VdevState::CantOpen) => {
            (Kind::Failed, with_error("no such pool or dataset"), Some(Detail::Lost))
        }
        _ => (Kind::Failed, with_error("I/O error"), Some(Detail::Lost)),
    };
    ImportRefusal { refusal: Reason::new(kind, why).refuse(&cannot), detail }
}

impl ImportPlan {
    /// Imports the pool and mounts its file systems. With `ask`, keys are loaded before (`-l`).
    pub fn run(mut self, invocation: &Invocation<'_>, ask: Option<&Ask<'_>>) -> Result<ImportOutcome, Refusal> {
        let mut outcome = ImportOutcome { name: self.record.name.clone(), ..ImportOutcome::default() };
        if !self.record.readonly {
            self.take_over(invocation, &mut outcome.report)?;
        }
        let record = self.record;
        let remembered = invocation.state.change(|pools| pools.push(record.clone()));
        remembered.map_err(|e| Refusal::new(Kind::Failed, format!("{e:#}")).after(outcome.report.lines.clone()))?;
        if let Some(ask) = ask {
            let keys = KeysRequest { datasets: vec![record.name.clone()], recursive: true };
            let request = LoadKeyRequest { keys, ..LoadKeyRequest::default() };
            outcome.keys = Some(keys::load(invocation, &request, ask)?);
        }
        if !record.no_mount
            && let Some(mounts) = invocation.mounts(&record)
            && let Ok(Some(pool)) = invocation.owned(&record)
        {
            outcome.report.merge(mounts.mount_all(&pool, self.mount_options.as_deref(), &*invocation.is_gone));
        }
        Ok(outcome)
    }

    /// Makes the pool this host's. If it cannot be written, it is imported read-only, and the
    /// reason is in the report.
    fn take_over(&mut self, invocation: &Invocation<'_>, report: &mut MountReport) -> Result<(), Refusal> {
        let Self { found, record, lacks_log, unchanged, .. } = self;
        let request = import::OpenRequest { unchanged: *unchanged, ..house::request(record) };
        let taken = write::open_found(found, &request).and_then(|pool| {
            pool.log_command(&invocation.command)?;
            if *lacks_log {
                discard_unread_logs(&pool)?;
            }
            cache_file::try_update(record, &pool);
            match invocation.house_of(record) {
                Some(house) => {
                    house.adopt(Imported { checkpoint: false, ..record.clone() }, pool);
                    Ok(())
                }
                None => pool.close(),
            }
        });
        match taken {
            Ok(()) => {
                // The rewind to the checkpoint is permanent now.
                record.checkpoint = false;
                Ok(())
            }
            Err(error) if write::is_in_use(&error) || write::is_elsewhere(&error) || record.checkpoint => {
                Err(Reason::from(error).refuse(&format!("cannot import '{}'", found.name())))
            }
            Err(error) => {
                let why = Reason::from(error).text;
                report.lines.push(format!("weir: '{}' is imported read-only: {why}", record.name));
                record.readonly = true;
                Ok(())
            }
        }
    }
}
