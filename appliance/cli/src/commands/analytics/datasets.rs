//! `weir analytics datasets`: the statistics that are recorded continuously, their cost, and how
//! long they are kept.

use super::super::statistic::now;
use super::table::table;
use crate::daemon_client::{DaemonClient, when};
use crate::report::{Column, Kind, Value, args, column};
use anyhow::{Context as _, Result, bail};
use api::{ChangeCounted, CountStatistic, Counted, CountedList, PruneCounted};
use clap::{Arg, ArgMatches, Command};

const COLUMNS: &[Column] = &[
    column("id", Kind::Number(0), 4, "Its number."),
    column("state", Kind::Text, 9, "active: being counted; suspended: not counted, existing data is kept."),
    column("kept", Kind::Text, 8, "archived: on disk, across restarts; memory: while the daemon runs."),
    column("incore", Kind::Bytes, 10, "Bytes in memory."),
    column("ondisk", Kind::Bytes, 10, "Bytes on disk."),
    column("cost_ns", Kind::Number(1), 7, "Recent processor time for counting it, in nanoseconds per operation."),
    column("created", Kind::Text, 19, "Time since which it is counted."),
    column("name", Kind::Text, 4, "Its name."),
];

/// Options of `weir analytics datasets`.
pub fn command() -> Command {
    let name = |about: &'static str| Arg::new("name").value_name("NAME|ID").required(true).help(about);
    let one = |verb: &'static str, about: &'static str| {
        Command::new(verb).about(about).arg(name("Which: its name, or its number"))
    };
    Command::new("datasets")
        .about("List the statistics that are counted, or change the list")
        .args(args())
        .subcommand(one("add", "Count a statistic from now on, and keep it on disk across restarts"))
        .subcommand(one("watch", "Count a statistic in memory while the daemon runs"))
        .subcommand(one("archive", "Keep a statistic on disk that was counted in memory"))
        .subcommand(one("suspend", "Pause counting; existing data is kept"))
        .subcommand(one("resume", "Resume counting"))
        .subcommand(one("destroy", "Stop counting and delete the data"))
        .subcommand(
            one("prune", "Delete data from before a time").arg(
                Arg::new("before")
                    .long("before")
                    .value_name("TIME")
                    .required(true)
                    .allow_hyphen_values(true)
                    .help("Such as -7d (ago), or 2026-11-22T15:49"),
            ),
        )
}

pub fn run(matches: &ArgMatches) -> Result<()> {
    let Some((verb, of)) = matches.subcommand() else {
        return table(matches, COLUMNS, || Ok(list(&DaemonClient::find()?)?.iter().map(row).collect()));
    };
    let daemon = DaemonClient::find()?;
    let name = of.get_one::<String>("name").context("a name")?;
    if matches!(verb, "add" | "watch" | "archive") {
        let name = match name.parse::<u32>() {
            Ok(_) => find(&daemon, name)?.name,
            Err(_) => name.clone(),
        };
        let wanted = CountStatistic { name, archived: verb != "watch" };
        let done: Counted = daemon.send("POST", "/v1/analytics/datasets", &wanted)?;
        println!("{} {}: {}", done.id, done.name, kept(&done));
        return Ok(());
    }
    let found = find(&daemon, name)?;
    let path = format!("/v1/analytics/datasets/{}", found.id);
    match verb {
        "destroy" => {
            daemon.bytes("DELETE", &path, None)?;
            println!("{} {}: destroyed", found.id, found.name);
        }
        "prune" => {
            let before = when::parse(of.get_one::<String>("before").context("--before")?, now().as_secs())?;
            let done: Counted = daemon.send("POST", &format!("{path}/prune"), &PruneCounted { before })?;
            println!("{} {}: {} bytes on disk", done.id, done.name, done.ondisk_bytes);
        }
        _ => {
            let change = ChangeCounted { suspended: verb == "suspend" };
            let done: Counted = daemon.send("PATCH", &path, &change)?;
            println!("{} {}: {}", done.id, done.name, state(&done));
        }
    }
    Ok(())
}

fn list(daemon: &DaemonClient) -> Result<Vec<Counted>> {
    Ok(daemon.get::<CountedList>("/v1/analytics/datasets")?.items)
}

fn find(daemon: &DaemonClient, name: &str) -> Result<Counted> {
    let number = name.parse::<u32>().ok();
    match list(daemon)?.into_iter().find(|d| d.name == name || Some(d.id) == number) {
        Some(found) => Ok(found),
        None => bail!("statistic '{name}' is not counted: 'weir analytics datasets' lists those that are"),
    }
}

fn state(of: &Counted) -> &'static str {
    if of.suspended { "suspended" } else { "active" }
}

fn kept(of: &Counted) -> &'static str {
    if of.archived { "archived" } else { "memory" }
}

fn row(of: &Counted) -> Vec<Value> {
    vec![
        u64::from(of.id).into(),
        state(of).into(),
        kept(of).into(),
        of.incore_bytes.into(),
        of.ondisk_bytes.into(),
        of.cost_ns.into(),
        crate::number::date_history(of.created).into(),
        of.name.as_str().into(),
    ]
}
