//! Exposes a dataset through `files::namespace`: its files, child datasets, snapshots and volumes.
//!
//! A child appears at its mount point if that is inside its parent's, as with kernel mounts.
//! Otherwise (it was elsewhere on the machine that the pool came from) it appears under its name. A
//! child without a mount point (`none`, `legacy`) or with `canmount=off` is not shown, but its
//! children are. It can be mounted on its own.

use crate::keys::{self, KeyFile, KeySource};
use crate::volume_use::{OpenVolume, Uses};
use anyhow::Context;
use dataset::LiveDatasets;
use dataset::name::is_hidden;
use dataset::tree::Entry;
use dataset::write::{self, Failures};
use dataset::{Credentials, Dataset, DatasetKind, Dir, KeyStore, View, property};
use errors::{Error, Refusal, Result};
use files::namespace::{Child, Control, NumberedName, Provider, Way};
use files::vfs::{Caller, Time, Vfs};
use files::{FileSystem, Volume, VolumeFile, zpl};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Replaces `/` in the name of a nested volume, in `.zfs/volume`.
const SLASH: &str = "+";

/// File systems and volumes that are open for writing, one instance each.
pub(crate) struct LiveFiles {
    live: Arc<LiveDatasets>,
    open: Mutex<HashMap<u64, Files>>,
    /// Datasets that are being served.
    uses: Arc<Uses>,
}

/// The files of a dataset of a pool that is open for writing.
#[derive(Clone)]
enum Files {
    Written(Arc<FileSystem>),
    /// A file system with features that Weir cannot write.
    Read(Arc<dyn Vfs>),
    Volume(Arc<Volume>),
}

impl LiveFiles {
    pub fn new(live: Arc<LiveDatasets>) -> Arc<Self> {
        Arc::new(Self { live, open: Mutex::default(), uses: Arc::default() })
    }

    pub fn live(&self) -> &Arc<LiveDatasets> {
        &self.live
    }

    pub fn uses(&self) -> &Arc<Uses> {
        &self.uses
    }

    /// Opens a volume or a snapshot of one. It is in use until the result is dropped.
    pub fn volume(&self, dataset: &Dataset) -> Result<OpenVolume> {
        let mut open = self.lock();
        let volume = match dataset.is_snapshot() {
            true => Arc::new(read_only_volume(dataset, self.live.keys())?),
            false => self.live_volume(&mut open, dataset)?,
        };
        // Inside of the lock, so that a thread that closes it sees that it is in use.
        Ok(OpenVolume::new(volume, Some(self.uses.begin(dataset.id()))))
    }

    /// The volume, opened for writing or, if Weir cannot write it, for reading.
    fn live_volume(&self, open: &mut HashMap<u64, Files>, dataset: &Dataset) -> Result<Arc<Volume>> {
        if let Some(Files::Volume(volume)) = open.get(&dataset.id()) {
            return Ok(volume.clone());
        }
        files_of_volume(dataset)?;
        let opened = self.live.open(dataset.name(), None).and_then(|live| {
            let volume = Volume::open_live(&live);
            if volume.is_err() {
                self.live.close(&live)?;
            }
            volume
        });
        let volume = Arc::new(match opened {
            Err(why @ Error::Unsupported { .. }) => {
                tracing::warn!(%why, "opened read-only");
                read_only_volume(dataset, self.live.keys())?
            }
            other => other?,
        });
        open.insert(dataset.id(), Files::Volume(volume.clone()));
        Ok(volume)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Files>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The files of a file system; its intent log is replayed first.
    fn files(&self, dataset: &Dataset) -> Result<Arc<dyn Vfs>> {
        let mut open = self.lock();
        let found = match open.get(&dataset.id()) {
            Some(found) => found.clone(),
            None => {
                let opened = match self.mount(dataset) {
                    Ok(files) => Files::Written(files),
                    Err(why @ Error::Unsupported { .. }) => {
                        tracing::warn!(%why, "mounted read-only");
                        Files::Read(files(dataset, self.live.keys())?)
                    }
                    Err(e) => return Err(e),
                };
                open.entry(dataset.id()).insert_entry(opened).get().clone()
            }
        };
        Ok(match found {
            Files::Written(files) => files,
            Files::Read(files) => files,
            Files::Volume(volume) => Arc::new(volume_file(volume, dataset)),
        })
    }

    /// As [`LiveFiles::files`], with access beyond the operations of servers. Fails if the file
    /// system cannot be written.
    pub fn written(&self, dataset: &Dataset) -> Result<Arc<FileSystem>> {
        let mut open = self.lock();
        if let Some(Files::Written(files)) = open.get(&dataset.id()) {
            return Ok(files.clone());
        }
        let files = self.mount(dataset)?;
        open.insert(dataset.id(), Files::Written(files.clone()));
        Ok(files)
    }

    /// Syncs and closes the dataset with this object number. Remaining handles on its files can no
    /// longer change them. Fails with [`Refusal::Busy`] for a volume that is being served.
    pub fn close_one(&self, id: u64, name: &str) -> anyhow::Result<()> {
        let mut open = self.lock();
        if self.uses.has(id) {
            return Err(Refusal::Busy.at(name).into());
        }
        if let Some(Files::Written(files)) = open.remove(&id) {
            files.sync_all().context("cannot sync what was written")?;
        }
        match self.live.get(id) {
            Some(live) => Ok(self.live.close(&live)?),
            None => Ok(()),
        }
    }

    /// The datasets that are open and whose volumes nothing serves. Whether file systems are
    /// mounted is not known here.
    pub fn idle(&self) -> Vec<u64> {
        self.lock().keys().copied().filter(|id| !self.uses.has(*id)).collect()
    }

    fn mount(&self, dataset: &Dataset) -> Result<Arc<FileSystem>> {
        let live = self.live.open(dataset.name(), Some(zpl::owners_of))?;
        let mounted = FileSystem::mount(&live);
        if mounted.is_err() {
            self.live.close(&live)?;
        }
        mounted
    }

    /// Syncs and closes all file systems.
    pub fn close(&self) -> anyhow::Result<()> {
        let open = std::mem::take(&mut *self.lock());
        let mut result = Ok(());
        for files in open.values() {
            if let Files::Written(files) = files {
                result = result.and(files.sync_all().context("cannot sync what was written"));
            }
        }
        result
    }
}

/// See the module's documentation.
pub(crate) struct DatasetProvider {
    dataset: Dataset,
    keys: Arc<KeyStore>,
    /// For datasets below that have keys of their own.
    key_files: Arc<[KeyFile]>,
    /// Set if file systems can be written.
    live: Option<Arc<LiveFiles>>,
}

impl DatasetProvider {
    pub fn new(dataset: Dataset, keys: Arc<KeyStore>, key_files: Arc<[KeyFile]>, live: Option<Arc<LiveFiles>>) -> Self {
        Self { dataset, keys, key_files, live }
    }

    /// The current state of the dataset, including renames and new children.
    fn now(&self) -> Dataset {
        let newest = self.live.as_ref().and_then(|l| l.live.synced().ok()?.dataset_by_id(self.dataset.id()).ok());
        newest.filter(|_| !self.dataset.is_snapshot()).unwrap_or_else(|| self.dataset.clone())
    }

    /// A provider for the current state, which every request uses.
    fn fresh(&self) -> Self {
        Self::new(self.now(), self.keys.clone(), self.key_files.clone(), self.live.clone())
    }

    /// The datasets, if they can be changed.
    fn live_datasets(&self, snapshot: &str) -> Result<&LiveDatasets> {
        let live = self.live.as_ref().filter(|_| !self.dataset.is_snapshot());
        live.map(|live| &*live.live).ok_or_else(|| Refusal::ReadOnly.at(format!("{}@{snapshot}", self.dataset.name())))
    }

    fn snapshot_called(&self, name: &str) -> String {
        format!("{}@{name}", self.now().name())
    }

    /// File systems and volumes below, in order. A file system that is not shown is replaced by
    /// those below it.
    fn beneath(&self, dir: &Arc<Dir>, found: &mut Vec<(Dataset, DatasetKind)>) -> Result<()> {
        let tree = self.dataset.tree();
        for child in tree.children(dir)? {
            if is_hidden(child.component()) {
                continue;
            }
            // A damaged child does not hide the others.
            let head = match tree.head(&child).and_then(|head| Ok((head.kind()?, head))) {
                Ok((kind, head)) => (head, kind),
                Err(error) => {
                    tracing::warn!(dataset = child.name(), %error, "left out");
                    continue;
                }
            };
            if head.1 == DatasetKind::FileSystem && !is_shown(&head.0) {
                self.beneath(&child, found)?;
            } else {
                found.push(head);
            }
        }
        Ok(())
    }

    /// The name relative to this dataset.
    fn relative<'a>(&self, name: &'a str) -> &'a str {
        name.strip_prefix(self.dataset.name()).map_or(name, |rest| rest.trim_start_matches('/'))
    }

    /// The volume, or the snapshot of one, that `.zfs/volume` shows by this name.
    fn volume_called(&self, name: &str) -> Result<Dataset> {
        let missing = || Error::not_found(self.dataset.name(), format!("volume '{name}'"));
        let (volume, snapshot) = name.split_once('@').map_or((name, None), |(v, s)| (v, Some(s)));
        let mut found = Vec::new();
        self.beneath(self.dataset.dir(), &mut found)?;
        let is_it = |d: &Dataset| self.relative(d.name()).replace('/', SLASH) == volume;
        let volume = found.into_iter().find(|(d, kind)| *kind == DatasetKind::Volume && is_it(d));
        let (volume, _) = volume.ok_or_else(missing)?;
        match snapshot {
            Some(snapshot) if is_hidden(snapshot) => Err(missing()),
            Some(snapshot) => volume.snapshot(snapshot),
            None => self.dataset.tree().dataset(volume.name()),
        }
    }

    fn place(&self, child: &Dataset) -> Vec<u8> {
        let ours = text(&self.dataset, "mountpoint").filter(|m| m.starts_with('/'));
        let theirs = text(child, "mountpoint").filter(|m| m.starts_with('/'));
        let inside = match (&ours, &theirs) {
            (Some(ours), Some(theirs)) => {
                theirs.strip_prefix(ours.trim_end_matches('/')).and_then(|r| r.strip_prefix('/'))
            }
            _ => None,
        };
        inside.filter(|place| !place.is_empty()).unwrap_or_else(|| self.relative(child.name())).as_bytes().to_vec()
    }
}

/// Whether OpenZFS would mount it somewhere.
fn is_shown(dataset: &Dataset) -> bool {
    text(dataset, "inconsistent").as_deref() != Some("1")
        && text(dataset, "canmount").as_deref() != Some("off")
        && !matches!(text(dataset, "mountpoint").as_deref(), Some("none" | "legacy"))
}

/// The user on whose behalf a server changes snapshots; `None`: the owner of the pools.
fn user_of(who: &Caller) -> Result<Option<Credentials>> {
    match who {
        Caller { privileged: true, .. } => Ok(None),
        Caller { is_local: true, uid, gid, groups, .. } => {
            Ok(Some(Credentials { uid: *uid, gid: *gid, groups: groups.as_slice().into() }))
        }
        _ => Err(Refusal::NotPermitted.at(".zfs/snapshot")),
    }
}

/// Requires permissions on datasets and snapshots: the same as the command for the same change
/// (`verbs::Caller`).
fn permit(live: &LiveDatasets, user: Option<&Credentials>, required: &[(&str, &[&str])]) -> Result<()> {
    let Some(user) = user else { return Ok(()) };
    let tree = live.synced()?;
    let is_on = tree.has_delegation()?;
    for (name, permissions) in required {
        let dataset = tree.dataset(name)?;
        let mut may = is_on && !dataset.is_zoned()?;
        for permission in *permissions {
            may = may && dataset.is_granted(permission, user)?;
        }
        if !may {
            return Err(Refusal::NotPermitted.at(*name));
        }
    }
    Ok(())
}

/// An operation on a single snapshot has at most one failure.
fn first(done: std::result::Result<(), Failures>) -> Result<()> {
    match done {
        Ok(()) => Ok(()),
        Err(failures) => Err(failures.into_iter().next().map_or_else(|| Refusal::Busy.at("snapshot"), |(_, why)| why)),
    }
}

fn text(dataset: &Dataset, name: &str) -> Option<String> {
    let entry = Entry::Dataset(dataset.clone());
    property::get(&entry, name, &View::default()).ok().flatten().map(|p| p.value.raw)
}

fn number(dataset: &Dataset, name: &str) -> Option<u64> {
    text(dataset, name).and_then(|n| n.parse().ok())
}

/// Describes changes that are only in the intent log; `None` if there are none or the log cannot be
/// read.
pub(crate) fn unreplayed(dataset: &Dataset, keys: &KeyStore) -> Option<String> {
    // A log that cannot be read does not block access to the files; `verify` reports what is wrong
    // with it.
    let log = dataset::intent_log::read(dataset, Some(keys), &mut |_| {}).ok()?;
    (log.unreplayed_records > 0).then(|| {
        let (count, bytes) = (log.unreplayed_records, log.unreplayed_bytes);
        format!(
            "{count} changes ({bytes} bytes) are only in the intent log and are not shown; `weir inspect log` lists them"
        )
    })
}

/// The files of a dataset, read-only.
pub(crate) fn files(dataset: &Dataset, keys: &KeyStore) -> Result<Arc<dyn Vfs>> {
    let objset = dataset.objset(keys)?;
    let phys = dataset.phys();
    if files_of_volume(dataset).is_ok() {
        return Ok(Arc::new(volume_file(Arc::new(Volume::open(&objset, dataset.name())?), dataset)));
    }
    let options = zpl::Options {
        name: dataset.name().to_owned(),
        posix_acl: text(dataset, "acltype").as_deref() == Some("posix"),
        user_xattr: text(dataset, "xattr").as_deref() != Some("off"),
        record_bytes: number(dataset, "recordsize").and_then(|n| u32::try_from(n).ok()).unwrap_or(128 << 10),
        long_names: text(dataset, "longname").as_deref() == Some("on"),
        space: zpl::Space {
            referenced_bytes: phys.referenced_bytes,
            available_bytes: number(dataset, "available").unwrap_or(0),
            objects: phys.bp.fill(),
            fsid_guid: phys.fsid_guid,
        },
    };
    let files: Arc<dyn Vfs> = FileSystem::open(objset, options)?;
    Ok(files)
}

/// Opens a snapshot, or a volume of a pool that is read-only.
pub(crate) fn read_only_volume(dataset: &Dataset, keys: &KeyStore) -> Result<Volume> {
    files_of_volume(dataset)?;
    Volume::open(&dataset.objset(keys)?, dataset.name())
}

/// Fails unless the dataset is a volume or a snapshot of one.
fn files_of_volume(dataset: &Dataset) -> Result<()> {
    // A snapshot's kind is "snapshot"; its head has the kind of the dataset.
    match dataset.tree().head(dataset.dir())?.kind()? {
        DatasetKind::Volume => Ok(()),
        _ => Err(Error::invalid(dataset.name(), "is not a volume")),
    }
}

/// A volume, presented as a single file.
fn volume_file(volume: Arc<Volume>, dataset: &Dataset) -> VolumeFile {
    let phys = dataset.phys();
    let created = Time { seconds: i64::try_from(phys.creation_time).unwrap_or(0), nanoseconds: 0 };
    VolumeFile::new(volume, phys.referenced_bytes, created, phys.fsid_guid)
}

impl Provider for DatasetProvider {
    fn name(&self) -> String {
        self.now().name().to_owned()
    }

    fn root(&self) -> Result<Arc<dyn Vfs>> {
        match &self.live {
            Some(live) if self.dataset.kind()? == DatasetKind::FileSystem => live.files(&self.dataset),
            _ => files(&self.dataset, &self.keys),
        }
    }

    fn control(&self) -> Control {
        if self.dataset.is_snapshot() {
            return Control::Absent;
        }
        match text(&self.now(), "snapdir").as_deref() {
            Some("visible") => Control::Visible,
            _ => Control::Hidden,
        }
    }

    fn children(&self) -> Result<Vec<Child>> {
        if self.dataset.is_snapshot() {
            return Ok(Vec::new());
        }
        let this = self.fresh();
        let mut found = Vec::new();
        this.beneath(this.dataset.dir(), &mut found)?;
        let systems = found.into_iter().filter(|(_, kind)| *kind == DatasetKind::FileSystem);
        Ok(systems.map(|(d, _)| Child { place: this.place(&d), key: d.name().to_owned() }).collect())
    }

    fn snapshots(&self) -> Result<Vec<NumberedName>> {
        let names = self.now().snapshot_names()?;
        let shown = names.iter().filter(|(name, _)| !is_hidden(name));
        Ok(shown.map(|(name, number)| NumberedName { name: name.to_owned(), number }).collect())
    }

    fn snapshots_changed(&self) -> Result<Option<Time>> {
        let (seconds, nanoseconds) = self.now().snapshots_changed()?.unwrap_or_default();
        let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
        Ok(Some(Time { seconds, nanoseconds: u32::try_from(nanoseconds).unwrap_or(0).min(999_999_999) }))
    }

    fn volumes(&self) -> Result<Vec<NumberedName>> {
        let this = self.fresh();
        let mut found = Vec::new();
        this.beneath(this.dataset.dir(), &mut found)?;
        let mut entries = Vec::new();
        for (volume, _) in found.iter().filter(|(_, kind)| *kind == DatasetKind::Volume) {
            let name = this.relative(volume.name()).replace('/', SLASH);
            let snapshots = volume.snapshot_names()?;
            let shown = snapshots.iter().filter(|(s, _)| !is_hidden(s));
            entries.extend(shown.map(|(s, number)| NumberedName { name: format!("{name}@{s}"), number }));
            entries.push(NumberedName { name, number: volume.id() });
        }
        Ok(entries)
    }

    fn open_child(&self, key: &str) -> Result<Arc<dyn Provider>> {
        let child = self.now().tree().dataset(key)?;
        if !self.keys.is_available(&child)? {
            // There is no user to prompt. If this fails, opening the files reports that the key is
            // not loaded.
            let source = KeySource { files: self.key_files.to_vec(), ..KeySource::default() };
            if let Err(error) = keys::load(&self.keys, &child, &source) {
                tracing::debug!(dataset = key, error = %format!("{error:#}"), "its key is not loaded");
            }
        }
        if self.live.is_none()
            && let Some(notice) = unreplayed(&child, &self.keys)
        {
            tracing::warn!(dataset = key, "{notice}");
        }
        Ok(Arc::new(Self::new(child, self.keys.clone(), self.key_files.clone(), self.live.clone())))
    }

    fn open_snapshot(&self, name: &str) -> Result<Arc<dyn Vfs>> {
        files(&self.now().snapshot(name)?, &self.keys)
    }

    fn snapshot_guid(&self, name: &str) -> Result<u64> {
        let now = self.now();
        if is_hidden(name) {
            return Err(Error::not_found(now.name(), format!("snapshot '{name}'")));
        }
        Ok(now.snapshot(name)?.phys().fsid_guid)
    }

    fn volume_guid(&self, name: &str) -> Result<u64> {
        Ok(self.fresh().volume_called(name)?.phys().fsid_guid)
    }

    fn changes_snapshots(&self) -> bool {
        self.live.is_some() && !self.dataset.is_snapshot()
    }

    fn take_snapshot(&self, who: &Caller, name: &str) -> Result<()> {
        let (live, user) = (self.live_datasets(name)?, user_of(who)?);
        permit(live, user.as_ref(), &[(self.now().name(), &["snapshot"])])?;
        first(write::snapshot_for(live, user.as_ref(), &[self.snapshot_called(name)], &[]))
    }

    fn rename_snapshot(&self, who: &Caller, from: &str, to: &str) -> Result<()> {
        let (live, user) = (self.live_datasets(from)?, user_of(who)?);
        let (from, to) = (self.snapshot_called(from), self.snapshot_called(to));
        permit(live, user.as_ref(), &[(&from, &["rename", "mount"]), (self.now().name(), &["create", "mount"])])?;
        first(write::rename_snapshot(live, &from, &to, false))
    }

    fn destroy_snapshot(&self, who: &Caller, name: &str) -> Result<()> {
        let (live, user) = (self.live_datasets(name)?, user_of(who)?);
        self.now().snapshot(name)?;
        permit(live, user.as_ref(), &[(&self.snapshot_called(name), &["mount", "destroy"])])?;
        first(write::destroy_snapshots(live, &[self.snapshot_called(name)], false)).map_err(|error| match error {
            // The snapshot has clones.
            Error::Refused { why: Refusal::Exists, place } => Refusal::Busy.at(place),
            error => error,
        })
    }

    fn open_volume(&self, name: &str) -> Result<Arc<dyn Vfs>> {
        let volume = self.fresh().volume_called(name)?;
        match &self.live {
            // The volume may have dirty data, so what is on disk is not enough.
            Some(live) if !volume.is_snapshot() => {
                let opened = live.live_volume(&mut live.lock(), &volume)?;
                Ok(Arc::new(volume_file(opened, &volume)))
            }
            _ => files(&volume, &self.keys),
        }
    }

    fn way_to(&self, fs_guid: u64) -> Result<Option<Way>> {
        let is_it = |dataset: &Dataset| dataset.phys().fsid_guid == fs_guid;
        if is_it(&self.dataset) {
            return Ok(Some(Way::Here));
        }
        if self.dataset.is_snapshot() {
            return Ok(None);
        }
        let this = self.fresh();
        // A damaged dataset is skipped, and does not hide those after it.
        for (name, _) in this.dataset.snapshot_names()?.iter().filter(|(name, _)| !is_hidden(name)) {
            if this.dataset.snapshot(name).is_ok_and(|s| is_it(&s)) {
                return Ok(Some(Way::Snapshot(name.to_owned())));
            }
        }
        let mut found = Vec::new();
        this.beneath(this.dataset.dir(), &mut found)?;
        for (below, kind) in found {
            if kind == DatasetKind::Volume {
                let name = this.relative(below.name()).replace('/', SLASH);
                if is_it(&below) {
                    return Ok(Some(Way::Volume(name)));
                }
                for (snapshot, _) in below.snapshot_names()?.iter().filter(|(s, _)| !is_hidden(s)) {
                    if below.snapshot(snapshot).is_ok_and(|s| is_it(&s)) {
                        return Ok(Some(Way::Volume(format!("{name}@{snapshot}"))));
                    }
                }
                continue;
            }
            let key = below.name().to_owned();
            let child = Self::new(below, self.keys.clone(), self.key_files.clone(), self.live.clone());
            if child.way_to(fs_guid).is_ok_and(|way| way.is_some()) {
                return Ok(Some(Way::Child(key)));
            }
        }
        Ok(None)
    }
}
