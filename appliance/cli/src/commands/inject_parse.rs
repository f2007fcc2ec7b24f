//! The options of `weir inject`, before anything is looked up in a pool.

use block::inject::{DataError, DataRule};
use clap::ArgMatches;
use host::device::faults::{Area, Operation, Outcome, Rule, errno};
use ondisk::label::{BOOTENV_OFFSET, CONFIG_OFFSET, LABEL_BYTES, LABELS, RING_OFFSET, label_offset};
use ondisk::{Dnode, ObjectType};
use std::ops::RangeInclusive;
use std::time::Duration;

/// Options of zinject that are not supported.
pub const MISSING: &[char] = &['E', 'F', 'I', 'g', 'i', 'm', 'p', 'P', 's', 'u'];

/// Options of a rule.
const RULE: [char; 12] = ['d', 'e', 'T', 'f', 'L', 'D', 't', 'l', 'r', 'b', 'C', 'A'];

/// A parsed command line.
#[derive(Debug, Clone, PartialEq)]
pub enum Wanted {
    /// List the rules of all pools.
    List,
    /// Remove a rule, or all.
    Clear(Option<u64>),
    /// Flush the cache of a pool, or of all.
    Flush {
        /// Name of the pool.
        pool: Option<String>,
    },
    /// Set the state of a device, without a rule.
    Mark {
        /// Name of the pool.
        pool: String,
        /// Name of the device.
        device: String,
        mark: Mark,
    },
    /// Add a rule to a pool.
    Add {
        /// Name of the pool.
        pool: String,
        what: What,
        /// Flush the cache afterwards.
        flush: bool,
        /// Print only the number of the rule.
        quiet: bool,
    },
}

/// A state that a diagnosis gives to a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// It has errors, and is used further.
    Degraded,
    /// It is no longer used.
    Faulted,
}

/// Target and fault of a rule, in the user's terms.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// A device: all of it, or a part of its labels.
    Device {
        /// Name of the device.
        name: String,
        /// The fault; without the device's guid.
        rule: Rule,
        /// Part of its labels.
        region: Option<Region>,
    },
    /// Blocks given by numbers.
    Blocks(DataRule),
    /// Blocks of a file or volume.
    Object {
        dataset: String,
        /// Path of the file; `None` for a volume.
        path: Option<Vec<u8>>,
        /// The block with its dnode instead of its contents.
        dnode: bool,
        /// Level of the blocks; 0 is data.
        level: i64,
        /// Range of bytes in the object, inclusive.
        bytes: Option<RangeInclusive<u64>>,
        /// As [`DataRule::copies`].
        copies: u8,
        /// Error that is reported.
        error: DataError,
        /// How often it fails, in parts per million.
        per_million: u32,
    },
}

/// A part of each label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    start: u64,
    end: u64,
}

impl Region {
    fn parse(name: &str) -> Result<Self, String> {
        let (start, end) = match name {
            "pad1" => (0, BOOTENV_OFFSET),
            "pad2" => (BOOTENV_OFFSET, CONFIG_OFFSET),
            "nvlist" => (CONFIG_OFFSET, RING_OFFSET),
            "uber" => (RING_OFFSET, LABEL_BYTES),
            _ => return Err(format!("unknown label part '{name}': expected nvlist, uber, pad1 or pad2")),
        };
        Ok(Self { start, end })
    }

    /// The areas on a device of this size.
    pub fn areas(self, size_bytes: u64) -> Vec<Area> {
        let labels = (0..LABELS).filter_map(|index| label_offset(size_bytes, index));
        labels.map(|at| Area { start: at + self.start, end: at + self.end }).collect()
    }
}

impl Wanted {
    /// The affected pool; `None`: all.
    pub fn pool(&self) -> Option<&str> {
        match self {
            Self::List | Self::Clear(_) => None,
            Self::Flush { pool } => pool.as_deref(),
            Self::Add { pool, .. } | Self::Mark { pool, .. } => Some(pool),
        }
    }
}

fn text(matches: &ArgMatches, letter: char) -> Option<&str> {
    matches.get_one::<String>(&letter.to_string()).map(String::as_str)
}

fn targets(matches: &ArgMatches) -> Vec<&str> {
    matches.get_many::<String>("target").into_iter().flatten().map(String::as_str).collect()
}

/// The command line for the process that has the pool imported.
pub fn line(matches: &ArgMatches) -> Vec<String> {
    let mut line = vec!["inject".to_owned()];
    for letter in std::iter::once('c').chain(RULE) {
        line.extend(text(matches, letter).map(|value| format!("-{letter}{value}")));
    }
    let flags = ['a', 'q'].into_iter().filter(|letter| matches.get_flag(&letter.to_string()));
    line.extend(flags.map(|letter| format!("-{letter}")));
    line.push("--".to_owned());
    line.extend(targets(matches).into_iter().map(str::to_owned));
    line
}

/// Parses the options. An error is a message for the user.
pub fn wanted(matches: &ArgMatches) -> Result<Wanted, String> {
    if let Some(letter) = MISSING.iter().find(|letter| matches.contains_id(&letter.to_string())) {
        return Err(format!("unsupported: '-{letter}' of zinject"));
    }
    let targets = targets(matches);
    if let Some(id) = text(matches, 'c') {
        let others = RULE.into_iter().find(|o| text(matches, *o).is_some());
        if !targets.is_empty() || others.is_some() {
            return Err("-c cannot be combined with other options".to_owned());
        }
        return match id {
            "all" => Ok(Wanted::Clear(None)),
            id => id.parse().map(|id| Wanted::Clear(Some(id))).map_err(|_| format!("invalid rule number '{id}'")),
        };
    }
    let kinds = ['d', 't', 'b'].into_iter().filter(|kind| text(matches, *kind).is_some()).count();
    let (flush, quiet) = (matches.get_flag("a"), matches.get_flag("q"));
    if let Some(state) = text(matches, 'A') {
        let others = RULE.into_iter().filter(|o| !matches!(o, 'd' | 'A')).find(|o| text(matches, *o).is_some());
        let (Some(device), [pool], None) = (text(matches, 'd'), targets.as_slice(), others) else {
            return Err("-A requires a device (-d) and a pool, and no other option".to_owned());
        };
        let mark = match state {
            "degrade" => Mark::Degraded,
            "fault" => Mark::Faulted,
            _ => return Err(format!("unknown state '{state}': expected degrade or fault")),
        };
        return Ok(Wanted::Mark { pool: (*pool).to_owned(), device: device.to_owned(), mark });
    }
    match (kinds, targets.as_slice()) {
        (0, []) if !flush => Ok(Wanted::List),
        (0, []) => Ok(Wanted::Flush { pool: None }),
        (0, [pool]) if flush => Ok(Wanted::Flush { pool: Some((*pool).to_owned()) }),
        (0, _) => Err("one of -d, -t or -b is required".to_owned()),
        (1, [target]) => {
            let (pool, what) = rule(matches, target)?;
            Ok(Wanted::Add { pool, what, flush, quiet })
        }
        (1, []) => Err("the pool is missing".to_owned()),
        (1, _) => Err("only one pool or object can be given".to_owned()),
        _ => Err("-d, -t and -b are mutually exclusive".to_owned()),
    }
}

fn refuse(matches: &ArgMatches, letters: &[char], with: char) -> Result<(), String> {
    match letters.iter().find(|letter| text(matches, **letter).is_some()) {
        Some(letter) => Err(format!("-{letter} cannot be combined with -{with}")),
        None => Ok(()),
    }
}

fn rule(matches: &ArgMatches, target: &str) -> Result<(String, What), String> {
    let per_million = text(matches, 'f').map_or(Ok(1_000_000), frequency)?;
    if let Some(name) = text(matches, 'd') {
        refuse(matches, &['l', 'r', 'C'], 'd')?;
        let (mut operations, outcome) = match text(matches, 'D') {
            Some(slow) => {
                refuse(matches, &['e', 'L'], 'D')?;
                (Vec::new(), slowness(slow)?)
            }
            None => device_error(text(matches, 'e').unwrap_or("nxio"))?,
        };
        if let Some(list) = text(matches, 'T') {
            operations = self::operations(list)?;
        }
        let needs = |of: Operation, what: &str| match operations.as_slice() {
            [] => Ok(()),
            some if some.contains(&of) => Ok(()),
            _ => Err(format!("'{what}' applies to {} and requires -T {}", name_of(of), name_of(of))),
        };
        match outcome {
            Outcome::Flipped => needs(Operation::Read, "corrupt")?,
            Outcome::Torn => needs(Operation::Write, "torn")?,
            _ => {}
        }
        let region = text(matches, 'L').map(Region::parse).transpose()?;
        let rule = Rule { device: 0, operations, areas: Vec::new(), with_placeless: false, per_million, outcome };
        return Ok((target.to_owned(), What::Device { name: name.to_owned(), rule, region }));
    }
    refuse(matches, &['L', 'D'], if text(matches, 'b').is_some() { 'b' } else { 't' })?;
    if let Some(list) = text(matches, 'T')
        && !matches!(list, "read" | "all")
    {
        return Err(format!("only reads of blocks fail, not '{list}'"));
    }
    let error = data_error(text(matches, 'e').unwrap_or("io"))?;
    let copies = text(matches, 'C').map_or(Ok(0), self::copies)?;
    if copies != 0 && matches!(error, DataError::Decompress | DataError::Decrypt) {
        return Err(format!("-C cannot be combined with -e {}", data_error_name(error)));
    }
    let level = text(matches, 'l').map_or(Ok(0), |l| l.parse().map_err(|_| format!("invalid level '{l}'")))?;
    if let Some(mark) = text(matches, 'b') {
        refuse(matches, &['l', 'r'], 'b')?;
        return Ok((target.to_owned(), What::Blocks(DataRule { copies, ..bookmark(mark, error, per_million)? })));
    }
    let bytes = text(matches, 'r').map(range).transpose()?;
    let kind = text(matches, 't').unwrap_or_default();
    if matches!(kind, "data" | "dnode") {
        if kind == "dnode" && bytes.is_some() {
            return Err("-r cannot be used with type dnode".to_owned());
        }
        // Everything before `:/` is the dataset, whose name may contain colons but not `:/`.
        let (dataset, path) = match target.split_once(":/") {
            Some((dataset, path)) => (dataset, Some(format!("/{path}").into_bytes())),
            None => (target, None),
        };
        let pool = dataset.split(['/', '@']).next().unwrap_or(dataset).to_owned();
        let dataset = dataset.to_owned();
        let dnode = kind == "dnode";
        return Ok((pool, What::Object { dataset, path, dnode, level, bytes, copies, error, per_million }));
    }
    if bytes.is_some() {
        return Err(format!("-r cannot be used with type {kind}"));
    }
    let kind = mos_type(kind)?;
    let rule = DataRule { objset: 0, object: None, kind, level, blocks: 0..=u64::MAX, copies, error, per_million };
    Ok((target.to_owned(), What::Blocks(rule)))
}

fn mos_type(name: &str) -> Result<Option<ObjectType>, String> {
    Ok(Some(match name {
        "mos" => return Ok(None),
        "mosdir" => ObjectType::OBJECT_DIRECTORY,
        "metaslab" => ObjectType::OBJECT_ARRAY,
        "config" => ObjectType::PACKED_NVLIST,
        "bpobj" => ObjectType::BPOBJ,
        "spacemap" => ObjectType::SPACE_MAP,
        "errlog" => ObjectType::ERROR_LOG,
        _ => {
            return Err(format!(
                "unknown type '{name}': expected data, dnode, mos, mosdir, metaslab, config, bpobj, spacemap or errlog"
            ));
        }
    }))
}

fn frequency(text: &str) -> Result<u32, String> {
    let percent = text.trim_end_matches('%').parse::<f64>().ok().filter(|p| (0.0001..=100.0).contains(p));
    let percent = percent.ok_or_else(|| format!("invalid frequency '{text}': expected 0.0001 to 100 percent"))?;
    Ok((percent * 10_000.0).round() as u32)
}

fn slowness(text: &str) -> Result<Outcome, String> {
    let both =
        text.split_once(':').and_then(|(ms, lanes)| Some((ms.parse::<u64>().ok()?, lanes.parse::<usize>().ok()?)));
    let both = both.filter(|(ms, lanes)| (1..=3_600_000).contains(ms) && (1..=1024).contains(lanes));
    let (ms, lanes) = both.ok_or_else(|| format!("invalid delay '{text}': expected MILLISECONDS:LANES"))?;
    Ok(Outcome::Slow { latency: Duration::from_millis(ms), lanes })
}

fn device_error(name: &str) -> Result<(Vec<Operation>, Outcome), String> {
    const ALL: [Operation; 5] =
        [Operation::Read, Operation::Write, Operation::Flush, Operation::Trim, Operation::Probe];
    Ok(match name {
        "nxio" => (ALL.to_vec(), Outcome::Failed(errno::ENXIO)),
        "io" => (Vec::new(), Outcome::Failed(errno::EIO)),
        "io-prefail" => (Vec::new(), Outcome::Prevented(errno::EIO)),
        "noop" => (vec![Operation::Write, Operation::Flush, Operation::Trim], Outcome::Ignored),
        "corrupt" => (vec![Operation::Read], Outcome::Flipped),
        "torn" => (vec![Operation::Write], Outcome::Torn),
        "dtl" => return Err("unsupported: '-e dtl'".to_owned()),
        _ => {
            return Err(format!("unknown device error '{name}': expected nxio, io, io-prefail, corrupt, noop or torn"));
        }
    })
}

/// Word for a fault.
pub fn error_name(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Failed(errno::ENXIO) => "nxio",
        Outcome::Failed(_) => "io",
        Outcome::Prevented(_) => "io-prefail",
        Outcome::Ignored => "noop",
        Outcome::Flipped => "corrupt",
        Outcome::Torn => "torn",
        Outcome::Slow { .. } => "slow",
    }
}

fn operations(list: &str) -> Result<Vec<Operation>, String> {
    let mut found = Vec::new();
    for name in list.split(',') {
        found.push(match name {
            "read" => Operation::Read,
            "write" => Operation::Write,
            "flush" => Operation::Flush,
            "trim" => Operation::Trim,
            "probe" => Operation::Probe,
            "all" => return Ok(Vec::new()),
            "free" | "claim" => return Err(format!("unsupported: '-T {name}': devices have no such operation")),
            _ => return Err(format!("unknown operation '{name}': expected read, write, flush, trim, probe or all")),
        });
    }
    Ok(found)
}

fn name_of(operation: Operation) -> &'static str {
    match operation {
        Operation::Read => "read",
        Operation::Write => "write",
        Operation::Flush => "flush",
        Operation::Trim => "trim",
        Operation::Probe => "probe",
    }
}

/// Words for the operations of a rule.
pub fn operations_name(operations: &[Operation]) -> String {
    match operations.len() {
        0 | 5.. => "all".to_owned(),
        _ => operations.iter().map(|o| name_of(*o)).collect::<Vec<_>>().join(","),
    }
}

fn data_error(name: &str) -> Result<DataError, String> {
    Ok(match name {
        "io" => DataError::Io,
        "checksum" => DataError::Checksum,
        "decompress" => DataError::Decompress,
        "decrypt" => DataError::Decrypt,
        _ => return Err(format!("unknown block error '{name}': expected io, checksum, decompress or decrypt")),
    })
}

/// Word for a data error.
pub fn data_error_name(error: DataError) -> &'static str {
    match error {
        DataError::Io => "io",
        DataError::Checksum => "checksum",
        DataError::Decompress => "decompress",
        DataError::Decrypt => "decrypt",
    }
}

/// `all`, or the first and the last block.
pub fn range_name(blocks: &RangeInclusive<u64>) -> String {
    match (*blocks.start(), *blocks.end()) {
        (0, u64::MAX) => "all".to_owned(),
        (first, last) => format!("[{first}, {last}]"),
    }
}

fn bookmark(text: &str, error: DataError, per_million: u32) -> Result<DataRule, String> {
    let wrong = || format!("invalid blocks '{text}': expected OBJSET:OBJECT:LEVEL:BLOCK[-BLOCK] in hexadecimal");
    let number = |part: &str| u64::from_str_radix(part, 16).map_err(|_| wrong());
    let parts: Vec<&str> = text.split(':').collect();
    let (objset, object, level, first, last) = match parts.as_slice() {
        [objset, object, level, blocks] => {
            let (first, last) = blocks.split_once('-').unwrap_or((blocks, blocks));
            (objset, object, level, first, last)
        }
        _ => return Err(wrong()),
    };
    let blocks = number(first)?..=number(last)?;
    let level = i64::from_str_radix(level, 16).map_err(|_| wrong())?;
    Ok(DataRule {
        objset: number(objset)?,
        object: Some(number(object)?),
        kind: None,
        level,
        blocks,
        copies: 0,
        error,
        per_million,
    })
}

/// Parses numbers of addresses, separated by commas.
fn copies(list: &str) -> Result<u8, String> {
    let wrong = || format!("invalid copies '{list}': expected numbers from 0 to 2, separated by commas");
    list.split(',').try_fold(0, |found, number| {
        let bit = match number {
            "0" => 1,
            "1" => 2,
            "2" => 4,
            _ => return Err(wrong()),
        };
        if found & bit == 0 { Ok(found | bit) } else { Err(wrong()) }
    })
}

/// The copies of a rule as in the option.
pub fn copies_name(copies: u8) -> String {
    let numbers = (0..3).filter(|number| copies & (1 << number) != 0).map(|number: u8| number.to_string());
    if copies == 0 { "-".to_owned() } else { numbers.collect::<Vec<_>>().join(",") }
}

fn range(text: &str) -> Result<RangeInclusive<u64>, String> {
    let wrong = || format!("invalid range '{text}': expected START[,END]");
    let bytes = |part: &str| if part == "0" { Ok(0) } else { crate::source::size(part).map_err(|_| wrong()) };
    match text.split_once(',') {
        None => bytes(text).map(|at| at..=at),
        Some((start, end)) => {
            let (start, end) = (bytes(start)?, bytes(end)?);
            if start >= end { Err(wrong()) } else { Ok(start..=end - 1) }
        }
    }
}

/// The blocks of an object at a level that contain these bytes.
pub fn blocks(dnode: &Dnode, level: i64, bytes: Option<RangeInclusive<u64>>) -> anyhow::Result<RangeInclusive<u64>> {
    anyhow::ensure!((0..i64::from(dnode.levels)).contains(&level), "the object has {} levels", dnode.levels);
    let Some(bytes) = bytes else { return Ok(0..=u64::MAX) };
    // A block pointer has 128 bytes.
    let pointers = 1u64.checked_shl(u32::from(dnode.indirect_shift).saturating_sub(7)).unwrap_or(u64::MAX);
    let mut size = u64::from(dnode.data_block_bytes.max(1));
    for _ in 0..level {
        size = size.saturating_mul(pointers);
    }
    Ok(bytes.start() / size..=bytes.end() / size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Result<Wanted, String> {
        let words = std::iter::once("inject").chain(line.split_whitespace());
        let matches = super::super::inject::command().try_get_matches_from(words).map_err(|e| e.to_string())?;
        let wanted = wanted(&matches)?;
        // The forwarded command line has the same meaning.
        let again =
            super::super::inject::command().try_get_matches_from(super::line(&matches)).expect("a command line");
        assert_eq!(super::wanted(&again).as_ref(), Ok(&wanted), "{line}");
        Ok(wanted)
    }

    #[test]
    fn options_have_the_meaning_of_zinject() {
        assert_eq!(parse_line(""), Ok(Wanted::List));
        assert_eq!(parse_line("-c all"), Ok(Wanted::Clear(None)));
        assert_eq!(parse_line("-c 7"), Ok(Wanted::Clear(Some(7))));
        assert_eq!(parse_line("-a tank"), Ok(Wanted::Flush { pool: Some("tank".into()) }));
        assert_eq!(parse_line("-a"), Ok(Wanted::Flush { pool: None }));
        let degraded = Wanted::Mark { pool: "tank".into(), device: "sda".into(), mark: Mark::Degraded };
        assert_eq!(parse_line("-d sda -A degrade tank"), Ok(degraded));
        let Ok(Wanted::Add { what: What::Object { copies, error, .. }, flush, .. }) =
            parse_line("-a -t data -T read -C 0,2 -e io tank/a:/b")
        else {
            panic!("a file")
        };
        assert_eq!((copies, error, flush), (0b101, DataError::Io, true));
        assert_eq!(copies_name(copies), "0,2");
        let Ok(Wanted::Add { pool, what: What::Device { name, rule, region }, .. }) =
            parse_line("-d sda -e io -T write,flush -f 0.5 tank")
        else {
            panic!("a device")
        };
        assert_eq!((pool.as_str(), name.as_str(), region), ("tank", "sda", None));
        assert_eq!((rule.operations.len(), rule.per_million, rule.outcome), (2, 5000, Outcome::Failed(errno::EIO)));
        let Ok(Wanted::Add { what: What::Device { rule, .. }, .. }) = parse_line("-d sda -D 25:2 -T read tank") else {
            panic!("a slow device")
        };
        assert_eq!(rule.outcome, Outcome::Slow { latency: Duration::from_millis(25), lanes: 2 });
        let Ok(Wanted::Add { pool, what: What::Object { dataset, path, bytes, error, .. }, .. }) =
            parse_line("-t data -e checksum -r 64K,128K tank/a:b:/c/d")
        else {
            panic!("a file")
        };
        assert_eq!((pool.as_str(), dataset.as_str(), path.as_deref()), ("tank", "tank/a:b", Some(&b"/c/d"[..])));
        assert_eq!((bytes, error), (Some(65536..=131_071), DataError::Checksum));
        let Ok(Wanted::Add { what: What::Blocks(rule), .. }) = parse_line("-b 36:2:0:a-1f tank") else {
            panic!("blocks")
        };
        assert_eq!((rule.objset, rule.object, rule.blocks), (0x36, Some(2), 10..=31));
        assert!(matches!(parse_line("-t spacemap tank"), Ok(Wanted::Add { what: What::Blocks(_), .. })));
    }

    #[test]
    fn invalid_rules_are_refused_and_missing_parts_named() {
        for line in [
            "-d sda",
            "tank",
            "-d sda -t data tank",
            "-c x",
            "-c 1 tank",
            "-d sda -f 101 tank",
            "-d sda -e checksum tank",
            "-d sda -e torn -T read tank",
            "-d sda -D 5 tank",
            "-d sda -L pad3 tank",
            "-t nothing tank",
            "-b 1:2:3 tank",
            "-t dnode -r 0,5 tank/a:/b",
            "-t data -T write tank/a:/b",
            "-t data -C 3 tank/a:/b",
            "-t data -C 0,0 tank/a:/b",
            "-t data -C 0, tank/a:/b",
            "-t data -C 0 -e decrypt tank/a:/b",
            "-d sda -C 0 tank",
            "-A degrade tank",
            "-d sda -A degrade -e io tank",
            "-d sda -A online tank",
            "-t data -r 5,5 tank/a:/b",
        ] {
            assert!(parse_line(line).is_err(), "{line}");
        }
        assert_eq!(parse_line("-I tank").unwrap_err(), "unsupported: '-I' of zinject");
        assert_eq!(parse_line("-d sda -e dtl tank").unwrap_err(), "unsupported: '-e dtl'");
    }

    #[test]
    fn parts_of_labels_are_in_all_four() {
        let areas = Region::parse("uber").expect("a part").areas(64 << 20);
        assert_eq!(areas.len(), 4);
        assert_eq!(areas[1], Area { start: (256 + 128) << 10, end: 512 << 10 });
    }
}
