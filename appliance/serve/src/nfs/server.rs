//! The NFS server: programs, listeners and threads.

use super::core::Core;
use super::exports::{Exports, Watched};
use super::figures::{ClientInfo, Figures};
use super::grace::Grace;
use super::handle::HandleKey;
use super::locks::LockTable;
use super::monitor::{Monitor, StatusMonitor};
use super::nlm::LockManager;
use super::portmap::{self, Mapping, Mappings, Portmap};
use super::rpc::{Engine, Limits, Peer, Program, Registry, Transport};
use super::v4::{self, ClientRecords, FolderRecords, NoRecords};
use super::{mountd, rquota, v3};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How clients find the port of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortMapper {
    /// Not at all: ports must be given as mount options (`port=`, `mountport=`).
    None,
    /// Our own port mapper at these addresses, over TCP and UDP. Clients expect port 111.
    Own(Vec<SocketAddr>),
    /// The port mapper of this machine (`rpcbind`).
    System,
    /// The port mapper of this machine if there is one, otherwise our own at port 111.
    Auto,
}

/// NFS versions that clients may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Versions {
    /// Version 3, including MOUNT and NLM.
    pub v3: bool,
    /// Versions 4.0, 4.1 and 4.2.
    pub v4: [bool; 3],
}

impl Versions {
    pub const ALL: Self = Self { v3: true, v4: [true; 3] };
}

/// Configuration of a server.
#[derive(Clone)]
pub struct Config {
    /// Addresses that serve all programs. NFS clients expect port 2049.
    pub listen: Vec<SocketAddr>,
    pub versions: Versions,
    /// Additional addresses that serve MOUNT, NLM, NSM and RQUOTA.
    pub listen_side: Vec<SocketAddr>,
    pub port_mapper: PortMapper,
    /// Secret key of the file handles. It must stay the same for the life of the installation and
    /// be kept private.
    pub secret: [u8; 32],
    /// Shares without `secure` or `insecure` require clients to use ports below 1024, as in
    /// exports(5).
    pub secure_by_default: bool,
    /// Directory that records which clients hold locks, so that they can reclaim them after a
    /// restart. Without it, clients lose their locks.
    pub state: Option<PathBuf>,
    pub figures: Arc<Figures>,
    pub limits: Limits,
    /// How long a stop waits for calls in progress.
    pub patience: Duration,
    /// Grace period after a restart, and lease of version 4: how long a silent client keeps state
    /// that conflicts with others.
    pub lease_seconds: u32,
}

/// The same as the Linux server.
const LEASE_SECONDS: u32 = 90;

impl Config {
    /// A configuration with this secret and no listeners.
    pub fn new(secret: [u8; 32]) -> Self {
        Self {
            listen: Vec::new(),
            versions: Versions::ALL,
            listen_side: Vec::new(),
            port_mapper: PortMapper::None,
            secret,
            secure_by_default: true,
            state: None,
            figures: Arc::default(),
            limits: Limits::default(),
            patience: Duration::from_secs(10),
            lease_seconds: LEASE_SECONDS,
        }
    }
}

/// A running server. Dropping it stops it.
pub struct Server {
    core: Arc<Core>,
    v4: Option<Arc<v4::Server>>,
    engine: Arc<Engine>,
    addresses: Vec<SocketAddr>,
    side_addresses: Vec<SocketAddr>,
    mapper_addresses: Vec<SocketAddr>,
    registered: Vec<Mapping>,
    patience: Duration,
}

impl Server {
    /// Starts the server.
    ///
    /// Fails if an address cannot be bound (the error names it), if the state directory cannot be
    /// read, or if [`PortMapper::System`] is requested and no port mapper runs.
    pub fn start(config: Config, exports: Arc<dyn Exports>) -> io::Result<Self> {
        let grace = Arc::new(Grace::new(Duration::from_secs(config.lease_seconds.into())));
        let core = Arc::new(Core {
            exports: Watched::new(exports, config.secure_by_default),
            handles: HandleKey::new(config.secret),
            locks: Arc::new(LockTable::new(LockTable::LIMIT)),
            grace: grace.clone(),
            verifier: host::random::bytes(),
            changes: Default::default(),
            figures: config.figures.clone(),
        });
        let monitor = Arc::new(Monitor::start(config.state.as_deref(), grace)?);
        let mappings = Arc::new(Mappings::default());
        let new = || Registry::new(config.figures.clone());
        let (mut all, mut side, mut mapper) = (new(), new(), new());
        if config.versions.v3 {
            all.add(Arc::new(v3::V3::new(core.clone())));
            all.add(Arc::new(v3::side_acl::SideAcl::new(core.clone())));
        }
        let records: Arc<dyn ClientRecords> = match &config.state {
            Some(folder) => Arc::new(FolderRecords::open(&folder.join("v4-clients"))?),
            None => Arc::new(NoRecords),
        };
        let v4_config = v4::Config {
            lease_seconds: config.lease_seconds,
            server_id: server_id(&config.secret),
            minor_versions: config.versions.v4,
        };
        let mut v4 = None;
        if config.versions.v4.contains(&true) {
            let server = Arc::new(v4::Server::new(core.clone(), v4_config, records));
            all.add(server.clone());
            v4 = Some(server);
        }
        let mut other_programs: Vec<Arc<dyn Program>> = Vec::new();
        if config.versions.v3 {
            other_programs.extend(mountd::Mount::versions(&core));
            other_programs.push(LockManager::start(core.clone(), monitor.clone())?);
            other_programs.push(Arc::new(StatusMonitor(monitor)));
        }
        other_programs.extend(rquota::RemoteQuota::versions(&core));
        for program in other_programs {
            all.add(program.clone());
            side.add(program);
        }
        for program in Portmap::versions(&mappings) {
            all.add(program.clone());
            mapper.add(program);
        }
        let (all, side, mapper) = (Arc::new(all), Arc::new(side), Arc::new(mapper));

        let mut engine = Engine::new(config.limits, &config.figures)?;
        let mut listen = |addresses: &[SocketAddr], registry: &Arc<Registry>| {
            addresses.iter().map(|a| engine.listen(*a, registry).map_err(|e| at(*a, e))).collect::<io::Result<Vec<_>>>()
        };
        let addresses = listen(&config.listen, &all)?;
        let side_addresses = listen(&config.listen_side, &side)?;
        // The side protocols are also served over UDP; NFS itself is not.
        for address in addresses.iter().chain(&side_addresses) {
            engine.listen_datagrams(*address, &side).map_err(|e| at(*address, e))?;
        }
        let mut maps = Vec::new();
        for (addresses, registry) in [(&addresses, &all), (&side_addresses, &side)] {
            for address in addresses {
                let programs = registry.list().filter(|(program, _)| *program != portmap::PROGRAM);
                maps.extend(programs.map(|(program, version)| Mapping {
                    program,
                    version,
                    transport: Transport::Tcp,
                    address: *address,
                }));
                maps.extend(side.list().map(|(program, version)| Mapping {
                    program,
                    version,
                    transport: Transport::Udp,
                    address: *address,
                }));
            }
        }
        // If a program has its own port in addition to the common one, its own port is announced.
        maps.sort_by_key(|m| !side_addresses.contains(&m.address));
        let mut registered = Vec::new();
        let own = match &config.port_mapper {
            PortMapper::None => Vec::new(),
            PortMapper::Own(addresses) => addresses.clone(),
            PortMapper::System | PortMapper::Auto => match portmap::register(&maps, true) {
                Ok(()) => {
                    registered = maps.clone();
                    Vec::new()
                }
                Err(e) if config.port_mapper == PortMapper::System => return Err(e),
                Err(_) => config.listen.iter().map(|a| SocketAddr::new(a.ip(), portmap::PORT)).collect(),
            },
        };
        let mut mapper_addresses = Vec::new();
        for address in own {
            let bound = engine.listen(address, &mapper).map_err(|e| at(address, e))?;
            engine.listen_datagrams(bound, &mapper).map_err(|e| at(bound, e))?;
            mapper_addresses.push(bound);
            for transport in [Transport::Tcp, Transport::Udp] {
                maps.extend((2..=4).map(|version| Mapping {
                    program: portmap::PROGRAM,
                    version,
                    transport,
                    address: bound,
                }));
            }
        }
        mappings.set(maps);
        let engine = Arc::new(engine);
        engine.run()?;
        Ok(Self {
            core,
            v4,
            engine,
            addresses,
            side_addresses,
            mapper_addresses,
            registered,
            patience: config.patience,
        })
    }

    /// Addresses of [`Config::listen`] with their actual ports, in the same order.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Additional addresses of the side protocols.
    pub fn side_addresses(&self) -> &[SocketAddr] {
        &self.side_addresses
    }

    /// Addresses of our own port mapper.
    pub fn mapper_addresses(&self) -> &[SocketAddr] {
        &self.mapper_addresses
    }

    /// State that all programs share.
    pub fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// The current connections, with the addresses of client and server.
    pub fn peers(&self) -> Vec<Peer> {
        self.engine.peers()
    }

    /// All remembered clients, with their statistics.
    pub fn clients(&self) -> Vec<ClientInfo> {
        self.core.figures.clients()
    }

    /// Memory used by partially received calls and unsent answers, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.engine.memory_bytes()
    }

    /// Reloads the exports now rather than at the next call, so that trees that are no longer
    /// shared, for example of an exported pool, are released. Calls in progress keep theirs until
    /// they are answered. Files that version 4 clients have open are closed when nothing of their
    /// pool is shared any more.
    pub fn refresh(&self) {
        match &self.v4 {
            Some(v4) => v4.refresh(),
            None => drop(self.core.exports.table()),
        }
    }

    /// Finishes calls in progress and stops. Clients with hard mounts wait for the next server.
    pub fn stop(&self) {
        if !self.registered.is_empty()
            && let Err(error) = portmap::register(&self.registered, false)
        {
            tracing::warn!(%error, "cannot unregister programs from the port mapper");
        }
        self.engine.stop(self.patience);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Identifies this server to version 4.1 clients, independent of its addresses. Derived from the
/// secret without revealing it.
fn server_id(secret: &[u8; 32]) -> Vec<u8> {
    let id = blake3::derive_key("weir 2026 nfs server id", secret);
    format!("weir-{}", blake3::Hash::from(id).to_hex().split_at(32).0).into_bytes()
}

fn at(address: SocketAddr, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{address}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nfs::exports::FixedExports;
    use crate::nfs::portmap::ask;
    use crate::nfs::xdr::{Reader, Writer};
    use crate::nfs::{Share, ShareOptions, rquota, v3};
    use files::memory::MemoryVfs;
    use files::vfs::Vfs;
    use std::net::{TcpStream, UdpSocket};

    fn exports() -> Arc<dyn Exports> {
        let mut vfs = MemoryVfs::new().identity(5);
        vfs.add_file(vfs.root(), "f", "contents");
        let options = ShareOptions::parse("rw=127.0.0.0/8,insecure").expect("options").expect("shared");
        let (path, dataset) = ("/m".to_owned(), "m".to_owned());
        let share = Share { path, dataset, pool_guid: 1, fs_guid: 5, vfs: Arc::new(vfs.writable()), options };
        Arc::new(FixedExports::new(vec![share]))
    }

    fn start(secret: u8) -> Server {
        let mut config = Config::new([secret; 32]);
        config.listen = vec![([127, 0, 0, 1], 0).into()];
        config.port_mapper = PortMapper::Own(vec![([127, 0, 0, 1], 0).into()]);
        Server::start(config, exports()).expect("starts")
    }

    fn call(at: SocketAddr, program: u32, version: u32, procedure: u32, args: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let mut stream = TcpStream::connect(at).expect("connects");
        ask(&mut stream, 3, program, version, procedure, args).expect("an answer")
    }

    fn number(answer: &[u8]) -> u32 {
        Reader::new(answer).u32().expect("a number")
    }

    fn mount(at: SocketAddr) -> Vec<u8> {
        let answer = call(at, mountd::PROGRAM, 3, 1, |w| w.opaque(b"/m"));
        let mut r = Reader::new(&answer);
        assert_eq!(r.u32(), Ok(0));
        r.opaque(64).expect("a handle").to_vec()
    }

    #[test]
    fn clients_find_mount_and_come_back_after_a_restart() {
        let first = start(1);
        let (nfs, mapper) = (first.addresses()[0], first.mapper_addresses()[0]);
        let port = |version| {
            let args = [v3::PROGRAM, version, 6, 0];
            number(&call(mapper, portmap::PROGRAM, 2, 3, |w| args.iter().for_each(|n| w.u32(*n))))
        };
        assert_eq!(port(3), u32::from(nfs.port()));
        let dump = call(nfs, mountd::PROGRAM, 3, 5, |_| ());
        assert_eq!(
            dump,
            [&[0, 0, 0, 1, 0, 0, 0, 2][..], b"/m\0\0", &[0, 0, 0, 1, 0, 0, 0, 11], b"127.0.0.0/8\0", &[0; 8]].concat()
        );
        let handle = mount(nfs);
        assert_eq!(number(&call(nfs, v3::PROGRAM, 3, 1, |w| w.opaque(&handle))), 0);
        let clients = first.clients();
        let client = clients.iter().find(|c| c.address == nfs.ip()).expect("the client is listed");
        assert!(client.calls >= 3 && client.protocols == ["nfs3"], "{client:?}");
        drop(first);
        let again = start(1);
        assert_eq!(number(&call(again.addresses()[0], v3::PROGRAM, 3, 1, |w| w.opaque(&handle))), 0);
        let other = start(2);
        assert_eq!(number(&call(other.addresses()[0], v3::PROGRAM, 3, 1, |w| w.opaque(&handle))), 70, "stale");
    }

    #[test]
    fn versions_that_are_left_out_are_not_spoken() {
        let mut config = Config::new([1; 32]);
        config.listen = vec![([127, 0, 0, 1], 0).into()];
        config.versions = Versions { v3: false, v4: [false, true, false] };
        let server = Server::start(config, exports()).expect("starts");
        let at = server.addresses()[0];
        let compound = |minor: u32| {
            number(&call(at, v3::PROGRAM, 4, 1, |w| {
                w.opaque(b"");
                w.u32(minor);
                w.u32(0);
            }))
        };
        assert_eq!([0, 1, 2].map(compound), [10021, 0, 10021]);
        for (program, version) in [(v3::PROGRAM, 3), (mountd::PROGRAM, 3), (super::super::nlm::PROGRAM, 4)] {
            let mut stream = TcpStream::connect(at).expect("connects");
            ask(&mut stream, 3, program, version, 0, |_| ()).expect_err("version 3 is not served");
        }
    }

    #[test]
    fn small_questions_are_answered_over_datagrams() {
        let server = start(1);
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        for (address, program, version) in
            [(server.mapper_addresses()[0], portmap::PROGRAM, 4), (server.addresses()[0], rquota::PROGRAM, 1)]
        {
            let mut w = Writer::new();
            crate::nfs::rpc::message::put_call(&mut w, 77, program, version, 0);
            socket.send_to(&w.to_vec(), address).expect("sent");
            let mut answer = [0; 100];
            let len = socket.recv(&mut answer).expect("an answer");
            assert_eq!(&answer[..len], [0, 0, 0, 77, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        }
    }
}
