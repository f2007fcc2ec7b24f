//! Writes the pool's history: a ring of records in an object. The first records, about the pool's
//! creation, are kept forever.
//!
//! Source: module/zfs/spa_history.c.
//!
//! Invariants:
//!   * offsets in the header only grow; the position in the object is the offset modulo the ring
//!   * records that are overwritten are skipped as a whole

use super::spa::SyncTx;
use block::Class;
use errors::Result;
use object::{NewObject, Object};
use ondisk::history::{Header, keys, write_record};
use ondisk::nvlist::Nvlist;
use ondisk::pool_dir::directory;
use ondisk::{Endian, ObjectType, version};

/// Block size of the history (`SPA_OLD_MAXBLOCKSIZE`).
const BLOCK_BYTES: u32 = 128 << 10;
/// The ring has 0.1 % of the pool's size, within this range.
const RING_BYTES: std::ops::RangeInclusive<u64> = 128 << 10..=1 << 30;

impl SyncTx<'_> {
    /// Adds an internal event to the pool's history: `name` (`create`, `set` …), the dataset (name
    /// and object number), and a text.
    pub fn history(&self, name: &str, dataset: Option<(&str, u64)>, text: &str) -> Result<()> {
        let mut list = Nvlist::new();
        list.put(keys::TIME, self.shared.now());
        if let Some((name, id)) = dataset {
            list.put(keys::DATASET_NAME, name);
            list.put(keys::DATASET_ID, id);
        }
        list.put(keys::INTERNAL_NAME, name);
        list.put(keys::INTERNAL_TEXT, text);
        list.put(keys::TXG, self.txg());
        self.history_record(list)
    }

    /// Adds a command to the pool's history.
    pub fn history_command(&self, command: &str) -> Result<()> {
        let mut list = Nvlist::new();
        list.put(keys::TIME, self.shared.now());
        list.put(keys::COMMAND, command);
        list.put(keys::WHO, u64::from(host::user()));
        list.put(keys::HOST, host::name().as_str());
        self.history_record(list)
    }

    /// Adds a request as the kernel module gets it from its programs: the name of an ioctl, and its
    /// arguments.
    pub fn history_ioctl(&self, name: &str, input: Nvlist) -> Result<()> {
        let mut list = Nvlist::new();
        list.put(keys::IOCTL, name);
        list.put(keys::INPUT, input);
        list.put(keys::TIME, self.shared.now());
        list.put(keys::WHO, u64::from(host::user()));
        self.history_record(list)
    }

    fn history_record(&self, mut list: Nvlist) -> Result<()> {
        list.put(keys::HOST, host::name().as_str());
        append(self, &list)?;
        self.shared.report_history(&list);
        Ok(())
    }
}

/// Creates the history of a pool of `pool_bytes`. Returns its object.
fn create(cx: &SyncTx<'_>, pool_bytes: u64) -> Result<u64> {
    let physical_end = (pool_bytes / 1000).clamp(*RING_BYTES.start(), *RING_BYTES.end());
    let header = Header { create_end: 0, physical_end, begin: 0, end: 0, records_lost: 0 };
    let new = NewObject::new(ObjectType::SPA_HISTORY, BLOCK_BYTES)
        .with_bonus(ObjectType::SPA_HISTORY_OFFSETS, header.to_bytes(Endian::Little).to_vec());
    let id = cx.mos().create_object(cx.tx(), &new)?.id();
    cx.directory()?.update_u64(cx.tx(), directory::HISTORY.as_bytes(), id)?;
    Ok(id)
}

/// Appends a record. Does nothing before pool version 4; a pool that was upgraded gets its history
/// with the first record.
fn append(cx: &SyncTx<'_>, record: &Nvlist) -> Result<()> {
    if cx.version() < version::HISTORY {
        return Ok(());
    }
    let id = match cx.directory_entry(directory::HISTORY)? {
        Some(id) => id,
        None => create(cx, cx.shared.allocator.totals().class(Class::Normal).deflated_size_bytes)?,
    };
    let object = cx.mos().object(id)?;
    let mut header = Header::parse(object.bonus(), object.endian())?;
    let bytes = write_record(record, Endian::Little);
    let ring = header.physical_end - header.create_end;
    if bytes.len() as u64 > ring {
        return Ok(());
    }
    while header.end + bytes.len() as u64 - header.begin > ring {
        let mut length = [0; 8];
        read(&object, &header, header.begin, &mut length)?;
        header.begin = header.begin.saturating_add(8).saturating_add(u64::from_le_bytes(length)).min(header.end);
        header.records_lost += 1;
    }
    for (at, part) in places(&header, header.end, bytes.len() as u64) {
        let from = (at.0 - header.end) as usize;
        object.write_at(cx.tx(), at.1, &bytes[from..from + part as usize])?;
    }
    header.end += bytes.len() as u64;
    // The records up to the first command describe how the pool was created, and are never
    // overwritten.
    if header.create_end == 0 && record.contains(keys::COMMAND) {
        (header.create_end, header.begin) = (header.end, header.end);
    }
    object.set_bonus(cx.tx(), header.to_bytes(Endian::Little).to_vec())
}

/// The pieces of the object that hold `len` bytes from logical offset `from` on: ((logical,
/// physical), length).
fn places(header: &Header, from: u64, len: u64) -> Vec<((u64, u64), u64)> {
    let ring = header.physical_end - header.create_end;
    let start = if from < header.create_end { from } else { (from - header.create_end) % ring + header.create_end };
    let first = len.min(header.physical_end - start);
    let mut pieces = vec![((from, start), first)];
    if first < len {
        pieces.push(((from + first, header.create_end), len - first));
    }
    pieces
}

fn read(object: &Object, header: &Header, from: u64, buf: &mut [u8]) -> Result<()> {
    let mut done = 0;
    for ((_, physical), len) in places(header, from, buf.len() as u64) {
        object.read_at(physical, &mut buf[done..done + len as usize])?;
        done += len as usize;
    }
    Ok(())
}
