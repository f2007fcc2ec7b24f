//! `zpool events`: there is no kernel that would keep any, so the list is empty; its heading is OpenZFS's.

use crate::context::{Context, Failure, Outcome};
use crate::getopt::Options;

const OPTIONS: Options = Options { short: "vHfc", long: &[] };

/// `zpool events`.
pub fn run(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = OPTIONS.parse(args).map_err(Failure::usage)?;
    if parsed.operands.len() > 1 {
        return Err(Failure::usage("too many arguments"));
    }
    if let Some(name) = parsed.operands.first()
        && super::pools::records(cx, std::slice::from_ref(name))?.1 != 0
    {
        return Ok(1);
    }
    if parsed.has('c') {
        if !parsed.operands.is_empty() || ['v', 'H', 'f'].iter().any(|l| parsed.has(*l)) {
            return Err(Failure::usage("invalid options combined with -c"));
        }
        cx.print("cleared 0 events\n");
        return Ok(0);
    }
    if parsed.has('f') {
        return Err(Failure::failed("unsupported: 'zpool events -f'"));
    }
    if !parsed.has('H') {
        cx.print("TIME                           CLASS\n");
    }
    Ok(0)
}
