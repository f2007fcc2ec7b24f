//! Read-ahead: one thread walks, several read blocks, and the stream writer receives both in order.

use super::outgoing::{OLD_BLOCK_BYTES_MAX, Outgoing};
use super::redaction::Merge;
use super::walk::{DataStep, Step, Walk};
use crate::bookmark::Bookmark;
use block::Bookmark as BlockAt;
use bytes::Bytes;
use errors::{Error, Result};
use host::channel::{Receiver, Sender, bounded};
use host::sync::{Condvar, Mutex};
use ondisk::blkptr::MAX_BLOCK_BYTES;
use ondisk::send_record::Features;
use ondisk::{BlkPtr, Compression};

/// Maximum bytes read and not yet sent. OpenZFS: 16 MiB, and at least two of the largest blocks.
pub(super) const BYTES_MAX: u64 = 32 << 20;
/// Maximum steps waiting to be sent. Guessed: a block of dnodes makes 64.
const STEPS_MAX: usize = 4096;
const READERS_MAX: usize = 8;

/// The form in which a block is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Embedded in its pointer: there is nothing to read.
    Embedded,
    /// As stored on disk.
    Stored,
    /// Decompressed.
    Contents,
}

/// Chooses the form in which the block of `step` is sent in a stream with these features.
pub(super) fn form(step: &DataStep, features: Features, endian: ondisk::Endian) -> Result<Form> {
    if step.bp.is_embedded() && travels_embedded(step, features)? {
        return Ok(Form::Embedded);
    }
    if features.contains(Features::RAW) {
        return Ok(Form::Stored);
    }
    let is_cut = step.bytes > OLD_BLOCK_BYTES_MAX && !features.contains(Features::LARGE_BLOCKS);
    let stored = features.contains(Features::COMPRESSED)
        && !is_cut
        && !step.bp.is_embedded()
        && step.bp.endian() == endian
        && !step.bp.object_type().is_metadata();
    Ok(if stored { Form::Stored } else { Form::Contents })
}

/// Whether the receiver accepts this embedded block as such.
///
/// Spill blocks are sent as SPILL: OpenZFS 2.3 sends embedded ones as data at offset -1024, and its
/// receiver loses the attributes.
fn travels_embedded(step: &DataStep, features: Features) -> Result<bool> {
    let compression = step.bp.compression()?;
    Ok(step.block != super::walk::SPILL
        && features.contains(Features::EMBED_DATA)
        && (compression.to_raw() < Compression::Lz4.to_raw() || features.contains(Features::LZ4))
        && (compression != Compression::Zstd || features.contains(Features::ZSTD)))
}

/// Budget for bytes read and not yet sent.
#[derive(Default)]
struct Budget {
    state: Mutex<BudgetState>,
    changed: Condvar,
}

#[derive(Default)]
struct BudgetState {
    bytes: u64,
    is_over: bool,
}

impl Budget {
    /// Waits for room; returns false after the send has ended.
    fn take(&self, bytes: u64) -> bool {
        let mut state = self.state.lock();
        // One block is always admitted, however large.
        while !state.is_over && state.bytes > 0 && state.bytes + bytes > BYTES_MAX {
            self.changed.wait(&mut state);
        }
        state.bytes += bytes;
        !state.is_over
    }

    fn give_back(&self, bytes: u64) {
        self.state.lock().bytes -= bytes;
        self.changed.notify_one();
    }

    fn end(&self) {
        self.state.lock().is_over = true;
        self.changed.notify_all();
    }
}

/// A step in flight, with the channel that its contents will arrive on.
struct Item {
    step: Step,
    contents: Option<(u64, Receiver<Result<Bytes>>)>,
}

/// A block to read.
struct Job {
    bp: BlkPtr,
    at: BlockAt,
    form: Form,
    answer: Sender<Result<Bytes>>,
}

/// Calls `sink` with each step of the walk and, if the step has a block to read, its contents.
pub(super) fn run(send: &Outgoing, sink: &mut dyn FnMut(Step, Option<Bytes>) -> Result<()>) -> Result<()> {
    let budget = Budget::default();
    let (items_in, items) = bounded::<Result<Item>>(STEPS_MAX);
    let (jobs_in, jobs) = bounded::<Job>(STEPS_MAX);
    host::threads::scope(|scope| {
        for _ in 0..host_readers() {
            scope.spawn(|| {
                loop {
                    let Ok(job) = jobs.recv() else { break };
                    let read = read(send, &job);
                    // If the receiver is gone, the send has ended early.
                    let _ = job.answer.send(read);
                }
            });
        }
        let budget = &budget;
        scope.spawn(move || {
            if let Err(error) = walk_ahead(send, budget, &items_in, &jobs_in) {
                let _ = items_in.send(Err(error));
            }
        });
        let result = items.iter().try_for_each(|item| {
            let Item { step, contents } = item?;
            let Some((bytes, answer)) = contents else { return sink(step, None) };
            let data = answer.recv().expect("readers answer each job")?;
            sink(step, Some(data))?;
            budget.give_back(bytes);
            Ok(())
        });
        // Ends the walk, and with it the readers, if the stream cannot continue.
        budget.end();
        drop(items);
        result
    })
}

fn host_readers() -> usize {
    host::processors().clamp(2, READERS_MAX)
}

/// Calls `sink` with each step, and with zeros of the length of the contents instead of these.
pub(super) fn measure(send: &Outgoing, sink: &mut dyn FnMut(Step, Option<Bytes>) -> Result<()>) -> Result<()> {
    let zeros = Bytes::from(vec![0; MAX_BLOCK_BYTES as usize]);
    walk(send, &mut |step| {
        let length = match &step {
            Step::Data(data) => match form(data, send.begin.features, send.endian)? {
                Form::Embedded => None,
                Form::Stored => Some(data.bp.psize_bytes()),
                Form::Contents => Some(data.bytes),
            },
            _ => None,
        };
        sink(step, length.map(|length| zeros.slice(..length.min(MAX_BLOCK_BYTES) as usize)))
    })
}

fn walk_ahead(send: &Outgoing, budget: &Budget, items: &Sender<Result<Item>>, jobs: &Sender<Job>) -> Result<()> {
    let features = send.begin.features;
    let over = || Error::invalid("", "the send has ended");
    walk(send, &mut |step: Step| {
        let mut contents = None;
        if let Step::Data(data) = &step {
            let form = form(data, features, send.endian)?;
            if form != Form::Embedded {
                if !budget.take(data.bytes) {
                    return Err(over());
                }
                let (answer, answers) = bounded(1);
                let at = BlockAt { objset: send.set.id(), object: data.object, level: 0, blkid: data.block };
                jobs.send(Job { bp: data.bp, at, form, answer }).map_err(|_| over())?;
                contents = Some((data.bytes, answers));
            }
        }
        items.send(Ok(Item { step, contents })).map_err(|_| over())
    })
}

/// Calls `sink` with what the stream has, in its order.
fn walk(send: &Outgoing, sink: &mut dyn FnMut(Step) -> Result<()>) -> Result<()> {
    let from = send.lists_from()?;
    let list = |mark: &Option<Bookmark>| mark.as_ref().map(|mark| mark.redacted_blocks(from)).transpose();
    let mut merge = Merge::new(&send.set, send.from_txg, list(&send.redact)?, list(&send.base)?, sink)?;
    Walk {
        set: &send.set,
        root: &send.to.phys().bp,
        from_txg: send.from_txg,
        is_raw: send.begin.features.contains(Features::RAW),
        is_encrypted: send.to.crypto_object()?.is_some(),
        endian: send.endian,
        resume: send.resume,
        holes_past_end: false,
        sink: &mut |step| merge.step(step),
    }
    .run()?;
    merge.finish()
}

fn read(send: &Outgoing, job: &Job) -> Result<Bytes> {
    let store = send.set.store();
    if job.form == Form::Stored {
        return store.read_stored(&job.bp, &job.at);
    }
    Ok(store.read_uncached(&job.bp, &job.at, send.set.keys().map(|keys| &**keys))?.data)
}
