//! Operations on client IDs and sessions.

use super::super::state::{ChannelAttrs, ExchangeId};
use super::super::status::{Result, Status};
use super::Compound;
use crate::nfs::xdr::{Reader, Writer};

/// `NFS4_OPAQUE_LIMIT`.
const OPAQUE_BYTES_MAX: usize = 1024;

/// Flags of EXCHANGE_ID (RFC 8881 section 18.35).
const SUPP_MOVED_REFER: u32 = 0x1;
const SUPP_MOVED_MIGR: u32 = 0x2;
const SUPP_FENCE_OPS: u32 = 0x4;
const BIND_PRINC_STATEID: u32 = 0x100;
const USE_NON_PNFS: u32 = 0x1_0000;
const USE_PNFS_MDS: u32 = 0x2_0000;
const USE_PNFS_DS: u32 = 0x4_0000;
const UPD_CONFIRMED_REC_A: u32 = 0x4000_0000;
const CONFIRMED_R: u32 = 0x8000_0000;
const EXCHANGE_FLAGS: u32 = SUPP_MOVED_REFER
    | SUPP_MOVED_MIGR
    | SUPP_FENCE_OPS
    | BIND_PRINC_STATEID
    | USE_NON_PNFS
    | USE_PNFS_MDS
    | USE_PNFS_DS
    | UPD_CONFIRMED_REC_A;

/// Flags of CREATE_SESSION: PERSIST, CONN_BACK_CHAN, CONN_RDMA.
const SESSION_FLAGS: u32 = 7;

/// Skips a bitmap that is not used.
fn skip_bitmap(r: &mut Reader<'_>) -> Result<()> {
    let words = r.list(16, 4)?;
    for _ in 0..words {
        r.u32()?;
    }
    Ok(())
}

fn read_channel(r: &mut Reader<'_>) -> Result<ChannelAttrs> {
    let _padding = r.u32()?;
    let (request_bytes_max, response_bytes_max, cached_bytes_max) = (r.u32()?, r.u32()?, r.u32()?);
    let (operations_max, slots) = (r.u32()?, r.u32()?);
    let rdma = r.list(1, 4)?;
    for _ in 0..rdma {
        r.u32()?;
    }
    Ok(ChannelAttrs { request_bytes_max, response_bytes_max, cached_bytes_max, operations_max, slots })
}

fn write_channel(w: &mut Writer, channel: &ChannelAttrs) {
    w.u32(0);
    w.u32(channel.request_bytes_max);
    w.u32(channel.response_bytes_max);
    w.u32(channel.cached_bytes_max);
    w.u32(channel.operations_max);
    w.u32(channel.slots);
    w.u32(0);
}

/// Skips `callback_sec_parms4`.
fn skip_callback_security(r: &mut Reader<'_>) -> Result<()> {
    let count = r.list(16, 4)?;
    for _ in 0..count {
        match r.u32()? {
            0 => {}
            1 => {
                r.u32()?;
                r.opaque(255)?;
                r.u32()?;
                r.u32()?;
                let groups = r.list(16, 4)?;
                for _ in 0..groups {
                    r.u32()?;
                }
            }
            6 => {
                r.u32()?;
                r.opaque(OPAQUE_BYTES_MAX)?;
                r.opaque(OPAQUE_BYTES_MAX)?;
            }
            _ => return Err(Status::BADXDR),
        }
    }
    Ok(())
}

impl Compound<'_> {
    pub(super) fn setclientid(&mut self, r: &mut Reader<'_>, w: &mut Writer) -> Result<Status> {
        let verifier = r.fixed()?;
        let name = r.opaque(OPAQUE_BYTES_MAX)?;
        // Callback program, address and identifier: not used, since the server never calls back.
        r.u32()?;
        r.opaque(OPAQUE_BYTES_MAX)?;
        r.opaque(OPAQUE_BYTES_MAX)?;
        r.u32()?;
        let principal = self.principal();
        match self.server.with(|state| state.set_client_id(name, verifier, principal)) {
            Ok((client, confirm)) => {
                w.u64(client);
                w.fixed(&confirm);
                Ok(Status::OK)
            }
            Err(Status::CLID_INUSE) => {
                // The address of the other client is not disclosed.
                w.opaque(b"tcp");
                w.opaque(b"0.0.0.0.0.0");
                Ok(Status::CLID_INUSE)
            }
            Err(status) => Err(status),
        }
    }

    pub(super) fn setclientid_confirm(&mut self, r: &mut Reader<'_>) -> Result<()> {
        let (client, confirm) = (r.u64()?, r.fixed()?);
        let principal = self.principal();
        self.server.with(|state| state.confirm_client_id(client, confirm, principal))
    }

    pub(super) fn renew(&mut self, r: &mut Reader<'_>) -> Result<()> {
        let client = r.u64()?;
        self.server.with(|state| state.known_client(client))
    }

    pub(super) fn exchange_id(&mut self, r: &mut Reader<'_>, w: &mut Writer) -> Result<()> {
        let verifier = r.fixed()?;
        let name = r.opaque(OPAQUE_BYTES_MAX)?;
        let flags = r.u32()?;
        let protection = r.u32()?;
        match protection {
            0 => {}
            1 => {
                skip_bitmap(r)?;
                skip_bitmap(r)?;
            }
            2 => {
                skip_bitmap(r)?;
                skip_bitmap(r)?;
                for _ in 0..2 {
                    let algorithms = r.list(64, 4)?;
                    for _ in 0..algorithms {
                        r.opaque(OPAQUE_BYTES_MAX)?;
                    }
                }
                r.u32()?;
                r.u32()?;
            }
            _ => return Err(Status::BADXDR),
        }
        let implementations = r.list(1, 12)?;
        for _ in 0..implementations {
            r.opaque(OPAQUE_BYTES_MAX)?;
            r.opaque(OPAQUE_BYTES_MAX)?;
            r.i64()?;
            r.u32()?;
        }
        let fence = if self.minor < 2 { SUPP_FENCE_OPS } else { 0 };
        if flags & !(EXCHANGE_FLAGS & !fence) != 0 {
            return Err(Status::INVAL);
        }
        match protection {
            0 => {}
            // SP4_MACH_CRED requires authenticated credentials, which AUTH_SYS does not provide.
            1 => return Err(Status::INVAL),
            _ => return Err(Status::ENCR_ALG_UNSUPP),
        }
        let update = flags & UPD_CONFIRMED_REC_A != 0;
        let args = ExchangeId { name, verifier, update, caller: self.caller() };
        let answer = self.server.with(|state| state.exchange_id(&args))?;
        w.u64(answer.client);
        w.u32(answer.sequence);
        w.u32(USE_NON_PNFS | if answer.confirmed { CONFIRMED_R } else { 0 });
        w.u32(0);
        let id = &self.server.config.server_id;
        w.u64(0);
        w.opaque(id);
        w.opaque(id);
        w.u32(1);
        w.opaque(b"weir");
        w.opaque(concat!("weir ", env!("CARGO_PKG_VERSION")).as_bytes());
        w.i64(0);
        w.u32(0);
        Ok(())
    }

    pub(super) fn create_session(&mut self, r: &mut Reader<'_>, w: &mut Writer) -> Result<()> {
        let (client, sequence, flags) = (r.u64()?, r.u32()?, r.u32()?);
        let (fore, back) = (read_channel(r)?, read_channel(r)?);
        let _program = r.u32()?;
        skip_callback_security(r)?;
        if flags & !SESSION_FLAGS != 0 {
            return Err(Status::INVAL);
        }
        let caller = self.caller();
        let reply = self.server.with(|state| {
            state.create_session(client, sequence, (fore, back), caller, |session| {
                let mut own = Writer::new();
                own.fixed(&session.id);
                own.u32(sequence);
                // No flags: replies are not persistent, and there is no back channel.
                own.u32(0);
                write_channel(&mut own, &session.fore);
                write_channel(&mut own, &back);
                own.to_vec()
            })
        })?;
        w.fixed(&reply);
        Ok(())
    }

    pub(super) fn destroy_session(&mut self, r: &mut Reader<'_>) -> Result<()> {
        let id: [u8; 16] = r.fixed()?;
        // The session of this compound may only be destroyed by its last operation.
        if self.session.as_ref().is_some_and(|own| own.session == id) && self.at + 1 != self.count {
            return Err(Status::NOT_ONLY_OP);
        }
        let caller = self.caller();
        self.server.with(|state| state.destroy_session(&id, caller))
    }

    pub(super) fn destroy_clientid(&mut self, r: &mut Reader<'_>) -> Result<()> {
        let client = r.u64()?;
        let caller = self.caller();
        self.server.with(|state| state.destroy_client_id(client, caller))
    }

    pub(super) fn bind_conn_to_session(&mut self, r: &mut Reader<'_>, w: &mut Writer) -> Result<()> {
        let (id, direction, _rdma): ([u8; 16], u32, bool) = (r.fixed()?, r.u32()?, r.bool()?);
        if self.session.is_some() || self.count != 1 {
            return Err(Status::NOT_ONLY_OP);
        }
        let caller = self.caller();
        // All connections carry only the fore channel (`CDFS4_FORE`): the server never calls a
        // client.
        let to_server = 1;
        if !matches!(direction, 1 | 2 | 3 | 7) {
            return Err(Status::BADXDR);
        }
        self.server.with(|state| state.bind(&id, caller))?;
        if direction == 2 {
            return Err(Status::INVAL);
        }
        w.fixed(&id);
        w.u32(to_server);
        w.bool(false);
        Ok(())
    }

    pub(super) fn backchannel_ctl(&mut self, r: &mut Reader<'_>) -> Result<()> {
        r.u32()?;
        skip_callback_security(r)
    }

    pub(super) fn reclaim_complete(&mut self, r: &mut Reader<'_>) -> Result<()> {
        let one_file_system = r.bool()?;
        let client = self.client.ok_or(Status::OP_NOT_IN_SESSION)?;
        if one_file_system {
            // File systems do not migrate between servers.
            self.current()?;
            return Ok(());
        }
        self.server.with(|state| state.reclaim_complete(client))
    }
}
