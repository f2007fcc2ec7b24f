//! `zpool history`: prints every command that changed a pool, and with `-i` the internal events.

use crate::context::{Context, Outcome};
use crate::getopt::{ArgKind, flag};
use crate::number::date_history;
use crate::verb::{Call, Verb, for_anyone};
use ondisk::history::{LEGACY_EVENTS, keys};
use ondisk::nvlist::{Nvlist, Value};
use std::collections::HashMap;
use std::fmt::Write;

/// The row of `zpool history`.
pub static VERB: Verb = for_anyone("history", "Show the command history of pools", run)
    .usage(&["[-il] [pool] ..."])
    .options(&[flag('l', "Show the user and the host of each command."), flag('i', "Show internal events too.")])
    .operands(&[ArgKind::Pool])
    .examples(&[("zpool history -l tank", "Show who changed a pool.")]);

/// `zpool history`.
pub fn run(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let (records, mut code) = super::pools::records(cx, &parsed.operands)?;
    if records.is_empty() && parsed.operands.is_empty() {
        cx.complain("no pools available");
        return Ok(0);
    }
    let users = Users::read();
    for record in &records {
        cx.print(&format!("History for '{}':\n", record.name));
        match super::pools::open_synced(cx, record)?.history() {
            Ok(list) => {
                for entry in &list {
                    let text = line(entry, parsed.has('i'), parsed.has('l'), &users);
                    cx.print(&text);
                }
            }
            Err(error) => {
                cx.complain(&format!("cannot get history for '{}': {error}", record.name));
                code = 1;
            }
        }
        cx.print("\n");
    }
    Ok(code)
}

/// The user names of this machine, by uid.
pub struct Users(HashMap<u64, String>);

impl Users {
    /// Reads /etc/passwd. Users known only to a directory service are shown by number.
    pub fn read() -> Self {
        let text = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let entry = |line: &str| {
            let mut parts = line.split(':');
            let name = parts.next()?.to_owned();
            Some((parts.nth(1)?.parse().ok()?, name))
        };
        let mut users = HashMap::new();
        for (uid, name) in text.lines().filter_map(entry) {
            users.entry(uid).or_insert(name);
        }
        Self(users)
    }
}

/// Formats a record. Empty for an internal event without `internal` (`-i`).
pub fn line(record: &Nvlist, internal: bool, long: bool, users: &Users) -> String {
    let number = |key: &str| record.get(key).and_then(integer).unwrap_or(0);
    let text = |key: &str| record.get_string(key).map(|b| String::from_utf8_lossy(b).into_owned());
    let mut time = if record.contains(keys::TIME) { date_history(number(keys::TIME)) } else { String::new() };
    if record.contains(keys::ELAPSED_NS) {
        let _ = write!(time, " ({}ms)", number(keys::ELAPSED_NS) / 1_000_000);
    }
    let mut out;
    if let Some(command) = text(keys::COMMAND) {
        out = format!("{time} {command}");
    } else if !internal {
        return String::new();
    } else if record.contains(keys::INTERNAL_EVENT) {
        let event = usize::try_from(number(keys::INTERNAL_EVENT)).unwrap_or(usize::MAX);
        let Some(name) = LEGACY_EVENTS.get(event) else {
            return unrecognized(record, &time);
        };
        let what = text(keys::INTERNAL_TEXT).unwrap_or_default();
        out = format!("{time} [internal {name} txg:{}] {what}", number(keys::TXG));
    } else if let Some(name) = text(keys::INTERNAL_NAME) {
        out = format!("{time} [txg:{}] {name}", number(keys::TXG));
        if let Some(dataset) = text(keys::DATASET_NAME) {
            let _ = write!(out, " {dataset} ({})", number(keys::DATASET_ID));
        }
        let _ = write!(out, " {}", text(keys::INTERNAL_TEXT).unwrap_or_default());
    } else if let Some(name) = text(keys::IOCTL) {
        out = format!("{time} ioctl {name}\n");
        for (key, heading) in [(keys::INPUT, "input"), (keys::OUTPUT, "output")] {
            if let Some(list) = record.get_nvlist(key) {
                let _ = writeln!(out, "    {heading}:");
                dump(&mut out, list, 8);
            }
        }
        if record.contains(keys::OUTPUT_SIZE) {
            let kilobytes = number(keys::OUTPUT_SIZE) / 1024;
            let _ = writeln!(out, "    output nvlist omitted; original size: {kilobytes}KB");
        }
        if record.contains(keys::ERRNO) {
            let _ = writeln!(out, "    errno: {}", number(keys::ERRNO));
        }
    } else {
        out = unrecognized(record, &time);
        if !long {
            return out + "\n";
        }
    }
    if long {
        out.push_str(" [");
        if record.contains(keys::WHO) {
            let who = number(keys::WHO);
            let _ = write!(out, "user {who} ");
            if let Some(name) = users.0.get(&who) {
                let _ = write!(out, "({name}) ");
            }
        }
        if let Some(host) = text(keys::HOST) {
            let _ = write!(out, "on {host}");
        }
        if let Some(zone) = text(keys::ZONE) {
            let _ = write!(out, ":{zone}");
        }
        out.push(']');
    }
    out.push('\n');
    out
}

fn unrecognized(record: &Nvlist, time: &str) -> String {
    let mut out = format!("{time} unrecognized record:\n");
    dump(&mut out, record, 4);
    out
}

fn integer(value: &Value) -> Option<u64> {
    match value {
        Value::Int64(n) => Some(n.cast_unsigned()),
        other => other.as_u64(),
    }
}

/// Formats a list, one line for each pair; nested lists are indented further.
fn dump(out: &mut String, list: &Nvlist, indent: usize) {
    for pair in &list.pairs {
        let name = pair.name_lossy();
        let pad = " ".repeat(indent);
        match &pair.value {
            Value::Nvlist(inner) => {
                let _ = writeln!(out, "{pad}{name}:");
                dump(out, inner, indent + 4);
            }
            Value::NvlistArray(lists) => {
                for (i, inner) in lists.iter().enumerate() {
                    let _ = writeln!(out, "{pad}{name}[{i}]:");
                    dump(out, inner, indent + 4);
                }
            }
            Value::Boolean => {
                let _ = writeln!(out, "{pad}{name}");
            }
            value => match elements(value) {
                Some(elements) => {
                    for (i, element) in elements.iter().enumerate() {
                        let _ = writeln!(out, "{pad}{name}[{i}]: {element}");
                    }
                }
                None => {
                    let _ = writeln!(out, "{pad}{name}: {}", scalar(value));
                }
            },
        }
    }
}

/// The elements of an array; `None`: the value is no array.
fn elements(value: &Value) -> Option<Vec<String>> {
    fn texts<T: ToString>(list: &[T]) -> Vec<String> {
        list.iter().map(T::to_string).collect()
    }
    Some(match value {
        Value::StringArray(v) => v.iter().map(|s| format!("'{}'", String::from_utf8_lossy(s))).collect(),
        Value::Uint64Array(v) => texts(v),
        Value::Int64Array(v) => texts(v),
        Value::Uint32Array(v) => texts(v),
        Value::Int32Array(v) => texts(v),
        Value::Uint16Array(v) => texts(v),
        Value::Int16Array(v) => texts(v),
        Value::ByteArray(v) | Value::Uint8Array(v) => texts(v),
        Value::Int8Array(v) => texts(v),
        _ => return None,
    })
}

fn scalar(value: &Value) -> String {
    match value {
        Value::BooleanValue(v) => v.to_string(),
        Value::String(v) => format!("'{}'", String::from_utf8_lossy(v)),
        Value::Int64(v) | Value::HrTime(v) => v.to_string(),
        Value::Int32(v) => v.to_string(),
        Value::Int16(v) => v.to_string(),
        Value::Int8(v) => v.to_string(),
        other => other.as_u64().map_or_else(|| "?".into(), |n| n.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records as OpenZFS writes them, and the lines that it prints for them.
    #[test]
    fn records_read_as_openzfs_prints_them() {
        let users = Users(HashMap::from([(0, "root".to_owned())]));
        let mut command = Nvlist::new();
        command.put(keys::TIME, 0u64);
        command.put(keys::COMMAND, "zfs create tank/a");
        command.put(keys::WHO, 0u64);
        command.put(keys::HOST, "oracle");
        command.put(keys::ZONE, "linux");
        let day = date_history(0);
        assert_eq!(line(&command, false, false, &users), format!("{day} zfs create tank/a\n"));
        let long = format!("{day} zfs create tank/a [user 0 (root) on oracle:linux]\n");
        assert_eq!(line(&command, false, true, &users), long);

        let mut internal = Nvlist::new();
        internal.put(keys::TIME, 0u64);
        internal.put(keys::INTERNAL_NAME, "create");
        internal.put(keys::INTERNAL_TEXT, " ");
        internal.put(keys::TXG, 14u64);
        internal.put(keys::DATASET_NAME, "tank/a");
        internal.put(keys::DATASET_ID, 84u64);
        internal.put(keys::HOST, "oracle");
        assert_eq!(line(&internal, false, true, &users), "");
        let long = format!("{day} [txg:14] create tank/a (84)   [on oracle]\n");
        assert_eq!(line(&internal, true, true, &users), long);

        let mut input = Nvlist::new();
        input.put("type", 2u64);
        input.put("props", Nvlist::new());
        let mut ioctl = Nvlist::new();
        ioctl.put(keys::TIME, 0u64);
        ioctl.put(keys::ELAPSED_NS, 238_500_000u64);
        ioctl.put(keys::IOCTL, "create");
        ioctl.put(keys::INPUT, input);
        ioctl.put(keys::WHO, 7u64);
        let text = format!("{day} (238ms) ioctl create\n    input:\n        type: 2\n        props:\n [user 7 ]\n");
        assert_eq!(line(&ioctl, true, true, &users), text);
    }

    #[test]
    fn records_of_old_pools_are_named_by_number() {
        let users = Users(HashMap::new());
        let mut record = Nvlist::new();
        record.put(keys::TIME, 0u64);
        record.put(keys::INTERNAL_EVENT, 1u64);
        record.put(keys::INTERNAL_TEXT, "pool spa 10");
        record.put(keys::TXG, 4u64);
        let day = date_history(0);
        assert_eq!(line(&record, true, false, &users), format!("{day} [internal pool create txg:4] pool spa 10\n"));
        record.put(keys::INTERNAL_EVENT, 99u64);
        assert!(line(&record, true, false, &users).contains("unrecognized record:\n    history time: 0\n"));
    }
}
