//! Changes of the trim and initialize state in a leaf's ZAP.
//!
//! Offsets count from the beginning of the device, including labels, as OpenZFS writes them.

use super::progress::{Progress, Work, WorkState, names};
use super::state::{Order, State};
use crate::writer::SyncTx;
use crate::writer::tree::find_leaf;
use block::zevent::class;
use errors::Result;
use object::zap::Zap;
use ondisk::pool_dir::{config, vdev_leaf as key};

/// Carries out an order and records it.
pub(super) fn change(cx: &SyncTx<'_>, work: Work, guid: u64, order: Order) -> Result<()> {
    let mut state = cx.shared.background.sweeps.state.lock();
    let before = state.leaves.get(&(guid, work)).copied().unwrap_or_default();
    let mut now = before;
    match order {
        Order::Start { rate } => {
            now.state = WorkState::Active;
            if work == Work::Trim {
                if matches!(before.state, WorkState::Complete | WorkState::Cancelled) {
                    (now.last_offset, now.rate, now.partial) = (0, 0, false);
                }
                if rate != 0 {
                    now.rate = rate;
                }
            }
        }
        Order::Cancel => now.state = WorkState::Cancelled,
        Order::Suspend => now.state = WorkState::Suspended,
        Order::Forget => now = Progress::default(),
    }
    state.generation += 1;
    set(cx, &mut state, work, guid, before, now)
}

/// Marks the work as complete for these leaves.
pub(super) fn complete(cx: &SyncTx<'_>, work: Work, leaves: &[u64]) -> Result<()> {
    let mut state = cx.shared.background.sweeps.state.lock();
    for guid in leaves {
        let Some(before) = state.leaves.get(&(*guid, work)).copied() else { continue };
        if before.state == WorkState::Active {
            set(cx, &mut state, work, *guid, before, Progress { state: WorkState::Complete, ..before })?;
        }
    }
    Ok(())
}

fn set(cx: &SyncTx<'_>, state: &mut State, work: Work, guid: u64, before: Progress, mut now: Progress) -> Result<()> {
    // Resumed work keeps the time of its start.
    if before.state != WorkState::Suspended && now.state != before.state && now.state != WorkState::None {
        now.action_time = cx.shared.now();
    }
    state.leaves.insert((guid, work), now);
    if let Ok((_, leaf)) = find_leaf(&cx.store().tree(), guid) {
        leaf.note_swept(work == Work::Trim, now.last_offset);
    }
    keep(cx, work, guid, &now)?;
    let path = cx.shared.config.root.lock().find(guid).and_then(|c| c.path.clone()).unwrap_or_default();
    let verb = match work {
        Work::Trim => "trim",
        Work::Initialize if now.state == WorkState::None => "uninitialize",
        Work::Initialize => "initialize",
    };
    let word = match now.state {
        WorkState::None => "",
        WorkState::Active => " activated",
        WorkState::Cancelled => " canceled",
        WorkState::Suspended => " suspended",
        WorkState::Complete => " complete",
    };
    cx.history(verb, None, &format!("vdev={path}{word}"))?;
    let class = match (work, now.state, before.state) {
        (Work::Trim, WorkState::Active, WorkState::Suspended) => Some(class::TRIM_RESUME),
        (Work::Trim, WorkState::Active, _) => Some(class::TRIM_START),
        (Work::Trim, WorkState::Cancelled, _) => Some(class::TRIM_CANCEL),
        (Work::Trim, WorkState::Suspended, _) => Some(class::TRIM_SUSPEND),
        (Work::Trim, WorkState::Complete, _) => Some(class::TRIM_FINISH),
        _ => None,
    };
    if let Some(class) = class {
        cx.store().reporter().sysevent(class, |list| {
            list.put("vdev_guid", guid);
            list.put("vdev_path", path.as_str());
        });
    }
    cx.shared.background.sweeps.changed.notify_all();
    Ok(())
}

/// Forgets the work that is active on a leaf whose device is faulted: once the device is back, the
/// work has to be started again (`vdev_initialize_thread`, `vdev_trim_thread`).
pub(crate) fn forget_active(cx: &SyncTx<'_>, guid: u64) -> Result<()> {
    let mut state = cx.shared.background.sweeps.state.lock();
    state.generation += 1;
    for work in [Work::Trim, Work::Initialize] {
        let Some(before) = state.leaves.get(&(guid, work)).copied() else { continue };
        if before.state == WorkState::Active {
            set(cx, &mut state, work, guid, before, Progress::default())?;
        }
    }
    Ok(())
}

/// Stores the progress in the leaf's ZAP. Does nothing for a leaf that has left the pool.
pub(super) fn keep(cx: &SyncTx<'_>, work: Work, guid: u64, progress: &Progress) -> Result<()> {
    let zap = cx.shared.config.root.lock().find(guid).map_or(0, |c| c.number(config::VDEV_LEAF_ZAP));
    if zap == 0 {
        return Ok(());
    }
    let zap = Zap::open(cx.mos().object(zap)?)?;
    let [state, offset, time] = names(work);
    if progress.state == WorkState::None {
        for name in [state, offset, time] {
            if zap.lookup(name)?.is_some() {
                zap.remove(cx.tx(), name.as_bytes())?;
            }
        }
        return Ok(());
    }
    let put = |name: &str, value: u64| zap.update_u64(cx.tx(), name, value);
    put(offset, progress.last_offset)?;
    put(time, progress.action_time)?;
    put(state, progress.state as u64)?;
    if work == Work::Trim {
        put(key::TRIM_RATE, progress.rate)?;
        put(key::TRIM_PARTIAL, u64::from(progress.partial))?;
        put(key::TRIM_SECURE, 0)?;
    }
    Ok(())
}
