//! RQUOTA versions 1 and 2: answers quota(1) on a client.

use super::core::Core;
use super::rpc::{Call, Credential, Fault, Program};
use super::xdr::{Reader, Writer};
use files::vfs::{Quota, QuotaOf};
use std::sync::Arc;

/// RPC program number of RQUOTA.
pub const PROGRAM: u32 = 100_011;
const PATH_MAX: usize = 1024;
/// Unit of reported bytes, as the kernel's quota tools expect.
const BLOCK_BYTES: u64 = 1024;

const OK: u32 = 1;
const NO_QUOTA: u32 = 2;
const NOT_PERMITTED: u32 = 3;

/// One version of the program.
pub struct RemoteQuota {
    core: Arc<Core>,
    version: u32,
}

impl RemoteQuota {
    /// Versions 1 (users) and 2 (users and groups).
    pub fn versions(core: &Arc<Core>) -> Vec<Arc<dyn Program>> {
        let one = |version| -> Arc<dyn Program> { Arc::new(Self { core: core.clone(), version }) };
        vec![one(1), one(2)]
    }

    fn quota(&self, call: &Call<'_>, path: &[u8], of: QuotaOf, id: u32) -> Result<Quota, u32> {
        let Credential::Sys(sys) = &call.header.credential else { return Err(NOT_PERMITTED) };
        let is_own = match of {
            QuotaOf::User => sys.uid == id,
            QuotaOf::Group => sys.gid == id || sys.groups().contains(&id),
        };
        if !is_own && sys.uid != 0 {
            return Err(NOT_PERMITTED);
        }
        // Clients send the path that they mounted. For paths below the share, the quota of the
        // share applies.
        let (share, _) = self.core.table().by_path(path).ok_or(NO_QUOTA)?;
        self.core.exports.granted(&share, call.peer.address).ok_or(NOT_PERMITTED)?;
        let root = share.vfs.by_handle(&share.root()).map_err(|_| NO_QUOTA)?;
        match share.vfs.quota(root.node, of, id) {
            Ok(Some(quota)) => Ok(quota),
            _ => Err(NO_QUOTA),
        }
    }
}

impl Program for RemoteQuota {
    fn number(&self) -> u32 {
        PROGRAM
    }

    fn version(&self) -> u32 {
        self.version
    }

    fn name(&self) -> &'static str {
        "rquota"
    }

    fn procedures(&self) -> &'static [&'static str] {
        &["null", "getquota", "getactivequota"]
    }

    fn call(&self, call: &Call<'_>, args: &mut Reader<'_>, out: &mut Writer) -> Result<(), Fault> {
        if !matches!(call.header.procedure, 1 | 2) {
            return Err(Fault::ProcedureUnavailable);
        }
        let path = args.opaque(PATH_MAX)?;
        let of = match self.version {
            1 => QuotaOf::User,
            _ => match args.u32()? {
                0 => QuotaOf::User,
                1 => QuotaOf::Group,
                _ => return Err(Fault::GarbageArguments),
            },
        };
        let id = args.u32()?;
        match self.quota(call, path, of, id) {
            Ok(quota) => {
                let blocks = |bytes: u64| u32::try_from(bytes.div_ceil(BLOCK_BYTES)).unwrap_or(u32::MAX);
                let number = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
                let limit = |n: Option<u64>, f: &dyn Fn(u64) -> u32| n.map_or(0, f);
                out.u32(OK);
                out.u32(BLOCK_BYTES as u32);
                out.bool(true);
                // The hard limit and the soft limit are equal.
                let (bytes, objects) = (limit(quota.bytes_max, &blocks), limit(quota.objects_max, &number));
                for n in [bytes, bytes, blocks(quota.bytes), objects, objects, number(quota.objects), 0, 0] {
                    out.u32(n);
                }
            }
            Err(status) => out.u32(status),
        }
        Ok(())
    }
}
