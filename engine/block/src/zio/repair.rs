//! Repairs one block: overwrites every bad copy, column, gang header and gang member with the right
//! bytes.
//!
//! Invariants:
//!   * the bytes written have passed the block's checksum
//!   * devices that returned right bytes are not written to

use super::{check, copies, gang};
use crate::store::Store;
use crate::vdev::{BlockReport, Fault, RepairPurpose, Repaired, RunBlock, Source};
use ondisk::{BlkPtr, Dva};
use std::cell::Cell;

const GANG_DEPTH_MAX: u32 = 16;

/// Checks the block and repairs what `what` selects.
pub(crate) fn repair(store: &Store, bp: &BlkPtr, what: RepairPurpose) -> Repaired {
    let mut repaired = Repaired::default();
    if bp.is_embedded() || bp.is_hole() || bp.is_redacted() {
        repaired.readable = true;
        return repaired;
    }
    if let Err(e) = bp.check().map_err(errors::Error::from).and_then(|()| check::supported(bp, || store.has_salt())) {
        repaired.error = Some(e.to_string());
        return repaired;
    }
    at_depth(store, bp, what, 0, &mut repaired);
    repaired
}

/// Which leaves below one address to write.
enum Where {
    Nowhere,
    /// All available leaves: the bad ones cannot be to_text from the good ones.
    Everywhere,
    Leaves(Vec<u64>),
}

impl Where {
    fn of(good: bool, report: &BlockReport) -> Self {
        let bad = report.faults.iter().filter(|f| matches!(f.fault, Fault::Wrong | Fault::Unreadable));
        let leaves: Vec<u64> = bad.map(|f| f.leaf).collect();
        match (good, leaves.is_empty()) {
            (true, true) => Self::Nowhere,
            (true, false) => Self::Leaves(leaves),
            (false, _) => Self::Everywhere,
        }
    }
}

fn at_depth(store: &Store, bp: &BlkPtr, what: RepairPurpose, depth: u32, repaired: &mut Repaired) {
    let (birth, size) = (bp.physical_birth().0, bp.psize_bytes());
    // What to write to each address. Gang blocks are handled separately.
    let mut wanted: Vec<(Dva, Where)> = Vec::new();
    let mut gang_is_right = None;
    let mut failure: Option<crate::vdev::Failure> = None;
    for (copy, dva) in bp.dvas().enumerate() {
        if dva.is_gang {
            let done = repair_gang(store, bp, copy, what, depth, gang_is_right == Some(true), repaired);
            if let Err(error) = &done {
                repaired.error.get_or_insert_with(|| error.clone());
            }
            gang_is_right = Some(gang_is_right == Some(true) || done.is_ok());
            continue;
        }
        match what {
            RepairPurpose::Missed => {
                if store.tree().lacks(&dva, size, birth) {
                    wanted.push((dva, Where::Everywhere));
                }
            }
            RepairPurpose::Wrong { is_known } => {
                let mut report = BlockReport { is_known, ..BlockReport::default() };
                let salt = store.salt();
                let mut right = |bytes: &[u8]| check::matches(bp, bytes, salt.as_deref());
                let mut good = store.tree().verify(copy, &dva, size, birth, &mut right, &mut report);
                if depth == 0
                    && let Some(injected) = store.injection().copy_failure(bp, copy)
                {
                    good = Err(injected);
                }
                repaired.read_bytes += report.bytes_read;
                repaired.readable |= good.is_ok();
                let place = Where::of(good.is_ok(), &report);
                if let Err(e) = good {
                    failure.get_or_insert_default().merge(e);
                }
                if !matches!(place, Where::Nowhere) {
                    wanted.push((dva, place));
                }
            }
        }
    }
    if gang_is_right == Some(true) {
        repaired.readable = true;
        repaired.error = None;
    }
    if wanted.is_empty() {
        // Nothing is missing here; whether the rest is readable was not the question.
        repaired.readable |= what == RepairPurpose::Missed && gang_is_right.is_none();
        return;
    }
    let bytes = match copies::read(store, bp, depth, &Cell::new(false)) {
        Ok(bytes) => bytes,
        Err(more) => {
            let failure = match failure {
                Some(mut failure) => {
                    failure.merge(more);
                    failure
                }
                None => more,
            };
            repaired.readable = false;
            repaired.is_missing = !failure.missing.is_empty();
            let error = failure.into_error(String::new()).to_string();
            repaired.error.get_or_insert(error.trim_start_matches(": ").to_owned());
            return;
        }
    };
    repaired.readable = true;
    if what == RepairPurpose::Missed {
        repaired.read_bytes += bytes.len() as u64;
    }
    for (dva, place) in wanted {
        let is_wanted = |leaf: &Source<'_>| match (what, &place) {
            (RepairPurpose::Missed, _) => leaf.is_stale(birth),
            (_, Where::Everywhere) => !leaf.is_stale(birth),
            (_, Where::Leaves(leaves)) => leaves.contains(&leaf.guid),
            (_, Where::Nowhere) => false,
        };
        store.tree().write_over(&dva, &bytes, birth, &is_wanted, repaired);
    }
}

/// Repairs the header at one address, and the members, unless `was_done`: all headers have the same
/// members, so another header covered them.
fn repair_gang(
    store: &Store,
    bp: &BlkPtr,
    copy: usize,
    what: RepairPurpose,
    depth: u32,
    was_done: bool,
    repaired: &mut Repaired,
) -> Result<(), String> {
    if depth >= GANG_DEPTH_MAX {
        return Err("gang headers nested too deep".into());
    }
    let (dva, birth) = (bp.dva(copy), bp.physical_birth().0);
    let to_text = |failure: crate::vdev::Failure| failure.into_error(String::new()).to_string();
    let mut report =
        BlockReport { is_known: !matches!(what, RepairPurpose::Wrong { is_known: false }), ..BlockReport::default() };
    let own = gang::verify_header(store, bp, &dva, copy, &mut report);
    repaired.read_bytes += report.bytes_read;
    let place = Where::of(own.is_ok(), &report);
    // Any readable header has the contents of all.
    let header = match own {
        Ok(header) => header,
        Err(failure) => bp
            .dvas()
            .filter(|other| other.is_gang && *other != dva)
            .find_map(|other| gang::read_header(store, bp, &other, &Cell::new(false)).ok())
            .map(|(header, _)| header)
            .ok_or_else(|| to_text(failure))?,
    };
    let is_wanted = |leaf: &Source<'_>| match (what, &place) {
        (RepairPurpose::Missed, _) => leaf.is_stale(birth),
        (_, Where::Everywhere) => !leaf.is_stale(birth),
        (_, Where::Leaves(leaves)) => leaves.contains(&leaf.guid),
        (_, Where::Nowhere) => false,
    };
    store.tree().write_over(&dva, &header, birth, &is_wanted, repaired);
    if was_done {
        return Ok(());
    }
    let members = gang::members(store, bp, &dva).map_err(to_text)?;
    let mut lost = None;
    for member in members {
        let mut below = Repaired::default();
        at_depth(store, &member, what, depth + 1, &mut below);
        repaired.read_bytes += below.read_bytes;
        repaired.written.append(&mut below.written);
        repaired.written_for.append(&mut below.written_for);
        repaired.failed.append(&mut below.failed);
        repaired.is_missing |= below.is_missing;
        if !below.readable {
            lost.get_or_insert(below.error.unwrap_or_else(|| "a gang member cannot be read".into()));
        }
    }
    match lost {
        Some(error) => Err(error),
        None => {
            let whole = copies::read_gang(store, bp, &dva, depth, &Cell::new(false)).map_err(to_text)?;
            match check::matches(bp, &whole, store.salt().as_deref()) {
                true => Ok(()),
                false => Err("gang block: checksum mismatch of the whole".into()),
            }
        }
    }
}

/// Checks blocks that lie close together on one top-level vdev: see [`Store::look_at_run`].
pub(crate) fn look_at_run(store: &Store, copies: &[(&BlkPtr, usize)], read_bytes: &mut u64) -> Vec<bool> {
    let Some((first, copy)) = copies.first() else { return Vec::new() };
    let vdev = first.dva(*copy).vdev;
    let blocks: Vec<RunBlock> = copies
        .iter()
        .map(|(bp, copy)| RunBlock {
            offset: bp.dva(*copy).offset_bytes,
            size: bp.psize_bytes(),
            birth: bp.physical_birth().0,
        })
        .collect();
    let salt = store.salt();
    let mut judge = |number: usize, bytes: &[u8]| check::matches(copies[number].0, bytes, salt.as_deref());
    let is_plain = |bp: &BlkPtr, copy: usize| {
        let dva = bp.dva(copy);
        !dva.is_gang && dva.vdev == vdev && check::supported(bp, || store.has_salt()).is_ok() && bp.check().is_ok()
    };
    if copies.iter().any(|(bp, copy)| !is_plain(bp, *copy)) {
        return vec![false; copies.len()];
    }
    store.tree().look_at_run(vdev, &blocks, &mut judge, read_bytes)
}
