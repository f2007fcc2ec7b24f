//! `zfs create` and `zfs clone`.
//!
//! [`plan`] checks a request and changes nothing; [`CreatePlan::run`] creates the dataset.

use super::set::{set_version, split_version};
use crate::kept_keys;
use crate::mounts::MountReport;
use crate::new_key::{self, AskNew};
use crate::principals::{self, Quota};
use crate::state::Imported;
use crate::verbs::line::{assignments, line};
use crate::verbs::lookup::not_applicable;
use crate::verbs::{Invocation, Kind, Reason, Refusal, pool_of};
use crate::write::{WritablePool, maker};
use dataset::property::{self, full_name, parse_size};
use dataset::write::{self, FILE_SYSTEM_VERSION, NewDataset};
use dataset::{DatasetKind, Entry, View};
use errors::Error;
use pool::Pool;

/// `volblocksize` if none is given: 16 KiB.
const VOLUME_BLOCK: &str = "16384";

/// A dataset to create.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CreateRequest {
    pub name: String,
    /// A volume; `None`: a file system.
    pub volume: Option<NewVolume>,
    /// Properties as a user writes them (`-o`).
    pub properties: Vec<(String, String)>,
    /// Create missing parents (`-p`).
    pub parents: bool,
    /// Do not mount the file system (`-u`).
    pub unmounted: bool,
}

/// The size of a new volume, as a user writes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewVolume {
    /// `-V`. Rounded up to whole blocks.
    pub size: String,
    /// `-b`: bytes of a block.
    pub block_size: Option<String>,
    /// Reserve no space (`-s`).
    pub sparse: bool,
}

/// A request that has passed all checks that need no change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatePlan {
    record: Imported,
    request: CreateRequest,
    quotas: Vec<Quota>,
    /// The dataset exists, which with `-p` is no error: nothing is to be done.
    pub exists: bool,
    /// The properties of the request, and those that follow from the size of a volume.
    pub properties: Vec<(String, String)>,
}

impl CreateRequest {
    /// The request as a command line, for histories and logs.
    pub fn command_line(&self) -> String {
        let is_sparse = self.volume.as_ref().is_some_and(|volume| volume.sparse);
        let flags = [(self.parents, "-p"), (is_sparse, "-s"), (self.unmounted, "-u")];
        let mut options = assignments("-o", &self.properties);
        if let Some(volume) = &self.volume {
            options.extend(volume.block_size.iter().map(|size| ("-b", size.clone())));
            options.push(("-V", volume.size.clone()));
        }
        line("zfs create", &flags, &options, [&*self.name])
    }

    fn refuse(&self, reason: Reason) -> Refusal {
        reason.refuse(&format!("cannot create '{}'", self.name))
    }
}

/// Checks a request and adds the properties that follow from a volume's size.
pub fn plan(invocation: &Invocation<'_>, request: &CreateRequest) -> Result<CreatePlan, Refusal> {
    let name = &request.name;
    if let Some(delimiter) = name.find(['@', '#']).map(|at| &name[at..=at]) {
        let what = if delimiter == "@" { "snapshot" } else { "bookmark" };
        let why = format!("{what} delimiter '{delimiter}' is not expected here");
        return Err(request.refuse(Reason::new(Kind::Invalid, why)));
    }
    let record = invocation.record("create", name)?;
    if !name.contains('/') {
        return Err(request.refuse(Reason::new(Kind::Conflict, "dataset already exists")));
    }
    invocation.check_shares(&request.properties).map_err(|reason| request.refuse(reason))?;
    let opened = invocation.open_to_read(&record)?;
    let exists = request.parents && invocation.datasets(&record)?.0.dataset(name).is_ok();
    let (quotas, mut properties) = principals::split_quotas(&request.properties).map_err(|why| request.refuse(why))?;
    check_quotas(&request.properties, request.volume.is_some()).map_err(|reason| request.refuse(reason))?;
    if let Some(volume) = &request.volume {
        add_size(&opened, &mut properties, volume)?;
    }
    let set = request.properties.iter().chain(&properties).map(|(name, _)| name.as_str());
    let permitted = invocation.permit(&record, |caller, tree| match exists {
        true => Ok(()),
        false => caller.require_to_create(tree, name, request.parents, set),
    });
    permitted.map_err(|reason| request.refuse(reason))?;
    check_key_location(invocation, &properties).map_err(|reason| request.refuse(reason))?;
    let is_enabled = |guid: &str| opened.features().count(guid).is_some();
    let checked = write::check_new(name, request.volume.is_some(), &properties, opened.version(), &is_enabled);
    checked.map_err(|e| request.refuse(e.into()))?;
    if request.volume.is_none() {
        write::check_version(&properties, opened.version()).map_err(|e| request.refuse(too_old(&e)))?;
    }
    Ok(CreatePlan { record, request: request.clone(), quotas, exists, properties })
}

impl CreatePlan {
    /// Creates the dataset. `ask` asks for its key if it is to have one and the properties do not
    /// name a file.
    pub fn run(self, invocation: &Invocation<'_>, ask: &AskNew<'_>) -> Result<MountReport, Refusal> {
        let Self { record, request, quotas, exists, properties } = self;
        if exists {
            return Ok(MountReport::default());
        }
        let name = &request.name;
        let failed = |kind: Kind, e: &anyhow::Error| request.refuse(Reason::new(kind, format!("{e:#}")));
        let key =
            new_key::ask(&properties, name, None, ask, &*invocation.fetch).map_err(|e| failed(Kind::Invalid, &e))?;
        let new = NewDataset {
            name: name.clone(),
            is_volume: request.volume.is_some(),
            properties,
            parents: request.parents,
            key: key.clone(),
            user: invocation.caller.other().cloned(),
        };
        let created = invocation.change(&record, |pool| {
            write::create(&pool.live, &new, maker())?;
            set_quotas(pool, name, &quotas)
        });
        created.map_err(|reason| request.refuse(reason))?;
        if let Some(key) = key {
            kept_keys::keep_new(&invocation.state, &record, name, &key).map_err(|e| failed(Kind::Failed, &e))?;
        }
        if !new.is_volume
            && !request.unmounted
            && let Some(report) = for_root_to_mount(invocation, name)
        {
            return Ok(report);
        }
        Ok(match invocation.mounts(&record).filter(|_| !new.is_volume && !request.unmounted) {
            Some(mounts) => mounts.mount_new(name),
            None => MountReport::default(),
        })
    }
}

/// Sets quotas of a new file system, or destroys it. They are in the file system, so it must exist
/// first.
fn set_quotas(pool: &WritablePool, name: &str, quotas: &[Quota]) -> Result<(), Reason> {
    or_destroy(pool, name, pool.set_quotas(name, quotas).map_err(Reason::from))
}

/// Destroys a new dataset that could not be completed.
fn or_destroy(pool: &WritablePool, name: &str, completed: Result<(), Reason>) -> Result<(), Reason> {
    completed.or_else(|reason| {
        pool.close_dataset(name)?;
        write::destroy(&pool.live, name)?;
        Err(reason)
    })
}

/// The version to which the properties of a new clone raise that of `origin`, if they do. Facts:
/// `zfs_valid_proplist`, which refuses an older one.
fn upgrade_to(origin: &Entry, is_volume: bool, properties: &[(String, String)]) -> Result<Option<u64>, Reason> {
    let (Some(asked), _) = split_version(properties)? else { return Ok(None) };
    let wrong = |why: String| Err(Reason::new(Kind::Invalid, why));
    if is_volume {
        return wrong("'version' does not apply to datasets of this type".to_owned());
    }
    let present = property::get(origin, "version", &View::default())?.and_then(|p| p.value.raw.parse().ok());
    match present {
        Some(present) if asked < present => wrong(format!("Can not downgrade; already at version {present}")),
        Some(present) if asked == present => Ok(None),
        _ if !(1..=FILE_SYSTEM_VERSION).contains(&asked) => wrong(format!("bad version '{asked}'")),
        _ => Ok(Some(asked)),
    }
}

/// Refuses quotas of users, groups and projects for volumes.
fn check_quotas(properties: &[(String, String)], is_volume: bool) -> Result<(), Reason> {
    match properties.iter().find(|(name, _)| is_volume && principals::is_quota(name)) {
        Some((name, _)) => Err(Reason::new(Kind::Invalid, format!("'{name}' does not apply to datasets of this type"))),
        None => Ok(()),
    }
}

/// Why a file system of that version cannot be created.
fn too_old(error: &errors::Error) -> Reason {
    Reason::new(Kind::of(error), "pool must be upgraded to set this property or value")
}

fn check_key_location(invocation: &Invocation<'_>, properties: &[(String, String)]) -> Result<(), Reason> {
    let location = properties.iter().find(|(name, _)| full_name(name) == "keylocation");
    invocation.caller.check_key_location(location.map(|(_, value)| value.as_str()))
}

/// Says that a new file system is not mounted because this process mounts nothing for its creator.
fn for_root_to_mount(invocation: &Invocation<'_>, name: &str) -> Option<MountReport> {
    let entry = invocation.caller.other().and_then(|_| invocation.entry(name).ok())?.entry;
    let canmount = property::get(&entry, "canmount", &View::default()).ok().flatten()?;
    let line = "filesystem successfully created, but it may only be mounted by root";
    (canmount.value.raw == "on").then(|| MountReport { lines: vec![line.to_owned()], failed: true })
}

/// Adds the properties of a volume: its size in whole blocks, and the reservation unless it is
/// sparse.
fn add_size(pool: &Pool, properties: &mut Vec<(String, String)>, volume: &NewVolume) -> Result<(), Refusal> {
    let number = |what: &str, text: &str| {
        parse_size(text).map_err(|why| Refusal::new(Kind::Invalid, format!("bad volume {what} '{text}': {why}")))
    };
    let size = number("size", &volume.size)?;
    if let Some(block) = &volume.block_size {
        properties.push(("volblocksize".into(), number("block size", block)?.to_string()));
    }
    let asked = properties.clone();
    let given = |name: &str| asked.iter().find(|(n, _)| full_name(n) == name).map(|(_, v)| v.clone());
    let block = number("block size", &given("volblocksize").unwrap_or_else(|| VOLUME_BLOCK.to_owned()))?.max(1);
    let size = size.div_ceil(block).saturating_mul(block);
    properties.push(("volsize".into(), size.to_string()));
    let reservation = write::reservation_of_volumes(pool);
    if !volume.sparse && given(reservation).is_none() && block.is_power_of_two() {
        let copies = given("copies").and_then(|c| c.parse().ok()).unwrap_or(1);
        let reserved = write::volume_reservation(pool, size, block, copies);
        properties.push((reservation.into(), reserved.to_string()));
    }
    Ok(())
}

/// A clone to create.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CloneRequest {
    /// Full name of the snapshot.
    pub origin: String,
    pub name: String,
    /// Properties as a user writes them (`-o`).
    pub properties: Vec<(String, String)>,
    /// Create missing parents; a dataset that exists is no error (`-p`).
    pub parents: bool,
    /// Do not mount the file system (`-u`).
    pub unmounted: bool,
}

impl CloneRequest {
    /// The request as a command line, for histories and logs.
    pub fn command_line(&self) -> String {
        let flags = [(self.parents, "-p"), (self.unmounted, "-u")];
        line("zfs clone", &flags, &assignments("-o", &self.properties), [&*self.origin, &*self.name])
    }
}

/// Creates a dataset from a snapshot.
pub fn clone(invocation: &Invocation<'_>, request: &CloneRequest) -> Result<MountReport, Refusal> {
    let CloneRequest { origin, name, .. } = request;
    let cannot = format!("cannot create '{name}'");
    let found = invocation.entry(origin)?;
    let Some(snapshot) = found.entry.dataset().filter(|d| d.is_snapshot()) else {
        return Err(not_applicable(origin));
    };
    let head = snapshot.tree().head(snapshot.dir());
    let is_volume = head.and_then(|head| head.kind()).is_ok_and(|kind| kind == DatasetKind::Volume);
    let upgrade = upgrade_to(&found.entry, is_volume, &request.properties);
    let exists = found.pool.datasets.entry(name).is_ok();
    if pool_of(origin) != pool_of(name) {
        return Err(Reason::new(Kind::Invalid, "source and target pools differ").refuse(&cannot));
    }
    drop(found);
    if request.parents && exists {
        return Ok(MountReport::default());
    }
    invocation.check_shares(&request.properties).map_err(|reason| reason.refuse(&cannot))?;
    let upgrade = upgrade.map_err(|reason| reason.refuse(&cannot))?;
    let split =
        check_quotas(&request.properties, is_volume).and_then(|()| principals::split_quotas(&request.properties));
    let (quotas, mut properties) = split.map_err(|reason| reason.refuse(&cannot))?;
    properties.retain(|(name, _)| name != "version");
    let record = invocation.record("create", name)?;
    let permitted = invocation.permit(&record, |caller, tree| {
        caller.require(tree, origin, &["clone"])?;
        caller.require_to_create(tree, name, request.parents, request.properties.iter().map(|(name, _)| name.as_str()))
    });
    permitted.map_err(|reason| reason.refuse(&cannot))?;
    let cloned = invocation.change(&record, |pool| {
        if request.parents {
            create_parents(invocation, pool, name)?;
        }
        write::clone_for(&pool.live, invocation.caller.other(), origin, name, &properties)?;
        or_destroy(pool, name, upgrade.map_or(Ok(()), |version| set_version(pool, name, version)))?;
        set_quotas(pool, name, &quotas)
    });
    cloned.map_err(|reason| reason.refuse(&cannot))?;
    if !is_volume
        && !request.unmounted
        && let Some(report) = for_root_to_mount(invocation, name)
    {
        return Ok(report);
    }
    Ok(match invocation.mounts(&record).filter(|_| !is_volume && !request.unmounted) {
        Some(mounts) => mounts.mount_new(name),
        None => MountReport::default(),
    })
}

/// Creates the missing parents of a dataset.
pub(super) fn create_parents(invocation: &Invocation<'_>, pool: &WritablePool, name: &str) -> Result<(), Error> {
    let Some((above, _)) = name.rsplit_once('/') else { return Err(Error::invalid(name, "invalid dataset name")) };
    if above.contains('/') {
        let user = invocation.caller.other().cloned();
        let new = NewDataset { name: above.to_owned(), parents: true, user, ..NewDataset::default() };
        write::create(&pool.live, &new, maker())?;
    }
    Ok(())
}
