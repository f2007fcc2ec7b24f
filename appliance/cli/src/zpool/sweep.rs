//! `zpool trim` and `zpool initialize`.
//!
//! A process that owns the pool works in the background; the command returns at once, or waits with
//! `-w`. Without one, the command keeps the pool open until the work ends. The progress survives an
//! interruption: the next process that opens the pool continues from there.
//!
//! Facts: zpool_do_trim, zpool_do_initialize (cmd/zpool/zpool_main.c), check_trim_errs
//! (lib/libzfs/libzfs_pool.c).

use super::states::status;
use super::writing::{self, command_line, reason};
use crate::context::{Context, Failure, Outcome};
use crate::getopt::{Options, Parsed};
use admin::status::{PoolStatus, VdevClass};
use admin::vdev_names as names;
use admin::verbs::PoolLease;
use pool::writer::{Order, Work, WorkRefused};
use std::time::Duration;

const TRIM: Options = Options {
    short: "cdr:sw",
    long: &[
        ("cancel", false, 'c'),
        ("secure", false, 'd'),
        ("rate", true, 'r'),
        ("suspend", false, 's'),
        ("wait", false, 'w'),
    ],
};
const INITIALIZE: Options = Options {
    short: "csuw",
    long: &[("cancel", false, 'c'), ("suspend", false, 's'), ("uninit", false, 'u'), ("wait", false, 'w')],
};
/// How often to check whether the caller has disconnected.
const LOOK: Duration = Duration::from_millis(200);
/// The exit code of these verbs when the pool refuses: -1 of a C function.
const REFUSED: u8 = 255;

/// `zpool trim`.
pub fn trim(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = TRIM.parse(args).map_err(Failure::usage)?;
    let order = order(&parsed, &['c', 's'])?;
    let is_start = matches!(order, Order::Start { .. });
    for letter in ['d', 'r'] {
        if parsed.has(letter) && !is_start {
            return Err(Failure::usage(format!("-{letter} cannot be combined with the -c or -s options")));
        }
    }
    if parsed.has('w') && !is_start {
        return Err(Failure::usage("-w cannot be used with -c or -s"));
    }
    let rate = match parsed.last('r') {
        None => 0,
        Some(text) => dataset::property::parse_size(text)
            .ok_or_else(|| Failure::usage(format!("invalid value for rate: bad numeric value '{text}'")))?,
    };
    let order = if is_start { Order::Start { rate } } else { order };
    run(cx, &parsed, Work::Trim, order, &command_line("zpool trim", args))
}

/// `zpool initialize`.
pub fn initialize(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = INITIALIZE.parse(args).map_err(Failure::usage)?;
    let order = order(&parsed, &['c', 's', 'u'])?;
    if parsed.has('w') && !matches!(order, Order::Start { .. }) {
        return Err(Failure::usage("-w cannot be used with -c, -s or -u"));
    }
    run(cx, &parsed, Work::Initialize, order, &command_line("zpool initialize", args))
}

/// The order that the options give. Fails if more than one of `letters` is given.
fn order(parsed: &Parsed, letters: &[char]) -> Result<Order, Failure> {
    let mut given = letters.iter().filter(|letter| parsed.has(**letter));
    let order = match given.next() {
        None => Order::Start { rate: 0 },
        Some('c') => Order::Cancel,
        Some('s') => Order::Suspend,
        Some(_) => Order::Forget,
    };
    match given.next() {
        None => Ok(order),
        Some(second) => Err(Failure::usage(format!("-{second} cannot be combined with other options"))),
    }
}

fn run(cx: &mut Context<'_>, parsed: &Parsed, work: Work, order: Order, command: &str) -> Outcome {
    let [name, devices @ ..] = parsed.operands.as_slice() else {
        return Err(Failure::usage("missing pool name argument"));
    };
    let record = writing::record(cx, name)?;
    let verb = if work == Work::Trim { "trim" } else { "initialize" };
    let pool = writing::open(cx, &record, &format!("cannot {verb} {name}"))?;
    let result = change(cx, &pool, devices, work, order, verb, parsed.has('d'));
    let done = result.and_then(|(leaves, code)| {
        if code == 0 {
            pool.note_command(command).map_err(|e| Failure::failed(reason(&e)))?;
        }
        if matches!(order, Order::Start { .. }) && (parsed.has('w') || !pool.stays()) {
            follow(cx, &pool, work, &leaves);
        }
        Ok(code)
    });
    let closed = pool.finish().map_err(|e| Failure::failed(reason(&e)));
    let code = done?;
    closed?;
    Ok(code)
}

/// Gives the order to each device; without names, to all leaves that hold blocks. Returns the guids
/// of those that accepted it, and the exit code.
fn change(
    cx: &mut Context<'_>,
    pool: &PoolLease,
    devices: &[String],
    work: Work,
    order: Order,
    verb: &str,
    secure: bool,
) -> Result<(Vec<u64>, u8), Failure> {
    let now = status(pool)?;
    let named = named(&now, devices);
    let (mut took, mut code, mut incapable) = (Vec::new(), 0, 0);
    for (device, guid) in &named {
        let answer = match guid {
            None => Err(WorkRefused::NoDevice),
            // No supported device offers secure erase.
            Some(_) if secure => Err(WorkRefused::Unsupported),
            Some(guid) => {
                pool.writer().order_work(work, *guid, order).map_err(|e| Failure::failed(writing::why(&e)))?
            }
        };
        match (answer, guid) {
            (Ok(()), Some(guid)) => took.push(*guid),
            // For a whole pool, skip the devices that do not support it.
            (Err(WorkRefused::Unsupported), _) if devices.is_empty() && !secure => incapable += 1,
            (Err(why), _) => {
                cx.complain(&format!("cannot {verb} '{device}': {}", words(why, work)));
                code = REFUSED;
            }
            (Ok(()), None) => {}
        }
    }
    if incapable == named.len() && incapable > 0 {
        cx.complain("cannot trim: no devices in pool support trim operations");
        code = REFUSED;
    }
    Ok((took, code))
}

/// The selected leaves: name and guid. `None`: no such device.
fn named(now: &PoolStatus, devices: &[String]) -> Vec<(String, Option<u64>)> {
    if !devices.is_empty() {
        return devices.iter().map(|device| (device.clone(), names::find(now, device).map(|v| v.guid))).collect();
    }
    let leaves = now.root.walk().into_iter().filter(|v| v.is_leaf() && matches!(v.kind.as_str(), "disk" | "file"));
    leaves
        .filter(|v| !matches!(v.class, VdevClass::Cache | VdevClass::Spare))
        .map(|v| (v.path.clone().unwrap_or_else(|| v.name.clone()), Some(v.guid)))
        .collect()
}

fn words(why: WorkRefused, work: Work) -> &'static str {
    match (why, work) {
        (WorkRefused::NoDevice, _) => "no such device in pool",
        (WorkRefused::BadDevice, _) => "invalid device",
        (WorkRefused::Busy, Work::Trim) => "currently trimming",
        (WorkRefused::Busy, Work::Initialize) => "currently initializing",
        (WorkRefused::NotActive, Work::Trim) => "there is no active trim",
        (WorkRefused::NotActive, Work::Initialize) => "there is no active initialization",
        (WorkRefused::Unsupported, _) => "trim operations are not supported by this device",
    }
}

/// Waits until the work has ended or been stopped on all of these leaves.
fn follow(cx: &mut Context<'_>, pool: &PoolLease, work: Work, leaves: &[u64]) {
    let writer = pool.writer();
    while !leaves.is_empty() && writer.is_working(work, leaves) && writer.failure().is_none() && !cx.client.is_gone() {
        writer.wait_for_work(LOOK);
    }
}
