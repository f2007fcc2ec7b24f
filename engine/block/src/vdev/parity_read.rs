//! Reads blocks that are spread over children with parity: raidz and draid.
//!
//! Data columns are read first. If one is missing, or the block fails its check, parity is read too
//! and the block is rebuilt. If no column is known to be wrong, `reconstruct` searches for the
//! combination of silently wrong columns.
//!
//! Invariants:
//!   * a rebuilt block has passed the check
//!   * a child with several devices below (replacing, spare) is tried with each of them

use super::batch;
use super::columns::{Map, Parts};
use super::raidz::Still;
use super::reconstruct::{Suspects, reconstruct};
use super::verify::note_wrong;
use super::{Answer, BlockReport, CopyFault, Failure, Fault, Kind, Source, Tree, Vdev};
use std::cell::Cell;
use std::sync::Arc;

/// Maximum number of device choices tried for children with several devices.
const CHOICES_MAX: usize = 64;

/// The columns of a block, as far as they could be read.
struct Fetched<'t> {
    /// By index into the map's columns.
    buffers: Vec<Option<Vec<u8>>>,
    /// The source that each was read from.
    sources: Vec<Option<Source<'t>>>,
    /// The successful reads.
    answers: Vec<Answer<'t>>,
    failure: Failure,
}

/// The layout of a block. The block stays there as long as this is held.
pub(super) struct StillMap<'t> {
    map: Map,
    /// For a raidz that is being expanded.
    _still: Option<Still<'t>>,
}

impl std::ops::Deref for StillMap<'_> {
    type Target = Map;

    fn deref(&self) -> &Map {
        &self.map
    }
}

impl Tree {
    pub(super) fn parity_map<'t>(
        &self,
        top: &'t Vdev,
        offset: u64,
        size: u64,
        birth: u64,
    ) -> Result<StillMap<'t>, Failure> {
        let still = match &top.kind {
            Kind::Raidz(g) => g.moving().map(|moving| moving.hold_still()),
            _ => None,
        };
        let map = match &top.kind {
            Kind::Raidz(g) => g.map(offset, size, birth),
            Kind::Draid(g) => g.map(offset, size),
            _ => return Err(Failure::other(format!("{} has no parity", top.name))),
        };
        let map = map.map_err(|e| Failure::other(e.at(&top.name).to_string()))?;
        if map.columns.iter().any(|c| c.child >= top.children.len()) {
            return Err(Failure::other(format!("{}: the address maps to a child that does not exist", top.name)));
        }
        Ok(StillMap { map, _still: still })
    }

    pub(super) fn read_parity(
        &self,
        top: &Vdev,
        offset: u64,
        size: u64,
        birth: u64,
        check: &mut dyn FnMut(&[u8]) -> bool,
        met_bad: &Cell<bool>,
    ) -> Result<Vec<u8>, Failure> {
        let map = self.parity_map(top, offset, size, birth)?;
        let mut block = vec![0; map.size_bytes];
        if self.read_data(top, &map, birth, &mut block) && check(&block[..size as usize]) {
            block.truncate(size as usize);
            return Ok(block);
        }
        let mut report = BlockReport::default();
        let mut block = self.rebuild(0, top, &map, size, birth, check, &mut report)?;
        let is_bad = |fault: &CopyFault| matches!(fault.fault, Fault::Wrong | Fault::Unreadable);
        met_bad.set(met_bad.get() || report.faults.iter().any(is_bad));
        block.truncate(size as usize);
        Ok(block)
    }

    /// Reads the data columns into place. Returns false if one is unavailable.
    fn read_data(&self, top: &Vdev, map: &Map, birth: u64, block: &mut [u8]) -> bool {
        if top.has_slow_reads()
            && let Some(parts) = map.split(block)
        {
            return self.read_parts(top, map, birth, parts);
        }
        map.columns.iter().filter(|c| c.is_data() && c.size_bytes > 0).all(|c| {
            let sources = self.sources(&top.children[c.child], c.offset_bytes, birth);
            let part = map.part_mut(block, c);
            sources.first().is_some_and(|leaf| {
                !leaf.is_stale(birth) && matches!(leaf.read(c.device_offset_bytes(), part), Some(Ok(())))
            })
        })
    }

    /// Reads columns into `parts` (index into the map's columns, bytes), all at the same time.
    /// Returns false if one is unavailable.
    fn read_parts(&self, top: &Vdev, map: &Map, birth: u64, parts: Parts<'_>) -> bool {
        let mut reads = Vec::with_capacity(parts.len());
        for (place, buf) in parts {
            let column = &map.columns[place];
            let sources = self.sources(&top.children[column.child], column.offset_bytes, birth);
            match sources.first().filter(|source| source.is_open() && !source.is_stale(birth)) {
                Some(source) => {
                    reads.push(batch::Read { leaf: source.leaf(), offset: column.device_offset_bytes(), buf });
                }
                None => return false,
            }
        }
        let results = batch::read(&mut reads, true);
        results.len() == reads.len() && results.iter().all(|result| matches!(result, Some(Ok(_))))
    }

    /// Reads all columns, each from the device of its child that `choice` selects.
    fn fetch<'t>(
        &'t self,
        top: &'t Vdev,
        map: &Map,
        birth: u64,
        choice: &[usize],
        report: &mut BlockReport,
    ) -> Fetched<'t> {
        let mut found = Fetched {
            buffers: vec![None; map.columns.len()],
            sources: vec![None; map.columns.len()],
            answers: Vec::new(),
            failure: Failure::default(),
        };
        let stretches = map.reads(|_| true);
        let mut wanted = Vec::with_capacity(stretches.len());
        for read in &stretches {
            let sources = self.sources(&top.children[read.child], read.offset_bytes, birth);
            let Some(source) = sources.get(choice[read.child] % sources.len().max(1)) else { continue };
            read.columns.iter().for_each(|place| found.sources[*place] = Some(source.clone()));
            wanted.push((read, source.leaf(), vec![0; read.size_bytes]));
        }
        let mut reads: Vec<_> = wanted
            .iter_mut()
            .map(|(read, leaf, buf)| batch::Read {
                leaf,
                offset: map.columns[read.columns[0]].device_offset_bytes(),
                buf: buf.as_mut_slice(),
            })
            .collect();
        let results = batch::read(&mut reads, false);
        for ((read, leaf, buf), result) in wanted.iter().zip(results) {
            match result {
                None => found.failure.missing.push(leaf.path.clone()),
                Some(Err(e)) => found.failure.io.push((leaf.path.clone(), Arc::new(e))),
                Some(Ok(answer)) => {
                    found.answers.push(answer);
                    report.bytes_read += read.size_bytes as u64;
                    let mut at = 0;
                    for place in &read.columns {
                        let size = map.columns[*place].size_bytes;
                        found.buffers[*place] = Some(buf[at..at + size].to_vec());
                        at += size;
                    }
                }
            }
        }
        for (place, column) in map.columns.iter().enumerate() {
            if column.size_bytes == 0 {
                found.buffers[place] = Some(Vec::new());
            }
        }
        found.failure.missing.sort();
        found.failure.missing.dedup();
        found
    }

    /// Rebuilds the block from the good columns. Reports what is wrong in `report` and in the
    /// devices' error counts.
    #[allow(clippy::too_many_arguments)] // As in `verify`.
    fn rebuild(
        &self,
        copy: usize,
        top: &Vdev,
        map: &Map,
        size: u64,
        birth: u64,
        check: &mut dyn FnMut(&[u8]) -> bool,
        report: &mut BlockReport,
    ) -> Result<Vec<u8>, Failure> {
        let mut ways = vec![1; top.children.len()];
        for column in &map.columns {
            // Which devices hold a distributed spare depends on the offset.
            let count = self.sources(&top.children[column.child], column.offset_bytes, birth).len();
            ways[column.child] = ways[column.child].max(count);
        }
        let mut choice = vec![0; ways.len()];
        let suspects = match &top.kind {
            Kind::Raidz(g) => Suspects::new(g.ashift(), g.children(), g.original_width()),
            _ => Suspects::new(top.ashift, top.children.len(), top.children.len()),
        };
        let mut failure = None;
        for _ in 0..CHOICES_MAX {
            let found = self.fetch(top, map, birth, &choice, report);
            let known: Vec<Option<&[u8]>> = found
                .buffers
                .iter()
                .zip(&found.sources)
                // A stale column is no evidence. It is compared with the result below.
                .map(|(b, s)| b.as_deref().filter(|_| s.as_ref().is_none_or(|s| !s.is_stale(birth))))
                .collect();
            if let Some(solved) = reconstruct(map, &suspects, &known, size as usize, check) {
                let mut block = solved.block;
                // The block's check does not cover the padding of its last sector, which was
                // written as zeros and counts for parity.
                block[size as usize..].fill(0);
                self.note_faults(copy, top, map, birth, found, &block, &choice, report);
                return Ok(block);
            }
            failure.get_or_insert(found.failure);
            if !next_choice(&mut choice, &ways) {
                break;
            }
        }
        let mut failure = failure.unwrap_or_default();
        // If more columns are missing than there is parity, that is the whole reason. Otherwise
        // some available columns must be wrong.
        if failure.missing.len() + failure.io.len() <= map.parity {
            failure.wrong.push(top.name.clone());
        }
        Err(failure)
    }

    /// Compares every column of every device with the right block.
    #[allow(clippy::too_many_arguments)] // As in `verify`.
    fn note_faults<'t>(
        &'t self,
        copy: usize,
        top: &'t Vdev,
        map: &Map,
        birth: u64,
        mut found: Fetched<'t>,
        block: &[u8],
        choice: &[usize],
        report: &mut BlockReport,
    ) {
        let parity = map.generate_parity(block);
        let mut faults: Vec<(CopyFault, bool)> = Vec::new();
        let mut note = |source: &Source<'_>, fault: Fault| {
            // A device counts once per block, however many of its columns are wrong.
            if !faults.iter().any(|(f, _)| f.leaf == source.guid) {
                faults.push((CopyFault { copy, leaf: source.guid, fault }, source.is_stale(birth)));
            }
        };
        for (place, column) in map.columns.iter().enumerate().filter(|(_, c)| c.size_bytes > 0) {
            let right: &[u8] = match parity.iter().find(|(p, _)| *p == place) {
                Some((_, bytes)) => bytes,
                None => map.part(block, column),
            };
            let sources = self.sources(&top.children[column.child], column.offset_bytes, birth);
            let used = choice[column.child] % sources.len().max(1);
            for (i, source) in sources.iter().enumerate() {
                if i == used {
                    match &found.buffers[place] {
                        None if !source.is_open() => note(source, Fault::Missing),
                        None => note(source, Fault::Unreadable),
                        Some(bytes) if bytes != right => note(source, Fault::Wrong),
                        Some(_) => {}
                    }
                    continue;
                }
                let mut other = vec![0; column.size_bytes];
                match source.leaf().read_to_judge(column.device_offset_bytes(), &mut other) {
                    None => note(source, Fault::Missing),
                    Some(Err(_)) => note(source, Fault::Unreadable),
                    Some(Ok(answer)) if other != right => {
                        note(source, Fault::Wrong);
                        found.answers.push(answer);
                    }
                    Some(Ok(_)) => {}
                }
            }
        }
        for (fault, stale) in faults {
            let answer = found.answers.iter().position(|a| a.leaf().guid == fault.leaf);
            match answer.filter(|_| fault.fault == Fault::Wrong) {
                Some(at) => note_wrong(copy, found.answers.swap_remove(at), stale, report),
                None => report.faults.push(fault),
            }
        }
    }

    #[allow(clippy::too_many_arguments)] // As in `verify`.
    pub(super) fn verify_parity(
        &self,
        copy: usize,
        top: &Vdev,
        offset: u64,
        size: u64,
        birth: u64,
        check: &mut dyn FnMut(&[u8]) -> bool,
        report: &mut BlockReport,
    ) -> Result<(), Failure> {
        let map = self.parity_map(top, offset, size, birth)?;
        if self.verify_quickly(top, &map, size, birth, check, report) {
            return Ok(());
        }
        self.rebuild(copy, top, &map, size, birth, check, report).map(|_| ())
    }

    /// The common case, without an extra copy: every child is one healthy device and everything is
    /// right.
    fn verify_quickly(
        &self,
        top: &Vdev,
        map: &Map,
        size: u64,
        birth: u64,
        check: &mut dyn FnMut(&[u8]) -> bool,
        report: &mut BlockReport,
    ) -> bool {
        if map.columns.iter().any(|c| c.size_bytes > 0 && top.children[c.child].leaf().is_none()) {
            return false;
        }
        SCRATCH.with_borrow_mut(|(block, parity)| {
            block.resize(map.size_bytes, 0);
            let total: usize = map.columns.iter().filter(|c| !c.is_data()).map(|c| c.size_bytes).sum();
            parity.resize(total, 0);
            // All columns at the same time, or parity only if the data are right.
            let all = if top.has_slow_reads()
                && let Some(mut parts) = map.split(block)
            {
                parts.extend(parity_parts(map, parity));
                Some(self.read_parts(top, map, birth, parts))
            } else {
                None
            };
            let data = all.unwrap_or_else(|| self.read_data(top, map, birth, block));
            if !data || !check(&block[..size as usize]) {
                return false;
            }
            if all.is_none() && !self.read_parts(top, map, birth, parity_parts(map, parity)) {
                return false;
            }
            let mut rest = parity.as_slice();
            let stored: Vec<Option<&[u8]>> = map
                .columns
                .iter()
                .map(|c| {
                    if c.is_data() {
                        return None;
                    }
                    let (part, after) = rest.split_at(c.size_bytes);
                    rest = after;
                    Some(part)
                })
                .collect();
            let right = map.wrong_parity(block, &stored).is_empty();
            if right {
                report.bytes_read += (map.size_bytes + total) as u64;
            }
            right
        })
    }
}

/// Splits a buffer into the parity columns of a block.
fn parity_parts<'a>(map: &Map, parity: &'a mut [u8]) -> Parts<'a> {
    let mut rest = parity;
    let mut parts = Parts::new();
    for (place, column) in map.columns.iter().enumerate().filter(|(_, c)| !c.is_data() && c.size_bytes > 0) {
        let (part, after) = rest.split_at_mut(column.size_bytes);
        rest = after;
        parts.push((place, part));
    }
    parts
}

thread_local! {
    /// Buffers for a block and its parity: `verify` reads millions of blocks and keeps none.
    static SCRATCH: std::cell::RefCell<(Vec<u8>, Vec<u8>)> = const { std::cell::RefCell::new((Vec::new(), Vec::new())) };
}

fn next_choice(choice: &mut [usize], ways: &[usize]) -> bool {
    for (c, n) in choice.iter_mut().zip(ways) {
        *c += 1;
        if *c < *n {
            return true;
        }
        *c = 0;
    }
    false
}
