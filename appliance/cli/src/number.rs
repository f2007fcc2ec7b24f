//! Numbers and times in OpenZFS's formats.
//!
//! Facts from lib/libzutil/zutil_nicenum.c: the unit is the largest power of 1024 not above the
//! number; even multiples have no decimals; others have as many, up to two, as fit in five
//! characters.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use std::cell::RefCell;

thread_local! {
    /// Time zone of the client for which this thread runs a command.
    static ZONE: RefCell<Option<TimeZone>> = const { RefCell::new(None) };
}

/// Runs code with the time zone of a client's `TZ`. An unknown zone is UTC, as for ctime(3).
pub fn in_zone<R>(tz: Option<&str>, run: impl FnOnce() -> R) -> R {
    let zone = tz.map(|tz| {
        let name = tz.strip_prefix(':').unwrap_or(tz);
        TimeZone::get(name).or_else(|_| TimeZone::posix(name)).unwrap_or(TimeZone::UTC)
    });
    let before = ZONE.with(|here| here.replace(zone));
    let result = run();
    ZONE.with(|here| *here.borrow_mut() = before);
    result
}

/// A number in OpenZFS's short form: `1.50K`, `512`, `3M`.
pub fn nice_number(number: u64) -> String {
    nice(number, "")
}

/// Bytes in OpenZFS's short form: `1.50K`, `512B`, `3M`.
pub fn nice_bytes(number: u64) -> String {
    nice(number, "B")
}

/// A number, shortened, or in full with `-p`.
pub fn number(number: u64, literal: bool) -> String {
    if literal { number.to_string() } else { nice_number(number) }
}

fn nice(number: u64, ones: &str) -> String {
    let index = number.checked_ilog2().unwrap_or(0) / 10;
    let unit = [ones, "K", "M", "G", "T", "P", "E"][index as usize];
    let scale = 1u64 << (10 * index);
    if number.is_multiple_of(scale) {
        return format!("{}{unit}", number / scale);
    }
    let value = number as f64 / scale as f64;
    let texts = [2, 1, 0].map(|decimals| format!("{value:.decimals$}{unit}"));
    texts.iter().find(|t| t.len() <= 5).unwrap_or(&texts[2]).clone()
}

/// A ratio in hundredths: `1.50x`, or `1.50` with `-p`.
pub fn ratio(hundredths: u64, literal: bool) -> String {
    let x = if literal { "" } else { "x" };
    format!("{}.{:02}{x}", hundredths / 100, hundredths % 100)
}

/// `7%`, or `7` with `-p`.
pub fn percent(percent: u64, literal: bool) -> String {
    if literal { percent.to_string() } else { format!("{percent}%") }
}

/// A duration: `00:00:01`, `3 days 04:05:06`.
pub fn duration(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    let clock = format!("{hours:02}:{minutes:02}:{:02}", seconds % 60);
    if days > 0 { format!("{days} days {clock}") } else { clock }
}

fn local(seconds: u64) -> Option<Zoned> {
    let time = Timestamp::from_second(i64::try_from(seconds).ok()?).ok()?;
    let zone = ZONE.with(|zone| zone.borrow().clone());
    Some(time.to_zoned(zone.unwrap_or_else(TimeZone::system)))
}

fn format(seconds: u64, format: &str) -> String {
    local(seconds).map_or_else(|| seconds.to_string(), |t| t.strftime(format).to_string())
}

/// Format of ctime(3), without the line end: `Sat Nov 21 10:21:39 2026`.
pub fn ctime(seconds: u64) -> String {
    format(seconds, "%a %b %e %H:%M:%S %Y")
}

/// Format of `zfs get creation` and `zfs holds`: `Sat Nov 21 10:18 2026`.
pub fn date_minutes(seconds: u64) -> String {
    format(seconds, "%a %b %e %k:%M %Y")
}

/// Format of `zfs get snapshots_changed`: `Sat Nov 21 10:18:42 2026`.
pub fn date_seconds(seconds: u64) -> String {
    format(seconds, "%a %b %e %k:%M:%S %Y")
}

/// Format of `beadm list`: `2026-11-21 10:18`.
pub fn date_short(seconds: u64) -> String {
    format(seconds, "%Y-%m-%d %H:%M")
}

/// Format of `zpool history`: `2026-11-21.10:38:15`.
pub fn date_history(seconds: u64) -> String {
    format(seconds, "%Y-%m-%d.%H:%M:%S")
}

/// Format of `zpool events`: `Nov 21 2026 10:38:08.332000000`.
pub fn date_event(seconds: u64, nanoseconds: u32) -> String {
    format!("{}.{nanoseconds:09}", format(seconds, "%b %e %Y %H:%M:%S"))
}

/// Format of date(1) and JSON documents: `Sat Nov 21 10:41:11 UTC 2026`. Zones other than UTC are
/// printed as their offset.
pub fn date_zone(seconds: u64) -> String {
    let Some(t) = local(seconds) else { return seconds.to_string() };
    let zone = if t.offset().is_zero() { "UTC".to_owned() } else { t.strftime("%:z").to_string() };
    format!("{} {zone} {}", t.strftime("%a %b %e %H:%M:%S"), t.strftime("%Y"))
}

/// Current time: seconds since 1970.
pub fn now() -> u64 {
    host::clock::seconds()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_clients_place() {
        let summer = 1_784_000_000; // 14 July 2026, 03:33:20 UTC
        assert_eq!(in_zone(Some("UTC"), || ctime(summer)), "Tue Jul 14 03:33:20 2026");
        assert_eq!(in_zone(Some("CET-1CEST,M3.5.0,M10.5.0/3"), || ctime(summer)), "Tue Jul 14 05:33:20 2026");
        assert_eq!(in_zone(Some("EST5"), || date_history(summer)), "2026-07-13.22:33:20");
        assert_eq!(in_zone(Some("Nowhere/At all"), || ctime(summer)), "Tue Jul 14 03:33:20 2026");
        assert_eq!(in_zone(Some("CET-1"), || date_zone(summer)), "Tue Jul 14 04:33:20 +01:00 2026");
        // As date(1) writes single digits: date -u -d @1783040465 '+%a %b %e %k:%M %Y'
        assert_eq!(in_zone(Some("UTC"), || date_minutes(1_783_040_465)), "Fri Jul  3  1:01 2026");
        assert_eq!(in_zone(Some("UTC"), || date_event(1_783_040_465, 5)), "Jul  3 2026 01:01:05.000000005");
    }

    /// Pairs from the output of OpenZFS with and without `-p`.
    #[test]
    fn numbers_fit_in_five_characters() {
        let cases = [
            (0, "0"),
            (286720, "280K"),
            (369098752, "352M"),
            (12883456, "12.3M"),
            (1536, "1.50K"),
            (117436416, "112M"),
            (10_239, "10.0K"),
            (1_048_575, "1024K"),
            (86_630, "84.6K"),
            (1023, "1023"),
            (u64::MAX, "16.0E"),
            (1 << 63, "8E"),
        ];
        for (number, text) in cases {
            assert_eq!(nice_number(number), text, "{number}");
        }
        assert_eq!([nice_bytes(0), nice_bytes(512), nice_bytes(24576)], ["0B", "512B", "24K"]);
    }

    #[test]
    fn durations_and_ratios_read_as_openzfs_writes_them() {
        assert_eq!([duration(1), duration(90_061)], ["00:00:01", "1 days 01:01:01"]);
        assert_eq!([ratio(196, false), ratio(100, true)], ["1.96x", "1.00"]);
        assert_eq!([percent(9, false), percent(9, true)], ["9%", "9"]);
    }

    #[test]
    fn times_beyond_the_calendar_are_numbers() {
        assert_eq!(ctime(u64::MAX), u64::MAX.to_string());
        assert_eq!(date_zone(u64::MAX / 2), (u64::MAX / 2).to_string());
    }
}
