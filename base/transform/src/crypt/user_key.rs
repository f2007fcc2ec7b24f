//! The key supplied by the user: raw bytes, hex digits or a passphrase, converted to a wrapping
//! key.

use zeroize::Zeroizing;

use super::WRAPPING_KEY_BYTES;
use super::derive::wrapping_key_from_passphrase;

/// Format of the key: the property `keyformat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyFormat {
    /// 32 bytes.
    Raw,
    /// 64 hex digits.
    Hex,
    /// Text of 8 to 512 bytes.
    Passphrase,
}

impl KeyFormat {
    /// The format with this number. `None` for 0 and unknown numbers.
    pub fn from_raw(raw: u64) -> Option<Self> {
        match raw {
            1 => Some(Self::Raw),
            2 => Some(Self::Hex),
            3 => Some(Self::Passphrase),
            _ => None,
        }
    }

    /// The number on disk.
    pub fn to_raw(self) -> u64 {
        match self {
            Self::Raw => 1,
            Self::Hex => 2,
            Self::Passphrase => 3,
        }
    }

    /// Value of the property `keyformat`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Hex => "hex",
            Self::Passphrase => "passphrase",
        }
    }
}

/// Why the supplied key is invalid. The messages are those of `zfs load-key`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // The messages describe them.
pub enum UserKeyError {
    #[error("Raw key too short (expected 32).")]
    RawTooShort,
    #[error("Raw key too long (expected 32).")]
    RawTooLong,
    #[error("Hex key too short (expected 64).")]
    HexTooShort,
    #[error("Hex key too long (expected 64).")]
    HexTooLong,
    #[error("Invalid hex character detected.")]
    InvalidHex,
    #[error("Failed to generate key from passphrase.")]
    InvalidIterations,
}

/// Converts `material` to a wrapping key. `salt` and `iterations` (properties `pbkdf2salt` and
/// `pbkdf2iters`) apply to passphrases only.
///
/// For hex digits and passphrases, the first line is used, as `zfs load-key` reads it from a file,
/// up to a NUL; raw keys are used in full. The length of a passphrase is not checked: it was
/// checked when the key was set.
pub fn wrapping_key(
    format: KeyFormat,
    material: &[u8],
    salt: u64,
    iterations: u64,
) -> Result<Zeroizing<[u8; WRAPPING_KEY_BYTES]>, UserKeyError> {
    match format {
        KeyFormat::Raw => match material.len() {
            0..WRAPPING_KEY_BYTES => Err(UserKeyError::RawTooShort),
            WRAPPING_KEY_BYTES => Ok(Zeroizing::new(material.try_into().expect("length was just matched"))),
            _ => Err(UserKeyError::RawTooLong),
        },
        KeyFormat::Hex => from_hex(first_line(material)),
        KeyFormat::Passphrase => {
            let rounds = u32::try_from(iterations).ok().filter(|r| *r > 0).ok_or(UserKeyError::InvalidIterations)?;
            let line = first_line(material);
            let text = line.split(|b| *b == 0).next().unwrap_or(line);
            Ok(wrapping_key_from_passphrase(text, salt, rounds))
        }
    }
}

fn first_line(material: &[u8]) -> &[u8] {
    material.split(|b| *b == b'\n').next().unwrap_or(material)
}

fn from_hex(digits: &[u8]) -> Result<Zeroizing<[u8; WRAPPING_KEY_BYTES]>, UserKeyError> {
    match digits.len() {
        0..64 => return Err(UserKeyError::HexTooShort),
        64 => {}
        _ => return Err(UserKeyError::HexTooLong),
    }
    let value = |digit: u8| (digit as char).to_digit(16).map(|v| v as u8).ok_or(UserKeyError::InvalidHex);
    let mut key = Zeroizing::new([0; WRAPPING_KEY_BYTES]);
    for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    Ok(key)
}
