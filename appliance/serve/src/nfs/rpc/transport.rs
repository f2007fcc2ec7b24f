//! Listens, reads calls and sends answers: epoll and threads.
//!
//! ```text
//!   epoll (edges) ─> a thread ─ reads until the socket is empty ─ lets others read on
//!     ─> answers each record ─> one gathering write
//!          ├ the rest after a slow one goes to others
//!          └ calls that wait go to threads for that (`waiting`)
//! ```
//! The thread that reads a call answers it, so a call whose data is cached needs no switch to
//! another thread. Answers to calls that were read together are sent with one system call. While a
//! thread works, another may read further calls of the same connection. When calls wait for devices
//! and no thread is left, the [`Monitor`](Engine::watch_threads) adds threads, up to a limit; they
//! end when idle.
//!
//! Invariants:
//!   * no thread sleeps while it holds a lock
//!   * memory for calls and answers is bounded: above the limit nothing is read until some is
//!     released, and clients that stall in the middle of a record are disconnected when memory is
//!     short

mod in_place;
mod jobs;
mod memory;
mod thread_states;
mod threads;
mod waiting;
mod worker;

use super::connection::{Budget, Connection};
use super::{Peer, Registry};
use crate::nfs::figures::Figures;
use in_place::InPlace;
use jobs::JobQueue;
use memory::Memory;
use parking_lot::RwLock;
use rustix::event::epoll;
use rustix::fd::{AsFd, OwnedFd};
use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use thread_states::ThreadStates;
use waiting::Waiting;

/// A client that stalls in the middle of a record for this long is disconnected when memory is
/// short.
const STALLED: Duration = Duration::from_secs(20);
/// epoll tokens. Connections are numbered from 1.
const TOKEN_WAKE: u64 = u64::MAX;
const TOKEN_LISTENER: u64 = 1 << 62;

/// Limits of a server.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Maximum length of a record.
    pub record_bytes: usize,
    /// Memory for partially received calls and unsent answers.
    pub memory_bytes: usize,
    /// Maximum number of connections. Further ones are closed.
    pub connections: usize,
    /// Number of permanent threads.
    pub threads: usize,
    /// Maximum number of reading threads when many wait for devices. Calls that change something
    /// can use as many additional threads.
    pub threads_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        let threads = (2 * host::processors()).max(4);
        Self {
            record_bytes: (1 << 20) + (64 << 10),
            memory_bytes: 256 << 20,
            connections: 16 << 10,
            threads,
            threads_max: threads + 64,
        }
    }
}

enum Socket {
    Stream(TcpListener),
    Datagrams(UdpSocket),
}

struct Listener {
    socket: Socket,
    registry: Arc<Registry>,
}

/// See the module documentation.
pub(crate) struct Engine {
    poll: OwnedFd,
    listeners: Vec<Listener>,
    limits: Limits,
    connections: RwLock<HashMap<u64, Arc<Connection>>>,
    next_id: AtomicU64,
    jobs: JobQueue,
    waiting: Waiting,
    in_place: InPlace,
    threads: ThreadStates,
    memory: Memory,
}

impl Engine {
    /// Creates an engine without listeners. [`Engine::run`] starts serving.
    pub fn new(limits: Limits, figures: &Figures) -> io::Result<Self> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self {
            jobs: JobQueue::new(&poll, TOKEN_WAKE)?,
            poll,
            listeners: Vec::new(),
            connections: RwLock::default(),
            next_id: AtomicU64::new(1),
            waiting: Waiting::new(limits.threads_max.saturating_sub(limits.threads).max(1)),
            in_place: InPlace::new(limits.threads),
            threads: ThreadStates::default(),
            memory: Memory::new(Budget::new(limits.memory_bytes, figures.memory.clone())),
            limits,
        })
    }

    /// Listens for connections. Returns the local address, with the actual port if it was 0.
    pub fn listen(&mut self, address: SocketAddr, registry: &Arc<Registry>) -> io::Result<SocketAddr> {
        let socket = TcpListener::bind(address)?;
        socket.set_nonblocking(true)?;
        let local = socket.local_addr()?;
        self.add(Socket::Stream(socket), registry)?;
        Ok(local)
    }

    /// Listens for datagrams. Returns the local address.
    pub fn listen_datagrams(&mut self, address: SocketAddr, registry: &Arc<Registry>) -> io::Result<SocketAddr> {
        let socket = UdpSocket::bind(address)?;
        socket.set_nonblocking(true)?;
        let local = socket.local_addr()?;
        self.add(Socket::Datagrams(socket), registry)?;
        Ok(local)
    }

    fn add(&mut self, socket: Socket, registry: &Arc<Registry>) -> io::Result<()> {
        let token = epoll::EventData::new_u64(TOKEN_LISTENER + self.listeners.len() as u64);
        match &socket {
            Socket::Stream(s) => epoll::add(&self.poll, s, token, epoll::EventFlags::IN)?,
            Socket::Datagrams(s) => epoll::add(&self.poll, s, token, epoll::EventFlags::IN)?,
        }
        self.listeners.push(Listener { socket, registry: registry.clone() });
        Ok(())
    }

    /// All connected peers.
    pub fn peers(&self) -> Vec<Peer> {
        self.connections.read().values().map(|c| c.peer.clone()).collect()
    }

    /// Memory used by calls and answers, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.memory.budget().used()
    }

    /// Accepts nothing more, waits for calls in progress (at most `patience`) and closes all
    /// connections. The listening sockets are closed when the engine is dropped.
    pub fn stop(&self, patience: Duration) {
        self.threads.stop();
        self.waiting.stop();
        (0..self.limits.threads_max).for_each(|_| self.jobs.wake_one());
        let left = self.threads.wait_ended(Instant::now() + patience);
        if left > 0 {
            tracing::warn!(threads = left, "calls of NFS are still under way");
        }
        let all: Vec<_> = self.connections.write().drain().map(|(_, c)| c).collect();
        for connection in all {
            self.forget(&connection);
        }
    }

    fn accept(&self, index: usize) {
        let Some(Listener { socket: Socket::Stream(listener), .. }) = self.listeners.get(index) else { return };
        loop {
            let (socket, address) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    // An error of one client, or no file descriptors are left: then it would recur
                    // immediately.
                    tracing::warn!(%error, "cannot take a connection");
                    std::thread::sleep(Duration::from_millis(50));
                    return;
                }
            };
            if self.connections.read().len() >= self.limits.connections {
                tracing::warn!(%address, "too many connections: this one is closed");
                continue;
            }
            if let Err(error) = self.take(socket, address, index) {
                tracing::debug!(%address, %error, "cannot serve a connection");
            }
        }
    }

    fn take(&self, socket: std::net::TcpStream, address: SocketAddr, listener: usize) -> io::Result<()> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        let local = socket.local_addr()?;
        let socket = OwnedFd::from(socket);
        // Detects clients that disappeared.
        rustix::net::sockopt::set_socket_keepalive(&socket, true)?;
        rustix::net::sockopt::set_tcp_keepidle(&socket, Duration::from_secs(60))?;
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let ends = (address, local);
        let figures = self.listeners[listener].registry.figures();
        let (record, budget) = (self.limits.record_bytes, self.memory.budget().clone());
        let connection = Connection::new((id, listener), socket, ends, figures, record, budget);
        self.connections.write().insert(id, connection.clone());
        use epoll::EventFlags as F;
        let flags = F::IN | F::OUT | F::RDHUP | F::ET;
        if let Err(e) = epoll::add(&self.poll, connection.socket.as_fd(), epoll::EventData::new_u64(id), flags) {
            self.close(&connection);
            return Err(e.into());
        }
        Ok(())
    }

    fn close(&self, connection: &Arc<Connection>) {
        if self.connections.write().remove(&connection.id).is_some() {
            self.forget(connection);
        }
    }

    fn forget(&self, connection: &Arc<Connection>) {
        connection.is_closed.store(true, Ordering::Release);
        let _ = epoll::delete(&self.poll, connection.socket.as_fd());
        connection.hang_up();
        connection.drop_queue();
        if let Some(listener) = self.listeners.get(connection.listener) {
            listener.registry.closed(&connection.peer);
        }
    }

    /// Pauses reading from a connection until memory is available.
    fn starve(&self, connection: &Arc<Connection>) {
        self.memory.starve(connection);
        self.cut_off_stalled();
    }

    /// Resumes starved connections. Called when memory was released, or may have been.
    fn feed_starved(&self) {
        self.memory.feed_starved(|connection| self.jobs.read_later(connection));
    }

    fn cut_off_stalled(&self) {
        let all: Vec<_> = self.connections.read().values().cloned().collect();
        for connection in all.iter().filter(|c| c.is_stalled(STALLED)) {
            tracing::warn!(peer = ?connection.peer, "disconnected: it holds memory without making progress");
            connection.hang_up();
        }
    }
}
