//! Several device operations of one block at the same time.
//!
//! Where devices answer at once (memory, the page cache), the calling thread does one after the
//! other, into the caller's buffers. Where it would wait, each operation gets a thread and a buffer
//! of its own.

use super::leaf::{Answer, Leaf};
use super::queue::{Task, doing};
use std::io;

/// Runs `jobs` at the same time, each for the task of this thread. Returns their results in order.
fn at_once<T, F>(jobs: impl Iterator<Item = F>) -> Vec<T>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let task = Task::current();
    let job = |job: F| {
        move || {
            let _doing = doing(task);
            job()
        }
    };
    host::work::all(jobs.map(job).collect())
}

/// A read of a leaf.
pub(super) struct Read<'t, 'b> {
    pub leaf: &'t Leaf,
    /// Offset on the device, labels included.
    pub offset: u64,
    pub buf: &'b mut [u8],
}

/// Performs all reads. Returns what [`Leaf::read_to_judge`] would for each, in order. Where reads
/// are quick, stops after the first that fails if `stop_early`: then fewer results are returned.
pub(super) fn read<'t>(reads: &mut [Read<'t, '_>], stop_early: bool) -> Vec<Option<io::Result<Answer<'t>>>> {
    if reads.len() < 2 || !reads.iter().any(|read| read.leaf.has_slow_reads()) {
        let mut results = Vec::with_capacity(reads.len());
        for read in reads {
            let result = read.leaf.read_to_judge(read.offset, read.buf);
            let failed = !matches!(result, Some(Ok(_)));
            results.push(result);
            if failed && stop_early {
                break;
            }
        }
        return results;
    }
    let jobs = reads.iter().map(|read| {
        let (leaf, offset, len) = (read.leaf.clone(), read.offset, read.buf.len());
        move || {
            let mut buf = vec![0; len];
            let result = leaf.read_timed(offset, &mut buf, false);
            (buf, result)
        }
    });
    let done = at_once(jobs);
    let results = reads.iter_mut().zip(done).map(|(read, (buf, result))| {
        let (result, ns) = result?;
        read.buf.copy_from_slice(&buf);
        Some(read.leaf.account_read(read.offset, buf.len(), ns, result))
    });
    results.collect()
}

/// A range to read without judging its bytes.
#[derive(Clone, Copy)]
pub(super) struct Range<'t> {
    pub leaf: &'t Leaf,
    /// Offset on the device, labels included.
    pub offset: u64,
    pub len: usize,
    /// Several reads were made this one.
    pub is_joined: bool,
}

/// Reads ranges as [`Leaf::read_without_counting`] does. `None` for each that fails.
pub(super) fn read_without_counting<'t>(ranges: impl Iterator<Item = Range<'t>> + Clone) -> Vec<Option<Vec<u8>>> {
    let read = |leaf: &Leaf, offset, len, is_joined| {
        let mut buf = vec![0; len];
        leaf.read_without_counting(offset, &mut buf, is_joined).then_some(buf)
    };
    if !ranges.clone().any(|range| range.leaf.has_slow_reads()) {
        return ranges.map(|r| read(r.leaf, r.offset, r.len, r.is_joined)).collect();
    }
    let jobs = ranges.map(|Range { leaf, offset, len, is_joined }| {
        let leaf = leaf.clone();
        move || read(&leaf, offset, len, is_joined)
    });
    at_once(jobs)
}

/// A write to a leaf.
pub(super) struct Write<'t, 'b> {
    pub leaf: &'t Leaf,
    /// Offset on the device, labels included.
    pub offset: u64,
    pub bytes: &'b [u8],
}

/// Performs all writes, as part of `txg`. Returns what [`Leaf::write`] returned for each, in order.
pub(super) fn write(writes: &[Write<'_, '_>], txg: u64) -> Vec<Option<io::Result<()>>> {
    if writes.len() < 2 || !writes.iter().any(|write| write.leaf.has_slow_writes()) {
        return writes.iter().map(|write| write.leaf.write(txg, write.offset, write.bytes)).collect();
    }
    let jobs = writes.iter().map(|write| {
        let (leaf, offset, bytes) = (write.leaf.clone(), write.offset, write.bytes.to_vec());
        move || leaf.write(txg, offset, &bytes)
    });
    at_once(jobs)
}
