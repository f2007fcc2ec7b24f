//! Names of statistics, in the grammar of the Sun Storage 7000:
//!
//! ```text
//!   module.statistic[field=value][field=value]…[breakdown]         nfs3.ops[op=write][client=10.0.0.7][latency]
//! ```
//!
//! Brackets with `=` narrow down, the last one without says by what to break down; without it the statistic is raw. Values that
//! contain `]` or `\` have a `\` before it. Numbers take a unit and a range: `latency=1ms..2ms`, `size=8K`, `utilization=95`
//! (which is: 95 and more).

use crate::scheme::Scheme;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// By what operations can be told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Field {
    /// Type of operation.
    Op,
    /// Who asks.
    Client,
    /// For whom.
    User,
    /// Share: the dataset.
    Share,
    /// File.
    File,
    /// How long it took.
    Latency,
    /// How many bytes.
    Size,
    /// Where in the file or on the device.
    Offset,
    /// What the cache said.
    #[serde(rename = "hit/miss")]
    HitMiss,
    /// 0 or the error.
    Result,
    /// Waiting to be taken up.
    QueueWait,
    /// Waiting for the intent log.
    LogWait,
    /// Waiting for a transaction group.
    TxgWait,
    /// Waiting for devices.
    DiskWait,
    /// Pool.
    Pool,
    /// Disk.
    Disk,
    /// Share of time that something was busy.
    Utilization,
    /// Network device.
    Device,
    /// In or out.
    Direction,
    /// User, kernel, idle.
    Mode,
    /// Processor.
    Cpu,
    /// Phase of a transaction group.
    Phase,
    /// What the cache holds.
    Component,
    /// Name of a client's host.
    Hostname,
    /// Volume, or snapshot of one.
    Volume,
}

/// Names of the fields, as they are written.
const FIELDS: &[(Field, &str, &str)] = &[
    (Field::Op, "op", "type of operation"),
    (Field::Client, "client", "client"),
    (Field::User, "user", "user"),
    (Field::Share, "share", "share"),
    (Field::File, "file", "file name"),
    (Field::Latency, "latency", "latency"),
    (Field::Size, "size", "size"),
    (Field::Offset, "offset", "offset"),
    (Field::HitMiss, "hit/miss", "hit or miss"),
    (Field::Result, "result", "result"),
    (Field::QueueWait, "queuewait", "wait in the queue"),
    (Field::LogWait, "logwait", "wait for the intent log"),
    (Field::TxgWait, "txgwait", "wait for a transaction group"),
    (Field::DiskWait, "diskwait", "wait for disks"),
    (Field::Pool, "pool", "pool"),
    (Field::Disk, "disk", "disk"),
    (Field::Utilization, "utilization", "percent utilization"),
    (Field::Device, "device", "device"),
    (Field::Direction, "direction", "direction"),
    (Field::Mode, "mode", "CPU mode"),
    (Field::Cpu, "cpu", "CPU identifier"),
    (Field::Phase, "phase", "phase"),
    (Field::Component, "component", "component"),
    (Field::Hostname, "hostname", "host name"),
    (Field::Volume, "volume", "volume"),
];

impl Field {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        FIELDS.iter().map(|(field, ..)| *field)
    }

    /// How it is written in names.
    pub fn name(self) -> &'static str {
        FIELDS.iter().find(|(field, ..)| *field == self).map_or("", |(_, name, _)| name)
    }

    /// How it is called in titles.
    pub fn title(self) -> &'static str {
        FIELDS.iter().find(|(field, ..)| *field == self).map_or("", |(.., title)| title)
    }

    /// The rows of its heat map, if it is a number.
    pub fn scheme(self) -> Option<Scheme> {
        match self {
            Self::Latency | Self::QueueWait | Self::LogWait | Self::TxgWait | Self::DiskWait => Some(Scheme::Latency),
            Self::Size => Some(Scheme::Size),
            Self::Offset => Some(Scheme::Offset),
            Self::Utilization => Some(Scheme::Percent),
            _ => None,
        }
    }
}

/// What a bracket with `=` asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Predicate {
    /// Of what.
    pub field: Field,
    /// Which.
    pub wanted: Wanted,
}

/// The value in a bracket.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Wanted {
    /// This one.
    Is(String),
    /// A number from the first up to, and without, the second.
    Between(u64, u64),
}

/// What a statistic is called.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name {
    /// Such as `nfs3`.
    pub module: String,
    /// Such as `ops`.
    pub stat: String,
    /// All of them hold for what is counted.
    pub predicates: Vec<Predicate>,
    /// By what it is told apart.
    pub breakdown: Option<Field>,
}

/// What is wrong with a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid statistic '{name}': at {at}: {wrong}")]
pub struct BadName {
    /// As it was given.
    pub name: String,
    /// Bytes from its start.
    pub at: usize,
    /// What was expected.
    pub wrong: String,
}

/// Longer ones are refused: paths of files are the longest that names contain.
const LONGEST: usize = 8192;
/// More brackets than fields make no sense.
const PREDICATES: usize = 32;

impl FromStr for Name {
    type Err = BadName;

    fn from_str(name: &str) -> Result<Self, BadName> {
        let bad = |at: usize, wrong: &str| {
            let shown: String = name.chars().take(200).collect();
            BadName { name: shown, at, wrong: wrong.to_owned() }
        };
        if name.len() > LONGEST {
            return Err(bad(LONGEST, &format!("longer than {LONGEST} bytes")));
        }
        let end = name.find('[').unwrap_or(name.len());
        let (head, mut rest) = name.split_at(end);
        let (module, stat) = head.split_once('.').ok_or_else(|| bad(end, "expected MODULE.STATISTIC"))?;
        let is_word = |word: &str| {
            let letter = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_' || c == b'-';
            !word.is_empty() && word.bytes().all(letter)
        };
        if !is_word(module) || !is_word(stat) {
            return Err(bad(0, "a module and a statistic consist of lower-case letters, digits, '_' and '-'"));
        }
        let mut out =
            Self { module: module.to_owned(), stat: stat.to_owned(), predicates: Vec::new(), breakdown: None };
        while !rest.is_empty() {
            let at = name.len() - rest.len();
            if out.breakdown.is_some() {
                return Err(bad(at, "nothing may follow the breakdown"));
            }
            let inner = rest.strip_prefix('[').ok_or_else(|| bad(at, "expected '['"))?;
            let (text, after) = bracket(inner).ok_or_else(|| bad(at, "']' is missing"))?;
            rest = after;
            let (word, value) = match text.split_once('=') {
                Some((word, value)) => (word, Some(value)),
                None => (text.as_str(), None),
            };
            let known = FIELDS.iter().find(|(_, name, _)| *name == word);
            let field = known.map(|(field, ..)| *field).ok_or_else(|| {
                let all: Vec<_> = FIELDS.iter().map(|(_, name, _)| *name).collect();
                bad(at, &format!("unknown field '{word}', expected one of {}", all.join(", ")))
            })?;
            let Some(value) = value else {
                out.breakdown = Some(field);
                continue;
            };
            if out.predicates.len() == PREDICATES {
                return Err(bad(at, "too many brackets"));
            }
            let wanted = match field.scheme() {
                None => Wanted::Is(value.to_owned()),
                Some(scheme) => range(value, scheme).map_err(|wrong| bad(at, &wrong))?,
            };
            out.predicates.push(Predicate { field, wanted });
        }
        Ok(out)
    }
}

/// The text up to the bracket's end, and what follows.
fn bracket(text: &str) -> Option<(String, &str)> {
    let mut out = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            ']' => return Some((out, text.get(at + 1..)?)),
            '\\' => out.push(chars.next()?.1),
            c => out.push(c),
        }
    }
    None
}

/// `1ms..2ms`, `8K..`, `95` (the class it is in, or for percent: that and more).
fn range(text: &str, scheme: Scheme) -> Result<Wanted, String> {
    let (from, to) = match text.split_once("..") {
        Some((from, "")) => (number(from, scheme)?, u64::MAX),
        Some((from, to)) => (number(from, scheme)?, number(to, scheme)?),
        None if scheme == Scheme::Percent => (number(text, scheme)?, u64::MAX),
        None => scheme.range(scheme.class(number(text, scheme)?)),
    };
    if from < to { Ok(Wanted::Between(from, to)) } else { Err(format!("'{text}' is an empty range")) }
}

const TIMES: &[(&str, u64)] = &[("ns", 1), ("us", 1000), ("ms", 1_000_000), ("s", 1_000_000_000), ("", 1)];
const BYTES: &[(&str, u64)] = &[("K", 1 << 10), ("M", 1 << 20), ("G", 1 << 30), ("T", 1 << 40), ("", 1)];
const PLAIN: &[(&str, u64)] = &[("%", 1), ("", 1)];

fn units(scheme: Scheme) -> &'static [(&'static str, u64)] {
    match scheme {
        Scheme::Latency => TIMES,
        Scheme::Size | Scheme::Offset => BYTES,
        Scheme::Percent => PLAIN,
    }
}

/// A whole number with a unit of the scheme.
fn number(text: &str, scheme: Scheme) -> Result<u64, String> {
    let wrong = || {
        let units: Vec<_> = units(scheme).iter().map(|(unit, _)| *unit).filter(|u| !u.is_empty()).collect();
        format!("'{text}' is not a number with one of the units {}", units.join(", "))
    };
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let factor = units(scheme).iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor).ok_or_else(wrong)?;
    digits.parse::<u64>().ok().and_then(|n| n.checked_mul(factor)).ok_or_else(wrong)
}

/// The shortest exact way to write a number of a scheme.
pub fn text_of(value: u64, scheme: Scheme) -> String {
    let fits = |(_, factor): &&(&str, u64)| value != 0 && value.is_multiple_of(*factor);
    let best = units(scheme).iter().filter(|(unit, _)| *unit != "%").filter(fits).max_by_key(|(_, factor)| *factor);
    best.map_or_else(|| value.to_string(), |(unit, factor)| format!("{}{unit}", value / factor))
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.module, self.stat)?;
        for Predicate { field, wanted } in &self.predicates {
            let value = match (wanted, field.scheme()) {
                (Wanted::Is(value), _) => value.replace('\\', "\\\\").replace(']', "\\]"),
                (Wanted::Between(from, u64::MAX), Some(Scheme::Percent)) => from.to_string(),
                (Wanted::Between(from, to), scheme) => {
                    let scheme = scheme.unwrap_or(Scheme::Percent);
                    let to = if *to == u64::MAX { String::new() } else { text_of(*to, scheme) };
                    format!("{}..{to}", text_of(*from, scheme))
                }
            };
            write!(f, "[{}={value}]", field.name())?;
        }
        self.breakdown.map_or(Ok(()), |field| write!(f, "[{}]", field.name()))
    }
}

impl Name {
    /// The same without predicates and breakdown.
    pub fn raw(&self) -> String {
        format!("{}.{}", self.module, self.stat)
    }

    /// Narrowed down to one value of its breakdown, and broken down by another field.
    pub fn drill(&self, wanted: Wanted, by: Option<Field>) -> Self {
        let mut out = self.clone();
        if let Some(field) = out.breakdown.take() {
            out.predicates.retain(|p| p.field != field);
            out.predicates.push(Predicate { field, wanted });
        }
        out.breakdown = by;
        out
    }
}

impl Serialize for Name {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_of_the_appliance_are_read_and_written_alike() {
        for name in [
            "nfs3.ops",
            "nfs3.ops[op]",
            "nfs3.ops[op=read][client]",
            "arc.accesses[hit/miss]",
            "io.disks[utilization=95][disk]",
            "nfs4-1.bytes[share=tank/home][file=/a \\[x\\]/b\\\\c][latency]",
            "nfs3.ops[latency=1ms..2ms][size=8K..][offset]",
        ] {
            let read: Name = name.parse().expect(name);
            assert_eq!(read.to_string().parse::<Name>().as_ref(), Ok(&read), "{name}");
        }
        let name: Name = "nfs3.ops[op=read][client]".parse().expect("right");
        assert_eq!(name.to_string(), "nfs3.ops[op=read][client]");
        let next = name.drill(Wanted::Is("deimos".to_owned()), Some(Field::File));
        assert_eq!(next.to_string(), "nfs3.ops[op=read][client=deimos][file]");
        let name: Name = "nfs3.ops[latency=104us]".parse().expect("right");
        assert_eq!(name.to_string(), "nfs3.ops[latency=100us..110us]");
    }

    #[test]
    fn a_bad_name_says_where_and_what() {
        for (name, at, wrong) in [
            ("nfs3", 4, "expected MODULE.STATISTIC"),
            ("nfs3.ops[op", 8, "']' is missing"),
            ("nfs3.ops[op][client]", 12, "nothing may follow the breakdown"),
            ("nfs3.ops[colour]", 8, "unknown field 'colour'"),
            ("nfs3.ops[latency=fast]", 8, "'fast' is not a number"),
            ("nfs3.ops[size=2K..1K]", 8, "empty range"),
            ("nfs3.ops[op=a]x", 14, "expected '['"),
            ("NFS.ops", 0, "lower-case"),
        ] {
            let bad = name.parse::<Name>().expect_err(name);
            assert_eq!(bad.at, at, "{bad}");
            assert!(bad.wrong.contains(wrong), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn nothing_that_is_typed_ends_in_a_panic_and_what_is_read_is_written_back(text in "[a-z.=\\[\\]\\\\0-9/]{0,40}") {
            if let Ok(name) = text.parse::<Name>() {
                prop_assert_eq!(name.to_string().parse::<Name>(), Ok(name));
            }
        }

        #[test]
        fn any_value_survives(value in ".{0,60}") {
            let name = Name {
                module: "nfs3".to_owned(),
                stat: "ops".to_owned(),
                predicates: vec![Predicate { field: Field::File, wanted: Wanted::Is(value) }],
                breakdown: Some(Field::Latency),
            };
            prop_assert_eq!(name.to_string().parse::<Name>(), Ok(name));
        }
    }
}
