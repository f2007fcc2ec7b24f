//! The directory of a run: its file, and the process that records into it.
//!
//! The recording process holds the lock of `record.pid`, which contains its process ID, so that it
//! can be found and is not confused with a later process that has the same ID.

use crate::format::EXTENSION;
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Base name of the files that `weir record` writes.
const NAME: &str = "record";
const LOCK: &str = "record.pid";

/// The file to record into: `record.weirrec`, or the first of `record-2.weirrec` … that does not
/// exist.
pub fn file(folder: &Path) -> PathBuf {
    let named = |n: u32| match n {
        1 => folder.join(format!("{NAME}.{EXTENSION}")),
        n => folder.join(format!("{NAME}-{n}.{EXTENSION}")),
    };
    (1..).map(named).find(|path| !path.exists()).unwrap_or_else(|| named(1))
}

/// All run files in a directory, sorted by name; or the file itself if `path` is a file.
pub fn files(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == EXTENSION) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Held by the process that records into a directory, until it exits.
#[derive(Debug)]
pub struct Held {
    _lock: File,
}

/// Locks the directory for this process; `None` if another process is recording into it.
pub fn hold(folder: &Path) -> io::Result<Option<Held>> {
    let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(folder.join(LOCK))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())?;
    Ok(Some(Held { _lock: file }))
}

/// ID of the process that records into a directory, if there is one.
pub fn holder(folder: &Path) -> io::Result<Option<u32>> {
    let mut file = match File::open(folder.join(LOCK)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(None),
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let mut text = String::new();
            file.read_to_string(&mut text)?;
            Ok(text.trim().parse().ok())
        }
        Err(error) => Err(error.into()),
    }
}

/// Stops the process that records into a directory, and waits until it has ended. Returns whether
/// there was one.
pub fn stop(folder: &Path, patience: Duration) -> io::Result<bool> {
    let Some(pid) = holder(folder)?.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?)) else { return Ok(false) };
    kill_process(pid, Signal::TERM)?;
    let begun = Instant::now();
    while holder(folder)?.is_some() {
        if begun.elapsed() > patience {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the recording process does not end"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_records_into_a_folder_and_can_be_found() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(holder(folder.path()).expect("queried"), None);
        let held = hold(folder.path()).expect("held").expect("no other holder");
        assert_eq!(holder(folder.path()).expect("queried"), Some(std::process::id()));
        assert!(hold(folder.path()).expect("queried").is_none());
        drop(held);
        assert_eq!(holder(folder.path()).expect("queried"), None, "the remaining process ID has no holder");
        assert!(!stop(folder.path(), Duration::ZERO).expect("queried"));
    }

    #[test]
    fn an_existing_file_is_not_overwritten() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(file(folder.path()).ends_with("record.weirrec"));
        std::fs::write(file(folder.path()), "").expect("written");
        assert!(file(folder.path()).ends_with("record-2.weirrec"));
        assert_eq!(files(folder.path()).expect("listed").len(), 1);
    }
}
