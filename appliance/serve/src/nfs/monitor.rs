//! Remembers across restarts which clients hold locks: the part of NSM (the status monitor) that a
//! server needs.
//!
//! A client that takes a lock is recorded in the state directory. When the server restarts, it
//! notifies the recorded clients (SM_NOTIFY), and for a grace period grants locks only to clients
//! that held them before. A client that restarts notifies us, and its locks are released. Records
//! are kept until the grace period is over: if the server dies again before that, it notifies the
//! clients again.

use super::grace::Grace;
use super::portmap;
use super::rpc::{Call, Fault, Program, Transport};
use super::xdr::{Reader, Writer};
use host::durable;
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// RPC program number of NSM.
pub const PROGRAM: u32 = 100_024;
const NAME_MAX: usize = 1024;
/// Maximum number of recorded clients. Further clients lose their locks when the server restarts;
/// the log reports them.
const CLIENTS_MAX: usize = 4096;
const PATIENCE: Duration = Duration::from_secs(2);

/// Called with the name of a client that has restarted.
type Restarted = Box<dyn Fn(&[u8]) + Send + Sync>;

/// See the module documentation.
pub struct Monitor {
    notes: Arc<Notes>,
    grace: Arc<Grace>,
    restarted: RwLock<Vec<Restarted>>,
}

struct Notes {
    file: Option<PathBuf>,
    /// NSM state number: odd while the server runs, and greater after each start.
    state: u32,
    names: Mutex<Names>,
}

/// Client names and addresses.
#[derive(Default)]
struct Names {
    /// Clients that took locks from this process.
    now: HashMap<String, IpAddr>,
    /// Clients that held locks of the previous process, while they may reclaim them.
    before: HashMap<String, IpAddr>,
}

impl Notes {
    fn save(&self, names: &Names) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let mut text = format!("{}\n", self.state);
        let before = names.before.iter().filter(|(name, _)| !names.now.contains_key(*name));
        for (name, address) in names.now.iter().chain(before) {
            text.push_str(&format!("{address} {name}\n"));
        }
        durable::replace(file, text.as_bytes(), durable::PRIVATE)
    }

    /// Drops clients that have not reclaimed their locks by now.
    fn forget_before(&self) {
        let mut names = self.names.lock();
        names.before.clear();
        if let Err(error) = self.save(&names) {
            tracing::warn!(%error, "cannot store which clients did not reclaim their locks");
        }
    }
}

impl Monitor {
    /// Reads from `folder` which clients held locks before, and notifies them. They are recorded
    /// again when they reclaim their locks. Without a folder, nothing is remembered across
    /// restarts.
    pub fn start(folder: Option<&Path>, grace: Arc<Grace>) -> io::Result<Self> {
        let file = folder.map(|f| f.join("nfs-lock-clients"));
        let text = match &file {
            Some(file) => match std::fs::read_to_string(file) {
                Ok(text) => text,
                Err(e) if e.kind() == io::ErrorKind::NotFound => String::new(),
                Err(e) => return Err(io::Error::new(e.kind(), format!("{}: {e}", file.display()))),
            },
            None => String::new(),
        };
        let mut lines = text.lines();
        let before: u32 = lines.next().and_then(|l| l.parse().ok()).unwrap_or(0);
        let state = (before | 1).wrapping_add(2);
        let known: HashMap<String, IpAddr> = lines
            .filter_map(|line| {
                let (address, name) = line.split_once(' ')?;
                Some((name.to_owned(), address.parse().ok()?))
            })
            .take(CLIENTS_MAX)
            .collect();
        let names = Names { now: HashMap::new(), before: known.clone() };
        let this = Self {
            notes: Arc::new(Notes { file, state, names: Mutex::new(names) }),
            grace,
            restarted: RwLock::default(),
        };
        this.notes.save(&this.notes.names.lock())?;
        if !known.is_empty() {
            this.grace.wait_for_v3();
            let (notes, grace) = (this.notes.clone(), this.grace.clone());
            std::thread::Builder::new().name("nfs-notify".to_owned()).spawn(move || {
                notify(&known, state);
                std::thread::sleep(grace.remaining());
                notes.forget_before();
            })?;
        }
        Ok(this)
    }

    /// Whether locks can only be reclaimed, by clients of any version.
    pub fn is_grace(&self) -> bool {
        self.grace.is_on()
    }

    pub fn grace(&self) -> &Arc<Grace> {
        &self.grace
    }

    /// Registers `restarted`, which is called with the name of each client that reports a restart.
    pub fn on_restart(&self, restarted: Restarted) {
        self.restarted.write().push(restarted);
    }

    /// Records a client that takes locks. Returns when the record is on stable storage.
    pub fn note(&self, name: &[u8], address: IpAddr) {
        let Ok(name) = std::str::from_utf8(name) else { return };
        if name.is_empty() || name.contains(char::is_control) {
            return;
        }
        let mut names = self.notes.names.lock();
        if names.now.get(name) == Some(&address) {
            return;
        }
        if names.now.len() >= CLIENTS_MAX && !names.now.contains_key(name) {
            tracing::warn!(name, "too many clients with locks: this one's will be lost when the server restarts");
            return;
        }
        names.now.insert(name.to_owned(), address);
        if let Err(error) = self.notes.save(&names) {
            tracing::warn!(%error, "cannot record the holders of locks: they will be lost when the server restarts");
        }
    }

    /// Whether `name` is the recorded name of the client at this address.
    pub fn is_at(&self, name: &[u8], address: IpAddr) -> bool {
        let names = self.notes.names.lock();
        std::str::from_utf8(name).ok().and_then(|name| names.now.get(name)) == Some(&address)
    }
}

/// Notifies clients that the server has restarted, under its host name and under the address by
/// which the client may know it.
fn notify(clients: &HashMap<String, IpAddr>, state: u32) {
    for (name, address) in clients {
        let mut names = vec![host::name()];
        let local = UdpSocket::bind(if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" })
            .and_then(|socket| socket.connect(SocketAddr::new(*address, 9)).and_then(|()| socket.local_addr()));
        names.extend(local.map(|l| l.ip().to_string()));
        let sent = portmap::port_of(*address, PROGRAM, 1).and_then(|port| {
            let mut stream = TcpStream::connect_timeout(&SocketAddr::new(*address, port), PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            for (xid, ours) in names.iter().enumerate() {
                portmap::ask(&mut stream, xid as u32 + 1, PROGRAM, 1, 6, |w| {
                    w.opaque(ours.as_bytes());
                    w.u32(state);
                })?;
            }
            Ok(())
        });
        match sent {
            Ok(()) => tracing::info!(name, %address, "notified that locks can be reclaimed"),
            Err(error) => tracing::info!(name, %address, %error, "cannot be notified that locks can be reclaimed"),
        }
    }
}

/// NSM version 1, as far as others call it on a server.
pub struct StatusMonitor(pub Arc<Monitor>);

impl Program for StatusMonitor {
    fn number(&self) -> u32 {
        PROGRAM
    }

    fn version(&self) -> u32 {
        1
    }

    fn name(&self) -> &'static str {
        "nsm"
    }

    fn procedures(&self) -> &'static [&'static str] {
        &["null", "stat", "mon", "unmon", "unmon-all", "simulate-crash", "notify"]
    }

    fn call(&self, call: &Call<'_>, args: &mut Reader<'_>, out: &mut Writer) -> Result<(), Fault> {
        match call.header.procedure {
            // STAT: succeeds, since we would monitor. MON and the others are only for the lock
            // manager on this machine, which is part of this server.
            1 => {
                args.opaque(NAME_MAX)?;
                out.u32(0);
                out.u32(self.0.notes.state);
            }
            2 => {
                out.u32(1);
                out.u32(self.0.notes.state);
            }
            3 | 4 => out.u32(self.0.notes.state),
            6 => {
                let (name, _state) = (args.opaque(NAME_MAX)?, args.u32()?);
                // Accept this only from the address that takes the locks: another host could
                // release them.
                if self.0.is_at(name, call.peer.address.ip()) {
                    tracing::info!(client = %String::from_utf8_lossy(name), "restarted: its locks are released");
                    self.0.restarted.read().iter().for_each(|r| r(name));
                }
            }
            _ => return Err(Fault::ProcedureUnavailable),
        }
        debug_assert!(matches!(call.peer.transport, Transport::Tcp | Transport::Udp));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_with_locks_outlive_restarts_and_bring_a_grace_period_until_it_is_over() {
        let folder = std::env::temp_dir().join(format!("weir-nsm-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let start = || Monitor::start(Some(&folder), Arc::new(Grace::new(Duration::from_secs(3600)))).expect("starts");
        let first = start();
        assert!(!first.is_grace(), "no client had locks");
        let at: IpAddr = [127, 0, 0, 1].into();
        first.note(b"box", at);
        first.note(b"bad\nname", at);
        assert!(first.is_at(b"box", at) && !first.is_at(b"box", [10, 0, 0, 1].into()));
        let second = start();
        assert!(second.is_grace());
        assert!(second.notes.state > first.notes.state && second.notes.state & 1 == 1);
        second.note(b"other", at);
        // The server died before "box" could reclaim its locks.
        let third = start();
        assert_eq!(third.notes.names.lock().before.len(), 2);
        third.note(b"other", at);
        // What the notifying thread does an hour later.
        third.notes.forget_before();
        assert_eq!(start().notes.names.lock().before.keys().collect::<Vec<_>>(), ["other"]);
        std::fs::remove_dir_all(&folder).expect("ours");
    }
}
