//! Removal of top-level devices that hold data: `zpool remove`.
//!
//! ```text
//!   begin:   no new blocks on it ─> intent logs emptied ─> a mapping, empty; the configuration says that it is being removed
//!   a txg:   from where the mapping ends: allocated ranges ─> room elsewhere ─> copied as they are ─> ranges of the mapping
//!   end:     nothing is left behind the mapping's end ─> its space maps go, and what stands in its place is the mapping
//! ```
//! Addresses of blocks stay as they are: reading goes through the mapping ([`block::vdev::indirect`]), and so does freeing. All of this
//! is done by the syncing thread, a part in each txg, so whoever frees meanwhile need not know how far it is. Whoever opens the pool
//! next goes on, OpenZFS too.
//!
//! Parts: `begin` (what is refused), `copy` (a step), `end` (the last one, giving up), `mapping` (objects), `free` (what frees mean),
//! `obsolete` (what of a mapping nobody needs any more, and condensing it).
//!
//! Facts: module/zfs/vdev_removal.c, vdev_indirect.c, vdev_indirect_mapping.c, vdev_indirect_births.c.
//!
//! Invariants:
//!   * below the end of the mapping each allocated byte of the device is mapped; behind it none is
//!   * `copied` of `to_copy` bytes are done: copied, or freed before it was their turn

mod begin;
mod copy;
mod end;
mod free;
mod mapping;
mod obsolete;

use super::tx::SyncTx;
use super::vdevs::top_zap;
use super::{Shared, Writer};
use crate::config::VdevConfig;
use crate::{Error, Pool, Refusal, Result};
use block::vdev::Kind;
use copy::Step;
pub(crate) use copy::{RANGE_BYTES_MAX, SPAN_BYTES_MAX};
use mapping::Growing;
use object::zap::{Zap, ZapValue};
use ondisk::Dva;
use ondisk::pool_dir::{config, directory, vdev_top};
use ondisk::removal::Removing;
use ondisk::scan::ScanState;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const DEVICE_REMOVAL: &str = "device_removal";
const OBSOLETE_COUNTS: &str = "obsolete_counts";

/// Bytes copied in a txg: some tenths of a second on a disk, which nobody who waits for the txg minds. Guessed.
const STEP_BYTES: u64 = 32 << 20;

/// The removal under way, and what removed devices need.
pub(super) struct Evacuation {
    /// A device is being removed, and there may be something to copy.
    active: AtomicBool,
    /// The removal is to be given up.
    cancelled: AtomicBool,
    /// Bytes that may still be copied before it rests.
    allowance: AtomicU64,
    /// Mappings of fewer bytes are not condensed.
    condense_bytes_min: AtomicU64,
    /// There was no room for what is left.
    full: AtomicBool,
    /// Only the syncing thread holds it for long.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// As the MOS has it, or is to.
    removing: Option<Removing>,
    /// `removing` changed since it was written.
    is_changed: bool,
    /// The device that is being removed.
    growing: Option<Growing>,
    /// By device: ranges of its mapping that nobody needs any more, and that are not in its space map yet.
    obsolete: BTreeMap<u32, Vec<(u64, u64)>>,
}

impl Evacuation {
    /// Of a pool from which nothing was removed.
    pub fn new() -> Self {
        Self {
            active: false.into(),
            cancelled: false.into(),
            allowance: u64::MAX.into(),
            condense_bytes_min: obsolete::CONDENSE_BYTES_MIN.into(),
            full: false.into(),
            state: Mutex::default(),
        }
    }

    /// As the pool was left.
    pub fn load(pool: &Pool) -> Result<Self> {
        let mut state = State { removing: removing(pool)?, ..State::default() };
        if let Some(vdev) = running(state.removing.as_ref()) {
            state.growing = Some(Growing::load(pool, vdev)?);
        }
        let active = state.growing.is_some().into();
        Ok(Self { active, state: Mutex::new(state), ..Self::new() })
    }

    /// Whether the next txg is not to be waited for.
    pub fn wants_txgs(&self) -> bool {
        self.is_active() && !self.full.load(Ordering::SeqCst) && self.allowance.load(Ordering::SeqCst) > 0
    }

    /// Whether a device is being removed.
    pub fn is_active(&self) -> bool {
        self.active.load(Ordering::SeqCst)
    }
}

/// What the MOS says of the last removal.
fn removing(pool: &Pool) -> Result<Option<Removing>> {
    let value = pool.directory().lookup(directory::REMOVING)?;
    value.map(|value| Ok(Removing::from_words(&value.ints)?)).transpose()
}

fn running(removing: Option<&Removing>) -> Option<u32> {
    let vdev = removing.filter(|r| r.state == ScanState::Scanning)?.vdev?;
    u32::try_from(vdev).ok()
}

/// Tells the allocator of which devices it cannot free by itself.
pub(super) fn tell_allocator(pool: &Pool, allocator: &crate::space::Allocator) -> Result<()> {
    let removed = pool.root_vdev().children.iter().filter(|top| top.kind == "indirect").map(|top| top.id as u32);
    for vdev in removed.chain(running(removing(pool)?.as_ref())) {
        allocator.set_evacuated(vdev, true);
        allocator.set_allocating(vdev, false);
    }
    Ok(())
}

/// Removes an entry that earlier releases left in the ZAPs of removed devices: the list of unflushed txgs was freed with the space
/// maps, and its number belongs to another object since. OpenZFS removes the entry with the list (`vdev_destroy_ms_flush_data`).
pub(super) fn remove_stale_entries(cx: &SyncTx<'_>) -> Result<()> {
    let is_removed = |top: &&VdevConfig| top.kind == "indirect" && top.number(config::VDEV_TOP_ZAP) != 0;
    let zaps: Vec<u64> = {
        let root = cx.shared.root.lock();
        root.children.iter().filter(is_removed).map(|top| top.number(config::VDEV_TOP_ZAP)).collect()
    };
    for zap in zaps {
        let zap = Zap::open(cx.mos().object(zap)?)?;
        if zap.lookup(vdev_top::MS_UNFLUSHED_PHYS_TXGS)?.is_some() {
            zap.remove(cx.tx(), vdev_top::MS_UNFLUSHED_PHYS_TXGS)?;
        }
    }
    Ok(())
}

impl Writer {
    /// Whether a device that held data is being removed.
    pub fn is_removing(&self) -> bool {
        self.shared.evacuation.is_active()
    }

    /// Returns once no device is being removed any more, or `is_given_up` says so, or the pool cannot be written.
    pub fn finish_removal(&self, is_given_up: &dyn Fn() -> bool) -> Result<()> {
        while self.is_removing() && !is_given_up() {
            self.sync()?;
            if self.shared.evacuation.full.load(Ordering::SeqCst) {
                return Err(Refusal::NoSpace.at(self.name()));
            }
        }
        // The device leaves in the middle of a txg, which another thread may be syncing: wait until that is on disk.
        if is_given_up() { Ok(()) } else { self.sync() }
    }

    /// Copies about so many bytes more of a device that is being removed, and rests then; `None`: does not rest.
    pub fn limit_removal(&self, bytes: Option<u64>) {
        self.shared.evacuation.allowance.store(bytes.unwrap_or(u64::MAX), Ordering::SeqCst);
        self.shared.push();
    }

    /// From now on mappings of removed devices of so many bytes are condensed when a quarter of them is obsolete.
    pub fn condense_from(&self, bytes: u64) {
        self.shared.evacuation.condense_bytes_min.store(bytes, Ordering::SeqCst);
    }

    /// Gives up removing a device (`zpool remove -s`): it is used as before.
    pub fn cancel_removal(&self) -> Result<()> {
        if !self.is_removing() {
            return Err(Error::invalid(self.name(), "operation is not in progress"));
        }
        self.shared.evacuation.cancelled.store(true, Ordering::SeqCst);
        self.task(|_| Ok(()))
    }
}

impl SyncTx<'_> {
    /// Nothing points at an address on a removed device any more, though what lies behind it is used. Nothing happens on other devices.
    pub fn mark_obsolete(&self, dva: &Dva) {
        let tree = self.store().tree();
        if matches!(tree.tops.get(dva.vdev as usize).map(|top| &top.kind), Some(Kind::Indirect(_))) {
            let mut state = self.shared.evacuation.state.lock();
            state.obsolete.entry(dva.vdev).or_default().push((dva.offset_bytes, dva.asize_bytes));
        }
    }
}

impl Shared {
    /// Refuses what OpenZFS refuses while a device is being removed.
    pub(super) fn refuse_while_removing(&self) -> Result<()> {
        match self.evacuation.is_active() {
            true => Err(Error::invalid(self.identity.lock().name.clone(), "device removal in progress")),
            false => Ok(()),
        }
    }
}

/// The step of a txg, after everything else of it is known but what its own objects free.
pub(super) fn step(cx: &SyncTx<'_>) -> Result<()> {
    let evacuation = &cx.shared.evacuation;
    sync(cx)?;
    if evacuation.is_active() {
        let mut state = evacuation.state.lock();
        let allowance = evacuation.allowance.load(Ordering::SeqCst);
        let before = state.growing.as_ref().map_or(0, |g| g.header.mapped_bytes);
        let went = match evacuation.cancelled.swap(false, Ordering::SeqCst) {
            true => None,
            false if allowance == 0 => Some(Step::Copied),
            false => Some(cx.all_or_nothing(|| copy::step(cx, &mut state, allowance.min(STEP_BYTES)))?),
        };
        let copied = state.growing.as_ref().map_or(0, |g| g.header.mapped_bytes) - before;
        if allowance != u64::MAX {
            // Whoever said something else meanwhile has said it.
            let left = allowance.saturating_sub(copied);
            let _ = evacuation.allowance.compare_exchange(allowance, left, Ordering::SeqCst, Ordering::SeqCst);
        }
        evacuation.full.store(matches!(went, Some(Step::Full)), Ordering::SeqCst);
        match went {
            Some(Step::Copied | Step::Full) => {}
            Some(Step::Nothing) => end::finish(cx, &mut state)?,
            Some(Step::Failed(error)) => {
                tracing::error!(%error, "{}: the removal of a device is given up", cx.store().name());
                end::give_up(cx, &mut state)?;
            }
            None => end::give_up(cx, &mut state)?,
        }
    }
    obsolete::condense(cx)
}

/// Does what frees on such devices mean, and writes what changed by it. In each pass.
pub(super) fn sync(cx: &SyncTx<'_>) -> Result<()> {
    free::sync(cx)?;
    let mut state = cx.shared.evacuation.state.lock();
    obsolete::sync(cx, &mut state.obsolete)?;
    if std::mem::take(&mut state.is_changed)
        && let Some(removing) = &state.removing
    {
        let value = ZapValue { int_bytes: 8, ints: removing.to_words().to_vec() };
        cx.directory()?.update(cx.tx(), directory::REMOVING.as_bytes(), &value)?;
    }
    Ok(())
}
