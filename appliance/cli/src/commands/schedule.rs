//! `weir schedule`: the rules for scheduled snapshots, their number, and when the next one is due.

use crate::context::{Context, Failure, Outcome};
use crate::exit_code::USAGE;
use crate::number::date_minutes;
use crate::zfs::datasets::Pools;
use admin::schedule::{self, Label, Ruled, Wrong};
use admin::state::State;
use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches};
use std::io::BufWriter;
use std::process::ExitCode;

/// Options of `weir schedule`.
pub fn command() -> clap::Command {
    clap::Command::new("schedule")
        .about("Show scheduled snapshots: their rules, how many exist, and when the next is due")
        .long_about(
            "Shows the snapshots that `weir serve` takes on a schedule.\n\nRules are properties: `weir zfs set weir:snapshot-hourly=24 tank/home` keeps the \
             newest 24 of tank/home and its descendants, `24,only` those of tank/home only, `0` none. Labels are frequent \
             (each quarter of an hour), hourly, daily, weekly and monthly, in UTC. Where com.sun:auto-snapshot is false, none are taken.",
        )
        .arg(Arg::new("dataset").value_name("DATASET").num_args(0..).help("Pools and datasets, with their descendants [default: all pools]"))
        .arg(Arg::new("scripted").short('H').action(ArgAction::SetTrue).help("No header, tabs between columns"))
}

pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let names = matches.get_many::<String>("dataset").into_iter().flatten().cloned();
    let scripted = matches.get_flag("scripted").then(|| "-H".to_owned());
    let args: Vec<String> = std::iter::once("schedule".to_owned()).chain(scripted).chain(names).collect();
    let state = State::of_process()?;
    if let Some(code) = crate::forward::run(&state, "weir", &args)? {
        return Ok(ExitCode::from(code));
    }
    let (mut out, mut err) = (BufWriter::new(std::io::stdout().lock()), std::io::stderr().lock());
    let mut cx = Context::here(&mut out, &mut err, state);
    Ok(ExitCode::from(in_context(&mut cx, &args)))
}

/// The same, in whichever process the pools are imported.
pub fn in_context(cx: &mut Context<'_>, args: &[String]) -> u8 {
    let matches = match command().try_get_matches_from(args) {
        Ok(matches) => matches,
        Err(error) => {
            cx.complain(&error.to_string());
            return USAGE;
        }
    };
    let done = show(cx, &matches, host::clock::seconds());
    cx.conclude(done)
}

fn show(cx: &mut Context<'_>, matches: &ArgMatches, now: u64) -> Outcome {
    let mut names: Vec<String> = matches.get_many("dataset").into_iter().flatten().cloned().collect();
    if names.is_empty() {
        let all = cx.state.pools().map_err(|e| Failure::failed(format!("{e:#}")))?;
        names.extend(all.into_iter().map(|pool| pool.name));
    }
    let (mut pools, mut code) = (Pools::new(cx), 0);
    let mut lines = Vec::new();
    for name in &names {
        let Some(found) = pools.entry(cx, name)? else {
            code = 1;
            continue;
        };
        let broken = |e: errors::Error| Failure::failed(format!("cannot open '{name}': {e}"));
        let (all, wrong) = schedule::rules(&found.pool.datasets).map_err(broken)?;
        let is_below =
            |of: &str| of.strip_prefix(name.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        for ruled in all.iter().filter(|ruled| is_below(ruled.head.name())) {
            for label in Label::ALL {
                lines.extend(line(ruled, label, now).map_err(broken)?);
            }
        }
        for Wrong { dataset, label, value } in wrong.iter().filter(|wrong| is_below(&wrong.dataset)) {
            cx.complain(&format!("{dataset}: {}={value} is not a valid rule", label.property()));
            code = 1;
        }
    }
    cx.print(&render(&lines, matches.get_flag("scripted")));
    Ok(code)
}

const HEADER: [&str; 7] = ["DATASET", "LABEL", "KEEP", "HAVE", "NEWEST", "NEXT", "SET ON"];

fn line(ruled: &Ruled, label: Label, now: u64) -> Result<Option<[String; 7]>, errors::Error> {
    let Some(rule) = ruled.rule(label) else { return Ok(None) };
    let own = schedule::own(&ruled.head, label)?;
    let newest = own.last().map_or_else(|| "-".to_owned(), |own| date_minutes(own.taken));
    let period = label.period(now);
    let next = match ruled.keep(label) {
        0 if ruled.is_refused(label) => "refused".to_owned(),
        0 => "-".to_owned(),
        _ if own.iter().any(|own| period.contains(&own.taken)) => date_minutes(period.end),
        _ => "now".to_owned(),
    };
    let cells = [
        ruled.head.name().to_owned(),
        label.name().to_owned(),
        rule.keep.to_string(),
        own.len().to_string(),
        newest,
        next,
        if rule.only { format!("{} alone", rule.from) } else { rule.from.clone() },
    ];
    Ok(Some(cells))
}

fn render(lines: &[[String; 7]], scripted: bool) -> String {
    if scripted {
        return lines.iter().map(|line| line.join("\t") + "\n").collect();
    }
    if lines.is_empty() {
        return "No snapshots are scheduled.\n".to_owned();
    }
    let width =
        |at: usize| lines.iter().map(|line| line[at].chars().count()).chain([HEADER[at].len()]).max().unwrap_or(0);
    let widths: [usize; 7] = std::array::from_fn(width);
    let header = HEADER.map(str::to_owned);
    let mut out = String::new();
    for line in std::iter::once(&header).chain(lines) {
        let cell = |(at, text): (usize, &String)| match at {
            // Numbers are aligned to the right.
            2 | 3 => format!("{text:>width$}", width = widths[at]),
            _ => format!("{text:width$}", width = widths[at]),
        };
        let cells: Vec<String> = line.iter().enumerate().map(cell).collect();
        out.push_str(cells.join("  ").trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_a_table_for_people_and_tabs_for_scripts() {
        let line = ["tank/a", "hourly", "24", "3", "-", "now", "tank alone"].map(str::to_owned);
        assert_eq!(render(std::slice::from_ref(&line), true), "tank/a\thourly\t24\t3\t-\tnow\ttank alone\n");
        let table = render(&[line], false);
        let expected = "DATASET  LABEL   KEEP  HAVE  NEWEST  NEXT  SET ON\ntank/a   hourly    24     3  -       now   tank alone\n";
        assert_eq!(table, expected);
        assert_eq!(render(&[], false), "No snapshots are scheduled.\n");
    }
}
