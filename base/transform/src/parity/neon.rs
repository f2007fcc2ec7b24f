//! AArch64 vectors.

#![allow(unsafe_code)]

use std::arch::aarch64::*;

use super::field::NIBBLES;
use super::kernel::{Lane, kernel};

kernel!(NEON, Quad, 4, 4, 4, 4, #[target_feature(enable = "neon")]);

#[derive(Clone, Copy)]
struct Quad(uint8x16_t);

// SAFETY for all methods: the caller guarantees the instructions and the bytes behind the pointers;
// the loads and stores used need no alignment.
impl Lane for Quad {
    const BYTES: usize = 16;
    type Factor = (uint8x16_t, uint8x16_t);

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: see above.
        Self(unsafe { vdupq_n_u8(0) })
    }
    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: see above.
        Self(unsafe { vld1q_u8(from) })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: see above.
        unsafe { vst1q_u8(to, self.0) }
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: see above.
        Self(unsafe { veorq_u8(self.0, other.0) })
    }
    #[inline(always)]
    unsafe fn or(self, other: Self) -> Self {
        // SAFETY: see above.
        Self(unsafe { vorrq_u8(self.0, other.0) })
    }
    #[inline(always)]
    unsafe fn mul2(self) -> Self {
        // SAFETY: see above.
        unsafe {
            let negative = vreinterpretq_u8_s8(vshrq_n_s8::<7>(vreinterpretq_s8_u8(self.0)));
            let reduce = vandq_u8(negative, vdupq_n_u8(0x1d));
            Self(veorq_u8(vshlq_n_u8::<1>(self.0), reduce))
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
        unsafe { (vld1q_u8(low.as_ptr()), vld1q_u8(high.as_ptr())) }
    }
    #[inline(always)]
    unsafe fn mul(self, (low, high): Self::Factor) -> Self {
        // SAFETY: see above.
        unsafe {
            let below = vandq_u8(self.0, vdupq_n_u8(0x0f));
            let above = vshrq_n_u8::<4>(self.0);
            Self(veorq_u8(vqtbl1q_u8(low, below), vqtbl1q_u8(high, above)))
        }
    }
    #[inline(always)]
    unsafe fn is_zero(self) -> bool {
        // SAFETY: see above.
        unsafe { vmaxvq_u8(self.0) == 0 }
    }
}
