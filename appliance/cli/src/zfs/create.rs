//! `zfs create`, `zfs clone`, `zfs rename`: what [`admin::verbs::zfs`] does, in OpenZFS's words.

use crate::context::{Context, Failure, Outcome};
use crate::getopt::{ArgKind, Parsed, flag, value};
use crate::verb::{Call, Verb, for_delegates};
use crate::zpool::writing;
use admin::state::Imported;
use admin::verbs::zfs::create::{self, CloneRequest, CreateRequest, NewVolume, plan};
use admin::verbs::zfs::rename::{self, RenameRequest};

/// The row of `zfs create`.
pub static CREATE: Verb = for_delegates("create", "Create file systems and volumes", create)
    .usage(&[
        "[-Pnpuv] [-o property=value] ... filesystem",
        "[-Pnpsv] [-b blocksize] [-o property=value] ... -V size volume",
    ])
    .options(&[
        flag('p', "Create missing parents too, and succeed if the dataset exists."),
        value('V', "size", ArgKind::Text, "Create a volume of this size."),
        value('b', "blocksize", ArgKind::Text, "Use blocks of this size for the volume."),
        flag('s', "Reserve no space for the volume."),
        flag('n', "Print what would be created, with -v or -P, and create nothing."),
        flag('u', "Do not mount the file system."),
        flag('v', "Print the name and the properties."),
        flag('P', "As -v, with tabs between fields."),
        value('o', "property=value", ArgKind::DatasetAssignment, "Set a property.").repeated(),
    ])
    .operands(&[ArgKind::NewDataset])
    .history("zfs create")
    .examples(&[
        ("zfs create -o compression=zstd tank/home", "Create a file system."),
        ("zfs create -s -V 100G tank/vm", "Create a thin volume of 100 GiB."),
    ]);

/// The row of `zfs clone`.
pub static CLONE: Verb = for_delegates("clone", "Create a dataset from a snapshot", clone)
    .usage(&["[-pu] [-o property=value] ... snapshot filesystem|volume"])
    .options(&[
        value('o', "property=value", ArgKind::DatasetAssignment, "Set a property.").repeated(),
        flag('p', "Create missing parents too, and succeed if the dataset exists."),
        flag('u', "Do not mount the file system."),
    ])
    .operands(&[ArgKind::Snapshot, ArgKind::NewDataset])
    .history("zfs clone")
    .examples(&[("zfs clone tank/home@monday tank/copy", "Create a file system with the contents of a snapshot.")]);

/// The row of `zfs rename`.
pub static RENAME: Verb = for_delegates("rename", "Rename datasets", rename)
    .usage(&[
        "[-f] filesystem|volume filesystem|volume",
        "-p [-f] filesystem|volume filesystem|volume",
        "-u [-f] filesystem filesystem",
        "[-r] snapshot snapshot",
    ])
    .options(&[
        flag('p', "Create missing parents of the new name."),
        flag('r', "Rename the snapshots of that name of all descendants too."),
        flag('u', "Leave mounts where they are."),
        flag('f', "No effect, as with OpenZFS on Linux: file systems in use stay mounted."),
    ])
    .operands(&[ArgKind::AnyDataset, ArgKind::NewDataset])
    .history("zfs rename")
    .examples(&[("zfs rename tank/home tank/users", "Give a file system another name.")]);

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

/// `zfs create`.
pub fn create(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
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
        properties: properties(parsed)?,
        parents: parsed.has('p'),
        unmounted: parsed.has('u'),
    };
    let invocation = cx.invocation(call.history());
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

/// `zfs clone`.
pub fn clone(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let properties = properties(parsed)?;
    let (origin, name) = match parsed.operands.as_slice() {
        [] => return Err(Failure::usage("missing source dataset argument")),
        [_] => return Err(Failure::usage("missing target dataset argument")),
        [origin, name] => (origin.clone(), name.clone()),
        _ => return Err(Failure::usage("too many arguments")),
    };
    let request = CloneRequest { origin, name, properties, parents: parsed.has('p'), unmounted: parsed.has('u') };
    let report = create::clone(&cx.invocation(call.history()), &request)?;
    Ok(cx.report(report))
}

/// `zfs rename`.
pub fn rename(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
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
    let report = rename::run(&cx.invocation(call.history()), &request)?;
    Ok(cx.report(report))
}
