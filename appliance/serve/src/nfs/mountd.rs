//! MOUNT versions 1 and 3 (RFC 1813, appendix I): maps the path of a share to its file handle.
//! Version 1 supports listing and unmounting like version 3, but its 32-byte file handles belong to
//! NFS version 2, which is not supported.

use super::core::Core;
use super::exports::Granted;
use super::rpc::{Call, Fault, Program};
use super::status::Status;
use super::xdr::{Reader, Writer};
use files::vfs::FileKind;
use parking_lot::Mutex;
use std::net::IpAddr;
use std::sync::Arc;

/// RPC program number of MOUNT.
pub const PROGRAM: u32 = 100_005;
/// Maximum length of a path and of a name, from the RFC.
const PATH_MAX: usize = 1024;
/// Maximum number of entries for `showmount -a`. The oldest is dropped.
const MOUNTS_MAX: usize = 1024;

/// Mounts reported by clients.
#[derive(Default)]
pub struct Mounts(Mutex<Vec<(IpAddr, String)>>);

/// One version of the program.
pub struct Mount {
    core: Arc<Core>,
    mounts: Arc<Mounts>,
    version: u32,
}

impl Mount {
    /// Versions 1 and 3, which share the list of mounts.
    pub fn versions(core: &Arc<Core>) -> Vec<Arc<dyn Program>> {
        let mounts = Arc::new(Mounts::default());
        let one =
            |version| -> Arc<dyn Program> { Arc::new(Self { core: core.clone(), mounts: mounts.clone(), version }) };
        vec![one(1), one(3)]
    }

    /// Resolves a path to a file handle, and whether the share accepts AUTH_NONE. Fails unless the
    /// caller may mount it.
    fn handle(&self, call: &Call<'_>, path: &[u8]) -> Result<(Vec<u8>, bool), Status> {
        let (share, names) = self.core.table().by_path(path).ok_or(Status::ACCES)?;
        let Granted { .. } = self.core.exports.granted(&share, call.peer.address).ok_or(Status::ACCES)?;
        let vfs = &share.vfs;
        let mut attr = vfs.by_handle(&share.root())?;
        for name in names {
            if name == b".." {
                return Err(Status::ACCES);
            }
            attr = vfs.lookup(attr.node, name)?;
        }
        if attr.kind != FileKind::Directory {
            return Err(Status::NOTDIR);
        }
        let file = vfs.handle(attr.node)?;
        // The path may lead into a child dataset.
        let owner = self.core.table().of(share.pool_guid, file.fs_guid)?.ok_or(Status::ACCES)?;
        self.core.exports.granted(&owner, call.peer.address).ok_or(Status::ACCES)?;
        Ok((self.core.seal(&owner, file).to_vec(), owner.options.takes_nobody))
    }

    fn mount(&self, call: &Call<'_>, args: &mut Reader<'_>, out: &mut Writer) -> Result<(), Fault> {
        let path = args.opaque(PATH_MAX)?;
        match self.handle(call, path) {
            Ok((handle, takes_nobody)) => {
                let mut mounts = self.mounts.0.lock();
                let entry = (call.peer.address.ip(), String::from_utf8_lossy(path).into_owned());
                mounts.retain(|m| *m != entry);
                if mounts.len() >= MOUNTS_MAX {
                    mounts.remove(0);
                }
                mounts.push(entry);
                drop(mounts);
                out.u32(0);
                out.opaque(&handle);
                // AUTH_SYS first: clients use the first flavour that they support.
                let flavours: &[u32] = if takes_nobody { &[1, 0] } else { &[1] };
                out.u32(flavours.len() as u32);
                flavours.iter().for_each(|f| out.u32(*f));
            }
            Err(status) => {
                tracing::info!(
                    client = %call.peer.address,
                    path = %String::from_utf8_lossy(path),
                    status = status.0,
                    "mount refused"
                );
                // MOUNT defines only these status codes of NFS.
                let known = [Status::PERM, Status::NOENT, Status::IO, Status::ACCES, Status::NOTDIR, Status::INVAL];
                out.u32(match status {
                    // MOUNT has no status for "try again later". This one means that the client is
                    // not at fault.
                    Status::JUKEBOX => Status::SERVERFAULT.0,
                    status if known.contains(&status) => status.0,
                    _ => Status::ACCES.0,
                });
            }
        }
        Ok(())
    }

    fn dump(&self, out: &mut Writer) {
        for (host, path) in &*self.mounts.0.lock() {
            out.bool(true);
            out.opaque(host.to_string().as_bytes());
            out.opaque(path.as_bytes());
        }
        out.bool(false);
    }

    fn export(&self, out: &mut Writer) {
        for share in self.core.table().shares() {
            out.bool(true);
            out.opaque(share.path.as_bytes());
            for group in share.options.groups() {
                out.bool(true);
                out.opaque(group.as_bytes());
            }
            out.bool(false);
        }
        out.bool(false);
    }
}

impl Program for Mount {
    fn number(&self) -> u32 {
        PROGRAM
    }

    fn version(&self) -> u32 {
        self.version
    }

    fn name(&self) -> &'static str {
        "mount"
    }

    fn procedures(&self) -> &'static [&'static str] {
        &["null", "mnt", "dump", "umnt", "umntall", "export", "exportall"]
    }

    fn call(&self, call: &Call<'_>, args: &mut Reader<'_>, out: &mut Writer) -> Result<(), Fault> {
        let host = call.peer.address.ip();
        match call.header.procedure {
            1 if self.version == 3 => return self.mount(call, args, out),
            1 => {
                args.opaque(PATH_MAX)?;
                out.u32(Status::ACCES.0);
            }
            2 => self.dump(out),
            3 => {
                let path = args.opaque(PATH_MAX)?;
                self.mounts.0.lock().retain(|(h, p)| (*h, p.as_bytes()) != (host, path));
            }
            4 => self.mounts.0.lock().retain(|(h, _)| *h != host),
            5 => self.export(out),
            6 if self.version == 1 => self.export(out),
            _ => return Err(Fault::ProcedureUnavailable),
        }
        Ok(())
    }
}
