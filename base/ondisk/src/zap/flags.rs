//! Flags of a ZAP: how its keys are formed, and how names are normalized.

bitflags::bitflags! {
    /// `zap_flags_t`: how the keys of a fat ZAP are formed.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct Flags: u64 {
        /// The hash has 48 significant bits instead of 28.
        const HASH64 = 1;
        /// Keys are arrays of 64-bit numbers, not strings.
        const UINT64_KEY = 2;
        /// The first word of the key is the hash.
        const PRE_HASHED_KEY = 4;
    }
}

impl Flags {
    /// Number of significant top bits of a hash (`zap_hashbits`).
    pub fn hash_bits(self) -> u32 {
        if self.contains(Self::HASH64) { 48 } else { 28 }
    }

    /// Exclusive upper bound of collision differentiators (`zap_maxcd`).
    pub fn max_cd(self) -> u32 {
        if self.contains(Self::HASH64) { 0xffff } else { u32::MAX }
    }
}

bitflags::bitflags! {
    /// How names are normalized before they are hashed and compared (`mz_normflags`,
    /// `zap_normflags`; u8_textprep.h).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct NormFlags: u64 {
        /// Convert letters to upper case.
        const TO_UPPER = 0x02;
        const CANON_DECOMP = 0x10;
        const COMPAT_DECOMP = 0x20;
        /// Canonical composition after decomposition.
        const CANON_COMP = 0x40;
        /// `normalization=formD`.
        const NFD = 0x10;
        /// `normalization=formC`.
        const NFC = 0x50;
        /// `normalization=formKD`.
        const NFKD = 0x20;
        /// `normalization=formKC`.
        const NFKC = 0x60;
    }
}
