//! `zpool create`: what [`admin::verbs::zpool::create`] does, in OpenZFS's words.

use super::writing;
use crate::context::{Context, Failure, Outcome};
use crate::getopt::{ArgKind, Parsed, flag, value};
use crate::verb::{Call, Verb, for_owner};
use admin::layout::Layout;
use admin::verbs::zpool::create::{CreateRequest, plan};

/// The row of `zpool create`.
pub static VERB: Verb = for_owner("create", "Create a pool", run)
    .usage(&[
        "[-fnd] [-o property=value] ... [-O file-system-property=value] ... [-m mountpoint] [-R root] [-t tempname] pool vdev ...",
    ])
    .options(&[
        flag('f', "Use devices that appear to be in use, and groups with different redundancy."),
        flag('n', "Print the layout without creating the pool."),
        flag('d', "Enable no features, except those that -o enables."),
        value('R', "root", ArgKind::File, "Put this directory before all mount points (altroot), and set cachefile=none."),
        value('m', "mountpoint", ArgKind::File, "Mount the pool's root file system there; the default is /POOL."),
        value('o', "property=value", ArgKind::PoolAssignment, "Set a property of the pool or enable a feature.").repeated(),
        value('O', "property=value", ArgKind::DatasetAssignment, "Set a property of the root file system.").repeated(),
        value('t', "tempname", ArgKind::Text, "Import the new pool under this name, which is not stored."),
    ])
    .operands(&[ArgKind::Text, ArgKind::File])
    .history("zpool create")
    .examples(&[
        ("zpool create tank mirror sda sdb", "Create a pool of one mirror."),
        ("zpool create -o ashift=12 -O compression=zstd tank raidz2 sda sdb sdc sdd", "Create a pool of one raidz2 group whose data is compressed."),
    ]);

/// `zpool create`.
pub fn run(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let [name, words @ ..] = parsed.operands.as_slice() else {
        return Err(Failure::usage("missing pool name argument"));
    };
    if words.is_empty() {
        return Err(Failure::usage("missing vdev specification"));
    }
    let request = CreateRequest {
        temporary_name: parsed.last('t').map(str::to_owned),
        properties: assigned(parsed, 'o')?,
        altroot: parsed.last('R').map(str::to_owned),
        dataset_properties: datasets(parsed)?,
        without_features: parsed.has('d'),
        force: parsed.has('f'),
        ..CreateRequest::new(name.clone(), Layout::parse(words))
    };
    let invocation = cx.invocation(call.history());
    let plan = plan(&invocation, request)?;
    if parsed.has('n') {
        let layout = plan.layout.tree(name);
        cx.print(&format!("would create '{name}' with the following layout:\n\n{layout}"));
        return Ok(0);
    }
    let client = cx.client;
    let report = plan.run(&invocation, &|format| writing::ask(client, format))?;
    Ok(cx.report(report))
}

fn assigned(parsed: &Parsed, letter: char) -> Result<Vec<(String, String)>, Failure> {
    parsed.all(letter).map(|option| assignment(letter, option)).collect()
}

fn assignment(letter: char, option: &str) -> Result<(String, String), Failure> {
    let pair = option.split_once('=').ok_or_else(|| Failure::failed(format!("missing '=' for -{letter} option")))?;
    Ok((pair.0.to_owned(), pair.1.to_owned()))
}

/// The properties of `-O`, and of `-m`, which is `-O mountpoint=`: the last of both counts.
fn datasets(parsed: &Parsed) -> Result<Vec<(String, String)>, Failure> {
    let given = parsed.given.iter().filter(|(letter, _)| matches!(letter, 'O' | 'm'));
    let pair = |(letter, argument): &(char, String)| match letter {
        'm' => Ok(("mountpoint".to_owned(), argument.clone())),
        _ => assignment('O', argument),
    };
    given.map(pair).collect()
}
