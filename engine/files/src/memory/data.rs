//! Contents of a file in memory: records, and holes where there is none.

use super::{Data, RECORD_BYTES};
use std::ops::Range;

/// The record that contains `offset`, and the position within it.
fn split(offset: u64) -> (u64, usize) {
    (offset / RECORD_BYTES, (offset % RECORD_BYTES) as usize)
}

impl Data {
    pub fn used_bytes(&self) -> u64 {
        self.records.len() as u64 * RECORD_BYTES
    }

    /// Number of records that writing `range` would add.
    pub fn missing_bytes(&self, range: Range<u64>) -> u64 {
        let records = range.start / RECORD_BYTES..range.end.div_ceil(RECORD_BYTES);
        let there = self.records.range(records.clone()).count() as u64;
        (records.end.saturating_sub(records.start) - there) * RECORD_BYTES
    }

    pub fn write(&mut self, mut offset: u64, mut data: &[u8]) {
        while !data.is_empty() {
            let (number, at) = split(offset);
            let (now, later) = data.split_at(data.len().min(RECORD_BYTES as usize - at));
            let record = self.records.entry(number).or_default();
            if record.len() < at + now.len() {
                record.resize(at + now.len(), 0);
            }
            record[at..at + now.len()].copy_from_slice(now);
            offset += now.len() as u64;
            data = later;
        }
    }

    pub fn read(&self, range: Range<u64>) -> Vec<u8> {
        let mut out = vec![0; (range.end - range.start) as usize];
        for (&number, record) in self.records.range(range.start / RECORD_BYTES..range.end.div_ceil(RECORD_BYTES)) {
            let base = number * RECORD_BYTES;
            let (from, to) = (base.max(range.start), (base + record.len() as u64).min(range.end));
            if from < to {
                let source = &record[(from - base) as usize..(to - base) as usize];
                out[(from - range.start) as usize..(to - range.start) as usize].copy_from_slice(source);
            }
        }
        out
    }

    /// Turns whole records into holes and zeroes partial ones.
    pub fn punch(&mut self, range: Range<u64>) {
        let numbers: Vec<u64> = self
            .records
            .range(range.start / RECORD_BYTES..range.end.div_ceil(RECORD_BYTES))
            .map(|(&number, _)| number)
            .collect();
        for number in numbers {
            let base = number * RECORD_BYTES;
            if range.start <= base && range.end >= base + RECORD_BYTES {
                self.records.remove(&number);
            } else if let Some(record) = self.records.get_mut(&number) {
                let len = record.len() as u64;
                let from = range.start.saturating_sub(base).min(len);
                let to = range.end.saturating_sub(base).min(len);
                record[from as usize..to as usize].fill(0);
            }
        }
    }

    /// Removes everything at and after `size`.
    pub fn cut(&mut self, size: u64) {
        let (number, at) = split(size);
        self.records.split_off(&size.div_ceil(RECORD_BYTES));
        if let Some(record) = self.records.get_mut(&number) {
            record.truncate(at);
        }
    }

    pub fn next_data(&self, offset: u64) -> Option<u64> {
        let (&number, _) = self.records.range(offset / RECORD_BYTES..).next()?;
        Some(offset.max(number * RECORD_BYTES))
    }

    pub fn next_hole(&self, offset: u64) -> u64 {
        let mut number = offset / RECORD_BYTES;
        if !self.records.contains_key(&number) {
            return offset;
        }
        while self.records.contains_key(&number) {
            number += 1;
        }
        number * RECORD_BYTES
    }
}
