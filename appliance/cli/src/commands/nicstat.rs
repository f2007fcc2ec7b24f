//! `weir nicstat`: traffic of this machine's network devices, like nicstat.
//!
//! From /proc/net and /sys/class/net: it needs no daemon.

mod protocols;
mod uptime;

use super::counters::{Counters, show, with_args};
use super::statistic::now;
use crate::report::{self, Column, Kind, Options, Report, Stamp, Value, column};
use anyhow::{Context as _, Result, bail};
use clap::{Arg, ArgAction, ArgMatches, Command};
use host::proc;
use std::collections::BTreeMap;
use std::fs::read_to_string;
use std::process::ExitCode;
use std::time::Duration;
use uptime::uptime;

const COLUMNS: &[Column] = &[
    column("Int", Kind::Text, 8, "The device."),
    column("rKB/s", Kind::Kibi(2), 9, "KiB received per second."),
    column("wKB/s", Kind::Kibi(2), 9, "KiB sent per second."),
    column("rPk/s", Kind::Number(2), 9, "Packets received per second."),
    column("wPk/s", Kind::Number(2), 9, "Packets sent per second."),
    column("rAvs", Kind::Number(1), 7, "Average size of received packets in bytes: near 9000 with jumbo frames."),
    column("wAvs", Kind::Number(1), 7, "Average size of sent packets in bytes."),
    column(
        "%Util",
        Kind::Number(2),
        6,
        "Share of the device's speed in use, of the busier direction if full duplex; - : unknown speed.",
    ),
    column("Sat", Kind::Number(2), 5, "Packets per second that were dropped or overran."),
];

const ERRORS: &[Column] = &[
    column("IErr", Kind::Number(2), 6, "Receive errors per second."),
    column("OErr", Kind::Number(2), 6, "Transmit errors per second."),
    column("Coll", Kind::Number(2), 6, "Collisions per second."),
    column("NoCP", Kind::Number(2), 6, "Received packets per second dropped for lack of buffers."),
    column("Defer", Kind::Number(2), 6, "- : Linux does not report it."),
];

/// Columns to show.
#[derive(Debug, Clone, Copy)]
struct Layout {
    /// `-x`: columns of errors.
    errors: bool,
    /// `-U`: the share of each direction, instead of that of the busier one.
    directions: bool,
    /// `-M`: Mbit/s instead of KiB/s.
    megabits: bool,
    /// `-s`: only bytes received and sent.
    summary: bool,
}

impl Layout {
    fn columns(self) -> Vec<Column> {
        let mut out = COLUMNS.to_vec();
        if self.megabits {
            out[1] = column("rMbps", Kind::Number(3), 9, "Mbit received per second.");
            out[2] = column("wMbps", Kind::Number(3), 9, "Mbit sent per second.");
        }
        if self.directions {
            out.splice(
                7..8,
                [
                    column(
                        "%rUtil",
                        Kind::Number(2),
                        6,
                        "Share of the device's speed used for receiving; - : unknown speed.",
                    ),
                    column(
                        "%wUtil",
                        Kind::Number(2),
                        6,
                        "Share of the device's speed used for sending; - : unknown speed.",
                    ),
                ],
            );
        }
        if self.summary {
            out.truncate(3);
        } else if self.errors {
            out.extend_from_slice(ERRORS);
        }
        out
    }
}

const LIST: &[Column] = &[
    column("Int", Kind::Text, 8, "The device."),
    column("Loopback", Kind::Text, 8, "Whether it is a loopback device."),
    column("Mbit/s", Kind::Number(0), 8, "Its speed; - : unknown."),
    column("Duplex", Kind::Text, 6, "Whether it is full duplex."),
    column("State", Kind::Text, 7, "Whether it is up."),
];

/// Options of `weir nicstat`.
pub fn command() -> Command {
    with_args(
        Command::new("nicstat")
            .about("Show traffic of the network devices of this machine")
            .long_about(
                "A row for each device; the first report is the average since the machine started. Idle devices have rows with \
                 zeros, unless -z hides them on a terminal.",
            )
            .arg(Arg::new("device").short('i').long("interface").value_name("DEVICE,…").value_delimiter(',').help("Only these devices"))
            .arg(Arg::new("errors").short('x').action(ArgAction::SetTrue).help("Include errors: IErr OErr Coll NoCP Defer"))
            .arg(Arg::new("directions").short('U').action(ArgAction::SetTrue).help("The share of each direction: %rUtil %wUtil"))
            .arg(Arg::new("megabits").short('M').action(ArgAction::SetTrue).help("Mbit per second instead of KiB"))
            .arg(Arg::new("no-loopback").short('n').action(ArgAction::SetTrue).help("Without the loopback device"))
            .arg(Arg::new("summary").short('s').action(ArgAction::SetTrue).help("Only the traffic received and sent"))
            .arg(Arg::new("list").short('l').action(ArgAction::SetTrue).help("The devices with their speeds, and whether they are up"))
            .arg(Arg::new("tcp").short('t').long("tcp").action(ArgAction::SetTrue).conflicts_with_all(["udp", "device", "errors"]).help("TCP statistics of the machine"))
            .arg(Arg::new("udp").long("udp").action(ArgAction::SetTrue).conflicts_with_all(["device", "errors"]).help("UDP statistics of the machine (nicstat's -u, which selects the unit here)")),
    )
}

/// Counters of a device, in the order of /proc/net/dev, and its speed.
#[derive(Debug, Clone, Default, PartialEq)]
struct Device {
    counters: Vec<u64>,
    /// Bytes per second, if the device reports it.
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
    without_loopback: bool,
    form: Layout,
}

pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let is_tcp = matches.get_flag("tcp");
    if is_tcp || matches.get_flag("udp") {
        let columns = if is_tcp { protocols::TCP } else { protocols::UDP };
        let shown = show(matches, columns, |_| Ok(protocols::Protocol { is_tcp }));
        return report::quiet(shown).map(|()| ExitCode::SUCCESS);
    }
    if matches.get_flag("list") {
        return report::quiet(list(matches)).map(|()| ExitCode::SUCCESS);
    }
    let flag = |name: &str| matches.get_flag(name);
    let form = Layout {
        errors: flag("errors"),
        directions: flag("directions"),
        megabits: flag("megabits"),
        summary: flag("summary"),
    };
    let without_loopback = flag("no-loopback");
    let only: Vec<String> = matches.get_many::<String>("device").into_iter().flatten().cloned().collect();
    report::quiet(show(matches, &form.columns(), |_| Ok(Network { only, without_loopback, form })))
        .map(|()| ExitCode::SUCCESS)
}

/// `-l`: the network devices of this machine.
fn list(matches: &ArgMatches) -> Result<()> {
    let options = Options::of(matches)?;
    let mut out = std::io::stdout().lock();
    if report::explained(&mut out, LIST, &options)? {
        return Ok(());
    }
    let mut report = Report::untimed(out, LIST, &options)?;
    let text = read_to_string("/proc/net/dev").context("/proc/net/dev")?;
    for (name, _) in proc::network_devices(&text) {
        let state = read_to_string(format!("/sys/class/net/{name}/operstate")).unwrap_or_default();
        let speed = proc::network_speed_bytes(&name).map(|bytes| bytes / 125_000.0);
        // A device without a speed has no duplex mode either.
        let duplex = speed.map(|_| if proc::is_half_duplex(&name) { "half" } else { "full" });
        let loopback = if name == "lo" { "Yes" } else { "No" };
        let row = [name.clone().into(), loopback.into(), speed.into(), duplex.into(), Value::from(state.trim())];
        report.row(Stamp { at: now().as_secs(), boot: false }, &row)?;
    }
    Ok(report.flush()?)
}

impl Counters for Network {
    type Reading = Reading;

    fn read(&mut self) -> Result<Reading> {
        let text = read_to_string("/proc/net/dev").context("/proc/net/dev")?;
        let uptime = uptime();
        let mut devices = BTreeMap::new();
        for (name, counters) in proc::network_devices(&text) {
            let (speed, half_duplex) = (proc::network_speed_bytes(&name), proc::is_half_duplex(&name));
            devices.insert(name, Device { counters, speed, half_duplex });
        }
        if let Some(missing) = self.only.iter().find(|name| !devices.contains_key(*name)) {
            bail!("no such network device: '{missing}'");
        }
        devices.retain(|name, _| match self.only.is_empty() {
            true => !(self.without_loopback && name == "lo"),
            false => self.only.contains(name),
        });
        Ok(Reading { at: now(), uptime, devices })
    }

    fn at(reading: &Reading) -> Duration {
        reading.at
    }

    fn rows(&mut self, before: Option<&Reading>, now: &Reading) -> Result<Vec<Vec<Value>>> {
        let seconds = before.map_or(now.uptime, |b| now.at.saturating_sub(b.at).as_secs_f64()).max(0.001);
        let row = |(name, device): (&String, &Device)| {
            let old = before.and_then(|b| b.devices.get(name));
            row(name, old, device, seconds, self.form)
        };
        Ok(now.devices.iter().map(row).collect())
    }
}

fn row(name: &str, old: Option<&Device>, device: &Device, seconds: f64, form: Layout) -> Vec<Value> {
    // receive: bytes packets errs drop fifo frame compressed multicast; transmit: bytes packets
    // errs drop fifo colls …
    let rate = |at: usize| {
        let now = device.counters.get(at).copied().unwrap_or(0);
        let before = old.and_then(|old| old.counters.get(at).copied()).unwrap_or(0);
        // A device that was re-created counts from its start.
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
    if form.megabits {
        cells[1] = (read / 125_000.0).into();
        cells[2] = (wrote / 125_000.0).into();
    }
    if form.directions {
        let share = |bytes: f64| Value::from(device.speed.map(|speed| (100.0 * bytes / speed).min(100.0)));
        cells.splice(7..8, [share(read), share(wrote)]);
    }
    if form.summary {
        cells.truncate(3);
    } else if form.errors {
        cells.extend([rate(2), rate(10), rate(13), rate(4)].map(Value::from));
        cells.push(Value::Absent);
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Layout = Layout { errors: false, directions: false, megabits: false, summary: false };

    #[test]
    fn devices_are_printed_per_second_and_relative_to_their_speed() {
        let text = "Inter-|   Receive    |  Transmit\n face |bytes\n  eth0: 2048 2 1 0 3 0 0 0 10240 10 0 1 0 4 0 0\n    lo:5 1\n";
        let all = proc::network_devices(text);
        assert_eq!(all.len(), 1);
        let device = |counters: Vec<u64>| Device { counters, speed: Some(102_400.0), half_duplex: false };
        let now = device(all[0].1.clone());
        let values = |form: Layout| row("eth0", Some(&device(vec![0; 16])), &now, 2.0, form);
        let numbers = |row: &[Value]| -> Vec<f64> {
            row[1..].iter().filter_map(|v| if let Value::Number(n) = v { Some(*n) } else { None }).collect()
        };
        let errors = Layout { errors: true, ..PLAIN };
        assert_eq!(numbers(&values(errors)), [1024.0, 5120.0, 1.0, 5.0, 1024.0, 1024.0, 5.0, 2.0, 0.5, 0.0, 2.0, 1.5]);
        assert_eq!(values(errors).last(), Some(&Value::Absent));
        assert_eq!(numbers(&values(Layout { directions: true, ..PLAIN }))[6..8], [1.0, 5.0]);
        assert_eq!(
            numbers(&values(Layout { megabits: true, summary: true, ..PLAIN })),
            [1024.0 / 125_000.0, 5120.0 / 125_000.0]
        );
        for form in
            [PLAIN, errors, Layout { directions: true, errors: true, ..PLAIN }, Layout { summary: true, ..errors }]
        {
            assert_eq!(values(form).len(), form.columns().len(), "{form:?}");
        }
        let silent = Device { speed: None, ..now.clone() };
        assert_eq!(row("eth0", Some(&silent), &silent, 1.0, PLAIN)[7], Value::Absent, "no speed, no share");
    }
}
