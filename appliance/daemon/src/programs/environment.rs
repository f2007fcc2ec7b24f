//! An event as environment variables with zed's names, and as a document.
//!
//! Facts: zed_event.c (cmd/zed).

use block::zevent::Event;
use ondisk::nvlist::{Nvlist, Value};
use serde_json::{Map, json};

/// Words for `vdev_state_t`, by number.
const DEVICE_STATES: [&str; 8] =
    ["UNKNOWN", "OFFLINE", "OFFLINE", "REMOVED", "UNAVAIL", "FAULTED", "DEGRADED", "ONLINE"];
/// Words for `pool_state_t`, by number.
const POOL_STATES: [&str; 8] =
    ["ACTIVE", "EXPORTED", "DESTROYED", "SPARE", "L2CACHE", "UNINITIALIZED", "UNAVAIL", "POTENTIALLY_ACTIVE"];

/// Environment variables for the event: `ZEVENT_CLASS`, `ZEVENT_POOL` and so on.
pub fn of(event: &Event) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for pair in &event.payload.pairs {
        let name = pair.name_lossy();
        let is_hex = name.ends_with("_guid") || name.ends_with("_guids");
        all.push((variable(&name), text(&pair.value, is_hex)));
        let words: &[&str] = match &*name {
            "vdev_state" | "vdev_laststate" => &DEVICE_STATES,
            "pool_state" => &POOL_STATES,
            _ => continue,
        };
        if let Value::Uint64(n) = pair.value {
            let word = usize::try_from(n).ok().and_then(|n| words.get(n)).copied().unwrap_or("UNKNOWN");
            all.push((variable(&format!("{name}_str")), word.to_owned()));
        }
    }
    let (seconds, nanoseconds) = event.time;
    all.push(("ZEVENT_SUBCLASS".to_owned(), event.subclass().to_owned()));
    all.push(("ZEVENT_TIME_SECS".to_owned(), seconds.to_string()));
    all.push(("ZEVENT_TIME_NSECS".to_owned(), nanoseconds.to_string()));
    let zoned = i64::try_from(seconds).ok().and_then(|s| jiff::Timestamp::from_second(s).ok());
    if let Some(zoned) = zoned.map(|time| time.to_zoned(jiff::tz::TimeZone::system())) {
        all.push(("ZEVENT_TIME_STRING".to_owned(), zoned.strftime("%Y-%m-%d %H:%M:%S%z").to_string()));
    }
    // A value with a NUL cannot be passed; none of ours has one.
    all.retain(|(_, value)| !value.contains('\0'));
    all
}

fn variable(name: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    format!("ZEVENT_{}", name.chars().map(letter).collect::<String>())
}

fn text(value: &Value, is_hex: bool) -> String {
    let number = |n: &u64| if is_hex { format!("0x{n:016X}") } else { n.to_string() };
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match value {
        Value::Boolean | Value::BooleanValue(true) => "1".to_owned(),
        Value::BooleanValue(false) => "0".to_owned(),
        Value::Uint64(n) => number(n),
        Value::Byte(n) | Value::Uint8(n) => n.to_string(),
        Value::Int32(n) => n.to_string(),
        Value::Uint32(n) => n.to_string(),
        Value::Int64(n) | Value::HrTime(n) => n.to_string(),
        Value::String(bytes) => lossy(bytes),
        Value::Int64Array(all) => all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
        Value::Uint64Array(all) => all.iter().map(number).collect::<Vec<_>>().join(" "),
        Value::StringArray(all) => all.iter().map(|bytes| lossy(bytes)).collect::<Vec<_>>().join(" "),
        _ => "_NOT_IMPLEMENTED_".to_owned(),
    }
}

/// The event as a document: number, class, time and payload. 64-bit numbers are strings, as in JSON
/// output of OpenZFS.
pub fn document(event: &Event, host: &str) -> serde_json::Value {
    let time = i64::try_from(event.time.0).ok().and_then(|s| jiff::Timestamp::from_second(s).ok());
    json!({
        "id": event.id,
        "class": event.class,
        "time": time.map_or_else(String::new, |time| time.to_string()),
        "nanoseconds": event.time.1,
        "host": host,
        "payload": object(&event.payload),
    })
}

fn object(list: &Nvlist) -> serde_json::Value {
    let mut all = Map::new();
    for pair in &list.pairs {
        let value = match &pair.value {
            Value::Nvlist(inner) => object(inner),
            Value::Uint64(n) => json!(n.to_string()),
            Value::Int32(n) => json!(n),
            Value::Uint32(n) => json!(n),
            Value::Uint8(n) => json!(n),
            Value::Boolean => json!(true),
            Value::BooleanValue(yes) => json!(yes),
            other => json!(text(other, false)),
        };
        all.insert(pair.name_lossy().into_owned(), value);
    }
    all.into()
}

#[cfg(test)]
pub(super) fn sample(class: &str) -> Event {
    let mut payload = Nvlist::new();
    payload.put("class", class);
    payload.put("pool", "tank $(touch /x)");
    payload.put("pool_guid", 0xabcu64);
    payload.put("pool_state", 0u64);
    payload.put("vdev_state", 5u64);
    payload.put("eid", 9u64);
    Event { id: 9, time: (1_795_257_488, 332_000_000), class: class.to_owned(), payload }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_those_that_zed_gives() {
        let all = of(&sample("resource.fs.zfs.statechange"));
        let get = |name: &str| all.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
        assert_eq!(get("ZEVENT_CLASS"), Some("resource.fs.zfs.statechange"));
        assert_eq!(get("ZEVENT_SUBCLASS"), Some("statechange"));
        assert_eq!((get("ZEVENT_POOL_GUID"), get("ZEVENT_EID")), (Some("0x0000000000000ABC"), Some("9")));
        assert_eq!((get("ZEVENT_VDEV_STATE"), get("ZEVENT_VDEV_STATE_STR")), (Some("5"), Some("FAULTED")));
        assert_eq!((get("ZEVENT_POOL_STATE_STR"), get("ZEVENT_TIME_SECS")), (Some("ACTIVE"), Some("1795257488")));
        assert_eq!(get("ZEVENT_POOL"), Some("tank $(touch /x)"));
        let document = document(&sample("sysevent.fs.zfs.x"), "here");
        assert_eq!((&document["payload"]["pool_guid"], &document["host"]), (&json!("2748"), &json!("here")));
    }
}
