//! The scalar implementation: eight field elements in a 64-bit word, and single bytes for the
//! remainder.

#![allow(unsafe_code)]

use super::field::MUL;
use super::kernel::{Lane, kernel};

kernel!(SCALAR, Word, 8, 4, 4, 4);
kernel!(WORDS, Word, 1, 1, 1, 1);
kernel!(BYTES, Byte, 1, 1, 1, 1);

/// Eight bytes. Their order in the word does not matter: no operation carries from one byte to the
/// next.
#[derive(Clone, Copy)]
struct Word(u64);

const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

impl Lane for Word {
    const BYTES: usize = 8;
    type Factor = u8;

    #[inline(always)]
    unsafe fn zero() -> Self {
        Self(0)
    }
    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: eight bytes are readable; the read needs no alignment.
        Self(unsafe { from.cast::<u64>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: eight bytes are writable; the write needs no alignment.
        unsafe { to.cast::<u64>().write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        Self(self.0 ^ other.0)
    }
    #[inline(always)]
    unsafe fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
    #[inline(always)]
    unsafe fn mul2(self) -> Self {
        let carries = self.0 & HIGH_BITS;
        let reduce = (carries << 1).wrapping_sub(carries >> 7) & 0x1d1d_1d1d_1d1d_1d1d;
        Self((self.0 ^ carries) << 1 ^ reduce)
    }
    #[inline(always)]
    unsafe fn mul4(self) -> Self {
        // SAFETY: needs no special instructions.
        unsafe { self.mul2().mul2() }
    }
    #[inline(always)]
    unsafe fn factor(factor: u8) -> u8 {
        factor
    }
    #[inline(always)]
    unsafe fn mul(self, factor: u8) -> Self {
        let row = &MUL[usize::from(factor)];
        Self(u64::from_ne_bytes(self.0.to_ne_bytes().map(|byte| row[usize::from(byte)])))
    }
    #[inline(always)]
    unsafe fn is_zero(self) -> bool {
        self.0 == 0
    }
}

#[derive(Clone, Copy)]
struct Byte(u8);

impl Lane for Byte {
    const BYTES: usize = 1;
    type Factor = u8;

    #[inline(always)]
    unsafe fn zero() -> Self {
        Self(0)
    }
    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: one byte is readable.
        Self(unsafe { *from })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: one byte is writable.
        unsafe { *to = self.0 }
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        Self(self.0 ^ other.0)
    }
    #[inline(always)]
    unsafe fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
    #[inline(always)]
    unsafe fn mul2(self) -> Self {
        Self(MUL[2][usize::from(self.0)])
    }
    #[inline(always)]
    unsafe fn mul4(self) -> Self {
        Self(MUL[4][usize::from(self.0)])
    }
    #[inline(always)]
    unsafe fn factor(factor: u8) -> u8 {
        factor
    }
    #[inline(always)]
    unsafe fn mul(self, factor: u8) -> Self {
        Self(MUL[usize::from(factor)][usize::from(self.0)])
    }
    #[inline(always)]
    unsafe fn is_zero(self) -> bool {
        self.0 == 0
    }
}
