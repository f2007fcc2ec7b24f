//! The bytes of a large, mostly empty medium, in pages that clones share until one of them writes.

use std::collections::HashMap;
use std::sync::Arc;

const PAGE_BYTES: usize = 4096;
/// Unit that a device writes atomically.
pub const SECTOR_BYTES: usize = 512;

/// The medium. Bytes that were never written read as zeros.
#[derive(Clone, Default)]
pub struct Pages {
    pages: HashMap<u64, Arc<[u8; PAGE_BYTES]>>,
}

impl Pages {
    /// Fills `buf` with the bytes at `offset`.
    pub fn read(&self, offset: u64, buf: &mut [u8]) {
        each_page(offset, buf.len(), |page, at, range| match self.pages.get(&page) {
            Some(bytes) => buf[range.clone()].copy_from_slice(&bytes[at..at + range.len()]),
            None => buf[range].fill(0),
        });
    }

    /// Writes `data` at `offset`.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        each_page(offset, data.len(), |page, at, range| {
            let bytes = Arc::make_mut(self.pages.entry(page).or_insert_with(|| Arc::new([0; PAGE_BYTES])));
            bytes[at..at + range.len()].copy_from_slice(&data[range]);
        });
    }

    /// Pages that were written, with their contents, in order.
    pub fn written(&self) -> Vec<(u64, &[u8])> {
        let mut all: Vec<(u64, &[u8])> =
            self.pages.iter().map(|(page, bytes)| (page * PAGE_BYTES as u64, &bytes[..])).collect();
        all.sort_unstable_by_key(|(offset, _)| *offset);
        all
    }
}

fn each_page(offset: u64, len: usize, mut each: impl FnMut(u64, usize, std::ops::Range<usize>)) {
    let mut done = 0;
    while done < len {
        let here = offset + done as u64;
        let at = (here % PAGE_BYTES as u64) as usize;
        let count = (PAGE_BYTES - at).min(len - done);
        each(here / PAGE_BYTES as u64, at, done..done + count);
        done += count;
    }
}
