//! Modes and times in the formats of `ls` and `stat`.

use files::vfs::{Attr, FileKind, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// Half a year: for older times `ls -l` prints the year instead of the time of day.
const RECENT_SECONDS: i64 = 31_556_952 / 2;

/// The first letter of a line of `ls -l`.
pub fn kind_letter(kind: FileKind) -> char {
    match kind {
        FileKind::Regular => '-',
        FileKind::Directory => 'd',
        FileKind::Symlink => 'l',
        FileKind::Fifo => 'p',
        FileKind::Socket => 's',
        FileKind::CharDevice => 'c',
        FileKind::BlockDevice => 'b',
    }
}

/// Kind of file in the words of stat(1).
pub fn kind_words(attr: &Attr) -> &'static str {
    match attr.kind {
        FileKind::Regular if attr.size == 0 => "regular empty file",
        FileKind::Regular => "regular file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "symbolic link",
        FileKind::Fifo => "fifo",
        FileKind::Socket => "socket",
        FileKind::CharDevice => "character special file",
        FileKind::BlockDevice => "block special file",
    }
}

/// Type and permissions as `ls -l` shows them, such as `-rwxr-sr-t`.
pub fn mode_string(kind: FileKind, mode: u32) -> String {
    let mut s = String::with_capacity(10);
    s.push(kind_letter(kind));
    for (shift, special, set, unset) in [(6, 0o4000, 's', 'S'), (3, 0o2000, 's', 'S'), (0, 0o1000, 't', 'T')] {
        let bits = mode >> shift;
        s.push(if bits & 4 != 0 { 'r' } else { '-' });
        s.push(if bits & 2 != 0 { 'w' } else { '-' });
        s.push(match (mode & special != 0, bits & 1 != 0) {
            (true, true) => set,
            (true, false) => unset,
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    s
}

/// Time in the format of `ls -l`: `Nov 21 12:34`, or `Nov 21  2019` if it is old or in the future.
/// `now`: seconds since 1970.
pub fn time_short(time: Time, now: i64) -> String {
    match local(time) {
        Some(t) => {
            let age = now.saturating_sub(time.seconds);
            if (0..RECENT_SECONDS).contains(&age) {
                t.strftime("%b %e %H:%M").to_string()
            } else {
                format!("{} {:>5}", t.strftime("%b %e"), t.year())
            }
        }
        None => time.seconds.to_string(),
    }
}

/// Time in the format of `stat`: `2026-11-21 12:34:56.123456789 +0100`.
pub fn time_full(time: Time) -> String {
    match local(time) {
        Some(t) => t.strftime("%Y-%m-%d %H:%M:%S.%N %z").to_string(),
        None => format!("{}.{:09}", time.seconds, time.nanoseconds),
    }
}

fn local(time: Time) -> Option<Zoned> {
    let at = Timestamp::new(time.seconds, i32::try_from(time.nanoseconds).ok()?).ok()?;
    Some(at.to_zoned(TimeZone::system()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_read_like_ls() {
        assert_eq!(mode_string(FileKind::Regular, 0o644), "-rw-r--r--");
        assert_eq!(mode_string(FileKind::Directory, 0o1777), "drwxrwxrwt");
        assert_eq!(mode_string(FileKind::Regular, 0o6610), "-rwS--s---");
        assert_eq!(mode_string(FileKind::Socket, 0o1000), "s--------T");
    }

    #[test]
    fn a_time_that_no_calendar_has_is_a_number() {
        let time = Time { seconds: i64::MAX, nanoseconds: 5 };
        assert_eq!(time_full(time), "9223372036854775807.000000005");
    }
}
