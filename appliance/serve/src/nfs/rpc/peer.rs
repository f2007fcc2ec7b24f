//! The other end of a connection.

use crate::nfs::figures::{ClientFigures, Figures};
use crate::nfs::xdr::Writer;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

/// Transport of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// A stream of records.
    Tcp,
    /// Datagrams, each with one call or reply.
    Udp,
}

/// Sends records on a connection.
pub trait Sender: Send + Sync {
    /// Queues a record and sends as much as possible. Returns false if the connection is closed.
    fn send(&self, record: Writer) -> bool;
}

/// The other end of a connection, or the sender of a datagram. Cheap to clone.
#[derive(Clone)]
pub struct Peer {
    /// Number of the connection, unique within the life of the process.
    pub connection: u64,
    /// Address of the client; IPv4 even if the socket is IPv6.
    pub address: SocketAddr,
    /// Our address, as the client knows it.
    pub local: SocketAddr,
    pub transport: Transport,
    /// Statistics of the client.
    pub client: Arc<ClientFigures>,
    pub(super) sender: Option<Weak<dyn Sender>>,
}

impl std::fmt::Debug for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {} #{}", self.transport, self.address, self.connection)
    }
}

impl Peer {
    /// A peer without a connection, for datagrams and tests.
    pub fn datagram(address: SocketAddr, local: SocketAddr) -> Self {
        Self {
            connection: 0,
            address: canonical(address),
            local: canonical(local),
            transport: Transport::Udp,
            client: Arc::default(),
            sender: None,
        }
    }

    /// The peer of a connection.
    pub(super) fn stream(
        connection: u64,
        (address, local): (SocketAddr, SocketAddr),
        figures: &Figures,
        sender: Weak<dyn Sender>,
    ) -> Self {
        let (address, local) = (canonical(address), canonical(local));
        let client = figures.connected(address.ip());
        Self { connection, address, local, transport: Transport::Tcp, client, sender: Some(sender) }
    }

    /// Sends a record, such as a callback, over the connection. Returns false if the connection is
    /// closed.
    pub fn send(&self, record: Writer) -> bool {
        self.sender.as_ref().and_then(Weak::upgrade).is_some_and(|sender| sender.send(record))
    }

    /// Whether the connection is still open.
    pub fn is_connected(&self) -> bool {
        self.sender.as_ref().is_some_and(|sender| sender.strong_count() > 0)
    }
}

fn canonical(mut address: SocketAddr) -> SocketAddr {
    address.set_ip(address.ip().to_canonical());
    address
}
