//! Whether another host has the pool imported: how an importer finds out, and how it claims the
//! pool.
//!
//! Facts: spa_activity_check_required, spa_activity_check_duration, spa_activity_check,
//! spa_mmp_remote_host_activity (module/zfs/spa.c) of OpenZFS 2.3. The claim is that of OpenZFS 2.4
//! (mmp_claim_uberblock), in one round instead of ten; older hosts see it as activity.
//!
//! Invariants:
//!   * only [`claim`] writes, and only into the slots for heartbeats

use super::settings::{Settings, settings};
use crate::import::search::{FoundPool, PoolState, newest};
use block::label::{self, Labels};
use errors::{Error, Refusal, Result};
use host::clock::Instant;
use host::device::Device;
use ondisk::label::LABELS;
use ondisk::nvlist::Nvlist;
use ondisk::pool_dir::config as key;
use ondisk::uberblock::{Multihost, Uberblock};
use std::sync::Arc;
use std::time::Duration;

/// Share of the time by which a wait is extended at random, in thousandths: two hosts that begin at
/// the same time end at different times.
const SPREAD: u64 = 250;
/// Time between two looks.
const LOOK: Duration = Duration::from_secs(1);
/// The shortest wait.
const WAIT_MIN: Duration = Duration::from_secs(1);
/// An uberblock that asks for a longer wait is damaged: with the longest interval, the default
/// settings give four days.
const WAIT_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// What a look for activity found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Activity {
    /// The pool needs none: it was exported, this host used it last, or its `multihost` is off.
    NotRequired,
    /// Nothing was written for as long as the last owner would at most need.
    None(Unchanged),
    /// Another host writes to the pool.
    Active(Owner),
    /// `multihost` is on, and this host has no ID.
    NoHostId,
}

/// The newest uberblock of a pool to which no host wrote for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unchanged {
    txg: u64,
    timestamp: u64,
    sequence: u16,
}

impl Unchanged {
    fn of(uberblock: &Uberblock) -> Self {
        Self { txg: uberblock.txg.0, timestamp: uberblock.timestamp, sequence: sequence(uberblock) }
    }
}

/// The host that writes to a pool, as its labels name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    pub host: String,
    pub hostid: u64,
}

/// The ID of this host; 0 if it has none.
pub fn this_host_id() -> u64 {
    host::id().map_or(0, u64::from)
}

fn sequence(uberblock: &Uberblock) -> u16 {
    uberblock.multihost.and_then(|m| m.sequence()).unwrap_or(0)
}

/// The newest uberblock on some devices, and the configuration in the labels of its device.
struct Newest {
    uberblock: Uberblock,
    config: Nvlist,
}

impl Newest {
    /// As of the search that found the pool.
    fn of(found: &FoundPool) -> Option<Self> {
        Self::among(found.devices.iter().map(|device| &device.labels))
    }

    /// Reads all labels.
    fn read(devices: &[Arc<dyn Device>]) -> Option<Self> {
        let labels = host::work::each(devices.len(), |number| label::read(devices[number].as_ref(), true));
        Self::among(labels.iter())
    }

    fn among<'l>(labels: impl Iterator<Item = &'l Labels>) -> Option<Self> {
        let best = |labels: &Labels| labels.uberblocks.iter().map(|f| f.uberblock.clone()).max_by(Uberblock::compare);
        let found = labels.filter_map(|labels| Some((best(labels)?, labels)));
        let (uberblock, labels) = found.max_by(|a, b| a.0.compare(&b.0))?;
        // A label may be newer than the uberblock that it belongs to.
        let txg = |config: &&Nvlist| config.get_u64(key::POOL_TXG).unwrap_or(0);
        let written = labels.configs().filter(|config| txg(config) <= uberblock.txg.0);
        let config = written.max_by_key(txg).cloned().or_else(|| newest(labels))?;
        Some(Self { uberblock, config })
    }

    fn hostid(&self) -> u64 {
        self.config.get_u64(key::HOSTID).unwrap_or(0)
    }

    fn state(&self) -> PoolState {
        PoolState::from_number(self.config.get_u64(key::POOL_STATE).unwrap_or(0))
    }

    fn owner(&self) -> Owner {
        let host = self.config.get_str(key::HOSTNAME).unwrap_or("<unknown>").to_owned();
        Owner { host, hostid: self.hostid() }
    }

    fn is_on(&self) -> bool {
        self.uberblock.multihost.is_some_and(|m| m.is_on())
    }

    /// Whether some host may write to the pool that has to be waited for.
    fn must_be_watched(&self, own: u64, before: Option<Unchanged>) -> bool {
        let is_off = self.uberblock.multihost.is_some_and(|m| !m.is_on());
        let known = Unchanged::of(&self.uberblock);
        let was_watched = before == Some(known) && known.timestamp != 0 && known.sequence != 0;
        !is_off && !was_watched && self.hostid() != own && self.state() == PoolState::Active
    }
}

fn devices(found: &FoundPool) -> Vec<Arc<dyn Device>> {
    found.devices.iter().map(|device| device.device.clone()).collect()
}

/// Finds out whether another host writes to the pool, for the host with the ID `own` (0: none).
/// Waits for as long as OpenZFS does, if that is required: 20 to 25 seconds by default. `before`:
/// the result of an earlier call, which saves the wait if nothing changed since. `is_cancelled`
/// ends the wait with an error.
pub fn check(
    found: &FoundPool,
    own: u64,
    before: Option<Unchanged>,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Activity> {
    // What the search found suffices for most pools.
    if Newest::of(found).is_none_or(|known| !known.must_be_watched(own, before)) {
        return Ok(Activity::NotRequired);
    }
    let devices = devices(found);
    let Some(first) = Newest::read(&devices) else { return Ok(Activity::NotRequired) };
    if !first.must_be_watched(own, before) {
        return Ok(Activity::NotRequired);
    }
    if first.is_on() && own == 0 {
        return Ok(Activity::NoHostId);
    }
    match watch(found.name(), &devices, &first, is_cancelled)? {
        Some(owner) => Ok(Activity::Active(owner)),
        None => Ok(Activity::None(Unchanged::of(&first.uberblock))),
    }
}

/// Looks for changes, again and again for as long as `first` requires. Returns the host that makes
/// them.
fn watch(
    name: &str,
    devices: &[Arc<dyn Device>],
    first: &Newest,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Option<Owner>> {
    let wait = wait(first.uberblock.multihost, &settings());
    if wait > WAIT_MAX {
        let what = format!("the uberblock asks importers to wait for {} hours", wait.as_secs() / 3600);
        return Err(Error::corrupt(name, what));
    }
    let wait = wait + wait * (host::random::u64() % SPREAD) as u32 / 1000;
    tracing::info!("{name}: waits {} ms for the heartbeat of another host", wait.as_millis());
    let (begun, known) = (Instant::now(), Unchanged::of(&first.uberblock));
    loop {
        let now = Newest::read(devices);
        let is_same = now.as_ref().is_some_and(|now| Unchanged::of(&now.uberblock) == known);
        if !is_same {
            return Ok(Some(now.as_ref().unwrap_or(first).owner()));
        }
        if is_cancelled() {
            return Err(Error::invalid(name, "was given up before it was known whether another host uses it"));
        }
        // The last look comes at the end of the wait.
        let left = wait.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return Ok(None);
        }
        host::threads::sleep(left.min(LOOK));
    }
}

/// How long to look for activity, without the random part. `last`: the fields of the newest
/// uberblock.
pub(super) fn wait(last: Option<Multihost>, settings: &Settings) -> Duration {
    let (intervals, interval) = (settings.import_intervals, settings.interval());
    let least = WAIT_MIN.max(interval * intervals);
    let ms = |n: u32| Duration::from_millis(n.into());
    let Some(last) = last else { return least };
    let delay = Duration::from_nanos(last.delay_ns);
    match (last.interval_ms(), last.fail_intervals()) {
        // Its owner suspends the pool by then. Twice the time, to be safe.
        (Some(interval), Some(fail @ 1..)) => ms(interval) * u32::from(fail) * 2,
        // Its owner never does.
        (Some(interval), Some(0)) => least.max((ms(interval) + delay).saturating_mul(intervals)),
        // Written by ZFS on Linux 0.7.
        _ => least.max((interval + delay).saturating_mul(intervals)),
    }
}

/// Claims a pool whose `multihost` is on, before it is opened for writing: of two hosts that import
/// it at the same time, the second one finds that it was changed. `before`: the result of
/// [`check`]. Does nothing if this host owned it last. The devices must be writable, and the labels
/// read since.
///
/// # Errors
///
/// Fails with [`Refusal::ImportedElsewhere`] if another host wrote to the pool.
pub(crate) fn claim(found: &FoundPool, own: u64, before: Option<Unchanged>) -> Result<()> {
    let is_own = |last: &Newest| last.hostid() == own && last.state() == PoolState::Active;
    if Newest::of(found).is_none_or(|known| !known.is_on() || is_own(&known)) {
        return Ok(());
    }
    let devices = devices(found);
    let elsewhere = || Err(Refusal::ImportedElsewhere.at(found.name()));
    let Some(last) = Newest::read(&devices).filter(Newest::is_on) else { return Ok(()) };
    if before.is_some_and(|before| before != Unchanged::of(&last.uberblock)) {
        return elsewhere();
    }
    let settings = settings();
    let interval = settings.interval();
    let delay_ns = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
    let sequence = (host::random::u64() as u16).max(1);
    let mut claim = last.uberblock;
    claim.timestamp = host::clock::seconds().max(claim.timestamp + 1);
    claim.multihost = Some(Multihost::heartbeat(delay_ns, settings.interval_ms, sequence, settings.fail_intervals));
    let claimed = found.devices.iter().filter(|device| {
        let tree = device.config.get_nvlist(key::VDEV_TREE);
        let ashift = tree.and_then(|tree| tree.get_u64(key::ASHIFT)).unwrap_or(0);
        let ashift = u8::try_from(ashift).unwrap_or(0);
        let write = |index: &usize| label::put_heartbeat(device.device.as_ref(), ashift, *index, &claim).is_ok();
        (0..LABELS).filter(write).count() > 0
    });
    if claimed.count() == 0 {
        return Err(Error::missing(found.name(), "every device that a claim could be written to"));
    }
    host::threads::sleep(interval.max(LOOK));
    match Newest::read(&devices) {
        Some(now) if Unchanged::of(&now.uberblock) == Unchanged::of(&claim) => Ok(()),
        _ => elsewhere(),
    }
}

/// Whether another host may have taken over a suspended pool, whose last uberblock this host wrote
/// in `txg`. Waits as [`check`] does.
pub(crate) fn is_active_elsewhere(name: &str, devices: &[Arc<dyn Device>], own: u64, txg: u64) -> Result<bool> {
    let Some(first) = Newest::read(devices) else { return Ok(true) };
    // The txg in which the pool was suspended may have reached some device.
    if first.hostid() != own || !first.is_on() || first.uberblock.txg.0 > txg + 1 {
        return Ok(true);
    }
    // Without a limit of its own time, nothing kept another host from waiting long enough.
    if first.uberblock.multihost.and_then(|m| m.fail_intervals()).is_none_or(|fail| fail == 0) {
        return Ok(true);
    }
    Ok(watch(name, devices, &first, &|| false)?.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    /// The cases and numbers of the comment at the head of OpenZFS's module/zfs/mmp.c.
    #[test]
    fn imports_wait_as_long_as_in_openzfs() {
        let wait = |last| wait(last, &Settings::DEFAULT);
        let one = 1_000_000_000;
        // Fail intervals and interval decide, whatever the delay was.
        assert_eq!(wait(Some(Multihost::heartbeat(one, 1000, 1, 10))), seconds(20));
        assert_eq!(wait(Some(Multihost::heartbeat(60 * one, 5000, 1, 4))), seconds(40));
        assert_eq!(wait(Some(Multihost::heartbeat(one, 100, 1, 2))), Duration::from_millis(400));
        // Never suspended: (interval + delay) * 20, at least 20 s.
        assert_eq!(wait(Some(Multihost::heartbeat(one, 1000, 1, 0))), seconds(40));
        assert_eq!(wait(Some(Multihost::heartbeat(10 * one, 1000, 1, 0))), seconds(220));
        assert_eq!(wait(Some(Multihost::heartbeat(10 * one, 10_000, 1, 0))), seconds(400));
        assert_eq!(wait(Some(Multihost::heartbeat(one / 10, 10_000, 1, 0))), seconds(202));
        assert_eq!(wait(Some(Multihost::heartbeat(one / 100, 100, 1, 0))), seconds(20));
        // ZFS on Linux 0.7 recorded the delay only, and older versions nothing.
        assert_eq!(wait(Some(Multihost { delay_ns: one, config: 0 })), seconds(40));
        assert_eq!(wait(None), seconds(20));
        let quick = Settings { interval_ms: 100, import_intervals: 1, ..Settings::DEFAULT };
        assert_eq!(super::wait(None, &quick), seconds(1));
    }

    #[test]
    fn only_a_pool_that_another_host_may_still_use_is_watched() {
        let of = |multihost, hostid: u64, state: u64| {
            let mut config = Nvlist::new();
            config.put(key::HOSTID, hostid);
            config.put(key::POOL_STATE, state);
            let uberblock = Uberblock {
                version: 5000,
                txg: ondisk::Txg(9),
                guid_sum: 0,
                timestamp: 77,
                root: ondisk::BlkPtr::HOLE,
                software_version: 5000,
                multihost,
                checkpoint_txg: ondisk::Txg(0),
                raidz_reflow: 0,
                endian: ondisk::Endian::Little,
            };
            Newest { uberblock, config }
        };
        let on = Some(Multihost::heartbeat(1, 1000, 3, 10));
        let known = Some(Unchanged { txg: 9, timestamp: 77, sequence: 3 });
        assert!(of(on, 5, 0).must_be_watched(6, None));
        assert!(!of(on, 5, 0).must_be_watched(6, known));
        assert!(of(on, 5, 0).must_be_watched(6, known.map(|k| Unchanged { sequence: 4, ..k })));
        // The uberblock of a txg has no sequence: OpenZFS waits again.
        let synced = Some(Multihost::heartbeat(1, 1000, 0, 10));
        assert!(of(synced, 5, 0).must_be_watched(6, known.map(|k| Unchanged { sequence: 0, ..k })));
        assert!(!of(on, 5, 0).must_be_watched(5, None), "the same host");
        assert!(!of(on, 5, 1).must_be_watched(6, None), "exported");
        assert!(!of(on, 5, 2).must_be_watched(6, None), "destroyed");
        assert!(!of(Some(Multihost::OFF), 5, 0).must_be_watched(6, None), "off");
        // Before MMP there was nothing to record.
        assert!(of(None, 5, 0).must_be_watched(6, None));
    }
}
