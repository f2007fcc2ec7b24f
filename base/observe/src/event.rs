//! One record for each operation: who asked whom for what, where, and how long it took.
//!
//! ```text
//!   thread that answers ── note::*  (what the layers beneath did for it) ──> Event ──> Events (a buffer per group of threads)
//!                                                                                       └ drained ten times a second
//! ```
//!
//! Invariants:
//!   * recording never waits for a reader longer than it takes to exchange a buffer, and never allocates beyond the buffers
//!   * what did not fit is counted by layer and operation: sums stay exact, only the details are missing
//!   * switched off, it costs one load

use crate::Counter;
use parking_lot::Mutex;
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Through which door an operation came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(u8)]
pub enum Layer {
    /// NFS version 3.
    #[default]
    Nfs3,
    /// NFS version 4.0.
    Nfs4,
    /// NFS version 4.1 and later.
    Nfs41,
    /// A mount of this machine.
    Fuse,
    /// Reads and writes of devices.
    Disk,
    /// Network block devices.
    Nbd,
    /// Intent logs of pools.
    Log,
    /// Streams that are sent, record by record.
    Send,
    /// Streams that are received, record by record.
    Receive,
}

/// Operations of NFS version 3, by the number of their procedure (RFC 1813).
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

/// Operations of NFS version 4, by their number (RFC 7530, RFC 8881, RFC 7862, RFC 8276); 0 is the compound itself.
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
    /// All of them.
    pub const ALL: [Self; 9] =
        [Self::Nfs3, Self::Nfs4, Self::Nfs41, Self::Fuse, Self::Disk, Self::Nbd, Self::Log, Self::Send, Self::Receive];

    /// What its operations are called, by their code; an empty name is a code that is not used.
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

    /// The name of one.
    pub fn operation(self, code: u8) -> &'static str {
        self.operations().get(usize::from(code)).copied().filter(|name| !name.is_empty()).unwrap_or("<unknown>")
    }

    /// The code of an operation.
    pub fn code(self, name: &str) -> Option<u8> {
        let found = self.operations().iter().position(|n| *n == name && !n.is_empty())?;
        u8::try_from(found).ok()
    }
}

/// How often the cache was asked on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lookups {
    /// Contents that were in memory.
    pub data_hits: u16,
    /// Contents that were not.
    pub data_misses: u16,
    /// Contents that were in memory because they were read ahead.
    pub prefetched: u16,
    /// Metadata in memory.
    pub metadata_hits: u16,
    /// Metadata that was not.
    pub metadata_misses: u16,
    /// What came from a cache device.
    pub level2_hits: u16,
}

/// The result of a read that a device answered well, with bytes that their checksum or parity proves wrong. No errno(3) is as high.
pub const WRONG_BYTES: u16 = 4096;

/// What the layers beneath did for the operation that this thread works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Note {
    /// Share or dataset, by [`Names`]; 0 is unknown.
    pub place: u32,
    /// Object number of the file in it; 0 is unknown.
    pub object: u64,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub size: u32,
    /// What the cache said.
    pub cache: Lookups,
    /// 0, or the error as errno(3) numbers it, or [`WRONG_BYTES`].
    pub result: u16,
    /// Microseconds that it waited to be taken up, behind others.
    pub queue_wait: u32,
    /// Microseconds that it waited for the intent log.
    pub log_wait: u32,
    /// Microseconds that it waited to enter a transaction group.
    pub txg_wait: u32,
    /// Microseconds that it waited for devices to read.
    pub disk_wait: u32,
}

/// One operation, when it has been answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Event {
    /// When it ended: nanoseconds since 1970.
    pub done: u64,
    /// How long it took, from the arrival of the request's last byte to the answer: nanoseconds.
    pub latency: u64,
    /// Through which door it came.
    pub layer: Layer,
    /// What it was: [`Layer::operation`].
    pub op: u8,
    /// Who asked, by [`Names`]; the pool where layer is [`Layer::Disk`], [`Layer::Log`], [`Layer::Send`] or [`Layer::Receive`]; 0 is unknown.
    pub client: u32,
    /// For whom.
    pub user: u32,
    /// What was done for it. The place is the device where layer is [`Layer::Disk`].
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

/// Notes for the operation that this thread works on. Whoever answers it clears them before and takes them after.
pub mod note {
    use super::{EMPTY, NOTE, Note};

    /// Forgets what is noted: a new operation begins.
    pub fn clear() {
        NOTE.set(EMPTY);
    }

    /// What is noted so far; nothing any more.
    pub fn take() -> Note {
        NOTE.replace(EMPTY)
    }

    /// Adds to it.
    pub fn change(change: impl FnOnce(&mut Note)) {
        let mut note = NOTE.get();
        change(&mut note);
        NOTE.set(note);
    }

    /// Which file it is about.
    pub fn file(place: u32, object: u64) {
        change(|n| (n.place, n.object) = (place, object));
    }

    /// How it ended: 0 or errno(3).
    pub fn result(errno: i32) {
        change(|n| n.result = u16::try_from(errno).unwrap_or(u16::MAX));
    }

    /// Adds to the time that is noted in one of its waits.
    pub fn wait(nanoseconds: u64, of: impl FnOnce(&mut Note) -> &mut u32) {
        change(|n| {
            let wait = of(n);
            *wait = wait.saturating_add(u32::try_from(nanoseconds.div_ceil(1000)).unwrap_or(u32::MAX));
        });
    }

    /// Which bytes of it.
    pub fn span(offset: u64, size: usize) {
        change(|n| (n.offset, n.size) = (offset, u32::try_from(size).unwrap_or(u32::MAX)));
    }
}

/// Numbers for names: clients, shares, devices.
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
    /// Numbers at most so many; what comes then is number 0, which has no name.
    pub fn new(limit: usize) -> Self {
        Self { limit: limit.min(u32::MAX as usize - 1), known: Mutex::default() }
    }

    /// The number of a name, for as long as the process runs.
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

    /// The number that a name has already.
    pub fn known(&self, name: &str) -> Option<u32> {
        self.known.lock().numbers.get(name).copied()
    }

    /// The name of a number.
    pub fn name(&self, number: u32) -> Option<Arc<str>> {
        self.known.lock().names.get(usize::try_from(number).ok()?.checked_sub(1)?).cloned()
    }
}

/// Layers times the most operations one can have.
const KINDS: usize = Layer::ALL.len() * 256;
/// Clients, shares and devices that are told apart, each.
const NAMES: usize = 65_536;

/// Takes the events of a process.
pub struct Events {
    on: AtomicBool,
    groups: Box<[Group]>,
    next: AtomicUsize,
    capacity: usize,
    lost: Box<[Counter]>,
    /// Who asks: addresses of clients, mount points.
    pub clients: Names,
    /// Where: datasets and devices.
    pub places: Names,
}

/// Alone in its cache lines, so that threads of two groups do not disturb each other.
#[repr(align(128))]
struct Group(Mutex<Vec<Event>>);

impl Events {
    /// Keeps up to `capacity` events between two drains for each of `groups` groups of threads. Off at first.
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

    /// Whether anybody wants them: nothing needs to be noted or timed otherwise.
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Begins or ends to take them.
    pub fn switch(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
    }

    /// Takes one.
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

    /// Moves all to the end of `out`. Buffers keep their memory, and grow to what they need, up to the capacity.
    pub fn drain(&self, out: &mut Vec<Event>) {
        let mut spare = Vec::new();
        for Group(events) in &self.groups {
            // Exchanged under the lock and copied outside it.
            std::mem::swap(&mut *events.lock(), &mut spare);
            out.append(&mut spare);
        }
    }

    /// How many had no room so far, for each layer and operation that had any.
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
    fn what_has_no_room_is_counted() {
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
