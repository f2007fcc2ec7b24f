//! One event for each operation: which client requested what, where, and how long it took.
//!
//! ```text
//! thread that replies ── note::* (what the layers below did) ──> Event
//!   ──> Events (a buffer per group of threads), drained ten times a second
//! ```
//!
//! Invariants:
//!   * recording waits for a reader no longer than it takes to swap a buffer, and never allocates
//!     beyond the buffers
//!   * events that did not fit are counted by layer and operation: totals stay exact, only the
//!     details are missing
//!   * while switched off, recording costs one load

use crate::Counter;
use parking_lot::Mutex;
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The protocol or subsystem that an operation came through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(u8)]
pub enum Layer {
    #[default]
    Nfs3,
    /// NFS version 4.0.
    Nfs4,
    /// NFS version 4.1 and later.
    Nfs41,
    /// A local FUSE mount.
    Fuse,
    /// Reads and writes of devices.
    Disk,
    /// Network block devices.
    Nbd,
    /// Intent logs of pools.
    Log,
    /// Send streams, one event for each record.
    Send,
    /// Received streams, one event for each record.
    Receive,
}

/// NFS version 3 operations, by procedure number (RFC 1813).
const NFS3: &[&str] = &[
    "null",
    "getattr",
    "setattr",
    "lookup",
    "access",
    "readlink",
    "read",
    "write",
    "create",
    "mkdir",
    "symlink",
    "mknod",
    "remove",
    "rmdir",
    "rename",
    "link",
    "readdir",
    "readdirplus",
    "fsstat",
    "fsinfo",
    "pathconf",
    "commit",
];

/// NFS version 4 operations, by number (RFC 7530, RFC 8881, RFC 7862, RFC 8276); 0 is the compound
/// itself.
#[rustfmt::skip]
const NFS4: &[&str] = &[
    "compound", "", "", "access", "close", "commit", "create", "delegpurge", "delegreturn", "getattr", "getfh", "link",
    "lock", "lockt", "locku", "lookup", "lookupp", "nverify", "open", "openattr", "open_confirm", "open_downgrade",
    "putfh", "putpubfh", "putrootfh", "read", "readdir", "readlink", "remove", "rename", "renew", "restorefh", "savefh",
    "secinfo", "setattr", "setclientid", "setclientid_confirm", "verify", "write", "release_lockowner", "backchannel_ctl",
    "bind_conn_to_session", "exchange_id", "create_session", "destroy_session", "free_stateid", "get_dir_delegation",
    "getdeviceinfo", "getdevicelist", "layoutcommit", "layoutget", "layoutreturn", "secinfo_no_name", "sequence", "set_ssv",
    "test_stateid", "want_delegation", "destroy_clientid", "reclaim_complete", "allocate", "copy", "copy_notify",
    "deallocate", "io_advise", "layouterror", "layoutstats", "offload_cancel", "offload_status", "read_plus", "seek",
    "write_same", "clone", "getxattr", "setxattr", "listxattrs", "removexattr",
];

const FUSE: &[&str] = &[
    "lookup",
    "forget",
    "getattr",
    "setattr",
    "readlink",
    "symlink",
    "mknod",
    "mkdir",
    "unlink",
    "rmdir",
    "rename",
    "link",
    "open",
    "create",
    "read",
    "write",
    "statfs",
    "release",
    "fsync",
    "setxattr",
    "getxattr",
    "listxattr",
    "removexattr",
    "opendir",
    "readdir",
    "releasedir",
    "access",
    "ioctl",
    "fallocate",
    "lseek",
    "copy_file_range",
    "other",
];

const DISK: &[&str] = &["read", "write", "flush", "trim"];
const LOG: &[&str] = &["commit", "write"];
/// Records of send streams, by `drr_type` (include/sys/zfs_ioctl.h).
const STREAM: &[&str] = &[
    "begin",
    "object",
    "freeobjects",
    "write",
    "free",
    "end",
    "write_byref",
    "spill",
    "write_embedded",
    "object_range",
    "redact",
];
const NBD: &[&str] = &["read", "write", "flush", "trim", "write_zeroes", "block_status", "other"];

impl Layer {
    /// In the order of their numbers.
    pub const ALL: [Self; 9] =
        [Self::Nfs3, Self::Nfs4, Self::Nfs41, Self::Fuse, Self::Disk, Self::Nbd, Self::Log, Self::Send, Self::Receive];

    /// Names of the layer's operations, indexed by code; an empty name is an unused code.
    pub fn operations(self) -> &'static [&'static str] {
        match self {
            Self::Nfs3 => NFS3,
            Self::Nfs4 | Self::Nfs41 => NFS4,
            Self::Fuse => FUSE,
            Self::Disk => DISK,
            Self::Nbd => NBD,
            Self::Log => LOG,
            Self::Send | Self::Receive => STREAM,
        }
    }

    /// The name of operation `code`; `<unknown>` if the layer has none.
    pub fn operation(self, code: u8) -> &'static str {
        self.operations().get(usize::from(code)).copied().filter(|name| !name.is_empty()).unwrap_or("<unknown>")
    }

    /// The code of the operation called `name`.
    pub fn code(self, name: &str) -> Option<u8> {
        let found = self.operations().iter().position(|n| *n == name && !n.is_empty())?;
        u8::try_from(found).ok()
    }
}

/// Cache lookups made for an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lookups {
    /// Data found in memory.
    pub data_hits: u16,
    /// Data not found in memory.
    pub data_misses: u16,
    /// Data found in memory because of prefetch.
    pub prefetched: u16,
    /// Metadata found in memory.
    pub metadata_hits: u16,
    /// Metadata not found in memory.
    pub metadata_misses: u16,
    /// Blocks read from a cache device.
    pub level2_hits: u16,
}

/// Result of a read that the device completed, but whose data fails its checksum or parity. Higher
/// than any errno(3).
pub const WRONG_BYTES: u16 = 4096;

/// What the layers below did for the current thread's operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Note {
    /// Share or dataset, numbered by [`Names`]; 0 is unknown.
    pub place: u32,
    /// Object number of the file in it; 0 is unknown.
    pub object: u64,
    /// Byte offset in the file, volume or device.
    pub offset: u64,
    /// Size in bytes; `u32::MAX` if it is larger.
    pub size: u32,
    pub cache: Lookups,
    /// 0, an error number (errno(3)), or [`WRONG_BYTES`].
    pub result: u16,
    /// Microseconds spent in the queue before processing began.
    pub queue_wait: u32,
    /// Microseconds spent waiting for the intent log.
    pub log_wait: u32,
    /// Microseconds spent waiting to enter a transaction group.
    pub txg_wait: u32,
    /// Microseconds spent waiting for reads from devices.
    pub disk_wait: u32,
}

/// One completed operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Event {
    /// Completion time: nanoseconds since 1970.
    pub done: u64,
    /// Latency in nanoseconds, from the arrival of the request's last byte to the reply.
    pub latency: u64,
    pub layer: Layer,
    /// Operation code, see [`Layer::operation`].
    pub op: u8,
    /// Client, numbered by [`Names`]; the pool if the layer is [`Layer::Disk`], [`Layer::Log`],
    /// [`Layer::Send`] or [`Layer::Receive`]; 0 is unknown.
    pub client: u32,
    /// User ID of the caller; 0 also in layers without users, which are all but NFS and FUSE.
    pub user: u32,
    /// What was done for it. The place is the device if the layer is [`Layer::Disk`].
    pub note: Note,
}

thread_local! {
    static NOTE: Cell<Note> = const { Cell::new(EMPTY) };
    static GROUP: Cell<usize> = const { Cell::new(usize::MAX) };
}

const EMPTY: Note = Note {
    place: 0,
    object: 0,
    offset: 0,
    size: 0,
    cache: Lookups {
        data_hits: 0,
        data_misses: 0,
        prefetched: 0,
        metadata_hits: 0,
        metadata_misses: 0,
        level2_hits: 0,
    },
    result: 0,
    queue_wait: 0,
    log_wait: 0,
    txg_wait: 0,
    disk_wait: 0,
};

/// Notes about the current thread's operation. The thread that replies clears them before and takes
/// them after.
pub mod note {
    use super::{EMPTY, NOTE, Note};

    /// Clears the notes for a new operation.
    pub fn clear() {
        NOTE.set(EMPTY);
    }

    /// Returns the notes so far and clears them.
    pub fn take() -> Note {
        NOTE.replace(EMPTY)
    }

    /// Applies `change` to the notes.
    pub fn change(change: impl FnOnce(&mut Note)) {
        let mut note = NOTE.get();
        change(&mut note);
        NOTE.set(note);
    }

    /// Sets the file that the operation is about.
    pub fn file(place: u32, object: u64) {
        change(|n| (n.place, n.object) = (place, object));
    }

    /// Sets the result: 0 or errno(3).
    pub fn result(errno: i32) {
        change(|n| n.result = u16::try_from(errno).unwrap_or(u16::MAX));
    }

    /// Adds `nanoseconds` to one of the waits, rounded up to microseconds.
    pub fn wait(nanoseconds: u64, of: impl FnOnce(&mut Note) -> &mut u32) {
        change(|n| {
            let wait = of(n);
            *wait = wait.saturating_add(u32::try_from(nanoseconds.div_ceil(1000)).unwrap_or(u32::MAX));
        });
    }

    /// Sets the byte range.
    pub fn span(offset: u64, size: usize) {
        change(|n| (n.offset, n.size) = (offset, u32::try_from(size).unwrap_or(u32::MAX)));
    }
}

/// Assigns numbers to names: clients, shares, devices.
pub struct Names {
    limit: usize,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    numbers: HashMap<Arc<str>, u32>,
    names: Vec<Arc<str>>,
}

impl Names {
    /// Assigns at most `limit` numbers. Later names get number 0, which has no name.
    pub fn new(limit: usize) -> Self {
        Self { limit: limit.min(u32::MAX as usize - 1), known: Mutex::default() }
    }

    /// The number of a name, assigned on first use and valid while the process runs.
    pub fn number(&self, name: &str) -> u32 {
        let mut known = self.known.lock();
        if let Some(number) = known.numbers.get(name) {
            return *number;
        }
        if known.names.len() >= self.limit {
            return 0;
        }
        let name: Arc<str> = name.into();
        known.names.push(name.clone());
        let number = u32::try_from(known.names.len()).unwrap_or(0);
        known.numbers.insert(name, number);
        number
    }

    /// The number of a name if it already has one.
    pub fn known(&self, name: &str) -> Option<u32> {
        self.known.lock().numbers.get(name).copied()
    }

    /// The name of a number.
    pub fn name(&self, number: u32) -> Option<Arc<str>> {
        self.known.lock().names.get(usize::try_from(number).ok()?.checked_sub(1)?).cloned()
    }
}

/// Layers times the maximum number of operations of a layer.
const KINDS: usize = Layer::ALL.len() * 256;
/// Maximum number of names of clients, and of names of shares and devices.
const NAMES: usize = 65_536;

/// The event buffers of a process.
pub struct Events {
    on: AtomicBool,
    groups: Box<[Group]>,
    next: AtomicUsize,
    capacity: usize,
    lost: Box<[Counter]>,
    /// Clients: network addresses and mount points.
    pub clients: Names,
    /// Datasets, shares and devices.
    pub places: Names,
}

/// Aligned to its own cache lines, so that threads of two groups do not contend.
#[repr(align(128))]
struct Group(Mutex<Vec<Event>>);

impl Events {
    /// Buffers up to `capacity` events between two drains for each of `groups` groups of threads.
    /// Initially off.
    pub fn new(groups: usize, capacity: usize) -> Self {
        Self {
            on: AtomicBool::new(false),
            groups: (0..groups.max(1)).map(|_| Group(Mutex::new(Vec::new()))).collect(),
            next: AtomicUsize::new(0),
            capacity,
            lost: (0..KINDS).map(|_| Counter::default()).collect(),
            clients: Names::new(NAMES),
            places: Names::new(NAMES),
        }
    }

    /// Whether events are recorded. If not, callers need not note or time anything.
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Switches recording on or off.
    pub fn switch(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
    }

    /// Records an event. Counts it as lost if its buffer is full.
    pub fn record(&self, event: Event) {
        if !self.is_on() {
            return;
        }
        let mut group = GROUP.get();
        if group == usize::MAX {
            group = self.next.fetch_add(1, Ordering::Relaxed);
            GROUP.set(group);
        }
        let Some(Group(events)) = self.groups.get(group % self.groups.len()) else { return };
        let mut events = events.lock();
        if events.len() < self.capacity {
            events.push(event);
        } else if let Some(lost) = self.lost.get(usize::from(event.layer as u8) << 8 | usize::from(event.op)) {
            lost.add(1);
        }
    }

    /// Moves all events to the end of `out`. Buffers keep their memory, and grow as needed up to
    /// the capacity.
    pub fn drain(&self, out: &mut Vec<Event>) {
        let mut spare = Vec::new();
        for Group(events) in &self.groups {
            // Swapped under the lock, copied outside it.
            std::mem::swap(&mut *events.lock(), &mut spare);
            out.append(&mut spare);
        }
    }

    /// Number of events lost so far, for each layer and operation that lost any.
    pub fn lost(&self) -> Vec<(Layer, u8, u64)> {
        let all = Layer::ALL.iter().flat_map(|layer| (0..=u8::MAX).map(|op| (*layer, op)));
        all.zip(&self.lost).map(|((layer, op), n)| (layer, op, n.get())).filter(|(.., n)| *n > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(n: u64) -> Event {
        Event { done: n, ..Event::default() }
    }

    #[test]
    fn events_of_all_threads_arrive_once() {
        let events = Events::new(4, 100_000);
        events.switch(true);
        let mut all = Vec::new();
        std::thread::scope(|s| {
            for thread in 0..6u64 {
                let events = &events;
                s.spawn(move || (0..5000).for_each(|n| events.record(event(thread * 5000 + n))));
            }
            (0..20).for_each(|_| events.drain(&mut all));
        });
        events.drain(&mut all);
        let mut seen: Vec<_> = all.iter().map(|e| e.done).collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..30_000).collect::<Vec<_>>());
        assert!(events.lost().is_empty());
    }

    #[test]
    fn dropped_events_are_counted() {
        let events = Events::new(1, 10);
        events.record(event(1));
        let mut all = Vec::new();
        events.drain(&mut all);
        assert!(all.is_empty(), "off");
        events.switch(true);
        for op in [6, 6, 7] {
            (0..8).for_each(|_| events.record(Event { op, ..Event::default() }));
        }
        events.drain(&mut all);
        assert_eq!(all.len(), 10);
        assert_eq!(events.lost(), [(Layer::Nfs3, 6, 6), (Layer::Nfs3, 7, 8)]);
    }

    #[test]
    fn names_have_numbers_up_to_a_limit() {
        let names = Names::new(2);
        assert_eq!((names.number("a"), names.number("b"), names.number("a"), names.number("c")), (1, 2, 1, 0));
        assert_eq!(names.name(2).as_deref(), Some("b"));
        assert_eq!((names.name(0), names.name(3), names.known("b"), names.known("c")), (None, None, Some(2), None));
    }

    #[test]
    fn operations_have_their_numbers_of_the_protocols() {
        for (layer, name, code) in [
            (Layer::Nfs3, "read", 6),
            (Layer::Nfs3, "commit", 21),
            (Layer::Nfs4, "read", 25),
            (Layer::Nfs4, "write", 38),
            (Layer::Nfs41, "sequence", 53),
            (Layer::Nfs41, "clone", 71),
            (Layer::Nfs41, "removexattr", 75),
        ] {
            assert_eq!((layer.operation(code), layer.code(name)), (name, Some(code)));
        }
        assert_eq!(
            (Layer::Nfs4.operation(1), Layer::Nfs4.code(""), Layer::Disk.operation(9)),
            ("<unknown>", None, "<unknown>")
        );
    }

    #[test]
    fn notes_are_of_one_thread_and_one_operation() {
        note::clear();
        note::file(3, 9);
        note::span(8192, 4096);
        note::change(|n| n.cache.data_hits += 1);
        std::thread::spawn(|| assert_eq!(note::take(), Note::default())).join().expect("it ends");
        let seen = note::take();
        assert_eq!((seen.place, seen.object, seen.offset, seen.size, seen.cache.data_hits), (3, 9, 8192, 4096, 1));
        assert_eq!(note::take(), Note::default());
    }
}
