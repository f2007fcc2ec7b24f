//! Values of ZAP entries.

use crate::error::{Error, Result};

/// A value: an array of integers of 1, 2, 4 or 8 bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Value {
    /// Size of each integer on disk, in bytes.
    pub int_bytes: u8,
    pub ints: Vec<u64>,
}

impl Value {
    /// A value of one 64-bit number, like all values of a micro ZAP.
    pub fn one(value: u64) -> Self {
        Self { int_bytes: 8, ints: vec![value] }
    }

    /// A value of bytes.
    pub fn bytes(bytes: &[u8]) -> Self {
        Self { int_bytes: 1, ints: bytes.iter().map(|b| u64::from(*b)).collect() }
    }

    /// A value of 64-bit numbers.
    pub fn words(words: &[u64]) -> Self {
        Self { int_bytes: 8, ints: words.to_vec() }
    }

    /// A string, with the NUL that terminates it on disk.
    pub fn string(text: &str) -> Self {
        Self { int_bytes: 1, ints: text.bytes().chain([0]).map(u64::from).collect() }
    }

    /// Total size of the integers in bytes.
    pub fn len_bytes(&self) -> usize {
        self.ints.len() * usize::from(self.int_bytes)
    }

    /// The integers as stored in a leaf's arrays: always big-endian.
    pub fn to_array(&self) -> Vec<u8> {
        let skip = 8 - usize::from(self.int_bytes.min(8));
        let mut out = Vec::with_capacity(self.len_bytes());
        for n in &self.ints {
            out.extend_from_slice(&n.to_be_bytes()[skip..]);
        }
        out
    }

    /// The number, if there is exactly one.
    pub fn as_u64(&self) -> Option<u64> {
        match self.ints[..] {
            [n] => Some(n),
            _ => None,
        }
    }

    /// The bytes, if the integers are bytes.
    pub fn as_bytes(&self) -> Option<Vec<u8>> {
        (self.int_bytes == 1).then(|| self.ints.iter().map(|&n| n as u8).collect())
    }

    /// The text before the first NUL, if the integers are bytes and the text is UTF-8.
    pub fn as_string(&self) -> Option<String> {
        let mut bytes = self.as_bytes()?;
        if let Some(end) = bytes.iter().position(|&b| b == 0) {
            bytes.truncate(end);
        }
        String::from_utf8(bytes).ok()
    }
}

/// The first `N` words of a ZAP value. Fewer are an error.
pub(crate) fn first_words<const N: usize>(structure: &'static str, words: &[u64]) -> Result<[u64; N]> {
    words
        .get(..N)
        .and_then(|w| w.try_into().ok())
        .ok_or_else(|| Error::corrupt(structure, "words", words.len(), format_args!("at least {N}")))
}
