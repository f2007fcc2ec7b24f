//! Reads the entries of a redaction list in order, a block of the list at a time.

use block::Block;
use errors::{Error, Place, Result};
use object::Object;
use ondisk::{RedactBlock, RedactionList};

/// Reads the header of the redaction list in `object`.
pub(crate) fn header_of(object: &Object) -> Result<RedactionList> {
    match object.spill()? {
        // With many snapshots the header is the spill block instead of the bonus.
        Some(spill) => RedactionList::parse(&spill.data, spill.endian).map_err(Into::into),
        None => RedactionList::parse(object.bonus(), object.endian()).map_err(Into::into),
    }
}

/// The entries of a redaction list from one block of the snapshot on. After an error there are no
/// more.
pub(crate) struct RedactedBlocks {
    object: Object,
    next: u64,
    count: u64,
    /// Number and contents of the block that was read last.
    block: Option<(u64, Block)>,
    from: (u64, u64),
    /// The first block after the last entry.
    end: (u64, u64),
}

impl RedactedBlocks {
    /// `count`: number of entries in `object`; `from`: object and number of the first block.
    pub fn new(object: Object, count: u64, from: (u64, u64)) -> Self {
        Self { object, next: 0, count, block: None, from, end: (0, 0) }
    }

    /// Entry `index`, and the byte order of its block.
    pub fn entry(&mut self, index: u64) -> Result<RedactBlock> {
        let size = self.object.block_bytes();
        let offset = index.saturating_mul(RedactBlock::SIZE_BYTES as u64);
        let number = offset / size;
        if self.block.as_ref().is_none_or(|(at, _)| *at != number) {
            let missing = || Error::corrupt(self.object.place(), format!("entry {index} is not stored"));
            self.block = Some((number, self.object.block(number)?.ok_or_else(missing)?));
        }
        let Some((_, block)) = &self.block else { unreachable!("it was just read") };
        let bytes = block.data.get((offset % size) as usize..).unwrap_or_default();
        RedactBlock::parse(bytes, block.endian).at_with(|| format!("{} entry {index}", self.object.place()))
    }

    fn advance(&mut self) -> Result<Option<RedactBlock>> {
        while self.next < self.count {
            let entry = self.entry(self.next)?;
            if (entry.object, entry.first) < self.end {
                let what = format!("entry {} begins before the end of the one before it", self.next);
                return Err(Error::corrupt(self.object.place(), what));
            }
            self.end = (entry.object, entry.end());
            self.next += 1;
            if let Some(rest) = rest_of(entry, self.from) {
                return Ok(Some(rest));
            }
        }
        Ok(None)
    }
}

impl Iterator for RedactedBlocks {
    type Item = Result<RedactBlock>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = self.advance();
        if found.is_err() {
            self.next = self.count;
        }
        found.transpose()
    }
}

/// The part of an entry that does not lie before block `from`.
fn rest_of(entry: RedactBlock, from: (u64, u64)) -> Option<RedactBlock> {
    if (entry.object, entry.end()) <= from {
        return None;
    }
    let skipped = if entry.object == from.0 { from.1.saturating_sub(entry.first) } else { 0 };
    Some(RedactBlock { first: entry.first + skipped, count: entry.count - skipped, ..entry })
}

#[cfg(test)]
mod tests {
    use super::rest_of;
    use ondisk::RedactBlock;

    #[test]
    fn an_entry_is_cut_where_a_stream_resumes() {
        let entry = RedactBlock { object: 5, first: 10, count: 4, block_bytes: 512 };
        let rest = |from| rest_of(entry, from).map(|rest| (rest.first, rest.count));
        assert_eq!(rest((0, 0)), Some((10, 4)));
        assert_eq!(rest((4, 99)), Some((10, 4)));
        assert_eq!(rest((5, 12)), Some((12, 2)));
        assert_eq!((rest((5, 14)), rest((6, 0))), (None, None));
    }
}
