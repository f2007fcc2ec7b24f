//! HTTP over TCP: connections in, requests to the router, nobody who can hold the others up.
//!
//! Invariants:
//!   * [`CONNECTIONS`] are open at once, [`OF_AN_ADDRESS`] of one address; who comes beyond that is turned away
//!   * a handshake, and the head of each request, have [`PATIENCE`]

use crate::tls::Current;
use anyhow::{Context as _, Result};
use axum::Router;
use axum::extract::connect_info::ConnectInfo;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

/// Connections at once.
const CONNECTIONS: usize = 1024;
/// Connections of one address at once.
const OF_AN_ADDRESS: usize = 128;
/// For a handshake, and for the head of a request.
const PATIENCE: Duration = Duration::from_secs(15);

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
        .with_context(|| format!("cannot listen at {address}{}", privileged(&[address])))?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener).with_context(|| format!("cannot listen at {address}"))
}

/// What to do where ports are for root, if one of these is.
pub fn privileged(addresses: &[SocketAddr]) -> &'static str {
    match !rustix::process::geteuid().is_root() && addresses.iter().any(|a| (1..1024).contains(&a.port())) {
        true => " (ports below 1024 are for root: another port, or sysctl net.ipv4.ip_unprivileged_port_start)",
        false => "",
    }
}

/// Who is connected.
#[derive(Default)]
struct Connected(Mutex<HashMap<IpAddr, usize>>);

/// A connection that is counted.
struct Place(Arc<Connected>, IpAddr);

impl Connected {
    fn take(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let mut all = self.0.lock();
        if all.values().sum::<usize>() >= CONNECTIONS || all.get(&address).is_some_and(|n| *n >= OF_AN_ADDRESS) {
            return None;
        }
        *all.entry(address).or_default() += 1;
        Some(Place(self.clone(), address))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = self.0.0.lock();
        if let Some(count) = all.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.1);
            }
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
            let _place = place;
            if let Err(error) = connection(stream, address, tls, router, stopped).await {
                tracing::debug!(%address, %error, "connection");
            }
        });
    }
}

async fn connection(
    stream: TcpStream,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
    router: Router,
    stopped: watch::Receiver<bool>,
) -> Result<()> {
    stream.set_nodelay(true)?;
    let remote = Remote { address, tls: tls.is_some() };
    match tls {
        Some(tls) => {
            let stream =
                tokio::time::timeout(PATIENCE, tls.accept(stream)).await.context("the handshake took too long")??;
            requests(stream, remote, router, stopped).await
        }
        None => requests(stream, remote, router, stopped).await,
    }
}

async fn requests(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    remote: Remote,
    router: Router,
    mut stopped: watch::Receiver<bool>,
) -> Result<()> {
    let router = router.layer(axum::Extension(ConnectInfo(remote)));
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .max_buf_size(64 << 10)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
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
        assert!(connected.take(a).is_none());
        assert!(connected.take(IpAddr::from([192, 0, 2, 2])).is_some());
        places.pop();
        assert!(connected.take(a).is_some());
        drop(places);
        assert!(connected.0.lock().is_empty());
    }
}
