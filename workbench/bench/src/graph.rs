//! `weir graph`: charts of recorded runs and of the output of other tools.

use super::record::time;
use anyhow::{Context as _, Result, bail};
use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use cli::daemon_client::when;
use cli::report;
use record::chart::{Data, Error, Heat, KINDS, Theme, Wanted, figure};
use record::import::Options;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

fn size(text: &str) -> Result<(u32, u32), String> {
    let parts = text.split_once('x').and_then(|(w, h)| Some((w.parse().ok()?, h.parse().ok()?)));
    parts.ok_or_else(|| format!("invalid size '{text}': expected, for example, 1200x600"))
}

/// Options of `weir graph`.
pub fn command() -> Command {
    let kinds: Vec<String> = KINDS.iter().map(|(name, _, help)| format!("{name}: {help}")).collect();
    let text =
        |id: &'static str, value: &'static str, help: &'static str| Arg::new(id).long(id).value_name(value).help(help);
    Command::new("graph")
        .about("Draw charts of recorded runs, and of the output of vmstat, iostat, nicstat, zpool iostat, arcstat, fio and vdbench")
        .long_about(format!(
            "A RUN is the output of 'weir record', text output of one of these tools, or a folder of either. Several are drawn \
             over one another. The tool is recognised by its headings. The report since boot is left out and rows that -z \
             omitted are drawn as zeros; the picture notes both.\n\n{}",
            kinds.join("\n")
        ))
        .arg(
            Arg::new("kind")
                .value_name("KIND")
                .required(true)
                .value_parser(PossibleValuesParser::new(KINDS.iter().map(|(name, ..)| *name)))
                .help("Which chart"),
        )
        .arg(Arg::new("run").value_name("RUN").required(true).action(ArgAction::Append).value_parser(value_parser!(PathBuf)).help("Folders or files"))
        .arg(text("device", "NAME", "Only this device, pool or job; * matches anything"))
        .arg(text("from", "TIME", "Start of the window: 5m after the start of the run, or 15:49 on the run's clock (UTC)"))
        .arg(Arg::new("for").long("for").value_name("TIME").value_parser(time).help("Length of the window, such as 5m"))
        .arg(text("y", "log|linear", "Scale of the left axis [default: depends on the chart]").value_parser(["log", "linear"]))
        .arg(text("y2", "STATISTIC", "A statistic of the run for the right axis, such as disk.busy"))
        .arg(Arg::new("smooth").long("smooth").value_name("TIME").value_parser(time).help("Also draw a moving average over this time"))
        .arg(text("heat", "WHAT", "Vertical axis of a heat map").value_parser(["latency", "offset", "size"]).default_value("latency"))
        .arg(Arg::new("output").short('o').value_name("FILE").default_value("-").help("x.svg, x.png, or - for SVG on standard output"))
        .arg(Arg::new("size").long("size").value_name("WxH").default_value("1200x600").value_parser(size).help("Pixels"))
        .arg(text("theme", "light|dark", "Colours").value_parser(["light", "dark"]).default_value("light"))
        .arg(text("title", "TEXT", "Title [default: the chart and its runs]"))
        .arg(Arg::new("interval").long("interval").value_name("TIME").value_parser(time).help("Interval of text output without timestamps [default: 1 s]"))
        .arg(Arg::new("keep-first").long("keep-first").action(ArgAction::SetTrue).help("Keep the first report of text output (by default dropped as the report since boot)"))
}

pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let text = |id: &str| matches.get_one::<String>(id).map(String::as_str);
    let seconds = |id: &str| matches.get_one::<Duration>(id).map(Duration::as_secs_f64);
    let kind = KINDS.iter().find(|(name, ..)| Some(*name) == text("kind")).context("KIND is missing")?.1;
    let options = Options { interval: seconds("interval"), keep_first: matches.get_flag("keep-first") };
    let load = |path: &PathBuf| Data::load(path, &options);
    let runs =
        matches.get_many::<PathBuf>("run").into_iter().flatten().map(load).collect::<Result<Vec<Data>, Error>>()?;
    let from = text("from").map(|from| begin(from, runs.first().and_then(|r| r.clock))).transpose()?;
    let wanted = Wanted {
        size: matches.get_one("size").copied().unwrap_or((1200, 600)),
        theme: if text("theme") == Some("dark") { Theme::Dark } else { Theme::Light },
        title: text("title").map(str::to_owned),
        device: text("device").map(str::to_owned),
        window: (from.unwrap_or(0.0), seconds("for")),
        log: text("y").map(|y| y == "log"),
        smooth: seconds("smooth"),
        heat: match text("heat") {
            Some("offset") => Heat::Offset,
            Some("size") => Heat::Size,
            _ => Heat::Latency,
        },
        right: text("y2").map(str::to_owned),
    };
    let figure = figure(kind, &runs, &wanted)?;
    let output = text("output").unwrap_or("-");
    let picture = match Path::new(output).extension().and_then(|e| e.to_str()) {
        Some("png") => figure.png(&wanted)?,
        Some("svg") => figure.svg(&wanted)?.into_bytes(),
        None if output == "-" => figure.svg(&wanted)?.into_bytes(),
        _ => bail!("'{output}': expected a name that ends with .svg or .png, or -"),
    };
    if output != "-" {
        std::fs::write(output, picture).with_context(|| output.to_owned())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = std::io::stdout().lock();
    report::quiet(out.write_all(&picture).and_then(|()| out.flush()).map_err(Into::into)).map(|()| ExitCode::SUCCESS)
}

/// Start of a window, in seconds since the start of the run.
fn begin(text: &str, clock: Option<f64>) -> Result<f64> {
    if let Ok(after) = time(text) {
        return Ok(after.as_secs_f64());
    }
    let Some(clock) = clock else {
        bail!("--from {text}: the run has no clock; expected a time after its start, such as 5m");
    };
    // A clock time without a date is on the day of the run.
    let day = clock - clock.rem_euclid(86_400.0);
    let of_day = || -> Option<f64> {
        let mut parts = text.split(':').map(|p| p.parse::<f64>().ok());
        let (h, m, s) = (parts.next()??, parts.next()??, parts.next().unwrap_or(Some(0.0))?);
        Some(day + h * 3600.0 + m * 60.0 + s)
    };
    let at = match of_day() {
        Some(at) if at < clock => at + 86_400.0,
        Some(at) => at,
        None => when::parse(text, 0)? as f64,
    };
    Ok(at - clock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_begin_after_the_begin_or_on_the_clock() {
        let clock = Some(1_795_416_000.0 + 3600.0);
        assert_eq!(begin("5m", None).ok(), Some(300.0));
        let of_day = 1_795_416_000.0f64.rem_euclid(86_400.0);
        let (h, m) = ((of_day / 3600.0).floor(), (of_day / 60.0).floor() % 60.0);
        assert_eq!(begin(&format!("{h}:{m:02}"), clock).ok().map(|s| s > 80_000.0), Some(true), "the next day");
        assert_eq!(begin(&format!("{}:{m:02}:30", h + 1.0), clock).ok(), Some(30.0));
        assert_eq!(begin("2026-11-23T07:41:00Z", Some(1_795_419_600.0)).ok(), Some(1_795_419_660.0 - 1_795_419_600.0));
        assert!(begin("15:49", None).is_err() && begin("soon", clock).is_err());
    }

    #[test]
    fn sizes_are_two_numbers() {
        assert_eq!(size("1200x600"), Ok((1200, 600)));
        assert!(size("1200").is_err() && size("x").is_err());
    }
}
