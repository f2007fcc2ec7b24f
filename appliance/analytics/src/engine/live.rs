//! A counted statistic: its open second, its last minutes, and the columns to be archived.

use crate::archive::{Archive, Definition, Row, Tier};
use crate::catalogue;
use crate::column::Column;
use crate::name::{BadName, Name};
use crate::sampler::SampledTally;
use crate::scheme::Scheme;
use crate::tally::Tally;
use std::collections::VecDeque;
use std::io;

/// Number of seconds kept in memory.
const WINDOW: usize = 900;
/// The same, for statistics that are counted only while watched.
const PASSING: usize = 60;

/// Statistics counted by default: cheap ones that most investigations start with.
pub const DEFAULTS: &[&str] = &[
    "arc.accesses[hit/miss]",
    "arc.size",
    "cap.bytesused[pool]",
    "cap.percentused[pool]",
    "cpu.utilization",
    "cpu.utilization[mode]",
    "fuse.ops",
    "fuse.ops[op]",
    "io.bytes",
    "io.bytes[op]",
    "io.disks[utilization=95][disk]",
    "io.ops",
    "io.ops[disk]",
    "io.ops[op]",
    "nbd.ops",
    "nbd.ops[op]",
    "nfs3.ops",
    "nfs3.ops[op]",
    "nfs4-1.ops",
    "nfs4-1.ops[op]",
    "nfs4.ops",
    "nfs4.ops[op]",
    "nic.kilobytes",
    "nic.kilobytes[device]",
    "nic.kilobytes[direction]",
    "receive.bytes",
    "send.bytes",
];

/// How a statistic is counted.
pub enum Counting {
    Events(Box<Tally>),
    Sampled(SampledTally),
}

/// A statistic while it is counted, archived or not.
pub struct Live {
    pub definition: Definition,
    pub name: Name,
    pub archived: bool,
    /// Counted on request; others are counted only while watched.
    pub wanted: bool,
    /// Number of [`super::Watch`]es; each keeps the statistic counted.
    pub watchers: usize,
    /// The open second began before this statistic was counted.
    pub partial: bool,
    pub counting: Counting,
    pub scheme: Option<Scheme>,
    pub window: VecDeque<(u64, Column)>,
    /// The open minute and hour.
    pub open: [Option<(u64, Column)>; 2],
    pub cost: (u64, u64),
}

impl Live {
    pub fn new(definition: Definition, archived: bool) -> Result<Self, BadName> {
        let name: Name = definition.name.parse()?;
        catalogue::find(&name)?;
        let (counting, scheme) = match Tally::new(&name)? {
            Some(tally) => {
                let scheme = tally.scheme();
                (Counting::Events(Box::new(tally)), scheme)
            }
            None => {
                let tally = SampledTally::new(&name);
                let scheme = tally.scheme();
                (Counting::Sampled(tally), scheme)
            }
        };
        let (window, open) = Default::default();
        Ok(Self {
            definition,
            name,
            archived,
            wanted: archived,
            watchers: 0,
            partial: false,
            counting,
            scheme,
            window,
            open,
            cost: (0, 0),
        })
    }

    pub fn incore(&self) -> u64 {
        let column = |c: &Column| size_of::<(u64, Column)>() + c.cells.capacity() * size_of::<(u32, u64)>();
        self.window.iter().map(|(_, c)| column(c) as u64).sum()
    }

    /// Closes a second and adds the rows to be archived.
    pub fn push(&mut self, second: u64, column: Column, rows: &mut Vec<Row>) {
        if self.archived {
            let dataset = self.definition.id;
            rows.push(Row { dataset, tier: Tier::Second, start: second, column: column.clone() });
            for (open, tier) in self.open.iter_mut().zip([Tier::Minute, Tier::Hour]) {
                let start = second - second % tier.span();
                if let Some((start, column)) = open.take_if(|(old, _)| *old != start) {
                    rows.push(Row { dataset, tier, start, column });
                }
                open.get_or_insert_with(|| (start, Column::default())).1.merge(&column);
            }
        }
        let most = if self.wanted { WINDOW } else { PASSING };
        while self.window.len() >= most {
            self.window.pop_front();
        }
        self.window.push_back((second, column));
    }

    /// Resumes the minute and the hour that the previous process had started; if they have ended,
    /// adds them to the rows.
    pub fn resume(&mut self, archive: &Archive, now: u64, rows: &mut Vec<Row>) -> io::Result<()> {
        let dataset = self.definition.id;
        let Some(newest) = archive.newest(dataset, self.scheme)? else { return Ok(()) };
        for (open, tier) in self.open.iter_mut().zip([Tier::Minute, Tier::Hour]) {
            let start = newest - newest % tier.span();
            if !archive.read(dataset, tier, self.scheme, start, start + 1)?.is_empty() {
                continue;
            }
            let mut column = Column::default();
            let seconds = archive.read(dataset, Tier::Second, self.scheme, start, start + tier.span())?;
            seconds.iter().for_each(|(_, second)| column.merge(second));
            if now < start + tier.span() {
                *open = Some((start, column));
            } else {
                rows.push(Row { dataset, tier, start, column });
            }
        }
        Ok(())
    }
}
