//! The archive: statistics of the last weeks in an embedded database, one file.
//!
//! ```text
//! datasets  id -> definition (JSON)          words  number -> text
//! parts     dataset, tier, first second -> some columns, as they came
//! blocks    dataset, tier, first second -> all columns of half an hour, a day, a month, packed
//!           (see `block`)
//! ```
//!
//! Columns arrive in parts of some seconds. When the time of their block is over, they are packed
//! into it and the parts are deleted. Minutes and hours are sums of seconds, built when they end:
//! sums are exact in every tier.
//!
//! Invariants:
//!   * a commit is atomic; a crash loses only what came since the last commit
//!   * columns of the same second are added when read: a minute interrupted by a restart is
//!     complete again
//!   * an unreadable file is moved aside, with a warning, and a new one created: the archive never
//!     prevents the program from starting

use crate::block::{pack, unpack};
use crate::column::{Column, OTHER, UNRECORDED, put, take};
use crate::scheme::Scheme;
use parking_lot::Mutex;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

type Key = (u32, u8, u64);

const DATASETS: TableDefinition<'_, u32, &[u8]> = TableDefinition::new("datasets");
const WORDS: TableDefinition<'_, u32, &str> = TableDefinition::new("words");
const PARTS: TableDefinition<'_, Key, &[u8]> = TableDefinition::new("parts");
const BLOCKS: TableDefinition<'_, Key, &[u8]> = TableDefinition::new("blocks");
/// Cache size of the database in bytes.
const CACHE: usize = 8 << 20;
/// How long to wait for another process that has the database open.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum number of words; further ones are counted as "other".
const WORDS_MAX: u32 = 1 << 20;

/// Length of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    Second,
    Minute,
    Hour,
}

impl Tier {
    /// All tiers, the finest first.
    pub const ALL: [Self; 3] = [Self::Second, Self::Minute, Self::Hour];

    /// Length of a column in seconds.
    pub fn span(self) -> u64 {
        match self {
            Self::Second => 1,
            Self::Minute => 60,
            Self::Hour => 3600,
        }
    }

    /// Length of a block in seconds.
    fn block(self) -> u64 {
        match self {
            Self::Second => 1800,
            Self::Minute => 86_400,
            Self::Hour => 30 * 86_400,
        }
    }
}

/// An archived statistic, stored as JSON in the table `datasets`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    /// Number of the statistic in the archive.
    pub id: u32,
    /// Name of the statistic.
    pub name: String,
    /// Creation time in seconds since 1970.
    pub created: u64,
    /// Whether counting is suspended.
    pub suspended: bool,
}

/// A column to be archived.
#[derive(Debug, Clone)]
pub struct Row {
    /// Number of the statistic.
    pub dataset: u32,
    pub tier: Tier,
    /// Start in seconds since 1970.
    pub start: u64,
    pub column: Column,
}

#[derive(Default)]
struct Words {
    texts: Vec<Arc<str>>,
    numbers: FxHashMap<Arc<str>, u32>,
    /// Number of words that are in the file.
    saved: usize,
}

/// The database of archived statistics.
pub struct Archive {
    db: Database,
    words: Mutex<Words>,
}

fn other(error: impl Into<redb::Error>) -> io::Error {
    match error.into() {
        redb::Error::Io(error) => error,
        error => io::Error::other(error),
    }
}

impl Archive {
    /// Opens the database in a file, or creates it. Waits a moment if another process has it open:
    /// one that is exiting, or one that inherited its open files, releases it soon.
    pub fn open(path: &Path) -> io::Result<Self> {
        let patience = Instant::now() + PATIENCE;
        let opened = loop {
            match Self::try_open(path) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < patience => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                done => break done,
            }
        };
        match opened {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock && path.exists() => {
                let aside = path.with_extension("damaged");
                let (shown, moved) = (path.display(), aside.display());
                tracing::warn!(file = %shown, %error, moved_to = %moved, "cannot read the archive of statistics; starting a new one");
                std::fs::rename(path, &aside)?;
                Self::try_open(path)
            }
            done => done,
        }
    }

    /// An archive in memory, which is lost when the process ends.
    pub fn in_memory() -> io::Result<Self> {
        let backend = redb::backends::InMemoryBackend::new();
        Self::begin(redb::Builder::new().set_cache_size(CACHE).create_with_backend(backend).map_err(other)?)
    }

    fn try_open(path: &Path) -> io::Result<Self> {
        // The data contains names of files and users, so others get no access. The database treats
        // an empty file as a new one.
        File::options().write(true).create(true).truncate(false).mode(0o600).open(path)?;
        let db = match redb::Builder::new().set_cache_size(CACHE).create(path) {
            Err(redb::DatabaseError::DatabaseAlreadyOpen) => {
                let wrong = format!("{} is in use by another process", path.display());
                return Err(io::Error::new(io::ErrorKind::WouldBlock, wrong));
            }
            done => done.map_err(other)?,
        };
        Self::begin(db)
    }

    fn begin(db: Database) -> io::Result<Self> {
        let write = db.begin_write().map_err(other)?;
        write.open_table(DATASETS).map_err(other)?;
        write.open_table(PARTS).map_err(other)?;
        write.open_table(BLOCKS).map_err(other)?;
        let mut words = Words::default();
        for entry in write.open_table(WORDS).map_err(other)?.iter().map_err(other)? {
            let (_, text) = entry.map_err(other)?;
            words.push(text.value());
        }
        words.saved = words.texts.len();
        write.commit().map_err(other)?;
        Ok(Self { db, words: Mutex::new(words) })
    }

    /// The number of a word, assigned on first use.
    pub fn word(&self, text: &str) -> u32 {
        let mut words = self.words.lock();
        match words.numbers.get(text) {
            Some(number) => *number,
            None if words.texts.len() >= WORDS_MAX as usize => OTHER,
            None => words.push(text),
        }
    }

    /// The word with this number.
    pub fn text(&self, number: u32) -> Arc<str> {
        match number {
            OTHER => "<other>".into(),
            UNRECORDED => "<not recorded>".into(),
            number => self.words.lock().texts.get(number as usize).cloned().unwrap_or_else(|| "<unknown>".into()),
        }
    }

    /// Definitions of all archived statistics, read from the database.
    pub fn definitions(&self) -> io::Result<Vec<Definition>> {
        let read = self.db.begin_read().map_err(other)?;
        let table = read.open_table(DATASETS).map_err(other)?;
        let all = table.iter().map_err(other)?.map(|entry| {
            let (_, json) = entry.map_err(other)?;
            serde_json::from_slice(json.value()).map_err(io::Error::other)
        });
        all.collect()
    }

    /// Stores a new or changed definition.
    pub fn define(&self, definition: &Definition) -> io::Result<()> {
        let json = serde_json::to_vec(definition).map_err(io::Error::other)?;
        self.change(|write| {
            write.open_table(DATASETS).map_err(other)?.insert(definition.id, json.as_slice()).map_err(other)?;
            Ok(())
        })
    }

    /// Deletes a statistic and all of its columns.
    pub fn destroy(&self, id: u32) -> io::Result<()> {
        self.change(|write| {
            write.open_table(DATASETS).map_err(other)?.remove(id).map_err(other)?;
            for table in [PARTS, BLOCKS] {
                let mut table = write.open_table(table).map_err(other)?;
                table.retain_in((id, 0, 0)..=(id, u8::MAX, u64::MAX), |_, _| false).map_err(other)?;
            }
            Ok(())
        })
    }

    fn change(&self, change: impl FnOnce(&WriteTransaction) -> io::Result<()>) -> io::Result<()> {
        let write = self.db.begin_write().map_err(other)?;
        change(&write)?;
        write.commit().map_err(other)
    }

    /// Stores columns, and the words they refer to. Rows of one dataset and tier must be ascending.
    pub fn append(&self, rows: &[Row]) -> io::Result<()> {
        let mut parts: BTreeMap<Key, (u64, Vec<u8>)> = BTreeMap::new();
        for row in rows {
            let block = row.start - row.start % row.tier.block();
            // A part is within one block. The block's start separates the parts of two blocks.
            let last = parts.range((row.dataset, row.tier as u8, block)..=(row.dataset, row.tier as u8, row.start));
            let key = last.last().map_or((row.dataset, row.tier as u8, row.start), |(key, _)| *key);
            let (before, bytes) = parts.entry(key).or_insert((row.start, Vec::new()));
            put(bytes, row.start.saturating_sub(*before));
            row.column.encode(bytes);
            *before = row.start;
        }
        let (first, new) = {
            let words = self.words.lock();
            (words.saved, words.texts.get(words.saved..).unwrap_or_default().to_vec())
        };
        self.change(|write| {
            let mut table = write.open_table(WORDS).map_err(other)?;
            for (n, text) in new.iter().enumerate() {
                table.insert(u32::try_from(first + n).unwrap_or(OTHER), &**text).map_err(other)?;
            }
            let mut table = write.open_table(PARTS).map_err(other)?;
            for (key, (_, mut bytes)) in parts {
                // The same second again, after the clock was set back: both count.
                let old = table.get(key).map_err(other)?.map(|old| old.value().to_vec());
                if let Some(old) = old {
                    let columns = read_part(&old, key.2)?.into_iter().chain(read_part(&bytes, key.2)?);
                    bytes = write_part(&merge(columns), key.2);
                }
                table.insert(key, bytes.as_slice()).map_err(other)?;
            }
            Ok(())
        })?;
        self.words.lock().saved = first + new.len();
        Ok(())
    }

    /// Packs the parts of blocks that have ended.
    pub fn seal(&self, id: u32, scheme: Option<Scheme>, now: u64) -> io::Result<()> {
        for tier in Tier::ALL {
            let over = now - now % tier.block();
            let range = (id, tier as u8, 0)..(id, tier as u8, over);
            let mut old: BTreeMap<u64, Vec<(u64, Column)>> = BTreeMap::new();
            {
                let read = self.db.begin_read().map_err(other)?;
                let table = read.open_table(PARTS).map_err(other)?;
                for entry in table.range(range.clone()).map_err(other)? {
                    let (key, bytes) = entry.map_err(other)?;
                    let (.., start) = key.value();
                    old.entry(start - start % tier.block()).or_default().extend(read_part(bytes.value(), start)?);
                }
            }
            if old.is_empty() {
                continue;
            }
            self.change(|write| {
                let mut blocks = write.open_table(BLOCKS).map_err(other)?;
                for (start, columns) in old {
                    let key = (id, tier as u8, start);
                    let before = blocks.get(key).map_err(other)?.map(|b| unpack(b.value(), scheme)).transpose()?;
                    let all = merge(before.into_iter().flatten().chain(columns));
                    blocks.insert(key, pack(&all, scheme)?.as_slice()).map_err(other)?;
                }
                let mut parts = write.open_table(PARTS).map_err(other)?;
                parts.retain_in(range, |_, _| false).map_err(other)
            })?;
        }
        Ok(())
    }

    /// The columns that start in `from..to`.
    pub fn read(
        &self,
        id: u32,
        tier: Tier,
        scheme: Option<Scheme>,
        from: u64,
        to: u64,
    ) -> io::Result<Vec<(u64, Column)>> {
        let first = from - from % tier.block();
        let range = (id, tier as u8, first)..(id, tier as u8, to.max(first));
        let read = self.db.begin_read().map_err(other)?;
        let mut all = Vec::new();
        for entry in read.open_table(BLOCKS).map_err(other)?.range(range.clone()).map_err(other)? {
            all.extend(unpack(entry.map_err(other)?.1.value(), scheme)?);
        }
        for entry in read.open_table(PARTS).map_err(other)?.range(range).map_err(other)? {
            let (key, bytes) = entry.map_err(other)?;
            all.extend(read_part(bytes.value(), key.value().2)?);
        }
        all.retain(|(start, _)| from <= *start && *start < to);
        Ok(merge(all.into_iter()))
    }

    /// The newest archived second of a statistic.
    pub fn newest(&self, id: u32, scheme: Option<Scheme>) -> io::Result<Option<u64>> {
        let range = (id, Tier::Second as u8, 0)..=(id, Tier::Second as u8, u64::MAX);
        let read = self.db.begin_read().map_err(other)?;
        let mut newest = None;
        for (table, packed) in [(PARTS, false), (BLOCKS, true)] {
            let table = read.open_table(table).map_err(other)?;
            let last = table.range(range.clone()).map_err(other)?.next_back();
            if let Some(entry) = last {
                let (key, bytes) = entry.map_err(other)?;
                let columns =
                    if packed { unpack(bytes.value(), scheme)? } else { read_part(bytes.value(), key.value().2)? };
                newest = newest.max(columns.last().map(|(second, _)| *second));
            }
        }
        Ok(newest)
    }

    /// Deletes the columns of a tier that start before a second.
    pub fn prune(&self, id: u32, tier: Tier, scheme: Option<Scheme>, before: u64) -> io::Result<()> {
        let range = (id, tier as u8, 0)..(id, tier as u8, before);
        {
            let read = self.db.begin_read().map_err(other)?;
            let none = read.open_table(BLOCKS).map_err(other)?.range(range.clone()).map_err(other)?.next().is_none()
                && read.open_table(PARTS).map_err(other)?.range(range.clone()).map_err(other)?.next().is_none();
            if none {
                return Ok(());
            }
        }
        self.change(|write| {
            for (table, packed) in [(PARTS, false), (BLOCKS, true)] {
                let mut table = write.open_table(table).map_err(other)?;
                let mut cut = Vec::new();
                for entry in table.range(range.clone()).map_err(other)? {
                    let (key, bytes) = entry.map_err(other)?;
                    let key = key.value();
                    if key.2 + tier.block() <= before {
                        continue;
                    }
                    let mut columns =
                        if packed { unpack(bytes.value(), scheme)? } else { read_part(bytes.value(), key.2)? };
                    columns.retain(|(start, _)| *start >= before);
                    if !columns.is_empty() {
                        cut.push((key, if packed { pack(&columns, scheme)? } else { write_part(&columns, key.2) }));
                    }
                }
                table.retain_in(range.clone(), |_, _| false).map_err(other)?;
                for (key, bytes) in cut {
                    table.insert(key, bytes.as_slice()).map_err(other)?;
                }
            }
            Ok(())
        })
    }

    /// Size of each statistic in the file, in bytes.
    pub fn sizes(&self) -> io::Result<FxHashMap<u32, u64>> {
        let read = self.db.begin_read().map_err(other)?;
        let mut out = FxHashMap::default();
        for table in [PARTS, BLOCKS] {
            for entry in read.open_table(table).map_err(other)?.iter().map_err(other)? {
                let (key, bytes) = entry.map_err(other)?;
                *out.entry(key.value().0).or_default() += bytes.value().len() as u64;
            }
        }
        Ok(out)
    }
}

impl Words {
    fn push(&mut self, text: &str) -> u32 {
        let number = u32::try_from(self.texts.len()).unwrap_or(OTHER);
        let text: Arc<str> = text.into();
        self.texts.push(text.clone());
        self.numbers.insert(text, number);
        number
    }
}

fn write_part(columns: &[(u64, Column)], start: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let mut before = start;
    for (at, column) in columns {
        put(&mut out, at.saturating_sub(before));
        column.encode(&mut out);
        before = *at;
    }
    out
}

fn read_part(mut bytes: &[u8], start: u64) -> io::Result<Vec<(u64, Column)>> {
    let mut out = Vec::new();
    let mut at = start;
    while !bytes.is_empty() {
        let step = take(&mut bytes);
        let column = Column::decode(&mut bytes);
        let (Some(next), Some(column)) = (step.and_then(|step| at.checked_add(step)), column) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a part of statistics is damaged"));
        };
        at = next;
        out.push((at, column));
    }
    Ok(out)
}

/// Sorts columns and adds those of the same second.
fn merge(columns: impl Iterator<Item = (u64, Column)>) -> Vec<(u64, Column)> {
    let mut out: BTreeMap<u64, Column> = BTreeMap::new();
    for (start, column) in columns {
        out.entry(start).or_default().merge(&column);
    }
    out.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::tests::columns;
    use proptest::prelude::*;

    fn rows(start: u64, columns: Vec<Column>) -> Vec<Row> {
        let row = |(n, column)| Row { dataset: 7, tier: Tier::Second, start: start + n as u64, column };
        columns.into_iter().enumerate().map(row).collect()
    }

    fn read(archive: &Archive) -> Vec<Column> {
        archive.read(7, Tier::Second, None, 0, u64::MAX).expect("read").into_iter().map(|(_, c)| c).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]
        #[test]
        fn archived_columns_survive_sealing_and_reopening(all in proptest::collection::vec(columns(), 1..30), cut in 0usize..30) {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("a");
            let start = 1_700_000_100 / 1800 * 1800 - 5;
            let archive = Archive::open(&path).expect("opened");
            let (first, second) = all.split_at(cut.min(all.len()));
            archive.append(&rows(start, first.to_vec())).expect("kept");
            archive.seal(7, None, start + 10).expect("sealed");
            archive.append(&rows(start + first.len() as u64, second.to_vec())).expect("kept");
            prop_assert_eq!(&read(&archive), &all);
            archive.seal(7, None, start + 1900).expect("sealed");
            prop_assert_eq!(&read(&archive), &all);
            drop(archive);
            let archive = Archive::open(&path).expect("opened");
            prop_assert_eq!(&read(&archive), &all);
            let before = start + all.len() as u64 / 2;
            archive.prune(7, Tier::Second, None, before).expect("pruned");
            prop_assert_eq!(&read(&archive)[..], &all[all.len() / 2..]);
            archive.destroy(7).expect("destroyed");
            prop_assert!(read(&archive).is_empty() && archive.sizes().expect("read").is_empty());
        }
    }

    #[test]
    fn names_and_definitions_survive_a_restart() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        let archive = Archive::open(&path).expect("opened");
        let numbers = [archive.word("deimos"), archive.word("phobos"), archive.word("deimos")];
        assert_eq!(numbers, [0, 1, 0]);
        let definition = Definition { id: 3, name: "nfs3.ops".to_owned(), created: 5, suspended: false };
        archive.define(&definition).expect("kept");
        archive.append(&[]).expect("kept");
        archive.word("not kept");
        assert_eq!(Archive::open(&path).err().map(|e| e.kind()), Some(io::ErrorKind::WouldBlock));
        drop(archive);
        let archive = Archive::open(&path).expect("opened");
        assert_eq!((&*archive.text(1), &*archive.text(2), &*archive.text(OTHER)), ("phobos", "<unknown>", "<other>"));
        assert_eq!((archive.word("phobos"), archive.definitions().expect("read")), (1, vec![definition]));
    }

    #[test]
    fn a_file_that_is_no_archive_is_put_aside() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.redb");
        std::fs::write(&path, vec![7; 100_000]).expect("written");
        let archive = Archive::open(&path).expect("a new one");
        archive.append(&rows(10, vec![Column::default()])).expect("kept");
        assert_eq!(std::fs::read(folder.path().join("a.damaged")).expect("renamed").len(), 100_000);
    }

    #[test]
    fn a_repeated_second_is_counted_twice() {
        let folder = tempfile::tempdir().expect("a folder");
        let archive = Archive::open(&folder.path().join("a")).expect("opened");
        let column = Column { total: 3, seconds: 1, ..Column::default() };
        for _ in 0..2 {
            archive.append(&rows(100, vec![column.clone(), column.clone()])).expect("kept");
        }
        assert_eq!(read(&archive).iter().map(|c| (c.total, c.seconds)).collect::<Vec<_>>(), [(6, 2), (6, 2)]);
    }
}
