//! `zpool trim` and `zpool initialize`.
//!
//! A process that owns the pool works in the background. Without one, the verb keeps the pool open
//! until the work ends. The progress survives an interruption: the next process that opens the pool
//! continues from there.
//!
//! Facts: zpool_do_trim, zpool_do_initialize (cmd/zpool/zpool_main.c), check_trim_errs
//! (lib/libzfs/libzfs_pool.c).

use super::{lease_status, record};
use crate::vdev_names;
use crate::verbs::line::line;
use crate::verbs::tally::Tally;
use crate::verbs::{Invocation, Kind, PoolLease, Reason, Refusal};
use pool::status::{PoolStatus, VdevClass};
use pool::writer::{Order, Work, WorkRefused};
use std::time::Duration;

/// How often to check whether the caller has disconnected.
const LOOK: Duration = Duration::from_millis(200);
/// Exit code of these commands when the pool refuses: -1 of a C function.
const REFUSED: u8 = 255;

/// Work to start, suspend or cancel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SweepRequest {
    pub pool: String,
    /// None means all leaves that hold blocks.
    pub devices: Vec<String>,
    pub work: Work,
    pub order: Order,
    /// Secure erase, which no supported device offers (`-d`).
    pub secure: bool,
    /// Wait until the work ends (`-w`).
    pub wait: bool,
}

impl SweepRequest {
    fn verb(&self) -> &'static str {
        match self.work {
            Work::Trim => "trim",
            Work::Initialize => "initialize",
        }
    }

    /// The request as a command line, for histories and logs.
    pub fn command_line(&self) -> String {
        let is = |order: Order| self.order == order;
        let flags = [
            (is(Order::Cancel), "-c"),
            (is(Order::Suspend), "-s"),
            (is(Order::Forget), "-u"),
            (self.secure, "-d"),
            (self.wait, "-w"),
        ];
        let rate = match self.order {
            Order::Start { rate } if rate > 0 => vec![("-r", rate.to_string())],
            _ => Vec::new(),
        };
        let operands = std::iter::once(&self.pool).chain(&self.devices).map(String::as_str);
        line(&format!("zpool {}", self.verb()), &flags, &rate, operands)
    }
}

/// Gives the order to each device, and continues after one that is refused.
pub fn run(invocation: &Invocation<'_>, request: &SweepRequest) -> Result<(), Refusal> {
    let record = record(invocation, &request.pool)?;
    let cannot = format!("cannot {} {}", request.verb(), request.pool);
    let pool = invocation.open(&record).map_err(|reason| reason.refuse(&cannot))?;
    let done = in_pool(invocation, request, &pool);
    let closed = pool.finish().map_err(|e| Reason::from(e).alone());
    done.and(closed)
}

fn in_pool(invocation: &Invocation<'_>, request: &SweepRequest, pool: &PoolLease) -> Result<(), Refusal> {
    let (leaves, tally) = order(request, pool)?;
    let result = tally.finish();
    if result.is_ok() {
        pool.note_command(&invocation.command).map_err(|e| Reason::from(e).alone())?;
    }
    if matches!(request.order, Order::Start { .. }) && (request.wait || !pool.stays()) {
        follow(invocation, pool, request.work, &leaves);
    }
    result.map(drop)
}

/// Returns the guids of the devices that accepted the order.
fn order(request: &SweepRequest, pool: &PoolLease) -> Result<(Vec<u64>, Tally), Refusal> {
    let now = lease_status(pool)?;
    let named = named(&now, &request.devices);
    let (mut leaves, mut tally, mut incapable) = (Vec::new(), Tally::default(), 0);
    for (device, guid) in &named {
        let answer = match guid {
            None => Err(WorkRefused::NoDevice),
            Some(_) if request.secure => Err(WorkRefused::Unsupported),
            Some(guid) => pool
                .writer()
                .order_work(request.work, *guid, request.order)
                .map_err(|e| Reason::from(e).alone())?
                .map(|()| *guid),
        };
        match answer {
            Ok(guid) => leaves.push(guid),
            // For a whole pool, skip the devices that do not support it.
            Err(WorkRefused::Unsupported) if request.devices.is_empty() && !request.secure => incapable += 1,
            Err(why) => {
                let cannot = format!("cannot {} '{device}'", request.verb());
                tally.refuse(reason(why, request.work).refuse(&cannot).with_code(REFUSED));
            }
        }
    }
    if incapable == named.len() && incapable > 0 {
        let why = "cannot trim: no devices in pool support trim operations";
        tally.refuse(Refusal::new(Kind::Unsupported, why).with_code(REFUSED));
    }
    Ok((leaves, tally))
}

/// The selected leaves: name and guid. `None`: no such device.
fn named(now: &PoolStatus, devices: &[String]) -> Vec<(String, Option<u64>)> {
    if !devices.is_empty() {
        return devices.iter().map(|device| (device.clone(), vdev_names::find(now, device).map(|v| v.guid))).collect();
    }
    let leaves = now.root.walk().into_iter().filter(|v| v.is_leaf() && matches!(v.kind.as_str(), "disk" | "file"));
    leaves
        .filter(|v| !matches!(v.class, VdevClass::Cache | VdevClass::Spare))
        .map(|v| (v.path.clone().unwrap_or_else(|| v.name.clone()), Some(v.guid)))
        .collect()
}

fn reason(why: WorkRefused, work: Work) -> Reason {
    let (kind, text) = match (why, work) {
        (WorkRefused::NoDevice, _) => (Kind::NotFound, "no such device in pool"),
        (WorkRefused::BadDevice, _) => (Kind::Invalid, "invalid device"),
        (WorkRefused::Busy, Work::Trim) => (Kind::Conflict, "currently trimming"),
        (WorkRefused::Busy, Work::Initialize) => (Kind::Conflict, "currently initializing"),
        (WorkRefused::NotActive, Work::Trim) => (Kind::Conflict, "there is no active trim"),
        (WorkRefused::NotActive, Work::Initialize) => (Kind::Conflict, "there is no active initialization"),
        (WorkRefused::Unsupported, _) => (Kind::Unsupported, "trim operations are not supported by this device"),
    };
    Reason::new(kind, text)
}

/// Waits until the work has ended or been stopped on all of these leaves.
fn follow(invocation: &Invocation<'_>, pool: &PoolLease, work: Work, leaves: &[u64]) {
    let writer = pool.writer();
    while !leaves.is_empty() && writer.is_working(work, leaves) && writer.failure().is_none() && !(invocation.is_gone)()
    {
        writer.wait_for_work(LOOK);
    }
}
