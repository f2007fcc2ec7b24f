//! Verifies every copy below one address.

use super::{Answer, BlockReport, CopyFault, DATA_START_BYTES, Failure, Fault, Kind, Tree, Vdev};
use ondisk::Dva;
use std::sync::Arc;

impl Tree {
    /// Reads all copies and columns behind `dva` (address number `copy` of its block), and adds
    /// those that are wrong to `report`. Fails if no combination passes `check`.
    pub(crate) fn verify(
        &self,
        copy: usize,
        dva: &Dva,
        size: u64,
        birth: u64,
        check: &mut dyn FnMut(&[u8]) -> bool,
        report: &mut BlockReport,
    ) -> Result<(), Failure> {
        let Some(top) = self.tops.get(dva.vdev as usize) else {
            return Err(Failure::other(format!("address on device {} of {}", dva.vdev, self.tops.len())));
        };
        match &top.kind {
            Kind::Leaf(_) | Kind::Mirror(_) => {
                let mut good: Option<Vec<u8>> = None;
                self.verify_copies(copy, top, dva.offset_bytes, size, birth, report, &mut |bytes| match &good {
                    Some(g) => g == bytes,
                    None => {
                        let passes = check(bytes);
                        if passes {
                            good = Some(bytes.to_vec());
                        }
                        passes
                    }
                })
            }
            Kind::Raidz(_) | Kind::Draid(_) => {
                self.verify_parity(copy, top, dva.offset_bytes, size, birth, check, report)
            }
            Kind::Indirect(_) => {
                let whole = self.read(dva.vdev, dva.offset_bytes, size, birth, check)?;
                report.bytes_read += size;
                self.verify_pieces(copy, top, dva.offset_bytes, birth, &whole, 0, report)
            }
            _ => self.read(dva.vdev, dva.offset_bytes, size, birth, check).map(|_| ()),
        }
    }

    /// Compares every copy of every piece of a moved block with the right bytes.
    #[allow(clippy::too_many_arguments)] // As in `verify_copies`.
    fn verify_pieces(
        &self,
        copy: usize,
        top: &Vdev,
        offset: u64,
        birth: u64,
        whole: &[u8],
        depth: u32,
        report: &mut BlockReport,
    ) -> Result<(), Failure> {
        for piece in self.pieces(top, offset, whole.len() as u64, depth)? {
            let Some(target) = self.tops.get(piece.vdev as usize) else { continue };
            let from = (piece.source_bytes - offset) as usize;
            let part = &whole[from..from + piece.size_bytes as usize];
            if matches!(target.kind, Kind::Indirect(_)) {
                self.verify_pieces(copy, target, piece.offset_bytes, birth, part, depth + 1, report)?;
            } else if matches!(target.kind, Kind::Leaf(_) | Kind::Mirror(_)) {
                self.verify_copies(copy, target, piece.offset_bytes, piece.size_bytes, birth, report, &mut |bytes| {
                    bytes == part
                })?;
            }
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments)] // A struct would only rename them.
    fn verify_copies(
        &self,
        copy: usize,
        vdev: &Vdev,
        offset: u64,
        size: u64,
        birth: u64,
        report: &mut BlockReport,
        right: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), Failure> {
        let mut failure = Failure::default();
        let mut good = false;
        let mut buf = vec![0; size as usize];
        for source in self.sources(vdev, offset, birth) {
            let leaf = source.leaf();
            match leaf.read_to_judge(offset.saturating_add(DATA_START_BYTES), &mut buf) {
                None => {
                    failure.missing.push(leaf.path.clone());
                    report.faults.push(CopyFault { copy, leaf: leaf.guid, fault: Fault::Missing });
                }
                Some(Err(e)) => {
                    failure.io.push((leaf.path.clone(), Arc::new(e)));
                    report.faults.push(CopyFault { copy, leaf: leaf.guid, fault: Fault::Unreadable });
                }
                Some(Ok(answer)) => {
                    report.bytes_read += size;
                    if right(&buf) {
                        good = true;
                    } else {
                        failure.wrong.push(leaf.path.clone());
                        note_wrong(copy, answer, source.is_stale(birth), report);
                    }
                }
            }
        }
        if good { Ok(()) } else { Err(failure) }
    }
}

/// Reports wrong bytes of a leaf. They count as an error unless they are `stale`, because the
/// device was offline when they were written.
pub(super) fn note_wrong(copy: usize, answer: Answer<'_>, stale: bool, report: &mut BlockReport) {
    let leaf = answer.leaf().guid;
    if !stale && !report.is_known {
        answer.is_wrong();
    }
    let fault = if stale { Fault::Stale } else { Fault::Wrong };
    report.faults.push(CopyFault { copy, leaf, fault });
}
