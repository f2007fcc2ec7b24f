//! Writes a block that does not fit in one piece: up to three smaller blocks, and a header that
//! points to them.
//!
//! The header has one copy more than the block, because losing it loses everything; at most two if
//! the third address holds salt and IV. A member that does not fit in one piece either becomes a
//! gang block itself.
//!
//! Invariants:
//!   * all space is allocated before anything is written, and freed again if the allocation fails
//!   * the first addresses of a gang pointer include the space of header and members, the
//!     additional one only that of the header

use super::put::{give_back, put, sum};
use crate::store::WriteStore;
use crate::{Gang, Want};
use errors::{Error, Refusal, Result};
use ondisk::{BlkPtr, Compression, Dva, NewBlock, ObjectType, Txg, gang};
use smallvec::SmallVec;
use transform::checksum::Order;
use transform::checksum::embedded::{self, Kind};

/// Members that a header of 512 bytes holds.
const MEMBERS: usize = 3;
/// Limit for headers within headers: a 16 MiB block of 512-byte pieces needs ten.
const DEPTH_MAX: u32 = 12;

/// Space allocated for a piece of the block.
enum Space {
    Whole(SmallVec<[Dva; 3]>),
    Gang { header: SmallVec<[Dva; 3]>, members: Vec<(usize, Space)> },
}

/// Writes `stored`, whose checksum the pointer already holds.
pub(super) fn write(store: &WriteStore, bp: &mut BlkPtr, stored: &[u8], want: &Want) -> Result<()> {
    let header_copies = (want.copies + 1).min(if bp.is_encrypted() { 2 } else { 3 }).min(store.copies_max());
    let space = find(store, want, header_copies, 1)?;
    let result = fill(store, bp, stored, &space, want.txg);
    if result.is_err() {
        release(store, want.txg, &space);
    }
    result
}

/// Allocates space for a header and its members.
fn find(store: &WriteStore, want: &Want, header_copies: u8, depth: u32) -> Result<Space> {
    if depth > DEPTH_MAX {
        return Err(Refusal::NoSpace.at(""));
    }
    let header = store.allocator().allocate(&Want {
        psize_bytes: gang::SIZE_BYTES as u64,
        copies: header_copies,
        gang: Gang::Header,
        ..*want
    })?;
    let mut members: Vec<(usize, Space)> = Vec::with_capacity(MEMBERS);
    match find_members(store, want, header_copies, depth, &mut members) {
        Ok(()) => Ok(Space::Gang { header, members }),
        Err(e) => {
            release(store, want.txg, &Space::Gang { header, members });
            Err(e)
        }
    }
}

fn find_members(
    store: &WriteStore,
    want: &Want,
    header_copies: u8,
    depth: u32,
    members: &mut Vec<(usize, Space)>,
) -> Result<()> {
    let (minimum, unit) = store.units();
    let mut rest = want.psize_bytes as usize;
    while rest > 0 {
        let share = rest / (MEMBERS - members.len());
        let size = if share > minimum { share.next_multiple_of(unit) } else { minimum }.min(rest);
        let wanted = Want { psize_bytes: size as u64, gang: Gang::Member, ..*want };
        let space = match store.allocator().allocate(&wanted) {
            Ok(addresses) => Space::Whole(addresses),
            Err(e) if e.refusal() == Some(Refusal::NoSpace) && size > minimum => {
                find(store, &wanted, header_copies, depth + 1)?
            }
            Err(e) => return Err(e),
        };
        members.push((size, space));
        rest -= size;
    }
    Ok(())
}

fn release(store: &WriteStore, txg: u64, space: &Space) {
    match space {
        Space::Whole(addresses) => give_back(store, txg, addresses),
        Space::Gang { header, members } => {
            give_back(store, txg, header);
            members.iter().for_each(|(_, member)| release(store, txg, member));
        }
    }
}

/// Writes the members, then the header, and stores the header's addresses in `bp`.
fn fill(store: &WriteStore, bp: &mut BlkPtr, stored: &[u8], space: &Space, txg: u64) -> Result<()> {
    let (header, members) = match space {
        Space::Whole(addresses) => return put(store, bp, addresses, stored, txg),
        Space::Gang { header, members } => (header, members),
    };
    let mut block = vec![0; gang::SIZE_BYTES];
    let mut addresses: SmallVec<[Dva; 3]> = header.iter().map(|dva| Dva { is_gang: true, ..*dva }).collect();
    let mut at = 0;
    for (number, (size, space)) in members.iter().enumerate() {
        let part = &stored[at..at + size];
        at += size;
        // Members of encrypted blocks are not marked as encrypted: they are pieces of a block that
        // is encrypted as a whole.
        let mut member = BlkPtr::new_block(&NewBlock {
            object_type: ObjectType::NONE,
            level: 0,
            lsize_bytes: *size as u64,
            psize_bytes: *size as u64,
            compression: Compression::Off,
            checksum: bp.checksum_kind()?,
        });
        member.set_birth(Txg(txg), Txg(txg));
        sum(store, &mut member, part)?;
        fill(store, &mut member, part, space, txg)?;
        for (whole, piece) in addresses.iter_mut().zip(member.dvas()) {
            whole.asize_bytes += piece.asize_bytes;
        }
        let place = number * ondisk::blkptr::SIZE_BYTES;
        block[place..place + ondisk::blkptr::SIZE_BYTES].copy_from_slice(&member.to_bytes(ondisk::Endian::Little));
    }
    for (index, dva) in addresses.iter().enumerate() {
        bp.set_dva(index, *dva);
    }
    let verifier = gang::verifier(bp);
    embedded::seal(Kind::GangHeader, &mut block, verifier, Order::Little, super::check::is_cut(bp))
        .map_err(|e| Error::invalid("", e.to_string()))?;
    // `put` would store the headers with their own size only.
    let mut scratch = *bp;
    put(store, &mut scratch, header, &block, txg)
}
