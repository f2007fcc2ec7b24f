//! `zpool remove`.

use super::names;
use super::states::{finish, operands, status};
use super::writing::{self, command_line, reason};
use crate::context::{Context, Failure, Outcome};
use crate::getopt::Options;

const OPTIONS: Options = Options { short: "npsw", long: &[] };

/// `zpool remove`.
pub fn run(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = OPTIONS.parse(args).map_err(Failure::usage)?;
    if let Some(letter) = ['n', 'p', 's'].into_iter().find(|letter| parsed.has(*letter)) {
        return Err(Failure::failed(format!("unsupported: 'zpool remove' with '-{letter}'")));
    }
    let (name, devices) = operands(&parsed, "missing device")?;
    let record = writing::record(cx, name)?;
    let pool = writing::open(cx, &record, &format!("cannot remove {}", devices[0]))?;
    let before = status(&pool)?;
    let mut code = 0;
    for device in devices {
        let result = match names::find(&before, device) {
            None => Err("no such device in pool".to_owned()),
            Some(found) => admin::remove::remove(&pool, found.guid).map_err(|e| reason(&e)),
        };
        if let Err(why) = result {
            cx.complain(&format!("cannot remove {device}: {why}"));
            code = 1;
        }
    }
    // Devices that can be removed leave at once: there is nothing to wait for.
    finish(pool, &command_line("zpool remove", args), code)
}
