//! Mounting and unmounting.
//!
//! [`mount`] returns when the kernel shows the tree. Threads of this process then serve it until somebody unmounts: a
//! person with `umount`, or this process through an [`Unmounter`].

use super::ahead;
use super::attach::{How, attach};
use super::figures::Figures;
use super::inode::InodeMap;
use super::ops::Ops;
use super::reply::Notifier;
use super::server::Server;
use super::session::{Session, can};
use super::sys;
use files::vfs::{NodeId, Vfs};
use parking_lot::{Condvar, Mutex};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Threads that serve one mount, at least: some wait for a disk while others answer from memory. Guessed.
const THREADS_MIN: usize = 4;
/// Threads for each core's requests, at least, where they come by way of io_uring: the others do not help out. Guessed.
const CORE_THREADS_MIN: usize = 2;
/// Read-ahead of the kernel where we may set it (root). Linux would take 128 KiB; larger requests cost fewer round trips.
const READ_AHEAD_KIB: u32 = 1024;
/// Share of the memory for dirty pages that write-back may take. Linux lets a FUSE mount have 1 %, with which it waits for the
/// server more than it writes. Guessed: leaves the larger part to others.
const DIRTY_PERCENT: &str = "40";
/// How long [`MountHandle::wait`] waits for users of a tree that was unmounted under them.
const DETACHED_GRACE: Duration = Duration::from_secs(3);

/// How to mount.
#[derive(Debug, Clone, Default)]
pub struct MountOptions {
    /// What `mount` and `df` show as the source: POOL/DATASET.
    pub name: String,
    /// Let other users in; `None`: if we are root.
    pub allow_other: Option<bool>,
    /// Hold users to the files' owners, modes and ACLs; `None`: if others are let in. Who mounts for himself can read his
    /// disks anyway, and could not read files of the users of the machine that they come from.
    pub enforce_permissions: Option<bool>,
    /// Device nodes work as devices. Off by default, since the disks may come from elsewhere; they show all the same.
    pub devices: bool,
    /// Honour setuid and setgid bits; off by default for the same reason.
    pub setuid: bool,
    /// Refuse to execute programs.
    pub no_exec: bool,
    /// Serving threads; `None`: one for each core, at least a few.
    pub threads: Option<usize>,
    /// Read-only even if the tree can be written.
    pub read_only: bool,
    /// Lets the kernel keep what is written for a while and put small writes together. Errors, a full pool's too, then show
    /// when a file is synced or closed.
    pub write_back: bool,
    /// Others change the tree as well, an NFS server say: the kernel asks again after a second and at each open, as an NFS client
    /// does, and keeps nothing that is written for itself.
    pub shared: bool,
    /// Requests come by way of io_uring, where the kernel offers it; else, and by default, through /dev/fuse. Faster, but with
    /// Linux up to 6.18 at least a server that is killed as the last process of a mount namespace never ends, and neither does
    /// any sync(2) of the machine (docs/upstream/fuse-io-uring-kill.md).
    pub uring: bool,
    /// Where it is counted what the kernel asks for.
    pub figures: Arc<Figures>,
}

#[derive(Debug, Default)]
struct State {
    /// Serving is over, with this error text if it ended badly.
    ended: Option<io::Result<()>>,
    /// The tree was taken out of the name space while in use.
    detached: Option<Instant>,
}

#[derive(Debug)]
struct Shared {
    dir: PathBuf,
    device: Option<String>,
    state: Mutex<State>,
    changed: Condvar,
}

/// A mounted file system that this process serves. Dropping it leaves it mounted and served.
pub struct MountHandle {
    shared: Arc<Shared>,
    server: Arc<Server>,
    changed: Changed,
    thread: std::thread::JoinHandle<()>,
}

/// Unmounts from any thread.
#[derive(Debug, Clone)]
pub struct Unmounter(Arc<Shared>);

/// Tells the kernel that a tree was changed by somebody else: another server, a rollback. It keeps what it has seen, and would
/// not ask again. Not to be called by who answers its requests, as it may wait for their end.
#[derive(Debug, Clone)]
pub struct Changed {
    kernel: Notifier,
    inodes: InodeMap,
}

impl Changed {
    /// Attributes or contents of `node`, or the names in it.
    pub fn node(&self, node: NodeId) -> io::Result<()> {
        self.kernel.invalidate(self.inodes.to_fuse(node), 0)
    }

    /// What `name` in `dir` stands for; or that it stands for something now.
    pub fn name(&self, dir: NodeId, name: &[u8]) -> io::Result<()> {
        self.kernel.invalidate_entry(self.inodes.to_fuse(dir), name)
    }
}

/// Mounts `vfs` at the directory `dir`; read-only, if that is all that it can be.
pub fn mount(vfs: Arc<dyn Vfs>, dir: &Path, options: &MountOptions) -> io::Result<MountHandle> {
    let dir = dir.canonicalize()?;
    let root = rustix::process::geteuid().is_root();
    let mut flags = 0;
    let mut flag = |on, bit| flags |= if on { bit } else { 0 };
    flag(vfs.is_read_only() || options.read_only, libc::MS_RDONLY);
    flag(vfs.is_read_only(), libc::MS_NOATIME);
    flag(!options.devices, libc::MS_NODEV);
    flag(!options.setuid, libc::MS_NOSUID);
    flag(options.no_exec, libc::MS_NOEXEC);
    let others = options.allow_other.unwrap_or(root);
    let enforce = options.enforce_permissions.unwrap_or(others);
    let mut told = Vec::new();
    told.extend(others.then_some("allow_other"));
    told.extend(enforce.then_some("default_permissions"));
    let how = How { source: options.name.clone(), flags, options: told };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = options.threads.unwrap_or(cores.max(THREADS_MIN)).max(1);

    let (told, work) = ahead::channel();
    let ops = Arc::new(Ops::new(vfs, options, enforce, threads, told));
    let cannot = |e: io::Error| io::Error::new(e.kind(), format!("cannot mount at {}: {e}", dir.display()));
    let server = Arc::new(Server(ops.clone()));
    let connection = Arc::new(attach(&dir, &how).map_err(cannot)?);
    let wanted = server.wanted() | if options.uring { can::OVER_IO_URING } else { 0 };
    let session = Session::begin(connection, wanted, threads.div_ceil(cores).max(CORE_THREADS_MIN)).map_err(|e| {
        // Nobody will answer there.
        let _ = sys::unmount(&dir, true);
        cannot(e)
    })?;
    let device = mounted_device(&dir);
    if let Some(device) = &device {
        raise_limits(device, ops.write_back);
    }
    let kernel = Notifier(session.device().clone());
    // Not set before: this is the only place that does.
    let _ = ops.kernel.set(kernel.clone());
    let changed = Changed { kernel: kernel.clone(), inodes: ops.inodes };
    let weak = Arc::downgrade(&ops);
    // Ends with the server, which has the other end.
    let to_kernel = kernel.clone();
    std::thread::Builder::new().name("weir-ahead".to_owned()).spawn(move || work.run(&weak, &to_kernel))?;
    if !ops.read_only {
        let (settle, inodes) = (ops.settle.clone(), ops.inodes);
        std::thread::Builder::new().name("weir-settle".to_owned()).spawn(move || settle.run(inodes, &kernel))?;
    }
    let shared = Arc::new(Shared { dir, device, state: Mutex::new(State::default()), changed: Condvar::new() });
    let ours = shared.clone();
    let serving = server.clone();
    let thread = std::thread::Builder::new().name("weir-mount".to_owned()).spawn(move || {
        let served = session.serve(&serving, threads);
        let synced = serving.end().map_err(|e| unsynced(&e));
        ours.state.lock().ended = Some(served.and(synced));
        ours.changed.notify_all();
    })?;
    Ok(MountHandle { shared, server, changed, thread })
}

impl std::fmt::Debug for MountHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MountHandle").field("shared", &self.shared).finish_non_exhaustive()
    }
}

impl MountHandle {
    /// Where it is mounted.
    pub fn dir(&self) -> &Path {
        &self.shared.dir
    }

    /// For telling of changes by others.
    pub fn changed(&self) -> Changed {
        self.changed.clone()
    }

    /// For unmounting from another thread.
    pub fn unmounter(&self) -> Unmounter {
        Unmounter(self.shared.clone())
    }

    /// Waits until it is unmounted, by whomever, and all requests are answered.
    ///
    /// Where [`Unmounter::unmount_now`] took it from under its users, returns after a short grace even if some still hold
    /// on to it: what they have written by then is on disk, and they get ENOTCONN when this process ends.
    pub fn wait(self) -> io::Result<()> {
        let mut state = self.shared.state.lock();
        loop {
            if let Some(ended) = state.ended.take() {
                drop(state);
                let _ = self.thread.join(); // A panic has been reported by its thread; there is nothing left to clean up.
                return ended;
            }
            match state.detached {
                Some(at) if at.elapsed() >= DETACHED_GRACE => {
                    drop(state);
                    return self.server.0.vfs.sync_all().map_err(|e| unsynced(&e));
                }
                Some(at) => {
                    let _ = self.shared.changed.wait_until(&mut state, at + DETACHED_GRACE);
                }
                None => self.shared.changed.wait(&mut state),
            }
        }
    }

    /// Unmounts and waits.
    pub fn unmount(self) -> io::Result<()> {
        self.unmounter().unmount()?;
        self.wait()
    }
}

impl Unmounter {
    fn still_ours(&self) -> bool {
        self.0.state.lock().ended.is_none() && mounted_device(&self.0.dir) == self.0.device
    }

    /// Unmounts; fails with `ResourceBusy` when it is in use. Fine if it is unmounted already.
    pub fn unmount(&self) -> io::Result<()> {
        if self.still_ours() { sys::unmount(&self.0.dir, false) } else { Ok(()) }
    }

    /// Unmounts even when in use.
    pub fn unmount_now(&self) -> io::Result<()> {
        if !self.still_ours() {
            return Ok(());
        }
        if sys::unmount(&self.0.dir, false).is_err() {
            sys::unmount(&self.0.dir, true)?;
            self.0.state.lock().detached = Some(Instant::now());
            self.0.changed.notify_all();
        }
        Ok(())
    }
}

fn unsynced(error: &files::Error) -> io::Error {
    io::Error::other(format!("not all is on disk: {error}"))
}

/// Whether something is mounted exactly at `dir`.
pub fn is_mount_point(dir: &Path) -> bool {
    dir.canonicalize().is_ok_and(|dir| mounted_device(&dir).is_some())
}

/// `major:minor` of the topmost file system mounted exactly at `dir`, from the kernel's list of mounts: asking the file
/// system itself would hang if its server did.
fn mounted_device(dir: &Path) -> Option<String> {
    let mounts = std::fs::read("/proc/self/mountinfo").ok()?;
    let mut lines = mounts.split(|&b| b == b'\n').filter_map(parse_line);
    lines.rfind(|m| m.place == dir).map(|m| m.device)
}

/// Unmounts what Weir has mounted at `dir` and beneath it, whichever process serves it; innermost first. How many it was.
pub fn unmount_below(dir: &Path, lazy: bool) -> io::Result<usize> {
    let dir = dir.canonicalize()?;
    let mounts = std::fs::read("/proc/self/mountinfo")?;
    let lines = mounts.split(|&b| b == b'\n').filter_map(parse_line);
    let ours: Vec<PathBuf> =
        lines.filter(|m| m.kind == "fuse.weir" && m.place.starts_with(&dir)).map(|m| m.place).collect();
    for place in ours.iter().rev() {
        sys::unmount(place, lazy).map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", place.display())))?;
    }
    Ok(ours.len())
}

/// How long a server may take to answer before it counts as alive but busy.
const PROBE: Duration = Duration::from_secs(5);

/// Takes away what a server that was killed left mounted at `place`: every access to it fails. Whether there was such a thing.
///
/// The kernel closes the connection of a killed process some time after its end (its rings are torn down behind it), and
/// answers from its caches until then; so the question is one that only the server can answer.
pub fn unmount_dead(place: &Path) -> io::Result<bool> {
    let mounts = std::fs::read("/proc/self/mountinfo")?;
    let mut lines = mounts.split(|&b| b == b'\n').filter_map(parse_line);
    if !lines.any(|m| m.kind == "fuse.weir" && m.place == place) {
        return Ok(false);
    }
    let (sender, answer) = std::sync::mpsc::channel();
    let probed = place.to_owned();
    std::thread::Builder::new()
        .name("weir-probe".to_owned())
        .spawn(move || sender.send(rustix::fs::statfs(&probed).err()))?;
    let is_dead = |e: rustix::io::Errno| matches!(e, rustix::io::Errno::NOTCONN | rustix::io::Errno::CONNABORTED);
    if !matches!(answer.recv_timeout(PROBE), Ok(Some(error)) if is_dead(error)) {
        return Ok(false);
    }
    sys::unmount(place, true)?;
    Ok(true)
}

/// A line of mountinfo(5).
struct MountLine {
    device: String,
    place: PathBuf,
    kind: String,
}

/// Field 3 is the device, field 5 the place (with octal escapes), the one behind "-" the type of file system.
fn parse_line(line: &[u8]) -> Option<MountLine> {
    let mut fields = line.split(|&b| b == b' ');
    let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
    let device = text(fields.nth(2)?);
    let place = unescape(fields.nth(1)?);
    let kind = text(fields.skip_while(|f| *f != b"-").nth(1)?);
    Some(MountLine { device, place, kind })
}

fn unescape(field: &[u8]) -> PathBuf {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        let octal = tail.get(..3).filter(|_| first == b'\\').and_then(|d| std::str::from_utf8(d).ok());
        if let Some(byte) = octal.and_then(|d| u8::from_str_radix(d, 8).ok()) {
            out.push(byte);
            rest = tail.get(3..).unwrap_or_default();
        } else {
            out.push(first);
            rest = tail;
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(out))
}

/// Best effort: needs root, and works without.
fn raise_limits(device: &str, write_back: bool) {
    let set = |name: &str, value: &str| {
        let file = format!("/sys/class/bdi/{device}/{name}");
        if let Err(error) = std::fs::write(&file, value) {
            tracing::debug!(%file, %error, "stays at the kernel's own");
        }
    };
    set("read_ahead_kb", &READ_AHEAD_KIB.to_string());
    if write_back {
        set("max_ratio", DIRTY_PERCENT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mountinfo_places_are_unescaped() {
        let line = br"39 22 0:47 / /mnt/a\040b\134c rw,relatime - fuse.weir tank rw";
        let mount = parse_line(line).expect("a line of the kernel's");
        assert_eq!(mount.place, Path::new(r"/mnt/a b\c"));
        assert_eq!((mount.device.as_str(), mount.kind.as_str()), ("0:47", "fuse.weir"));
        assert!(parse_line(b"39 22 0:47 /").is_none());
    }
}
