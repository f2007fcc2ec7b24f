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

/// Parses a number as people write it: `64K`, `1.5G`, `none`; `None` if it is invalid.
pub fn parse_size(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.to_ascii_uppercase();
    let power = match unit.trim_end_matches("IB").trim_end_matches('B') {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        "P" => 50,
        "E" => 60,
        _ => return None,
    };
    if number.contains('.') {
        let value = number.parse::<f64>().ok()? * (1u64 << power) as f64;
        (value < u64::MAX as f64).then_some(value as u64)
    } else {
        number.parse::<u64>().ok()?.checked_mul(1 << power)
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
        let cases = [("0", Some(0)), ("64k", Some(65536)), ("1.5G", Some(1_610_612_736)), ("2MiB", Some(2 << 20))];
        for (text, size) in cases.into_iter().chain([("x", None), ("10Q", None), ("99999999999E", None)]) {
            assert_eq!(parse_size(text), size, "{text}");
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
