//! x86-64 vectors: AVX2, AVX-512 BW, and AVX-512 with GFNI.
//!
//! A doubled byte that loses its top bit gets 0x1d added. Without GFNI, any other product takes two
//! lookups of half a byte each, with a byte shuffle as the table; with GFNI, every product is one
//! instruction.

#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::field::{NIBBLES, bit_matrix};
use super::kernel::{Lane, kernel};

// Vectors in a strip, measured on Zen 5 with 8 data columns of 4 to 128 KiB: 8 are a tenth to a
// quarter faster than 4 as long as the sums fit in registers. If they do not (three sums of 8 with
// AVX2, or compared), speed falls to a half or a sixth.
kernel!(AVX2, Ymm, 8, 8, 4, 4, #[target_feature(enable = "avx2")]);
kernel!(AVX512, Zmm, 8, 8, 8, 4, #[target_feature(enable = "avx512f,avx512bw")]);
kernel!(GFNI, ZmmGfni, 8, 8, 8, 4, #[target_feature(enable = "avx512f,avx512bw,gfni")]);

#[derive(Clone, Copy)]
struct Ymm(__m256i);

// SAFETY for all methods of the three types: the caller guarantees the instructions and the bytes
// behind the pointers; the loads and stores used need no alignment.
impl Lane for Ymm {
    const BYTES: usize = 32;
    type Factor = (__m256i, __m256i);

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm256_setzero_si256() })
    }
    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm256_loadu_si256(from.cast()) })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: see above.
        unsafe { _mm256_storeu_si256(to.cast(), self.0) }
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm256_xor_si256(self.0, other.0) })
    }
    #[inline(always)]
    unsafe fn or(self, other: Self) -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm256_or_si256(self.0, other.0) })
    }
    #[inline(always)]
    unsafe fn mul2(self) -> Self {
        // SAFETY: see above.
        unsafe {
            let negative = _mm256_cmpgt_epi8(_mm256_setzero_si256(), self.0);
            let reduce = _mm256_and_si256(negative, _mm256_set1_epi8(0x1d));
            Self(_mm256_xor_si256(_mm256_add_epi8(self.0, self.0), reduce))
        }
    }
    #[inline(always)]
    unsafe fn mul4(self) -> Self {
        // SAFETY: see above.
        unsafe { self.mul2().mul2() }
    }
    #[inline(always)]
    unsafe fn factor(factor: u8) -> Self::Factor {
        let [low, high] = &NIBBLES[usize::from(factor)];
        // SAFETY: see above; both tables have 16 bytes.
        unsafe {
            (
                _mm256_broadcastsi128_si256(_mm_loadu_si128(low.as_ptr().cast())),
                _mm256_broadcastsi128_si256(_mm_loadu_si128(high.as_ptr().cast())),
            )
        }
    }
    #[inline(always)]
    unsafe fn mul(self, (low, high): Self::Factor) -> Self {
        // SAFETY: see above.
        unsafe {
            let mask = _mm256_set1_epi8(0x0f);
            let below = _mm256_and_si256(self.0, mask);
            let above = _mm256_and_si256(_mm256_srli_epi16::<4>(self.0), mask);
            Self(_mm256_xor_si256(_mm256_shuffle_epi8(low, below), _mm256_shuffle_epi8(high, above)))
        }
    }
    #[inline(always)]
    unsafe fn is_zero(self) -> bool {
        // SAFETY: see above.
        unsafe { _mm256_testz_si256(self.0, self.0) == 1 }
    }
}

#[derive(Clone, Copy)]
struct Zmm(__m512i);

impl Lane for Zmm {
    const BYTES: usize = 64;
    type Factor = (__m512i, __m512i);

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm512_setzero_si512() })
    }
    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm512_loadu_si512(from.cast()) })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: see above.
        unsafe { _mm512_storeu_si512(to.cast(), self.0) }
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm512_xor_si512(self.0, other.0) })
    }
    #[inline(always)]
    unsafe fn or(self, other: Self) -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm512_or_si512(self.0, other.0) })
    }
    #[inline(always)]
    unsafe fn mul2(self) -> Self {
        // SAFETY: see above.
        unsafe {
            let negative = _mm512_movepi8_mask(self.0);
            let reduce = _mm512_maskz_mov_epi8(negative, _mm512_set1_epi8(0x1d));
            Self(_mm512_xor_si512(_mm512_add_epi8(self.0, self.0), reduce))
        }
    }
    #[inline(always)]
    unsafe fn mul4(self) -> Self {
        // SAFETY: see above.
        unsafe { self.mul2().mul2() }
    }
    #[inline(always)]
    unsafe fn factor(factor: u8) -> Self::Factor {
        let [low, high] = &NIBBLES[usize::from(factor)];
        // SAFETY: see above; both tables have 16 bytes.
        unsafe {
            (
                _mm512_broadcast_i32x4(_mm_loadu_si128(low.as_ptr().cast())),
                _mm512_broadcast_i32x4(_mm_loadu_si128(high.as_ptr().cast())),
            )
        }
    }
    #[inline(always)]
    unsafe fn mul(self, (low, high): Self::Factor) -> Self {
        // SAFETY: see above.
        unsafe {
            let mask = _mm512_set1_epi8(0x0f);
            let below = _mm512_and_si512(self.0, mask);
            let above = _mm512_and_si512(_mm512_srli_epi16::<4>(self.0), mask);
            Self(_mm512_xor_si512(_mm512_shuffle_epi8(low, below), _mm512_shuffle_epi8(high, above)))
        }
    }
    #[inline(always)]
    unsafe fn is_zero(self) -> bool {
        // SAFETY: see above.
        unsafe { _mm512_test_epi64_mask(self.0, self.0) == 0 }
    }
}

#[derive(Clone, Copy)]
struct ZmmGfni(Zmm);

const TIMES_2: i64 = bit_matrix(2) as i64;
const TIMES_4: i64 = bit_matrix(4) as i64;

static MATRICES: [u64; 256] = {
    let mut table = [0; 256];
    let mut factor = 0;
    while factor < 256 {
        table[factor] = bit_matrix(factor as u8);
        factor += 1;
    }
    table
};

impl Lane for ZmmGfni {
    const BYTES: usize = 64;
    type Factor = __m512i;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: see above.
        Self(unsafe { Zmm::zero() })
    }
    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: see above.
        Self(unsafe { Zmm::load(from) })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: see above.
        unsafe { self.0.store(to) }
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: see above.
        Self(unsafe { self.0.add(other.0) })
    }
    #[inline(always)]
    unsafe fn or(self, other: Self) -> Self {
        // SAFETY: see above.
        Self(unsafe { self.0.or(other.0) })
    }
    #[inline(always)]
    unsafe fn mul2(self) -> Self {
        // SAFETY: see above.
        unsafe { self.mul(_mm512_set1_epi64(TIMES_2)) }
    }
    #[inline(always)]
    unsafe fn mul4(self) -> Self {
        // SAFETY: see above.
        unsafe { self.mul(_mm512_set1_epi64(TIMES_4)) }
    }
    #[inline(always)]
    unsafe fn factor(factor: u8) -> __m512i {
        // SAFETY: see above.
        unsafe { _mm512_set1_epi64(MATRICES[usize::from(factor)] as i64) }
    }
    #[inline(always)]
    unsafe fn mul(self, factor: __m512i) -> Self {
        // SAFETY: see above.
        Self(Zmm(unsafe { _mm512_gf2p8affine_epi64_epi8::<0>(self.0.0, factor) }))
    }
    #[inline(always)]
    unsafe fn is_zero(self) -> bool {
        // SAFETY: see above.
        unsafe { self.0.is_zero() }
    }
}
