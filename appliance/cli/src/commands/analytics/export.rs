//! `weir analytics export`: a statistic as a file for other programs, or as a picture.

use super::super::statistic::{span, span_args};
use crate::daemon_client::{DaemonClient, with};
use anyhow::{Context as _, Result, bail};
use clap::{Arg, ArgMatches, Command, value_parser};
use std::io::{IsTerminal, Write};
use std::path::PathBuf;

/// Options that are passed on to the renderer.
const DRAWN: &[(&str, &str, &str)] = &[
    ("width", "PIXELS", "Width of the picture"),
    ("height", "PIXELS", "Height of the picture"),
    ("rows", "N", "Of a heat map: most rows"),
    ("palette", "NAME", "cividis, viridis, inferno, grey or classic"),
    ("coloring", "NAME", "rank, linear or log"),
    ("scale", "NAME", "The vertical axis: linear or log"),
    ("outliers", "PERCENT", "Percentage of the highest values to leave out: 5, 1, 0.1, 0.01 or none"),
    ("shape", "NAME", "For statistics other than heat maps: lines or stacked"),
    ("theme", "NAME", "light or dark"),
    ("low", "NUMBER", "Lower edge of the vertical axis"),
    ("high", "NUMBER", "Upper edge of the vertical axis"),
];

/// Options of `weir analytics export`.
pub fn command() -> Command {
    let drawn = DRAWN
        .iter()
        .map(|(id, value, help)| Arg::new(*id).long(*id).value_name(*value).help(format!("{help}; png and svg")));
    Command::new("export")
        .about("Write a statistic as CSV, JSON, PNG or SVG")
        .arg(Arg::new("name").value_name("NAME").required(true).help("The statistic, such as nfs3.ops[latency]"))
        .args(span_args())
        .arg(
            Arg::new("step")
                .long("step")
                .value_name("SECONDS")
                .value_parser(value_parser!(u64).range(1..))
                .help("Seconds per column"),
        )
        .arg(
            Arg::new("format")
                .long("format")
                .value_name("FORMAT")
                .default_value("csv")
                .value_parser(["csv", "json", "png", "svg"])
                .help("What to write"),
        )
        .arg(
            Arg::new("output")
                .short('o')
                .long("output")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help("Where [default: standard output]"),
        )
        .args(drawn)
}

pub fn run(matches: &ArgMatches) -> Result<()> {
    let text = |id: &str| matches.get_one::<String>(id).cloned();
    let format = text("format").context("a format")?;
    let picture = matches!(format.as_str(), "png" | "svg");
    let output = matches.get_one::<PathBuf>("output");
    if format == "png" && output.is_none() && std::io::stdout().is_terminal() {
        bail!("a PNG cannot be written to a terminal: give a file with -o");
    }
    if let Some((id, ..)) = DRAWN.iter().find(|(id, ..)| !picture && text(id).is_some()) {
        bail!("--{id} applies to pictures only: use --format png or svg");
    }
    let (from, to) = span(matches, 60)?;
    let mut params = vec![
        ("name", text("name")),
        ("from", Some(from.to_string())),
        ("to", Some(to.to_string())),
        ("step", matches.get_one::<u64>("step").map(u64::to_string)),
        ("format", Some(format)),
    ];
    params.extend(DRAWN.iter().map(|(id, ..)| (*id, text(id))));
    let path = if picture { "/v1/analytics/picture" } else { "/v1/analytics/export" };
    let bytes = DaemonClient::find()?.bytes("GET", &with(path, &params), None)?;
    match output {
        Some(file) => std::fs::write(file, &bytes).with_context(|| file.display().to_string())?,
        None => {
            let mut out = std::io::stdout().lock();
            out.write_all(&bytes)?;
            out.flush()?;
        }
    }
    Ok(())
}
