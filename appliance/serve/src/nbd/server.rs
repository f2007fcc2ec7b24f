//! Listens for connections and starts a thread for each.

use super::connection::{Connection, Shared, Tls};
use super::export::Exports;
use super::figures::Figures;
use super::stream::Socket;
use super::threads::Threads;
use crate::net::budget::Budget;
use crate::network::network;
use crate::nfs::{HostNames, HostPattern};
use parking_lot::{Condvar, Mutex};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::sockopt;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// TCP keepalive time: a volume is in use as long as it has a client, so dead clients must be
/// detected.
const KEEPALIVE: Duration = Duration::from_secs(60);
const STACK_BYTES: usize = 512 << 10;
/// Interval between checks for clients that do not read their answers while others need memory.
const LOOK: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };

/// Maximum number of concurrent handshakes per network.
const HANDSHAKES: usize = 128;

/// Configuration of a server.
#[derive(Clone)]
pub struct Config {
    /// TCP addresses to listen on; may be empty.
    pub listen: Vec<SocketAddr>,
    /// Path of a Unix socket, accessible only to this process's user. An existing socket is
    /// replaced.
    pub socket: Option<PathBuf>,
    /// Hosts that may connect over TCP.
    pub hosts: Vec<HostPattern>,
    /// TLS; `None`: not available.
    pub tls: Option<Tls>,
    /// Over TCP, disclose nothing without TLS.
    pub tls_required: bool,
    /// Maximum number of TCP connections. A further one replaces a connection that makes no
    /// progress with its handshake or request; if there is none, it is closed. The Unix socket has
    /// the same number again.
    pub connections: usize,
    /// Maximum number of connections per network: an IPv4 address, or an IPv6 /64.
    pub connections_of_one: usize,
    /// Memory for requests in progress and unsent answers. One client gets at most half of it.
    pub memory_bytes: usize,
    /// Maximum number of threads for requests that wait.
    pub threads: usize,
    pub figures: Arc<Figures>,
    /// How long a stop waits for requests in progress.
    pub patience: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: Vec::new(),
            socket: None,
            hosts: vec![HostPattern::Everyone],
            tls: None,
            tls_required: false,
            connections: 2048,
            connections_of_one: 1024,
            memory_bytes: 256 << 20,
            threads: 128,
            figures: Arc::default(),
            patience: Duration::from_secs(10),
        }
    }
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// The connections of a server.
struct Inner {
    shared: Arc<Shared>,
    config: Config,
    names: HostNames,
    connections: Mutex<BTreeMap<u64, Arc<Connection>>>,
    fewer: Condvar,
    next: AtomicU64,
    /// Readable when the server stops.
    wake: OwnedFd,
}

/// A running server. Dropping it stops it.
pub struct Server {
    inner: Arc<Inner>,
    addresses: Vec<SocketAddr>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    /// Starts the server. Fails if an address or the socket cannot be bound; the error names it.
    pub fn start(config: Config, exports: Arc<dyn Exports>) -> io::Result<Self> {
        let mut listeners = Vec::new();
        let mut addresses = Vec::new();
        for address in &config.listen {
            let with = |e: io::Error| io::Error::new(e.kind(), format!("{address}: {e}"));
            let listener = TcpListener::bind(address).map_err(with)?;
            listener.set_nonblocking(true)?;
            addresses.push(listener.local_addr()?);
            listeners.push(Listener::Tcp(listener));
        }
        if let Some(path) = &config.socket {
            listeners.push(Listener::Unix(listen_at(path)?));
        }
        let shared = Arc::new(Shared {
            exports,
            tls: config.tls.clone(),
            memory: Budget::new(config.memory_bytes, config.figures.memory.clone()),
            threads: Threads::new(config.threads),
            figures: config.figures.clone(),
        });
        let inner = Arc::new(Inner {
            shared,
            config,
            names: HostNames::default(),
            connections: Mutex::default(),
            fewer: Condvar::new(),
            next: AtomicU64::new(1),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        });
        let this = inner.clone();
        let thread = std::thread::Builder::new().name("nbd-listen".to_owned());
        let thread = Some(thread.spawn(move || this.listen(&listeners))?);
        Ok(Self { inner, addresses, thread })
    }

    /// TCP addresses, in the order of the configuration.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    pub fn figures(&self) -> &Arc<Figures> {
        &self.inner.config.figures
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = rustix::io::write(&self.inner.wake, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        if let Some(path) = &self.inner.config.socket {
            let _ = std::fs::remove_file(path);
        }
        let until = Instant::now() + self.inner.config.patience;
        let mut connections = self.inner.connections.lock();
        connections.values().for_each(|c| c.stop());
        while !connections.is_empty() {
            if self.inner.fewer.wait_until(&mut connections, until).timed_out() {
                tracing::warn!(connections = connections.len(), "NBD clients are disconnected");
                connections.values().for_each(|c| c.cut());
                break;
            }
        }
    }
}

fn listen_at(path: &PathBuf) -> io::Result<UnixListener> {
    let with = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(with(e)),
        _ => {}
    }
    // The socket gets its permissions under a temporary name, so that no other user can connect
    // before.
    let hidden = path.with_extension(format!("new-{}", std::process::id()));
    let _ = std::fs::remove_file(&hidden);
    let listener = UnixListener::bind(&hidden).map_err(with)?;
    std::fs::set_permissions(&hidden, std::fs::Permissions::from_mode(0o600)).map_err(with)?;
    std::fs::rename(&hidden, path).map_err(with)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

impl Inner {
    fn listen(self: &Arc<Self>, listeners: &[Listener]) {
        loop {
            let fds = listeners.iter().map(|listener| match listener {
                Listener::Tcp(l) => l.as_fd(),
                Listener::Unix(l) => l.as_fd(),
            });
            let all = std::iter::once(self.wake.as_fd()).chain(fds);
            let mut polled: Vec<_> = all.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
            if poll(&mut polled, Some(&LOOK)).is_err() {
                continue;
            }
            if self.shared.memory.is_short() {
                let stalled = |c: &&Arc<Connection>| c.is_stalled();
                let stalled: Vec<_> = self.connections.lock().values().filter(stalled).cloned().collect();
                for connection in stalled {
                    tracing::warn!(
                        "disconnected an NBD client that does not read replies, because its memory is needed"
                    );
                    connection.cut();
                }
            }
            if !polled[0].revents().is_empty() {
                return;
            }
            for (listener, polled) in listeners.iter().zip(&polled[1..]) {
                if !polled.revents().is_empty() {
                    self.accept(listener);
                }
            }
        }
    }

    fn accept(self: &Arc<Self>, listener: &Listener) {
        loop {
            let accepted = match listener {
                Listener::Tcp(l) => l.accept().map(|(socket, address)| (Socket::Tcp(socket), Some(address))),
                Listener::Unix(l) => l.accept().map(|(socket, _)| (Socket::Unix(socket), None)),
            };
            match accepted {
                Ok((socket, address)) => {
                    if let Err(error) = self.take(socket, address) {
                        tracing::debug!(?address, %error, "cannot serve a connection of NBD");
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    // An error of one client, or no file descriptors are left: then it would recur
                    // immediately.
                    tracing::warn!(%error, "cannot accept an NBD connection");
                    std::thread::sleep(Duration::from_millis(50));
                    return;
                }
            }
        }
    }

    /// Whether there is a place for a connection from `network`. If all are occupied, a connection
    /// that does not use its place is closed.
    fn has_place(&self, network: Option<IpAddr>) -> bool {
        let mut all = self.connections.lock();
        let of_own = || all.values().filter(|c| c.network() == network);
        let own = of_own().count();
        let Some(network) = network else { return own < self.config.connections };
        let is_own_full =
            own >= self.config.connections_of_one || of_own().filter(|c| c.is_new()).count() >= HANDSHAKES;
        let remote = all.values().filter(|c| c.network().is_some()).count();
        if !is_own_full && remote < self.config.connections {
            return true;
        }
        let idle = all.iter().filter_map(|(id, connection)| {
            let of = connection.network()?;
            let (class, since) = connection.idles().filter(|_| !is_own_full || of == network)?;
            Some((class, since, *id))
        });
        let Some((_, _, id)) = idle.min() else { return false };
        if let Some(connection) = all.remove(&id) {
            tracing::debug!("disconnected an idle NBD client, because another client needs the connection");
            connection.cut();
        }
        true
    }

    fn take(self: &Arc<Self>, socket: Socket, address: Option<SocketAddr>) -> io::Result<()> {
        let network = address.map(|address| network(address.ip()));
        if !self.has_place(network) {
            tracing::warn!(?address, "too many connections of NBD: this one is closed");
            return Ok(());
        }
        match &socket {
            Socket::Tcp(socket) => prepare(socket)?,
            Socket::Unix(socket) => socket.set_nonblocking(false)?,
        }
        let client = address.map_or_else(|| "local".to_owned(), |a| a.ip().to_canonical().to_string());
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let connection = Connection::new(id, socket, client, network, &self.shared.memory);
        self.connections.lock().insert(id, connection.clone());
        self.shared.figures.connections.fetch_add(1, Ordering::Relaxed);
        let this = self.clone();
        let thread = std::thread::Builder::new().name("nbd-client".to_owned()).stack_size(STACK_BYTES);
        let started = thread.spawn(move || {
            // Host names are resolved on this thread, where that delays no other connection.
            let may = |a: SocketAddr| this.config.hosts.iter().any(|host| host.matches(a.ip(), &this.names));
            if address.is_none_or(may) {
                connection.serve(&this.shared, this.config.tls_required && address.is_some());
            } else {
                tracing::info!(?address, "not among nbd.hosts: closed");
            }
            drop(connection);
            this.gone(id);
        });
        if started.is_err() {
            self.gone(id);
        }
        started.map(drop)
    }

    fn gone(&self, id: u64) {
        self.connections.lock().remove(&id);
        self.shared.figures.connections.fetch_sub(1, Ordering::Relaxed);
        self.fewer.notify_all();
    }
}

fn prepare(socket: &TcpStream) -> io::Result<()> {
    socket.set_nonblocking(false)?;
    socket.set_nodelay(true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, KEEPALIVE)?;
    sockopt::set_tcp_keepintvl(socket, KEEPALIVE / 6)?;
    Ok(())
}
