//! `zpool offline`, `zpool online`, `zpool reopen`.
//!
//! Invariants:
//!   * a device that is offline until the next import is stored in the import record: until then
//!     the pool is opened without it

use super::scan::{Follow, resilver_due};
use super::{device, is_idle_spare, lease_status, record, records};
use crate::state::Imported;
use crate::states;
use crate::vdev_names;
use crate::verbs::line::line;
use crate::verbs::tally::Tally;
use crate::verbs::{Invocation, Kind, Reason, Refusal};
use pool::status::VdevState;
use pool::writer::Lasts;

/// Devices to take offline.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OfflineRequest {
    pub pool: String,
    pub devices: Vec<String>,
    /// Mark them as faulted (`-f`).
    pub fault: bool,
    /// Until the next import (`-t`).
    pub temporary: bool,
}

/// Devices to bring online.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OnlineRequest {
    pub pool: String,
    pub devices: Vec<String>,
    /// Use all of their current size (`-e`).
    pub expand: bool,
}

/// What was brought online.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OnlineOutcome {
    pub devices: Vec<OnlineDevice>,
    pub refused: Option<Refusal>,
}

/// A device that was brought online.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnlineDevice {
    pub device: String,
    /// State after the change.
    pub state: VdevState,
}

fn operands<'a>(pool: &'a str, devices: &'a [String]) -> impl Iterator<Item = &'a str> {
    std::iter::once(pool).chain(devices.iter().map(String::as_str))
}

impl OfflineRequest {
    /// The request as a command line, for histories and logs.
    pub fn command_line(&self) -> String {
        let flags = [(self.fault, "-f"), (self.temporary, "-t")];
        line("zpool offline", &flags, &[], operands(&self.pool, &self.devices))
    }
}

impl OnlineRequest {
    /// The request as a command line, for histories and logs.
    pub fn command_line(&self) -> String {
        line("zpool online", &[(self.expand, "-e")], &[], operands(&self.pool, &self.devices))
    }
}

/// Stores which devices are offline until the next import.
fn remember(invocation: &Invocation<'_>, record: &Imported, guid: u64, is_offline: bool) -> Result<(), Refusal> {
    let change = |pools: &mut Vec<Imported>| {
        for pool in pools.iter_mut().filter(|p| p.guid == record.guid) {
            pool.offline.retain(|known| *known != guid);
            pool.offline.extend(is_offline.then_some(guid));
        }
    };
    invocation.state.change(change).map_err(|e| Refusal::new(Kind::Failed, format!("{e:#}")))
}

/// Takes devices offline, and continues after one that is refused.
pub fn offline(invocation: &Invocation<'_>, request: &OfflineRequest) -> Result<(), Refusal> {
    let OfflineRequest { pool: name, devices, fault, temporary } = request;
    if *fault && *temporary && invocation.house.is_none() {
        let why = "unsupported: 'zpool offline -f -t' without 'weir serve', because no process keeps the pool open";
        return Err(Refusal::new(Kind::Unsupported, why));
    }
    let record = record(invocation, name)?;
    let lasts = if *temporary { Lasts::UntilImport } else { Lasts::Always };
    let first = devices.first().map(String::as_str).unwrap_or_default();
    let pool = invocation.open(&record).map_err(|reason| reason.refuse(&format!("cannot offline {first}")))?;
    let before = lease_status(&pool)?;
    let mut tally = Tally::default();
    for name in devices {
        let found = device(&before, name);
        let what = match &found {
            Ok(found) if *fault => format!("fault {}", found.guid),
            _ => format!("offline {name}"),
        };
        let result = found.and_then(|found| {
            match (is_idle_spare(found), *fault) {
                (true, _) => return Err(Reason::new(Kind::Conflict, "device is reserved as a hot spare")),
                (false, true) => states::fault(&pool, found.guid, lasts)?,
                (false, false) => states::offline(&pool, found.guid, lasts)?,
            }
            Ok(found.guid)
        });
        match result {
            Ok(guid) => remember(invocation, &record, guid, *temporary && !fault)?,
            Err(reason) => tally.refuse(reason.refuse(&format!("cannot {what}"))),
        }
    }
    super::finish(invocation, pool, tally)
}

/// Brings devices online, and continues after one that is refused.
pub fn online(
    invocation: &Invocation<'_>,
    request: &OnlineRequest,
    follow: &mut Follow<'_>,
) -> Result<OnlineOutcome, Refusal> {
    let OnlineRequest { pool: name, devices, expand } = request;
    let record = record(invocation, name)?;
    let first = devices.first().map(String::as_str).unwrap_or_default();
    let pool = invocation.open(&record).map_err(|reason| reason.refuse(&format!("cannot online {first}")))?;
    let before = lease_status(&pool)?;
    let (mut tally, mut all) = (Tally::default(), Vec::new());
    for device in devices {
        let Some(found) = vdev_names::find(&before, device) else {
            let message = format!("couldn't find device \"{device}\" in pool \"{name}\"");
            tally.refuse(Refusal::new(Kind::NotFound, message));
            continue;
        };
        let result = match is_idle_spare(found) {
            true => Err(Reason::new(Kind::Conflict, "device is reserved as a hot spare")),
            false => states::online(&pool, found.guid).map_err(Reason::from),
        };
        let result = result.and_then(|is_used| match *expand && is_used {
            true => Ok(states::expand(&pool, found.guid)?),
            false => Ok(()),
        });
        if let Err(reason) = result {
            let mut refusal = reason.refuse(&format!("cannot online {device}"));
            refusal.message += &format!("\nFailed to online \"{device}\" in pool \"{name}\": -1");
            tally.refuse(refusal);
            continue;
        }
        remember(invocation, &record, found.guid, false)?;
        let now = lease_status(&pool)?;
        let state = now.all_vdevs().into_iter().find(|v| v.guid == found.guid).map(|v| v.state).unwrap_or_default();
        all.push(OnlineDevice { device: device.clone(), state });
    }
    let resilvered = resilver_due(&pool, name, false, follow);
    resilvered.map_err(|e| Reason::from(e).alone())?;
    let refused = super::finish(invocation, pool, tally).err();
    Ok(OnlineOutcome { devices: all, refused })
}

/// Reopens the devices of pools; no names mean all. Continues after a pool that is refused.
pub fn reopen(invocation: &Invocation<'_>, pools: &[String]) -> Result<(), Refusal> {
    let mut tally = Tally::default();
    for record in records(invocation, pools, &mut tally)? {
        if let Err(reason) = invocation.change(&record, |pool| Ok(states::reopen(pool)?)) {
            tally.refuse(reason.refuse(&format!("cannot reopen '{}'", record.name)));
        }
    }
    tally.finish().map(drop)
}
