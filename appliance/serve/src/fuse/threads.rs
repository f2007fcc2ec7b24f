//! The threads that serve a mount: a few, and more while all of them wait for devices.
//!
//! ```text
//!   thread ── receive (idle) ── answer (busy) ──┐      monitor: all busy, with fewer answers in a while than
//!     ^─────────────────────────────────────────┘      threads? then as many again, up to a limit
//! ```
//! Additional threads end once the permanent ones suffice. They are for reads: writes that wait for
//! a txg get none.

use super::requests::{Answer, serve_until};
use super::sys;
use parking_lot::{Condvar, Mutex};
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Maximum of threads of a mount: as many requests wait for devices at once. Each has a buffer of
/// 1 MiB, of which reads use little.
const THREADS_MAX: usize = 64;
/// Larger requests are writes. Those wait for the txg, and more threads would only hold more of
/// them in memory.
const SMALL_BYTES: usize = 64 << 10;
/// If all threads are busy and answer fewer requests in this time than there are threads, there are
/// more of them. Longer than what is answered from memory takes, shorter than a disk.
const STUCK: Duration = Duration::from_millis(1);

struct Threads<A> {
    device: Arc<File>,
    server: Arc<A>,
    /// Whether `FUSE_SETXATTR_EXT` was agreed.
    extended: bool,
    permanent: usize,
    /// Threads that wait for a request.
    idle: AtomicUsize,
    /// All threads that receive requests, idle or busy; the monitor is not one of them.
    count: AtomicUsize,
    /// Threads that are busy with large writes.
    writing: AtomicUsize,
    answered: AtomicU64,
    /// Whether the mount has ended, and the additional threads.
    state: Mutex<(bool, Vec<JoinHandle<io::Result<()>>>)>,
    /// All threads are busy, or the mount has ended.
    all_busy: Condvar,
}

/// Serves requests until the file system is unmounted, with at least `permanent` threads.
pub(super) fn serve<A: Answer>(
    device: &Arc<File>,
    server: &Arc<A>,
    extended: bool,
    permanent: usize,
) -> io::Result<()> {
    let threads = Arc::new(Threads {
        device: device.clone(),
        server: server.clone(),
        extended,
        permanent,
        idle: AtomicUsize::new(0),
        writing: AtomicUsize::new(0),
        count: AtomicUsize::new(0),
        answered: AtomicU64::new(0),
        state: Mutex::default(),
        all_busy: Condvar::new(),
    });
    let mut running = Vec::new();
    for number in 0..permanent {
        running.push(threads.start(number, false)?);
    }
    let monitor = std::thread::Builder::new().name("weir-fuse-watch".to_owned()).spawn({
        let threads = threads.clone();
        move || threads.watch()
    })?;
    let mut result = running.into_iter().map(join).fold(Ok(()), Result::and);
    threads.state.lock().0 = true;
    threads.all_busy.notify_all();
    if monitor.join().is_err() {
        result = result.and(Err(io::Error::other("the monitor of a mount panicked")));
    }
    let more = std::mem::take(&mut threads.state.lock().1);
    more.into_iter().map(join).fold(result, Result::and)
}

fn join(thread: JoinHandle<io::Result<()>>) -> io::Result<()> {
    thread.join().unwrap_or_else(|_| Err(io::Error::other("a serving thread panicked")))
}

impl<A: Answer> Threads<A> {
    fn start(self: &Arc<Self>, number: usize, is_additional: bool) -> io::Result<JoinHandle<io::Result<()>>> {
        // A user who mounts with fusermount3 may not be allowed to open the device. Then all
        // threads share one connection.
        let own = (number > 0).then(|| sys::clone_device(&self.device).ok()).flatten();
        let device = own.map_or_else(|| self.device.clone(), Arc::new);
        let threads = self.clone();
        self.count.fetch_add(1, Ordering::SeqCst);
        let spawned = std::thread::Builder::new().name(format!("weir-fuse-{number}")).spawn(move || {
            let result = threads.serve_one(&device, is_additional);
            threads.count.fetch_sub(1, Ordering::SeqCst);
            result
        });
        spawned.inspect_err(|_| {
            self.count.fetch_sub(1, Ordering::SeqCst);
        })
    }

    fn serve_one(&self, device: &Arc<File>, is_additional: bool) -> io::Result<()> {
        self.idle.fetch_add(1, Ordering::SeqCst);
        let writes = std::cell::Cell::new(false);
        serve_until(device, &*self.server, self.extended, |request| {
            if let Some(bytes) = request {
                writes.set(bytes > SMALL_BYTES);
                self.writing.fetch_add(usize::from(writes.get()), Ordering::SeqCst);
                if self.idle.fetch_sub(1, Ordering::SeqCst) == 1 {
                    self.all_busy.notify_one();
                }
                return true;
            }
            self.writing.fetch_sub(usize::from(writes.take()), Ordering::SeqCst);
            self.answered.fetch_add(1, Ordering::Relaxed);
            let stays = !is_additional || self.idle.load(Ordering::SeqCst) < self.permanent;
            if stays {
                self.idle.fetch_add(1, Ordering::SeqCst);
            }
            stays
        })
    }

    fn watch(self: &Arc<Self>) {
        let mut number = self.permanent;
        let mut state = self.state.lock();
        while !state.0 {
            if self.idle.load(Ordering::SeqCst) > 0 || self.count.load(Ordering::SeqCst) >= THREADS_MAX {
                // A thread may become busy between the check and this wait, so it is not forever.
                self.all_busy.wait_for(&mut state, 100 * STUCK);
                continue;
            }
            let before = self.answered.load(Ordering::Relaxed);
            let until = Instant::now() + STUCK;
            while !state.0 && !self.all_busy.wait_until(&mut state, until).timed_out() {}
            let count = self.count.load(Ordering::SeqCst);
            let answered = self.answered.load(Ordering::Relaxed) - before;
            let writing = self.writing.load(Ordering::SeqCst);
            let are_stuck = self.idle.load(Ordering::SeqCst) == 0 && answered < count as u64 && 2 * writing <= count;
            if state.0 || !are_stuck {
                continue;
            }
            state.1.retain(|thread| !thread.is_finished());
            for _ in 0..count.min(THREADS_MAX.saturating_sub(count)) {
                match self.start(number, true) {
                    Ok(thread) => state.1.push(thread),
                    Err(error) => {
                        tracing::debug!(%error, "no further thread for a mount");
                        break;
                    }
                }
                number += 1;
            }
        }
    }
}
