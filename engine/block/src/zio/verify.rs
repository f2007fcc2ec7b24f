//! Verifies every copy of one block, and whether its contents can be decoded.

use super::{check, copies, gang, read};
use crate::crypt::{DatasetKeys, verify_indirect};
use crate::store::Store;
use crate::vdev::{BlockReport, Contents, Failure};
use errors::Error;
use ondisk::{BlkPtr, Compression, ObjectType};
use std::borrow::Cow;
use std::cell::Cell;

const GANG_DEPTH_MAX: u32 = 16;

thread_local! {
    /// Buffer for the contents of a block: `verify` decodes millions of blocks and keeps none.
    static ROOM: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Reads and verifies every copy and every column of the block. Embedded pointers and holes have
/// nothing to verify.
pub(crate) fn verify(store: &Store, bp: &BlkPtr) -> BlockReport {
    look(store, bp, &mut |_| {})
}

/// As [`verify`], and also decrypts and decompresses as far as possible: a checksum only proves
/// that the bytes are those that were written.
pub(crate) fn verify_contents(store: &Store, bp: &BlkPtr, keys: Option<&DatasetKeys>) -> BlockReport {
    let mut opened = None;
    let mut report = look(store, bp, &mut |stored| {
        opened.get_or_insert_with(|| take_apart(bp, stored, keys));
    });
    if bp.is_embedded() {
        let payload = bp.embedded_payload().map_err(Error::from);
        opened = Some(payload.and_then(|payload| take_apart(bp, &payload, keys)));
    }
    match opened {
        None => {}
        Some(Ok(())) => report.contents = Contents::Whole,
        Some(Err(Error::KeyUnavailable { .. })) => report.contents = Contents::Sealed,
        Some(Err(e)) => {
            report.contents = Contents::Malformed;
            report.readable = false;
            report.error = Some(e.to_string().trim_start_matches(": ").to_owned());
        }
    }
    report
}

/// Decodes the block as a read would, and discards the result.
fn take_apart(bp: &BlkPtr, stored: &[u8], keys: Option<&DatasetKeys>) -> errors::Result<()> {
    let clear = if bp.is_embedded() || !bp.uses_crypt() || (keys.is_none() && !bp.is_encrypted()) {
        Cow::Borrowed(stored)
    } else {
        Cow::Owned(read::decrypt(bp, stored.to_vec(), keys)?)
    };
    let compression = bp.compression()?;
    let lsize = bp.lsize_bytes() as usize;
    let examine = |contents: &[u8]| {
        if bp.has_indirect_mac() {
            verify_indirect(bp, contents)?;
        }
        match keys {
            Some(keys) if bp.uses_crypt() && bp.object_type() == ObjectType::OBJSET => {
                keys.verify_objset(contents, bp.endian())
            }
            _ => Ok(()),
        }
    };
    if matches!(compression, Compression::Off | Compression::Inherit | Compression::On) {
        if clear.len() != lsize {
            return Err(Error::corrupt("", format!("block holds {} bytes, expected {lsize}", clear.len())));
        }
        return examine(&clear);
    }
    let mut room = ROOM.take();
    if room.len() < lsize {
        room.resize(lsize, 0);
    }
    let result = check::decompress_into(compression, &clear, &mut room[..lsize]).and_then(|()| examine(&room[..lsize]));
    ROOM.set(room);
    result
}

/// Calls `open` with the stored bytes of each good copy.
fn look(store: &Store, bp: &BlkPtr, open: &mut dyn FnMut(&[u8])) -> BlockReport {
    let mut report = BlockReport::default();
    if bp.is_embedded() || bp.is_hole() {
        report.readable = true;
        return report;
    }
    if let Err(e) = bp.check().map_err(errors::Error::from).and_then(|()| check::supported(bp, || store.has_salt())) {
        report.error = Some(e.to_string());
        return report;
    }
    verify_at_depth(store, bp, 0, open, &mut report);
    report
}

fn verify_at_depth(store: &Store, bp: &BlkPtr, depth: u32, open: &mut dyn FnMut(&[u8]), report: &mut BlockReport) {
    let salt = store.salt();
    let mut seen = None;
    for (copy, dva) in bp.dvas().enumerate() {
        let good = if dva.is_gang {
            verify_gang(store, bp, copy, depth, &mut seen, open, report)
        } else {
            let mut matches = |bytes: &[u8]| {
                let good = check::matches(bp, bytes, salt.as_deref());
                if good {
                    open(bytes);
                }
                good
            };
            store.tree().verify(copy, &dva, bp.psize_bytes(), bp.physical_birth().0, &mut matches, report)
        };
        match good {
            Ok(()) => report.good_copies += 1,
            Err(f) => {
                let e = f.into_error(String::new()).to_string();
                report.error.get_or_insert(e.trim_start_matches(": ").to_owned());
            }
        }
    }
    report.readable = report.good_copies > 0;
    if report.readable {
        report.error = None;
    }
}

/// Every copy of a gang block is a header, and all headers lead to the same members, which are
/// verified once.
fn verify_gang(
    store: &Store,
    bp: &BlkPtr,
    copy: usize,
    depth: u32,
    seen: &mut Option<(Vec<u8>, Result<(), Failure>)>,
    open: &mut dyn FnMut(&[u8]),
    report: &mut BlockReport,
) -> Result<(), Failure> {
    let dva = bp.dva(copy);
    let other = |what: &str| Failure { other: vec![what.into()], ..Default::default() };
    if depth >= GANG_DEPTH_MAX {
        return Err(other("gang headers nested too deep"));
    }
    let header = gang::verify_header(store, bp, &dva, copy, report)?;
    if let Some((same, result)) = seen
        && *same == header
    {
        return result.clone();
    }
    let result = verify_members(store, bp, copy, depth, open, report);
    *seen = Some((header, result.clone()));
    result
}

fn verify_members(
    store: &Store,
    bp: &BlkPtr,
    copy: usize,
    depth: u32,
    open: &mut dyn FnMut(&[u8]),
    report: &mut BlockReport,
) -> Result<(), Failure> {
    let dva = bp.dva(copy);
    let other = |what: &str| Failure { other: vec![what.into()], ..Default::default() };
    let mut broken = None;
    let members = gang::members(store, bp, &dva)?;
    // As in a read: without this, headers that point to each other would be a tree without end.
    if members.iter().map(|m| m.psize_bytes()).fold(0, u64::saturating_add) > bp.psize_bytes() {
        return Err(other("gang members are larger than the block"));
    }
    for member in members {
        let mut below = BlockReport::default();
        if let Err(e) = member.check() {
            return Err(other(&format!("gang member: {e}")));
        }
        verify_at_depth(store, &member, depth + 1, &mut |_| {}, &mut below);
        report.bytes_read += below.bytes_read;
        report.faults.extend(below.faults.into_iter().map(|f| crate::vdev::CopyFault { copy, ..f }));
        if !below.readable {
            broken.get_or_insert(below.error.unwrap_or_else(|| "a gang member cannot be read".into()));
        }
    }
    if let Some(e) = broken {
        return Err(other(&e));
    }
    let whole = copies::read_gang(store, bp, &dva, depth, &Cell::new(false))?;
    if check::matches(bp, &whole, store.salt().as_deref()) {
        open(&whole);
        Ok(())
    } else {
        Err(other("gang block: checksum mismatch of the whole"))
    }
}
