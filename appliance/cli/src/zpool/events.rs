//! `zpool events`: the events of pools and their devices, as the process that owns the pools
//! reports them.
//!
//! Without such a process there are none; `zpool history` shows what commands did by themselves.

use crate::context::{Context, Failure, Outcome};
use crate::getopt::{ArgKind, flag};
use crate::number::date_event;
use crate::verb::{Call, Callers, Verb, for_anyone};
use block::zevent::Event;
use ondisk::nvlist::{Nvlist, Value};
use std::fmt::Write;
use std::time::Duration;

/// The row of `zpool events`.
pub static VERB: Verb = Verb {
    callers: Callers::AnyoneUnless(clears),
    ..for_anyone("events", "Show or follow the events of pools", run)
        .usage(&["[-vHf] [pool]", "-c"])
        .options(&[
            flag('v', "Print the payload of each event."),
            flag('H', "For scripts: no headings, one tab between fields."),
            flag('f', "Wait for new events and print them."),
            flag('c', "Clear all stored events."),
        ])
        .operands(&[ArgKind::Pool])
        .examples(&[("zpool events -vf", "Print all events in full as they happen.")])
};

/// How often to check whether a caller with `-f` is still connected.
const TURN: Duration = Duration::from_millis(200);

/// Whether these arguments clear the stored events instead of printing them. `false` for invalid
/// arguments.
pub fn clears(args: &[String]) -> bool {
    VERB.parse(args).is_ok_and(|parsed| parsed.has('c'))
}

/// `zpool events`.
pub fn run(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    if parsed.operands.len() > 1 {
        return Err(Failure::usage("too many arguments"));
    }
    let queue = cx.owner.as_ref().map(|owner| owner.house.zevents().clone());
    if parsed.has('c') {
        if !parsed.operands.is_empty() || ['v', 'H', 'f'].iter().any(|l| parsed.has(*l)) {
            return Err(Failure::usage("invalid options combined with -c"));
        }
        let cleared = queue.map_or(0, |queue| queue.clear());
        cx.print(&format!("cleared {cleared} events\n"));
        return Ok(0);
    }
    // Any imported pool: the events stay when the pool is closed.
    let pool = parsed.operands.first();
    if let Some(name) = pool
        && super::pools::records(cx, std::slice::from_ref(name))?.1 != 0
    {
        return Ok(1);
    }
    if !parsed.has('H') {
        cx.print("TIME                           CLASS\n");
    }
    let Some(queue) = queue else {
        return match parsed.has('f') {
            true => {
                Err(Failure::failed("no process has the pools open, so no events will be recorded: start 'weir serve'"))
            }
            false => Ok(0),
        };
    };
    // Events that were cleared or pushed out before are no news to this reader.
    let mut seen = queue.start();
    loop {
        let news = if parsed.has('f') { queue.wait_after(seen, TURN) } else { queue.after(seen) };
        if news.dropped > 0 {
            cx.print(&format!("dropped {} events\n", news.dropped));
        }
        for event in &news.events {
            if pool.is_none_or(|name| event.text("pool").is_none_or(|of| of == name)) {
                cx.print(&line(event, parsed.has('H')));
                if parsed.has('v') {
                    cx.print(&format!("{}\n", payload(&event.payload, 8)));
                }
            }
        }
        seen = news.last;
        let _ = cx.out.flush();
        let goes_on =
            parsed.has('f') && !cx.client.is_gone() && cx.owner.as_ref().is_some_and(|owner| owner.is_ready());
        if !goes_on {
            return Ok(0);
        }
    }
}

fn line(event: &Event, scripted: bool) -> String {
    let between = if scripted { '\t' } else { ' ' };
    format!("{}{between}{}\n", date_event(event.time.0, event.time.1), event.class)
}

/// The names of `vdev_state_t`, by number.
const STATES: [&str; 8] = ["UNKNOWN", "OFFLINE", "OFFLINE", "REMOVED", "UNAVAIL", "FAULTED", "DEGRADED", "ONLINE"];
/// The names of `zio_type`, by number.
const OPERATIONS: [&str; 7] = ["NULL", "READ", "WRITE", "FREE", "CLAIM", "FLUSH", "TRIM"];

/// Formats a list, one line for each pair.
fn payload(list: &Nvlist, depth: usize) -> String {
    let mut out = String::new();
    for pair in &list.pairs {
        let name = String::from_utf8_lossy(&pair.name);
        let _ = writeln!(out, "{:depth$}{name} = {}", "", shown(&name, &pair.value, depth));
    }
    out
}

fn shown(name: &str, value: &Value, depth: usize) -> String {
    let text = |bytes: &[u8]| format!("\"{}\"", String::from_utf8_lossy(bytes));
    match value {
        Value::Boolean | Value::BooleanValue(true) => "1".to_owned(),
        Value::BooleanValue(false) => "0".to_owned(),
        Value::Byte(n) | Value::Uint8(n) => format!("{n:#x}"),
        Value::Int8(n) => format!("{n:#x}"),
        Value::Int16(n) => format!("{n:#x}"),
        Value::Uint16(n) => format!("{n:#x}"),
        Value::Int32(n) => format!("{n:#x}"),
        Value::Uint32(n) if name == "zio_type" => {
            format!("{n:#x} [{}]", OPERATIONS.get(*n as usize).copied().unwrap_or_default())
        }
        Value::Uint32(n) => format!("{n:#x}"),
        Value::Int64(n) | Value::HrTime(n) => format!("{n:#x}"),
        Value::Uint64(n) if matches!(name, "vdev_state" | "vdev_laststate") => {
            let state = usize::try_from(*n).ok().and_then(|n| STATES.get(n)).copied().unwrap_or("UNKNOWN");
            format!("\"{state}\" ({n:#x})")
        }
        Value::Uint64(n) => format!("{n:#x}"),
        Value::String(bytes) => text(bytes),
        Value::Nvlist(list) => {
            format!("(embedded nvlist)\n{}{:depth$}(end {name})", payload(list, depth + 8), "")
        }
        Value::Int64Array(all) => all.iter().map(|n| format!("{n:#x} ")).collect(),
        Value::Uint64Array(all) => all.iter().map(|n| format!("{n:#x} ")).collect(),
        Value::StringArray(all) => all.iter().map(|bytes| text(bytes) + " ").collect(),
        _ => "<unknown>".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_a_line_and_its_payload_below() {
        let mut list = Nvlist::new();
        list.put("class", "ereport.fs.zfs.io");
        let mut detector = Nvlist::new();
        detector.put("version", Value::Uint8(0));
        detector.put("pool", 0xabcu64);
        list.put("detector", detector);
        list.put("vdev_state", 7u64);
        list.put("zio_type", Value::Uint32(1));
        list.put("time", Value::Int64Array(vec![16, 17]));
        let event =
            Event { id: 1, time: (1_795_257_488, 332_000_000), class: "ereport.fs.zfs.io".into(), payload: list };
        crate::number::in_zone(Some("UTC"), || {
            assert_eq!(line(&event, false), "Nov 21 2026 10:38:08.332000000 ereport.fs.zfs.io\n");
            assert_eq!(line(&event, true), "Nov 21 2026 10:38:08.332000000\tereport.fs.zfs.io\n");
        });
        let expected = "        class = \"ereport.fs.zfs.io\"\n        detector = (embedded nvlist)\n                version = 0x0\n                \
                        pool = 0xabc\n        (end detector)\n        vdev_state = \"ONLINE\" (0x7)\n        zio_type = 0x1 [READ]\n        \
                        time = 0x10 0x11 \n";
        assert_eq!(payload(&event.payload, 8), expected);
    }
}
