//! An append-only file of JSON documents, one per line: `audit.log`, `events.log`.
//!
//! Invariants:
//!   * at its maximum size it becomes `NAME.1`, and so on; a fixed number of files is kept
//!   * a line truncated by a crash hides no other line
//!   * a write error is logged and does not fail the caller

use anyhow::{Context as _, Result};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The newest of the files, opened for appending, and its size and number limits.
pub struct Lines {
    path: PathBuf,
    file_bytes: u64,
    files: u32,
    file: Mutex<Option<(File, u64)>>,
}

impl Lines {
    /// Opens or creates the file at `path`. It is rotated at `file_bytes`, and `files` files are
    /// kept.
    pub fn open(path: &Path, file_bytes: u64, files: u32) -> Result<Self> {
        let lines = Self { path: path.to_owned(), file_bytes, files, file: Mutex::default() };
        let file = lines.append_to().with_context(|| path.display().to_string())?;
        *lines.file.lock() = Some(file);
        Ok(lines)
    }

    fn append_to(&self) -> std::io::Result<(File, u64)> {
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut file = File::options().create(true).append(true).read(true).mode(0o600).open(&self.path)?;
        let mut bytes = file.metadata()?.len();
        let mut last = [b'\n'];
        if bytes > 0 {
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
        }
        if last != [b'\n'] {
            file.write_all(b"\n")?;
            bytes += 1;
        }
        Ok((file, bytes))
    }

    fn numbered(&self, number: u32) -> PathBuf {
        match number {
            0 => self.path.clone(),
            n => {
                let mut name = self.path.clone().into_os_string();
                name.push(format!(".{n}"));
                name.into()
            }
        }
    }

    /// Appends a document as a line, and rotates the files if needed. A write error is logged; the
    /// next append opens the file again.
    pub fn append(&self, document: &impl Serialize) {
        let Ok(mut line) = serde_json::to_vec(document) else { return };
        line.push(b'\n');
        let mut file = self.file.lock();
        if let Err(e) = self.write(&mut file, &line) {
            *file = None;
            tracing::error!(error = %e, path = %self.path.display(), "cannot be written to");
        }
    }

    fn write(&self, file: &mut Option<(File, u64)>, line: &[u8]) -> std::io::Result<()> {
        if file.as_ref().is_some_and(|(_, bytes)| bytes + line.len() as u64 > self.file_bytes) {
            *file = None;
            for number in (0..self.files - 1).rev() {
                let _ = fs::rename(self.numbered(number), self.numbered(number + 1));
            }
        }
        let open = match file.take() {
            Some(open) => open,
            None => self.append_to()?,
        };
        let (to, bytes) = file.insert(open);
        to.write_all(line)?;
        *bytes += line.len() as u64;
        Ok(())
    }

    /// The newest documents, newest first. Reads no more files than `count` documents need.
    pub fn newest<T: DeserializeOwned>(&self, count: usize) -> Vec<T> {
        let mut found = Vec::new();
        for number in 0..self.files {
            let Ok(file) = File::open(self.numbered(number)) else { break };
            let lines = BufReader::new(file).split(b'\n').map_while(Result::ok);
            let mut entries: Vec<T> = lines.filter_map(|line| serde_json::from_slice(&line).ok()).collect();
            entries.reverse();
            found.extend(entries);
            if found.len() >= count {
                break;
            }
        }
        found.truncate(count);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_appended_and_read_newest_first() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.log");
        let lines = Lines::open(&path, 1 << 20, 2).expect("opened");
        (0..5).for_each(|i| lines.append(&i));
        drop(lines);
        let lines = Lines::open(&path, 1 << 20, 2).expect("opened again");
        lines.append(&5);
        assert_eq!(lines.newest::<u32>(2), [5, 4]);
        assert_eq!(lines.newest::<u32>(100), [5, 4, 3, 2, 1, 0]);
    }

    #[test]
    fn a_line_that_a_crash_cut_off_hides_no_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.log");
        fs::write(&path, "\"a\"\n\"cut o").expect("written");
        let lines = Lines::open(&path, 1 << 20, 2).expect("opened");
        lines.append(&"b");
        assert_eq!(lines.newest::<String>(10), ["b", "a"]);
    }

    #[test]
    fn a_full_file_is_rotated_and_only_the_requested_number_is_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.log");
        let lines = Lines::open(&path, 10, 2).expect("opened");
        (100..120).for_each(|i| lines.append(&i));
        assert_eq!(lines.newest::<u32>(100), [119, 118, 117, 116]);
        assert_eq!(fs::read_dir(folder.path()).expect("read").count(), 2);
    }
}
