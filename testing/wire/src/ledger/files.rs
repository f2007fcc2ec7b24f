//! An NFSv4.2 client: some files with extended attributes, and a journal of what was acknowledged.

use super::client::{Attempt, Client, Failure, Totals};
use super::v42::{Connection, Ops, Reply, op};
use crate::kills::file::File;
use anyhow::{Result, anyhow, ensure};
use rig::Chance;
use std::collections::BTreeMap;
use std::net::SocketAddr;

const FILES: usize = 4;
const FILE_BYTES_MAX: u64 = 600 << 10;
/// Maximum size of a read or write.
const PIECE: u64 = 256 << 10;
const NAMES: [&str; 5] = ["a", "b", "comment", "of-some-length", "z"];
const NOTSUPP: u32 = 10004;
const NOXATTR: u32 = 10095;
/// Placeholder for the verifier of the current run of the server, which ends with the connection.
const THIS_LIFE: [u8; 8] = [0; 8];

/// The values of an extended attribute; `None`: it does not exist.
#[derive(Debug, Clone, Default)]
struct Attribute {
    safe: Option<Vec<u8>>,
    /// Newer values, which may be present or not; the last is the newest.
    loose: Vec<Option<Vec<u8>>>,
}

impl Attribute {
    fn now(&self) -> &Option<Vec<u8>> {
        self.loose.last().unwrap_or(&self.safe)
    }
}

#[derive(Default)]
struct Known {
    file: File,
    attributes: BTreeMap<&'static str, Attribute>,
    /// A COPY into it was not answered: the file may end anywhere within.
    is_copied_to: bool,
}

pub struct Files {
    totals: Totals,
    address: SocketAddr,
    number: u64,
    verifier: u64,
    chance: Chance,
    connection: Option<Connection>,
    files: Vec<Known>,
    /// The server does not support CLONE.
    has_no_clone: bool,
    /// Verifier of COMMIT and WRITE in this run of the server.
    write_verifier: Option<[u8; 8]>,
}

impl Files {
    pub fn new(address: SocketAddr, number: u64, seed: u64) -> Self {
        Self {
            totals: Totals::default(),
            address,
            number,
            verifier: seed,
            chance: Chance::new(seed),
            connection: None,
            files: (0..FILES).map(|_| Known::default()).collect(),
            has_no_clone: false,
            write_verifier: None,
        }
    }

    fn run(&mut self, ops: Ops) -> Attempt<Reply> {
        let connection = self.connection.as_mut().ok_or(Failure::Lost)?;
        let reply = connection.run(ops)??;
        self.totals.calls += 1;
        Ok(reply)
    }

    fn make(&mut self, n: usize) -> Attempt<()> {
        let client = self.connection.as_ref().ok_or(Failure::Lost)?.client;
        let name = format!("client{}-{n}", self.number);
        let ops = Ops::default().op(op::PUTROOTFH).op(op::LOOKUP).opaque(&crate::filer::SHARE.as_bytes()[1..]);
        // Access both, deny none; UNCHECKED with a mode.
        let ops = ops.op(op::OPEN).u32(0).u32(3).u32(0).u64(client).opaque(b"owner").u32(1).u32(0);
        let ops = ops.u32(2).u32(0).u32(2).u32(4).u32(0o600).u32(0).opaque(name.as_bytes()).op(op::GETFH);
        let mut reply = self.run(ops)?;
        for number in [op::PUTROOTFH, op::LOOKUP, op::OPEN] {
            reply.next(number).map_err(|e| e.context(name.clone()))?;
        }
        let handle = reply.take(|r| {
            r.fixed::<16>()?;
            r.fixed::<20>()?;
            r.u32()?;
            for _ in 0..r.u32()? {
                r.u32()?;
            }
            // No delegation; then the header of GETFH's result.
            let (_delegation, _number, _status) = (r.u32()?, r.u32()?, r.u32()?);
            Ok(r.opaque(128)?.to_vec())
        })?;
        self.files[n].file.handle = handle;
        Ok(())
    }

    fn read_all(&mut self, n: usize) -> Attempt<Vec<u8>> {
        let (handle, mut contents) = (self.files[n].file.handle.clone(), Vec::new());
        loop {
            let ops = Ops::default().put(&handle).op(op::READ).anonymous().u64(contents.len() as u64).u32(PIECE as u32);
            let mut reply = self.run(ops)?;
            reply.next(op::PUTFH).map_err(|e| e.context(format!("file {n}")))?;
            reply.next(op::READ)?;
            let (is_end, data) = reply.take(|r| Ok((r.bool()?, r.opaque(PIECE as usize)?.to_vec())))?;
            contents.extend(data);
            if is_end {
                return Ok(contents);
            }
        }
    }

    fn attribute(&mut self, n: usize, name: &str) -> Attempt<Option<Vec<u8>>> {
        let ops = Ops::default().put(&self.files[n].file.handle).op(op::GETXATTR).opaque(name.as_bytes());
        let mut reply = self.run(ops)?;
        reply.next(op::PUTFH)?;
        if reply.status == NOXATTR {
            return Ok(None);
        }
        reply.next(op::GETXATTR).map_err(|e| e.context(format!("attribute {name} of file {n}")))?;
        Ok(Some(reply.take(|r| Ok(r.opaque(1 << 20)?.to_vec()))?))
    }

    fn judge(&mut self) -> Attempt<()> {
        self.totals.judged += 1;
        for n in 0..self.files.len() {
            let found = self.read_all(n)?;
            let known = &mut self.files[n];
            let mut file = known.file.clone();
            if known.is_copied_to && found.len() > file.stable.len() {
                let is_cut =
                    |l: &&mut crate::kills::file::Loose| (l.offset..l.offset + l.data.len()).contains(&found.len());
                file.loose.iter_mut().filter(is_cut).for_each(|l| l.data.truncate(found.len() - l.offset));
            }
            file.judge(&found).map_err(|what| anyhow!("file {n}: {what}; before: {:#?}", file.history))?;
            known.file.adopt(found);
            known.is_copied_to = false;
            for name in NAMES {
                let found = self.attribute(n, name)?;
                let known = &mut self.files[n];
                let attribute = known.attributes.entry(name).or_default();
                if found != attribute.safe && !attribute.loose.contains(&found) {
                    let len = |value: &Option<Vec<u8>>| value.as_ref().map(Vec::len);
                    let loose: Vec<_> = attribute.loose.iter().map(len).collect();
                    let (found, safe) = (len(&found), len(&attribute.safe));
                    let what = format!("has {found:?} bytes, safe are {safe:?}, not safe {loose:?}");
                    return Err(
                        anyhow!("attribute {name} of file {n} {what}; before: {:#?}", known.file.history).into()
                    );
                }
                *attribute = Attribute { safe: found, loose: Vec::new() };
            }
        }
        Ok(())
    }

    fn check_verifier(&mut self, verifier: [u8; 8]) -> Result<()> {
        let known = *self.write_verifier.get_or_insert(verifier);
        ensure!(known == verifier, "the write verifier changed from {known:02x?} to {verifier:02x?} in one life");
        Ok(())
    }

    fn write(&mut self, n: usize, promises: bool) -> Attempt<()> {
        let size = self.files[n].file.now.len() as u64;
        let most = [600, 12 << 10, 140 << 10][self.chance.below(3) as usize];
        let len = 1 + self.chance.below(most);
        let from = if self.chance.once_in(3) { size } else { self.chance.below(size + 1) };
        let offset = from.min(FILE_BYTES_MAX - len) as usize;
        let data = if self.chance.once_in(3) {
            vec![self.chance.below(255) as u8 + 1; len as usize]
        } else {
            self.chance.bytes(len as usize)
        };
        let stable = self.chance.below(3) as u32;
        let known = &mut self.files[n].file;
        known.sends(offset, &data);
        let ops = Ops::default().put(&known.handle).op(op::WRITE).anonymous().u64(offset as u64).u32(stable);
        let mut reply = self.run(ops.opaque(&data))?;
        reply.next(op::PUTFH)?;
        reply.next(op::WRITE)?;
        let (count, committed, verifier) = reply.take(|r| Ok((r.u32()?, r.u32()?, r.fixed::<8>()?)))?;
        if count as usize != data.len() || committed < stable {
            return Err(anyhow!("WRITE of {len} as {stable} did {count} as {committed}").into());
        }
        self.check_verifier(verifier)?;
        let is_safe = promises && committed > 0;
        self.totals.safe.0 += u64::from(is_safe);
        self.files[n].file.answered(offset, is_safe, THIS_LIFE);
        Ok(())
    }

    fn commit(&mut self, n: usize, promises: bool) -> Attempt<()> {
        let ops = Ops::default().put(&self.files[n].file.handle).op(op::COMMIT).u64(0).u32(0);
        let mut reply = self.run(ops)?;
        reply.next(op::PUTFH)?;
        reply.next(op::COMMIT)?;
        let verifier = reply.take(|r| r.fixed::<8>())?;
        self.check_verifier(verifier)?;
        if promises {
            let again = self.files[n].file.committed(THIS_LIFE);
            again.map_err(|again| anyhow!("the journal has writes without an answer: {again:?}"))?;
            self.totals.safe.0 += 1;
        }
        Ok(())
    }

    /// Changes the contents at `offset` to `data`, which is durable when answered.
    fn change(
        &mut self,
        n: usize,
        offset: usize,
        data: &[u8],
        ops: Ops,
        heads: &[u32],
        promises: bool,
    ) -> Attempt<Reply> {
        if !data.is_empty() {
            self.files[n].file.sends(offset, data);
        }
        let mut reply = self.run(ops)?;
        for head in heads {
            reply.next(*head).map_err(|e| e.context(format!("{} bytes at {offset} of file {n}", data.len())))?;
        }
        if !data.is_empty() {
            self.files[n].file.answered(offset, promises, THIS_LIFE);
        }
        Ok(reply)
    }

    fn resize(&mut self, n: usize) -> Attempt<()> {
        // Data that is not durable before would make the size ambiguous.
        self.commit(n, true)?;
        let len = if self.chance.once_in(4) { 0 } else { self.chance.below(FILE_BYTES_MAX) as usize };
        let known = &mut self.files[n].file;
        known.note(format!("to be {len} long"));
        known.resizing = Some(len);
        let ops = Ops::default().put(&known.handle).op(op::SETATTR).anonymous().u32(1).u32(1 << 4);
        let mut reply = self.run(ops.opaque(&(len as u64).to_be_bytes()))?;
        reply.next(op::PUTFH)?;
        reply.next(op::SETATTR)?;
        self.files[n].file.resized(len);
        self.totals.safe.0 += 1;
        Ok(())
    }

    fn space(&mut self, n: usize, promises: bool) -> Attempt<()> {
        let known = &self.files[n].file;
        let (handle, size) = (known.handle.clone(), known.now.len());
        let offset = self.chance.below(size as u64 + 1) as usize;
        let len = 1 + self.chance.below(100 << 10) as usize;
        let (number, end) = if self.chance.once_in(2) || size == 0 {
            (op::ALLOCATE, (offset + len).min(FILE_BYTES_MAX as usize))
        } else {
            (op::DEALLOCATE, (offset + len).min(size))
        };
        if end <= offset {
            return Ok(());
        }
        let ops = Ops::default().put(&handle).op(number).anonymous().u64(offset as u64).u64((end - offset) as u64);
        // ALLOCATE changes only the size; DEALLOCATE writes zeros.
        let (at, zeros) =
            if number == op::ALLOCATE { (size, end.saturating_sub(size)) } else { (offset, end - offset) };
        self.files[n].file.note(format!("{number} {offset}+{}", end - offset));
        self.change(n, at, &vec![0; zeros], ops, &[op::PUTFH, number], promises)?;
        self.totals.safe.0 += u64::from(promises);
        Ok(())
    }

    fn copy(&mut self, n: usize, promises: bool) -> Attempt<()> {
        let from = self.chance.below(FILES as u64) as usize;
        let source = &self.files[from].file;
        let size = source.now.len() as u64;
        // Whole records can be cloned.
        let unit = [1, 4 << 10, 128 << 10][self.chance.below(3) as usize];
        let offset = self.chance.below(size + 1) / unit * unit;
        let len = (1 + self.chance.below(300 << 10)).next_multiple_of(unit).min(size - offset);
        let to_offset = self.chance.below(FILE_BYTES_MAX - len + 1) / unit * unit;
        let to_offset = to_offset.min((self.files[n].file.now.len() as u64).next_multiple_of(unit));
        let is_apart = offset + len <= to_offset || to_offset + len <= offset;
        if len == 0 || to_offset + len > FILE_BYTES_MAX || from == n && !is_apart {
            return Ok(());
        }
        let data = source.now[offset as usize..(offset + len) as usize].to_vec();
        let (source, handle) = (source.handle.clone(), self.files[n].file.handle.clone());
        let ops = || Ops::default().put(&source).op(op::SAVEFH).put(&handle);
        let ids = |ops: Ops| ops.anonymous().anonymous().u64(offset).u64(to_offset).u64(len);
        self.files[n].file.note(format!("a copy of {from} at {offset}"));
        let heads = |number| [op::PUTFH, op::SAVEFH, op::PUTFH, number];
        let clones = !self.has_no_clone && self.chance.once_in(2);
        if clones {
            let before = self.files[n].file.clone();
            self.files[n].is_copied_to = true;
            self.files[n].file.sends(to_offset as usize, &data);
            let mut reply = self.run(ids(ops().op(op::CLONE)))?;
            self.files[n].is_copied_to = false;
            if reply.status == 0 {
                for head in heads(op::CLONE) {
                    reply.next(head)?;
                }
                self.files[n].file.answered(to_offset as usize, promises, THIS_LIFE);
                self.totals.safe.2 += u64::from(promises);
                return Ok(());
            }
            // CLONE may refuse offsets within blocks, and then changes nothing.
            self.files[n].file = before;
            self.has_no_clone = reply.status == NOTSUPP;
        }
        self.files[n].is_copied_to = true;
        let ops = ids(ops().op(op::COPY)).u32(1).u32(1).u32(0);
        let mut reply = self.change(n, to_offset as usize, &data, ops, &heads(op::COPY), promises)?;
        let (ids, copied, committed) = reply.take(|r| Ok((r.u32()?, r.u64()?, r.u32()?)))?;
        if (ids, copied, committed) != (0, len, 2) {
            return Err(anyhow!("COPY of {len} did {copied} as {committed}, {ids} callbacks").into());
        }
        self.files[n].is_copied_to = false;
        self.totals.safe.2 += u64::from(promises);
        Ok(())
    }

    fn set_attribute(&mut self, n: usize, promises: bool) -> Attempt<()> {
        let name = *self.chance.pick(&NAMES).unwrap_or(&"a");
        let attribute = self.files[n].attributes.entry(name).or_default();
        let value = if attribute.now().is_some() && self.chance.once_in(3) {
            None
        } else {
            let most = [1, 200, 8 << 10, 60 << 10][self.chance.below(4) as usize];
            let len = self.chance.below(most + 1) as usize;
            Some(self.chance.bytes(len))
        };
        self.files[n].attributes.entry(name).or_default().loose.push(value.clone());
        let file = &mut self.files[n].file;
        file.note(format!("attribute {name} of {:?}", value.as_ref().map(Vec::len)));
        let ops = Ops::default().put(&file.handle);
        let (ops, number) = match &value {
            Some(value) => (ops.op(op::SETXATTR).u32(0).opaque(name.as_bytes()).opaque(value), op::SETXATTR),
            None => (ops.op(op::REMOVEXATTR).opaque(name.as_bytes()), op::REMOVEXATTR),
        };
        let mut reply = self.run(ops)?;
        reply.next(op::PUTFH)?;
        reply.next(number).map_err(|e| e.context(format!("attribute {name} of file {n}")))?;
        self.files[n].file.note("answered".to_owned());
        if promises {
            self.files[n].attributes.insert(name, Attribute { safe: value, loose: Vec::new() });
            self.totals.safe.1 += 1;
        }
        Ok(())
    }
}

impl Client for Files {
    fn begin(&mut self) -> Attempt<()> {
        if self.connection.is_none() {
            let name = format!("ledger {}", self.number);
            self.connection = Some(Connection::open(self.address, &name, self.verifier)??);
            self.write_verifier = None;
        }
        for n in 0..FILES {
            if self.files[n].file.handle.is_empty() {
                self.make(n)?;
            }
        }
        self.judge()
    }

    fn work(&mut self, promises: bool) -> Attempt<()> {
        let n = self.chance.below(FILES as u64) as usize;
        match self.chance.below(16) {
            0..=5 => self.write(n, promises),
            6 | 7 => self.commit(n, promises),
            8..=10 => self.set_attribute(n, promises),
            11 | 12 => self.copy(n, promises),
            13 | 14 => self.space(n, promises),
            _ if promises => self.resize(n),
            _ => Ok(()),
        }
    }

    fn settle(&mut self) -> Attempt<()> {
        (0..FILES).try_for_each(|n| self.commit(n, true))
    }

    fn forget(&mut self) {
        self.connection = None;
    }

    fn totals(&self) -> Totals {
        self.totals
    }
}
