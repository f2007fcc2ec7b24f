//! The other end of a connection.

use crate::nfs::figures::{ClientFigures, Figures};
use crate::nfs::xdr::Writer;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

/// What a message came over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// A stream of records.
    Tcp,
    /// Datagrams.
    Udp,
}

/// Puts a record on a connection that is still there.
pub trait Sender: Send + Sync {
    /// Queues it and sends what goes; false if the connection is gone.
    fn send(&self, record: Writer) -> bool;
}

/// The other end of a connection, or who sent a datagram. Cheap to clone.
#[derive(Clone)]
pub struct Peer {
    /// Number of the connection: none is ever the same, while the process lives.
    pub connection: u64,
    /// The client. IPv4 also where the socket speaks IPv6.
    pub address: SocketAddr,
    /// Ours, as the client knows it.
    pub local: SocketAddr,
    /// What it came over.
    pub transport: Transport,
    /// What it asked for so far.
    pub client: Arc<ClientFigures>,
    pub(super) sender: Option<Weak<dyn Sender>>,
}

impl std::fmt::Debug for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {} #{}", self.transport, self.address, self.connection)
    }
}

impl Peer {
    /// Without a connection: for datagrams and tests.
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

    /// Of a connection.
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

    /// Sends a record (a call of ours, say) over the connection; false if it is gone.
    pub fn send(&self, record: Writer) -> bool {
        self.sender.as_ref().and_then(Weak::upgrade).is_some_and(|sender| sender.send(record))
    }

    /// The connection is still there.
    pub fn is_connected(&self) -> bool {
        self.sender.as_ref().is_some_and(|sender| sender.strong_count() > 0)
    }
}

fn canonical(mut address: SocketAddr) -> SocketAddr {
    address.set_ip(address.ip().to_canonical());
    address
}
