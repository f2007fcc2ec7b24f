//! The operations of a load, and their order.

use crate::watch::What;
use fastrand::Rng;

/// A kind of load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Reads at random offsets, aligned to their size.
    RandRead,
    /// Writes at random offsets, aligned to their size.
    RandWrite,
    /// Sequential reads, repeatedly.
    SeqRead,
    /// Sequential writes, repeatedly.
    SeqWrite,
    /// Creates, stats and removes small files in a directory.
    Meta,
    /// Reads and writes at random offsets; the percentage of reads.
    Mix(u8),
}

impl Kind {
    /// Name in commands.
    pub fn name(self) -> &'static str {
        match self {
            Self::RandRead => "randread",
            Self::RandWrite => "randwrite",
            Self::SeqRead => "seqread",
            Self::SeqWrite => "seqwrite",
            Self::Meta => "meta",
            Self::Mix(_) => "mix",
        }
    }
}

/// An operation, with its offset in bytes or the number of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Read(u64),
    Write(u64),
    Create(u64),
    Look(u64),
    Remove(u64),
    Sync,
}

impl Op {
    pub fn what(self) -> What {
        match self {
            Self::Read(_) => What::Read,
            Self::Write(_) => What::Write,
            Self::Create(_) => What::Create,
            Self::Look(_) => What::Look,
            Self::Remove(_) => What::Remove,
            Self::Sync => What::Sync,
        }
    }
}

/// Bits of a file number that count a thread's cycles.
const CYCLES: u64 = (1 << 40) - 1;

/// The operations of one thread.
pub(crate) struct Pattern {
    kind: Kind,
    size: u64,
    /// Number of operations of that size in the file.
    places: u64,
    at: u64,
    /// Number of writes before an [`Op::Sync`]; 0: never.
    fsync: u64,
    written: u64,
}

impl Pattern {
    /// The pattern of thread `share.0` of `share.1`, on `span` bytes (at least `size`).
    pub fn new(kind: Kind, size: u64, span: u64, share: (usize, usize)) -> Self {
        let places = (span / size).max(1);
        // Threads of a sequential load start at different offsets; names of files are unique.
        let at = match kind {
            Kind::Meta => (share.0 as u64) << 40,
            _ => places * share.0 as u64 / share.1.max(1) as u64,
        };
        Self { kind, size, places, at, fsync: 0, written: 0 }
    }

    /// Adds a sync after this many writes.
    pub fn with_fsync(self, fsync: u64) -> Self {
        Self { fsync, ..self }
    }

    pub fn next(&mut self, rng: &mut Rng) -> Op {
        if self.fsync > 0 && self.written == self.fsync {
            self.written = 0;
            return Op::Sync;
        }
        let op = self.following(rng);
        self.written += u64::from(matches!(op, Op::Write(_)));
        op
    }

    fn following(&mut self, rng: &mut Rng) -> Op {
        let turn = self.at;
        let at = match self.kind {
            Kind::SeqRead | Kind::SeqWrite => {
                self.at = (self.at + 1) % self.places;
                turn * self.size
            }
            // The name: thread number in the upper bits, cycle in the lower.
            Kind::Meta => {
                self.at += 1;
                (turn & !CYCLES) | ((turn & CYCLES) / 3)
            }
            _ => rng.u64(0..self.places) * self.size,
        };
        match self.kind {
            Kind::RandRead | Kind::SeqRead => Op::Read(at),
            Kind::RandWrite | Kind::SeqWrite => Op::Write(at),
            Kind::Mix(reads) if rng.u8(0..100) < reads => Op::Read(at),
            Kind::Mix(_) => Op::Write(at),
            Kind::Meta => [Op::Create(at), Op::Look(at), Op::Remove(at)][((turn & CYCLES) % 3) as usize],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(kind: Kind, share: (usize, usize), count: usize) -> Vec<Op> {
        let (mut pattern, mut rng) = (Pattern::new(kind, 4096, 10 * 4096 + 5, share), Rng::with_seed(3));
        (0..count).map(|_| pattern.next(&mut rng)).collect()
    }

    #[test]
    fn each_kind_does_what_its_name_says() {
        let places: Vec<Op> = (0..10).chain(0..2).map(|i| Op::Read(i * 4096)).collect();
        assert_eq!(first(Kind::SeqRead, (0, 2), 12), places);
        assert_eq!(first(Kind::SeqWrite, (1, 2), 1), [Op::Write(5 * 4096)]);
        let mut seen = [false; 10];
        for op in first(Kind::RandRead, (0, 1), 500) {
            let Op::Read(at) = op else { panic!("{op:?}") };
            assert_eq!(at % 4096, 0);
            seen[(at / 4096) as usize] = true;
        }
        assert_eq!(seen, [true; 10]);
        let reads = first(Kind::Mix(70), (0, 1), 2000).iter().filter(|op| matches!(op, Op::Read(_))).count();
        assert!((1300..1500).contains(&reads), "{reads}");
        let [Op::Create(a), Op::Look(b), Op::Remove(c), Op::Create(d)] = first(Kind::Meta, (1, 2), 4)[..] else {
            panic!()
        };
        assert!(a == b && b == c && c != d);
    }
}
