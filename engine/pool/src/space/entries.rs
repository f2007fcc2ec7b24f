//! Encodes ranges as entries of a space map: one word where they fit, two where the pool has
//! `spacemap_v2`.
//!
//! Facts: `space_map_write_impl` (module/zfs/space_map.c). Each group of entries of one kind begins
//! with a debug entry that contains the txg and pass.

use super::ranges::Ranges;
use ondisk::Txg;
use ondisk::endian::Endian;
use ondisk::spacemap::{Action, Entry, Item};

/// Largest run of a one-word entry.
const RUN_MAX: u64 = 1 << 15;

/// log2 of the unit of log space maps in bytes (`SPA_MINBLOCKSHIFT`).
const LOG_SHIFT: u8 = 9;

/// Position of entries in a map, and the txg and pass that write them.
#[derive(Debug, Clone, Copy)]
pub struct Spot {
    pub txg: u64,
    pub pass: u16,
    /// Bytes of entries already in the map.
    pub length_bytes: u64,
    /// Block size of the map.
    pub block_bytes: u64,
    /// Whether two-word entries are allowed.
    pub two_words: bool,
    /// Added to the offsets of entries; 0 in a metaslab's own map.
    pub start_units: u64,
}

/// The bytes to append for `ranges`; empty if there are no ranges.
pub fn encode(ranges: &Ranges, action: Action, spot: &Spot) -> Vec<u8> {
    if ranges.is_empty() {
        return Vec::new();
    }
    encode_runs(ranges.iter().map(|(start, len)| (u64::from(start), u64::from(len))), action, spot)
}

/// The same for at least one run, of any length.
pub fn encode_runs(runs: impl Iterator<Item = (u64, u64)>, action: Action, spot: &Spot) -> Vec<u8> {
    // The buffer begins with the used part of the last block, so that two-word entries find the
    // block's end.
    let block = spot.block_bytes as usize;
    let before = (spot.length_bytes % spot.block_bytes) as usize;
    let mut out = vec![0; before];
    Item::Debug { action, pass: spot.pass, txg: Txg(spot.txg) }.write(&mut out, Endian::Little, block);
    for (start, len) in runs {
        let (mut at, mut left) = (spot.start_units + start, len);
        let two_words = spot.two_words && left > RUN_MAX;
        while left > 0 {
            let run = if two_words { left } else { left.min(RUN_MAX) };
            // A map of one device does not store the device: OpenZFS writes 0.
            let vdev = two_words.then_some(0);
            let entry = Entry { action, offset_units: at, run_units: run, vdev };
            Item::Range(entry).write(&mut out, Endian::Little, block);
            at += run;
            left -= run;
        }
    }
    out.drain(..before);
    out
}

/// Position of entries in a log, the txg and pass that write them, and their metaslab.
#[derive(Debug, Clone, Copy)]
pub struct LogSpot {
    pub txg: u64,
    pub pass: u16,
    /// Block size of the log.
    pub block_bytes: usize,
    /// Number of the top-level device.
    pub vdev: u32,
    /// Start of the metaslab on the device.
    pub start_units: u64,
    /// log2 of the device's allocation unit in bytes.
    pub ashift: u8,
}

/// Appends `ranges` of a metaslab to `out`, which begins at the start of a block. The entries have
/// two words: they contain the device, and an offset on it in units of 512 bytes.
pub fn encode_log(out: &mut Vec<u8>, ranges: &Ranges, action: Action, spot: &LogSpot) {
    if ranges.is_empty() {
        return;
    }
    let mark = Item::Debug { action, pass: spot.pass, txg: Txg(spot.txg) };
    mark.write(out, Endian::Little, spot.block_bytes);
    let shift = spot.ashift - LOG_SHIFT;
    for (start, len) in ranges.iter() {
        let entry = Entry {
            action,
            offset_units: (spot.start_units + u64::from(start)) << shift,
            run_units: u64::from(len) << shift,
            vdev: Some(spot.vdev),
        };
        Item::Range(entry).write(out, Endian::Little, spot.block_bytes);
    }
}

/// Upper bound for the bytes of the entries of these segments, without debug entries and padding.
pub fn estimate(histogram: &[u64], two_words: bool) -> u64 {
    let one = |(i, runs): (usize, &u64)| match i {
        0..15 => 8 * runs,
        _ if two_words => 16 * runs,
        _ => (8 * runs) << (i - 14),
    };
    histogram.iter().enumerate().map(one).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondisk::spacemap::entries;

    fn spot(length_bytes: u64, two_words: bool) -> Spot {
        Spot { txg: 7, pass: 2, length_bytes, block_bytes: 512, two_words, start_units: 0 }
    }

    #[test]
    fn long_runs_are_one_entry_of_two_words_or_many_of_one() {
        let mut ranges = Ranges::of(5, 3);
        ranges.add(1000, 100_000);
        let words = |two| {
            let bytes = encode(&ranges, Action::Free, &spot(0, two));
            let all: Vec<_> = entries(&bytes, Endian::Little).map(|e| e.unwrap()).collect();
            let mut back = Ranges::default();
            for e in &all {
                assert_eq!(e.action, Action::Free);
                back.add(e.offset_units as u32, e.run_units as u32);
            }
            assert_eq!(back, ranges);
            bytes.len() / 8
        };
        assert_eq!((words(true), words(false)), (1 + 1 + 2, 1 + 1 + 4));
    }

    #[test]
    fn an_entry_of_two_words_is_not_split_across_blocks() {
        // The debug entry takes the last word but one of the block, so one word is left.
        let bytes = encode(&Ranges::of(0, 40_000), Action::Alloc, &spot(512 * 3 + 512 - 16, true));
        assert_eq!(bytes.len(), 8 + 8 + 16);
        assert_eq!(Endian::Little.word(&bytes, 1), 2 << 62);
        assert_eq!(Endian::Little.word(&bytes, 2) >> 62, 3);
    }

    #[test]
    fn a_log_names_device_and_place_on_it_in_sectors_of_512_bytes() {
        let spot = LogSpot { txg: 7, pass: 1, block_bytes: 64, vdev: 3, start_units: 1000, ashift: 12 };
        let mut bytes = vec![0; 32];
        encode_log(&mut bytes, &Ranges::default(), Action::Alloc, &spot);
        assert_eq!(bytes.len(), 32, "nothing needs no mark");
        let mut ranges = Ranges::of(5, 2);
        ranges.add(100, 1);
        encode_log(&mut bytes, &ranges, Action::Free, &spot);
        // The bytes before, the debug entry, an entry, padding to the end of the block, an entry.
        assert_eq!(bytes.len(), 32 + 8 + 16 + 8 + 16);
        let all: Vec<_> = entries(&bytes[32..], Endian::Little).map(|e| e.unwrap()).collect();
        let entry = |at: u64, run_units| Entry { action: Action::Free, offset_units: at * 8, run_units, vdev: Some(3) };
        assert_eq!(all, [entry(1005, 16), entry(1100, 8)]);
    }

    #[test]
    fn nothing_needs_no_mark() {
        assert!(encode(&Ranges::default(), Action::Alloc, &spot(0, true)).is_empty());
    }
}
