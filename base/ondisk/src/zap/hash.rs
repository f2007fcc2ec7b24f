//! The hash of a ZAP's keys: CRC-64 (ECMA-182, reflected) with the ZAP's salt as initial value, of
//! which the top bits are used.
//!
//! Names are hashed in normalized form, without the terminating NUL. The words of number keys are
//! hashed low byte first, in either byte order.

use super::flags::Flags;

const POLYNOMIAL: u64 = 0xc96c_5795_d787_0f42;

const TABLE: [u64; 256] = {
    let mut table = [0u64; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u64;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
};
const _: () = assert!(TABLE[128] == POLYNOMIAL);

/// CRC-64 of `bytes`, continued from `crc`.
pub fn crc64(crc: u64, bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(crc, |h, b| (h >> 8) ^ TABLE[usize::from(h as u8 ^ b)])
}

fn mask(hash: u64, flags: Flags) -> u64 {
    hash & !(u64::MAX >> flags.hash_bits())
}

/// Hash of a normalized name.
pub fn of_name(salt: u64, flags: Flags, normalised: &[u8]) -> u64 {
    mask(crc64(salt, normalised.iter().copied()), flags)
}

/// Hash of a key of 64-bit numbers.
pub fn of_key(salt: u64, flags: Flags, key: &[u64]) -> u64 {
    let hash = if flags.contains(Flags::PRE_HASHED_KEY) {
        key.first().copied().unwrap_or(0)
    } else {
        crc64(salt, key.iter().flat_map(|w| w.to_le_bytes()))
    };
    mask(hash, flags)
}
