//! HTTP over TCP: connections in, requests to the router, and no client holds up the others.
//!
//! Invariants:
//!   * [`CONNECTIONS`] are open at once, [`OF_AN_ADDRESS`] of one network; a further one takes the place of the connection that has
//!     waited the longest for its client, so that slow clients keep no place from others
//!   * a handshake, and the head of each request, have [`PATIENCE`]; so has a body (`web::reply`)
//!   * a client that takes nothing of its answer for [`STALLED`] is disconnected

use crate::places::network;
use crate::tls::Current;
use anyhow::{Context as _, Result};
use axum::Router;
use axum::extract::connect_info::ConnectInfo;
use hyper::Request;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::time::Sleep;
use tokio_rustls::TlsAcceptor;

/// Connections at once.
const CONNECTIONS: usize = 1024;
/// Connections of one network at once: an IPv4 address, or the /64 of an IPv6 address.
const OF_AN_ADDRESS: usize = 128;
/// For a handshake, and for the head of a request.
const PATIENCE: Duration = Duration::from_secs(15);

/// How long a client may take nothing of what it asked for.
const STALLED: Duration = Duration::from_secs(60);

/// The other end of a connection over TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remote {
    /// Its address.
    pub address: SocketAddr,
    /// Whether what passes is encrypted.
    pub tls: bool,
}

/// Listens at an address.
pub fn bind(address: SocketAddr) -> Result<TcpListener> {
    let listener = std::net::TcpListener::bind(address)
        .with_context(|| format!("cannot listen on {address}{}", privileged(&[address])))?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener).with_context(|| format!("cannot listen on {address}"))
}

/// What to do where ports are for root, if one of these is.
pub fn privileged(addresses: &[SocketAddr]) -> &'static str {
    match !rustix::process::geteuid().is_root() && addresses.iter().any(|a| (1..1024).contains(&a.port())) {
        true => " (ports below 1024 require root: use another port, or set sysctl net.ipv4.ip_unprivileged_port_start)",
        false => "",
    }
}

/// A connection that is open.
pub(crate) struct Visitor {
    /// Since when it waits for its client; `None`: its client waits for us.
    since: Mutex<Option<Instant>>,
    /// Wakes it to end, as another one takes its place.
    end: Notify,
}

impl Visitor {
    fn new() -> Arc<Self> {
        Arc::new(Self { since: Mutex::new(Some(Instant::now())), end: Notify::new() })
    }

    /// Its client has sent all that was needed, or is known: it keeps its place.
    pub(crate) fn works(&self) {
        *self.since.lock() = None;
    }

    fn waits(&self) {
        self.since.lock().get_or_insert_with(Instant::now);
    }
}

/// All connections, by network.
#[derive(Default)]
struct Connected(Mutex<BTreeMap<IpAddr, Vec<Arc<Visitor>>>>);

/// A connection that is counted.
struct Place {
    connected: Arc<Connected>,
    network: IpAddr,
    visitor: Arc<Visitor>,
}

impl Connected {
    /// A place for a connection from there. When all are taken, it is that of the connection that has waited the longest for its
    /// client; `None`: none of them waits.
    fn take(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let (network, visitor) = (network(address), Visitor::new());
        let mut all = self.0.lock();
        let own = all.get(&network).map_or(0, Vec::len);
        let of_own = own >= OF_AN_ADDRESS;
        if of_own || all.values().map(Vec::len).sum::<usize>() >= CONNECTIONS {
            let from = all.iter().filter(|(of, _)| !of_own || **of == network);
            let waiting = from.flat_map(|(of, visitors)| visitors.iter().map(move |v| (*of, v)));
            let waiting = waiting.filter_map(|(of, visitor)| Some(((*visitor.since.lock())?, of, visitor.clone())));
            let (_, of, longest) = waiting.min_by_key(|(since, _, _)| *since)?;
            remove(&mut all, of, &longest);
            longest.end.notify_one();
        }
        all.entry(network).or_default().push(visitor.clone());
        Some(Place { connected: self.clone(), network, visitor })
    }
}

fn remove(all: &mut BTreeMap<IpAddr, Vec<Arc<Visitor>>>, of: IpAddr, visitor: &Arc<Visitor>) {
    if let Some(visitors) = all.get_mut(&of) {
        visitors.retain(|v| !Arc::ptr_eq(v, visitor));
        if visitors.is_empty() {
            all.remove(&of);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        remove(&mut self.connected.0.lock(), self.network, &self.visitor);
    }
}

/// A socket whose client is not waited for without end.
struct Patient {
    socket: TcpStream,
    visitor: Arc<Visitor>,
    /// Ends while the client does not read.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Patient {
    /// Passes on how a write went, unless the client has taken nothing for [`STALLED`].
    fn written<T>(&mut self, cx: &mut Context<'_>, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if result.is_ready() {
            if self.stalled.take().is_some() {
                self.visitor.works();
            }
            return result;
        }
        self.visitor.waits();
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(STALLED)));
        match stalled.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read"))),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Patient {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buf)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.socket).poll_write(cx, buf);
        self.written(cx, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.socket).poll_write_vectored(cx, bufs);
        self.written(cx, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

/// A body, and what its end means.
struct Watched<B> {
    body: B,
    visitor: Arc<Visitor>,
    is_answer: bool,
}

impl<B: Body + Unpin> Body for Watched<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if !self.is_answer && (matches!(frame, Poll::Ready(None)) || self.body.is_end_stream()) {
            self.visitor.works();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for Watched<B> {
    fn drop(&mut self) {
        if self.is_answer {
            self.visitor.waits();
        }
    }
}

/// Serves until `stopped` is true; then lets requests that run end.
pub async fn serve(
    listener: TcpListener,
    tls: Option<Arc<Current>>,
    router: Router,
    mut stopped: watch::Receiver<bool>,
) {
    let connected = Arc::new(Connected::default());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopped.wait_for(|stopped| *stopped) => return,
        };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of descriptors, or a client that is gone already: the next may do better.
                tracing::debug!(%error, "accept");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let Some(place) = connected.take(address.ip()) else { continue };
        let (tls, router, stopped) = (tls.as_ref().map(|tls| tls.acceptor()), router.clone(), stopped.clone());
        tokio::spawn(async move {
            let visitor = place.visitor.clone();
            tokio::select! {
                result = connection(stream, address, tls, router, stopped, visitor.clone()) => {
                    if let Err(error) = result {
                        tracing::debug!(%address, %error, "connection");
                    }
                }
                () = visitor.end.notified() => tracing::debug!(%address, "replaced by another connection"),
            }
            drop(place);
        });
    }
}

async fn connection(
    stream: TcpStream,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
    router: Router,
    stopped: watch::Receiver<bool>,
    visitor: Arc<Visitor>,
) -> Result<()> {
    stream.set_nodelay(true)?;
    let remote = Remote { address, tls: tls.is_some() };
    let stream = Patient { socket: stream, visitor: visitor.clone(), stalled: None };
    match tls {
        Some(tls) => {
            let stream =
                tokio::time::timeout(PATIENCE, tls.accept(stream)).await.context("the handshake took too long")??;
            requests(stream, remote, router, stopped, visitor).await
        }
        None => requests(stream, remote, router, stopped, visitor).await,
    }
}

async fn requests(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    remote: Remote,
    router: Router,
    mut stopped: watch::Receiver<bool>,
    visitor: Arc<Visitor>,
) -> Result<()> {
    let router = router.layer(axum::Extension(ConnectInfo(remote))).layer(axum::Extension(visitor.clone()));
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |request: Request<Incoming>| {
        let (visitor, router) = (visitor.clone(), router.clone());
        if request.body().is_end_stream() {
            visitor.works();
        }
        let asked = visitor.clone();
        let request = request.map(|body| axum::body::Body::new(Watched { body, visitor: asked, is_answer: false }));
        async move {
            let response = router.call(request).await?;
            visitor.works();
            Ok::<_, Infallible>(response.map(|body| Watched { body, visitor, is_answer: true }))
        }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .max_buf_size(64 << 10)
        .serve_connection(TokioIo::new(stream), service);
    let mut serving = std::pin::pin!(serving);
    let mut ends = false;
    loop {
        tokio::select! {
            result = serving.as_mut() => return Ok(result?),
            _ = stopped.wait_for(|stopped| *stopped), if !ends => {
                ends = true;
                serving.as_mut().graceful_shutdown();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_cannot_take_all_places() {
        let connected = Arc::new(Connected::default());
        let a = IpAddr::from([192, 0, 2, 1]);
        let mut places: Vec<Place> = (0..OF_AN_ADDRESS).filter_map(|_| connected.take(a)).collect();
        places.iter().for_each(|place| place.visitor.works());
        assert!(connected.take(a).is_none());
        assert!(connected.take(IpAddr::from([192, 0, 2, 2])).is_some());
        places.pop();
        assert!(connected.take(a).is_some());
        drop(places);
        assert!(connected.0.lock().is_empty());
    }

    #[test]
    fn addresses_of_one_network_of_ipv6_are_one() {
        let connected = Arc::new(Connected::default());
        let address = |last: usize| IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, last as u16]);
        let places: Vec<Place> = (0..OF_AN_ADDRESS).filter_map(|i| connected.take(address(i))).collect();
        places.iter().for_each(|place| place.visitor.works());
        assert!(connected.take(address(9999)).is_none());
    }

    #[tokio::test]
    async fn a_further_connection_takes_the_place_of_the_one_that_has_waited_longest_for_its_client() {
        let connected = Arc::new(Connected::default());
        let a = IpAddr::from([192, 0, 2, 1]);
        let places: Vec<Place> = (0..OF_AN_ADDRESS).filter_map(|_| connected.take(a)).collect();
        places[0].visitor.works();
        let further = connected.take(a).expect("a place");
        places[1].visitor.end.notified().await;
        assert_eq!(connected.0.lock()[&a].len(), OF_AN_ADDRESS);
        // One that was answered waits for its client's next request, and has waited for less than the others.
        places[0].visitor.waits();
        let another = connected.take(a).expect("a place");
        places[2].visitor.end.notified().await;
        drop((further, another, places));
        assert!(connected.0.lock().is_empty());
    }

    #[test]
    fn when_all_places_are_taken_slow_clients_of_any_address_make_room() {
        let connected = Arc::new(Connected::default());
        let address = |n: usize| IpAddr::from([10, 0, (n >> 8) as u8, n as u8]);
        let places: Vec<Place> = (0..CONNECTIONS).filter_map(|n| connected.take(address(n))).collect();
        assert_eq!(places.len(), CONNECTIONS);
        places.iter().skip(1).for_each(|place| place.visitor.works());
        let further = connected.take(address(CONNECTIONS)).expect("the place of the one that waits for its client");
        further.visitor.works();
        assert!(connected.take(address(CONNECTIONS + 1)).is_none(), "no client is slow now");
    }
}
