//! A server's threads and the clients of its connections, under many schedules: see
//! `rig::schedule`. The sockets, epoll and all that is between them are real.

use super::super::message::put_call;
use super::super::{Call, Fault, Peer, Program, Registry, Wait};
use super::{Engine, Limits};
use crate::nfs::xdr::{Reader, Writer};
use bytes::Bytes;
use rig::schedule::{explore, spawn, yield_now};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// A thread that looks this often without a change has waited in vain: the threads of the server
/// have had their turn thousands of times.
const LOOKS_MAX: usize = 10_000;

/// Procedure 1 returns as many bytes as requested, 2 as well, but may wait.
#[derive(Default)]
struct Test {
    /// How often each call was executed, by XID. Its lock is not held at a point where another
    /// thread may continue.
    executed: parking_lot::Mutex<BTreeMap<u32, u32>>,
    closed: AtomicUsize,
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
        &["null", "give", "wait"]
    }
    fn may_wait(&self, procedure: u32) -> bool {
        procedure == 2
    }
    fn waits(&self, _procedure: u32, _args: &mut Reader<'_>) -> Wait {
        Wait::Yes
    }
    fn call(&self, call: &Call<'_>, args: &mut Reader<'_>, out: &mut Writer) -> Result<(), Fault> {
        *self.executed.lock().entry(call.header.xid).or_default() += 1;
        let len = args.u32()?;
        yield_now();
        out.opaque_shared(Bytes::from(vec![7; len as usize]));
        Ok(())
    }
    fn closed(&self, _peer: &Peer) {
        self.closed.fetch_add(1, Ordering::SeqCst);
    }
}

/// A server with two reading threads and at most two for calls that wait.
struct Server {
    engine: Arc<Engine>,
    test: Arc<Test>,
}

impl Server {
    fn new(memory_bytes: usize) -> Self {
        let test = Arc::new(Test::default());
        let mut registry = Registry::default();
        registry.add(test.clone());
        let limits = Limits { memory_bytes, threads: 2, threads_max: 4, ..Limits::default() };
        let mut engine = Engine::new(limits, registry.figures()).expect("epoll");
        engine.listen(([127, 0, 0, 1], 0).into(), &Arc::new(registry)).expect("listens");
        let engine = Arc::new(engine);
        (0..2).for_each(|_| engine.start_thread(true).expect("a thread"));
        Self { engine, test }
    }

    fn connect(&self) -> Client {
        let (ours, theirs) = UnixStream::pair().expect("sockets");
        for socket in [&ours, &theirs] {
            socket.set_nonblocking(true).expect("a socket");
        }
        let address = SocketAddr::from(([192, 0, 2, 1], 700));
        self.engine.connect(theirs.into(), (address, address), 0).expect("served");
        Client(ours)
    }

    /// Waits until `count` connections were closed, and checks that they left nothing behind. Then
    /// stops the threads.
    fn end(self, count: usize) {
        let Self { engine, test } = self;
        look_until("all connections are closed", || engine.connections.read().is_empty());
        look_until("their memory is released", || engine.memory_bytes() == 0);
        look_until("the program knows of it", || test.closed.load(Ordering::SeqCst) == count);
        assert!(test.executed.lock().values().all(|times| *times == 1), "{:?}", test.executed.lock());
        engine.threads.stop();
        engine.waiting.stop();
        look_until("all threads have ended", || engine.threads.wait_ended(Instant::now()) == 0);
        assert_eq!(test.closed.load(Ordering::SeqCst), count, "once for each connection");
    }
}

fn look_until(what: &str, is_so: impl Fn() -> bool) {
    let mut looks = 0;
    while !is_so() {
        looks += 1;
        assert!(looks < LOOKS_MAX, "not after {looks} looks: {what}");
        yield_now();
    }
}

/// The client's end of a connection.
struct Client(UnixStream);

impl Client {
    /// Sends calls of `procedures`, with the XIDs from `xid` on, which request `bytes` bytes.
    /// Returns early if the connection is closed.
    fn call(&mut self, xid: u32, procedures: &[u32], bytes: u32) {
        let mut calls = Vec::new();
        for (xid, procedure) in (xid..).zip(procedures) {
            let mut call = Writer::new();
            put_call(&mut call, xid, 400, 1, *procedure);
            call.u32(bytes);
            let call = call.to_vec();
            calls.extend((call.len() as u32 | 1 << 31).to_be_bytes());
            calls.extend(call);
        }
        // In pieces that end within calls.
        for piece in calls.chunks(calls.len() / 3 + 1) {
            let mut piece = piece;
            while !piece.is_empty() {
                match self.0.write(piece) {
                    Ok(count) => piece = &piece[count..],
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(_) => return,
                }
                yield_now();
            }
        }
    }

    /// Receives answers until the connection is closed. Returns their XIDs.
    fn receive(&mut self) -> Vec<u32> {
        let (mut received, mut piece, mut looks) = (Vec::new(), vec![0; 256 << 10], 0);
        loop {
            match self.0.read(&mut piece) {
                Ok(0) => break,
                Ok(count) => {
                    received.extend_from_slice(&piece[..count]);
                    looks = 0;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => looks += 1,
                Err(_) => break,
            }
            assert!(looks < LOOKS_MAX, "the client waits in vain after {} bytes", received.len());
            yield_now();
        }
        let (mut xids, mut rest) = (Vec::new(), &received[..]);
        while let Some((mark, more)) = rest.split_first_chunk() {
            let len = (u32::from_be_bytes(*mark) & !(1 << 31)) as usize;
            let Some((answer, more)) = more.split_at_checked(len) else { break };
            xids.push(Reader::new(answer).u32().expect("an XID"));
            rest = more;
        }
        xids.sort_unstable();
        xids
    }

    /// Sends no more.
    fn finish(&self) {
        self.0.shutdown(Shutdown::Write).expect("connected");
    }
}

#[test]
fn every_call_is_answered_once_and_then_the_connection_is_closed() {
    explore(400, || {
        let server = Server::new(256 << 20);
        let mut client = server.connect();
        client.call(1, &[1, 2, 1, 1, 2], 5);
        client.finish();
        assert_eq!(client.receive(), [1, 2, 3, 4, 5]);
        server.end(1);
    });
}

#[test]
fn a_client_that_disconnects_while_its_calls_are_answered_leaves_nothing_behind() {
    explore(400, || {
        let server = Server::new(256 << 20);
        let mut client = server.connect();
        client.call(1, &[2, 1, 2], 100);
        drop(client);
        server.end(1);
    });
}

#[test]
fn a_connection_that_the_server_cuts_while_it_is_served_leaves_nothing_behind() {
    explore(400, || {
        let server = Server::new(256 << 20);
        let mut client = server.connect();
        let found = server.engine.connections.read().values().next().cloned();
        let cutter = spawn(move || found.expect("connected").hang_up());
        client.call(1, &[1, 2, 1, 2], 100);
        client.receive();
        cutter.join().unwrap();
        server.end(1);
    });
}

#[test]
fn connections_that_wait_for_memory_are_all_served() {
    explore(400, || {
        // Memory for the answers of one thread.
        let server = Server::new(1 << 20);
        let mut clients = [server.connect(), server.connect()];
        let mut other = server.connect();
        let calling = spawn(move || {
            other.call(1, &[2, 1], 100);
            other.finish();
            other.receive()
        });
        clients[0].call(10, &[1, 2], 100);
        clients[1].call(20, &[2, 1], 100);
        clients.iter().for_each(Client::finish);
        assert_eq!(clients[0].receive(), [10, 11]);
        assert_eq!(clients[1].receive(), [20, 21]);
        assert_eq!(calling.join().unwrap(), [1, 2]);
        server.end(3);
    });
}

#[test]
fn a_client_that_takes_its_answers_late_gets_all_of_them() {
    explore(100, || {
        let server = Server::new(256 << 20);
        let mut client = server.connect();
        // More than is queued for a client before it is no longer served.
        client.call(1, &[1, 2], 5 << 20);
        client.call(3, &[1, 2, 1], 5);
        client.finish();
        assert_eq!(client.receive(), [1, 2, 3, 4, 5]);
        server.end(1);
    });
}
