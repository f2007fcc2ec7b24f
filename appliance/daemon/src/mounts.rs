//! What this process has mounted with FUSE.
//!
//! As root each file system is a mount of its own, at its mount point, as with the kernel module. Others cannot mount inside a
//! FUSE mount: a file system whose mount point lies in that of another one shows through that one's mount.
//!
//! Invariants:
//!   * a mount stands in the table as long as it is served, whoever unmounts it
//!   * the lock of the table is not held while something is mounted or unmounted

use crate::rules::{NotMounted, Plan, plan};
use admin::OwnedPool;
use files::namespace::{Namespace, Provider};
use parking_lot::{Condvar, Mutex};
use serve::fuse::{MountOptions, TreeUnmounter, Unmounter, mount, mount_tree, unmount_dead};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Longest time that is waited for what was written to reach the disks.
const SYNC_MAX: Duration = Duration::from_secs(60);
/// Threads that serve a mount: there may be hundreds of mounts.
const THREADS: usize = 4;

/// A file system that is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mounted {
    /// Its pool.
    pub pool: u64,
    /// Its name.
    pub dataset: String,
    /// Where.
    pub place: PathBuf,
    /// How it was mounted.
    pub plan: Plan,
    /// Mounted by `weir mount`, with what is beneath it, wherever somebody wanted it.
    pub by_hand: bool,
}

struct Entry {
    id: u64,
    mounted: Mounted,
    how: How,
}

enum How {
    Own(Unmounter),
    /// Mounted by `weir mount` as a whole.
    Tree(TreeUnmounter),
    /// Shows through the mount with this number.
    Through(u64),
}

#[derive(Default)]
struct Table {
    entries: Vec<Entry>,
    last: u64,
    /// How the last mount ended that ended badly.
    failed: Option<io::Error>,
}

/// What of a tree is mounted, and how.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Also the datasets beneath.
    pub children: bool,
    /// Each for itself; takes root.
    pub separate: bool,
}

/// The mounts of this process.
#[derive(Clone, Default)]
pub struct Mounts {
    shared: Arc<(Mutex<Table>, Condvar)>,
    /// Nothing is mounted unless somebody asks for it by name.
    quiet: Arc<AtomicBool>,
    /// What is mounted from now on talks to the kernel by way of io_uring.
    uring: Arc<AtomicBool>,
    /// Whom operations of mounts are told.
    events: Arc<OnceLock<Arc<observe::Events>>>,
}

impl Mounts {
    /// With `quiet`, file systems are mounted only when somebody asks for one: not when they are made or imported.
    pub fn new(quiet: bool) -> Self {
        Self { quiet: Arc::new(AtomicBool::new(quiet)), ..Self::default() }
    }

    /// From now on, operations of new mounts are told.
    pub fn tell_to(&self, events: Arc<observe::Events>) {
        let _ = self.events.set(events);
    }

    /// Whether file systems are mounted when they are made or imported.
    pub fn is_automatic(&self) -> bool {
        !self.quiet.load(Ordering::Relaxed)
    }

    /// Mounts from now on when file systems are made or imported, or only when somebody asks.
    pub fn set_automatic(&self, automatic: bool) {
        self.quiet.store(!automatic, Ordering::Relaxed);
    }

    /// Mounts from now on by way of io_uring, where the kernel offers it, or through /dev/fuse.
    pub fn set_uring(&self, uring: bool) {
        self.uring.store(uring, Ordering::Relaxed);
    }

    /// All, parents first.
    pub fn list(&self) -> Vec<Mounted> {
        let mut all: Vec<Mounted> = self.shared.0.lock().entries.iter().map(|e| e.mounted.clone()).collect();
        all.sort_by(|a, b| a.place.cmp(&b.place));
        all
    }

    /// Those of a pool at and below a dataset, parents first.
    pub fn below(&self, pool: u64, dataset: &str) -> Vec<Mounted> {
        let is_below = |m: &Mounted| m.pool == pool && is_at_or_below(&m.dataset, dataset);
        self.list().into_iter().filter(is_below).collect()
    }

    /// The mount of a dataset.
    pub fn of(&self, dataset: &str) -> Option<Mounted> {
        self.list().into_iter().find(|m| m.dataset == dataset)
    }

    /// Mounts a dataset as its properties say.
    pub fn mount(&self, pool: &OwnedPool, dataset: &str, plan: &Plan) -> io::Result<()> {
        let other = |e: &dyn std::fmt::Display| io::Error::other(e.to_string());
        if self.of(dataset).is_some() {
            return Err(io::Error::new(ErrorKind::AlreadyExists, "filesystem already mounted"));
        }
        let root = rustix::process::geteuid().is_root();
        let through = if root { None } else { self.around(&plan.place) };
        if let Some(id) = through {
            return self.show_through(pool, id, dataset, plan);
        }
        if unmount_dead(&plan.place)? {
            tracing::info!(place = %plan.place.display(), "removed the stale mount of a killed process");
        }
        std::fs::create_dir_all(&plan.place)
            .map_err(|e| io::Error::new(e.kind(), format!("failed to create mountpoint: {}", text(&e))))?;
        let provider = pool.provider(dataset).map_err(|e| other(&format!("{e:#}")))?;
        let namespace = Namespace::with_children(provider, move |_| !root).map_err(|e| other(&e))?;
        let mut options = plan.options();
        options.uring = self.uring.load(Ordering::Relaxed);
        options.name = dataset.to_owned();
        options.threads.get_or_insert(THREADS);
        if let Some(events) = self.events.get() {
            options.figures.tell_to(events, &plan.place.display().to_string(), dataset, &namespace);
        }
        let handle = mount(Arc::new(namespace), &plan.place, &options)?;
        let place = handle.dir().to_owned();
        let unmounter = handle.unmounter();
        let mounted =
            Mounted { pool: pool.guid(), dataset: dataset.to_owned(), place, plan: plan.clone(), by_hand: false };
        let id = self.add(mounted, How::Own(unmounter));
        self.watch(id, move || handle.wait())
    }

    /// Mounts a dataset with those beneath it at any place, as `weir mount` does. Where all of it is.
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

    /// Takes a mount out of the table when it is not served any more.
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

    /// Waits until nothing is mounted any more; the last thing that went wrong.
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

    /// The mount that a place lies in.
    fn around(&self, place: &Path) -> Option<u64> {
        let table = self.shared.0.lock();
        let own = table.entries.iter().filter(|e| !matches!(e.how, How::Through(_)));
        own.filter(|e| place.starts_with(&e.mounted.place))
            .max_by_key(|e| e.mounted.place.as_os_str().len())
            .map(|e| e.id)
    }

    /// The mount around is made anew, if it did not have the dataset yet.
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

    /// Makes a mount anew, so that what lies in it shows as it is now; its number.
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

    /// What was unmounted does not exist any more: takes it out of the mounts that it showed through, unless they are in use.
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

    /// Whether another file system than the one around begins at the place: one that shows through it.
    fn is_root_of_own(&self, around: &Mounted, plan: &Plan) -> bool {
        use std::os::unix::fs::MetadataExt;
        // All in one mount have one device; numbers of nodes tell their file system above bit 48.
        let number = |path: &Path| std::fs::metadata(path).map(|m| m.ino() >> 48).ok();
        number(&plan.place) != number(&around.place)
    }

    /// Unmounts a dataset; not those mounted in it. Fails when it is in use, unless by `force`. On return all is on disk.
    pub fn unmount(&self, dataset: &str, force: bool) -> io::Result<()> {
        let (table, changed) = &*self.shared;
        let found = table.lock().entries.iter().find(|e| e.mounted.dataset == dataset).map(|e| {
            (
                e.id,
                match &e.how {
                    How::Own(own) => Some(Way::Own(own.clone())),
                    How::Tree(tree) => Some(Way::Tree(tree.clone())),
                    How::Through(_) => None,
                },
            )
        });
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

    /// Unmounts what of a pool is mounted at and below a dataset, children first. What could not be, with where it is: the first.
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

    /// The same, of those that are mounted where their properties say: what somebody mounted elsewhere stays.
    pub fn unmount_placed(&self, pool: u64, dataset: &str, force: bool) -> Result<Vec<Mounted>, (PathBuf, io::Error)> {
        self.unmount_each(self.below(pool, dataset).into_iter().filter(|m| !m.by_hand).collect(), force)
    }

    fn unmount_each(&self, mounted: Vec<Mounted>, force: bool) -> Result<Vec<Mounted>, (PathBuf, io::Error)> {
        for one in mounted.iter().rev() {
            self.unmount(&one.dataset, force).map_err(|e| (one.place.clone(), e))?;
        }
        Ok(mounted)
    }

    /// Datasets at and below `from` are called otherwise now.
    pub fn renamed(&self, pool: u64, from: &str, to: &str) {
        let mut table = self.shared.0.lock();
        for mounted in table.entries.iter_mut().map(|e| &mut e.mounted).filter(|m| m.pool == pool) {
            if is_at_or_below(&mounted.dataset, from) {
                mounted.dataset.replace_range(..from.len(), to);
            }
        }
    }

    /// Mounts again what was unmounted, as properties say now; what is not to be mounted any more stays away.
    pub fn mount_again(&self, pool: &OwnedPool, names: &[String]) -> Vec<(String, String)> {
        let mut failed = Vec::new();
        for name in names {
            let result = match plan(pool, name) {
                Ok(plan) => self.mount(pool, name, &plan).map_err(|e| text(&e)),
                Err(NotMounted::Broken(why)) => Err(why),
                Err(_) => Ok(()),
            };
            failed.extend(result.err().map(|why| (name.clone(), why)));
        }
        failed
    }

    /// Unmounts all, in use or not: the process ends.
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

/// What the operating system says, without the number.
pub fn text(error: &io::Error) -> String {
    let text = match error.kind() {
        ErrorKind::ResourceBusy => "pool or dataset is busy".to_owned(),
        _ => error.to_string(),
    };
    let text = text.split(" (os error").next().unwrap_or(&text);
    // Who shows it says where.
    let why = text.strip_prefix("cannot mount at ").and_then(|rest| Some(rest.split_once(": ")?.1));
    why.unwrap_or(text).to_owned()
}

/// Whether a dataset is `above` or below it.
pub fn is_at_or_below(name: &str, above: &str) -> bool {
    name.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
