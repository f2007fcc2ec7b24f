//! Parses words of tables: numbers with and without units, and times in the tools' formats.

use super::{Clock, Error, Options};
use jiff::civil::DateTime;

/// A text being imported.
pub(super) struct Source<'a> {
    pub name: String,
    pub text: &'a str,
    pub options: Options,
}

impl Source<'_> {
    /// An error at a line, counted from 0.
    pub fn wrong(&self, line: usize, what: impl Into<String>) -> Error {
        Error::Line { name: self.name.clone(), line: line + 1, what: what.into() }
    }

    pub fn unsupported(&self, what: impl Into<String>) -> Error {
        Error::Unsupported { name: self.name.clone(), what: what.into() }
    }
}

/// A number with the suffix K, M, G, T, P or E, each `base` times the previous one; `-` means not
/// measured: NaN.
pub(super) fn scaled(word: &str, base: f64) -> Option<f64> {
    if word == "-" {
        return Some(f64::NAN);
    }
    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == '%');
    let number: f64 = digits.parse().ok().filter(|n: &f64| n.is_finite())?;
    let power = match word.get(digits.len()..)?.to_ascii_uppercase().as_str() {
        "" | "B" | "%" => 0,
        "K" | "KB" | "KIB" => 1,
        "M" | "MB" | "MIB" => 2,
        "G" | "GB" | "GIB" => 3,
        "T" | "TB" | "TIB" => 4,
        "P" | "PB" | "PIB" => 5,
        "E" | "EB" | "EIB" => 6,
        _ => return None,
    };
    Some(number * base.powi(power))
}

/// A plain number; `-` means not measured: NaN.
pub(super) fn plain(word: &str) -> Option<f64> {
    if word == "-" { Some(f64::NAN) } else { word.parse().ok().filter(|n: &f64| n.is_finite()) }
}

/// A duration in the format of zpool iostat (`1us`, `23ms`, `4s`), in seconds.
pub(super) fn duration(word: &str) -> Option<f64> {
    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: f64 = digits.parse().ok()?;
    match word.get(digits.len()..)? {
        "ns" => Some(number * 1e-9),
        "us" => Some(number * 1e-6),
        "ms" => Some(number * 1e-3),
        "s" => Some(number),
        _ => None,
    }
}

/// `15:49:35`, with or without fractions, as seconds of the day.
pub(super) fn of_day(word: &str) -> Option<f64> {
    let mut parts = word.split(':');
    let (h, m, s) = (parts.next()?, parts.next()?, parts.next()?);
    let whole = |text: &str, most: u32| text.parse::<u32>().ok().filter(|n| *n < most && text.len() <= 2);
    let seconds: f64 = s.parse().ok().filter(|s| (0.0..61.0).contains(s))?;
    (parts.next().is_none()).then_some(f64::from(whole(h, 24)? * 3600 + whole(m, 60)? * 60) + seconds)
}

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

pub(super) fn month(word: &str) -> Option<i8> {
    MONTHS.iter().position(|m| *m == word).and_then(|at| i8::try_from(at + 1).ok())
}

/// Seconds since 1970 of a date at midnight UTC.
pub(super) fn date(year: i16, month: i8, day: i8) -> Option<f64> {
    let at = DateTime::new(year, month, day, 0, 0, 0, 0).ok()?;
    Some(at.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_second() as f64)
}

/// A date in the format `2026-11-23`, `11/23/26` or `11/23/2026` (month first).
fn of_date(word: &str) -> Option<f64> {
    let numbers = |sep: char| -> Option<[i16; 3]> {
        let parts: Vec<i16> = word.split(sep).map_while(|p| p.parse().ok()).collect();
        (word.matches(sep).count() == 2).then(|| parts.try_into().ok())?
    };
    let small = |n: i16| i8::try_from(n).ok();
    if let Some([year, month, day]) = numbers('-') {
        return date(year, small(month)?, small(day)?);
    }
    let [month, day, year] = numbers('/')?;
    date(if year < 100 { year + 2000 } else { year }, small(month)?, small(day)?)
}

/// A line that consists of a time only, in any of these formats: seconds since 1970, time of day,
/// date and time, ISO 8601, date(1).
pub(super) fn moment(text: &str) -> Option<(Clock, f64)> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    match words.as_slice() {
        [epoch] if epoch.len() >= 9 && epoch.bytes().all(|c| c.is_ascii_digit()) => {
            Some((Clock::Utc, epoch.parse().ok()?))
        }
        [clock] if of_day(clock).is_some() => Some((Clock::Day, of_day(clock)?)),
        [iso] => iso8601(iso).map(|at| (Clock::Utc, at)),
        [day, clock] => Some((Clock::Utc, of_date(day)? + of_day(clock)?)),
        [day, clock, half @ ("AM" | "PM")] => {
            let at = of_day(clock)?;
            let at = if at >= 43_200.0 { at - 43_200.0 } else { at };
            Some((Clock::Utc, of_date(day)? + at + if *half == "PM" { 43_200.0 } else { 0.0 }))
        }
        // Mon Nov 23 06:54:24 2026, Mon Nov 23 06:54:24 UTC 2026, and with AM or PM.
        [_, name, day, clock, .., year] if of_day(clock).is_some() => {
            Some((Clock::Utc, date(year.parse().ok()?, month(name)?, day.parse().ok()?)? + of_day(clock)?))
        }
        _ => None,
    }
}

/// `2026-11-23T06:54:24+0000`.
fn iso8601(word: &str) -> Option<f64> {
    if let Ok(at) = word.parse::<jiff::Timestamp>() {
        return Some(at.as_millisecond() as f64 / 1000.0);
    }
    let (day, clock) = word.split_once('T')?;
    let (clock, zone) = match clock.find(['+', '-', 'Z']) {
        Some(at) => clock.split_at(at),
        None => (clock, ""),
    };
    let offset = match zone.get(1..).unwrap_or_default().replace(':', "") {
        digits if digits.is_empty() => 0.0,
        digits if digits.len() == 4 => {
            let n: f64 = digits.parse().ok()?;
            let seconds = (n / 100.0).floor() * 3600.0 + n % 100.0 * 60.0;
            if zone.starts_with('-') { -seconds } else { seconds }
        }
        _ => return None,
    };
    Some(of_date(day)? + of_day(clock)? - offset)
}
