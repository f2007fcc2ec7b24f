//! A connection to an NBD server.

use super::{Content, Done, Session, Settings};
use crate::nbd::Connection;
use crate::pattern::Op;
use crate::target::Nbd;
use anyhow::{Context, Result, bail, ensure};
use std::collections::HashMap;
use std::time::Duration;

pub(super) struct Volume {
    connection: Connection,
    content: Content,
    size: usize,
    sync: bool,
    under_way: HashMap<u64, Op>,
}

/// Size of the export in bytes.
pub(super) fn prepare(nbd: &Nbd, file_size: u64, meta: bool, settings: Settings) -> Result<u64> {
    ensure!(!meta, "a volume has no files: meta requires a directory");
    let connection = Connection::open(nbd)?;
    ensure!(
        connection.size >= file_size,
        "the volume has {} bytes, not the {file_size} of --file-size",
        connection.size
    );
    ensure!(!settings.sync || connection.can_sync(), "the server does not support stable writes");
    Ok(connection.size)
}

impl Volume {
    pub fn open(nbd: &Nbd, writes: bool, settings: Settings) -> Result<Self> {
        let connection = Connection::open(nbd)?;
        ensure!(!writes || !connection.is_read_only(), "the volume is read-only");
        let content = Content::new(settings);
        Ok(Self { connection, content, size: settings.size, sync: settings.sync, under_way: HashMap::new() })
    }
}

impl Session for Volume {
    fn begin(&mut self, tag: u64, op: Op) -> Result<()> {
        match op {
            Op::Read(at) => self.connection.read(tag, at, self.size as u32),
            Op::Write(at) => self.connection.write(tag, at, self.content.at(at), self.sync),
            Op::Sync => self.connection.flush(tag),
            Op::Create(_) | Op::Look(_) | Op::Remove(_) => bail!("a volume has no files"),
        }
        self.under_way.insert(tag, op);
        Ok(())
    }

    fn done(&mut self, patience: Duration) -> Result<Option<Done>> {
        if self.under_way.is_empty() {
            std::thread::sleep(patience);
            return Ok(None);
        }
        self.connection.send()?;
        if !self.connection.is_answered(patience)? {
            return Ok(None);
        }
        let (under_way, size) = (&self.under_way, self.size as u64);
        let expected = |cookie: u64| if let Some(Op::Read(_)) = under_way.get(&cookie) { size } else { 0 };
        let answer = self.connection.receive(expected)?;
        let op = self
            .under_way
            .remove(&answer.cookie)
            .with_context(|| format!("a reply to request {}, which is not in flight", answer.cookie))?;
        let moved = if let Op::Write(_) = op { self.size as u64 } else { answer.bytes };
        let result = if answer.error == 0 { Ok(moved) } else { Err(format!("{op:?}: error {}", answer.error)) };
        Ok(Some((answer.cookie, result)))
    }
}
