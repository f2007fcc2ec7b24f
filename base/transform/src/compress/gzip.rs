//! gzip-1 to gzip-9: a zlib stream.
//!
//! Invariant: a state cached by a thread has finished its last stream. zlib-rs's `reset` clears
//! only what a finished stream leaves behind: after an abandoned stream, level 1 still assumes an
//! open block, and the next stream is malformed (docs/upstream/zlib-rs-reset.md). So a state is
//! cached only after success, and dropped otherwise.

use std::cell::Cell;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::error::Error;

const NAME: &str = "gzip";

pub(super) fn decompress(src: &[u8], dst: &mut [u8]) -> Result<(), Error> {
    // The window is 32 KiB of zeroed heap memory; each thread caches its own.
    thread_local!(static STATE: Cell<Option<Decompress>> = const { Cell::new(None) });
    let mut state = match STATE.take() {
        Some(mut state) => {
            state.reset(true);
            state
        }
        None => Decompress::new(true),
    };
    let want = dst.len();
    let status = state
        .decompress(src, dst, FlushDecompress::Finish)
        .map_err(|error| Error::Malformed { algorithm: NAME, what: error.to_string() })?;
    let have = state.total_out() as usize;
    match status {
        Status::StreamEnd if have == want => {
            STATE.set(Some(state));
            Ok(())
        }
        Status::StreamEnd => Err(Error::Short { algorithm: NAME, have, want }),
        _ if have == want => {
            let what = format!("it continues beyond the block's {want} bytes");
            Err(Error::Malformed { algorithm: NAME, what })
        }
        _ => Err(Error::Short { algorithm: NAME, have, want }),
    }
}

pub(super) fn compress(src: &[u8], limit: usize, level: u8, out: &mut [u8]) -> Option<usize> {
    // Window and hash chains are 370 KiB of heap memory; each thread caches those of its last
    // level.
    thread_local!(static STATE: Cell<Option<(u8, Compress)>> = const { Cell::new(None) });
    let mut state = match STATE.take() {
        Some((kept, mut state)) if kept == level => {
            state.reset();
            state
        }
        _ => Compress::new(Compression::new(level.clamp(1, 9).into()), true),
    };
    let status = state.compress(src, &mut out[..limit], FlushCompress::Finish).ok()?;
    if status != Status::StreamEnd {
        return None;
    }
    let length = state.total_out() as usize;
    STATE.set(Some((level, state)));
    Some(length)
}
