//! The audit log: `audit.log` in the state directory, one JSON document per line, append-only.
//!
//! Invariants:
//!   * a change or a refusal is in the file before the answer is sent; requests that only read are
//!     not recorded
//!   * at [`FILE_BYTES`] the file becomes `audit.log.1`, and so on; [`FILES`] files are kept

use crate::lines::Lines;
use anyhow::Result;
use api::AuditEntry;
use std::path::Path;

/// Maximum size of a file.
const FILE_BYTES: u64 = 16 << 20;
/// Number of files kept.
const FILES: u32 = 8;
/// Maximum length of one field in bytes.
const FIELD_BYTES: usize = 2000;

pub struct AuditLog(Lines);

fn cut(text: &mut String) {
    if text.len() > FIELD_BYTES {
        let end = (0..=FIELD_BYTES).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
}

impl AuditLog {
    /// Opens the log of the state directory.
    pub fn open(state: &Path) -> Result<Self> {
        Ok(Self(Lines::open(&state.join("audit.log"), FILE_BYTES, FILES)?))
    }

    /// Appends an entry. A write error is logged and does not fail the request.
    pub fn note(&self, mut entry: AuditEntry) {
        [&mut entry.who, &mut entry.from, &mut entry.what].into_iter().for_each(cut);
        entry.target.iter_mut().chain(&mut entry.reason).for_each(cut);
        self.0.append(&entry);
    }

    /// Entries, newest first: `limit` of them after the first `skip`, and whether there are more.
    pub fn read(&self, skip: usize, limit: usize) -> (Vec<AuditEntry>, bool) {
        let found: Vec<AuditEntry> = self.0.newest(skip.saturating_add(limit).saturating_add(1));
        let more = found.len() > skip.saturating_add(limit);
        (found.into_iter().skip(skip).take(limit).collect(), more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::Outcome;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn entry(what: &str) -> AuditEntry {
        AuditEntry {
            time_ms: 1,
            who: "root".into(),
            from: "127.0.0.1".into(),
            what: what.into(),
            target: None,
            outcome: Outcome::Ok,
            reason: None,
        }
    }

    #[test]
    fn entries_are_appended_and_read_newest_first() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = AuditLog::open(folder.path()).expect("opened");
        (0..5).for_each(|i| log.note(entry(&i.to_string())));
        drop(log);
        let log = AuditLog::open(folder.path()).expect("opened again");
        log.note(entry("5"));
        let what =
            |(entries, more): (Vec<AuditEntry>, bool)| (entries.into_iter().map(|e| e.what).collect::<Vec<_>>(), more);
        assert_eq!(what(log.read(0, 2)), (vec!["5".into(), "4".into()], true));
        assert_eq!(what(log.read(4, 2)), (vec!["1".into(), "0".into()], false));
        assert_eq!(what(log.read(usize::MAX, 2)), (vec![], false));
        assert_eq!(what(log.read(usize::MAX - 1, 1000)), (vec![], false));
        let mode = fs::metadata(folder.path().join("audit.log")).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn long_entries_are_truncated() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = AuditLog::open(folder.path()).expect("opened");
        log.note(entry(&"ü".repeat(5000)));
        assert!(log.read(0, 1).0[0].what.len() < FIELD_BYTES + 10);
    }
}
