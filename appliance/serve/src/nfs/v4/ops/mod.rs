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

pub(super) use open::KeptOpen;

use super::compound::Compound;
use super::status::{Result, Status};
use crate::nfs::xdr::{Malformed, Reader, Writer};

/// `nfs_opnum4`.
#[allow(dead_code)] // The complete list of the protocol.
pub(super) mod op {
    macro_rules! numbers {
        ($($name:ident = $value:expr),+ $(,)?) => { $(pub const $name: u32 = $value;)+ };
    }
    numbers! {
        ACCESS = 3, CLOSE = 4, COMMIT = 5, CREATE = 6, DELEGPURGE = 7, DELEGRETURN = 8, GETATTR = 9, GETFH = 10,
        LINK = 11, LOCK = 12, LOCKT = 13, LOCKU = 14, LOOKUP = 15, LOOKUPP = 16, NVERIFY = 17, OPEN = 18,
        OPENATTR = 19, OPEN_CONFIRM = 20, OPEN_DOWNGRADE = 21, PUTFH = 22, PUTPUBFH = 23, PUTROOTFH = 24, READ = 25,
        READDIR = 26, READLINK = 27, REMOVE = 28, RENAME = 29, RENEW = 30, RESTOREFH = 31, SAVEFH = 32, SECINFO = 33,
        SETATTR = 34, SETCLIENTID = 35, SETCLIENTID_CONFIRM = 36, VERIFY = 37, WRITE = 38, RELEASE_LOCKOWNER = 39,
        BACKCHANNEL_CTL = 40, BIND_CONN_TO_SESSION = 41, EXCHANGE_ID = 42, CREATE_SESSION = 43, DESTROY_SESSION = 44,
        FREE_STATEID = 45, GET_DIR_DELEGATION = 46, GETDEVICEINFO = 47, GETDEVICELIST = 48, LAYOUTCOMMIT = 49,
        LAYOUTGET = 50, LAYOUTRETURN = 51, SECINFO_NO_NAME = 52, SEQUENCE = 53, SET_SSV = 54, TEST_STATEID = 55,
        WANT_DELEGATION = 56, DESTROY_CLIENTID = 57, RECLAIM_COMPLETE = 58, ALLOCATE = 59, COPY = 60, COPY_NOTIFY = 61,
        DEALLOCATE = 62, IO_ADVISE = 63, LAYOUTERROR = 64, LAYOUTSTATS = 65, OFFLOAD_CANCEL = 66, OFFLOAD_STATUS = 67,
        READ_PLUS = 68, SEEK = 69, WRITE_SAME = 70, CLONE = 71, GETXATTR = 72, SETXATTR = 73, LISTXATTRS = 74,
        REMOVEXATTR = 75, ILLEGAL = 10044,
    }

    /// Whether a minor version defines the operation.
    pub fn is_known(number: u32, minor: u32) -> bool {
        let last = match minor {
            0 => RELEASE_LOCKOWNER,
            1 => RECLAIM_COMPLETE,
            _ => REMOVEXATTR,
        };
        (ACCESS..=last).contains(&number)
    }

    /// Whether the operation changes something, so that a "reply too big" error must not replace
    /// its result.
    pub fn changes(number: u32) -> bool {
        !matches!(
            number,
            ACCESS
                | GETATTR
                | GETFH
                | LOOKUP
                | LOOKUPP
                | NVERIFY
                | PUTFH
                | PUTPUBFH
                | PUTROOTFH
                | READ
                | READDIR
                | READLINK
                | RESTOREFH
                | SAVEFH
                | SECINFO
                | SECINFO_NO_NAME
                | VERIFY
                | READ_PLUS
                | SEEK
                | GETXATTR
                | LISTXATTRS
        )
    }
}

impl From<Malformed> for Status {
    fn from(_: Malformed) -> Self {
        Self::BADXDR
    }
}

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
