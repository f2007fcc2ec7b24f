//! The operations: one function each, which decodes its arguments and encodes its result.

mod client;
mod data;
mod extent;
mod link;
mod list;
mod lock;
mod open;
mod set;
mod walk;
mod xattr;

use super::compound::Compound;
use super::op;
use super::status::{Result, Status};
use crate::nfs::xdr::{Reader, Writer};

/// Maximum length of a decoded name, so that longer ones are rejected as too long rather than as
/// malformed.
const NAME_BYTES_MAX: usize = 4096;

/// Reads a `component4`.
fn component<'a>(r: &mut Reader<'a>) -> Result<&'a [u8]> {
    Ok(r.opaque(NAME_BYTES_MAX)?)
}

/// Rejects strings that no file can have as its name.
fn check_name(name: &[u8]) -> Result<()> {
    if name.is_empty() {
        return Err(Status::INVAL);
    }
    if name == b"." || name == b".." || name.contains(&b'/') || name.contains(&0) {
        return Err(Status::BADNAME);
    }
    Ok(())
}

impl Compound<'_> {
    /// Executes one operation. `Ok` with a status other than `OK` means that details of the failure
    /// were written.
    pub(super) fn dispatch(&mut self, number: u32, r: &mut Reader<'_>, w: &mut Writer) -> Result<Status> {
        let done = match number {
            op::ACCESS => self.access(r, w),
            op::CLOSE => return self.close(r, w),
            op::COMMIT => self.commit(r, w),
            op::CREATE => self.create(r, w),
            op::GETATTR => self.getattr(r, w),
            op::GETFH => self.getfh(w),
            op::LINK => self.link(r, w),
            op::LOCK => return self.lock(r, w),
            op::LOCKT => return self.lockt(r, w),
            op::LOCKU => return self.locku(r, w),
            op::LOOKUP => self.lookup(r),
            op::LOOKUPP => self.lookupp(),
            op::NVERIFY => self.verify(r, false),
            op::OPEN => return self.open(r, w),
            op::OPEN_CONFIRM if self.minor == 0 => return self.open_confirm(r, w),
            op::OPEN_DOWNGRADE => return self.open_downgrade(r, w),
            op::PUTFH => self.putfh(r),
            op::PUTPUBFH | op::PUTROOTFH => self.putrootfh(),
            op::READ => self.read(r, w),
            op::READDIR => self.readdir(r, w),
            op::READLINK => self.readlink(w),
            op::REMOVE => self.remove(r, w),
            op::RENAME => self.rename(r, w),
            op::RENEW if self.minor == 0 => self.renew(r),
            op::RESTOREFH => self.restorefh(),
            op::SAVEFH => self.savefh(),
            op::SECINFO => self.secinfo(r, w),
            op::SETATTR => return self.setattr(r, w),
            op::SETCLIENTID if self.minor == 0 => return self.setclientid(r, w),
            op::SETCLIENTID_CONFIRM if self.minor == 0 => self.setclientid_confirm(r),
            op::VERIFY => self.verify(r, true),
            op::WRITE => self.write(r, w),
            op::RELEASE_LOCKOWNER if self.minor == 0 => self.release_lockowner(r),
            op::BACKCHANNEL_CTL => self.backchannel_ctl(r),
            op::BIND_CONN_TO_SESSION => self.bind_conn_to_session(r, w),
            op::EXCHANGE_ID => self.exchange_id(r, w),
            op::CREATE_SESSION => self.create_session(r, w),
            op::DESTROY_SESSION => self.destroy_session(r),
            op::FREE_STATEID => self.free_stateid(r),
            op::SECINFO_NO_NAME => self.secinfo_no_name(r, w),
            op::TEST_STATEID => self.test_stateid(r, w),
            op::DESTROY_CLIENTID => self.destroy_clientid(r),
            op::RECLAIM_COMPLETE => self.reclaim_complete(r),
            op::ALLOCATE => self.allocate(r, true),
            op::DEALLOCATE => self.allocate(r, false),
            op::COPY => self.copy(r, w),
            op::READ_PLUS => self.read_plus(r, w),
            op::SEEK => self.seek(r, w),
            op::IO_ADVISE => self.io_advise(r, w),
            op::GETXATTR => self.getxattr(r, w),
            op::SETXATTR => self.setxattr(r, w),
            op::LISTXATTRS => self.listxattrs(r, w),
            op::REMOVEXATTR => self.removexattr(r, w),
            _ => Err(Status::NOTSUPP),
        };
        done.map(|()| Status::OK)
    }
}
