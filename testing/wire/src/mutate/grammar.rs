//! Valid calls of the protocols, as lists of values that can be mutated one by one.

use rig::Chance;
use serve::nfs::xdr::Writer;

/// A value in a call.
#[derive(Debug, Clone)]
pub enum Value {
    U32(u32),
    U64(u64),
    /// Variable-length opaque data.
    Opaque(Vec<u8>),
    /// The same with a wrong length.
    Lie(u32, Vec<u8>),
    /// Fixed-length opaque data.
    Fixed(Vec<u8>),
}

use Value::{Fixed, Opaque, U32, U64};

/// Values from answers, for use in later calls.
#[derive(Debug, Clone, Default)]
pub struct Found {
    pub handles: Vec<Vec<u8>>,
    pub states: Vec<Vec<u8>>,
    /// Session IDs with their next sequence IDs.
    pub sessions: Vec<(Vec<u8>, u32)>,
    pub clients: Vec<(u64, u32)>,
    pub confirms: Vec<(u64, Vec<u8>)>,
}

const KEPT_MAX: usize = 64;

fn keep<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if !list.contains(&item) {
        if list.len() >= KEPT_MAX {
            list.remove(1);
        }
        list.push(item);
    }
}

impl Found {
    /// Collects values from an answer that look like the ones above.
    pub fn harvest(&mut self, answer: &[u8]) {
        let word = |at: usize| answer.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_be_bytes);
        let long = |at: usize| u64::from(word(at)) << 32 | u64::from(word(at + 4));
        for at in (0..answer.len()).step_by(4) {
            let bytes = |from: usize, len: usize| answer.get(at + from..at + from + len).map(<[u8]>::to_vec);
            if (word(at), word(at + 4)) == (44, 1 << 24) {
                if let Some(handle) = bytes(4, 44) {
                    keep(&mut self.handles, handle);
                }
                continue;
            }
            // Successful operations of version 4.
            match (word(at), word(at + 4)) {
                (12 | 18 | 20, 0) => bytes(8, 16).into_iter().for_each(|id| keep(&mut self.states, id)),
                (43, 0) => bytes(8, 16).into_iter().for_each(|id| self.sessions.push((id, 1))),
                (42, 0) => keep(&mut self.clients, (long(at + 8), word(at + 16))),
                (35, 0) => {
                    keep(&mut self.clients, (long(at + 8), 1));
                    bytes(16, 8).into_iter().for_each(|v| keep(&mut self.confirms, (long(at + 8), v)));
                }
                _ => {}
            }
        }
        if self.sessions.len() > KEPT_MAX {
            self.sessions.remove(0);
        }
    }
}

pub fn write(values: &[Value], w: &mut Writer) {
    for value in values {
        match value {
            U32(n) => w.u32(*n),
            U64(n) => w.u64(*n),
            Opaque(bytes) => w.opaque(bytes),
            Value::Lie(len, bytes) => {
                w.u32(*len);
                w.fixed(bytes);
            }
            Fixed(bytes) => w.fixed(bytes),
        }
    }
}

/// Generates calls, with values from earlier answers.
pub struct Maker<'a> {
    pub chance: &'a mut Chance,
    pub found: &'a mut Found,
}

impl Maker<'_> {
    fn below(&mut self, n: u64) -> u32 {
        self.chance.below(n) as u32
    }

    fn handle(&mut self) -> Value {
        Opaque(self.chance.pick(&self.found.handles).cloned().unwrap_or_default())
    }

    fn name(&mut self) -> Value {
        const NAMES: [&str; 12] = ["a", "b", "c", "d", "dir", "link", "x", ".", "..", ".zfs", "snapshot", "crash"];
        Opaque(self.chance.pick(&NAMES).unwrap_or(&"a").as_bytes().to_vec())
    }

    fn text(&mut self) -> Value {
        let len = self.chance.below(30) as usize;
        Opaque(self.chance.bytes(len).iter().map(|b| b'a' + b % 26).collect())
    }

    fn offset(&mut self) -> Value {
        U64(match self.chance.below(6) {
            0 => u64::MAX - self.chance.below(9),
            1 => (1 << 63) - self.chance.below(3),
            2 => 1 << self.chance.below(64),
            _ => self.chance.below(1 << 20),
        })
    }

    fn count(&mut self) -> Value {
        U32(match self.chance.below(5) {
            0 => u32::MAX - self.below(5),
            1 => 1 << self.below(32),
            _ => self.below(70_000),
        })
    }

    fn small(&mut self, n: u64) -> Value {
        U32(self.below(n))
    }

    fn data(&mut self) -> Value {
        let len = if self.chance.once_in(40) { 200_000 } else { self.chance.below(3000) };
        Opaque(self.chance.bytes(len as usize))
    }

    fn state(&mut self) -> Value {
        Fixed(match self.chance.below(8) {
            0 => vec![0; 16],
            1 => vec![0xff; 16],
            2 => [&[0, 0, 0, 1][..], &[0; 12]].concat(),
            _ => self.chance.pick(&self.found.states).cloned().unwrap_or_else(|| vec![0; 16]),
        })
    }

    fn client(&mut self) -> (u64, u32) {
        self.chance.pick(&self.found.clients).copied().unwrap_or((1, 1))
    }

    fn set3(&mut self) -> Vec<Value> {
        let mut out = Vec::new();
        for _ in 0..3 {
            match self.chance.once_in(3) {
                true => out.extend([U32(1), self.small(0o10000)]),
                false => out.push(U32(0)),
            }
        }
        match self.chance.once_in(4) {
            true => out.extend([U32(1), self.offset()]),
            false => out.push(U32(0)),
        }
        for _ in 0..2 {
            match self.chance.below(4) {
                0 => out.extend([U32(2), self.count(), self.small(1_000_000_000)]),
                1 => out.push(U32(1)),
                _ => out.push(U32(0)),
            }
        }
        out
    }

    fn list3(&mut self) -> Vec<Value> {
        let count = self.below(6);
        let mut out = vec![U32(count), U32(count)];
        for _ in 0..count {
            out.extend([U32(1 << self.below(6)), self.small(1000), self.small(9)]);
        }
        out
    }

    /// A call: program, version, procedure, arguments.
    pub fn call(&mut self) -> ((u32, u32, u32), Vec<Value>) {
        match self.chance.below(20) {
            0 => self.mount(),
            1 | 2 => self.lock(),
            3 => self.beside(),
            4 => self.list(),
            5..=10 => self.version3(),
            _ => self.version4(),
        }
    }

    fn mount(&mut self) -> ((u32, u32, u32), Vec<Value>) {
        let (version, procedure) = (*self.chance.pick(&[1, 3, 3]).unwrap_or(&3), self.below(8));
        let path = if self.chance.once_in(3) { self.text() } else { Opaque(b"/crash".to_vec()) };
        ((100_005, version, procedure), vec![path])
    }

    fn list(&mut self) -> ((u32, u32, u32), Vec<Value>) {
        let procedure = self.below(4);
        let mut args = vec![self.handle(), self.small(20)];
        if procedure == 2 {
            args.extend(self.list3());
            args.extend(self.list3());
        }
        ((100_227, 3, procedure), args)
    }

    fn version3(&mut self) -> ((u32, u32, u32), Vec<Value>) {
        let procedure = self.below(23);
        let mut args = vec![self.handle()];
        match procedure {
            2 => {
                args.extend(self.set3());
                args.push(U32(0));
            }
            3 | 12 | 13 => args.push(self.name()),
            4 => args.push(self.small(64)),
            6 | 21 => args.extend([self.offset(), self.count()]),
            7 => {
                let data = self.data();
                let count = if let Opaque(d) = &data { d.len() as u32 } else { 0 };
                args.extend([self.offset(), U32(count), self.small(3), data]);
            }
            8 => {
                args.push(self.name());
                let how = self.below(3);
                args.push(U32(how));
                match how {
                    2 => args.push(Fixed(self.chance.bytes(8))),
                    _ => args.extend(self.set3()),
                }
            }
            9 => {
                args.push(self.name());
                args.extend(self.set3());
            }
            10 => {
                args.push(self.name());
                args.extend(self.set3());
                args.push(self.text());
            }
            11 => {
                let kind = self.below(9);
                args.extend([self.name(), U32(kind)]);
                args.extend(self.set3());
                if kind < 5 {
                    args.extend([self.small(300), self.small(300)]);
                }
            }
            14 => args.extend([self.name(), self.handle(), self.name()]),
            15 => args.extend([self.handle(), self.name()]),
            16 => args.extend([self.offset(), Fixed(vec![0; 8]), self.count()]),
            17 => args.extend([self.offset(), Fixed(vec![0; 8]), self.count(), self.count()]),
            _ => {}
        }
        ((100_003, 3, procedure), args)
    }

    fn lock(&mut self) -> ((u32, u32, u32), Vec<Value>) {
        let version = *self.chance.pick(&[1, 3, 4, 4]).unwrap_or(&4);
        let procedure = self.below(25);
        let place = |this: &mut Self| if version == 4 { this.offset() } else { this.count() };
        let mut args = vec![self.text()];
        if matches!(procedure, 2 | 3 | 7 | 8 | 22) {
            args.push(self.small(2));
        }
        if !matches!(procedure, 4 | 9 | 20 | 21 | 23) {
            args.push(self.small(2));
        }
        args.extend([self.text(), self.handle(), self.text()]);
        match procedure {
            20 | 21 => args.extend([self.small(5), self.small(5), self.small(2)]),
            23 => args.push(self.small(5)),
            _ => args.extend([self.small(4), place(self), place(self), self.small(2), self.small(9)]),
        }
        ((100_021, version, procedure), args)
    }

    fn beside(&mut self) -> ((u32, u32, u32), Vec<Value>) {
        match self.chance.below(3) {
            // NSM, the status monitor.
            0 => {
                let args = vec![self.text(), self.text(), self.count(), self.count(), self.count(), Fixed(vec![7; 16])];
                ((100_024, 1, self.below(7)), args)
            }
            1 => {
                let path = Opaque(b"/crash".to_vec());
                ((100_011, 1 + self.below(2), self.below(6)), vec![path, self.small(3), self.small(3), self.small(3)])
            }
            _ => {
                let version = 2 + self.below(3);
                let args = match version {
                    2 => vec![U32(100_003), U32(3), U32(6), U32(0)],
                    _ => vec![U32(100_003), U32(3), self.text(), self.text(), self.text()],
                };
                ((100_000, version, self.below(14)), args)
            }
        }
    }

    // ---- version 4

    fn version4(&mut self) -> ((u32, u32, u32), Vec<Value>) {
        let minor = self.below(3);
        let mut ops: Vec<Vec<Value>> = Vec::new();
        if minor > 0 && !self.chance.once_in(6) {
            let n = self.chance.below(self.found.sessions.len() as u64) as usize;
            match self.found.sessions.get_mut(n) {
                Some((id, sequence)) => {
                    ops.push(vec![U32(53), Fixed(id.clone()), U32(*sequence), U32(0), U32(0), U32(1)]);
                    *sequence += 1;
                }
                None => {
                    let op = if self.found.clients.is_empty() { 42 } else { 42 + self.below(2) };
                    ops.push(self.operation(op));
                    return self.compound(minor, &ops);
                }
            }
        }
        ops.push(if self.chance.once_in(3) { vec![U32(24)] } else { vec![U32(22), self.handle()] });
        for _ in 0..self.chance.below(6) {
            let op = 3 + self.below(74);
            ops.push(self.operation(op));
        }
        if self.chance.once_in(2) {
            ops.push(vec![U32(10)]);
        }
        self.compound(minor, &ops)
    }

    /// A call with one operation of version 4.
    pub fn alone(&mut self, minor: u32, op: u32) -> ((u32, u32, u32), Vec<Value>) {
        let op = self.operation(op);
        self.compound(minor, &[op])
    }

    fn compound(&mut self, minor: u32, ops: &[Vec<Value>]) -> ((u32, u32, u32), Vec<Value>) {
        let mut args = vec![self.text(), U32(minor), U32(ops.len() as u32)];
        args.extend(ops.iter().flatten().cloned());
        ((100_003, 4, 1), args)
    }

    fn bits(&mut self) -> Vec<Value> {
        let words = 1 + self.below(3);
        let mut out = vec![U32(words)];
        for _ in 0..words {
            out.push(U32(if self.chance.once_in(2) { self.chance.next() as u32 } else { 1 << self.below(32) }));
        }
        out
    }

    fn attributes(&mut self) -> Vec<Value> {
        match self.chance.below(4) {
            // Size, or mode.
            0 => vec![U32(1), U32(1 << 4), Opaque(self.chance.below(1 << 20).to_be_bytes().to_vec())],
            1 => vec![U32(2), U32(0), U32(2), Opaque(vec![0, 0, 1, 0xa4])],
            2 => {
                // An ACL with one entry.
                let mut w = Writer::new();
                [1, 0, 0, self.below(1 << 21)].iter().for_each(|n| w.u32(*n));
                w.opaque(b"OWNER@");
                vec![U32(1), U32(1 << 12), Opaque(w.to_vec())]
            }
            _ => {
                let mut out = self.bits();
                let len = self.chance.below(80) as usize;
                out.push(Opaque(self.chance.bytes(len)));
                out
            }
        }
    }

    fn channel(&mut self) -> Vec<Value> {
        let mut out = vec![U32(0), U32(1 << 20), U32(1 << 20), U32(8192), U32(8), U32(8), U32(0)];
        if self.chance.once_in(5) {
            let n = 1 + self.chance.below(5) as usize;
            out[n] = self.count();
        }
        out
    }

    fn operation(&mut self, op: u32) -> Vec<Value> {
        let (client, sequence) = self.client();
        let mut v = vec![U32(op)];
        match op {
            3 => v.push(self.small(64)),
            4 => v.extend([self.small(3), self.state()]),
            5 => v.extend([self.offset(), self.count()]),
            6 => {
                let kind = 1 + self.below(8);
                v.push(U32(kind));
                match kind {
                    3 | 4 => v.extend([self.small(300), self.small(300)]),
                    5 => v.push(self.text()),
                    _ => {}
                }
                v.push(self.name());
                v.extend(self.attributes());
            }
            9 => v.extend(self.bits()),
            11 | 15 | 28 | 33 => v.push(self.name()),
            12 => {
                v.extend([U32(1 + self.below(4)), self.small(2), self.offset(), self.offset(), U32(1)]);
                v.extend([self.small(3), self.state(), self.small(3), U64(client), self.text()]);
            }
            13 => v.extend([U32(1 + self.below(4)), self.offset(), self.offset(), U64(client), self.text()]),
            14 => v.extend([U32(1), self.small(3), self.state(), self.offset(), self.offset()]),
            17 | 37 => v.extend(self.attributes()),
            18 => {
                v.extend([self.small(3), U32(1 + self.below(3)), self.small(4), U64(client), self.text()]);
                match self.chance.below(4) {
                    0 => v.push(U32(0)),
                    1 => v.extend([U32(1), U32(2), Fixed(self.chance.bytes(8))]),
                    2 => {
                        v.extend([U32(1), U32(3), Fixed(self.chance.bytes(8))]);
                        v.extend(self.attributes());
                    }
                    _ => {
                        v.extend([U32(1), self.small(2)]);
                        v.extend(self.attributes());
                    }
                }
                match self.chance.below(5) {
                    0 => v.extend([U32(1), self.small(3)]),
                    1 => v.extend([U32(2), self.state(), self.name()]),
                    2 => v.push(U32(4)),
                    _ => v.extend([U32(0), self.name()]),
                }
            }
            19 | 58 => v.push(self.small(2)),
            20 => v.extend([self.state(), self.small(3)]),
            21 => v.extend([self.state(), self.small(3), self.small(4), self.small(4)]),
            22 => v.push(self.handle()),
            25 | 68 => v.extend([self.state(), self.offset(), self.count()]),
            26 => {
                v.extend([self.offset(), Fixed(vec![0; 8]), self.count(), self.count()]);
                v.extend(self.bits());
            }
            29 => v.extend([self.name(), self.name()]),
            30 | 57 => v.push(U64(client)),
            34 => {
                v.push(self.state());
                v.extend(self.attributes());
            }
            35 => {
                v.extend([Fixed(vec![self.below(3) as u8; 8]), self.text(), self.count()]);
                v.extend([Opaque(b"tcp".to_vec()), Opaque(b"127.0.0.1.3.232".to_vec()), U32(1)]);
            }
            36 => {
                let (client, verifier) =
                    self.chance.pick(&self.found.confirms).cloned().unwrap_or((client, vec![0; 8]));
                v.extend([U64(client), Fixed(verifier)]);
            }
            38 => v.extend([self.state(), self.offset(), self.small(3), self.data()]),
            39 => v.extend([U64(client), self.text()]),
            40 => v.extend([self.count(), U32(1), U32(0)]),
            41 | 44 => {
                let id = self.chance.pick(&self.found.sessions).map_or(vec![0; 16], |s| s.0.clone());
                v.extend([Fixed(id), self.small(4), self.small(2)]);
            }
            42 => {
                v.extend([Fixed(vec![self.below(3) as u8; 8]), self.text()]);
                v.extend([if self.chance.once_in(5) { self.count() } else { U32(0) }, self.small(3), U32(0)]);
            }
            43 => {
                v.extend([U64(client), U32(sequence), self.small(4)]);
                v.extend(self.channel());
                v.extend(self.channel());
                v.extend([self.count(), U32(1), U32(0)]);
            }
            45 => v.push(self.state()),
            52 => v.push(self.small(2)),
            55 => {
                let count = self.below(5);
                v.push(U32(count));
                (0..count).for_each(|_| v.push(self.state()));
            }
            59 | 62 => v.extend([self.state(), self.offset(), self.offset()]),
            60 => {
                v.extend([self.state(), self.state(), self.offset(), self.offset(), self.offset()]);
                v.extend([self.small(2), self.small(2), U32(0)]);
            }
            65 => {
                v.extend([self.state(), self.offset(), self.offset()]);
                v.extend(self.bits());
            }
            69 => v.extend([self.state(), self.offset(), self.small(3)]),
            72 | 75 => v.push(self.name()),
            73 => v.extend([self.small(4), self.name(), self.data()]),
            74 => v.extend([self.offset(), self.count()]),
            _ => {}
        }
        v
    }
}
