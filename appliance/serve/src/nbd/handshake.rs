//! The handshake, option by option. Pure: bytes in, bytes and the next step out.
//!
//! Invariants:
//!   * if TLS is required, only STARTTLS and ABORT are answered before it
//!   * what was negotiated before TLS is void after it, because an attacker could have inserted it

use super::export::{Exports, Found, Opened};
use super::proto::{Reader, answer, can, handshake, info, option, put_answer};

/// Maximum length of an option: the name of an export and of some contexts, of at most 4096 bytes
/// each.
pub const OPTION_BYTES_MAX: u32 = 64 << 10;
/// Maximum length of a read or write, announced to clients.
pub const REQUEST_BYTES_MAX: u32 = 32 << 20;
/// The only supported metadata context.
const ALLOCATION: &str = "base:allocation";
/// ID of the metadata context in block status replies.
pub const ALLOCATION_ID: u32 = 1;

/// How TLS is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsUse {
    /// Not configured: STARTTLS is refused.
    None,
    /// Clients may use it.
    Offered,
    /// Nothing is disclosed without it.
    Required,
    /// The connection already uses TLS.
    Spoken,
}

/// What client and server negotiated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Agreed {
    /// Reads are answered with structured replies.
    pub structured: bool,
    /// Block status may be requested.
    pub allocation: bool,
}

/// The next step after an option.
pub enum Next {
    /// Read the next option.
    Option,
    /// Start TLS after the answer was sent.
    Tls,
    /// The handshake is over. Requests for this export follow.
    Transmission(Opened),
    /// Close the connection.
    End,
}

/// A handshake in progress.
pub struct Handshake<'a> {
    exports: &'a dyn Exports,
    tls: TlsUse,
    zeroes: bool,
    agreed: Agreed,
    /// The export for which contexts were negotiated.
    context_of: Option<String>,
}

impl<'a> Handshake<'a> {
    /// Returns `None` if the client sends unknown flags.
    pub fn new(exports: &'a dyn Exports, tls: TlsUse, client_flags: u32) -> Option<Self> {
        let known = handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES;
        let is_good = client_flags & !known == 0;
        let zeroes = client_flags & handshake::NO_ZEROES == 0;
        is_good.then(|| Self { exports, tls, zeroes, agreed: Agreed::default(), context_of: None })
    }

    /// TLS was started. Resets what was negotiated.
    pub fn secured(&mut self) {
        (self.tls, self.agreed, self.context_of) = (TlsUse::Spoken, Agreed::default(), None);
    }

    pub fn agreed(&self) -> Agreed {
        self.agreed
    }

    /// Handles option `number` and appends its answers to `out`.
    pub fn option(&mut self, number: u32, data: &[u8], out: &mut Vec<u8>) -> Next {
        let mut reply = |answer, data: &[u8]| {
            put_answer(out, number, answer, data);
            Next::Option
        };
        match number {
            option::EXPORT_NAME if self.tls == TlsUse::Required => return Next::End,
            option::ABORT => {
                reply(answer::ACK, &[]);
                return Next::End;
            }
            option::STARTTLS => match self.tls {
                _ if !data.is_empty() => reply(answer::INVALID, b"STARTTLS has no data"),
                TlsUse::None => reply(answer::POLICY, b"TLS is not configured"),
                TlsUse::Spoken => reply(answer::INVALID, b"TLS is spoken already"),
                TlsUse::Offered | TlsUse::Required => {
                    reply(answer::ACK, &[]);
                    return Next::Tls;
                }
            },
            _ if self.tls == TlsUse::Required => reply(answer::TLS_REQUIRED, b"TLS is required"),
            option::EXPORT_NAME => return self.export_name(data, out),
            option::LIST if !data.is_empty() => reply(answer::INVALID, b"LIST has no data"),
            option::LIST => {
                for listed in self.exports.list() {
                    let mut data = Vec::new();
                    put_text(&mut data, &listed.name);
                    data.extend_from_slice(listed.description.as_bytes());
                    reply(answer::SERVER, &data);
                }
                reply(answer::ACK, &[])
            }
            option::STRUCTURED_REPLY if !data.is_empty() => reply(answer::INVALID, b"STRUCTURED_REPLY has no data"),
            option::STRUCTURED_REPLY => {
                self.agreed.structured = true;
                reply(answer::ACK, &[])
            }
            option::INFO | option::GO => return self.info(number, data, out),
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => self.contexts(number, data, out),
            _ => reply(answer::UNSUPPORTED, b"this option is not supported"),
        };
        Next::Option
    }

    /// NBD_OPT_EXPORT_NAME, the oldest way to choose an export: it cannot report an error.
    fn export_name(&mut self, name: &[u8], out: &mut Vec<u8>) -> Next {
        let Ok(Found::Export(opened)) = std::str::from_utf8(name).map(|name| self.exports.open(name)) else {
            return Next::End;
        };
        out.extend(opened.export.size().to_be_bytes());
        out.extend(self.flags(&opened).to_be_bytes());
        if self.zeroes {
            out.resize(out.len() + 124, 0);
        }
        self.choose(&opened);
        Next::Transmission(opened)
    }

    /// Metadata contexts apply only to the export that they were negotiated for.
    fn choose(&mut self, opened: &Opened) {
        self.agreed.allocation &= self.context_of.as_ref() == Some(&opened.name);
    }

    fn info(&mut self, number: u32, data: &[u8], out: &mut Vec<u8>) -> Next {
        let parse = || {
            let mut at = Reader::new(data);
            let name = at.text()?;
            let count = at.u16()?;
            let wanted = (0..count).map(|_| at.u16()).collect::<Option<Vec<_>>>()?;
            at.is_empty().then_some((name, wanted))
        };
        let Some((name, wanted)) = parse() else {
            put_answer(out, number, answer::INVALID, b"a name and a list of requests");
            return Next::Option;
        };
        let opened = match self.exports.open(name) {
            Found::Export(opened) => opened,
            Found::Unknown => {
                put_answer(out, number, answer::UNKNOWN, format!("'{name}' is not served").as_bytes());
                return Next::Option;
            }
            Found::Refused(why) => {
                put_answer(out, number, answer::POLICY, why.as_bytes());
                return Next::Option;
            }
        };
        let mut send_info = |kind: u16, data: &[u8]| {
            let data = [&kind.to_be_bytes(), data].concat();
            put_answer(out, number, answer::INFO, &data);
        };
        send_info(
            info::EXPORT,
            &[&opened.export.size().to_be_bytes()[..], &self.flags(&opened).to_be_bytes()].concat(),
        );
        if wanted.contains(&info::NAME) {
            send_info(info::NAME, opened.name.as_bytes());
        }
        if wanted.contains(&info::DESCRIPTION) {
            send_info(info::DESCRIPTION, b"a volume of Weir");
        }
        // Any byte range can be read and written; whole blocks are the most efficient.
        let preferred = u32::try_from(opened.export.block_bytes()).unwrap_or(4096).clamp(4096, REQUEST_BYTES_MAX);
        let sizes = [1, preferred, REQUEST_BYTES_MAX];
        send_info(info::BLOCK_SIZE, &sizes.map(u32::to_be_bytes).concat());
        put_answer(out, number, answer::ACK, &[]);
        if number == option::INFO {
            return Next::Option;
        }
        self.choose(&opened);
        Next::Transmission(opened)
    }

    fn flags(&self, opened: &Opened) -> u16 {
        use can::{CACHE, DONT_FRAGMENT, FAST_ZERO, FLUSH, FUA, HAS_FLAGS, MULTI_CONN, READ_ONLY, TRIM, WRITE_ZEROES};
        let all = HAS_FLAGS | FLUSH | FUA | MULTI_CONN | CACHE;
        let by_kind = if opened.is_read_only() { READ_ONLY } else { TRIM | WRITE_ZEROES | FAST_ZERO };
        all | by_kind | if self.agreed.structured { DONT_FRAGMENT } else { 0 }
    }

    fn contexts(&mut self, number: u32, data: &[u8], out: &mut Vec<u8>) -> Next {
        let parse = || {
            let mut at = Reader::new(data);
            let name = at.text()?;
            let count = at.u32()?;
            // Each query needs at least four bytes, so this ends where the data does.
            let mut queries = Vec::new();
            for _ in 0..count {
                queries.push(at.text()?);
            }
            at.is_empty().then_some((name, queries))
        };
        let mut reply = |answer, data: &[u8]| {
            put_answer(out, number, answer, data);
            Next::Option
        };
        let is_set = number == option::SET_META_CONTEXT;
        if is_set {
            self.agreed.allocation = false;
        }
        let Some((name, queries)) = parse() else {
            return reply(answer::INVALID, b"a name and a list of contexts");
        };
        if !self.agreed.structured {
            return reply(answer::INVALID, b"contexts need structured replies");
        }
        let opened = match self.exports.open(name) {
            Found::Export(opened) => opened,
            Found::Unknown => return reply(answer::UNKNOWN, format!("'{name}' is not served").as_bytes()),
            Found::Refused(why) => return reply(answer::POLICY, why.as_bytes()),
        };
        let all = !is_set && (queries.is_empty() || queries.contains(&"base:"));
        if all || queries.contains(&ALLOCATION) {
            let id = if is_set { ALLOCATION_ID } else { 0 };
            reply(answer::META_CONTEXT, &[&id.to_be_bytes()[..], ALLOCATION.as_bytes()].concat());
            if is_set {
                self.agreed.allocation = true;
                self.context_of = Some(opened.name);
            }
        }
        reply(answer::ACK, &[])
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend(u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}
