//! Names of statistics, in the grammar of the Sun Storage 7000:
//!
//! ```text
//! module.statistic[field=value][field=value]…[breakdown]
//! nfs3.ops[op=write][client=10.0.0.7][latency]
//! ```
//!
//! Brackets with `=` are predicates; a last bracket without it is the breakdown. Without a
//! breakdown the statistic is raw. `]` and `\` in values are escaped with `\`. Numbers take a unit
//! and a range: `latency=1ms..2ms`, `size=8K`, `utilization=95` (which means 95 and more).

use crate::scheme::Scheme;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A property of operations, for breakdowns and predicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Field {
    /// Type of operation, such as `read`.
    Op,
    Client,
    User,
    /// Share, which is a dataset.
    Share,
    File,
    /// Time from request to reply.
    Latency,
    /// Size of the operation in bytes.
    Size,
    /// Offset in the file or on the device.
    Offset,
    /// Result of the cache lookup.
    #[serde(rename = "hit/miss")]
    HitMiss,
    /// Result: 0 or the error.
    Result,
    /// Time in the queue.
    QueueWait,
    /// Time waiting for the intent log.
    LogWait,
    /// Time waiting for a transaction group.
    TxgWait,
    /// Time waiting for devices.
    DiskWait,
    Pool,
    Disk,
    /// Utilization in percent.
    Utilization,
    /// Network device, such as `eth0`.
    Device,
    /// Direction: in or out.
    Direction,
    /// Processor mode: user, kernel, idle.
    Mode,
    Cpu,
    /// Phase of a transaction group.
    Phase,
    /// Component of the cache contents.
    Component,
    /// Class of device operations in the queue.
    Class,
    /// Host name of a client.
    Hostname,
    /// Volume, or a snapshot of one.
    Volume,
}

/// Fields with their names and titles.
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
    (Field::Class, "class", "class"),
    (Field::Hostname, "hostname", "host name"),
    (Field::Volume, "volume", "volume"),
];

impl Field {
    pub fn all() -> impl Iterator<Item = Self> {
        FIELDS.iter().map(|(field, ..)| *field)
    }

    /// The name used in names of statistics.
    pub fn name(self) -> &'static str {
        FIELDS.iter().find(|(field, ..)| *field == self).map_or("", |(_, name, _)| name)
    }

    /// The name used in titles.
    pub fn title(self) -> &'static str {
        FIELDS.iter().find(|(field, ..)| *field == self).map_or("", |(.., title)| title)
    }

    /// The scheme of its heat map, if it is numeric.
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

/// A bracket with `=`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Predicate {
    pub field: Field,
    pub wanted: Wanted,
}

/// The value in a bracket.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Wanted {
    /// Equal to this value.
    Is(String),
    /// A number in this range, upper bound exclusive.
    Between(u64, u64),
}

/// A parsed name of a statistic.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name {
    /// Part of the name before the dot, for example `nfs3`.
    pub module: String,
    /// Part of the name after the dot, for example `ops`.
    pub stat: String,
    /// Conditions that all counted operations meet.
    pub predicates: Vec<Predicate>,
    /// Field of the breakdown.
    pub breakdown: Option<Field>,
}

/// A syntax error in a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid statistic '{name}': at {at}: {wrong}")]
pub struct BadName {
    /// The name as given.
    pub name: String,
    /// Byte offset of the error.
    pub at: usize,
    /// The problem, and what was expected.
    pub wrong: String,
}

/// Maximum length in bytes: file paths are the longest values.
const LONGEST: usize = 8192;
/// Maximum number of predicates: more than there are fields make no sense.
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

/// The text up to the end of the bracket, and the rest.
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

/// `1ms..2ms`, `8K..`, `95` (the class that contains it; for percentages: 95 and more).
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

/// An integer with a unit of the scheme.
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

/// The shortest exact form of a number in a scheme.
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
    /// The name without predicates and breakdown.
    pub fn raw(&self) -> String {
        format!("{}.{}", self.module, self.stat)
    }

    /// Restricts the name to one value of its breakdown, with a new breakdown.
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
    fn the_error_of_a_bad_name_has_position_and_reason() {
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
        fn no_input_panics_and_parsed_names_are_formatted_back(text in "[a-z.=\\[\\]\\\\0-9/]{0,40}") {
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
