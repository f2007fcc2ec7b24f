//! Times in the forms that people type.

use anyhow::{Result, bail};
use jiff::civil::{DateTime, Time};
use jiff::{Timestamp, Zoned};

/// Seconds since 1970 of `now`, `-10m` (ago), `1795303000`, `15:49:35` (today), `2026-11-22T15:49`,
/// or with a time zone.
pub fn parse(text: &str, now: u64) -> Result<u64> {
    if text == "now" {
        return Ok(now);
    }
    if let Some(ago) = text.strip_prefix('-') {
        return match span(ago) {
            Some(seconds) => Ok(now.saturating_sub(seconds)),
            None => bail!("invalid time '{text}': expected a number with s, m, h or d behind the minus, such as -10m"),
        };
    }
    if let Ok(seconds) = text.parse::<u64>() {
        return Ok(seconds);
    }
    let here = Zoned::now();
    let zoned = |civil: DateTime| civil.to_zoned(here.time_zone().clone()).map(|z| z.timestamp());
    let found = match (text.parse::<Timestamp>(), text.parse::<DateTime>(), text.parse::<Time>()) {
        (Ok(moment), ..) => Some(moment),
        (_, _, Ok(time)) => zoned(here.date().to_datetime(time)).ok(),
        (_, Ok(civil), _) => zoned(civil).ok(),
        _ => None,
    };
    match found.and_then(|moment| u64::try_from(moment.as_second()).ok()) {
        Some(seconds) => Ok(seconds),
        None => bail!("invalid time '{text}': expected now, -10m, seconds since 1970, 15:49:35 or 2026-11-22T15:49:35"),
    }
}

/// Seconds of `90`, `90s`, `5m`, `2h`, `7d`.
pub fn span(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 7 * 86_400,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_as_people_write_them() {
        let read = |text| parse(text, 1_795_300_000).map_err(|e| e.to_string());
        assert_eq!(read("now"), Ok(1_795_300_000));
        assert_eq!((read("-10m"), read("-2h"), read("-90")), (Ok(1_795_299_400), Ok(1_795_292_800), Ok(1_795_299_910)));
        assert_eq!(read("1795303000"), Ok(1_795_303_000));
        assert_eq!(read("2026-07-14T03:33:20Z"), Ok(1_784_000_000));
        assert_eq!(read("2026-07-14T05:33:20+02:00"), Ok(1_784_000_000));
        assert!(read("15:49:35").is_ok() && read("2026-07-14T03:33").is_ok() && read("2026-07-14").is_ok());
        for wrong in ["", "-", "-10y", "tomorrow", "25:00", "-99999999999999999999h"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
