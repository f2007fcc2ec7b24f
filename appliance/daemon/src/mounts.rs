//! FUSE mounts of this process.
//!
//! As root each file system is a mount of its own at its mount point, as with the kernel module.
//! Other users cannot mount inside a FUSE mount: a file system whose mount point is in another
//! one's mount is shown through that mount.
//!
//! Invariants:
//!   * a mount is in the table as long as it is served, even if another process unmounts it
//!   * the lock of the table is not held during mounting and unmounting

use admin::OwnedPool;
use admin::errata;
use admin::mounts::{Mounted, NOT_EMPTY, Plan, has_entries, is_at_or_below, text};
use files::namespace::{Namespace, Provider, file_system_of};
use files::vfs::NodeId;
use parking_lot::{Condvar, Mutex};
use serve::fuse::{MountOptions, TreeUnmounter, Unmounter, mount, mount_tree, unmount_dead};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Limit for the time to wait until written data reaches the disks.
const SYNC_MAX: Duration = Duration::from_secs(60);
/// Threads for each mount: there may be hundreds of mounts.
const THREADS: usize = 4;

struct Entry {
    id: u64,
    mounted: Mounted,
    how: How,
}

enum How {
    Own(Unmounter, MountOptions),
    /// Mounted by `weir mount` as a whole tree.
    Tree(TreeUnmounter),
    /// Shown through the mount with this number.
    Through(u64),
}

impl How {
    /// `None`: it has no mount of its own.
    fn way(&self) -> Option<Way> {
        match self {
            Self::Own(own, _) => Some(Way::Own(own.clone())),
            Self::Tree(tree) => Some(Way::Tree(tree.clone())),
            Self::Through(_) => None,
        }
    }
}

#[derive(Default)]
struct Table {
    entries: Vec<Entry>,
    last: u64,
    /// Error of the last mount that ended with one.
    failed: Option<io::Error>,
}

/// Which datasets of a tree are mounted, and how.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Whether descendants are mounted, too.
    pub children: bool,
    /// A separate mount for each dataset; requires root.
    pub separate: bool,
}

/// The mounts of this process.
#[derive(Clone, Default)]
pub struct Mounts {
    shared: Arc<(Mutex<Table>, Condvar)>,
    /// Mount only on explicit request.
    quiet: Arc<AtomicBool>,
    /// Use io_uring for new mounts.
    uring: Arc<AtomicBool>,
    /// Receiver of events about operations on mounts.
    events: Arc<OnceLock<Arc<observe::Events>>>,
}

impl Mounts {
    /// With `quiet`, file systems are mounted only on explicit request, not when they are created
    /// or imported.
    pub fn new(quiet: bool) -> Self {
        Self { quiet: Arc::new(AtomicBool::new(quiet)), ..Self::default() }
    }

    /// Sets the receiver of events for new mounts.
    pub fn record_to(&self, events: Arc<observe::Events>) {
        let _ = self.events.set(events);
    }

    /// Whether file systems are mounted when they are created or imported.
    pub fn is_automatic(&self) -> bool {
        !self.quiet.load(Ordering::Relaxed)
    }

    /// Sets whether file systems are mounted when they are created or imported.
    pub fn set_automatic(&self, automatic: bool) {
        self.quiet.store(!automatic, Ordering::Relaxed);
    }

    /// Sets whether new mounts use io_uring, where the kernel offers it, or /dev/fuse.
    pub fn set_uring(&self, uring: bool) {
        self.uring.store(uring, Ordering::Relaxed);
    }

    /// All mounts, parents first.
    pub fn list(&self) -> Vec<Mounted> {
        let mut all: Vec<Mounted> = self.shared.0.lock().entries.iter().map(|e| e.mounted.clone()).collect();
        all.sort_by(|a, b| a.place.cmp(&b.place));
        all
    }

    /// Mounts of a dataset and its descendants in a pool, parents first.
    pub fn below(&self, pool: u64, dataset: &str) -> Vec<Mounted> {
        let is_below = |m: &Mounted| m.pool == pool && is_at_or_below(&m.dataset, dataset);
        self.list().into_iter().filter(is_below).collect()
    }

    /// The mount of a dataset.
    pub fn of(&self, dataset: &str) -> Option<Mounted> {
        self.list().into_iter().find(|m| m.dataset == dataset)
    }

    /// Mounts a dataset according to its properties.
    pub fn mount(&self, pool: &OwnedPool, dataset: &str, plan: &Plan) -> io::Result<()> {
        let other = |e: &dyn std::fmt::Display| io::Error::other(e.to_string());
        if self.of(dataset).is_some() {
            return Err(io::Error::new(ErrorKind::AlreadyExists, "filesystem already mounted"));
        }
        let root = rustix::process::geteuid().is_root();
        let first_format = || errata::is_first_format(&pool.datasets()?.dataset(dataset)?);
        if !plan.read_only && first_format().map_err(|e| other(&format!("{e:#}")))? {
            let why = "it is encrypted in the first format, which is only read: mount it with '-o ro'";
            return Err(io::Error::new(ErrorKind::Unsupported, why));
        }
        let through = if root { None } else { self.around(&plan.place) };
        if let Some(id) = through {
            return self.show_through(pool, id, dataset, plan);
        }
        if unmount_dead(&plan.place)? {
            tracing::info!(place = %plan.place.display(), "removed the stale mount of a killed process");
        }
        std::fs::create_dir_all(&plan.place)
            .map_err(|e| io::Error::new(e.kind(), format!("failed to create mountpoint: {}", text(&e))))?;
        if plan.needs_empty && has_entries(&plan.place) {
            return Err(io::Error::new(ErrorKind::DirectoryNotEmpty, NOT_EMPTY));
        }
        let provider = pool.provider(dataset).map_err(|e| other(&format!("{e:#}")))?;
        let namespace = Namespace::with_children(provider, move |_| !root).map_err(|e| other(&e))?;
        let mut options = options(plan);
        options.uring = self.uring.load(Ordering::Relaxed);
        options.name = dataset.to_owned();
        options.threads.get_or_insert(THREADS);
        if let Some(events) = self.events.get() {
            options.figures.record_to(events, &plan.place.display().to_string(), dataset, &namespace);
        }
        let handle = mount(Arc::new(namespace), &plan.place, &options)?;
        let place = handle.dir().to_owned();
        let unmounter = handle.unmounter();
        let mounted =
            Mounted { pool: pool.guid(), dataset: dataset.to_owned(), place, plan: plan.clone(), by_hand: false };
        let id = self.add(mounted, How::Own(unmounter, options));
        self.watch(id, move || handle.wait())
    }

    /// Changes the options of a mounted dataset to those of `plan`, at its present place.
    pub fn remount(&self, dataset: &str, plan: &Plan) -> io::Result<()> {
        let found = self.shared.0.lock().entries.iter().find(|e| e.mounted.dataset == dataset).map(|e| match &e.how {
            How::Own(own, options) => Some((e.id, own.clone(), options.no_atime.clone())),
            How::Tree(_) | How::Through(_) => None,
        });
        let (id, own, no_atime) = match found {
            Some(Some(found)) => found,
            Some(None) => {
                return Err(io::Error::new(ErrorKind::Unsupported, "unsupported: remounting a part of a mount"));
            }
            None => return Err(io::Error::new(ErrorKind::NotFound, "not currently mounted")),
        };
        let before = no_atime.swap(plan.no_atime, Ordering::Relaxed);
        if let Err(error) = own.remount(&MountOptions { no_atime: no_atime.clone(), ..options(plan) }) {
            no_atime.store(before, Ordering::Relaxed);
            return Err(error);
        }
        if let Some(entry) = self.shared.0.lock().entries.iter_mut().find(|e| e.id == id) {
            entry.mounted.plan = Plan { place: entry.mounted.place.clone(), ..plan.clone() };
        }
        Ok(())
    }

    /// Mounts a dataset with its descendants at any place, as `weir mount` does. Returns the mount
    /// points.
    pub fn mount_tree(
        &self,
        pool: u64,
        provider: Arc<dyn Provider>,
        dir: &Path,
        options: &MountOptions,
        shape: Shape,
    ) -> io::Result<Vec<PathBuf>> {
        let dataset = provider.name();
        let tree = mount_tree(provider, dir, options, shape.children, shape.separate)?;
        let places: Vec<PathBuf> = tree.places().map(Path::to_owned).collect();
        let place = places.first().cloned().unwrap_or_else(|| dir.to_owned());
        let plan = Plan { place: place.clone(), ..Plan::default() };
        let id = self.add(Mounted { pool, dataset, place, plan, by_hand: true }, How::Tree(tree.unmounter()));
        self.watch(id, move || tree.wait())?;
        Ok(places)
    }

    /// Removes a mount from the table when it is no longer served.
    fn watch(&self, id: u64, wait: impl FnOnce() -> io::Result<()> + Send + 'static) -> io::Result<()> {
        let this = self.clone();
        std::thread::Builder::new().name("weir-mounted".to_owned()).spawn(move || {
            if let Err(error) = wait() {
                tracing::error!(%error, "a mount ended with an error");
                this.shared.0.lock().failed = Some(error);
            }
            this.gone(id);
        })?;
        Ok(())
    }

    /// Waits until nothing is mounted any more. Returns the last error.
    pub fn wait(&self) -> io::Result<()> {
        let (table, changed) = &*self.shared;
        let mut table = table.lock();
        while !table.entries.is_empty() {
            changed.wait(&mut table);
        }
        table.failed.take().map_or(Ok(()), Err)
    }

    fn gone(&self, id: u64) {
        let (table, changed) = &*self.shared;
        let is_it = |e: &Entry| e.id == id || matches!(e.how, How::Through(through) if through == id);
        table.lock().entries.retain(|e| !is_it(e));
        changed.notify_all();
    }

    fn add(&self, mounted: Mounted, how: How) -> u64 {
        let mut table = self.shared.0.lock();
        table.last += 1;
        let id = table.last;
        table.entries.push(Entry { id, mounted, how });
        id
    }

    /// The mount that contains a path.
    fn around(&self, place: &Path) -> Option<u64> {
        let table = self.shared.0.lock();
        let own = table.entries.iter().filter(|e| !matches!(e.how, How::Through(_)));
        own.filter(|e| place.starts_with(&e.mounted.place))
            .max_by_key(|e| e.mounted.place.as_os_str().len())
            .map(|e| e.id)
    }

    /// Renews the surrounding mount if it does not contain the dataset yet.
    fn show_through(&self, pool: &OwnedPool, id: u64, dataset: &str, plan: &Plan) -> io::Result<()> {
        let mounted = Mounted {
            pool: pool.guid(),
            dataset: dataset.to_owned(),
            place: plan.place.clone(),
            plan: plan.clone(),
            by_hand: false,
        };
        let around = self.shared.0.lock().entries.iter().find(|e| e.id == id).map(|e| e.mounted.clone());
        let around = around.ok_or(ErrorKind::NotFound)?;
        let shows = plan.place.is_dir() && is_at_or_below(dataset, &around.dataset);
        if shows && std::fs::metadata(&plan.place).is_ok() && self.is_root_of_own(&around, plan) {
            self.add(mounted, How::Through(id));
            return Ok(());
        }
        if !is_at_or_below(dataset, &around.dataset) {
            return Err(io::Error::other("only root can mount it inside another pool's mount"));
        }
        let id = self.renew(pool, &around, plan)?;
        self.add(mounted, How::Through(id));
        Ok(())
    }

    /// Mounts a file system again, so that it shows the current file systems inside it. Returns its
    /// number.
    fn renew(&self, pool: &OwnedPool, around: &Mounted, inside: &Plan) -> io::Result<u64> {
        let is_inside = |m: &Mounted| m.place != around.place && m.place.starts_with(&around.place);
        let others: Vec<Mounted> = self.list().into_iter().filter(is_inside).collect();
        self.unmount(&around.dataset, false)?;
        self.mount(pool, &around.dataset, &around.plan)?;
        let id = self.around(&inside.place).ok_or(ErrorKind::NotFound)?;
        for other in others {
            self.add(other, How::Through(id));
        }
        Ok(id)
    }

    /// Removes destroyed datasets from the mounts that showed them, unless these are in use.
    pub fn forget(&self, pool: &OwnedPool, unmounted: &[Mounted]) {
        if rustix::process::geteuid().is_root() {
            return;
        }
        for gone in unmounted {
            let id = self.around(&gone.place);
            let around = self.shared.0.lock().entries.iter().find(|e| Some(e.id) == id).map(|e| e.mounted.clone());
            if let Some(around) = around.filter(|m| !m.by_hand)
                && let Err(error) = self.renew(pool, &around, &gone.plan)
            {
                tracing::info!(
                    dataset = gone.dataset,
                    error = text(&error),
                    "an empty directory remains until it is mounted again"
                );
            }
        }
    }

    /// Whether another file system begins at the path, shown through the surrounding mount.
    fn is_root_of_own(&self, around: &Mounted, plan: &Plan) -> bool {
        use std::os::unix::fs::MetadataExt;
        // All file systems in one mount have the same device number; inode numbers contain the file
        // system.
        let number = |path: &Path| std::fs::metadata(path).map(|m| file_system_of(NodeId(m.ino()))).ok();
        number(&plan.place) != number(&around.place)
    }

    /// Makes the kernel drop the cached pages of all mounts of a pool, so that files are read
    /// again.
    pub fn drop_pages(&self, pool: u64) {
        let of_pool = |e: &&Entry| e.mounted.pool == pool;
        let ways: Vec<Way> = self.shared.0.lock().entries.iter().filter(of_pool).filter_map(|e| e.how.way()).collect();
        for way in ways {
            match way {
                Way::Own(own) => own.drop_pages(),
                Way::Tree(tree) => tree.drop_pages(),
            }
        }
    }

    /// Unmounts a dataset, but not file systems mounted inside it. Fails if it is in use, unless
    /// `force`. All data is on disk on return.
    pub fn unmount(&self, dataset: &str, force: bool) -> io::Result<()> {
        let (table, changed) = &*self.shared;
        let is_it = |e: &&Entry| e.mounted.dataset == dataset;
        let found = table.lock().entries.iter().find(is_it).map(|e| (e.id, e.how.way()));
        let Some((id, way)) = found else { return Ok(()) };
        match way {
            Some(Way::Own(own)) if force => own.unmount_now()?,
            Some(Way::Own(own)) => own.unmount()?,
            Some(Way::Tree(tree)) if force => tree.unmount_now()?,
            Some(Way::Tree(tree)) => tree.unmount()?,
            None => {
                self.gone(id);
                return Ok(());
            }
        }
        let deadline = Instant::now() + SYNC_MAX;
        let mut table = table.lock();
        while table.entries.iter().any(|e| e.id == id) {
            if changed.wait_until(&mut table, deadline).timed_out() {
                return Err(io::Error::new(ErrorKind::TimedOut, "not written to disk yet"));
            }
        }
        Ok(())
    }

    /// Unmounts a dataset of a pool and its descendants, children first. An error contains the
    /// place of the first one that failed.
    pub fn unmount_below(&self, pool: u64, dataset: &str, force: bool) -> Result<Vec<Mounted>, (PathBuf, io::Error)> {
        let around = |e: &Entry| {
            let m = &e.mounted;
            m.by_hand && m.pool == pool && m.dataset != dataset && is_at_or_below(dataset, &m.dataset)
        };
        if let Some(tree) = self.shared.0.lock().entries.iter().find(|e| around(e)) {
            return Err((tree.mounted.place.clone(), ErrorKind::ResourceBusy.into()));
        }
        self.unmount_each(self.below(pool, dataset), force)
    }

    /// The same for datasets mounted according to their properties: manual mounts stay.
    pub fn unmount_placed(&self, pool: u64, dataset: &str, force: bool) -> Result<Vec<Mounted>, (PathBuf, io::Error)> {
        self.unmount_each(self.below(pool, dataset).into_iter().filter(|m| !m.by_hand).collect(), force)
    }

    fn unmount_each(&self, mounted: Vec<Mounted>, force: bool) -> Result<Vec<Mounted>, (PathBuf, io::Error)> {
        for one in mounted.iter().rev() {
            self.unmount(&one.dataset, force).map_err(|e| (one.place.clone(), e))?;
        }
        Ok(mounted)
    }

    /// Updates the table after datasets at and below `from` were renamed.
    pub fn renamed(&self, pool: u64, from: &str, to: &str) {
        let mut table = self.shared.0.lock();
        for mounted in table.entries.iter_mut().map(|e| &mut e.mounted).filter(|m| m.pool == pool) {
            if is_at_or_below(&mounted.dataset, from) {
                mounted.dataset.replace_range(..from.len(), to);
            }
        }
    }

    /// Unmounts everything by force, because the process ends.
    pub fn unmount_all(&self) {
        for one in self.list().iter().rev() {
            if let Err(error) = self.unmount(&one.dataset, true) {
                tracing::error!(place = %one.place.display(), %error, "cannot unmount");
            }
        }
    }
}

enum Way {
    Own(Unmounter),
    Tree(TreeUnmounter),
}

/// Options for FUSE. Writes go to the `Vfs` at once, so that other servers of the pool see them,
/// and a full pool is reported at each write.
fn options(plan: &Plan) -> MountOptions {
    MountOptions {
        read_only: plan.read_only,
        setuid: plan.setuid,
        devices: plan.devices,
        no_exec: plan.no_exec,
        shared: plan.shared,
        no_atime: Arc::new(AtomicBool::new(plan.no_atime)),
        ..MountOptions::default()
    }
}
