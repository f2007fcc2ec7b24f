//! `zpool trim` and `zpool initialize`: what [`admin::verbs::zpool::sweep`] does, in OpenZFS's
//! words.

use super::writing::command_line;
use crate::context::{Context, Failure, Outcome};
use crate::getopt::{Options, Parsed};
use admin::verbs::zpool::sweep::{self, SweepRequest};
use pool::writer::{Order, Work};

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
            .map_err(|why| Failure::usage(format!("invalid value for rate: {why}")))?,
    };
    let order = if is_start { Order::Start { rate } } else { order };
    run(cx, &parsed, Work::Trim, order, &command_line("zpool trim", args))
}

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
    let [pool, devices @ ..] = parsed.operands.as_slice() else {
        return Err(Failure::usage("missing pool name argument"));
    };
    let (secure, wait) = (parsed.has('d'), parsed.has('w'));
    let request = SweepRequest { pool: pool.clone(), devices: devices.to_vec(), work, order, secure, wait };
    sweep::run(&cx.invocation(command.to_owned()), &request)?;
    Ok(0)
}
