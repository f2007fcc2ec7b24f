//! The programs of a server, and the dispatch of records to them.

use super::duplicates::{Doing, Duplicates, Key, Known};
use super::message::{Accept, Denial, Message, put_accepted, put_denied};
use super::{Call, Fault, Peer, Program, Wait};
use crate::nfs::figures::{Figures, Times};
use crate::nfs::xdr::{Malformed, Reader, Writer};
use host::clock::Stopwatch;
use observe::Layer;
use observe::event::note;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Program and version whose calls are recorded here as events.
const NFS3: (u32, u32) = (100_003, 3);
/// Longest answer that the duplicate request cache keeps.
const ANSWER_BYTES_MAX: usize = 4096;

/// A record whose header was parsed.
#[derive(Debug, Clone, Copy)]
pub struct Received {
    message: Message,
    /// Where the arguments begin.
    args_at: usize,
    /// Whether the answer waits.
    pub wait: Wait,
}

/// Programs by number and version.
#[derive(Default)]
pub struct Registry {
    programs: BTreeMap<(u32, u32), (Arc<dyn Program>, Times)>,
    duplicates: Duplicates,
    figures: Arc<Figures>,
}

impl Registry {
    /// An empty registry that counts calls in `figures`.
    pub fn new(figures: Arc<Figures>) -> Self {
        Self { figures, ..Self::default() }
    }

    pub fn figures(&self) -> &Arc<Figures> {
        &self.figures
    }

    /// Adds one version of a program.
    pub fn add(&mut self, program: Arc<dyn Program>) {
        let times = self.figures.times(program.name(), program.version(), program.procedures());
        self.programs.insert((program.number(), program.version()), (program, times));
    }

    /// Numbers and versions of all programs.
    pub fn list(&self) -> impl Iterator<Item = (u32, u32)> {
        self.programs.keys().copied()
    }

    /// Parses the header of a record. Fails if the record is not an RPC message; then nothing more
    /// can be expected from this peer.
    pub fn parse(&self, record: &[u8]) -> Result<Received, Malformed> {
        let mut r = Reader::new(record);
        let message = Message::parse(&mut r)?;
        let args_at = record.len() - r.rest().len();
        let wait = match &message {
            Message::Call(header) => match self.programs.get(&(header.program, header.version)) {
                Some((program, _)) if program.may_wait(header.procedure) => program.waits(header.procedure, &mut r),
                _ => Wait::No,
            },
            _ => Wait::No,
        };
        Ok(Received { message, args_at, wait })
    }

    /// Answers one record: appends the reply to `out`, or nothing if there is none. Fails like
    /// [`Self::parse`].
    pub fn answer(&self, peer: &Peer, record: &[u8], out: &mut Writer) -> Result<(), Malformed> {
        let arrived = Stopwatch::start();
        self.answer_received(arrived, peer, record, &self.parse(record)?, out);
        Ok(())
    }

    /// Answers a record that was parsed before, and whose last byte arrived when `arrived` was
    /// started.
    pub fn answer_received(
        &self,
        arrived: Stopwatch,
        peer: &Peer,
        record: &[u8],
        received: &Received,
        out: &mut Writer,
    ) {
        let mut r = Reader::new(&record[received.args_at..]);
        let header = match received.message {
            Message::Call(header) => header,
            Message::Refused(xid, why) => return put_denied(out, xid, why),
            Message::Reply(xid) => {
                let ours = self.programs.values().any(|(p, _)| p.reply(peer, xid, &mut r.clone()));
                if !ours {
                    tracing::debug!(?peer, xid, "an answer to no question");
                }
                return;
            }
        };
        let (xid, start) = (header.xid, out.mark());
        let Some((program, times)) = self.programs.get(&(header.program, header.version)) else {
            let versions = self.programs.keys().filter(|(number, _)| *number == header.program).map(|(_, v)| *v);
            put_accepted(
                out,
                xid,
                match (versions.clone().min(), versions.max()) {
                    (Some(low), Some(high)) => Accept::ProgramMismatch { low, high },
                    _ => Accept::ProgramUnavailable,
                },
            );
            return;
        };
        let call = Call { header, peer, arrived };
        // Procedure 0 does nothing in all programs.
        let key =
            (call.header.procedure != 0 && program.changes(call.header.procedure)).then(|| Key::new(&call, r.rest()));
        let mut doing = None;
        if let Some(key) = key {
            match self.duplicates.begin(key) {
                Known::New => doing = Some(Doing::new(&self.duplicates, key)),
                Known::UnderWay => return,
                Known::Done(answer) => {
                    out.fixed(&answer);
                    return;
                }
            }
        }
        // Version 4 records each operation of a compound itself.
        let is_v3 = (call.header.program, call.header.version) == NFS3;
        let events = self.figures.events().filter(|_| is_v3);
        if events.is_some() {
            note::clear();
            note::wait(arrived.ns(), |n| &mut n.queue_wait);
        }
        peer.client.calls.increment();
        if is_v3 {
            peer.client.used_v3();
        }
        put_accepted(out, xid, Accept::Success);
        let result = match call.header.procedure {
            0 => Ok(()),
            _ => program.call(&call, &mut r, out),
        };
        let spent = arrived.ns();
        times.record(call.header.procedure, spent);
        if let Some(events) = events {
            let user = call.header.credential.user();
            Figures::record_call(events, Layer::Nfs3, call.header.procedure, &peer.client, user, spent);
        }
        let was_done = result.is_ok();
        if let Err(fault) = result {
            out.rollback(start);
            match fault {
                Fault::GarbageArguments => put_accepted(out, xid, Accept::GarbageArguments),
                Fault::ProcedureUnavailable => put_accepted(out, xid, Accept::ProcedureUnavailable),
                Fault::SystemError => put_accepted(out, xid, Accept::SystemError),
                Fault::Auth(reason) => put_denied(out, xid, Denial::Auth(reason)),
                Fault::Drop => {}
            }
        }
        if let Some(doing) = doing {
            let keep = was_done && out.since(start) <= ANSWER_BYTES_MAX;
            doing.done(keep.then(|| out.copy_since(start)));
        }
    }

    /// A connection was closed.
    pub fn closed(&self, peer: &Peer) {
        self.figures.gone(&peer.client);
        self.programs.values().for_each(|(p, _)| p.closed(peer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[derive(Default)]
    struct Counter(AtomicU32);

    impl Program for Counter {
        fn number(&self) -> u32 {
            300
        }
        fn version(&self) -> u32 {
            2
        }
        fn name(&self) -> &'static str {
            "counter"
        }
        fn procedures(&self) -> &'static [&'static str] {
            &["null", "add"]
        }
        fn changes(&self, procedure: u32) -> bool {
            matches!(procedure, 1 | 4)
        }
        fn call(&self, call: &Call<'_>, args: &mut Reader<'_>, out: &mut Writer) -> Result<(), Fault> {
            match call.header.procedure {
                1 => {
                    let by = args.u32()?;
                    out.u32(self.0.fetch_add(by, Ordering::SeqCst) + by);
                    Ok(())
                }
                2 => {
                    out.u32(99);
                    Err(Fault::SystemError)
                }
                3 => Err(Fault::Drop),
                4 => panic!("as tests require"),
                _ => Err(Fault::ProcedureUnavailable),
            }
        }
    }

    /// A program that does nothing, with the number of NFS.
    struct Nothing;

    impl Program for Nothing {
        fn number(&self) -> u32 {
            NFS3.0
        }
        fn version(&self) -> u32 {
            NFS3.1
        }
        fn name(&self) -> &'static str {
            "nothing"
        }
        fn procedures(&self) -> &'static [&'static str] {
            &["null", "getattr"]
        }
        fn call(&self, _: &Call<'_>, _: &mut Reader<'_>, _: &mut Writer) -> Result<(), Fault> {
            Ok(())
        }
    }

    #[test]
    fn the_latency_of_a_call_includes_the_queue_which_is_also_separate() {
        let events = Arc::new(observe::Events::new(1, 10));
        events.switch(true);
        let mut registry = Registry::default();
        registry.figures.record_to(events.clone());
        registry.add(Arc::new(Nothing));
        let mut w = Writer::new();
        super::super::message::put_call(&mut w, 1, NFS3.0, NFS3.1, 1);
        let arrived = Stopwatch::start();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let record = w.to_vec();
        let received = registry.parse(&record).expect("a message");
        registry.answer_received(arrived, &peer(), &record, &received, &mut Writer::new());
        let mut drained = Vec::new();
        events.drain(&mut drained);
        let [late] = drained[..] else { panic!("one call: {drained:?}") };
        assert!(late.latency >= 20_000_000 && late.note.queue_wait >= 20_000, "{late:?}");
        assert!(u64::from(late.note.queue_wait) <= late.latency.div_ceil(1000), "{late:?}");
    }

    fn peer() -> Peer {
        Peer::datagram(([127, 0, 0, 1], 900).into(), ([127, 0, 0, 1], 111).into())
    }

    fn ask(registry: &Registry, xid: u32, (program, version, procedure): (u32, u32, u32), args: &[u32]) -> Vec<u32> {
        let (mut w, mut out) = (Writer::new(), Writer::new());
        super::super::message::put_call(&mut w, xid, program, version, procedure);
        args.iter().for_each(|n| w.u32(*n));
        registry.answer(&peer(), &w.to_vec(), &mut out).expect("a message");
        out.to_vec().chunks(4).map(|c| u32::from_be_bytes(c.try_into().expect("four bytes"))).collect()
    }

    #[test]
    fn every_error_of_rpc_is_answered_by_its_number() {
        let mut registry = Registry::default();
        registry.add(Arc::new(Counter::default()));
        let accepted = |xid, rest: &[u32]| [&[xid, 1, 0, 0, 0], rest].concat();
        assert_eq!(ask(&registry, 1, (300, 2, 0), &[]), accepted(1, &[0]));
        assert_eq!(ask(&registry, 2, (301, 2, 0), &[]), accepted(2, &[1]));
        assert_eq!(ask(&registry, 3, (300, 3, 0), &[]), accepted(3, &[2, 2, 2]));
        assert_eq!(ask(&registry, 4, (300, 2, 9), &[]), accepted(4, &[3]));
        assert_eq!(ask(&registry, 5, (300, 2, 1), &[]), accepted(5, &[4]));
        assert_eq!(ask(&registry, 6, (300, 2, 2), &[]), accepted(6, &[5]));
        assert!(ask(&registry, 7, (300, 2, 3), &[]).is_empty());
    }

    #[test]
    fn retransmitted_changes_are_executed_once() {
        let mut registry = Registry::default();
        registry.add(Arc::new(Counter::default()));
        let first = ask(&registry, 8, (300, 2, 1), &[5]);
        assert_eq!(first.last(), Some(&5));
        assert_eq!(ask(&registry, 8, (300, 2, 1), &[5]), first);
        assert_eq!(ask(&registry, 9, (300, 2, 1), &[5]).last(), Some(&10));
        // The arguments could not be decoded, so nothing was executed.
        ask(&registry, 10, (300, 2, 1), &[]);
        assert_eq!(ask(&registry, 10, (300, 2, 1), &[1]).last(), Some(&11));
    }

    /// Regression: the entry of such a call never completed, and a client that repeated it waited
    /// forever.
    #[test]
    fn a_change_that_panicked_is_answered_with_an_error_when_it_is_repeated() {
        let mut registry = Registry::default();
        registry.add(Arc::new(Counter::default()));
        let panics = || ask(&registry, 11, (300, 2, 4), &[]);
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).expect_err("it panics");
        for _ in 0..2 {
            assert_eq!(panics(), [11, 1, 0, 0, 0, 5], "SYSTEM_ERR, and it is not done again");
        }
    }
}
