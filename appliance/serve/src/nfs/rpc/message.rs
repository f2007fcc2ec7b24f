//! ONC RPC messages (RFC 5531): the headers of calls, with the caller's credential, and of replies.
//! Pure.

use super::super::xdr::{Malformed, Reader, Result, Writer};

const RPC_VERSION: u32 = 2;
/// Maximum length of a credential or verifier, from the RFC.
const AUTH_BYTES_MAX: usize = 400;
/// Maximum number of groups in AUTH_SYS, from the RFC.
const GROUPS_MAX: usize = 16;
const MACHINE_BYTES_MAX: usize = 255;

const CALL: u32 = 0;
const REPLY: u32 = 1;

/// Authentication flavours (`auth_flavor`).
const AUTH_NONE: u32 = 0;
const AUTH_SYS: u32 = 1;

/// Reasons for AUTH_ERROR (`auth_stat`).
pub mod auth {
    /// AUTH_BADCRED: malformed credential, or unknown flavour.
    pub const BAD_CREDENTIAL: u32 = 1;
    /// AUTH_TOOWEAK: rejected for security reasons.
    pub const TOO_WEAK: u32 = 5;
}

/// The user and groups in an AUTH_SYS credential, as asserted by the client's kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SysCredential {
    pub uid: u32,
    pub gid: u32,
    groups: [u32; GROUPS_MAX],
    groups_len: usize,
}

impl SysCredential {
    /// Supplementary groups; at most 16.
    pub fn groups(&self) -> &[u32] {
        &self.groups[..self.groups_len]
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credential {
    /// AUTH_NONE: anonymous.
    None,
    /// AUTH_SYS: a user.
    Sys(SysCredential),
}

/// The uid of `nobody`.
const NOBODY: u32 = 65_534;

impl Credential {
    /// The uid in the credential; that of `nobody` for AUTH_NONE.
    pub fn user(&self) -> u32 {
        match self {
            Self::None => NOBODY,
            Self::Sys(who) => who.uid,
        }
    }
}

/// The header of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallHeader {
    /// Transaction ID, repeated in the reply.
    pub xid: u32,
    pub program: u32,
    pub version: u32,
    pub procedure: u32,
    pub credential: Credential,
}

#[derive(Debug, Clone, Copy)]
pub enum Message {
    /// A call; the arguments follow.
    Call(CallHeader),
    /// A call that must be denied, with its XID.
    Refused(u32, Denial),
    /// The reply to one of our calls, with its XID; the rest of the reply header follows.
    Reply(u32),
}

/// Why a call is denied (`reject_stat`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denial {
    /// The RPC version is not supported.
    RpcMismatch,
    /// Authentication failed, with this `auth_stat`.
    Auth(u32),
}

impl Message {
    /// Reads the header of a message; the arguments remain in `r`. Fails if the bytes are not a
    /// message; then nothing that follows on the connection can be trusted.
    pub fn parse(r: &mut Reader<'_>) -> Result<Self> {
        let xid = r.u32()?;
        match r.u32()? {
            CALL => {}
            REPLY => return Ok(Self::Reply(xid)),
            _ => return Err(Malformed),
        }
        if r.u32()? != RPC_VERSION {
            return Ok(Self::Refused(xid, Denial::RpcMismatch));
        }
        let (program, version, procedure) = (r.u32()?, r.u32()?, r.u32()?);
        let flavour = r.u32()?;
        let body = r.opaque(AUTH_BYTES_MAX)?;
        let (_verifier_flavour, _verifier) = (r.u32()?, r.opaque(AUTH_BYTES_MAX)?);
        let credential = match flavour {
            AUTH_NONE => Credential::None,
            AUTH_SYS => match sys(body) {
                Ok(sys) => Credential::Sys(sys),
                Err(Malformed) => return Ok(Self::Refused(xid, Denial::Auth(auth::BAD_CREDENTIAL))),
            },
            _ => return Ok(Self::Refused(xid, Denial::Auth(auth::BAD_CREDENTIAL))),
        };
        Ok(Self::Call(CallHeader { xid, program, version, procedure, credential }))
    }
}

fn sys(body: &[u8]) -> Result<SysCredential> {
    let mut r = Reader::new(body);
    let _stamp = r.u32()?;
    let _machine = r.opaque(MACHINE_BYTES_MAX)?;
    let (uid, gid) = (r.u32()?, r.u32()?);
    let groups_len = r.list(GROUPS_MAX, 4)?;
    let mut groups = [0; GROUPS_MAX];
    for group in &mut groups[..groups_len] {
        *group = r.u32()?;
    }
    r.end()?;
    Ok(SysCredential { uid, gid, groups, groups_len })
}

/// How an accepted call ended (`accept_stat`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accept {
    /// Results follow.
    Success,
    /// The program does not exist.
    ProgramUnavailable,
    /// The program supports only the versions from `low` to `high`.
    ProgramMismatch { low: u32, high: u32 },
    /// The procedure does not exist.
    ProcedureUnavailable,
    /// The arguments cannot be decoded.
    GarbageArguments,
    /// SYSTEM_ERR: the server failed, for example because a thread panicked.
    SystemError,
}

/// Writes the reply header of an accepted call.
pub fn put_accepted(out: &mut Writer, xid: u32, how: Accept) {
    out.u32(xid);
    out.u32(REPLY);
    out.u32(0);
    // The verifier is empty.
    out.u32(AUTH_NONE);
    out.u32(0);
    match how {
        Accept::Success => out.u32(0),
        Accept::ProgramUnavailable => out.u32(1),
        Accept::ProgramMismatch { low, high } => {
            out.u32(2);
            out.u32(low);
            out.u32(high);
        }
        Accept::ProcedureUnavailable => out.u32(3),
        Accept::GarbageArguments => out.u32(4),
        Accept::SystemError => out.u32(5),
    }
}

/// Writes the whole reply to a denied call.
pub fn put_denied(out: &mut Writer, xid: u32, why: Denial) {
    out.u32(xid);
    out.u32(REPLY);
    out.u32(1);
    match why {
        Denial::RpcMismatch => {
            out.u32(0);
            out.u32(RPC_VERSION);
            out.u32(RPC_VERSION);
        }
        Denial::Auth(reason) => {
            out.u32(1);
            out.u32(reason);
        }
    }
}

/// Writes the header of one of our calls, without credentials.
pub fn put_call(out: &mut Writer, xid: u32, program: u32, version: u32, procedure: u32) {
    for n in [xid, CALL, RPC_VERSION, program, version, procedure, AUTH_NONE, 0, AUTH_NONE, 0] {
        out.u32(n);
    }
}

/// Reads what follows [`Message::Reply`], up to the results. Fails unless the call succeeded.
pub fn succeeded(r: &mut Reader<'_>) -> Result<()> {
    if r.u32()? != 0 {
        return Err(Malformed);
    }
    let (_flavour, _verifier) = (r.u32()?, r.opaque(AUTH_BYTES_MAX)?);
    if r.u32()? == 0 { Ok(()) } else { Err(Malformed) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn call(flavour: u32, body: &[u8], rpc_version: u32) -> Vec<u8> {
        let mut w = Writer::new();
        for n in [7, CALL, rpc_version, 100_003, 3, 1, flavour] {
            w.u32(n);
        }
        w.opaque(body);
        w.u32(AUTH_NONE);
        w.opaque(b"");
        w.u32(4711);
        w.to_vec()
    }

    fn sys_body(groups: &[u32]) -> Vec<u8> {
        let mut w = Writer::new();
        w.u32(1);
        w.opaque(b"client");
        w.u32(1000);
        w.u32(100);
        w.u32(groups.len() as u32);
        groups.iter().for_each(|g| w.u32(*g));
        w.to_vec()
    }

    #[test]
    fn a_call_contains_the_credentials_followed_by_the_arguments() {
        let bytes = call(AUTH_SYS, &sys_body(&[5, 6]), 2);
        let mut r = Reader::new(&bytes);
        let Ok(Message::Call(header)) = Message::parse(&mut r) else { panic!("it is a call") };
        assert_eq!((header.xid, header.program, header.version, header.procedure), (7, 100_003, 3, 1));
        let Credential::Sys(who) = header.credential else { panic!("it is AUTH_SYS") };
        assert_eq!((who.uid, who.gid, who.groups()), (1000, 100, &[5, 6][..]));
        assert_eq!(r.u32(), Ok(4711));
    }

    #[test]
    fn unsupported_calls_are_refused_with_a_reason() {
        let refused = |bytes: &[u8]| match Message::parse(&mut Reader::new(bytes)) {
            Ok(Message::Refused(7, why)) => why,
            other => panic!("{other:?}"),
        };
        assert_eq!(refused(&call(AUTH_NONE, b"", 3)), Denial::RpcMismatch);
        assert_eq!(refused(&call(6, b"krb5", 2)), Denial::Auth(auth::BAD_CREDENTIAL));
        assert_eq!(refused(&call(AUTH_SYS, &sys_body(&[0; 17]), 2)), Denial::Auth(auth::BAD_CREDENTIAL));
        assert_eq!(refused(&call(AUTH_SYS, b"1234", 2)), Denial::Auth(auth::BAD_CREDENTIAL));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0usize..120, at in 0usize..120, to in any::<u8>()) {
            let _ = Message::parse(&mut Reader::new(&bytes));
            let mut good = call(AUTH_SYS, &sys_body(&[1, 2, 3]), 2);
            if let Some(byte) = good.get_mut(at) { *byte = to }
            good.truncate(cut.min(good.len()));
            let _ = Message::parse(&mut Reader::new(&good));
        }
    }
}
