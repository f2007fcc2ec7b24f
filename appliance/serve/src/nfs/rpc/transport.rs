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
//!   * memory for calls and answers is bounded, and no client gets so much of it that another one
//!     gets none: a client that holds its share is neither read nor served until some is released,
//!     and is disconnected if it stalls meanwhile

mod in_place;
mod jobs;
mod memory;
#[cfg(test)]
mod schedules;
mod thread_states;
mod threads;
mod worker;

use super::connection::{Budgets, Connection};
use super::{Peer, Registry};
use crate::net::budget::Budget;
use crate::net::waiting::Waiting;
use crate::nfs::figures::{Figures, Refusal};
use in_place::InPlace;
use jobs::{Handed, JobQueue};
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

/// epoll tokens. Connections are numbered from 1.
const TOKEN_WAKE: u64 = u64::MAX;
const TOKEN_LISTENER: u64 = 1 << 62;

/// Limits of a server.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Maximum length of a record.
    pub record_bytes: usize,
    /// Memory for calls and unsent answers. One client gets at most half of it.
    pub memory_bytes: usize,
    /// A client that holds memory and makes no progress for this long is disconnected when memory
    /// is short.
    pub stalled: Duration,
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
            stalled: Duration::from_secs(20),
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
    /// Calls that wait. Threads that read connections answer such a call themselves only while
    /// fewer than half of them do.
    waiting: Waiting<Handed>,
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
            waiting: Waiting::new(limits.threads_max.saturating_sub(limits.threads)),
            in_place: InPlace::new(limits.threads),
            threads: ThreadStates::default(),
            memory: Memory::new(Budgets {
                calls: Budget::new(limits.memory_bytes / 2, figures.calls_memory.clone()),
                answers: Budget::new(limits.memory_bytes / 2, figures.answers_memory.clone()),
            }),
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

    /// The peers of all open TCP connections.
    pub fn peers(&self) -> Vec<Peer> {
        self.connections.read().values().map(|c| c.peer.clone()).collect()
    }

    /// Memory used by calls and answers, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.memory.used()
    }

    /// Accepts nothing more, waits for calls in progress (at most `patience`) and closes all
    /// connections. The listening sockets are closed when the engine is dropped.
    pub fn stop(&self, patience: Duration) {
        self.threads.stop();
        self.waiting.stop();
        (0..self.limits.threads_max).for_each(|_| self.jobs.wake_one());
        let left = self.threads.wait_ended(Instant::now() + patience);
        if left > 0 {
            tracing::warn!(threads = left, "NFS calls are still in progress");
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
                    tracing::warn!(%error, "cannot accept a connection");
                    std::thread::sleep(Duration::from_millis(50));
                    return;
                }
            };
            if self.connections.read().len() >= self.limits.connections {
                tracing::warn!(%address, "too many connections: this one is closed");
                self.listeners[index].registry.figures().refuse(Refusal::Connections);
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
        let ends = (address, socket.local_addr()?);
        let socket = OwnedFd::from(socket);
        // Detects clients that disappeared.
        rustix::net::sockopt::set_socket_keepalive(&socket, true)?;
        rustix::net::sockopt::set_tcp_keepidle(&socket, Duration::from_secs(60))?;
        self.connect(socket, ends, listener)
    }

    /// Begins to serve a connected socket, which does not wait.
    fn connect(&self, socket: OwnedFd, ends: (SocketAddr, SocketAddr), listener: usize) -> io::Result<()> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let figures = self.listeners[listener].registry.figures();
        let (record, budgets) = (self.limits.record_bytes, self.memory.budgets());
        let connection = Connection::new((id, listener), socket, ends, figures, record, budgets);
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
        let _ = epoll::delete(&self.poll, connection.socket.as_fd());
        connection.hang_up();
        connection.drop_queue();
        if let Some(listener) = self.listeners.get(connection.listener) {
            listener.registry.closed(&connection.peer);
        }
    }

    /// Ends serving a connection until its client takes answers, fewer of its calls are queued, or
    /// memory is available. The caller has no right to read, and then calls
    /// [`Self::feed_starved`].
    fn pause(&self, connection: &Arc<Connection>) {
        if connection.is_backed_up() {
            connection.reading.hold();
            // The output may have been sent in between.
            self.resume(connection);
        } else {
            self.memory.starve(connection);
            self.threads.wake_monitor();
        }
    }

    /// Resumes serving that was paused, if it may continue.
    fn resume(&self, connection: &Arc<Connection>) {
        if connection.reading.is_held() && !connection.is_backed_up() && connection.reading.release() {
            self.jobs.read_later(connection);
        }
    }

    /// Resumes starved connections. Called when memory was released, or may have been.
    fn feed_starved(&self) {
        self.memory.feed_starved(|connection| self.jobs.read_later(connection));
    }

    /// Disconnects clients that hold memory, make no progress, and do not wait for memory
    /// themselves. If all of them do, only the one that has waited longest.
    fn cut_off_stalled(&self) {
        let is_stalled = |c: &&Arc<Connection>| c.is_stalled(self.limits.stalled);
        let stalled: Vec<_> = self.connections.read().values().filter(is_stalled).cloned().collect();
        let (starved, still): (Vec<_>, Vec<_>) = stalled.into_iter().partition(|c| c.reading.is_starved());
        let longest = || starved.into_iter().max_by_key(|c| c.reading.still());
        let all = if still.is_empty() { Vec::from_iter(longest()) } else { still };
        for connection in all {
            tracing::warn!(peer = ?connection.peer, "disconnected: it holds memory without making progress");
            connection.hang_up();
        }
    }
}
