//! gzip-1 to gzip-9: a zlib stream.

use std::cell::RefCell;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::Error;

const NAME: &str = "gzip";

pub(super) fn decompress(src: &[u8], dst: &mut [u8]) -> Result<(), Error> {
    // The window is 32 KiB of zeroed heap; a thread keeps its own from block to block.
    thread_local!(static STATE: RefCell<Decompress> = RefCell::new(Decompress::new(true)));
    STATE.with_borrow_mut(|state| {
        state.reset(true);
        let want = dst.len();
        let status = state
            .decompress(src, dst, FlushDecompress::Finish)
            .map_err(|error| Error::Malformed { algorithm: NAME, what: error.to_string() })?;
        let have = state.total_out() as usize;
        match status {
            Status::StreamEnd if have == want => Ok(()),
            Status::StreamEnd => Err(Error::Short { algorithm: NAME, have, want }),
            _ if have == want => {
                let what = format!("it goes on beyond the block's {want} bytes");
                Err(Error::Malformed { algorithm: NAME, what })
            }
            _ => Err(Error::Short { algorithm: NAME, have, want }),
        }
    })
}

pub(super) fn compress(src: &[u8], limit: usize, level: u8, out: &mut [u8]) -> Option<usize> {
    // Window and hash chains are 260 KiB of heap; a thread keeps those of the level that it used last.
    thread_local!(static STATE: RefCell<Option<(u8, Compress)>> = const { RefCell::new(None) });
    STATE.with_borrow_mut(|state| {
        let state = match state {
            Some((kept, state)) if *kept == level => {
                state.reset();
                state
            }
            state => &mut state.insert((level, Compress::new(Compression::new(level.clamp(1, 9).into()), true))).1,
        };
        let status = state.compress(src, &mut out[..limit], FlushCompress::Finish).ok()?;
        (status == Status::StreamEnd).then_some(state.total_out() as usize)
    })
}
