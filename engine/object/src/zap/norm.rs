//! Normalises names: upper case and Unicode normalisation, as OpenZFS's `u8_textprep_str` does.
//!
//! It follows Unicode 5.0. Bytes that are not UTF-8 are kept as they are. Case folds letter by
//! letter (so `ß` and `ﬀ` are kept), before decomposition.

use ondisk::zap::NormFlags;
use std::borrow::Cow;
use unicode_normalization::UnicodeNormalization;

/// Returns `name` in the form that `flags` require.
pub fn normalise(name: &[u8], flags: NormFlags) -> Cow<'_, [u8]> {
    let relevant = flags & (NormFlags::TO_UPPER | NormFlags::NFC | NormFlags::NFKC);
    if relevant.is_empty() {
        return Cow::Borrowed(name);
    }
    if name.is_ascii() {
        return if flags.contains(NormFlags::TO_UPPER) { name.to_ascii_uppercase().into() } else { name.into() };
    }
    let mut out = Vec::with_capacity(name.len() + name.len() / 2);
    let (mut text_from, mut at) = (0, 0);
    while at < name.len() {
        // As in OpenZFS, the first byte alone determines how many belong together. Bytes that are
        // then no letter are kept.
        let len = match name[at] {
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => 1,
        };
        let end = name.len().min(at + len);
        if std::str::from_utf8(&name[at..end]).is_err() {
            normalise_text(&name[text_from..at], flags, &mut out);
            out.extend_from_slice(&name[at..end]);
            text_from = end;
        }
        at = end;
    }
    normalise_text(&name[text_from..], flags, &mut out);
    out.into()
}

fn normalise_text(text: &[u8], flags: NormFlags, out: &mut Vec<u8>) {
    // Invalid bytes were split off above, so this is never lossy.
    let text = String::from_utf8_lossy(text);
    // Characters that Unicode 5.0 did not know are kept, and separate what is around them.
    for piece in text.split_inclusive(is_inert) {
        let mut known = piece.chars();
        let inert = known.next_back().filter(|c| is_inert(*c));
        normalise_known(if inert.is_some() { known.as_str() } else { piece }, flags, out);
        out.extend(inert.into_iter().flat_map(|c| c.encode_utf8(&mut [0; 4]).as_bytes().to_vec()));
    }
}

fn normalise_known(text: &str, flags: NormFlags, out: &mut Vec<u8>) {
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
    match c {
        // Greek with iota subscript: its full upper case is two letters, its simple one is the
        // title case.
        '\u{1f80}'..='\u{1f87}' | '\u{1f90}'..='\u{1f97}' | '\u{1fa0}'..='\u{1fa7}' => {
            char::from_u32(c as u32 + 8).unwrap_or(c)
        }
        '\u{1fb3}' | '\u{1fc3}' | '\u{1ff3}' => char::from_u32(c as u32 + 9).unwrap_or(c),
        _ => {
            let mut full = c.to_uppercase();
            match (full.next(), full.next()) {
                (Some(one), None) => one,
                _ => c,
            }
        }
    }
}

fn is_inert(c: char) -> bool {
    let at = INERT.partition_point(|range| range.1 < c as u32);
    INERT.get(at).is_some_and(|range| range.0 <= c as u32)
}

/// Characters added or changed since Unicode 5.0 that would change a name: made by comparing each
/// code point under Unicode [`UNICODE`] with OpenZFS. Ranges include neighbours that neither
/// changes.
const INERT: [(u32, u32); 77] = [
    (0x19b, 0x19b),
    (0x23f, 0x240),
    (0x250, 0x252),
    (0x25c, 0x25c),
    (0x261, 0x261),
    (0x264, 0x266),
    (0x26a, 0x26a),
    (0x26c, 0x26c),
    (0x271, 0x271),
    (0x282, 0x282),
    (0x287, 0x287),
    (0x29d, 0x29e),
    (0x371, 0x373),
    (0x377, 0x377),
    (0x3d7, 0x3d7),
    (0x3f3, 0x3f3),
    (0x487, 0x487),
    (0x515, 0x558),
    (0x58b, 0x58c),
    (0x5c8, 0x5c9),
    (0x616, 0x61a),
    (0x65f, 0x65f),
    (0x7fd, 0x8ff),
    (0x9fe, 0x9fe),
    (0xc3c, 0xc3c),
    (0xd3b, 0xd3c),
    (0xeba, 0xeba),
    (0x103a, 0x10fa),
    (0x10fd, 0x10ff),
    (0x135d, 0x135e),
    (0x13f8, 0x13fd),
    (0x1715, 0x1715),
    (0x1a60, 0x1af0),
    (0x1baa, 0x1cf9),
    (0x1d79, 0x1d79),
    (0x1d8e, 0x1d8e),
    (0x1dcb, 0x1dfd),
    (0x1efb, 0x1eff),
    (0x2095, 0x209f),
    (0x20f0, 0x20f0),
    (0x2150, 0x2152),
    (0x2189, 0x2189),
    (0x2c5f, 0x2c5f),
    (0x2c73, 0x2c73),
    (0x2c7c, 0x2c7d),
    (0x2cec, 0x2cf3),
    (0x2d27, 0x2d2d),
    (0x2d7f, 0x2dff),
    (0x3244, 0x3247),
    (0x32ff, 0x32ff),
    (0xa641, 0xa7f9),
    (0xa82c, 0xabed),
    (0xfa2e, 0xfa2f),
    (0xfa6b, 0xfa6d),
    (0xfe24, 0xfe2f),
    (0x101fd, 0x1037a),
    (0x104d8, 0x105e4),
    (0x10781, 0x107bf),
    (0x10ae5, 0x10ae6),
    (0x10cc0, 0x11a99),
    (0x11c3f, 0x11d97),
    (0x11f41, 0x11f42),
    (0x16121, 0x1612f),
    (0x16af0, 0x16b36),
    (0x16d68, 0x16ff1),
    (0x1b123, 0x1b126),
    (0x1bc9e, 0x1bc9e),
    (0x1ccd6, 0x1ccf9),
    (0x1d127, 0x1d128),
    (0x1d250, 0x1d281),
    (0x1d6a6, 0x1d6a6),
    (0x1df95, 0x1e2ef),
    (0x1e4ec, 0x1e6f5),
    (0x1e8d0, 0x1e94a),
    (0x1ee00, 0x1eebb),
    (0x1f100, 0x1f251),
    (0x1fbf0, 0x1fbf9),
];

/// The version that [`INERT`] was made for. A newer library requires the comparison again.
#[cfg(test)]
const UNICODE: (u8, u8, u8) = (18, 0, 0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_inert_characters_fits_the_library() {
        assert_eq!(unicode_normalization::UNICODE_VERSION, UNICODE);
        assert!(INERT.windows(2).all(|w| w[0].0 <= w[0].1 && w[0].1 < w[1].0));
    }

    #[test]
    fn names_fold_as_openzfs_folds_them() {
        let fold = |s: &[u8], flags| normalise(s, flags).into_owned();
        let upper = NormFlags::TO_UPPER;
        assert_eq!(fold("straße ﬀ ὀδυσσεύς".as_bytes(), upper), "STRAßE ﬀ ὈΔΥΣΣΕΎΣ".as_bytes());
        // Georgian got capitals in Unicode 11, which OpenZFS does not know.
        assert_eq!(fold("გამარჯობა".as_bytes(), upper), "გამარჯობა".as_bytes());
        assert_eq!(fold("ᾳ".as_bytes(), upper), "ᾼ".as_bytes());
        assert_eq!(fold("é".as_bytes(), NormFlags::NFD), "e\u{301}".as_bytes());
        assert_eq!(fold("e\u{301}".as_bytes(), NormFlags::NFC), "é".as_bytes());
        assert_eq!(fold("ﬁ".as_bytes(), NormFlags::NFKC | upper), "FI".to_lowercase().as_bytes());
        assert_eq!(fold(b"a\xffe\xcc\x81", upper | NormFlags::NFC), b"A\xff\xc3\x89");
    }
}
