//! `weir nicstat -t` and `--udp`: TCP and UDP statistics of this machine, from /proc/net/snmp and
//! /proc/net/netstat.

use super::super::counters::Counters;
use super::super::statistic::now;
use super::uptime::uptime;
use crate::report::{Column, Kind, Value, column};
use anyhow::{Context as _, Result};
use std::collections::HashMap;
use std::fs::read_to_string;
use std::time::Duration;

pub const TCP: &[Column] = &[
    column("InKB", Kind::Kibi(2), 9, "- : Linux does not count bytes of TCP."),
    column("OutKB", Kind::Kibi(2), 9, "- : Linux does not count bytes of TCP."),
    column("InSeg", Kind::Number(2), 9, "Segments received per second."),
    column("OutSeg", Kind::Number(2), 9, "Segments sent per second."),
    column("Reset", Kind::Number(2), 6, "Established connections reset per second."),
    column("AttF", Kind::Number(2), 6, "Failed connection attempts per second."),
    column("%ReTX", Kind::Number(2), 6, "Share of sent segments that were retransmitted."),
    column("InConn", Kind::Number(2), 7, "Passively opened connections per second."),
    column("OutCon", Kind::Number(2), 7, "Actively opened connections per second."),
    column("Drops", Kind::Number(2), 6, "Connections dropped per second because the listen queue was full."),
];

pub const UDP: &[Column] = &[
    column("InDG", Kind::Number(2), 9, "Datagrams received per second."),
    column("OutDG", Kind::Number(2), 9, "Datagrams sent per second."),
    column("InErr", Kind::Number(2), 7, "Datagrams received per second that no socket accepted."),
    column("OutErr", Kind::Number(2), 7, "Datagrams per second that could not be sent."),
];

/// Counters of a protocol.
pub struct Protocol {
    pub is_tcp: bool,
}

pub struct Reading {
    at: Duration,
    uptime: f64,
    counters: HashMap<String, u64>,
}

/// Counters such as `Tcp.InSegs`: pairs of a line of names and a line of numbers, both beginning
/// with the protocol (proc_pid_net(5)).
fn parse(text: &str) -> HashMap<String, u64> {
    let mut found = HashMap::new();
    let lines: Vec<&str> = text.lines().collect();
    for pair in lines.chunks_exact(2) {
        let split = |line: &str| line.split_once(':').map(|(name, rest)| (name.to_owned(), rest.to_owned()));
        let (Some((protocol, names)), Some((_, numbers))) = (split(pair[0]), split(pair[1])) else { continue };
        for (name, number) in names.split_ascii_whitespace().zip(numbers.split_ascii_whitespace()) {
            // A limit of -1 means no limit; it is not a counter.
            found.extend(number.parse().ok().map(|n: u64| (format!("{protocol}.{name}"), n)));
        }
    }
    found
}

impl Counters for Protocol {
    type Reading = Reading;

    fn read(&mut self) -> Result<Reading> {
        let mut counters = parse(&read_to_string("/proc/net/snmp").context("/proc/net/snmp")?);
        counters.extend(parse(&read_to_string("/proc/net/netstat").unwrap_or_default()));
        Ok(Reading { at: now(), uptime: uptime(), counters })
    }

    fn at(reading: &Reading) -> Duration {
        reading.at
    }

    fn rows(&mut self, before: Option<&Reading>, now: &Reading) -> Result<Vec<Vec<Value>>> {
        let seconds = before.map_or(now.uptime, |b| now.at.saturating_sub(b.at).as_secs_f64()).max(0.001);
        Ok(vec![row(self.is_tcp, before.map(|b| &b.counters), &now.counters, seconds)])
    }
}

fn row(is_tcp: bool, old: Option<&HashMap<String, u64>>, new: &HashMap<String, u64>, seconds: f64) -> Vec<Value> {
    let rate = |name: &str| {
        let now = *new.get(name)?;
        let before = old.and_then(|old| old.get(name).copied()).unwrap_or(0);
        Some(now.saturating_sub(before) as f64 / seconds)
    };
    let cell = |name: &str| Value::from(rate(name));
    if !is_tcp {
        return ["Udp.InDatagrams", "Udp.OutDatagrams", "Udp.InErrors", "Udp.SndbufErrors"].map(cell).to_vec();
    }
    let again = rate("Tcp.RetransSegs").zip(rate("Tcp.OutSegs"));
    let again = again.map(|(again, sent)| if sent > 0.0 { 100.0 * again / sent } else { 0.0 });
    let [in_segments, out_segments, resets, failed] =
        ["Tcp.InSegs", "Tcp.OutSegs", "Tcp.EstabResets", "Tcp.AttemptFails"].map(cell);
    let [taken, opened, drops] = ["Tcp.PassiveOpens", "Tcp.ActiveOpens", "TcpExt.ListenDrops"].map(cell);
    let absent = Value::Absent;
    vec![absent.clone(), absent, in_segments, out_segments, resets, failed, again.into(), taken, opened, drops]
}

#[cfg(test)]
mod tests {
    use super::*;

    const SNMP: &str = "Ip: Forwarding DefaultTTL\nIp: 1 64\n\
        Tcp: RtoAlgorithm MaxConn ActiveOpens PassiveOpens AttemptFails EstabResets InSegs OutSegs RetransSegs\n\
        Tcp: 1 -1 10 20 2 4 1000 800 8\nUdp: InDatagrams NoPorts InErrors OutDatagrams SndbufErrors\nUdp: 50 1 5 40 0\n";

    #[test]
    fn lines_of_linux_become_the_columns_of_nicstat() {
        let (first, more) = (parse(SNMP), parse("TcpExt: ListenOverflows ListenDrops\nTcpExt: 1 6\n"));
        assert_eq!((first["Tcp.RetransSegs"], first.get("Tcp.MaxConn"), more["TcpExt.ListenDrops"]), (8, None, 6));
        let mut now = first.clone();
        now.extend(more);
        let number = |value: &Value| if let Value::Number(n) = value { *n } else { -1.0 };
        let values: Vec<f64> = row(true, None, &now, 2.0).iter().map(number).collect();
        assert_eq!(values, [-1.0, -1.0, 500.0, 400.0, 2.0, 1.0, 1.0, 10.0, 5.0, 3.0]);
        let values: Vec<f64> = row(false, Some(&first), &now, 2.0).iter().map(number).collect();
        assert_eq!(values, [0.0; 4], "nothing since the last look");
        assert_eq!(row(true, None, &now, 1.0).len(), TCP.len());
        assert_eq!(row(false, None, &now, 1.0).len(), UDP.len());
    }
}
