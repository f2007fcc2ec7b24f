//! Read-ahead: predicts from the reads of an object which bytes come next.
//!
//! A *stream* is a run of reads at a constant distance. If the distance equals the length, it is
//! sequential; if it is greater, strided. Several streams run side by side (many readers of one
//! file). A stream is confirmed by its third read (a sequential one by its second). From then on,
//! the distance read ahead doubles with every read. ZFS name: dmu_zfetch.
//!
//! Invariants:
//!   * a stream never requests a range twice
//!   * state is bounded: [`STREAMS_MAX`] streams

/// Maximum number of streams; the least recently used one is dropped. OpenZFS follows 8.
const STREAMS_MAX: usize = 8;
/// Initial read-ahead, in bytes.
const AHEAD_MIN_BYTES: u64 = 512 << 10;
/// Maximum read-ahead, in bytes: enough for two cores to decompress while one reader copies.
/// Guessed.
const AHEAD_MAX_BYTES: u64 = 8 << 20;

#[derive(Debug, Clone, Copy)]
struct Stream {
    last_offset: u64,
    last_len: u64,
    /// Distance between the last two reads.
    stride: u64,
    /// Number of consecutive reads at that distance.
    confirmed: u32,
    /// End of what was requested so far.
    ahead_to: u64,
    window_bytes: u64,
    used: u64,
}

/// The streams of one object.
#[derive(Debug, Default)]
pub struct ReadAhead {
    streams: Vec<Stream>,
    clock: u64,
}

/// A range of bytes to prefetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    pub offset: u64,
    pub len: u64,
}

impl ReadAhead {
    /// Records a read, and returns the ranges to prefetch now.
    pub fn note(&mut self, offset: u64, len: u64) -> Vec<Range> {
        self.clock += 1;
        let clock = self.clock;
        if let Some(s) = self.streams.iter_mut().find(|s| s.continues_at(offset)) {
            s.used = clock;
            return s.advance(offset, len);
        }
        // A second read shortly after a lone first one makes a candidate for a strided stream.
        let near = |s: &&mut Stream| {
            s.confirmed == 0 && offset > s.last_offset && offset - s.last_offset <= 64 * s.last_len.max(4096)
        };
        if let Some(s) = self.streams.iter_mut().find(near) {
            let stride = offset - s.last_offset;
            *s = Stream { last_offset: offset, last_len: len, stride, confirmed: 1, used: clock, ahead_to: 0, ..*s };
            return Vec::new();
        }
        if self.streams.len() == STREAMS_MAX {
            let oldest = (0..STREAMS_MAX).min_by_key(|i| self.streams[*i].used).expect("there are some");
            self.streams.swap_remove(oldest);
        }
        self.streams.push(Stream {
            last_offset: offset,
            last_len: len,
            stride: 0,
            confirmed: 0,
            ahead_to: 0,
            window_bytes: AHEAD_MIN_BYTES,
            used: clock,
        });
        Vec::new()
    }
}

impl Stream {
    fn continues_at(&self, offset: u64) -> bool {
        offset == self.last_offset.saturating_add(self.last_len)
            || (self.stride != 0 && offset == self.last_offset.saturating_add(self.stride))
    }

    fn advance(&mut self, offset: u64, len: u64) -> Vec<Range> {
        let stride = offset - self.last_offset;
        self.confirmed = if stride == self.stride { self.confirmed.saturating_add(1) } else { 1 };
        let sequential = offset == self.last_offset.saturating_add(self.last_len);
        (self.last_offset, self.last_len, self.stride) = (offset, len, stride);
        let window = self.window_bytes;
        self.window_bytes = (window * 2).min(AHEAD_MAX_BYTES);
        let end = offset.saturating_add(len);
        if sequential {
            let from = self.ahead_to.max(end);
            let to = end.saturating_add(window);
            // Refill only when half is used up, so that small reads do not cause one request each.
            if to <= from || to - from < window / 2 {
                return Vec::new();
            }
            self.ahead_to = to;
            return vec![Range { offset: from, len: to - from }];
        }
        if self.confirmed < 2 {
            return Vec::new();
        }
        let count = (window / len.max(1)).clamp(1, 32);
        let mut ranges = Vec::new();
        for i in 1..=count {
            let at = offset.saturating_add(stride.saturating_mul(i));
            if at >= self.ahead_to {
                ranges.push(Range { offset: at, len });
                self.ahead_to = at.saturating_add(1);
            }
        }
        ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequential_reader_is_kept_ahead_of_without_gaps_or_repeats() {
        let mut r = ReadAhead::default();
        let mut fetched = 0;
        for i in 0..1000u64 {
            for range in r.note(i * 8192, 8192) {
                assert!(range.offset >= fetched && range.offset >= i * 8192);
                if fetched > 0 {
                    assert_eq!(range.offset, fetched, "no gap");
                }
                fetched = range.offset + range.len;
            }
        }
        assert!(fetched > 1000 * 8192);
    }

    #[test]
    fn random_reads_fetch_nothing() {
        let mut r = ReadAhead::default();
        let mut chance = rig::Chance::new(1);
        for _ in 0..1000 {
            assert!(r.note((chance.next() >> 20) & !8191, 8192).len() < 2);
        }
    }

    #[test]
    fn a_strided_reader_gets_its_next_pieces_only() {
        let mut r = ReadAhead::default();
        let mut seen = std::collections::BTreeSet::new();
        for i in 0..20u64 {
            for range in r.note(i * 100_000, 4096) {
                assert_eq!(range.offset % 100_000, 0);
                assert!(seen.insert(range.offset), "{} was fetched twice", range.offset);
            }
        }
        assert!(seen.len() >= 20);
    }

    #[test]
    fn eight_readers_of_one_file_do_not_disturb_each_other() {
        let mut r = ReadAhead::default();
        let mut fetched = [0; 8];
        for i in 0..50u64 {
            for (reader, bytes) in fetched.iter_mut().enumerate() {
                *bytes += r.note((reader as u64) * (1 << 32) + i * 65536, 65536).iter().map(|x| x.len).sum::<u64>();
            }
        }
        assert!(fetched.iter().all(|b| *b >= 50 * 65536), "{fetched:?}");
    }
}
