//! `zpool add`: what [`admin::verbs::zpool::add`] does, in OpenZFS's words.

use super::writing::command_line;
use crate::context::{Context, Failure, Outcome};
use crate::getopt::Options;
use admin::layout::{Group, Layout, Leaf, Purpose, Top};
use admin::vdev_names::{NameOptions, vdev_name};
use admin::verbs::zpool::add::{AddRequest, plan};
use pool::status::{PoolStatus, VdevClass, VdevStatus};
use std::fmt::Write;

const OPTIONS: Options = Options {
    short: "fgLno:P",
    long: &[
        ("allow-in-use", false, '1'),
        ("allow-replication-mismatch", false, '2'),
        ("allow-ashift-mismatch", false, '3'),
    ],
};

pub fn run(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = OPTIONS.parse(args).map_err(Failure::usage)?;
    let properties = super::attach::ashift(&parsed)?;
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
    let invocation = cx.invocation(command_line("zpool add", args));
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
