//! An NBD client: one volume, and a journal of what was acknowledged.

use super::client::{Attempt, Client, Failure, Totals};
use super::nbd::{Connection, FUA, NO_HOLE, command};
use crate::cut::{VOLUME, VOLUME_BYTES};
use crate::kills::file::File;
use anyhow::anyhow;
use rig::Chance;
use std::path::PathBuf;

const SECTOR: u64 = 512;
const PIECE: u32 = 1 << 20;
/// Placeholder for the current run of the server.
const THIS_LIFE: [u8; 8] = [0; 8];

pub struct Volume {
    totals: Totals,
    socket: PathBuf,
    chance: Chance,
    connection: Option<Connection>,
    /// Contents of the volume.
    file: File,
}

impl Volume {
    pub fn new(socket: PathBuf, seed: u64) -> Self {
        let zeros = || vec![0; VOLUME_BYTES as usize];
        let file = File { stable: zeros(), now: zeros(), ..File::default() };
        Self { totals: Totals::default(), socket, chance: Chance::new(seed), connection: None, file }
    }

    fn run(&mut self, command: u16, flags: u16, (offset, len): (u64, u64), data: &[u8]) -> Attempt<Vec<u8>> {
        let connection = self.connection.as_mut().ok_or(Failure::Lost)?;
        let answer = connection.run(command, flags, offset, len as u32, data)?;
        self.totals.calls += 1;
        Ok(answer)
    }

    /// Sends a request that changes the range to `data`.
    fn change(&mut self, command: u16, flags: u16, offset: u64, data: &[u8], promises: bool) -> Attempt<()> {
        let (range, at) = ((offset, data.len() as u64), offset as usize);
        self.file.note(format!("request {command} with {flags}"));
        self.file.sends(at, data);
        let sent = if command == command::WRITE { data } else { &[] };
        self.run(command, flags, range, sent)?;
        if command == command::TRIM {
            // Blocks that a trim covers only partially need not be trimmed.
            let left = self.run(command::READ, 0, range, &[])?;
            let is_old = |(n, byte): (usize, &u8)| *byte == 0 || self.file.stable.get(at + n) == Some(byte);
            let loose = self.file.loose.iter().rev().skip(1);
            let is_known = |n: usize, byte: u8| {
                loose.clone().any(|l| (at + n).checked_sub(l.offset).and_then(|i| l.data.get(i)) == Some(&byte))
            };
            if let Some(n) = (0..left.len()).find(|n| !is_old((*n, &left[*n])) && !is_known(*n, left[*n])) {
                return Err(anyhow!("byte {} is {:#04x} after a trim, and never was", at + n, left[n]).into());
            }
            self.file.now[at..at + left.len()].copy_from_slice(&left);
            if let Some(last) = self.file.loose.last_mut() {
                last.data = left;
            }
        }
        let is_safe = promises && flags & FUA != 0;
        self.totals.safe.3 += u64::from(is_safe);
        self.file.answered(at, is_safe, THIS_LIFE);
        Ok(())
    }

    fn flush(&mut self, promises: bool) -> Attempt<()> {
        self.run(command::FLUSH, 0, (0, 0), &[])?;
        if promises {
            let again = self.file.committed(THIS_LIFE);
            again.map_err(|again| anyhow!("the journal has writes without an answer: {again:?}"))?;
            self.totals.safe.3 += 1;
        }
        Ok(())
    }
}

impl Client for Volume {
    fn begin(&mut self) -> Attempt<()> {
        if self.connection.is_none() {
            self.connection = Some(Connection::open(&self.socket, VOLUME)?);
        }
        self.totals.judged += 1;
        let mut found = Vec::new();
        while (found.len() as u64) < VOLUME_BYTES {
            found.extend(self.run(command::READ, 0, (found.len() as u64, u64::from(PIECE)), &[])?);
        }
        self.file.judge(&found).map_err(|what| anyhow!("volume: {what}; before: {:#?}", self.file.history))?;
        self.file.adopt(found);
        Ok(())
    }

    fn work(&mut self, promises: bool) -> Attempt<()> {
        let most = [4, 40, 300][self.chance.below(3) as usize];
        let sectors = 1 + self.chance.below(most);
        let offset = self.chance.below(VOLUME_BYTES / SECTOR - sectors) * SECTOR;
        let len = (sectors * SECTOR) as usize;
        let fua = if self.chance.once_in(3) { FUA } else { 0 };
        match self.chance.below(8) {
            0 => self.flush(promises),
            1 => self.change(command::TRIM, fua, offset, &vec![0; len], promises),
            2 => {
                let flags = fua | if self.chance.once_in(2) { NO_HOLE } else { 0 };
                self.change(command::WRITE_ZEROES, flags, offset, &vec![0; len], promises)
            }
            _ => {
                let data = if self.chance.once_in(3) { vec![7; len] } else { self.chance.bytes(len) };
                self.change(command::WRITE, fua, offset, &data, promises)
            }
        }
    }

    fn settle(&mut self) -> Attempt<()> {
        self.flush(true)
    }

    fn forget(&mut self) {
        self.connection = None;
    }

    fn totals(&self) -> Totals {
        self.totals
    }
}
