//! Records in memory: changes of open and syncing txgs that no commit has requested yet.
//!
//! A record about names belongs to every commit: a commit of one file makes all of them durable, in
//! order. A record about the contents or attributes of one object waits until a commit requests
//! that object (or everything). ZFS names: itx, itxg, sync and async lists.
//!
//! Invariants:
//!   * requested records leave in the order in which they were added
//!   * the object that a rename or link refers to is requested with it, so that a name never
//!     survives a crash without its contents

use super::pack::DATA_MAX;
use std::collections::{BTreeMap, HashMap};

/// An item to log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Item {
    /// A record, complete except for its number.
    Record(Vec<u8>),
    /// Several records, of which a crash keeps all or none.
    Together(Vec<Vec<u8>>),
    /// A write: the data is read from the object when it is logged.
    Write { object: u64, offset: u64, length: u64 },
    /// A change without a record: only a synced txg makes it durable.
    Unloggable,
}

/// An item, with its txg and object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    order: u64,
    pub txg: u64,
    pub item: Item,
}

/// Records taken to be logged.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Batch {
    pub entries: Vec<Entry>,
    /// This batch answers all requests up to this number.
    pub serves: u64,
    /// Newest txg with changes that have no record, see [`Pending::skip`]; 0: none.
    pub unlogged_txg: u64,
}

impl Batch {
    /// Newest txg of the entries and of unrecorded changes; 0: none.
    pub fn max_txg(&self) -> u64 {
        self.entries.iter().map(|e| e.txg).max().unwrap_or(0).max(self.unlogged_txg)
    }
}

#[derive(Default)]
struct Lists {
    /// Requested, or about names.
    urgent: Vec<Entry>,
    /// Not yet requested, by object.
    waiting: HashMap<u64, Vec<Entry>>,
}

/// All records of a dataset whose txg is not synced and that are not in the log yet.
#[derive(Default)]
pub(super) struct Pending {
    txgs: BTreeMap<u64, Lists>,
    order: u64,
    requests: u64,
    unlogged_txg: u64,
}

impl Pending {
    /// Adds `item` of `txg`. `object`: it concerns only the contents or attributes of that
    /// object.
    pub fn add(&mut self, txg: u64, object: Option<u64>, item: Item) {
        self.order += 1;
        let entry = Entry { order: self.order, txg, item };
        let lists = self.txgs.entry(txg).or_default();
        match object {
            None => lists.urgent.push(entry),
            Some(object) => {
                let waiting = lists.waiting.entry(object).or_default();
                if !extend(waiting.last_mut(), &entry) {
                    waiting.push(entry);
                }
            }
        }
    }

    /// A change in `txg` is not recorded (`sync=disabled`). Until that txg is synced, no later
    /// change can be replayed without it, so batches report it.
    pub fn skip(&mut self, txg: u64) {
        self.unlogged_txg = self.unlogged_txg.max(txg);
    }

    /// Moves the records waiting for `object`, or all of them, to the next batch.
    pub fn urge(&mut self, object: Option<u64>) {
        for lists in self.txgs.values_mut() {
            match object {
                Some(object) => lists.urgent.extend(lists.waiting.remove(&object).unwrap_or_default()),
                None => lists.urgent.extend(lists.waiting.drain().flat_map(|(_, entries)| entries)),
            }
        }
    }

    /// Drops the records waiting for `object`: it was removed, and its number may be reused.
    pub fn forget(&mut self, object: u64) {
        for lists in self.txgs.values_mut() {
            lists.waiting.remove(&object);
        }
    }

    /// Requests `object`, or everything. The batch that answers has at least the returned
    /// number in [`Batch::serves`].
    pub fn request(&mut self, object: Option<u64>) -> u64 {
        self.urge(object);
        self.requests += 1;
        self.requests
    }

    /// Takes everything requested so far.
    pub fn take(&mut self) -> Batch {
        let mut entries: Vec<Entry> = Vec::new();
        for lists in self.txgs.values_mut() {
            let from = entries.len();
            entries.append(&mut lists.urgent);
            entries[from..].sort_unstable_by_key(|e| e.order);
        }
        Batch { entries, serves: self.requests, unlogged_txg: self.unlogged_txg }
    }

    /// `txg` is on disk: its records, and older ones, are no longer needed.
    pub fn synced(&mut self, txg: u64) {
        self.txgs = self.txgs.split_off(&(txg + 1));
        if self.unlogged_txg <= txg {
            self.unlogged_txg = 0;
        }
    }
}

/// Extends a write by one that touches or overlaps it, if both fit into one record. Data is read
/// from the object when it is logged, so a record of the first alone could contain part of the
/// second.
fn extend(last: Option<&mut Entry>, next: &Entry) -> bool {
    match (last.map(|e| &mut e.item), &next.item) {
        (Some(Item::Write { offset, length, .. }), Item::Write { offset: next_offset, length: next_length, .. }) => {
            let (end, next_end) = (offset.saturating_add(*length), next_offset.saturating_add(*next_length));
            let (from, to) = ((*offset).min(*next_offset), end.max(next_end));
            let touches = *next_offset <= end && *offset <= next_end;
            if touches && to - from <= DATA_MAX as u64 {
                (*offset, *length) = (from, to - from);
                return true;
            }
            false
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(n: u8) -> Item {
        Item::Record(vec![n])
    }

    fn taken(pending: &mut Pending) -> Vec<u8> {
        let items = pending.take().entries.into_iter().map(|e| e.item);
        items
            .map(|i| match i {
                Item::Record(bytes) => bytes[0],
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn one_file_is_made_safe_with_all_names_and_without_other_files() {
        let mut p = Pending::default();
        p.add(5, None, named(1));
        p.add(5, Some(8), named(2));
        p.add(5, Some(9), named(3));
        p.add(6, None, named(4));
        p.add(6, Some(9), named(5));
        p.add(6, None, named(6));
        assert_eq!(p.request(Some(9)), 1);
        assert_eq!(taken(&mut p), [1, 3, 4, 5, 6]);
        assert_eq!(taken(&mut p), []);
        assert_eq!(p.request(None), 2);
        assert_eq!(taken(&mut p), [2]);
    }

    #[test]
    fn unrecorded_changes_are_reported_until_their_txg_is_synced() {
        let mut p = Pending::default();
        p.skip(6);
        p.skip(5);
        p.add(5, None, named(1));
        p.request(None);
        let batch = p.take();
        assert_eq!((batch.unlogged_txg, batch.max_txg()), (6, 6));
        p.synced(5);
        assert_eq!(p.take().unlogged_txg, 6);
        p.synced(6);
        assert_eq!(p.take(), Batch { serves: 1, ..Batch::default() });
    }

    #[test]
    fn synced_records_and_those_of_removed_objects_are_forgotten() {
        let mut p = Pending::default();
        p.add(5, Some(8), named(1));
        p.add(6, Some(8), named(2));
        p.add(6, Some(9), named(3));
        p.synced(5);
        p.forget(9);
        p.request(None);
        assert_eq!(taken(&mut p), [2]);
    }

    #[test]
    fn writes_that_touch_each_other_are_one() {
        let mut p = Pending::default();
        for offset in [0, 100, 200, 250, 500, 450] {
            p.add(5, Some(8), Item::Write { object: 8, offset, length: 100 });
        }
        p.request(None);
        let items: Vec<Item> = p.take().entries.into_iter().map(|e| e.item).collect();
        let write = |offset, length| Item::Write { object: 8, offset, length };
        assert_eq!(items, [write(0, 350), write(450, 150)]);
    }
}
