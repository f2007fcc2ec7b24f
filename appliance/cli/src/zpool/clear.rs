//! `zpool clear`.

use super::names;
use super::writing::{self, change, command_line};
use crate::context::{Context, Failure, Outcome};
use crate::getopt::Options;
use admin::status::VdevClass;

const OPTIONS: Options = Options { short: "FnX", long: &[("power", false, 'P')] };

/// `zpool clear`.
pub fn run(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = OPTIONS.parse(args).map_err(Failure::usage)?;
    if let Some(letter) = ['F', 'n', 'X', 'P'].into_iter().find(|l| parsed.has(*l)) {
        let option = if letter == 'P' { "--power".to_owned() } else { format!("-{letter}") };
        return Err(Failure::failed(format!("unsupported: 'zpool clear' with '{option}'")));
    }
    let (name, device) = match parsed.operands.as_slice() {
        [] => return Err(Failure::usage("missing pool name")),
        [name] => (name, None),
        [name, device] => (name, Some(device)),
        _ => return Err(Failure::usage("too many arguments")),
    };
    let record = writing::record(cx, name)?;
    let cannot = format!("cannot clear errors for {}", device.unwrap_or(name));
    let failed = |why: String| Failure::failed(format!("{cannot}: {why}"));
    let mut guid = None;
    if let Some(device) = device {
        let status = super::pools::open(cx, &record)?.status().map_err(|e| failed(e.to_string()))?;
        let found = names::find(&status, device).ok_or_else(|| failed("no such device in pool".into()))?;
        if found.class == VdevClass::Spare {
            return Err(failed("device is reserved as a hot spare".into()));
        }
        guid = Some(found.guid).filter(|_| found.kind != "root");
    }
    change(cx, &record, &cannot, &command_line("zpool clear", args), |pool| admin::clear::clear(pool, guid))?;
    if cx.owner.is_none() {
        super::scrub::resilver_now(cx, &record, false)?;
    }
    Ok(0)
}
