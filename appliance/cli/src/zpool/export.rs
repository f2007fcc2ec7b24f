//! `zpool export`: forgets a pool.

use crate::context::{Context, Failure, Outcome};
use crate::getopt::Options;

const OPTIONS: Options = Options { short: "afF", long: &[] };

/// `zpool export`.
pub fn run(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = OPTIONS.parse(args).map_err(Failure::usage)?;
    if parsed.has('a') && !parsed.operands.is_empty() {
        return Err(Failure::usage("too many arguments"));
    }
    if !parsed.has('a') && parsed.operands.is_empty() {
        return Err(Failure::usage("missing pool argument"));
    }
    let (records, code) = super::pools::records(cx, &parsed.operands)?;
    if !records.is_empty() {
        records.iter().for_each(|r| crate::zfs::keys::forget(&cx.state, r));
        cx.state
            .change(|pools| pools.retain(|p| records.iter().all(|r| r.guid != p.guid || r.name != p.name)))
            .map_err(|e| Failure::failed(format!("{e:#}")))?;
    }
    Ok(code)
}
