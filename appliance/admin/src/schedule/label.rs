//! The five schedule labels, their periods in UTC, and the names of their snapshots.
//!
//! Names are those of zfs-auto-snapshot, such as `zfs-auto-snap_hourly-2026-11-22-2300`: in UTC, so
//! that they sort by time and stay unique when clocks are set back; without a colon, which Windows
//! does not allow in names; and compatible with Samba's `shadow_copy2`. The other common scheme,
//! sanoid's `autosnap_2026-11-22_23:00:00_hourly`, uses local time.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use std::ops::Range;

const PREFIX: &str = "zfs-auto-snap_";
const MINUTE: u64 = 60;
const DAY: u64 = 24 * 60 * MINUTE;

/// How often a snapshot is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Label {
    /// Every 15 minutes, from each full hour.
    Frequent,
    /// At each full hour.
    Hourly,
    /// At 00:00 UTC.
    Daily,
    /// Every week, starting on Monday.
    Weekly,
    /// On the first day of the month, 00:00 UTC.
    Monthly,
}

impl Label {
    /// All labels, the most frequent first.
    pub const ALL: [Self; 5] = [Self::Frequent, Self::Hourly, Self::Daily, Self::Weekly, Self::Monthly];

    /// The label's name, as used in snapshot names.
    pub fn name(self) -> &'static str {
        match self {
            Self::Frequent => "frequent",
            Self::Hourly => "hourly",
            Self::Daily => "daily",
            Self::Weekly => "weekly",
            Self::Monthly => "monthly",
        }
    }

    /// The label with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|label| label.name() == name)
    }

    /// The property that holds the rule.
    pub fn property(self) -> &'static str {
        match self {
            Self::Frequent => "weir:snapshot-frequent",
            Self::Hourly => "weir:snapshot-hourly",
            Self::Daily => "weir:snapshot-daily",
            Self::Weekly => "weir:snapshot-weekly",
            Self::Monthly => "weir:snapshot-monthly",
        }
    }

    /// The property that also disables zfs-auto-snapshot for this label.
    pub fn refusal(self) -> String {
        format!("com.sun:auto-snapshot:{}", self.name())
    }

    /// The period that contains `now`, in seconds since 1970.
    pub fn period(self, now: u64) -> Range<u64> {
        let fixed = |length: u64, offset: u64| {
            // Periods start `offset` before a multiple of their length.
            let start = (now + offset) / length * length;
            start.saturating_sub(offset)..start - offset.min(start) + length
        };
        match self {
            Self::Frequent => fixed(15 * MINUTE, 0),
            Self::Hourly => fixed(60 * MINUTE, 0),
            Self::Daily => fixed(DAY, 0),
            // 1970 started on a Thursday, three days after a Monday.
            Self::Weekly => fixed(7 * DAY, 3 * DAY),
            Self::Monthly => {
                let first = civil(now).date().first_of_month();
                let next = first.last_of_month().tomorrow().unwrap_or(Date::MAX);
                seconds(first.at(0, 0, 0, 0))..seconds(next.at(0, 0, 0, 0))
            }
        }
    }

    /// Name of a snapshot taken at `now`.
    pub fn name_at(self, now: u64) -> String {
        format!("{PREFIX}{}-{}", self.name(), civil(now).strftime("%Y-%m-%d-%H%M"))
    }

    /// Time of the snapshot with that name, to the minute; `None` if the name is not one of this
    /// label.
    pub fn time_of(self, name: &str) -> Option<u64> {
        let when = name.strip_prefix(PREFIX)?.strip_prefix(self.name())?.strip_prefix('-')?;
        // Exactly the format 2026-11-22-2300.
        let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        let shape = when.len() == 15 && when.is_ascii() && digits(&when.replace('-', ""));
        let parsed = shape.then(|| DateTime::strptime("%Y-%m-%d-%H%M", when).ok())??;
        Some(seconds(parsed))
    }
}

fn civil(now: u64) -> DateTime {
    let at = i64::try_from(now).ok().and_then(|now| Timestamp::from_second(now).ok()).unwrap_or(Timestamp::MAX);
    TimeZone::UTC.to_datetime(at)
}

fn seconds(at: DateTime) -> u64 {
    let at = TimeZone::UTC.to_timestamp(at).map_or(0, Timestamp::as_second);
    u64::try_from(at).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-22 23:17:05 UTC, a Sunday.
    const NOW: u64 = 1_795_389_425;

    #[test]
    fn periods_begin_on_the_hour_at_midnight_on_monday_and_on_the_first() {
        let at = |text: &str| seconds(DateTime::strptime("%Y-%m-%d %H:%M", text).expect("a time"));
        assert_eq!(at("2026-11-22 23:17") + 5, NOW);
        for (label, start, end) in [
            (Label::Frequent, "2026-11-22 23:15", "2026-11-22 23:30"),
            (Label::Hourly, "2026-11-22 23:00", "2026-11-23 00:00"),
            (Label::Daily, "2026-11-22 00:00", "2026-11-23 00:00"),
            (Label::Weekly, "2026-11-16 00:00", "2026-11-23 00:00"),
            (Label::Monthly, "2026-11-01 00:00", "2026-12-01 00:00"),
        ] {
            assert_eq!(label.period(NOW), at(start)..at(end), "{label:?}");
            assert_eq!(label.period(at(start)), at(start)..at(end), "{label:?}");
            assert_eq!(label.period(at(end) - 1), at(start)..at(end), "{label:?}");
        }
        let leap = at("2028-02-29 12:00");
        assert_eq!(Label::Monthly.period(leap), at("2028-02-01 00:00")..at("2028-03-01 00:00"));
        for label in Label::ALL {
            // The first and the last possible second.
            assert!(label.period(0).contains(&0), "{label:?}");
            let _ = (label.period(u64::MAX / 2), label.name_at(u64::MAX));
        }
    }

    #[test]
    fn names_are_those_of_zfs_auto_snapshot_and_contain_their_time() {
        let name = Label::Hourly.name_at(NOW);
        assert_eq!(name, "zfs-auto-snap_hourly-2026-11-22-2317");
        assert_eq!(Label::Hourly.time_of(&name), Some(NOW - 5));
        assert_eq!(Label::Daily.time_of(&name), None);
        for other in [
            "zfs-auto-snap_hourly-",
            "zfs-auto-snap_hourly-2026-11-22-23170",
            "zfs-auto-snap_hourly-2026-13-22-2317",
            "zfs-auto-snap_hourly-2026-11-22-231",
            "zfs-auto-snap_hourly-+026-11-22-2317",
            "hourly-2026-11-22-2317",
            "zfs-auto-snap_hourly-2026-11-22-23é",
        ] {
            assert_eq!(Label::Hourly.time_of(other), None, "{other}");
        }
    }
}
