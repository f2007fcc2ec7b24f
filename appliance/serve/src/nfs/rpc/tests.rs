//! Tests of the transport over real sockets.

use super::{Call, Engine, Fault, Limits, Program, Registry, Wait};
use crate::nfs::portmap::ask;
use crate::nfs::xdr::{Reader, Writer};
use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Procedure 1 returns that many bytes, 2 waits until the gate opens, 3 returns the number of bytes
/// that it got, 5 waits until the gate opens and returns that many bytes.
#[derive(Default)]
struct Test {
    gate: (Mutex<bool>, Condvar),
    /// Number of calls that have reached the gate.
    waiting: AtomicUsize,
    /// Number of calls whose bytes were returned.
    given: AtomicUsize,
    /// Number of queries whether a call waits.
    looked: AtomicUsize,
}

impl Test {
    fn wait(&self) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let mut open = self.gate.0.lock();
        while !*open {
            self.gate.1.wait(&mut open);
        }
    }

    fn open_gate(&self) {
        *self.gate.0.lock() = true;
        self.gate.1.notify_all();
    }

    fn give(&self, args: &mut Reader<'_>, out: &mut Writer) -> Result<(), Fault> {
        let len = args.u32()?;
        out.opaque_shared(Bytes::from(vec![len as u8; len as usize]));
        self.given.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

impl Program for Test {
    fn number(&self) -> u32 {
        400
    }
    fn version(&self) -> u32 {
        1
    }
    fn name(&self) -> &'static str {
        "test"
    }
    fn procedures(&self) -> &'static [&'static str] {
        &["null", "give", "wait", "take"]
    }
    fn may_wait(&self, procedure: u32) -> bool {
        matches!(procedure, 2 | 5)
    }
    fn waits(&self, _procedure: u32, _args: &mut Reader<'_>) -> Wait {
        self.looked.fetch_add(1, Ordering::SeqCst);
        Wait::Yes
    }
    fn call(&self, call: &Call<'_>, args: &mut Reader<'_>, out: &mut Writer) -> Result<(), Fault> {
        match call.header.procedure {
            1 => self.give(args, out)?,
            2 => {
                self.wait();
                out.u32(22);
            }
            3 => out.u32(args.opaque(1 << 20)?.len() as u32),
            4 => panic!("as tests require"),
            5 => {
                self.wait();
                self.give(args, out)?;
            }
            _ => return Err(Fault::ProcedureUnavailable),
        }
        Ok(())
    }
}

fn start(limits: Limits) -> (Arc<Engine>, SocketAddr, Arc<Test>) {
    let test = Arc::new(Test::default());
    let mut registry = Registry::default();
    registry.add(test.clone());
    let mut engine = Engine::new(limits, registry.figures()).expect("epoll");
    let address = engine.listen(([127, 0, 0, 1], 0).into(), &Arc::new(registry)).expect("listens");
    let engine = Arc::new(engine);
    engine.run().expect("threads");
    (engine, address, test)
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("connects");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    stream
}

fn record(xid: u32, procedure: u32, args: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut w = Writer::new();
    super::message::put_call(&mut w, xid, 400, 1, procedure);
    args(&mut w);
    let bytes = w.to_vec();
    [&(bytes.len() as u32 | 1 << 31).to_be_bytes()[..], &bytes].concat()
}

fn read_record(stream: &mut TcpStream) -> Vec<u8> {
    let mut mark = [0; 4];
    stream.read_exact(&mut mark).expect("a record");
    let mut record = vec![0; (u32::from_be_bytes(mark) & !(1 << 31)) as usize];
    stream.read_exact(&mut record).expect("all of it");
    record
}

fn is_closed(stream: &mut TcpStream) -> bool {
    let mut rest = Vec::new();
    // A reset counts as closed.
    stream.read_to_end(&mut rest).map_or(true, |n| n == 0)
}

#[test]
fn many_calls_in_one_write_are_all_answered_however_large_the_answers() {
    let (engine, address, _) = start(Limits::default());
    let mut stream = connect(address);
    let sizes = [0_u32, 1, 3000, 1_000_000, 17, 900_000, 1_000_000, 1_000_000, 1_000_000, 2_000_000, 5];
    let calls: Vec<u8> = sizes.iter().flat_map(|n| record(*n, 1, |w| w.u32(*n))).collect();
    stream.write_all(&calls).expect("sends");
    std::thread::sleep(Duration::from_millis(50));
    let mut found: Vec<(u32, usize)> = (0..sizes.len())
        .map(|_| {
            let record = read_record(&mut stream);
            let mut r = Reader::new(&record);
            let xid = r.u32().expect("xid");
            assert!(record[28..].iter().take(xid as usize).all(|b| *b == xid as u8));
            (xid, record.len() - 28)
        })
        .collect();
    let mut expected: Vec<_> = sizes.iter().map(|n| (*n, n.next_multiple_of(4) as usize)).collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
    engine.stop(Duration::from_secs(5));
    assert_eq!(engine.memory_bytes(), 0);
}

#[test]
fn a_call_that_waits_keeps_no_other_from_being_answered() {
    let (engine, address, test) = start(Limits { threads: 2, threads_max: 8, ..Limits::default() });
    let mut stream = connect(address);
    // More calls than initial threads.
    for xid in 0..4 {
        stream.write_all(&record(100 + xid, 2, |_| ())).expect("sends");
        // Calls that are read together are answered in sequence, so each must have been read before
        // the next one arrives.
        let deadline = Instant::now() + Duration::from_secs(60);
        while test.waiting.load(Ordering::SeqCst) <= xid as usize {
            assert!(Instant::now() < deadline, "call {xid} is not begun");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    stream.write_all(&record(7, 1, |w| w.u32(8))).expect("sends");
    assert_eq!(read_record(&mut stream)[..4], 7_u32.to_be_bytes());
    test.open_gate();
    let mut rest: Vec<_> = (0..4).map(|_| read_record(&mut stream)[3]).collect();
    rest.sort_unstable();
    assert_eq!(rest, [100, 101, 102, 103]);
    assert_eq!(test.looked.load(Ordering::SeqCst), 4, "each call is parsed once, whichever thread answers it");
    engine.stop(Duration::from_secs(5));
}

#[test]
fn calls_received_with_a_waiting_one_are_answered_before_it() {
    let (engine, address, test) = start(Limits { threads: 4, threads_max: 16, ..Limits::default() });
    let mut stream = connect(address);
    let calls = [(1, 1), (100, 2), (2, 1), (101, 2), (3, 1), (102, 2)];
    let one = |(xid, procedure): (u32, u32)| record(xid, procedure, |w| w.u32(8));
    stream.write_all(&calls.map(one).concat()).expect("sends");
    let mut first: Vec<_> = (0..3).map(|_| read_record(&mut stream)[3]).collect();
    first.sort_unstable();
    assert_eq!(first, [1, 2, 3]);
    test.open_gate();
    let mut rest: Vec<_> = (0..3).map(|_| read_record(&mut stream)[3]).collect();
    rest.sort_unstable();
    assert_eq!(rest, [100, 101, 102]);
    engine.stop(Duration::from_secs(5));
}

/// Regression: writes that waited for a txg occupied all threads, more threads were added only
/// every 4 ms, and reads of data in memory took 250 ms.
#[test]
fn however_many_calls_wait_others_are_answered() {
    let (engine, address, test) = start(Limits { threads: 2, threads_max: 4, ..Limits::default() });
    let mut waiting: Vec<_> = (0..20).map(|_| connect(address)).collect();
    for stream in &mut waiting {
        stream.write_all(&[1, 2, 3].map(|xid| record(xid, 2, |_| ())).concat()).expect("sends");
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    // One in place, and the threads for waiting calls.
    while test.waiting.load(Ordering::SeqCst) < 3 {
        assert!(Instant::now() < deadline, "too few calls are begun");
        std::thread::sleep(Duration::from_millis(1));
    }
    for _ in 0..3 {
        let answer = ask(&mut connect(address), 5, 400, 1, 1, |w| w.u32(3)).expect("an answer");
        assert_eq!(answer, [0, 0, 0, 3, 3, 3, 3, 0]);
    }
    test.open_gate();
    for stream in &mut waiting {
        let mut all = [(); 3].map(|()| read_record(stream)[3]);
        all.sort_unstable();
        assert_eq!(all, [1, 2, 3]);
    }
    engine.stop(Duration::from_secs(5));
    assert_eq!(engine.memory_bytes(), 0);
}

/// Regression: epoll reports only once that a client has closed its sending side. If this came with
/// the last bytes it was missed, and the connection stayed open.
#[test]
fn a_client_that_shuts_down_is_answered_and_closed() {
    let (engine, address, _) = start(Limits::default());
    for (calls, answers) in [(0, 0), (1, 1), (5, 5)] {
        let mut stream = connect(address);
        let all: Vec<u8> = (0..calls).flat_map(|xid| record(xid, 1, |w| w.u32(8))).collect();
        stream.write_all(&all).expect("sends");
        // A reply message, which gets no answer.
        stream.write_all(&[0x80, 0, 0, 12, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 0]).expect("sends");
        stream.shutdown(std::net::Shutdown::Write).expect("a socket");
        for _ in 0..answers {
            read_record(&mut stream);
        }
        assert!(is_closed(&mut stream), "after {calls} calls");
    }
    assert_eq!(engine.peers().len(), 0);
    engine.stop(Duration::from_secs(5));
}

#[test]
fn long_calls_arrive_in_fragments_and_in_any_pieces() {
    let (engine, address, _) = start(Limits::default());
    let mut stream = connect(address);
    let mut w = Writer::new();
    super::message::put_call(&mut w, 9, 400, 1, 3);
    w.opaque(&vec![5; 700_000]);
    let call = w.to_vec();
    let fragments = call.chunks(100_001).collect::<Vec<_>>();
    for (i, fragment) in fragments.iter().enumerate() {
        let last = if i + 1 == fragments.len() { 1 << 31 } else { 0 };
        stream.write_all(&(fragment.len() as u32 | last).to_be_bytes()).expect("sends");
        for piece in fragment.chunks(33_333) {
            stream.write_all(piece).expect("sends");
        }
    }
    let answer = read_record(&mut stream);
    assert_eq!(answer[24..], 700_000_u32.to_be_bytes());
    engine.stop(Duration::from_secs(5));
    assert_eq!(engine.memory_bytes(), 0);
}

#[test]
fn a_client_that_sends_garbage_is_disconnected_and_others_are_not() {
    let (engine, address, _) = start(Limits::default());
    let mut good = connect(address);
    for nonsense in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 64], &[0x80, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 9], &[0; 200]] {
        let mut stream = connect(address);
        stream.write_all(nonsense).expect("sends");
        assert!(is_closed(&mut stream), "{nonsense:?}");
    }
    let answer = ask(&mut good, 5, 400, 1, 1, |w| w.u32(3)).expect("an answer");
    assert_eq!(answer, [0, 0, 0, 3, 3, 3, 3, 0]);
    engine.stop(Duration::from_secs(5));
}

#[test]
fn a_call_that_panics_ends_only_its_connection() {
    let (engine, address, _) = start(Limits { threads: 2, threads_max: 2, ..Limits::default() });
    let mut good = connect(address);
    for xid in 0..5 {
        let mut stream = connect(address);
        stream.write_all(&record(xid, 4, |_| ())).expect("sends");
        assert!(is_closed(&mut stream));
    }
    let answer = ask(&mut good, 5, 400, 1, 1, |w| w.u32(3)).expect("an answer");
    assert_eq!(answer.len(), 8);
    engine.stop(Duration::from_secs(5));
}

/// Connects from another address of this host, which is another client.
fn connect_from(from: [u8; 4], address: SocketAddr) -> TcpStream {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let fd = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    bind(&fd, &SocketAddr::from((from, 0))).expect("an address of loopback");
    connect(&fd, &address).expect("connects");
    let stream = TcpStream::from(fd);
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    stream
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until no call was answered for a while.
fn wait_until_still(test: &Test) -> usize {
    let mut given = test.given.load(Ordering::SeqCst);
    loop {
        std::thread::sleep(Duration::from_millis(200));
        let now = test.given.load(Ordering::SeqCst);
        if now == given {
            return now;
        }
        given = now;
    }
}

fn assert_is_served(mut stream: TcpStream) {
    let answer = ask(&mut stream, 5, 400, 1, 1, |w| w.u32(3)).expect("an answer");
    assert_eq!(answer, [0, 0, 0, 3, 3, 3, 3, 0]);
}

/// Regression: all calls that came with one read were answered, however little the client took. The
/// memory was full of answers, and other clients waited for it.
#[test]
fn a_client_that_reads_no_answers_is_not_read_and_uses_little_memory() {
    let limits = Limits { memory_bytes: 64 << 20, ..Limits::default() };
    let (engine, address, test) = start(limits);
    let mut greedy = connect(address);
    // Calls for 400 MB of answers, few enough for one read. None of the answers is read yet.
    let calls = 400;
    greedy.write_all(&record(1, 1, |w| w.u32(1_000_000)).repeat(calls)).expect("sends");
    wait_until("little is answered", || engine.memory_bytes() > 8 << 20);
    let given = wait_until_still(&test);
    assert!(given < 100, "{given} calls are answered although the client takes no answers");
    assert!(engine.memory_bytes() < 16 << 20, "{}", engine.memory_bytes());
    assert_is_served(connect(address));
    for _ in 0..calls {
        assert_eq!(read_record(&mut greedy).len(), 1_000_028);
    }
    engine.stop(Duration::from_secs(5));
    assert_eq!(engine.memory_bytes(), 0);
}

/// Like the test above, for calls that waited on other threads while nothing was queued.
#[test]
fn a_client_that_takes_no_answers_of_calls_that_waited_holds_little() {
    let limits = Limits { memory_bytes: 64 << 20, threads: 2, threads_max: 10, ..Limits::default() };
    let (engine, address, test) = start(limits);
    let mut greedy = connect(address);
    let calls = 400;
    greedy.write_all(&record(1, 5, |w| w.u32(1_000_000)).repeat(calls)).expect("sends");
    wait_until("no thread waits", || test.waiting.load(Ordering::SeqCst) >= 8);
    test.open_gate();
    wait_until("little is answered", || engine.memory_bytes() > 8 << 20);
    let given = wait_until_still(&test);
    assert!(given < 100, "{given} calls are answered although the client takes no answers");
    // What is queued, and a call of each thread.
    assert!(engine.memory_bytes() < 24 << 20, "{}", engine.memory_bytes());
    assert_is_served(connect_from([127, 0, 0, 2], address));
    for _ in 0..calls {
        assert_eq!(read_record(&mut greedy).len(), 1_000_028);
    }
    engine.stop(Duration::from_secs(5));
    assert_eq!(engine.memory_bytes(), 0);
}

/// Regression: a client could hold all memory with many connections, and others were not served
/// until it was disconnected.
#[test]
fn a_client_with_many_connections_leaves_memory_for_another_client() {
    let stalled = Duration::from_secs(3600);
    let limits = Limits { memory_bytes: 32 << 20, stalled, threads: 2, threads_max: 2, ..Limits::default() };
    let (engine, address, test) = start(limits);
    let mut greedy: Vec<_> = (0..8).map(|_| connect(address)).collect();
    let calls = 100;
    for stream in &mut greedy {
        stream.write_all(&record(1, 1, |w| w.u32(1_000_000)).repeat(calls)).expect("sends");
    }
    wait_until("little is answered", || engine.memory_bytes() > 4 << 20);
    let given = wait_until_still(&test);
    assert!(given < greedy.len() * calls, "the client received all answers");
    // Half of the memory for answers, and an answer of each thread.
    assert!(engine.memory_bytes() < 13 << 20, "{}", engine.memory_bytes());
    for _ in 0..10 {
        assert_is_served(connect_from([127, 0, 0, 2], address));
    }
    assert!(engine.peers().len() >= greedy.len(), "no client is disconnected for another one");
    // Once they take their answers, all get them, although they waited for memory of each other.
    std::thread::scope(|scope| {
        for stream in &mut greedy {
            scope.spawn(|| (0..calls).for_each(|_| assert_eq!(read_record(stream).len(), 1_000_028)));
        }
    });
    engine.stop(Duration::from_secs(5));
    assert_eq!(engine.memory_bytes(), 0);
}

/// Regression: a client was disconnected because it held memory while others needed it, but the
/// connection was not read any more, and its memory was not released.
#[test]
fn a_client_that_stalls_while_memory_is_short_is_disconnected_and_its_memory_released() {
    let limits = Limits { memory_bytes: 4 << 20, stalled: Duration::from_secs(2), ..Limits::default() };
    let (engine, address, _) = start(limits);
    // Calls that are never completed. They leave too little memory for a whole one.
    let call = record(1, 3, |w| w.opaque(&vec![5; 1_000_000]));
    let mut stalled: Vec<_> = (0..6).map(|n| connect_from([127, 0, 1, n + 1], address)).collect();
    for stream in &mut stalled {
        stream.write_all(&call[..200_000]).expect("sends");
    }
    wait_until("no call is partly received", || engine.memory_bytes() > 1 << 20);
    assert_is_served(connect_from([127, 0, 2, 1], address));
    let mut whole = connect_from([127, 0, 2, 2], address);
    whole.write_all(&call).expect("sends");
    assert_eq!(read_record(&mut whole)[24..], 1_000_000_u32.to_be_bytes());
    engine.stop(Duration::from_secs(5));
    assert_eq!(engine.memory_bytes(), 0);
}

#[test]
fn a_thousand_connections_are_served_side_by_side() {
    let (engine, address, _) = start(Limits::default());
    let mut streams: Vec<_> = (0..1000).map(|_| connect(address)).collect();
    for (i, stream) in streams.iter_mut().enumerate() {
        stream.write_all(&record(i as u32, 1, |w| w.u32(40))).expect("sends");
    }
    for (i, stream) in streams.iter_mut().enumerate() {
        let answer = read_record(stream);
        assert_eq!((&answer[..4], answer.len()), (&(i as u32).to_be_bytes()[..], 68));
    }
    assert_eq!(engine.peers().len(), 1000);
    // The memory of an answer is given back after it was sent, which the client may see first.
    for _ in 0..500 {
        if engine.memory_bytes() == 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(engine.memory_bytes(), 0);
    drop(streams);
    for _ in 0..500 {
        if engine.peers().is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(engine.peers().len(), 0);
    engine.stop(Duration::from_secs(5));
}
