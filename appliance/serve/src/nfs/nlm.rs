//! NLM version 4 (X/Open, RFC 1813 appendix II): locks of version 3 clients, in the table that
//! version 4 uses too.
//!
//! A lock request that must wait is answered with NLM4_BLOCKED. When the lock becomes free, it is
//! acquired for the client first, then a separate thread calls the client back (NLM_GRANTED). If
//! the client cannot be reached, the lock is released again, and the client gets it when it
//! retries, which clients do every 30 seconds.
//!
//! Invariants:
//!   * an owner that waits for a lock does not hold it
//!   * waiting requests, share reservations and the lengths of names are bounded

use super::access;
use super::core::Core;
use super::locks::{HeldLock, LockOwner, LockRange, LockRefusal};
use super::monitor::Monitor;
use super::portmap;
use super::rpc::{Call, Fault, Program};
use super::status::Status;
use super::xdr::{Reader, Result, Writer};
use files::vfs::FileHandle;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

/// RPC program number of NLM.
pub const PROGRAM: u32 = 100_021;
const VERSION: u32 = 4;
/// Maximum length of a client name or other identifier: the protocol allows 1024, clients use about
/// 70.
const NAME_MAX: usize = 512;
const HANDLE_MAX: usize = 64;
/// Maximum number of requests that wait for a lock.
const WAITING_MAX: usize = 4096;
/// Maximum number of share reservations.
const SHARES_MAX: usize = 16 << 10;
/// Maximum number of queued callbacks to clients.
const CALLS_MAX: usize = 4096;
const PATIENCE: Duration = Duration::from_secs(2);

const GRANTED: u32 = 0;
const DENIED: u32 = 1;
const NO_LOCKS: u32 = 2;
const BLOCKED: u32 = 3;
const GRACE: u32 = 4;
const READ_ONLY: u32 = 6;
const STALE_HANDLE: u32 = 7;
const TOO_LARGE: u32 = 8;
const FAILED: u32 = 9;

/// `nlm4_lock`.
struct LockArgs<'a> {
    name: &'a [u8],
    handle: &'a [u8],
    owner: &'a [u8],
    process: u32,
    offset: u64,
    length: u64,
}

impl<'a> LockArgs<'a> {
    fn parse(r: &mut Reader<'a>) -> Result<Self> {
        Ok(Self {
            name: r.opaque(NAME_MAX)?,
            handle: r.opaque(HANDLE_MAX)?,
            owner: r.opaque(NAME_MAX)?,
            process: r.u32()?,
            offset: r.u64()?,
            length: r.u64()?,
        })
    }

    fn owner(&self) -> LockOwner {
        LockOwner::Nlm { host: self.name.into(), owner: self.owner.into(), process: self.process }
    }

    /// A length of 0 means "to the end of the file", as all ones does.
    fn range(&self) -> Option<LockRange> {
        LockRange::new(self.offset, if self.length == 0 { u64::MAX } else { self.length })
    }
}

/// A request that waits for a lock, and what is needed to call its client back.
#[derive(Clone)]
struct Waiting {
    file: FileHandle,
    owner: LockOwner,
    range: LockRange,
    exclusive: bool,
    cookie: Vec<u8>,
    handle: Vec<u8>,
    client: IpAddr,
}

impl Waiting {
    fn is(&self, file: FileHandle, owner: &LockOwner, range: LockRange, exclusive: bool) -> bool {
        (self.file, self.range, self.exclusive) == (file, range, exclusive) && self.owner == *owner
    }
}

struct Reservation {
    host: Vec<u8>,
    owner: Vec<u8>,
    /// `fsh_mode` (access denied to others) and `fsh_access`: bit 0 is read, bit 1 is write.
    mode: u32,
    access: u32,
}

/// See the module documentation.
pub struct LockManager {
    core: Arc<Core>,
    monitor: Arc<Monitor>,
    waiting: Mutex<Vec<Waiting>>,
    shares: Mutex<HashMap<FileHandle, Vec<Reservation>>>,
    calls: SyncSender<Waiting>,
}

impl LockManager {
    /// Creates the lock manager and starts the thread that calls clients back.
    pub fn start(core: Arc<Core>, monitor: Arc<Monitor>) -> io::Result<Arc<Self>> {
        let (calls, queue) = sync_channel(CALLS_MAX);
        let (waiting, shares) = Default::default();
        let this = Arc::new(Self { core: core.clone(), monitor: monitor.clone(), waiting, shares, calls });
        let weak = Arc::downgrade(&this);
        core.locks.watch(Arc::new(move |file| {
            if let Some(this) = weak.upgrade() {
                this.freed(file);
            }
        }));
        let weak = Arc::downgrade(&this);
        monitor.on_restart(Box::new(move |name| {
            if let Some(this) = weak.upgrade() {
                this.forget(name);
            }
        }));
        std::thread::Builder::new().name("nfs-granted".to_owned()).spawn(move || call_back(&core, &queue))?;
        Ok(this)
    }

    /// Called when locks on a file were released: grants it to waiting requests, in the order of
    /// their arrival.
    fn freed(&self, file: FileHandle) {
        let mut narrows = false;
        let mut lost = Vec::new();
        {
            let mut waiting = self.waiting.lock();
            let mut i = 0;
            while let Some(next) = waiting.get(i) {
                let given = match next.file == file {
                    true => self.core.locks.lock_quietly(file, &next.owner, next.range, next.exclusive),
                    false => Err(LockRefusal::Full),
                };
                match given {
                    Ok(narrower) => {
                        narrows |= narrower;
                        let given = waiting.remove(i);
                        if let Err(TrySendError::Full(given) | TrySendError::Disconnected(given)) =
                            self.calls.try_send(given)
                        {
                            lost.push(given);
                        }
                    }
                    Err(_) => i += 1,
                }
            }
        }
        if narrows {
            self.core.locks.notify(file);
        }
        // The client cannot be notified. It will retry.
        for given in lost {
            let _ = self.core.locks.unlock(file, &given.owner, given.range);
        }
    }

    /// Releases all locks, reservations and waiting requests of a client.
    fn forget(&self, name: &[u8]) {
        self.waiting.lock().retain(|w| !is_of(&w.owner, name));
        self.shares.lock().retain(|_, all| {
            all.retain(|r| r.host != name);
            !all.is_empty()
        });
        self.core.locks.release(|owner| is_of(owner, name));
    }

    fn file(&self, call: &Call<'_>, handle: &[u8], exclusive: bool) -> std::result::Result<FileHandle, u32> {
        let number = |status| match status {
            Status::STALE | Status::BADHANDLE => STALE_HANDLE,
            Status::ROFS => READ_ONLY,
            _ => FAILED,
        };
        let at = self.core.at(call, handle).map_err(number)?;
        if exclusive {
            at.check_writable().map_err(number)?;
        }
        // A caller that may neither read nor write the file may not lock it.
        let may = access::check_read(at.vfs(), &at.attr, &at.who)
            .or_else(|_| access::check_write(at.vfs(), &at.attr, &at.who));
        may.map_err(|_| DENIED)?;
        let (fs_guid, object, generation) = (at.file.fs_guid, at.attr.ino, at.attr.generation);
        Ok(FileHandle { fs_guid, object, generation })
    }

    fn test(&self, call: &Call<'_>, args: &mut Reader<'_>) -> Result<std::result::Result<(), (u32, Option<HeldLock>)>> {
        let (exclusive, lock) = (args.bool()?, LockArgs::parse(args)?);
        let Some(range) = lock.range() else { return Ok(Err((TOO_LARGE, None))) };
        if self.monitor.is_grace() {
            return Ok(Err((GRACE, None)));
        }
        let file = match self.file(call, lock.handle, false) {
            Ok(file) => file,
            Err(status) => return Ok(Err((status, None))),
        };
        Ok(match self.core.locks.test(file, &lock.owner(), range, exclusive) {
            None => Ok(()),
            held => Err((DENIED, held)),
        })
    }

    fn lock(&self, call: &Call<'_>, cookie: &[u8], args: &mut Reader<'_>, is_monitored: bool) -> Result<u32> {
        let (block, exclusive, lock) = (args.bool()?, args.bool()?, LockArgs::parse(args)?);
        let (reclaim, _state) = (args.bool()?, args.u32()?);
        let Some(range) = lock.range() else { return Ok(TOO_LARGE) };
        if self.monitor.is_grace() != reclaim {
            // A reclaim outside the grace period is denied: another client may have held the lock
            // meanwhile.
            return Ok(if reclaim { DENIED } else { GRACE });
        }
        let file = match self.file(call, lock.handle, exclusive) {
            Ok(file) => file,
            Err(status) => return Ok(status),
        };
        let (owner, client) = (lock.owner(), call.peer.address.ip());
        if is_monitored {
            self.monitor.note(lock.name, client);
        }
        // Holds the mutex under which waiting requests are granted, so that no request starts to
        // wait for a lock that has just been released.
        let mut waiting = self.waiting.lock();
        let result = self.core.locks.lock_quietly(file, &owner, range, exclusive);
        let at = waiting.iter().position(|w| w.is(file, &owner, range, exclusive));
        let status = match result {
            Ok(narrows) => {
                if let Some(at) = at {
                    waiting.remove(at);
                }
                drop(waiting);
                if narrows {
                    self.core.locks.notify(file);
                }
                return Ok(GRANTED);
            }
            Err(LockRefusal::Full) => NO_LOCKS,
            Err(LockRefusal::Conflict(_)) if !block => DENIED,
            Err(LockRefusal::Conflict(_)) => BLOCKED,
        };
        if status == BLOCKED {
            let new = Waiting {
                file,
                owner,
                range,
                exclusive,
                cookie: cookie.to_vec(),
                handle: lock.handle.to_vec(),
                client,
            };
            match at {
                Some(at) => waiting[at] = new,
                None if waiting.len() >= WAITING_MAX => return Ok(NO_LOCKS),
                None => waiting.push(new),
            }
        }
        Ok(status)
    }

    fn cancel(&self, call: &Call<'_>, args: &mut Reader<'_>) -> Result<u32> {
        let (_block, exclusive, lock) = (args.bool()?, args.bool()?, LockArgs::parse(args)?);
        let Some(range) = lock.range() else { return Ok(DENIED) };
        let file = match self.file(call, lock.handle, false) {
            Ok(file) => file,
            Err(status) => return Ok(status),
        };
        let owner = lock.owner();
        self.waiting.lock().retain(|w| !w.is(file, &owner, range, exclusive));
        Ok(GRANTED)
    }

    fn unlock(&self, call: &Call<'_>, args: &mut Reader<'_>) -> Result<u32> {
        let lock = LockArgs::parse(args)?;
        let Some(range) = lock.range() else { return Ok(GRANTED) };
        let file = match self.file(call, lock.handle, false) {
            Ok(file) => file,
            // The client lost access to the file, so its locks are gone too.
            Err(DENIED) => return Ok(GRANTED),
            Err(status) => return Ok(status),
        };
        Ok(if self.core.locks.unlock(file, &lock.owner(), range).is_ok() { GRANTED } else { NO_LOCKS })
    }

    fn share(&self, call: &Call<'_>, args: &mut Reader<'_>, takes: bool) -> Result<u32> {
        let (host, handle, owner) = (args.opaque(NAME_MAX)?, args.opaque(HANDLE_MAX)?, args.opaque(NAME_MAX)?);
        let (mode, access) = (args.u32()?, args.u32()?);
        let reclaim = args.bool()?;
        if takes && self.monitor.is_grace() != reclaim {
            return Ok(if reclaim { DENIED } else { GRACE });
        }
        let file = match self.file(call, handle, false) {
            Ok(file) => file,
            Err(status) => return Ok(status),
        };
        let mut shares = self.shares.lock();
        let count: usize = shares.values().map(Vec::len).sum();
        let all = shares.entry(file).or_default();
        let is_own = |r: &Reservation| r.host == host && r.owner == owner;
        let status = if takes {
            let is_refused = all.iter().any(|r| !is_own(r) && (r.mode & access != 0 || r.access & mode != 0));
            if is_refused {
                DENIED
            } else if count >= SHARES_MAX {
                NO_LOCKS
            } else {
                all.retain(|r| !is_own(r));
                all.push(Reservation { host: host.to_vec(), owner: owner.to_vec(), mode, access });
                GRANTED
            }
        } else {
            all.retain(|r| !is_own(r));
            GRANTED
        };
        if all.is_empty() {
            shares.remove(&file);
        }
        Ok(status)
    }
}

fn is_of(owner: &LockOwner, name: &[u8]) -> bool {
    matches!(owner, LockOwner::Nlm { host, .. } if **host == *name)
}

impl Program for LockManager {
    fn number(&self) -> u32 {
        PROGRAM
    }

    fn version(&self) -> u32 {
        VERSION
    }

    fn name(&self) -> &'static str {
        "nlm"
    }

    fn procedures(&self) -> &'static [&'static str] {
        const NAMES: [&str; 24] = [
            "null",
            "test",
            "lock",
            "cancel",
            "unlock",
            "granted",
            "test-msg",
            "lock-msg",
            "cancel-msg",
            "unlock-msg",
            "granted-msg",
            "test-res",
            "lock-res",
            "cancel-res",
            "unlock-res",
            "granted-res",
            "16",
            "17",
            "18",
            "19",
            "share",
            "unshare",
            "nm-lock",
            "free-all",
        ];
        &NAMES
    }

    fn call(&self, call: &Call<'_>, args: &mut Reader<'_>, out: &mut Writer) -> std::result::Result<(), Fault> {
        let procedure = call.header.procedure;
        if procedure == 23 {
            let (name, _state) = (args.opaque(NAME_MAX)?, args.u32()?);
            if self.monitor.is_at(name, call.peer.address.ip()) {
                self.forget(name);
            }
            return Ok(());
        }
        if !matches!(procedure, 1..=4 | 20..=22) {
            // The asynchronous variants: no client in use sends the `_MSG` calls (6-10), and `_RES`
            // calls (11-15) are ignored.
            return if matches!(procedure, 11..=15) { Ok(()) } else { Err(Fault::ProcedureUnavailable) };
        }
        let cookie = args.opaque(NAME_MAX)?;
        let mut held = None;
        let status = match procedure {
            1 => match self.test(call, args)? {
                Ok(()) => GRANTED,
                Err((status, by)) => {
                    held = by;
                    status
                }
            },
            2 => self.lock(call, cookie, args, true)?,
            3 => self.cancel(call, args)?,
            4 => self.unlock(call, args)?,
            20 => self.share(call, args, true)?,
            21 => self.share(call, args, false)?,
            _ => self.lock(call, cookie, args, false)?,
        };
        out.opaque(cookie);
        out.u32(status);
        if procedure == 1 && status == DENIED {
            put_holder(out, held.as_ref());
        }
        if matches!(procedure, 20 | 21) {
            out.u32(0);
        }
        Ok(())
    }
}

/// `nlm4_holder`.
fn put_holder(out: &mut Writer, held: Option<&HeldLock>) {
    let (mut exclusive, mut process, mut owner, mut range) = (true, 0, &[][..], LockRange::ALL);
    if let Some(held) = held {
        (exclusive, range) = (held.exclusive, held.range);
        match &held.owner {
            LockOwner::Nlm { owner: o, process: p, .. } => (owner, process) = (&o[..], *p),
            LockOwner::V4 { owner: o, .. } => owner = &o[..o.len().min(NAME_MAX)],
        }
    }
    out.bool(exclusive);
    out.u32(process);
    out.opaque(owner);
    out.u64(range.start);
    out.u64(if range.last == u64::MAX { 0 } else { range.length() });
}

/// Notifies clients that their waiting requests were granted.
fn call_back(core: &Core, queue: &Receiver<Waiting>) {
    while let Ok(given) = queue.recv() {
        let LockOwner::Nlm { host, owner, process } = &given.owner else { continue };
        let accepted = portmap::port_of(given.client, PROGRAM, VERSION).and_then(|port| {
            let mut stream = TcpStream::connect_timeout(&SocketAddr::new(given.client, port), PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            let answer = portmap::ask(&mut stream, 1, PROGRAM, VERSION, 5, |w| {
                w.opaque(&given.cookie);
                w.bool(given.exclusive);
                w.opaque(host);
                w.opaque(&given.handle);
                w.opaque(owner);
                w.u32(*process);
                w.u64(given.range.start);
                w.u64(if given.range.last == u64::MAX { 0 } else { given.range.length() });
            })?;
            let mut r = Reader::new(&answer);
            Ok(r.opaque(NAME_MAX).and_then(|_| r.u32()) == Ok(GRANTED))
        });
        if !matches!(accepted, Ok(true)) {
            tracing::debug!(client = %given.client, ?accepted, "the client did not accept a granted lock");
            let _ = core.locks.unlock(given.file, &given.owner, given.range);
        }
    }
}

#[cfg(test)]
mod tests;
