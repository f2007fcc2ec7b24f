//! Version 4 as an RPC program.

use super::{Server, compound, waits};
use crate::nfs::rpc::{Call, Fault, Program, Wait};
use crate::nfs::xdr::{Reader, Writer};

/// RPC program number of NFS.
const NFS_PROGRAM: u32 = 100_003;

impl Program for Server {
    fn number(&self) -> u32 {
        NFS_PROGRAM
    }

    fn version(&self) -> u32 {
        4
    }

    fn name(&self) -> &'static str {
        "nfs4"
    }

    fn procedures(&self) -> &'static [&'static str] {
        &["null", "compound"]
    }

    /// A retransmitted compound gets the same answer (RFC 7530 section 9.1.7 leaves operations
    /// without an owner to the RPC layer). Sessions do this as well.
    fn changes(&self, procedure: u32) -> bool {
        procedure == 1
    }

    fn may_wait(&self, procedure: u32) -> bool {
        procedure == 1
    }

    fn waits(&self, _procedure: u32, args: &mut Reader<'_>) -> Wait {
        waits::waits(args)
    }

    fn call(&self, call: &Call<'_>, args: &mut Reader<'_>, out: &mut Writer) -> std::result::Result<(), Fault> {
        match call.header.procedure {
            1 => Ok(compound::answer(self, call, args, out)?),
            _ => Err(Fault::ProcedureUnavailable),
        }
    }
}
