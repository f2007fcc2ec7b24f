//! Port mapper: PORTMAP version 2 and RPCBIND versions 3 and 4 (RFC 1833), for clients that look up
//! a program's port before they call it.
//!
//! If a port mapper already runs on this machine, our programs are registered with it instead
//! ([`register`]).
//!
//! Indirect calls (CALLIT) are refused: with them, others could make this server send attacks from
//! its own address.

use super::rpc::message::{Message, put_call, succeeded};
use super::rpc::{Call, Fault, Program, Transport};
use super::xdr::{Reader, Writer};
use parking_lot::RwLock;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// RPC program number of the port mapper.
pub const PROGRAM: u32 = 100_000;
/// The port at which clients expect the port mapper.
pub const PORT: u16 = 111;
const TEXT_MAX: usize = 1024;
const PATIENCE: Duration = Duration::from_secs(2);

/// A program, version and transport at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapping {
    pub program: u32,
    pub version: u32,
    pub transport: Transport,
    pub address: SocketAddr,
}

/// All mappings; set once the listeners exist.
#[derive(Default)]
pub struct Mappings(RwLock<Vec<Mapping>>);

impl Mappings {
    pub fn set(&self, all: Vec<Mapping>) {
        *self.0.write() = all;
    }

    fn list(&self) -> Vec<Mapping> {
        self.0.read().clone()
    }

    /// The best match for a query. Falls back to another version if the requested one does not
    /// exist.
    fn find(&self, program: u32, version: u32, transport: Transport) -> Option<Mapping> {
        let all = self.0.read();
        let fits = |m: &&Mapping| m.program == program && m.transport == transport;
        let exact = all.iter().filter(fits).find(|m| m.version == version);
        exact.or_else(|| all.iter().find(fits)).copied()
    }
}

/// One version of the program.
pub struct Portmap {
    mappings: Arc<Mappings>,
    version: u32,
}

impl Portmap {
    /// Versions 2, 3 and 4.
    pub fn versions(mappings: &Arc<Mappings>) -> Vec<Arc<dyn Program>> {
        let one = |version| -> Arc<dyn Program> { Arc::new(Self { mappings: mappings.clone(), version }) };
        vec![one(2), one(3), one(4)]
    }

    fn v2(&self, procedure: u32, args: &mut Reader<'_>, out: &mut Writer) -> Result<(), Fault> {
        match procedure {
            // SET and UNSET: other programs cannot register here.
            1 | 2 => out.bool(false),
            3 => {
                let (program, version, protocol, _port) = (args.u32()?, args.u32()?, args.u32()?, args.u32()?);
                let found = transport(protocol).and_then(|t| self.mappings.find(program, version, t));
                out.u32(found.map_or(0, |m| u32::from(m.address.port())));
            }
            4 => {
                for m in self.mappings.list() {
                    out.bool(true);
                    out.u32(m.program);
                    out.u32(m.version);
                    out.u32(protocol(m.transport));
                    out.u32(u32::from(m.address.port()));
                }
                out.bool(false);
            }
            _ => return Err(Fault::ProcedureUnavailable),
        }
        Ok(())
    }

    fn bind(&self, call: &Call<'_>, args: &mut Reader<'_>, out: &mut Writer) -> Result<(), Fault> {
        match call.header.procedure {
            1 | 2 => out.bool(false),
            // GETADDR, GETVERSADDR.
            3 | 9 => {
                let (program, version) = (args.u32()?, args.u32()?);
                let netid = args.opaque(TEXT_MAX)?;
                // Uses the transport of the query unless it names another.
                let transport = if netid.starts_with(b"udp") {
                    Transport::Udp
                } else if netid.starts_with(b"tcp") {
                    Transport::Tcp
                } else {
                    call.peer.transport
                };
                let found = self.mappings.find(program, version, transport);
                out.opaque(found.map_or_else(String::new, |m| universal(seen_as(m.address, call))).as_bytes());
            }
            4 => {
                for m in self.mappings.list() {
                    let address = seen_as(m.address, call);
                    out.bool(true);
                    out.u32(m.program);
                    out.u32(m.version);
                    out.opaque(netid(m.transport, address).as_bytes());
                    out.opaque(universal(address).as_bytes());
                    out.opaque(b"superuser");
                }
                out.bool(false);
            }
            // GETTIME.
            6 => out.u32(files::vfs::Time::now().seconds as u32),
            // GETADDRLIST.
            11 => {
                let (program, version) = (args.u32()?, args.u32()?);
                let all = self.mappings.list();
                for m in all.iter().filter(|m| m.program == program && m.version == version) {
                    let address = seen_as(m.address, call);
                    out.bool(true);
                    out.opaque(universal(address).as_bytes());
                    out.opaque(netid(m.transport, address).as_bytes());
                    // Semantics: connection-oriented with orderly release, or connectionless.
                    out.u32(if m.transport == Transport::Tcp { 3 } else { 1 });
                    out.opaque(if address.is_ipv4() { b"inet" } else { b"inet6" });
                    out.opaque(if m.transport == Transport::Tcp { b"tcp" } else { b"udp" });
                }
                out.bool(false);
            }
            _ => return Err(Fault::ProcedureUnavailable),
        }
        Ok(())
    }
}

impl Program for Portmap {
    fn number(&self) -> u32 {
        PROGRAM
    }

    fn version(&self) -> u32 {
        self.version
    }

    fn name(&self) -> &'static str {
        "portmap"
    }

    fn procedures(&self) -> &'static [&'static str] {
        &[
            "null",
            "set",
            "unset",
            "getport",
            "dump",
            "callit",
            "gettime",
            "uaddr2taddr",
            "taddr2uaddr",
            "getversaddr",
            "indirect",
            "getaddrlist",
            "getstat",
        ]
    }

    fn call(&self, call: &Call<'_>, args: &mut Reader<'_>, out: &mut Writer) -> Result<(), Fault> {
        match self.version {
            2 => self.v2(call.header.procedure, args, out),
            _ => self.bind(call, args, out),
        }
    }
}

fn protocol(transport: Transport) -> u32 {
    match transport {
        Transport::Tcp => 6,
        Transport::Udp => 17,
    }
}

fn transport(protocol: u32) -> Option<Transport> {
    match protocol {
        6 => Some(Transport::Tcp),
        17 => Some(Transport::Udp),
        _ => None,
    }
}

/// The address by which the client reaches us, if the program listens on the unspecified address.
fn seen_as(mut address: SocketAddr, call: &Call<'_>) -> SocketAddr {
    if address.ip().is_unspecified() && !call.peer.local.ip().is_unspecified() {
        address.set_ip(call.peer.local.ip());
    }
    address
}

/// A universal address (RFC 5665): the port is appended as two more numbers.
fn universal(address: SocketAddr) -> String {
    let [high, low] = address.port().to_be_bytes();
    format!("{}.{high}.{low}", address.ip())
}

fn netid(transport: Transport, address: SocketAddr) -> String {
    let name = if transport == Transport::Tcp { "tcp" } else { "udp" };
    format!("{name}{}", if address.is_ipv4() { "" } else { "6" })
}

/// Registers programs with this machine's port mapper (`set`), or unregisters them. Fails if no
/// port mapper runs.
pub fn register(mappings: &[Mapping], set: bool) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&SocketAddr::from(([127, 0, 0, 1], PORT)), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    for (xid, m) in mappings.iter().enumerate() {
        let done = ask(&mut stream, xid as u32, PROGRAM, 2, if set { 1 } else { 2 }, |w| {
            w.u32(m.program);
            w.u32(m.version);
            w.u32(protocol(m.transport));
            w.u32(u32::from(m.address.port()));
        })?;
        if set && Reader::new(&done).bool() != Ok(true) {
            tracing::warn!(program = m.program, version = m.version, "the port mapper of this machine rejected it");
        }
    }
    Ok(())
}

/// Asks the port mapper of `host` for the TCP port of a program.
pub fn port_of(host: IpAddr, program: u32, version: u32) -> io::Result<u16> {
    let mut stream = TcpStream::connect_timeout(&SocketAddr::new(host, PORT), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let answer = ask(&mut stream, 1, PROGRAM, 2, 3, |w| [program, version, 6, 0].iter().for_each(|n| w.u32(*n)))?;
    let port = Reader::new(&answer).u32().ok().and_then(|port| u16::try_from(port).ok()).unwrap_or(0);
    if port == 0 { Err(io::Error::other(format!("{host} has no program {program}"))) } else { Ok(port) }
}

/// Makes one call over a connection and returns its results.
pub fn ask(
    stream: &mut TcpStream,
    xid: u32,
    program: u32,
    version: u32,
    procedure: u32,
    args: impl FnOnce(&mut Writer),
) -> io::Result<Vec<u8>> {
    const ANSWER_MAX: usize = 64 << 10;
    let bad = || io::Error::new(io::ErrorKind::InvalidData, "no answer of RPC");
    let mut call = Writer::new();
    put_call(&mut call, xid, program, version, procedure);
    args(&mut call);
    let call = call.to_vec();
    stream.write_all(&[&(call.len() as u32 | 1 << 31).to_be_bytes()[..], &call].concat())?;
    let mut mark = [0; 4];
    stream.read_exact(&mut mark)?;
    let len = (u32::from_be_bytes(mark) & !(1 << 31)) as usize;
    if len > ANSWER_MAX {
        return Err(bad());
    }
    let mut answer = vec![0; len];
    stream.read_exact(&mut answer)?;
    let mut r = Reader::new(&answer);
    match Message::parse(&mut r) {
        Ok(Message::Reply(got)) if got == xid => {}
        _ => return Err(bad()),
    }
    succeeded(&mut r).map_err(|_| bad())?;
    Ok(r.rest().to_vec())
}
