//! Formats numbers for people: at most five characters, as OpenZFS prints them.
//!
//! Facts from lib/libzutil/zutil_nicenum.c: the unit is the largest power of 1024 not above the
//! number; exact multiples have no decimals; others have as many, up to two, as fit in five
//! characters.

/// `1.50K`, `512`, `3M`.
pub fn nice_number(number: u64) -> String {
    nice(number, ["", "K", "M", "G", "T", "P", "E"])
}

/// `1.50K`, `512B`, `3M`.
pub fn nice_bytes(number: u64) -> String {
    nice(number, ["B", "K", "M", "G", "T", "P", "E"])
}

fn nice(number: u64, units: [&str; 7]) -> String {
    let index = if number == 0 { 0 } else { (number.ilog2() / 10) as usize };
    let unit = units[index.min(6)];
    let scale = 1u64 << (10 * index.min(6));
    if number.is_multiple_of(scale) {
        return format!("{}{unit}", number / scale);
    }
    let value = number as f64 / scale as f64;
    for decimals in [2, 1] {
        let text = format!("{value:.decimals$}{unit}");
        if text.len() <= 5 {
            return text;
        }
    }
    format!("{value:.0}{unit}")
}

/// A ratio in hundredths: `1.50`.
pub fn ratio(hundredths: u64) -> String {
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

/// Parses a number as people write it: `64K`, `1.5g`, `2MiB`, `512B`. The error is the reason in
/// OpenZFS's words. Facts: zfs_nicestrtonum, str2shift in lib/libzfs/libzfs_util.c.
pub fn parse_size(text: &str) -> Result<u64, String> {
    const TOO_LARGE: &str = "numeric value is too large";
    if !text.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return Err(format!("bad numeric value '{text}'"));
    }
    let after_digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let whole = after_digits(text);
    let end = match text[whole..].strip_prefix('.') {
        Some(decimals) if text != "." => whole + 1 + after_digits(decimals),
        _ => whole,
    };
    let (number, unit) = text.split_at(end);
    let shift = shift(unit).ok_or_else(|| format!("invalid numeric suffix '{unit}'"))?;
    if number.contains('.') {
        let value = number.parse::<f64>().map_err(|_| format!("bad numeric value '{text}'"))? * 2f64.powi(shift);
        return if value < u64::MAX as f64 { Ok(value as u64) } else { Err(TOO_LARGE.to_owned()) };
    }
    let scale = u32::try_from(shift).ok().and_then(|shift| 1u64.checked_shl(shift));
    let value = number.parse::<u64>().ok().zip(scale).and_then(|(value, scale)| value.checked_mul(scale));
    value.ok_or_else(|| TOO_LARGE.to_owned())
}

/// The power of two of a unit: `G`, `GB` and `GiB` are the same, `B` has no prefix.
fn shift(unit: &str) -> Option<i32> {
    let unit = unit.to_ascii_uppercase();
    let Some(first) = unit.chars().next() else { return Some(0) };
    let power = "BKMGTPEZ".find(first)? as i32;
    match &unit[1..] {
        "" => Some(10 * power),
        "B" | "IB" if power > 0 => Some(10 * power),
        _ => None,
    }
}

/// Seconds since 1970 as UTC: (year, month 1-12, day, hour, minute, second, weekday with Sunday 0).
pub fn civil(seconds: i64) -> (i64, u32, u32, u32, u32, u32, u32) {
    // Days to date by the 400-year cycle of the Gregorian calendar, counted from 1 March.
    let (days, rest) = (seconds.div_euclid(86400), seconds.rem_euclid(86400) as u32);
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * month_index + 2) / 5 + 1) as u32;
    let month = if month_index < 10 { month_index + 3 } else { month_index - 9 } as u32;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let weekday = (days + 4).rem_euclid(7) as u32;
    (year, month, day, rest / 3600, rest / 60 % 60, rest % 60, weekday)
}

/// Formats `Sat Nov 21 10:18 2026`, optionally with seconds; `seconds` is already shifted to the
/// time zone to show.
pub fn date(seconds: u64, with_seconds: bool) -> String {
    const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let Ok(seconds) = i64::try_from(seconds) else { return seconds.to_string() };
    if seconds > 253_402_300_799 {
        return seconds.to_string();
    }
    let (year, month, day, hour, minute, second, weekday) = civil(seconds);
    let (weekday, month) = (DAYS[weekday as usize % 7], MONTHS[(month as usize).saturating_sub(1) % 12]);
    let tail = if with_seconds { format!(":{second:02}") } else { String::new() };
    format!("{weekday} {month} {day:>2} {hour:>2}:{minute:02}{tail} {year}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_fit_in_five_characters() {
        let cases = [
            (0, "0"),
            (512, "512"),
            (1024, "1K"),
            (1536, "1.50K"),
            (10_239, "10.0K"),
            (24_511_488, "23.4M"),
            (1_048_575, "1024K"),
            (102_821_888, "98.1M"),
            (u64::MAX, "16.0E"),
        ];
        for (number, text) in cases {
            assert_eq!(nice_number(number), text, "{number}");
        }
        assert_eq!((nice_bytes(0), nice_bytes(1023), nice_bytes(2048)), ("0B".into(), "1023B".into(), "2K".into()));
        assert_eq!(ratio(268), "2.68");
    }

    #[test]
    fn sizes_are_read_as_people_write_them() {
        let cases = [
            ("0", 0),
            ("64k", 65536),
            ("1.5G", 1_610_612_736),
            ("2MiB", 2 << 20),
            ("2mB", 2 << 20),
            ("512B", 512),
            (".5K", 512),
            ("1.b", 1),
            ("15E", 15 << 60),
        ];
        for (text, size) in cases {
            assert_eq!(parse_size(text), Ok(size), "{text}");
        }
    }

    #[test]
    fn a_size_that_is_none_is_refused_with_openzfs_reason() {
        let suffix = |unit: &str| format!("invalid numeric suffix '{unit}'");
        let cases = [
            ("x", "bad numeric value 'x'".to_owned()),
            ("", "bad numeric value ''".to_owned()),
            ("-1", "bad numeric value '-1'".to_owned()),
            ("10Q", suffix("Q")),
            ("0bb", suffix("bb")),
            ("1.01BB", suffix("BB")),
            ("1BiB", suffix("BiB")),
            ("1gbb", suffix("gbb")),
            ("1 g", suffix(" g")),
            ("1.2.3", suffix(".3")),
            (".", suffix(".")),
            ("1\u{e9}", suffix("\u{e9}")),
            ("1g\u{e9}", suffix("g\u{e9}")),
            ("1z", "numeric value is too large".to_owned()),
            ("16E", "numeric value is too large".to_owned()),
            ("16.0E", "numeric value is too large".to_owned()),
            ("18446744073709551616", "numeric value is too large".to_owned()),
        ];
        for (text, reason) in cases {
            assert_eq!(parse_size(text), Err(reason), "{text}");
        }
    }

    #[test]
    fn dates_are_those_of_the_kernel() {
        assert_eq!(date(1_795_256_304, false), "Sat Nov 21 10:18 2026");
        assert_eq!(date(0, true), "Thu Jan  1  0:00:00 1970");
        assert_eq!(date(951_782_400, false), "Tue Feb 29  0:00 2000");
        assert_eq!(date(u64::MAX, false), u64::MAX.to_string());
    }
}
