//! Entry points for fuzzing and property tests: feed the bytes of a connection to a server over a
//! tree in memory.
//!
//! Values that a server generates at random (sessions, stateids, client IDs) appear in the bytes as
//! [`mark`]s, which are replaced with values from earlier answers. So a corpus can hold long
//! exchanges.

use super::core::Core;
use super::exports::{FixedExports, Share, ShareOptions, Watched};
use super::handle::{HandleKey, WireHandle};
use super::locks::LockTable;
use super::rpc::{Peer, Registry, records};
use super::xdr::Writer;
use super::{mountd, portmap, rquota, v3, v4};
use files::memory::MemoryVfs;
use files::vfs::{FileHandle, Vfs};
use std::sync::Arc;

/// Programs that serve a small world-writable tree.
fn registry() -> Registry {
    let mut vfs = MemoryVfs::new().identity(5).limit(8 << 20);
    let root = vfs.root();
    vfs.attr_mut(root).mode = 0o777;
    vfs.add_file(root, "f", vec![1; 10_000]);
    let options = ShareOptions::parse("rw,insecure,no_root_squash").ok().flatten().unwrap_or_default();
    let (path, dataset, vfs) = (PATH.to_owned(), "m".to_owned(), Arc::new(vfs.writable()));
    let share = Share { path, dataset, pool_guid: 1, fs_guid: 5, vfs, options };
    let core = Arc::new(Core {
        exports: Watched::new(Arc::new(FixedExports::new(vec![share])), true),
        handles: HandleKey::new([1; 32]),
        locks: Arc::new(LockTable::new(1000)),
        grace: Arc::default(),
        verifier: [0; 8],
        changes: Default::default(),
        figures: Arc::default(),
    });
    let mut registry = Registry::default();
    registry.add(Arc::new(v3::V3::new(core.clone())));
    registry.add(Arc::new(v3::side_acl::SideAcl::new(core.clone())));
    let config = v4::Config { lease_seconds: 90, server_id: b"fuzz".to_vec(), minor_versions: [true; 3] };
    registry.add(Arc::new(v4::Server::new(core.clone(), config, Arc::new(v4::NoRecords))));
    let mappings = Arc::default();
    let others = mountd::Mount::versions(&core).into_iter().chain(rquota::RemoteQuota::versions(&core));
    others.chain(portmap::Portmap::versions(&mappings)).for_each(|program| registry.add(program));
    registry
}

/// Placeholders for values from earlier answers.
pub mod mark {
    /// The newest session ID.
    pub const SESSION: [u8; 16] = [0xa1; 16];
    /// The newest stateid.
    pub const STATE: [u8; 16] = [0xa2; 16];
    /// The newest client ID.
    pub const CLIENT: [u8; 8] = [0xa3; 8];
    /// The verifier that confirms the client ID.
    pub const CONFIRM: [u8; 8] = [0xa4; 8];
}

/// Path of the share.
pub const PATH: &str = "/m";

/// File handle of the share's root.
pub fn root_handle() -> Vec<u8> {
    HandleKey::new([1; 32]).seal(&WireHandle { pool_guid: 1, file: FileHandle::root_of(5) }).to_vec()
}

/// Values from the answers so far.
#[derive(Default)]
struct Given {
    session: Option<[u8; 16]>,
    state: Option<[u8; 16]>,
    client: Option<[u8; 8]>,
    confirm: Option<[u8; 8]>,
}

fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

impl Given {
    /// Scans an answer for successful operations of version 4 and stores the values that they
    /// return.
    fn take(&mut self, answer: &[u8]) {
        for at in (0..answer.len()).step_by(4) {
            let Some([0, 0, 0, op, 0, 0, 0, 0]) = bytes_at::<8>(answer, at) else { continue };
            match op {
                12 | 18 | 20 => self.state = bytes_at(answer, at + 8).or(self.state),
                42 => self.client = bytes_at(answer, at + 8).or(self.client),
                43 => self.session = bytes_at(answer, at + 8).or(self.session),
                35 => {
                    self.client = bytes_at(answer, at + 8).or(self.client);
                    self.confirm = bytes_at(answer, at + 16).or(self.confirm);
                }
                _ => {}
            }
        }
    }

    fn put(&self, record: &mut [u8]) {
        fn replace<const N: usize>(record: &mut [u8], at: usize, mark: [u8; N], by: Option<[u8; N]>) {
            if let (Some(by), Some(place)) = (by, record.get_mut(at..at + N))
                && *place == mark
            {
                place.copy_from_slice(&by);
            }
        }
        for at in (0..record.len()).step_by(4) {
            replace(record, at, mark::SESSION, self.session);
            replace(record, at, mark::STATE, self.state);
            replace(record, at, mark::CLIENT, self.client);
            replace(record, at, mark::CONFIRM, self.confirm);
        }
    }
}

/// Serves a stream of bytes and returns the answers.
pub fn stream(bytes: &[u8]) -> Writer {
    let registry = registry();
    let peer = Peer::datagram(([127, 0, 0, 1], 700).into(), ([127, 0, 0, 1], 2049).into());
    let mut out = Writer::new();
    // Stops where the server would close the connection.
    let mut given = Given::default();
    let _ = records(bytes, 1 << 20, &mut |record| {
        let mut record = record.to_vec();
        given.put(&mut record);
        let mark = out.mark();
        let result = registry.answer(&peer, &record, &mut out);
        given.take(&out.copy_since(mark));
        result
    });
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nfs::rpc::message::put_call;
    use proptest::prelude::*;

    /// A call with a valid file handle followed by the given arguments, and some bytes overwritten.
    fn call(program: u32, version: u32, procedure: u32, args: &[u8], flips: &[(usize, u8)]) -> Vec<u8> {
        let mut w = Writer::new();
        put_call(&mut w, 1, program, version, procedure);
        w.opaque(&root_handle());
        w.fixed(args);
        let mut call = w.to_vec();
        for (at, to) in flips {
            let len = call.len();
            call[at % len] = *to;
        }
        [&(call.len() as u32 | 1 << 31).to_be_bytes()[..], &call].concat()
    }

    #[test]
    fn placeholders_are_replaced_by_values_of_answers() {
        let call = |minor: u32, ops: &dyn Fn(&mut Writer)| {
            let mut w = Writer::new();
            put_call(&mut w, 1 + minor, v3::PROGRAM, 4, 1);
            w.opaque(b"");
            w.u32(minor);
            ops(&mut w);
            let call = w.to_vec();
            [&(call.len() as u32 | 1 << 31).to_be_bytes()[..], &call].concat()
        };
        // EXCHANGE_ID, CREATE_SESSION, and an operation in that session.
        let first = call(1, &|w| {
            [1, 42].iter().for_each(|n| w.u32(*n));
            w.fixed(&[1; 8]);
            w.opaque(b"fuzz");
            (0..3).for_each(|_| w.u32(0));
        });
        let second = call(1, &|w| {
            [1, 43].iter().for_each(|n| w.u32(*n));
            w.fixed(&mark::CLIENT);
            [1, 0].iter().for_each(|n| w.u32(*n));
            for _ in 0..2 {
                [0, 1 << 20, 1 << 20, 8192, 8, 8, 0].iter().for_each(|n| w.u32(*n));
            }
            (0..2).for_each(|_| w.u32(0));
        });
        let third = call(1, &|w| {
            [2, 53].iter().for_each(|n| w.u32(*n));
            w.fixed(&mark::SESSION);
            [1, 0, 0, 0, 24].iter().for_each(|n| w.u32(*n));
        });
        let out = stream(&[first, second, third].concat()).to_vec();
        assert_eq!(out[out.len() - 8..], [0, 0, 0, 24, 0, 0, 0, 0], "PUTROOTFH succeeded");
    }

    proptest! {
        #[test]
        fn no_arguments_make_the_server_panic(
            calls in prop::collection::vec((0u32..25, prop::collection::vec(prop_oneof![Just(0u8), Just(1), any::<u8>()], 0..200), any::<bool>()), 1..20),
            flips in prop::collection::vec((0usize..300, any::<u8>()), 0..3),
        ) {
            let programs = [(v3::PROGRAM, 3), (v3::side_acl::PROGRAM, 3), (mountd::PROGRAM, 3), (rquota::PROGRAM, 2), (portmap::PROGRAM, 2), (portmap::PROGRAM, 4)];
            let mut bytes = Vec::new();
            for (i, (procedure, args, is_nfs)) in calls.iter().enumerate() {
                let (program, version) = if *is_nfs { programs[0] } else { programs[i % programs.len()] };
                bytes.extend(call(program, version, *procedure, args, &flips));
            }
            prop_assert!(stream(&bytes).len() < calls.len() * (64 << 10));
        }
    }
}
