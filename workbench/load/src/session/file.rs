//! Local files: an operation is complete when it returns from starting.

use super::{Aligned, Content, Done, Session, Settings, name_of};
use crate::pattern::Op;
use anyhow::{Context, Result, ensure};
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(super) struct Local {
    /// `None` if the path is a directory.
    file: Option<File>,
    path: PathBuf,
    buffer: Aligned,
    content: Content,
    done: VecDeque<Done>,
}

fn opened(path: &Path, write: bool, settings: Settings) -> Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(write);
    let mut flags = rustix::fs::OFlags::empty();
    flags.set(rustix::fs::OFlags::DSYNC, settings.sync);
    flags.set(rustix::fs::OFlags::DIRECT, settings.direct);
    options.custom_flags(flags.bits() as i32);
    options.open(path).with_context(|| path.display().to_string())
}

/// The length of a file or block device.
fn length(path: &Path) -> Result<u64> {
    let end = File::open(path).and_then(|mut f| io::Seek::seek(&mut f, io::SeekFrom::End(0)));
    end.with_context(|| path.display().to_string())
}

pub(super) fn prepare(path: &Path, file_size: u64, meta: bool, settings: Settings) -> Result<u64> {
    if meta {
        ensure!(path.is_dir(), "{} is not a directory, which meta requires", path.display());
        return Ok(0);
    }
    let has = match std::fs::metadata(path) {
        Ok(found) => {
            ensure!(!found.is_dir(), "{} is a directory, expected a file", path.display());
            length(path)?
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            File::create(path).with_context(|| path.display().to_string())?;
            0
        }
        Err(error) => return Err(error).with_context(|| path.display().to_string()),
    };
    if has < file_size {
        let file = opened(path, true, Settings { sync: false, direct: false, ..settings })?;
        let mut content = Content::new(Settings { size: 1 << 20, ..settings });
        for at in (has..file_size).step_by(1 << 20) {
            let bytes = content.at(at);
            let len = bytes.len().min((file_size - at) as usize);
            file.write_all_at(&bytes[..len], at).with_context(|| path.display().to_string())?;
        }
        file.sync_all()?;
    }
    Ok(has.max(file_size))
}

impl Local {
    pub fn open(path: &Path, meta: bool, writes: bool, settings: Settings) -> Result<Self> {
        let file = if meta { None } else { Some(opened(path, writes, settings)?) };
        let path = path.to_owned();
        let buffer = Aligned::new(settings.size);
        Ok(Self { file, path, buffer, content: Content::new(settings), done: VecDeque::new() })
    }

    fn run(&mut self, op: Op) -> io::Result<u64> {
        match op {
            Op::Read(at) => {
                let file = self.file.as_ref().ok_or(io::ErrorKind::IsADirectory)?;
                file.read_exact_at(&mut self.buffer, at).map(|()| self.buffer.len() as u64)
            }
            Op::Write(at) => {
                let file = self.file.as_ref().ok_or(io::ErrorKind::IsADirectory)?;
                let bytes = self.content.at(at);
                file.write_all_at(bytes, at).map(|()| bytes.len() as u64)
            }
            Op::Create(n) => {
                OpenOptions::new().write(true).create_new(true).open(self.path.join(name_of(n))).map(|_| 0)
            }
            Op::Look(n) => std::fs::metadata(self.path.join(name_of(n))).map(|_| 0),
            Op::Sync => self.file.as_ref().ok_or(io::ErrorKind::IsADirectory)?.sync_data().map(|()| 0),
            Op::Remove(n) => std::fs::remove_file(self.path.join(name_of(n))).map(|()| 0),
        }
    }
}

impl Session for Local {
    fn begin(&mut self, tag: u64, op: Op) -> Result<()> {
        let result = self.run(op).map_err(|error| format!("{op:?}: {error}"));
        self.done.push_back((tag, result));
        Ok(())
    }

    fn done(&mut self, patience: Duration) -> Result<Option<Done>> {
        if self.done.is_empty() {
            std::thread::sleep(patience);
        }
        Ok(self.done.pop_front())
    }
}
