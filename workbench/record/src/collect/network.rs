//! Network devices from /proc/net/dev, and TCP statistics from /proc/net/snmp.

use super::sample::{Sample, Source, read};
use crate::format::Unit;
use host::proc::{is_half_duplex, network_devices, network_speed_bytes};
use serde_json::{Value, json};

/// Source of network metrics.
pub struct Network;

impl Source for Network {
    fn name(&self) -> &str {
        "network"
    }

    fn sample(&mut self, into: &mut Sample) -> Result<(), String> {
        for (name, n) in network_devices(&read("/proc/net/dev")?) {
            device(&name, &n, into);
            if let Some(speed) = network_speed_bytes(&name) {
                into.level("net.speed_bytes", &[("device", &name)], Unit::Bytes, speed);
            }
        }
        tcp(&read("/proc/net/snmp")?, into);
        Ok(())
    }
}

pub(super) fn device(name: &str, n: &[u64], into: &mut Sample) {
    let device = [("device", name)];
    let mut total = |what: &str, unit: Unit, at: &[usize]| {
        let sum: u64 = at.iter().filter_map(|i| n.get(*i)).sum();
        into.total(what, &device, unit, sum as f64);
    };
    total("net.received_bytes", Unit::Bytes, &[0]);
    total("net.received_packets", Unit::Count, &[1]);
    total("net.receive_errors", Unit::Count, &[2]);
    total("net.receive_drops", Unit::Count, &[3, 4]);
    total("net.sent_bytes", Unit::Bytes, &[8]);
    total("net.sent_packets", Unit::Count, &[9]);
    total("net.send_errors", Unit::Count, &[10]);
    total("net.send_drops", Unit::Count, &[11, 12]);
}

/// A line of names, then one of numbers, both prefixed with the protocol.
pub(super) fn tcp(text: &str, into: &mut Sample) {
    let lines: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("Tcp:")).collect();
    let [names, numbers] = lines.as_slice() else { return };
    let pairs: Vec<(&str, &str)> = names.split_ascii_whitespace().zip(numbers.split_ascii_whitespace()).collect();
    for (name, column) in [
        ("InSegs", "tcp.received_segments"),
        ("OutSegs", "tcp.sent_segments"),
        ("RetransSegs", "tcp.retransmitted_segments"),
        ("ActiveOpens", "tcp.opened"),
        ("PassiveOpens", "tcp.accepted"),
        ("EstabResets", "tcp.resets"),
    ] {
        let found = pairs.iter().find(|(n, _)| *n == name).and_then(|(_, n)| n.parse().ok());
        if let Some(n) = found {
            into.total(column, &[], Unit::Count, n);
        }
    }
}

/// The links of the machine: name, bits per second if known, duplex, MTU.
pub(super) fn links() -> Vec<Value> {
    let all = network_devices(&read("/proc/net/dev").unwrap_or_default());
    let link = |(name, _): (String, Vec<u64>)| {
        let mtu = read(&format!("/sys/class/net/{name}/mtu")).ok().and_then(|t| t.trim().parse::<u32>().ok());
        let state = read(&format!("/sys/class/net/{name}/operstate")).ok().map(|t| t.trim().to_owned());
        json!({
            "name": name, "bits_per_second": network_speed_bytes(&name).map(|bytes| bytes * 8.0), "half_duplex": is_half_duplex(&name),
            "mtu": mtu, "state": state,
        })
    };
    all.into_iter().map(link).collect()
}
