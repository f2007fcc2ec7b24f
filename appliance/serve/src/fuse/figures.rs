//! Counts the kernel's requests and measures how long the answers took.

use super::wire::Op;
use files::namespace::{file_system_of, object_of};
use files::vfs::{NodeId, Vfs};
use host::clock::Stopwatch;
use observe::event::note;
use observe::{Collector, Counter, Event, Events, Histogram, Info, Layer, Source, Unit};
use std::sync::{Arc, OnceLock};

static TIME: Info = Info {
    name: "fuse_operation_time",
    unit: Unit::Nanoseconds,
    help: "Duration of requests from the kernel; the count is the number of requests.",
};
static READ: Info = Info { name: "fuse_read", unit: Unit::Bytes, help: "Bytes of file contents sent to the kernel." };
static WRITTEN: Info =
    Info { name: "fuse_written", unit: Unit::Bytes, help: "Bytes of file contents received from the kernel." };

/// Index of the operation in the operations of [`Layer::Fuse`].
fn kind(op: &Op<'_>) -> usize {
    match op {
        Op::Lookup { .. } => 0,
        Op::Forget { .. } | Op::BatchForget { .. } => 1,
        Op::GetAttr | Op::Statx => 2,
        Op::SetAttr(_) => 3,
        Op::ReadLink => 4,
        Op::Symlink { .. } => 5,
        Op::Mknod { .. } => 6,
        Op::Mkdir { .. } => 7,
        Op::Unlink { .. } => 8,
        Op::Rmdir { .. } => 9,
        Op::Rename { .. } => 10,
        Op::Link { .. } => 11,
        Op::Open { .. } => 12,
        Op::Create { .. } | Op::CreateUnnamed { .. } => 13,
        Op::Read { .. } => 14,
        Op::Write { .. } => 15,
        Op::StatFs => 16,
        Op::Release { .. } => 17,
        Op::Fsync { .. } | Op::FsyncDir { .. } => 18,
        Op::SetXattr { .. } => 19,
        Op::GetXattr { .. } => 20,
        Op::ListXattr { .. } => 21,
        Op::RemoveXattr { .. } => 22,
        Op::OpenDir => 23,
        Op::ReadDir { .. } | Op::ReadDirPlus { .. } => 24,
        Op::ReleaseDir => 25,
        Op::Access { .. } => 26,
        Op::Ioctl { .. } => 27,
        Op::Fallocate { .. } => 28,
        Op::Seek { .. } => 29,
        Op::CopyRange { .. } => 30,
        Op::Init { .. } | Op::Destroy | Op::Interrupt | Op::Other => 31,
    }
}

/// Statistics of one mount, or of several mounts that share them.
pub struct Figures {
    times: Vec<Histogram>,
    pub(super) read: Counter,
    pub(super) written: Counter,
    target: OnceLock<Target>,
}

/// Where each request is recorded, and the numbers that identify this mount there.
struct Target {
    events: Arc<Events>,
    client: u32,
    place: u32,
    root: NodeId,
}

impl Default for Figures {
    fn default() -> Self {
        let times = Layer::Fuse.operations().iter().map(|_| Histogram::default()).collect();
        Self { times, read: Counter::default(), written: Counter::default(), target: OnceLock::new() }
    }
}

impl Figures {
    /// Starts recording each request in `events`, as a request to the mount at `place` of
    /// `dataset`, whose tree is `vfs`. Only the first call has an effect.
    pub fn record_to(&self, events: &Arc<Events>, place: &str, dataset: &str, vfs: &dyn Vfs) {
        self.target.get_or_init(|| Target {
            events: events.clone(),
            client: events.clients.number(place),
            place: events.places.number(dataset),
            root: vfs.root(),
        });
    }

    fn events(&self) -> Option<&Target> {
        self.target.get().filter(|target| target.events.is_on())
    }
}

impl std::fmt::Debug for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Figures").finish_non_exhaustive()
    }
}

impl Source for Figures {
    fn collect(&self, out: &mut Collector<'_>) {
        for (kind, times) in Layer::Fuse.operations().iter().zip(&self.times).filter(|(_, times)| times.count() > 0) {
            out.histogram(&TIME, &[("operation", kind)], times);
        }
        out.counter(&READ, &[], &self.read);
        out.counter(&WRITTEN, &[], &self.written);
    }
}

/// A request in progress. It is counted when dropped, after its answer was sent.
pub(super) struct Counted {
    figures: Arc<Figures>,
    kind: usize,
    clock: Stopwatch,
    node: NodeId,
    user: u32,
    span: (u64, usize),
}

impl Counted {
    pub fn start(figures: &Arc<Figures>, op: &Op<'_>, node: NodeId, user: u32) -> Self {
        if figures.events().is_some() {
            note::clear();
        }
        let span = match op {
            Op::Read { offset, bytes, .. } => (*offset, *bytes as usize),
            Op::Write { offset, data, .. } => (*offset, data.len()),
            _ => (0, 0),
        };
        Self { figures: figures.clone(), kind: kind(op), clock: Stopwatch::start(), node, user, span }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let spent = self.clock.ns();
        self.figures.times[self.kind].record(spent);
        let Some(Target { events, client, place, root }) = self.figures.events() else { return };
        // The names of other file systems shown by this mount are not known here.
        if file_system_of(self.node) == file_system_of(*root) {
            note::file(*place, object_of(self.node));
        }
        note::span(self.span.0, self.span.1);
        let op = u8::try_from(self.kind).unwrap_or(u8::MAX);
        let (done, user, note) = (host::clock::nanoseconds(), self.user, note::take());
        events.record(Event { done, latency: spent, layer: Layer::Fuse, op, client: *client, user, note });
    }
}
