//! `weir analytics worksheets`: the saved worksheets.

use super::table::table;
use crate::daemon_client::DaemonClient;
use crate::report::{Column, Kind, Value, args, column};
use anyhow::{Context as _, Result};
use clap::{Arg, ArgMatches, Command, value_parser};
use serde::Deserialize;

const COLUMNS: &[Column] = &[
    column("id", Kind::Number(0), 4, "Its number; the page shows it at /analytics/ID."),
    column("owner", Kind::Text, 10, "Owner."),
    column("changed", Kind::Text, 19, "Time of the last change."),
    column("title", Kind::Text, 20, "Title."),
    column("statistics", Kind::Text, 10, "Contents."),
];

#[derive(Deserialize)]
struct List {
    items: Vec<Worksheet>,
}

#[derive(Deserialize)]
struct Worksheet {
    id: u64,
    title: String,
    #[serde(default)]
    owner: String,
    #[serde(default)]
    changed: u64,
    graphs: Vec<Graph>,
}

#[derive(Deserialize)]
struct Graph {
    name: String,
}

/// Options of `weir analytics worksheets`.
pub fn command() -> Command {
    let id = || Arg::new("id").value_name("ID").required(true).value_parser(value_parser!(u64)).help("Its number");
    Command::new("worksheets")
        .about("List the saved worksheets, show one as JSON, or remove one")
        .args(args())
        .subcommand(Command::new("show").about("Print a worksheet as JSON").arg(id()))
        .subcommand(Command::new("destroy").about("Remove a worksheet; its statistics are still counted").arg(id()))
}

pub fn run(matches: &ArgMatches) -> Result<()> {
    if let Some((verb, of)) = matches.subcommand() {
        let path = format!("/v1/analytics/worksheets/{}", of.get_one::<u64>("id").context("a number")?);
        let daemon = DaemonClient::find()?;
        if verb == "show" {
            println!("{}", serde_json::to_string_pretty(&daemon.get::<serde_json::Value>(&path)?)?);
        } else {
            daemon.bytes("DELETE", &path, None)?;
        }
        return Ok(());
    }
    table(matches, COLUMNS, || {
        let all: List = DaemonClient::find()?.get("/v1/analytics/worksheets")?;
        let row = |w: &Worksheet| {
            let names: Vec<&str> = w.graphs.iter().map(|g| g.name.as_str()).collect();
            vec![
                w.id.into(),
                w.owner.as_str().into(),
                crate::number::date_history(w.changed).into(),
                w.title.as_str().into(),
                Value::Text(names.join(" ")),
            ]
        };
        Ok(all.items.iter().map(row).collect())
    })
}
