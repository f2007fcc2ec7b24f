//! Mounting and unmounting.
//!
//! [`mount`] returns when the tree is visible. Threads of this process then serve it until it is
//! unmounted, with `umount` or through an [`Unmounter`].

use super::ahead;
use super::attach::{How, attach};
use super::inode::InodeMap;
use super::ops::Ops;
use super::options::MountOptions;
use super::reply::Notifier;
use super::server::Server;
use super::session::{Session, can};
use super::sys;
use files::vfs::{NodeId, Vfs};
use parking_lot::{Condvar, Mutex};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Minimum number of threads that serve one mount: some wait for a disk while others answer from
/// memory. Guessed.
const THREADS_MIN: usize = 4;
/// Minimum number of threads per core with io_uring, where threads of other cores cannot help.
/// Guessed.
const CORE_THREADS_MIN: usize = 2;
/// Read-ahead of the kernel, set if we are root. Linux defaults to 128 KiB; larger requests need
/// fewer round trips.
const READ_AHEAD_KIB: u32 = 1024;
/// Share of memory that write-back may use for dirty pages. Linux gives a FUSE mount 1 %, with
/// which it spends more time waiting for the server than writing. Guessed: leaves the larger part
/// of memory to other uses.
const DIRTY_PERCENT: &str = "40";
/// How long [`MountHandle::wait`] waits for users of a tree that was detached while in use.
const DETACHED_GRACE: Duration = Duration::from_secs(3);

#[derive(Debug, Default)]
struct State {
    /// Set when serving has ended, with the error if it failed.
    ended: Option<io::Result<()>>,
    /// When the tree was detached from the namespace while in use.
    detached: Option<Instant>,
}

struct Shared {
    dir: PathBuf,
    device: Option<String>,
    ops: Weak<Ops>,
    /// The tree itself cannot be changed.
    vfs_read_only: bool,
    state: Mutex<State>,
    changed: Condvar,
}

/// A mounted file system that this process serves. Dropping the handle leaves it mounted and
/// served.
pub struct MountHandle {
    shared: Arc<Shared>,
    server: Arc<Server>,
    changed: Changed,
    thread: std::thread::JoinHandle<()>,
}

/// Unmounts from any thread.
#[derive(Clone)]
pub struct Unmounter(Arc<Shared>);

impl std::fmt::Debug for Unmounter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Unmounter").field(&self.0.dir).finish()
    }
}

/// Notifies the kernel that something else changed the tree, such as another server or a rollback.
/// The kernel caches what it has seen and would not read it again. Do not call this from a thread
/// that answers requests: it may wait for one of them to finish.
#[derive(Debug, Clone)]
pub struct Changed {
    kernel: Notifier,
    inodes: InodeMap,
}

impl Changed {
    /// Invalidates attributes and contents of `node`, or the entries if it is a directory.
    pub fn node(&self, node: NodeId) -> io::Result<()> {
        self.kernel.invalidate(self.inodes.to_fuse(node), 0)
    }

    /// Invalidates the entry `name` in `dir`, including a cached "does not exist".
    pub fn name(&self, dir: NodeId, name: &[u8]) -> io::Result<()> {
        self.kernel.invalidate_entry(self.inodes.to_fuse(dir), name)
    }
}

/// Mounts `vfs` at the directory `dir`; read-only if the `Vfs` is.
///
/// Tries mount(2) first, and fusermount3 if that is not permitted. Fails with `Unsupported` if
/// there is no /dev/fuse or the kernel speaks a protocol older than 7.31, and with `NotFound` if
/// fusermount3 is needed and not installed.
pub fn mount(vfs: Arc<dyn Vfs>, dir: &Path, options: &MountOptions) -> io::Result<MountHandle> {
    let dir = dir.canonicalize()?;
    let root = rustix::process::geteuid().is_root();
    let vfs_read_only = vfs.is_read_only();
    let others = options.allow_other.unwrap_or(root);
    let enforce = options.enforce_permissions.unwrap_or(others);
    let mut mount_options = Vec::new();
    mount_options.extend(others.then_some("allow_other"));
    mount_options.extend(enforce.then_some("default_permissions"));
    let how = How { source: options.name.clone(), flags: flags(options, vfs_read_only), options: mount_options };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = options.threads.unwrap_or(cores.max(THREADS_MIN)).max(1);

    let (requests, work) = ahead::channel();
    let ops = Arc::new(Ops::new(vfs, options, enforce, threads, requests));
    let cannot = |e: io::Error| io::Error::new(e.kind(), format!("cannot mount at {}: {e}", dir.display()));
    let server = Arc::new(Server(ops.clone()));
    let connection = Arc::new(attach(&dir, &how).map_err(cannot)?);
    let wanted = server.wanted() | if options.uring { can::OVER_IO_URING } else { 0 };
    let session = Session::begin(connection, wanted, threads.div_ceil(cores).max(CORE_THREADS_MIN)).map_err(|e| {
        // Detach the mount, since no server will answer there.
        let _ = sys::unmount(&dir, true);
        cannot(e)
    })?;
    let device = mounted_device(&dir);
    if let Some(device) = &device {
        raise_limits(device, ops.mode.write_back);
    }
    let kernel = Notifier(session.device().clone());
    // Cannot fail: nothing else sets it.
    let _ = ops.kernel.set(kernel.clone());
    let changed = Changed { kernel: kernel.clone(), inodes: ops.inodes };
    let weak = Arc::downgrade(&ops);
    // The thread ends with the server, which owns the sending end.
    let to_kernel = kernel.clone();
    std::thread::Builder::new().name("weir-ahead".to_owned()).spawn(move || work.run(&weak, &to_kernel))?;
    if !ops.mode.read_only {
        let (settle, vfs, inodes) = (ops.settle.clone(), ops.vfs.clone(), ops.inodes);
        let settle = move || settle.run(&*vfs, inodes, &kernel);
        std::thread::Builder::new().name("weir-settle".to_owned()).spawn(settle)?;
    }
    let (ops, state) = (Arc::downgrade(&ops), Mutex::new(State::default()));
    let shared = Arc::new(Shared { dir, device, ops, vfs_read_only, state, changed: Condvar::new() });
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

/// The flags of mount(2) for these options.
fn flags(options: &MountOptions, vfs_read_only: bool) -> libc::c_ulong {
    let flag = |on, bit| if on { bit } else { 0 };
    flag(vfs_read_only || options.read_only, libc::MS_RDONLY)
        | flag(vfs_read_only || options.no_atime.load(Ordering::Relaxed), libc::MS_NOATIME)
        | flag(!options.devices, libc::MS_NODEV)
        | flag(!options.setuid, libc::MS_NOSUID)
        | flag(options.no_exec, libc::MS_NOEXEC)
}

impl std::fmt::Debug for MountHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MountHandle").field("dir", &self.shared.dir).finish_non_exhaustive()
    }
}

impl MountHandle {
    /// The mount point, as a canonical path.
    pub fn dir(&self) -> &Path {
        &self.shared.dir
    }

    /// For reporting changes made by others.
    pub fn changed(&self) -> Changed {
        self.changed.clone()
    }

    /// For unmounting from another thread.
    pub fn unmounter(&self) -> Unmounter {
        Unmounter(self.shared.clone())
    }

    /// Waits until the tree is unmounted, by any means, and all requests are answered.
    ///
    /// If [`Unmounter::unmount_now`] detached the tree while it was in use, this returns after a
    /// short grace period even if some processes still use it. Their writes up to then are on disk;
    /// they get ENOTCONN when this process exits.
    pub fn wait(self) -> io::Result<()> {
        let mut state = self.shared.state.lock();
        loop {
            if let Some(ended) = state.ended.take() {
                drop(state);
                // A panic was reported by its thread, and nothing is left to clean up.
                let _ = self.thread.join();
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

    pub fn unmount(self) -> io::Result<()> {
        self.unmounter().unmount()?;
        self.wait()
    }
}

impl Unmounter {
    fn still_ours(&self) -> bool {
        self.0.state.lock().ended.is_none() && mounted_device(&self.0.dir) == self.0.device
    }

    /// Makes the kernel drop the cached pages of the mount, so that files are read again. Do not
    /// call this from a thread that answers requests: it waits until dirty pages are written.
    pub fn drop_pages(&self) {
        if let Some(ops) = self.0.ops.upgrade() {
            ops.drop_pages();
        }
    }

    /// Unmounts. Fails with `ResourceBusy` if the tree is in use; succeeds if it is already
    /// unmounted.
    pub fn unmount(&self) -> io::Result<()> {
        if self.still_ours() { sys::unmount(&self.0.dir, false) } else { Ok(()) }
    }

    /// Changes what the kernel permits in the mounted tree: the options `read_only`, `setuid`,
    /// `devices`, `no_exec` and `no_atime`. Requires root. Fails with `ResourceBusy` if it is to be
    /// read-only and files are open for writing.
    pub fn remount(&self, options: &MountOptions) -> io::Result<()> {
        if !self.still_ours() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let flags = flags(options, self.0.vfs_read_only);
        // Without a flag for access times, the kernel keeps those that it has.
        let default = if flags & libc::MS_NOATIME == 0 { libc::MS_RELATIME } else { 0 };
        sys::remount(&self.0.dir, flags | default)
    }

    /// Unmounts, or detaches the tree if it is in use (`MNT_DETACH`): it disappears from the
    /// namespace, and its users keep it until they close it.
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

fn unsynced(error: &errors::Error) -> io::Error {
    io::Error::other(format!("not all is on disk: {error}"))
}

/// Whether a file system is mounted exactly at `dir`.
pub fn is_mount_point(dir: &Path) -> bool {
    dir.canonicalize().is_ok_and(|dir| mounted_device(&dir).is_some())
}

/// `major:minor` of the topmost file system mounted exactly at `dir`, from the kernel's list of
/// mounts. Querying the file system itself would hang if its server does.
fn mounted_device(dir: &Path) -> Option<String> {
    let mounts = std::fs::read("/proc/self/mountinfo").ok()?;
    let mut lines = mounts.split(|&b| b == b'\n').filter_map(parse_line);
    lines.rfind(|m| m.place == dir).map(|m| m.device)
}

/// Unmounts all Weir mounts at and below `dir`, innermost first, whichever process serves them.
/// Returns how many there were.
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

/// A server that takes longer than this to answer counts as alive but busy.
const PROBE: Duration = Duration::from_secs(5);

/// Removes the mount that a killed server left at `place`, where every access fails. Returns
/// whether there was one.
///
/// The kernel closes the connection of a killed process some time after its exit (its rings are
/// torn down asynchronously) and answers from its caches until then. So the probe is a request that
/// only the server can answer.
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

/// Field 3 is the device, field 5 the mount point (with octal escapes), the field after "-" the
/// file system type.
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

/// Sets read-ahead and the dirty limit of the mount. Best effort: this requires root, and the mount
/// works without it.
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
