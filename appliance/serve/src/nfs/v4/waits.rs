//! Predicts which compounds wait, from the first operation that works on a file, without executing
//! any. Pure.

use super::op;
use crate::nfs::rpc::Wait;
use crate::nfs::xdr::{Reader, Result};

/// Number of operations that are examined: clients first select the file and then operate on it.
const LOOKED_AT: u32 = 8;
/// Longer tags fail later.
const TAG_BYTES_MAX: usize = 1024;
const HANDLE_BYTES_MAX: usize = 128;
const SESSION_BYTES: usize = 16;
const STATE_ID_BYTES: usize = 16;

/// Whether the compound with these arguments waits before it is answered. A compound that cannot be
/// decoded fails at once.
pub(super) fn waits(args: &mut Reader<'_>) -> Wait {
    look(args).unwrap_or(Wait::No)
}

fn look(r: &mut Reader<'_>) -> Result<Wait> {
    let _tag = r.opaque(TAG_BYTES_MAX)?;
    let (_minor, count) = (r.u32()?, r.u32()?);
    for _ in 0..count.min(LOOKED_AT) {
        match r.u32()? {
            op::SEQUENCE => {
                let _session = r.fixed::<SESSION_BYTES>()?;
                let _numbers = [r.u32()?, r.u32()?, r.u32()?, r.u32()?];
            }
            op::PUTFH => {
                r.opaque(HANDLE_BYTES_MAX)?;
            }
            op::PUTROOTFH | op::PUTPUBFH | op::SAVEFH | op::RESTOREFH => {}
            op::WRITE => {
                let (_state, _offset) = (r.fixed::<STATE_ID_BYTES>()?, r.u64()?);
                return Ok(if r.u32()? == 0 { Wait::Maybe } else { Wait::Yes });
            }
            op::COMMIT | op::CREATE | op::LINK | op::OPEN | op::REMOVE | op::RENAME | op::SETATTR => {
                return Ok(Wait::Yes);
            }
            op::ALLOCATE | op::COPY | op::DEALLOCATE | op::CLONE | op::SETXATTR | op::REMOVEXATTR => {
                return Ok(Wait::Yes);
            }
            _ => return Ok(Wait::No),
        }
    }
    Ok(Wait::No)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nfs::xdr::Writer;

    fn compound(minor: u32, operations: &[&[u32]]) -> Vec<u8> {
        let mut w = Writer::new();
        w.opaque(b"tag");
        w.u32(minor);
        w.u32(operations.len() as u32);
        operations.iter().flat_map(|words| *words).for_each(|word| w.u32(*word));
        w.to_vec()
    }

    fn wait(operations: &[&[u32]]) -> Wait {
        waits(&mut Reader::new(&compound(1, operations)))
    }

    #[test]
    fn a_compound_waits_for_operations_on_its_file() {
        let sequence = [op::SEQUENCE, 1, 2, 3, 4, 5, 6, 7, 8];
        let file = [op::PUTFH, 8, 1, 2];
        let write = |stable| [op::WRITE, 0, 0, 0, 0, 0, 4096, stable, 4, 0];
        assert_eq!(wait(&[&sequence, &file, &write(0)]), Wait::Maybe);
        assert_eq!(wait(&[&file, &write(2), &[op::GETATTR, 0]]), Wait::Yes);
        assert_eq!(wait(&[&sequence, &file, &[op::SAVEFH], &file, &[op::RENAME]]), Wait::Yes);
        assert_eq!(wait(&[&sequence, &file, &[op::READ, 0, 0, 0, 0, 0, 0, 9]]), Wait::No);
        assert_eq!(wait(&[&file, &[op::GETATTR, 0], &write(2)]), Wait::No, "the first operation determines it");
    }

    #[test]
    fn a_truncated_compound_waits_for_nothing() {
        let whole = compound(0, &[&[op::PUTFH, 8, 1, 2], &[op::WRITE, 0, 0, 0, 0, 0, 4096, 2]]);
        assert_eq!(waits(&mut Reader::new(&whole)), Wait::Yes);
        for len in 0..whole.len() {
            assert_eq!(waits(&mut Reader::new(&whole[..len])), Wait::No, "{len} bytes");
        }
    }
}
