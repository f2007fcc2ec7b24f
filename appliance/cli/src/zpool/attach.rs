//! `zpool attach`, `zpool replace`, `zpool detach`: what [`admin::verbs::zpool::attach`] does, in
//! OpenZFS's words.

use super::scrub::follow;
use super::states::operands;
use super::writing::command_line;
use crate::context::{Context, Failure, Outcome};
use crate::getopt::{Options, Parsed};
use admin::verbs::zpool::attach::{self, DetachRequest, JoinRequest};
use pool::writer::Joins;

const JOIN: Options = Options { short: "fo:sw", long: &[] };
const DETACH: Options = Options { short: "", long: &[] };

pub fn attach(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    join(cx, args, Joins::Attach)
}

pub fn replace(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    join(cx, args, Joins::Replace)
}

fn words(parsed: &Parsed, how: Joins) -> Result<(&String, &String, &String), Failure> {
    match (parsed.operands.as_slice(), how) {
        ([], _) => Err(Failure::usage("missing pool name argument")),
        ([_], _) => Err(Failure::usage("missing <device> specification")),
        ([_, _], Joins::Attach) => Err(Failure::usage("missing <new_device> specification")),
        ([name, old], Joins::Replace) => Ok((name, old, old)),
        ([name, old, new], _) => Ok((name, old, new)),
        _ => Err(Failure::usage("too many arguments")),
    }
}

/// The argument of `-o`, which may be `ashift=` only.
pub(super) fn ashift(parsed: &Parsed) -> Result<Vec<(String, String)>, Failure> {
    let mut properties = Vec::new();
    for option in parsed.all('o') {
        let (property, value) = option.split_once('=').ok_or_else(|| Failure::usage("missing '=' for -o option"))?;
        if property != "ashift" {
            return Err(Failure::usage(""));
        }
        properties.push((property.to_owned(), value.to_owned()));
    }
    Ok(properties)
}

fn join(cx: &mut Context<'_>, args: &[String], how: Joins) -> Outcome {
    let parsed = JOIN.parse(args).map_err(Failure::usage)?;
    let (pool, old, new) = words(&parsed, how)?;
    let request = JoinRequest {
        how,
        pool: pool.clone(),
        old: old.clone(),
        new: new.clone(),
        properties: ashift(&parsed)?,
        force: parsed.has('f'),
        sequentially: parsed.has('s'),
        wait: parsed.has('w'),
    };
    let verb = if how == Joins::Attach { "zpool attach" } else { "zpool replace" };
    let invocation = cx.invocation(command_line(verb, args));
    attach::join(&invocation, &request, &mut |name, pool| follow(cx, pool, name))?;
    Ok(0)
}

pub fn detach(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = DETACH.parse(args).map_err(Failure::usage)?;
    let (pool, devices) = operands(&parsed, "missing <device> specification")?;
    let request = DetachRequest { pool: pool.clone(), device: devices[0].clone() };
    attach::detach(&cx.invocation(command_line("zpool detach", args)), &request)?;
    Ok(0)
}
