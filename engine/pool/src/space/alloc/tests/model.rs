//! Space maps in memory, and a model that remembers every allocated address.

use super::*;
use crate::space::Entry;
use slab::Slab;

/// Entries, block size, bonus.
pub type FakeMap = (Vec<u8>, u64, Option<Header>);

/// Space maps in memory, in place of the MOS.
#[derive(Default)]
pub struct FakeMaps {
    pub maps: Mutex<HashMap<u64, FakeMap>>,
    pub arrays: Mutex<HashMap<u64, Vec<u64>>>,
    pub next: AtomicU64,
    /// Logs by txg.
    pub logs: Mutex<BTreeMap<u64, u64>>,
    /// The unflushed txg of each metaslab, by the ZAP of its device.
    pub unflushed: Mutex<HashMap<u64, Vec<u64>>>,
    /// The last snapshot. The allocator holds its reader weakly.
    kept: Mutex<Option<Arc<FakeMaps>>>,
}

impl FakeMaps {
    pub fn id(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed) + 10
    }

    /// A copy of the current state, as a reader sees it once the txg is synced.
    pub fn snapshot(&self) -> Arc<Self> {
        let maps = Mutex::new(self.maps.lock().clone());
        let snapshot = Arc::new(Self { maps, ..Self::default() });
        *self.kept.lock() = Some(snapshot.clone());
        snapshot
    }

    pub fn header(&self, object: u64) -> Header {
        self.maps.lock()[&object].2.clone().expect("its header was written")
    }

    /// Length of each map in bytes.
    pub fn lengths(&self) -> BTreeMap<u64, u64> {
        let length = |map: &FakeMap| map.2.as_ref().map_or(0, |h| h.length_bytes);
        self.maps.lock().iter().map(|(id, map)| (*id, length(map))).collect()
    }

    /// The logs, as an import finds them.
    pub fn logs(&self) -> round::Logs {
        let log = |object: u64| {
            let header = self.header(object);
            round::Log { object, length_bytes: header.length_bytes, allocated_bytes: header.allocated_bytes }
        };
        let mut logs = round::Logs::default();
        logs.all = self.logs.lock().iter().map(|(txg, object)| (*txg, log(*object))).collect();
        logs
    }

    /// The txgs from which on logs apply.
    pub fn unflushed(&self, top_zap: u64, count: usize) -> Vec<u64> {
        self.unflushed.lock().get(&top_zap).cloned().unwrap_or_else(|| vec![0; count])
    }

    /// Applies the logs to a metaslab's own map, and checks each entry against those before.
    pub fn replay_logs(&self, group: &Group, slab: &Slab, allocated: &mut Ranges) {
        let since = self.unflushed(group.objects.top_zap, group.slabs.len())[slab.id as usize];
        assert!(since == 0 || self.logs.lock().contains_key(&since), "no log of txg {since}");
        for (txg, object) in self.logs.lock().iter() {
            let mut units = 0;
            self.read_map(*object, &mut |e| {
                units += if e.is_alloc { e.run as i64 } else { -(e.run as i64) };
                let per = 1 << (slab.ashift - 9);
                assert!(e.offset % per == 0 && e.run % per == 0, "{e:?}");
                let at = (e.offset / per).wrapping_sub(slab.start_units);
                if e.vdev != Some(group.vdev) || at >= u64::from(slab.units) {
                    return;
                }
                assert!(since != 0, "an entry in the log of txg {txg} for a metaslab that never was in one");
                if *txg >= since {
                    let (start, len) = (at as u32, (e.run / per) as u32);
                    let already = match e.is_alloc {
                        true => allocated.add(start, len),
                        false => u64::from(len) - allocated.remove(start, len),
                    };
                    assert_eq!(already, 0, "{e:?} of the log of txg {txg} changes nothing");
                }
            })
            .unwrap();
            assert_eq!(units * 512, self.header(*object).allocated_bytes);
        }
    }

    /// The allocated ranges in a map. Checks each entry against those before.
    pub fn replay(&self, object: u64) -> Ranges {
        let mut allocated = Ranges::default();
        self.read_map(object, &mut |e| {
            let (start, len) = (e.offset as u32, e.run as u32);
            let already = if e.is_alloc { allocated.add(start, len) } else { e.run - allocated.remove(start, len) };
            assert_eq!(already, 0, "{e:?} of map {object} changes nothing");
        })
        .unwrap();
        allocated
    }
}

impl MapReader for FakeMaps {
    fn read_map(&self, object: u64, sink: &mut dyn FnMut(Entry)) -> Result<()> {
        let maps = self.maps.lock();
        let (bytes, block, header) = &maps[&object];
        let len = header.as_ref().map_or(0, |h| h.length_bytes) as usize;
        for chunk in bytes[..len].chunks(*block as usize) {
            for e in spacemap::entries(chunk, Endian::Little) {
                let e = e?;
                let is_alloc = e.action == Action::Alloc;
                sink(Entry { is_alloc, offset: e.offset_units, run: e.run_units, vdev: e.vdev });
            }
        }
        Ok(())
    }
}

impl MapWriter for FakeMaps {
    fn create_map(&self, block_bytes: u32, _: bool) -> Result<u64> {
        let id = self.id();
        self.maps.lock().insert(id, (Vec::new(), u64::from(block_bytes), None));
        Ok(id)
    }

    fn write_map(&self, object: u64, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut maps = self.maps.lock();
        let map = &mut maps.get_mut(&object).unwrap().0;
        map.truncate(offset as usize);
        assert_eq!(map.len() as u64, offset, "entries are appended");
        map.extend(bytes);
        Ok(())
    }

    fn truncate_map(&self, object: u64) -> Result<()> {
        self.maps.lock().get_mut(&object).unwrap().0.clear();
        Ok(())
    }

    fn set_header(&self, object: u64, header: &Header) -> Result<()> {
        self.maps.lock().get_mut(&object).unwrap().2 = Some(header.clone());
        Ok(())
    }

    fn create_array(&self, count: u64) -> Result<u64> {
        let id = self.id();
        self.arrays.lock().insert(id, vec![0; count as usize]);
        Ok(id)
    }

    fn write_array(&self, array: u64, index: u64, object: u64) -> Result<()> {
        self.arrays.lock().get_mut(&array).unwrap()[index as usize] = object;
        Ok(())
    }

    fn create_log(&self, txg: u64, block_bytes: u32, with_histogram: bool) -> Result<u64> {
        let id = self.create_map(block_bytes, with_histogram)?;
        // Header of a new object: it is empty.
        self.set_header(id, &Header { object: 0, length_bytes: 0, allocated_bytes: 0, histogram: None })?;
        assert_eq!(self.logs.lock().insert(txg, id), None);
        Ok(id)
    }

    fn remove_log(&self, txg: u64, object: u64) -> Result<()> {
        assert_eq!(self.logs.lock().remove(&txg), Some(object));
        assert!(self.maps.lock().remove(&object).is_some());
        Ok(())
    }

    fn set_checkpoint_map(&self, _: u64, _: Option<u64>) -> Result<()> {
        unreachable!("these pools have no checkpoint")
    }

    fn write_unflushed(&self, top_zap: u64, count: u64, metaslabs: &[u32], txg: u64) -> Result<()> {
        let mut all = self.unflushed.lock();
        let list = all.entry(top_zap).or_insert_with(|| vec![0; count as usize]);
        metaslabs.iter().for_each(|id| list[*id as usize] = txg);
        Ok(())
    }
}

/// Every allocated address, and when it may be allocated again.
#[derive(Default)]
pub struct Model {
    pub live: Vec<(Dva, u64)>,
    /// Freed blocks and their txgs.
    pub waiting: Vec<(Dva, u64)>,
    pub taken: BTreeMap<(u32, u64), u64>,
}

impl Model {
    pub fn take(&mut self, dva: &Dva, txg: u64) {
        let key = (dva.vdev, dva.offset_bytes);
        let before = self.taken.range(..=key).next_back().filter(|((v, _), _)| *v == dva.vdev);
        let after = self.taken.range(key..).next().filter(|((v, _), _)| *v == dva.vdev);
        assert!(before.is_none_or(|((_, at), len)| at + len <= dva.offset_bytes), "{dva:?} was allocated already");
        assert!(
            after.is_none_or(|((_, at), _)| *at >= dva.offset_bytes + dva.asize_bytes),
            "{dva:?} was allocated already"
        );
        self.taken.insert(key, dva.asize_bytes);
        self.live.push((*dva, txg));
    }

    pub fn release(&mut self, dva: &Dva) {
        self.taken.remove(&(dva.vdev, dva.offset_bytes));
    }

    pub fn bytes(list: &[(Dva, u64)]) -> u64 {
        list.iter().map(|(d, _)| d.asize_bytes).sum()
    }

    /// Compares the maps and the allocator's statistics with the live blocks.
    pub fn check(&self, allocator: &Allocator, maps: &FakeMaps) {
        self.check_maps(allocator, maps);
        let stats = allocator.stats();
        let sum = |f: fn(&ClassSpace) -> u64| stats.classes.iter().map(f).sum::<u64>();
        assert_eq!(sum(|c| c.allocated_bytes), Self::bytes(&self.live));
        assert_eq!(sum(|c| c.deferred_bytes), Self::bytes(&self.waiting));
    }

    pub fn check_maps(&self, allocator: &Allocator, maps: &FakeMaps) {
        let mut on_disk: HashMap<u32, u64> = HashMap::new();
        for group in allocator.table().groups() {
            for (slab, object) in
                group.slabs.iter().zip(&maps.arrays.lock()[&group.objects.array.load(Ordering::Relaxed)])
            {
                let mut expected = Ranges::default();
                let (from, to) = (slab.start_units, slab.start_units + u64::from(slab.units));
                for (d, _) in self.live.iter().filter(|(d, _)| d.vdev == group.vdev) {
                    let at = d.offset_bytes >> slab.ashift;
                    if (from..to).contains(&at) {
                        expected.add((at - from) as u32, (d.asize_bytes >> slab.ashift) as u32);
                    }
                }
                let mut found = if *object == 0 { Ranges::default() } else { maps.replay(*object) };
                if *object != 0 {
                    assert_eq!(maps.header(*object).allocated_bytes as u64, found.units() << slab.ashift);
                }
                maps.replay_logs(group, slab, &mut found);
                assert_eq!(found, expected, "device {} metaslab {}", group.vdev, slab.id);
                if *object != 0 {
                    let histogram = maps.header(*object).histogram.unwrap();
                    let free = found.complement(slab.units);
                    if !allocator.options.logs {
                        let sum: u64 = histogram.iter().sum();
                        assert!(sum >= free.count() as u64, "{sum} ranges, there are {}", free.count());
                    }
                    // OpenZFS ranks a metaslab that is not loaded by its top bucket, and must not
                    // find less free space than that.
                    let mut exact = [0; spacemap::HISTOGRAM_BUCKETS];
                    free.add_to_histogram(&mut exact);
                    let rank = |h: &[u64]| h.iter().rposition(|n| *n > 0).map(|i| (i, h[i]));
                    assert!(
                        rank(&histogram) <= rank(&exact),
                        "the histogram has {histogram:?} free, the map {exact:?}"
                    );
                }
                *on_disk.entry(group.vdev).or_default() += found.units() << slab.ashift;
            }
        }
        assert_eq!(on_disk.values().sum::<u64>(), Self::bytes(&self.live));
    }
}
