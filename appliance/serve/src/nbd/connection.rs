//! A client's connection, from the greeting to the end.
//!
//! ```text
//!   greeting ─ options ─ (TLS ─ options) ─ requests
//!     ├ reads of cached data: answered here, together with those that arrived with them
//!     └ others: executed by other threads
//! ```
//! The connection's thread reads and waits: for its client, for memory, and while too many requests
//! are in progress. No other thread ever waits for this client.

use super::export::{Exports, Opened};
use super::figures::{Answered, Figures, Names};
use super::handshake::{Agreed, Handshake, Next, OPTION_BYTES_MAX, REQUEST_BYTES_MAX, TlsUse};
use super::proto::{Command, GREETING, OptionHead, Request, handshake};
use super::reply::Replies;
use super::request;
use super::stream::{Input, Output, Socket};
use super::threads::Threads;
use super::waits::Waits;
use crate::net::budget::{Account, Budget, Client, Reservation};
use host::clock::Stopwatch;
use observe::event::note;
use parking_lot::{Condvar, Mutex};
use std::io;
use std::net::{IpAddr, Shutdown};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Timeout of each step of the handshake.
const HANDSHAKE: Duration = Duration::from_secs(30);
/// Timeout of the whole handshake.
const HANDSHAKE_MOST: Duration = Duration::from_secs(120);
/// Maximum number of options in one handshake. Guessed: clients send about five.
const OPTIONS_MAX: u32 = 256;
/// Maximum number of a connection's requests that other threads execute at once.
const UNDER_WAY_MAX: usize = 64;
/// Answers are combined up to this size.
const TOGETHER_BYTES: usize = 256 << 10;
/// Interval at which a write whose data does not arrive is checked while others need its memory,
/// and how long it may take then.
const LOOK: Duration = Duration::from_secs(1);
const STALLED: Duration = Duration::from_secs(20);
/// How long a client may take to complete a request, and to send its first one, while others need
/// its place. Guessed: data follows its request immediately, and a client that attaches a disk
/// reads it.
const REST: Duration = Duration::from_secs(2);
const FIRST: Duration = Duration::from_secs(30);

/// Returns the TLS configuration, called for each connection.
pub type Tls = Arc<dyn Fn() -> Arc<rustls::ServerConfig> + Send + Sync>;

/// State that all connections of a server share.
pub(super) struct Shared {
    pub exports: Arc<dyn Exports>,
    pub tls: Option<Tls>,
    pub memory: Arc<Budget>,
    pub threads: Arc<Threads>,
    pub figures: Arc<Figures>,
}

/// See the module documentation.
pub(super) struct Connection {
    pub socket: Arc<Socket>,
    output: Arc<Output>,
    account: Arc<Account>,
    /// Name of the client, for statistics.
    client: String,
    /// The network that the connection counts towards; `None` for a local client, which is never
    /// disconnected for its place.
    network: Option<IpAddr>,
    waits: Arc<Mutex<Waits>>,
    under_way: Mutex<usize>,
    fewer: Condvar,
    is_stopping: AtomicBool,
}

impl Connection {
    pub fn new(id: u64, socket: Socket, client: String, network: Option<IpAddr>, memory: &Arc<Budget>) -> Arc<Self> {
        let socket = Arc::new(socket);
        let account = memory.account(network.map_or(Client::Local(id), Client::Network));
        Arc::new(Self {
            output: Output::new(socket.clone(), account.clone()),
            account,
            socket,
            client,
            network,
            waits: Arc::new(Mutex::new(Waits::Handshake(Instant::now()))),
            under_way: Mutex::new(0),
            fewer: Condvar::new(),
            is_stopping: AtomicBool::new(false),
        })
    }

    /// Accepts no further requests. Those in progress are answered.
    pub fn stop(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
        self.socket.shutdown(Shutdown::Read);
    }

    /// The network that the connection counts towards.
    pub fn network(&self) -> Option<IpAddr> {
        self.network
    }

    /// Whether the handshake is not finished.
    pub fn is_new(&self) -> bool {
        matches!(*self.waits.lock(), Waits::Handshake(_))
    }

    /// Whether the connection occupies a place without using it: the class of what it waits for
    /// (the least proven clients have the lowest class), and since when. A disk that is attached
    /// and idle does not count.
    pub fn idles(&self) -> Option<(u8, Instant)> {
        match *self.waits.lock() {
            Waits::Handshake(since) => Some((0, since)),
            Waits::Rest(since) => Some((1, since)).filter(|_| since.elapsed() >= REST),
            Waits::First(since) => Some((2, since)).filter(|_| since.elapsed() >= FIRST),
            // The client does not read its answers.
            Waits::Nothing if self.output.is_stalled(STALLED) => Some((1, Instant::now())),
            Waits::Nothing => None,
        }
    }

    /// Whether the client has not read any of its pending answers for a long time.
    pub fn is_stalled(&self) -> bool {
        self.output.is_stalled(STALLED)
    }

    /// Closes the connection immediately.
    pub fn cut(&self) {
        self.output.give_up();
    }

    /// Serves until the client disconnects or the server stops.
    pub fn serve(self: &Arc<Self>, shared: &Arc<Shared>, needs_tls: bool) {
        let mut input = Input::new(self.socket.clone(), self.output.clone(), self.waits.clone());
        let ended = self.greet(shared, &mut input, needs_tls).and_then(|chosen| match chosen {
            Some((opened, agreed)) => {
                self.socket.set_patience(None)?;
                self.now_waits(Waits::First(Instant::now()));
                tracing::debug!(client = self.client, export = opened.name, "serving NBD");
                self.transmit(shared, &mut input, &opened, agreed)
            }
            None => Ok(()),
        });
        if let Err(error) = ended
            && !self.is_stopping.load(Ordering::SeqCst)
        {
            tracing::debug!(client = self.client, %error, "a connection of NBD ends");
        }
        let mut under_way = self.under_way.lock();
        while *under_way > 0 {
            self.fewer.wait(&mut under_way);
        }
        drop(under_way);
        self.output.finish();
        self.output.give_up();
    }

    fn now_waits(&self, waits: Waits) {
        *self.waits.lock() = waits;
    }

    fn greet(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        input: &mut Input,
        needs_tls: bool,
    ) -> io::Result<Option<(Opened, Agreed)>> {
        self.socket.set_patience(Some(HANDSHAKE))?;
        let deadline = Instant::now() + HANDSHAKE_MOST;
        let flags = (handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES) as u16;
        self.send([&GREETING[..], &flags.to_be_bytes()].concat());
        let Some(flags) = input.next::<4>()? else { return Ok(None) };
        let tls = match (&shared.tls, needs_tls) {
            (None, _) => TlsUse::None,
            (Some(_), false) => TlsUse::Offered,
            (Some(_), true) => TlsUse::Required,
        };
        let exports = shared.exports.clone();
        let mut state =
            Handshake::new(&*exports, tls, u32::from_be_bytes(flags)).ok_or_else(|| bad("unknown flags"))?;
        for _ in 0..OPTIONS_MAX {
            if Instant::now() >= deadline {
                return Err(bad("a handshake that takes too long"));
            }
            let Some(head) = input.next::<{ OptionHead::BYTES }>()? else { return Ok(None) };
            let head = OptionHead::parse(&head).ok_or_else(|| bad("no option"))?;
            if head.length > OPTION_BYTES_MAX {
                return Err(bad("an option that is too long"));
            }
            let data = input.take(head.length as usize, &mut || true)?;
            let mut out = Vec::new();
            let next = state.option(head.option, &data, &mut out);
            self.send(out);
            self.output.wait();
            match next {
                Next::Option => {}
                Next::Transmission(opened) => return Ok(Some((opened, state.agreed()))),
                Next::End => return Ok(None),
                Next::Tls => {
                    let tls = shared.tls.as_ref().ok_or_else(|| bad("no TLS"))?;
                    self.output.finish();
                    input.secure(rustls::ServerConnection::new(tls()).map_err(io::Error::other)?)?;
                    state.secured();
                }
            }
        }
        Err(bad("too many options"))
    }

    fn send(&self, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.output.send(vec![bytes.into()], true);
        }
    }

    fn transmit(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        input: &mut Input,
        opened: &Opened,
        agreed: Agreed,
    ) -> io::Result<()> {
        let names = shared.figures.names(&self.client, &opened.name);
        let export = &*opened.export;
        let mut out = Replies::default();
        // For the data in `out`.
        let mut reserved = None;
        let mut is_first = true;
        loop {
            if !input.has(Request::BYTES) || out.bytes() >= TOGETHER_BYTES {
                self.answer(&mut out, &mut reserved);
            }
            let Some(bytes) = input.next::<{ Request::BYTES }>()? else { return Ok(()) };
            let request = Request::parse(&bytes).ok_or_else(|| bad("no request"))?;
            if is_first {
                self.now_waits(Waits::Nothing);
                is_first = false;
            }
            let clock = Stopwatch::start();
            note::clear();
            if request.command == Command::Disconnect {
                return Ok(());
            }
            let checked = request::check(&request, agreed, opened);
            if let Err((number, text)) = checked {
                if request.command == Command::Write {
                    // Do not wait for up to 4 GiB of useless data.
                    if request.length > REQUEST_BYTES_MAX {
                        return Err(bad("a write of more than 32 MiB"));
                    }
                    self.answer(&mut out, &mut reserved);
                    self.now_waits(Waits::Rest(Instant::now()));
                    input.skip(request.length as usize)?;
                    self.now_waits(Waits::Nothing);
                }
                out.error(&request, agreed, number, &text);
                shared.figures.answered(names, &answered(&request, number, &clock, 0));
                continue;
            }
            if request.command == Command::Write && request.length > REQUEST_BYTES_MAX {
                return Err(bad("a write of more than 32 MiB"));
            }
            let mut own = match request.command {
                Command::Read | Command::Write => Some(self.reserve(request.length as usize, &mut out, &mut reserved)),
                _ => None,
            };
            if request.command == Command::Read && request::read_at_once(&request, agreed, export, &mut out) {
                match (&mut reserved, own.take()) {
                    (Some(all), Some(own)) => all.absorb(own),
                    (all, own) => *all = own,
                }
                shared.figures.answered(names, &answered(&request, 0, &clock, 0));
                continue;
            }
            self.answer(&mut out, &mut reserved);
            self.hand_over(shared, input, opened, (request, agreed, names), own)?;
        }
    }

    /// Reserves memory for a request, once the client has taken enough.
    fn reserve(&self, bytes: usize, out: &mut Replies, reserved: &mut Option<Reservation>) -> Reservation {
        self.account.try_reserve(bytes).unwrap_or_else(|| {
            // This thread must not wait for what it holds itself.
            self.answer(out, reserved);
            self.account.reserve(bytes)
        })
    }

    /// Sends the answers so far, and waits while the client leaves too much unread.
    fn answer(&self, out: &mut Replies, reserved: &mut Option<Reservation>) {
        if out.bytes() > 0 {
            self.output.send(out.take(), true);
        }
        *reserved = None;
        self.output.wait();
    }

    /// Passes a request to another thread, once not too many are in progress.
    fn hand_over(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        input: &mut Input,
        opened: &Opened,
        (request, agreed, names): (Request, Agreed, Names),
        reserved: Option<Reservation>,
    ) -> io::Result<()> {
        let is_write = request.command == Command::Write;
        self.begin();
        let data = if is_write { self.data(shared, input, request.length as usize) } else { Ok(Vec::new()) };
        let data = match data {
            Ok(data) => data,
            Err(error) => {
                self.end();
                return Err(error);
            }
        };
        // Measured from the arrival of the last byte.
        let clock = Stopwatch::start();
        let (this, opened, figures) = (self.clone(), opened.clone(), shared.figures.clone());
        shared.threads.give(Box::new(move || {
            let waited = clock.ns();
            note::clear();
            let mut out = Replies::default();
            let errno = match this.output.is_gone() && !is_write {
                true => 0,
                false => request::perform(&request, &data, agreed, &*opened.export, &mut out),
            };
            drop(data);
            figures.answered(names, &answered(&request, errno, &clock, waited));
            this.output.send(out.take(), false);
            drop(reserved);
            drop(opened);
            this.end();
        }));
        Ok(())
    }

    /// Receives the data of a write, for which memory is reserved. Gives up if the data does not
    /// arrive and others need that memory.
    fn data(&self, shared: &Arc<Shared>, input: &mut Input, length: usize) -> io::Result<Vec<u8>> {
        if input.has(length) {
            return input.take(length, &mut || true);
        }
        self.socket.set_patience(Some(LOOK))?;
        let begun = Instant::now();
        self.now_waits(Waits::Rest(begun));
        let data = input.take(length, &mut || {
            self.is_stopping.load(Ordering::SeqCst) || shared.memory.is_short() && begun.elapsed() > STALLED
        });
        self.socket.set_patience(None)?;
        self.now_waits(Waits::Nothing);
        data
    }

    fn begin(&self) {
        let mut under_way = self.under_way.lock();
        while *under_way >= UNDER_WAY_MAX {
            self.fewer.wait(&mut under_way);
        }
        *under_way += 1;
    }

    fn end(&self) {
        *self.under_way.lock() -= 1;
        self.fewer.notify_all();
    }
}

fn answered(request: &Request, errno: u32, clock: &Stopwatch, waited_ns: u64) -> Answered {
    Answered {
        command: request.command,
        offset: request.offset,
        length: request.length,
        errno,
        latency_ns: clock.ns(),
        waited_ns,
    }
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
