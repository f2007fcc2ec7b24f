//! `zpool split`: what [`admin::verbs::zpool::split`] does, in OpenZFS's words. The new pool is
//! left exported, or imported with `-R`.

use crate::context::{Context, Failure, Outcome};
use crate::getopt::{ArgKind, Parsed, flag, value};
use crate::shared_options::{FOLLOW, GUIDS, PATHS};
use crate::verb::{Call, Verb, for_owner};
use admin::mounts::Plan;
use admin::vdev_names::{NameOptions, vdev_name};
use admin::verbs::zpool::split::{self, SplitRequest};
use pool::status::{PoolStatus, VdevClass, VdevStatus};

/// The row of `zpool split`.
pub static VERB: Verb = for_owner("split", "Split one side of each mirror into a new pool", run)
    .usage(&["[-gLlnP] [-o property=value] ... [-R root] pool newpool [device ...]"])
    .options(&[
        GUIDS,
        FOLLOW,
        value('R', "root", ArgKind::File, "Import the new pool with this directory before all mount points (altroot)."),
        flag('l', "With -R, load the keys of encrypted datasets before mounting them."),
        flag('n', "Print the layout of the new pool without splitting."),
        value(
            'o',
            "property=value",
            ArgKind::PoolAssignment,
            "Set a property of the new pool; or, with -R, mount it with these options, such as ro.",
        )
        .repeated(),
        PATHS,
    ])
    .operands(&[ArgKind::Pool, ArgKind::Text])
    .history("zpool split")
    .examples(&[("zpool split tank copy", "Make the last side of each mirror a pool named copy.")]);

/// `zpool split`.
pub fn run(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let imports = parsed.has('R');
    let options: Vec<&str> = parsed.all('o').collect();
    if !imports && options.iter().any(|option| !option.contains('=')) {
        return Err(Failure::usage("setting mntopts is only valid when importing the pool"));
    }
    for mount in options.iter().filter(|option| !option.contains('=')) {
        Plan::default().apply(mount).map_err(Failure::failed)?;
    }
    if !imports && parsed.has('l') {
        return Err(Failure::usage("loading keys is only valid when importing the pool"));
    }
    let (name, new, devices) = match parsed.operands.as_slice() {
        [] => return Err(Failure::usage("Missing pool name")),
        [_] => return Err(Failure::usage("Missing new pool name")),
        [name, new, devices @ ..] => (name, new, devices),
    };
    if imports {
        let root = format!("altroot={}", parsed.last('R').unwrap_or_default());
        let given: Vec<&str> = options.iter().copied().chain([root.as_str()]).collect();
        super::import::check_properties(&given, new)?;
    }
    let assigned = options.iter().filter_map(|option| option.split_once('='));
    let request = SplitRequest {
        pool: name.clone(),
        new_name: new.clone(),
        devices: devices.to_vec(),
        properties: assigned.map(|(property, value)| (property.to_owned(), value.to_owned())).collect(),
        imports,
        dry_run: parsed.has('n'),
    };
    let outcome = split::run(&cx.invocation(call.history()), &request)?;
    if request.dry_run {
        cx.print(&layout(&outcome.status, new, &outcome.devices, name_options(parsed)));
        return Ok(0);
    }
    let places = outcome.places();
    let mut words = Vec::new();
    for place in &places {
        words.extend(["-d".to_owned(), place.clone()]);
    }
    if !imports {
        return if options.is_empty() { Ok(0) } else { set_properties(cx, words, new, &options) };
    }
    for option in &options {
        words.extend(["-o".to_owned(), (*option).to_owned()]);
    }
    words.extend(parsed.has('l').then(|| "-l".to_owned()));
    words.extend(["-R".to_owned(), parsed.last('R').unwrap_or_default().to_owned(), new.clone()]);
    super::import::run(cx, &super::import::VERB.call(&words)?)
}

/// Sets properties of the new pool: imports it without mounting anything, and exports it again.
fn set_properties(cx: &mut Context<'_>, mut import: Vec<String>, name: &str, options: &[&str]) -> Outcome {
    import.extend(["-N".to_owned(), name.to_owned()]);
    let mut code = super::import::run(cx, &super::import::VERB.call(&import)?)?;
    if code != 0 {
        return Ok(code);
    }
    let assignments: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
    code |= super::set::assign(cx, name, &assignments);
    Ok(code | super::export::run(cx, &super::export::VERB.call(&[name.to_owned()])?)?)
}

fn name_options(parsed: &Parsed) -> NameOptions {
    NameOptions { guid: parsed.has('g'), follow: parsed.has('L'), path: parsed.has('P') }
}

/// The layout of the pool that a split would create.
fn layout(status: &PoolStatus, new: &str, plan: &[u64], options: NameOptions) -> String {
    let mut out = format!("would create '{new}' with the following layout:\n\n");
    for (class, heading) in [(VdevClass::Normal, new), (VdevClass::Dedup, "dedup"), (VdevClass::Special, "special")] {
        let tops = status.root.children.iter().filter(|top| top.class == class);
        let going =
            |top: &VdevStatus| top.walk().into_iter().find(|v| plan.contains(&v.guid)).map(|v| vdev_name(v, options));
        let lines: Vec<String> = tops.filter_map(going).collect();
        if class == VdevClass::Normal || !lines.is_empty() {
            out.push_str(&format!("\t{heading}\n"));
            lines.iter().for_each(|line| out.push_str(&format!("\t  {line}\n")));
        }
    }
    out
}
