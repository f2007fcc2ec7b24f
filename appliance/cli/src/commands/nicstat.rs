//! `weir nicstat`: what passes over the network devices of this machine, as nicstat shows it.
//!
//! From /proc/net and /sys/class/net: it needs no daemon.

mod protocols;

use super::counters::{Counters, show, with_args};
use super::statistic::now;
use crate::report::{self, Column, Kind, Value, column};
use anyhow::{Context as _, Result, bail};
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::collections::BTreeMap;
use std::fs::read_to_string;
use std::process::ExitCode;
use std::time::Duration;

const COLUMNS: &[Column] = &[
    column("Int", Kind::Text, 8, "The device."),
    column("rKB/s", Kind::Kibi(2), 9, "KiB a second received."),
    column("wKB/s", Kind::Kibi(2), 9, "KiB a second sent."),
    column("rPk/s", Kind::Number(2), 9, "Packets a second received."),
    column("wPk/s", Kind::Number(2), 9, "Packets a second sent."),
    column("rAvs", Kind::Number(1), 7, "Bytes of a received packet on average: near 9000 where jumbo frames arrive."),
    column("wAvs", Kind::Number(1), 7, "Bytes of a sent packet on average."),
    column(
        "%Util",
        Kind::Number(2),
        6,
        "Share of the device's speed, of the busier direction where it has both; - : its speed is not known.",
    ),
    column("Sat", Kind::Number(2), 5, "Packets a second that were dropped or did not fit."),
];

const ERRORS: &[Column] = &[
    column("IErr", Kind::Number(2), 6, "Errors a second while receiving."),
    column("OErr", Kind::Number(2), 6, "Errors a second while sending."),
    column("Coll", Kind::Number(2), 6, "Collisions a second."),
    column("NoCP", Kind::Number(2), 6, "Received packets a second that had no room."),
    column("Defer", Kind::Number(2), 6, "- : Linux does not tell it."),
];

/// Options of `weir nicstat`.
pub fn command() -> Command {
    with_args(
        Command::new("nicstat")
            .about("Show what passes over the network devices of this machine")
            .long_about(
                "A row for each device; the first report is the average since the machine started. Idle devices have rows with \
                 zeros, unless -z hides them on a terminal.",
            )
            .arg(Arg::new("device").short('i').long("interface").value_name("DEVICE,…").value_delimiter(',').help("These devices alone"))
            .arg(Arg::new("errors").short('x').action(ArgAction::SetTrue).help("Errors too: IErr OErr Coll NoCP Defer"))
            .arg(Arg::new("tcp").short('t').long("tcp").action(ArgAction::SetTrue).conflicts_with_all(["udp", "device", "errors"]).help("What TCP does, of all devices together"))
            .arg(Arg::new("udp").long("udp").action(ArgAction::SetTrue).conflicts_with_all(["device", "errors"]).help("What UDP does; nicstat's -u, which is the unit here")),
    )
}

/// Counters of a device, in the order of /proc/net/dev, and its speed.
#[derive(Debug, Clone, Default, PartialEq)]
struct Device {
    counters: Vec<u64>,
    /// Bytes a second, if it says so.
    speed: Option<f64>,
    half_duplex: bool,
}

struct Reading {
    at: Duration,
    uptime: f64,
    devices: BTreeMap<String, Device>,
}

struct Network {
    only: Vec<String>,
    errors: bool,
}

/// Runs `weir nicstat`.
pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let is_tcp = matches.get_flag("tcp");
    if is_tcp || matches.get_flag("udp") {
        let columns = if is_tcp { protocols::TCP } else { protocols::UDP };
        let shown = show(matches, columns, |_| Ok(protocols::Protocol { is_tcp }));
        return report::quiet(shown).map(|()| ExitCode::SUCCESS);
    }
    let errors = matches.get_flag("errors");
    let only: Vec<String> = matches.get_many::<String>("device").into_iter().flatten().cloned().collect();
    let columns: Vec<Column> = COLUMNS.iter().chain(ERRORS.iter().filter(|_| errors)).copied().collect();
    report::quiet(show(matches, &columns, |_| Ok(Network { only, errors }))).map(|()| ExitCode::SUCCESS)
}

/// Seconds since the machine started.
fn uptime() -> f64 {
    let text = read_to_string("/proc/uptime").ok();
    text.and_then(|t| t.split(' ').next()?.parse().ok()).unwrap_or(1.0)
}

/// Devices and their counters (proc_pid_net(5)).
fn parse(text: &str) -> BTreeMap<String, Vec<u64>> {
    let device = |line: &str| {
        let (name, rest) = line.split_once(':')?;
        let counters: Vec<u64> = rest.split_ascii_whitespace().map_while(|w| w.parse().ok()).collect();
        (counters.len() >= 16).then(|| (name.trim().to_owned(), counters))
    };
    text.lines().filter_map(device).collect()
}

impl Counters for Network {
    type Reading = Reading;

    fn read(&mut self) -> Result<Reading> {
        let text = read_to_string("/proc/net/dev").context("/proc/net/dev")?;
        let uptime = uptime();
        let mut devices = BTreeMap::new();
        for (name, counters) in parse(&text) {
            let of = |file: &str| read_to_string(format!("/sys/class/net/{name}/{file}")).ok();
            // In Mbit a second; what has none says -1, or nothing.
            let speed = of("speed").and_then(|t| t.trim().parse::<f64>().ok()).filter(|s| *s > 0.0);
            let half_duplex = of("duplex").is_some_and(|t| t.trim() == "half");
            devices.insert(name, Device { counters, speed: speed.map(|mbit| mbit * 125_000.0), half_duplex });
        }
        if let Some(missing) = self.only.iter().find(|name| !devices.contains_key(*name)) {
            bail!("there is no network device '{missing}'");
        }
        devices.retain(|name, _| self.only.is_empty() || self.only.contains(name));
        Ok(Reading { at: now(), uptime, devices })
    }

    fn at(reading: &Reading) -> Duration {
        reading.at
    }

    fn rows(&mut self, before: Option<&Reading>, now: &Reading) -> Result<Vec<Vec<Value>>> {
        let seconds = before.map_or(now.uptime, |b| now.at.saturating_sub(b.at).as_secs_f64()).max(0.001);
        let row = |(name, device): (&String, &Device)| {
            let old = before.and_then(|b| b.devices.get(name));
            row(name, old, device, seconds, self.errors)
        };
        Ok(now.devices.iter().map(row).collect())
    }
}

fn row(name: &str, old: Option<&Device>, device: &Device, seconds: f64, errors: bool) -> Vec<Value> {
    // receive: bytes packets errs drop fifo frame compressed multicast; transmit: bytes packets errs drop fifo colls …
    let rate = |at: usize| {
        let now = device.counters.get(at).copied().unwrap_or(0);
        let before = old.and_then(|old| old.counters.get(at).copied()).unwrap_or(0);
        // A device that came anew counts from its start.
        (if now < before { now } else { now - before }) as f64 / seconds
    };
    let (read, wrote, read_packets, wrote_packets) = (rate(0), rate(8), rate(1), rate(9));
    let average = |bytes: f64, packets: f64| if packets > 0.0 { bytes / packets } else { 0.0 };
    let busy = if device.half_duplex { read + wrote } else { read.max(wrote) };
    let mut cells: Vec<Value> = vec![
        name.into(),
        read.into(),
        wrote.into(),
        read_packets.into(),
        wrote_packets.into(),
        average(read, read_packets).into(),
        average(wrote, wrote_packets).into(),
        device.speed.map(|speed| (100.0 * busy / speed).min(100.0)).into(),
        (rate(3) + rate(4) + rate(11) + rate(12)).into(),
    ];
    if errors {
        cells.extend([rate(2), rate(10), rate(13), rate(4)].map(Value::from));
        cells.push(Value::Absent);
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_told_a_second_and_of_their_speed() {
        let text = "Inter-|   Receive    |  Transmit\n face |bytes\n  eth0: 2048 2 1 0 3 0 0 0 10240 10 0 1 0 4 0 0\n    lo:5 1\n";
        let all = parse(text);
        assert_eq!(all.keys().collect::<Vec<_>>(), ["eth0"]);
        let device = |counters: Vec<u64>| Device { counters, speed: Some(102_400.0), half_duplex: false };
        let now = device(all["eth0"].clone());
        let row = row("eth0", Some(&device(vec![0; 16])), &now, 2.0, true);
        let numbers: Vec<f64> =
            row[1..].iter().filter_map(|v| if let Value::Number(n) = v { Some(*n) } else { None }).collect();
        assert_eq!(numbers, [1024.0, 5120.0, 1.0, 5.0, 1024.0, 1024.0, 5.0, 2.0, 0.5, 0.0, 2.0, 1.5]);
        assert_eq!((row.len(), row.last()), (COLUMNS.len() + ERRORS.len(), Some(&Value::Absent)));
        let silent = Device { speed: None, ..now };
        assert_eq!(
            super::row("eth0", Some(&silent.clone()), &silent, 1.0, false)[7],
            Value::Absent,
            "no speed, no share"
        );
    }
}
