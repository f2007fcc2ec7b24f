//! `zpool add`: what [`admin::verbs::zpool::add`] does, in OpenZFS's words.

use crate::context::{Context, Failure, Outcome};
use crate::getopt::{ArgKind, flag, long_flag, value};
use crate::shared_options::{FOLLOW, GUIDS, PATHS};
use crate::verb::{Call, Verb, for_owner};
use admin::layout::{Group, Layout, Leaf, Purpose, Top};
use admin::vdev_names::{NameOptions, vdev_name};
use admin::verbs::zpool::add::{AddRequest, plan};
use pool::status::{PoolStatus, VdevClass, VdevStatus};
use std::fmt::Write;

/// The row of `zpool add`.
pub static VERB: Verb = for_owner("add", "Add devices to a pool", run)
    .usage(&[
        "[-fgLnP] [-o ashift=n] [--allow-in-use --allow-replication-mismatch --allow-ashift-mismatch] pool vdev ...",
    ])
    .options(&[
        flag('f', "Use devices that appear to be in use, and groups that do not match those of the pool."),
        GUIDS,
        FOLLOW,
        flag('n', "Print the layout without adding the devices."),
        value('o', "ashift=n", ArgKind::Words(&["ashift="]), "Set the sector size of the new devices to 2^n bytes.")
            .repeated(),
        PATHS,
        long_flag('1', "allow-in-use", "Use devices that appear to be in use."),
        long_flag('2', "allow-replication-mismatch", "Add groups whose redundancy differs from that of the pool."),
        long_flag('3', "allow-ashift-mismatch", "Add devices whose sector size differs from that of the pool."),
    ])
    .operands(&[ArgKind::Pool, ArgKind::File])
    .history("zpool add")
    .examples(&[("zpool add tank mirror sdc sdd", "Add a mirror to a pool.")]);

/// `zpool add`.
pub fn run(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let properties = super::attach::ashift(parsed)?;
    let [name, words @ ..] = parsed.operands.as_slice() else {
        return Err(Failure::usage("missing pool name argument"));
    };
    if words.is_empty() {
        return Err(Failure::usage("missing vdev specification"));
    }
    let force = parsed.has('f');
    if force && ['1', '2', '3'].into_iter().any(|option| parsed.has(option)) {
        return Err(Failure::usage(
            "'-f' option is not allowed with '--allow-replication-mismatch', '--allow-ashift-mismatch', or '--allow-in-use'",
        ));
    }
    let request = AddRequest {
        pool: name.clone(),
        layout: Layout::parse(words),
        properties,
        force,
        allow_in_use: parsed.has('1'),
        allow_replication_mismatch: parsed.has('2'),
        allow_ashift_mismatch: parsed.has('3'),
    };
    let invocation = cx.invocation(call.history());
    let plan = plan(&invocation, request)?;
    if parsed.has('n') {
        let names = NameOptions { guid: parsed.has('g'), follow: parsed.has('L'), path: parsed.has('P') };
        let tree = tree(&plan.status, &plan.layout, names);
        cx.print(&format!("would update '{name}' to the following configuration:\n\n{tree}"));
        return Ok(0);
    }
    plan.run(&invocation)?;
    Ok(0)
}

/// The current configuration with the devices to add, grouped by class.
fn tree(status: &PoolStatus, layout: &Layout, names: NameOptions) -> String {
    let mut out = String::new();
    let sections = [
        (VdevClass::Normal, Purpose::Normal, status.name.as_str()),
        (VdevClass::Dedup, Purpose::Dedup, "dedup"),
        (VdevClass::Special, Purpose::Special, "special"),
        (VdevClass::Log, Purpose::Log, "logs"),
    ];
    for (class, purpose, heading) in sections {
        let known = status.root.children.iter().filter(|top| top.class == class && top.kind != "hole");
        let known = known.map(|top| match class {
            VdevClass::Normal => top.clone(),
            // Only normal devices are shown with their number.
            _ => VdevStatus { name: without_number(&top.name).to_owned(), ..top.clone() },
        });
        let joining = layout.tops.iter().filter(|top| top.purpose == purpose).map(of_top);
        section(&mut out, heading, known.chain(joining), names);
    }
    let lists = [(&status.caches, &layout.caches, "cache"), (&status.spares, &layout.spares, "spares")];
    for (known, joining, heading) in lists {
        section(&mut out, heading, known.iter().cloned().chain(joining.iter().map(of_leaf)), names);
    }
    out
}

fn section(out: &mut String, heading: &str, devices: impl Iterator<Item = VdevStatus>, names: NameOptions) {
    for (i, device) in devices.enumerate() {
        if i == 0 {
            let _ = writeln!(out, "\t{heading}");
        }
        line(out, &device, 2, names);
    }
}

fn line(out: &mut String, device: &VdevStatus, indent: usize, names: NameOptions) {
    let _ = writeln!(out, "\t{:indent$}{}", "", vdev_name(device, names));
    device.children.iter().for_each(|child| line(out, child, indent + 2, names));
}

fn without_number(name: &str) -> &str {
    match name.rsplit_once('-') {
        Some((kind, number)) if !name.starts_with('/') && number.bytes().all(|b| b.is_ascii_digit()) => kind,
        _ => name,
    }
}

fn of_top(top: &Top) -> VdevStatus {
    match top.group {
        Group::Single => top.leaves.first().map(of_leaf).unwrap_or_default(),
        Group::Mirror | Group::Raidz(_) | Group::Draid(_) => VdevStatus {
            name: top.name(),
            kind: match top.group {
                Group::Draid(_) => "draid",
                Group::Raidz(_) => "raidz",
                _ => "mirror",
            }
            .to_owned(),
            children: top.leaves.iter().map(of_leaf).collect(),
            ..VdevStatus::default()
        },
    }
}

fn of_leaf(leaf: &Leaf) -> VdevStatus {
    VdevStatus { name: leaf.name(), kind: leaf.kind().to_owned(), path: Some(leaf.name()), ..VdevStatus::default() }
}
