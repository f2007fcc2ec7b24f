//! Looking at every copy of one block.

use super::{check, gang};
use crate::store::Store;
use crate::vdev::{BlockReport, Failure};
use ondisk::BlkPtr;
use std::cell::Cell;

const GANG_DEPTH_MAX: u32 = 16;

/// Reads every copy and every column of the block. Embedded pointers and holes have nothing to verify.
pub(crate) fn verify(store: &Store, bp: &BlkPtr) -> BlockReport {
    let mut report = BlockReport::default();
    if bp.is_embedded() || bp.is_hole() {
        report.readable = true;
        return report;
    }
    if let Err(e) = bp.check().map_err(crate::Error::from).and_then(|()| check::supported(store, bp)) {
        report.error = Some(e.to_string());
        return report;
    }
    verify_at_depth(store, bp, 0, &mut report);
    report
}

fn verify_at_depth(store: &Store, bp: &BlkPtr, depth: u32, report: &mut BlockReport) {
    let salt = store.salt();
    let mut seen = None;
    for (copy, dva) in bp.dvas().enumerate() {
        let good = if dva.is_gang {
            verify_gang(store, bp, copy, depth, &mut seen, report)
        } else {
            let mut matches = |bytes: &[u8]| check::matches(bp, bytes, salt.as_deref());
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

/// Every copy of a gang block is a header, and all headers lead to the same members: those are looked at once.
fn verify_gang(
    store: &Store,
    bp: &BlkPtr,
    copy: usize,
    depth: u32,
    seen: &mut Option<(Vec<u8>, Result<(), Failure>)>,
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
    let result = verify_members(store, bp, copy, depth, report);
    *seen = Some((header, result.clone()));
    result
}

fn verify_members(
    store: &Store,
    bp: &BlkPtr,
    copy: usize,
    depth: u32,
    report: &mut BlockReport,
) -> Result<(), Failure> {
    let dva = bp.dva(copy);
    let other = |what: &str| Failure { other: vec![what.into()], ..Default::default() };
    let mut broken = None;
    let members = gang::members(store, bp, &dva)?;
    // As when reading: without it, headers that lead to each other would be a tree without end.
    if members.iter().map(|m| m.psize_bytes()).fold(0, u64::saturating_add) > bp.psize_bytes() {
        return Err(other("gang members are larger than the block"));
    }
    for member in members {
        let mut below = BlockReport::default();
        if let Err(e) = member.check() {
            return Err(other(&format!("gang member: {e}")));
        }
        verify_at_depth(store, &member, depth + 1, &mut below);
        report.bytes_read += below.bytes_read;
        report.faults.extend(below.faults.into_iter().map(|f| crate::vdev::CopyFault { copy, ..f }));
        if !below.readable {
            broken.get_or_insert(below.error.unwrap_or_else(|| "a gang member cannot be read".into()));
        }
    }
    if let Some(e) = broken {
        return Err(other(&e));
    }
    let whole = gang::read(store, bp, &dva, depth, &Cell::new(false))?;
    if check::matches(bp, &whole, store.salt().as_deref()) {
        Ok(())
    } else {
        Err(other("gang block: checksum mismatch of the whole"))
    }
}
