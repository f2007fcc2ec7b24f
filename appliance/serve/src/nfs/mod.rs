//! NFS: all versions of the protocol, over one `Vfs` per share.
//!
//! ```text
//!   rpc (records, threads) ─> mountd, v3 (with nfsacl), v4, nlm, rquota, portmap
//!       ─> core (handle -> share -> node) ─> access ─> dyn Vfs
//! ```

pub mod access;
pub mod changes;
pub mod core;
pub mod exports;
pub mod figures;
#[doc(hidden)]
pub mod fuzz;
pub mod grace;
pub mod handle;
pub mod locks;
pub mod monitor;
pub mod mountd;
pub mod nlm;
pub mod portmap;
pub mod rpc;
pub mod rquota;
mod server;
pub mod status;
pub mod v3;
pub mod v4;
pub mod xdr;

use files::vfs::FileKind;

pub use exports::hosts::{HostNames, HostPattern};
pub use exports::{Exports, Share, ShareOptions};
pub use figures::{ClientInfo, Figures, Refusal};
pub use rpc::Limits;
pub use server::{Config, PortMapper, Server, Versions};

/// `ftype3` and `nfs_ftype4`, which use the same numbers (RFC 1813, RFC 7530).
fn kind_number(kind: FileKind) -> u32 {
    match kind {
        FileKind::Regular => 1,
        FileKind::Directory => 2,
        FileKind::BlockDevice => 3,
        FileKind::CharDevice => 4,
        FileKind::Symlink => 5,
        FileKind::Socket => 6,
        FileKind::Fifo => 7,
    }
}
