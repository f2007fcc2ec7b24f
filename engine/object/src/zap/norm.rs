//! Names made equal: upper case and Unicode normalisation, as OpenZFS's `u8_textprep_str` does it.
//!
//! It goes by Unicode 5.0. Bytes that are not UTF-8 stay as they are. Case folds letter by letter (so `ß` stays, and `ﬀ`),
//! before decomposition.

use super::NormFlags;
use std::borrow::Cow;
use unicode_normalization::UnicodeNormalization;

/// `name` in the form that `flags` ask for.
pub fn normalise(name: &[u8], flags: NormFlags) -> Cow<'_, [u8]> {
    let relevant = flags & (NormFlags::TO_UPPER | NormFlags::NFC | NormFlags::NFKC);
    if relevant.is_empty() {
        return Cow::Borrowed(name);
    }
    if name.is_ascii() {
        return if flags.contains(NormFlags::TO_UPPER) { name.to_ascii_uppercase().into() } else { name.into() };
    }
    let mut out = Vec::with_capacity(name.len() + name.len() / 2);
    for chunk in name.utf8_chunks() {
        normalise_text(chunk.valid(), flags, &mut out);
        out.extend_from_slice(chunk.invalid());
    }
    out.into()
}

fn normalise_text(text: &str, flags: NormFlags, out: &mut Vec<u8>) {
    let upper = flags.contains(NormFlags::TO_UPPER);
    let text: String = if upper { text.chars().map(to_upper).collect() } else { text.to_owned() };
    let mut push = |c: char| out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    let compatible = flags.contains(NormFlags::COMPAT_DECOMP);
    match (flags.contains(NormFlags::CANON_COMP), compatible, flags.contains(NormFlags::CANON_DECOMP)) {
        (true, true, _) => text.nfkc().for_each(&mut push),
        (true, false, _) => text.nfc().for_each(&mut push),
        (false, true, _) => text.nfkd().for_each(&mut push),
        (false, false, true) => text.nfd().for_each(&mut push),
        (false, false, false) => text.chars().for_each(&mut push),
    }
}

/// The simple upper-case mapping: one letter to one letter.
fn to_upper(c: char) -> char {
    let mut full = c.to_uppercase();
    match (full.next(), full.next()) {
        (Some(one), None) => one,
        _ => c,
    }
}
