//! fletcher4 with NEON: the even and odd streams of `x86`, in two-lane vectors.

#![allow(unsafe_code)] // Vector loads, and calls of functions whose CPU features were detected.

use std::arch::aarch64::*;

use super::lanes::{Twin, combine_lanes};
use crate::checksum::Order;

/// The implementations that this machine supports, slowest first.
pub(super) fn twins() -> impl Iterator<Item = Twin> {
    let neon = std::arch::is_aarch64_feature_detected!("neon") && cfg!(target_endian = "little");
    neon.then_some(Twin {
        name: "neon",
        step_bytes: 16,
        // SAFETY: the entry exists only if NEON was detected.
        sum: |data, order| unsafe { sum(data, order) },
    })
    .into_iter()
}

#[target_feature(enable = "neon")]
fn sum(data: &[u8], order: Order) -> [u64; 4] {
    let low = vdupq_n_u64(0xffff_ffff);
    let mut even = [vdupq_n_u64(0); 4];
    let mut odd = even;
    for step in data.as_chunks::<16>().0 {
        // SAFETY: `step` is 16 readable bytes, and the load needs no alignment.
        let mut bytes = unsafe { vld1q_u8(step.as_ptr()) };
        if order == Order::Big {
            bytes = vrev32q_u8(bytes);
        }
        let words = vreinterpretq_u64_u8(bytes);
        even[0] = vaddq_u64(even[0], vandq_u64(words, low));
        odd[0] = vaddq_u64(odd[0], vshrq_n_u64::<32>(words));
        for i in 1..4 {
            even[i] = vaddq_u64(even[i], even[i - 1]);
            odd[i] = vaddq_u64(odd[i], odd[i - 1]);
        }
    }
    let mut streams = [[0; 4]; 4];
    for i in 0..4 {
        streams[i] = [
            vgetq_lane_u64::<0>(even[i]),
            vgetq_lane_u64::<0>(odd[i]),
            vgetq_lane_u64::<1>(even[i]),
            vgetq_lane_u64::<1>(odd[i]),
        ];
    }
    combine_lanes(streams)
}
