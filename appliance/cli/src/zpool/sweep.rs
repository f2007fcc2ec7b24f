//! `zpool trim` and `zpool initialize`: what [`admin::verbs::zpool::sweep`] does, in OpenZFS's
//! words.

use crate::context::{Context, Failure, Outcome};
use crate::getopt::{ArgKind, Parsed, flag, value};
use crate::verb::{Call, Verb, for_owner};
use admin::verbs::zpool::sweep::{self, SweepRequest};
use pool::writer::{Order, Work};

/// The row of `zpool trim`.
pub static TRIM: Verb = for_owner("trim", "TRIM all unallocated space", trim)
    .usage(&["[-dw] [-r rate] [-c | -s] pool [device ...]"])
    .options(&[
        flag('c', "Cancel a running trim.").long("cancel"),
        flag('d', "Trim securely, so that no copy of the data remains; devices that cannot do so are refused.")
            .long("secure"),
        value('r', "rate", ArgKind::Text, "Trim at most this number of bytes per second on each device.").long("rate"),
        flag('s', "Suspend a running trim, which a trim without options resumes.").long("suspend"),
        flag('w', "Wait until the devices are trimmed.").long("wait"),
    ])
    .operands(&[ArgKind::Pool, ArgKind::Text])
    .history("zpool trim")
    .examples(&[("zpool trim -w tank", "Trim all devices of a pool, and wait for the end.")]);

/// The row of `zpool initialize`.
pub static INITIALIZE: Verb = for_owner("initialize", "Write a pattern to all unallocated space", initialize)
    .usage(&["[-c | -s | -u | -w] pool [device ...]"])
    .options(&[
        flag('c', "Cancel a running initialization.").long("cancel"),
        flag('s', "Suspend a running initialization, which one without options resumes.").long("suspend"),
        flag('u', "Forget that the devices are initialized.").long("uninit"),
        flag('w', "Wait until the devices are initialized.").long("wait"),
    ])
    .operands(&[ArgKind::Pool, ArgKind::Text])
    .history("zpool initialize")
    .examples(&[("zpool initialize tank", "Write to all free space, so that thin devices allocate it.")]);

/// `zpool trim`.
pub fn trim(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let order = order(parsed, &['c', 's'])?;
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
            .map_err(|why| Failure::usage(format!("invalid value for rate: {why}")))?,
    };
    let order = if is_start { Order::Start { rate } } else { order };
    run(cx, parsed, Work::Trim, order, &call.history())
}

/// `zpool initialize`.
pub fn initialize(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let order = order(parsed, &['c', 's', 'u'])?;
    if parsed.has('w') && !matches!(order, Order::Start { .. }) {
        return Err(Failure::usage("-w cannot be used with -c, -s or -u"));
    }
    run(cx, parsed, Work::Initialize, order, &call.history())
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
    let [pool, devices @ ..] = parsed.operands.as_slice() else {
        return Err(Failure::usage("missing pool name argument"));
    };
    let (secure, wait) = (parsed.has('d'), parsed.has('w'));
    let request = SweepRequest { pool: pool.clone(), devices: devices.to_vec(), work, order, secure, wait };
    sweep::run(&cx.invocation(command.to_owned()), &request)?;
    Ok(0)
}
