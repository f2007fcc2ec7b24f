//! `weir analytics`: recorded statistics, available statistics, explanations of operations, and
//! export to files for other programs.

mod alerts;
mod datasets;
mod explain;
mod export;
mod table;
mod worksheets;

use crate::daemon_client::DaemonClient;
use crate::handover;
use crate::report::{self, Column, Kind, Value, args, column};
use anyhow::Result;
use clap::{ArgMatches, Command};
use std::process::ExitCode;
use table::table;

const STATISTICS: &[Column] = &[
    column("name", Kind::Text, 16, "The statistic; brackets after it select values and break it down."),
    column("category", Kind::Text, 8, "Category."),
    column("unit", Kind::Text, 8, "Unit."),
    column("fields", Kind::Text, 6, "Possible breakdowns; numeric ones, which make heat maps, are marked with +."),
    column("help", Kind::Text, 4, "Description."),
];

/// Options of `weir analytics`.
pub fn command() -> Command {
    Command::new("analytics")
        .about("Manage statistics, explain operations, export")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(datasets::command())
        .subcommand(Command::new("statistics").about("List all statistics and their breakdowns").args(args()))
        .subcommand(alerts::command())
        .subcommand(export::command())
        .subcommand(explain::command())
        .subcommand(worksheets::command())
        .subcommand(handover::listed("overhead"))
}

pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let done = match matches.subcommand() {
        Some(("datasets", matches)) => datasets::run(matches),
        Some(("alerts", matches)) => alerts::run(matches),
        Some(("export", matches)) => export::run(matches),
        Some(("explain", matches)) => explain::run(matches),
        Some(("overhead", matches)) => handover::run(matches).map(drop),
        Some(("worksheets", matches)) => worksheets::run(matches),
        Some((_, matches)) => statistics(matches),
        None => Ok(()),
    };
    report::quiet(done).map(|()| ExitCode::SUCCESS)
}

fn statistics(matches: &ArgMatches) -> Result<()> {
    table(matches, STATISTICS, || {
        let all: api::StatisticList = DaemonClient::find()?.get("/v1/analytics/statistics")?;
        let row = |s: &api::Statistic| {
            let field = |f: &api::StatisticField| format!("{}{}", f.name, if f.heat_map { "+" } else { "" });
            let fields: Vec<String> = s.fields.iter().map(field).collect();
            [&s.name, &s.category, &s.unit, &fields.join(","), &s.help].map(|t| Value::from(t.as_str())).to_vec()
        };
        Ok(all.items.iter().map(row).collect())
    })
}
