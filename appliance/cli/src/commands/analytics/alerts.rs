//! `weir analytics alerts`: thresholds on statistics, and their receivers.

use super::super::statistic::breakdown;
use super::explain::edge;
use super::table::table;
use crate::daemon_client::DaemonClient;
use crate::report::{Column, Kind, Value, args, column};
use anyhow::{Context as _, Result, bail};
use api::{Alert, AlertAction, AlertList, AlertReduction, AlertRule, AlertSide};
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command, value_parser};

const PATH: &str = "/v1/analytics/alerts";

const COLUMNS: &[Column] = &[
    column("id", Kind::Number(0), 4, "Its number."),
    column("state", Kind::Text, 9, "firing, quiet, silenced, or suspended."),
    column("since", Kind::Text, 19, "Time since which it fires."),
    column("value", Kind::Number(3), 12, "Last value, in the unit of the limit."),
    column("side", Kind::Text, 5, "Side of the limit on which it fires."),
    column("limit", Kind::Number(3), 12, "The limit; of average and percentile in nanoseconds or bytes."),
    column("waiting", Kind::Number(0), 7, "Notifications still to be delivered."),
    column("what", Kind::Text, 10, "Value compared each second: total, average, largest, or a percentile."),
    column("statistic", Kind::Text, 16, "The statistic."),
    column("title", Kind::Text, 16, "What it is called."),
];

/// Options of `weir analytics alerts`.
pub fn command() -> Command {
    let id = || Arg::new("id").value_name("ID").required(true).value_parser(value_parser!(u32)).help("Its number");
    let option = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).allow_hyphen_values(true).help(help)
    };
    let seconds = |name: &'static str, help: &'static str| {
        option(name, "SECONDS", help).value_parser(value_parser!(u32).range(1..=86_400)).default_value("60")
    };
    Command::new("alerts")
        .about("List the alerts, make one, show one as JSON, silence, suspend or remove one")
        .args(args())
        .subcommand(
            Command::new("create")
                .about("Send notifications when a statistic is above or below a limit for some time")
                .arg(
                    Arg::new("name")
                        .value_name("NAME")
                        .required(true)
                        .help("The statistic, such as nfs3.ops[op=read][latency]"),
                )
                .arg(option("above", "LIMIT", "Fire above this, such as 5000, or 20ms for an average or percentile"))
                .arg(option("below", "LIMIT", "Fire below this"))
                .group(ArgGroup::new("limit").args(["above", "below"]).required(true))
                .arg(option("title", "TEXT", "What it is called [default: the statistic]"))
                .arg(
                    Arg::new("average")
                        .long("average")
                        .action(ArgAction::SetTrue)
                        .conflicts_with("percentile")
                        .help("Compare the average of a heat map [default: the total of a second]"),
                )
                .arg(
                    Arg::new("largest")
                        .long("largest")
                        .action(ArgAction::SetTrue)
                        .conflicts_with_all(["average", "percentile"])
                        .help("Compare the largest value of a breakdown, such as that of a pool"),
                )
                .arg(option("percentile", "P", "Compare a percentile of a heat map").value_parser(value_parser!(f64)))
                .arg(seconds("for", "Fire after so many seconds in a row"))
                .arg(seconds("clear", "Clear after so many seconds in a row"))
                .arg(option("webhook", "URL", "URL to POST to; may be repeated").action(ArgAction::Append))
                .arg(option("mail", "ADDRESS", "Address to send mail to; may be repeated").action(ArgAction::Append))
                .arg(Arg::new("syslog").long("syslog").action(ArgAction::SetTrue).help("Write to the system log")),
        )
        .subcommand(Command::new("show").about("Print an alert as JSON").arg(id()))
        .subcommand(Command::new("suspend").about("Suspend an alert").arg(id()))
        .subcommand(Command::new("resume").about("Resume an alert").arg(id()))
        .subcommand(
            Command::new("silence").about("Send no notifications of an alert for some hours").arg(id()).arg(
                Arg::new("hours")
                    .value_name("HOURS")
                    .required(true)
                    .value_parser(value_parser!(u64).range(0..=8760))
                    .help("How long; 0 ends it"),
            ),
        )
        .subcommand(Command::new("destroy").about("Remove an alert").arg(id()))
}

pub fn run(matches: &ArgMatches) -> Result<()> {
    let Some((verb, of)) = matches.subcommand() else {
        return table(matches, COLUMNS, || {
            Ok(DaemonClient::find()?.get::<AlertList>(PATH)?.items.iter().map(row).collect())
        });
    };
    if verb == "create" {
        let rule = rule(of)?;
        let made: Alert = DaemonClient::find()?.send("POST", PATH, &rule)?;
        println!("{} {}: {}", made.id, made.rule.title, state(&made));
        return Ok(());
    }
    let path = format!("{PATH}/{}", of.get_one::<u32>("id").context("a number")?);
    let daemon = DaemonClient::find()?;
    match verb {
        "show" => println!("{}", serde_json::to_string_pretty(&daemon.get::<Alert>(&path)?)?),
        "destroy" => drop(daemon.bytes("DELETE", &path, None)?),
        _ => {
            let Alert { rule, .. } = daemon.get(&path)?;
            let rule = match of.try_get_one::<u64>("hours").ok().flatten() {
                Some(0) => AlertRule { silent_until: None, ..rule },
                Some(hours) => AlertRule { silent_until: Some(host::clock::seconds() + hours * 3600), ..rule },
                None => AlertRule { suspended: verb == "suspend", ..rule },
            };
            let changed: Alert = daemon.send("PUT", &path, &rule)?;
            println!("{} {}: {}", changed.id, changed.rule.title, state(&changed));
        }
    }
    Ok(())
}

fn rule(of: &ArgMatches) -> Result<AlertRule> {
    let statistic = of.get_one::<String>("name").context("a name")?.clone();
    let text = |id: &str| of.get_one::<String>(id);
    let all = |id: &str| of.get_many::<String>(id).into_iter().flatten().cloned().collect::<Vec<_>>();
    let percentile = of.get_one::<f64>("percentile").copied();
    let reduction = match percentile {
        Some(_) => AlertReduction::Percentile,
        None if of.get_flag("average") => AlertReduction::Average,
        None if of.get_flag("largest") => AlertReduction::Largest,
        None => AlertReduction::Total,
    };
    let (side, limit) = match (text("above"), text("below")) {
        (Some(limit), None) => (AlertSide::Above, limit),
        (None, Some(limit)) => (AlertSide::Below, limit),
        _ => bail!("expected --above or --below"),
    };
    let limit = match reduction {
        AlertReduction::Total | AlertReduction::Largest => {
            limit.parse().with_context(|| format!("'{limit}' is not a number"))?
        }
        _ => edge(limit, breakdown(&statistic).unwrap_or_default())? as f64,
    };
    let mut actions: Vec<_> = all("webhook").into_iter().map(|url| AlertAction::Webhook { url }).collect();
    let to = all("mail");
    if !to.is_empty() {
        actions.push(AlertAction::Mail { to });
    }
    if of.get_flag("syslog") {
        actions.push(AlertAction::Syslog);
    }
    let seconds = |id: &str| of.get_one::<u32>(id).copied().context("seconds");
    Ok(AlertRule {
        title: text("title").unwrap_or(&statistic).clone(),
        statistic,
        reduction,
        percentile,
        side,
        limit,
        for_seconds: seconds("for")?,
        clear_seconds: seconds("clear")?,
        suspended: false,
        silent_until: None,
        actions,
    })
}

fn state(of: &Alert) -> &'static str {
    match of.firing_since {
        _ if of.rule.suspended => "suspended",
        _ if of.rule.is_silent(host::clock::seconds()) => "silenced",
        Some(_) => "firing",
        None => "quiet",
    }
}

fn row(of: &Alert) -> Vec<Value> {
    let rule = &of.rule;
    let what = match (rule.reduction, rule.percentile) {
        (AlertReduction::Total, _) => "total".to_owned(),
        (AlertReduction::Average, _) => "average".to_owned(),
        (AlertReduction::Largest, _) => "largest".to_owned(),
        (AlertReduction::Percentile, p) => format!("p{}", p.unwrap_or_default()),
    };
    vec![
        u64::from(of.id).into(),
        state(of).into(),
        of.firing_since.map_or(Value::Absent, |at| crate::number::date_history(at).into()),
        of.last_value.map_or(Value::Absent, Value::Number),
        match rule.side {
            AlertSide::Above => "above".into(),
            AlertSide::Below => "below".into(),
        },
        rule.limit.into(),
        of.waiting.into(),
        what.into(),
        rule.statistic.as_str().into(),
        rule.title.as_str().into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule_of(line: &str) -> Result<AlertRule> {
        let matches = command().try_get_matches_from(format!("alerts create {line}").split(' '))?;
        rule(matches.subcommand().context("a verb")?.1)
    }

    #[test]
    fn a_command_line_becomes_a_rule_of_the_api() {
        let made = rule_of("nfs3.ops[latency] --percentile 99 --above 20ms --for 30 --webhook http://a/b --syslog")
            .expect("right");
        assert_eq!((made.reduction, made.percentile, made.limit), (AlertReduction::Percentile, Some(99.0), 2e7));
        assert_eq!((made.side, made.for_seconds, made.clear_seconds), (AlertSide::Above, 30, 60));
        assert_eq!((made.title.as_str(), made.actions.len()), ("nfs3.ops[latency]", 2));
        let made = rule_of("cpu.utilization --below -1 --title idle --mail a@b --mail c@d").expect("right");
        assert_eq!((made.reduction, made.side, made.limit), (AlertReduction::Total, AlertSide::Below, -1.0));
        assert_eq!(made.actions, [AlertAction::Mail { to: vec!["a@b".to_owned(), "c@d".to_owned()] }]);
        for wrong in [
            "nfs3.ops",
            "nfs3.ops --above 1 --below 2",
            "nfs3.ops --above much",
            "nfs3.ops[size] --average --above 5ms",
        ] {
            assert!(rule_of(wrong).is_err(), "{wrong}");
        }
    }
}
