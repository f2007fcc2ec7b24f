//! `zfs create`, `zfs clone`, `zfs rename`: what [`admin::verbs::zfs`] does, in OpenZFS's words.

use crate::context::{Context, Failure, Outcome};
use crate::getopt::{Options, Parsed};
use crate::zpool::writing::{self, command_line};
use admin::state::Imported;
use admin::verbs::zfs::create::{self, CloneRequest, CreateRequest, NewVolume, plan};
use admin::verbs::zfs::rename::{self, RenameRequest};

const CREATE: Options = Options { short: "pV:b:snuvPo:", long: &[] };
const CLONE: Options = Options { short: "o:pu", long: &[] };
const RENAME: Options = Options { short: "pruf", long: &[] };

/// The record of a dataset's pool. `verb` is the verb in the error message.
pub fn record(cx: &Context<'_>, verb: &str, name: &str) -> Result<Imported, Failure> {
    Ok(cx.invocation(String::new()).record(verb, name)?)
}

/// The properties of `-o property=value ...`.
pub fn properties(parsed: &Parsed) -> Result<Vec<(String, String)>, Failure> {
    let mut properties: Vec<(String, String)> = Vec::new();
    for option in parsed.all('o') {
        let Some((property, value)) = option.split_once('=') else {
            return Err(Failure::failed("missing '=' for property=value argument"));
        };
        if properties.iter().any(|(n, _)| n == property) {
            return Err(Failure::failed(format!("property '{property}' specified multiple times")));
        }
        properties.push((property.to_owned(), value.to_owned()));
    }
    Ok(properties)
}

pub fn create(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = CREATE.parse(args).map_err(Failure::usage)?;
    let is_volume = parsed.has('V');
    if (parsed.has('s') || parsed.has('b')) && !is_volume {
        return Err(Failure::usage("'-s' and '-b' can only be used when creating a volume"));
    }
    if parsed.has('u') && is_volume {
        return Err(Failure::usage("'-u' can only be used when creating a filesystem"));
    }
    let name = match parsed.operands.as_slice() {
        [] => {
            return Err(Failure::usage(format!(
                "missing {} argument",
                if is_volume { "volume" } else { "filesystem" }
            )));
        }
        [name] => name.clone(),
        _ => return Err(Failure::usage("too many arguments")),
    };
    let volume = parsed.last('V').map(|size| NewVolume {
        size: size.to_owned(),
        block_size: parsed.last('b').map(str::to_owned),
        sparse: parsed.has('s'),
    });
    let request = CreateRequest {
        name,
        volume,
        properties: properties(&parsed)?,
        parents: parsed.has('p'),
        unmounted: parsed.has('u'),
    };
    let invocation = cx.invocation(command_line("zfs create", args));
    let plan = plan(&invocation, &request)?;
    if plan.exists {
        return Ok(0);
    }
    let (verbose, dry_run, parsable) = (parsed.has('v') || parsed.has('P'), parsed.has('n'), parsed.has('P'));
    if verbose {
        let name = &request.name;
        let ancestors = match (parsable, dry_run) {
            (true, _) => format!("create_ancestors\t{name}\n"),
            (_, true) => format!("would create ancestors of {name}\n"),
            _ => format!("create ancestors of {name}\n"),
        };
        cx.print(if request.parents { ancestors.as_str() } else { "" });
        let mut out = match (parsable, dry_run) {
            (true, _) => format!("create\t{name}\n"),
            (_, true) => format!("would create {name}\n"),
            _ => format!("create {name}\n"),
        };
        for (property, value) in &plan.properties {
            out +=
                &if parsable { format!("property\t{property}\t{value}\n") } else { format!("\t{property}={value}\n") };
        }
        cx.print(&out);
    }
    if dry_run {
        return Ok(0);
    }
    let client = cx.client;
    let report = plan.run(&invocation, &|format| writing::ask(client, format))?;
    Ok(cx.report(report))
}

/// Mounts a file system that was just created, after those above it that are not mounted. Returns
/// the exit code.
pub fn mount_new(cx: &mut Context<'_>, record: &Imported, name: &str) -> u8 {
    let Some(owner) = crate::mounts::owner(cx, record.guid) else { return 0 };
    let report = crate::mounts::of(&owner, record).mount_new(name);
    cx.report(report)
}

pub fn clone(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = CLONE.parse(args).map_err(Failure::usage)?;
    let properties = properties(&parsed)?;
    let (origin, name) = match parsed.operands.as_slice() {
        [] => return Err(Failure::usage("missing source dataset argument")),
        [_] => return Err(Failure::usage("missing target dataset argument")),
        [origin, name] => (origin.clone(), name.clone()),
        _ => return Err(Failure::usage("too many arguments")),
    };
    let request = CloneRequest { origin, name, properties, parents: parsed.has('p'), unmounted: parsed.has('u') };
    let report = create::clone(&cx.invocation(command_line("zfs clone", args)), &request)?;
    Ok(cx.report(report))
}

pub fn rename(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = RENAME.parse(args).map_err(Failure::usage)?;
    let (from, to) = match parsed.operands.as_slice() {
        [] => return Err(Failure::usage("missing source dataset argument")),
        [_] => return Err(Failure::usage("missing target dataset argument")),
        [from, to] => (from.clone(), to.clone()),
        _ => return Err(Failure::usage("too many arguments")),
    };
    if parsed.has('u') && parsed.has('p') && !parsed.has('r') {
        return Err(Failure::usage("-u and -p options are mutually exclusive"));
    }
    let request = RenameRequest {
        from,
        to,
        parents: parsed.has('p'),
        recursive: parsed.has('r'),
        force: parsed.has('f'),
        keep_mounts: parsed.has('u'),
    };
    let report = rename::run(&cx.invocation(command_line("zfs rename", args)), &request)?;
    Ok(cx.report(report))
}
