//! ZLE: runs of zeros. A byte b below 64 is followed by b + 1 literal bytes; b from 64 up
//! represents b - 63 zeros.

use super::error::Error;

const NAME: &str = "zle";
/// ZFS's parameter of the algorithm: the longest run of literals.
const LITERAL_MAX: usize = 64;
const ZEROS_MAX: usize = 256 - LITERAL_MAX;

pub(super) fn decompress(src: &[u8], dst: &mut [u8]) -> Result<(), Error> {
    let want = dst.len();
    let (mut input, mut at) = (src, 0);
    while at < want {
        let short = || Error::Short { algorithm: NAME, have: at, want };
        let (&token, rest) = input.split_first().ok_or_else(short)?;
        let token = usize::from(token);
        let length = if token < LITERAL_MAX { token + 1 } else { token + 1 - LITERAL_MAX };
        let target = dst.get_mut(at..at + length).ok_or_else(|| Error::Malformed {
            algorithm: NAME,
            what: format!("run of {length} bytes at byte {at} of {want}"),
        })?;
        if token < LITERAL_MAX {
            let (literals, rest) = rest.split_at_checked(length).ok_or_else(short)?;
            target.copy_from_slice(literals);
            input = rest;
        } else {
            target.fill(0);
            input = rest;
        }
        at += length;
    }
    Ok(())
}

/// A single zero between literals stays a literal: a run of its own would cost the next literals
/// another length byte.
pub(super) fn compress(src: &[u8], limit: usize, out: &mut [u8]) -> Option<usize> {
    let mut at = 0;
    let mut rest = src;
    while !rest.is_empty() {
        let zeros = rest.iter().take(ZEROS_MAX).take_while(|byte| **byte == 0).count();
        let room = &mut out[at..limit];
        let taken = if zeros > 0 {
            *room.first_mut()? = (zeros - 1 + LITERAL_MAX) as u8;
            at += 1;
            zeros
        } else {
            let window = &rest[..rest.len().min(LITERAL_MAX)];
            let mut literals = window.windows(2).position(|pair| pair == [0, 0]).unwrap_or(window.len());
            if literals == window.len() && window.ends_with(&[0]) {
                literals -= 1;
            }
            let (token, copy) = room.get_mut(..literals + 1)?.split_first_mut()?;
            *token = (literals - 1) as u8;
            copy.copy_from_slice(&window[..literals]);
            at += literals + 1;
            literals
        };
        rest = &rest[taken..];
    }
    Some(at)
}
