//! `zpool clear`: what [`admin::verbs::zpool::clear`] does, in OpenZFS's words.

use super::scrub::follow;
use super::writing::command_line;
use crate::context::{Context, Failure, Outcome};
use crate::getopt::Options;
use admin::verbs::zpool::clear::{self, ClearRequest};

const OPTIONS: Options = Options { short: "FnX", long: &[("power", false, 'P')] };

pub fn run(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = OPTIONS.parse(args).map_err(Failure::usage)?;
    if let Some(letter) = ['F', 'n', 'X', 'P'].into_iter().find(|l| parsed.has(*l)) {
        let option = if letter == 'P' { "--power".to_owned() } else { format!("-{letter}") };
        return Err(Failure::failed(format!("unsupported: 'zpool clear' with '{option}'")));
    }
    let (pool, device) = match parsed.operands.as_slice() {
        [] => return Err(Failure::usage("missing pool name")),
        [pool] => (pool, None),
        [pool, device] => (pool, Some(device.clone())),
        _ => return Err(Failure::usage("too many arguments")),
    };
    let request = ClearRequest { pool: pool.clone(), device };
    let invocation = cx.invocation(command_line("zpool clear", args));
    clear::run(&invocation, &request, &mut |name, pool| follow(cx, pool, name))?;
    Ok(0)
}
