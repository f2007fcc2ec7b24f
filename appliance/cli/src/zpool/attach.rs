//! `zpool attach`, `zpool replace`, `zpool detach`: what [`admin::verbs::zpool::attach`] does, in
//! OpenZFS's words.

use super::scrub::follow;
use super::states::operands;
use crate::context::{Context, Failure, Outcome};
use crate::getopt::{ArgKind, Opt, Parsed, flag, value};
use crate::verb::{Call, Verb, for_owner};
use admin::verbs::zpool::attach::{self, DetachRequest, JoinRequest};
use pool::writer::Joins;

const JOIN: &[Opt] = &[
    flag('f', "Use a device that appears to be in use."),
    value('o', "ashift=n", ArgKind::Words(&["ashift="]), "Set the sector size of the new device to 2^n bytes.")
        .repeated(),
    flag('s', "Rebuild sequentially, and scrub afterwards; for mirrors and draid only."),
    flag('w', "Wait until the data is on the new device."),
];

/// The row of `zpool attach`.
pub static ATTACH: Verb = for_owner("attach", "Attach a device to a disk or mirror, or expand a raidz", attach)
    .usage(&["[-fsw] [-o ashift=n] pool device new-device"])
    .options(JOIN)
    .operands(&[ArgKind::Pool, ArgKind::File])
    .history("zpool attach")
    .examples(&[
        ("zpool attach tank sda sdb", "Make a mirror of the disk sda, or add a side to its mirror."),
        ("zpool attach tank raidz1-0 sde", "Add a disk to a raidz group."),
    ]);

/// The row of `zpool replace`.
pub static REPLACE: Verb = for_owner("replace", "Replace a device", replace)
    .usage(&["[-fsw] [-o ashift=n] pool device [new-device]"])
    .options(JOIN)
    .operands(&[ArgKind::Pool, ArgKind::File])
    .history("zpool replace")
    .examples(&[
        ("zpool replace tank sda sdc", "Move the data of sda to sdc, and detach sda."),
        ("zpool replace tank sda", "Resilver a new disk that was put in the place of sda."),
    ]);

/// The row of `zpool detach`.
pub static DETACH: Verb = for_owner("detach", "Detach a device from a mirror", detach)
    .usage(&["pool device"])
    .operands(&[ArgKind::Pool, ArgKind::File])
    .history("zpool detach")
    .examples(&[("zpool detach tank sdb", "Remove a side of a mirror.")]);

/// `zpool attach`.
pub fn attach(cx: &mut Context<'_>, call: &Call) -> Outcome {
    join(cx, call, Joins::Attach)
}

/// `zpool replace`.
pub fn replace(cx: &mut Context<'_>, call: &Call) -> Outcome {
    join(cx, call, Joins::Replace)
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

fn join(cx: &mut Context<'_>, call: &Call, how: Joins) -> Outcome {
    let parsed = &call.parsed;
    let (pool, old, new) = words(parsed, how)?;
    let request = JoinRequest {
        how,
        pool: pool.clone(),
        old: old.clone(),
        new: new.clone(),
        properties: ashift(parsed)?,
        force: parsed.has('f'),
        sequentially: parsed.has('s'),
        wait: parsed.has('w'),
    };
    let invocation = cx.invocation(call.history());
    attach::join(&invocation, &request, &mut |name, pool| follow(cx, pool, name))?;
    Ok(0)
}

/// `zpool detach`.
pub fn detach(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let (pool, devices) = operands(parsed, "missing <device> specification")?;
    let request = DetachRequest { pool: pool.clone(), device: devices[0].clone() };
    attach::detach(&cx.invocation(call.history()), &request)?;
    Ok(0)
}
