//! fletcher4 with AVX2 and AVX-512.
//!
//! A load of 2K words is split into its even words (masked) and its odd ones (shifted down), each
//! widened in place to K 64-bit lanes: lane k of the even vector is stream 2k, that of the odd one
//! stream 2k+1. This needs no shuffle and yields two independent chains of additions.

#![allow(unsafe_code)] // Vector loads, and calls of functions whose CPU features were detected.

use std::arch::x86_64::*;

use super::lanes::{Twin, combine_lanes};
use crate::checksum::Order;

/// The implementations that this machine supports, slowest first.
pub(super) fn twins() -> impl Iterator<Item = Twin> {
    let mut twins = Vec::new();
    if is_x86_feature_detected!("avx2") {
        twins.push(Twin {
            name: "avx2",
            step_bytes: 32,
            // SAFETY: avx2 was detected just above.
            sum: |data, order| unsafe { avx2(data, order) },
        });
    }
    if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw") {
        twins.push(Twin {
            name: "avx512bw",
            step_bytes: 64,
            // SAFETY: avx512f and avx512bw were detected just above.
            sum: |data, order| unsafe { avx512(data, order) },
        });
    }
    twins.into_iter()
}

/// Byte indices that reverse each 4-byte group of 16 bytes.
const SWAP: [u8; 16] = [3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12];

/// Interleaves the sums of the even and odd streams in stream order.
fn interleave<const K: usize, const L: usize>(even: [[u64; K]; 4], odd: [[u64; K]; 4]) -> [u64; 4] {
    const { assert!(L == 2 * K) }
    let mut streams = [[0; L]; 4];
    for order in 0..4 {
        for k in 0..K {
            streams[order][2 * k] = even[order][k];
            streams[order][2 * k + 1] = odd[order][k];
        }
    }
    combine_lanes(streams)
}

#[target_feature(enable = "avx2")]
fn avx2(data: &[u8], order: Order) -> [u64; 4] {
    match order {
        Order::Little => avx2_sum::<false>(data),
        Order::Big => avx2_sum::<true>(data),
    }
}

#[target_feature(enable = "avx2")]
fn avx2_sum<const BIG: bool>(data: &[u8]) -> [u64; 4] {
    let low = _mm256_set1_epi64x(0xffff_ffff);
    // SAFETY: loads 16 bytes, the size of SWAP; the load needs no alignment.
    let swap = _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(SWAP.as_ptr().cast()) });
    let mut even = [_mm256_setzero_si256(); 4];
    let mut odd = even;
    for step in data.as_chunks::<32>().0 {
        // SAFETY: `step` is 32 readable bytes, and the load needs no alignment.
        let mut words = unsafe { _mm256_loadu_si256(step.as_ptr().cast()) };
        if BIG {
            words = _mm256_shuffle_epi8(words, swap);
        }
        even[0] = _mm256_add_epi64(even[0], _mm256_and_si256(words, low));
        odd[0] = _mm256_add_epi64(odd[0], _mm256_srli_epi64::<32>(words));
        for i in 1..4 {
            even[i] = _mm256_add_epi64(even[i], even[i - 1]);
            odd[i] = _mm256_add_epi64(odd[i], odd[i - 1]);
        }
    }
    let lanes = |vector: __m256i| {
        let mut lanes = [0_u64; 4];
        // SAFETY: `lanes` is 32 writable bytes, and the store needs no alignment.
        unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), vector) };
        lanes
    };
    interleave::<4, 8>(even.map(lanes), odd.map(lanes))
}

#[target_feature(enable = "avx512f,avx512bw")]
fn avx512(data: &[u8], order: Order) -> [u64; 4] {
    match order {
        Order::Little => avx512_sum::<false>(data),
        Order::Big => avx512_sum::<true>(data),
    }
}

#[target_feature(enable = "avx512f,avx512bw")]
fn avx512_sum<const BIG: bool>(data: &[u8]) -> [u64; 4] {
    let low = _mm512_set1_epi64(0xffff_ffff);
    // SAFETY: loads 16 bytes, the size of SWAP; the load needs no alignment.
    let swap = _mm512_broadcast_i32x4(unsafe { _mm_loadu_si128(SWAP.as_ptr().cast()) });
    let mut even = [_mm512_setzero_si512(); 4];
    let mut odd = even;
    for step in data.as_chunks::<64>().0 {
        // SAFETY: `step` is 64 readable bytes, and the load needs no alignment.
        let mut words = unsafe { _mm512_loadu_si512(step.as_ptr().cast()) };
        if BIG {
            words = _mm512_shuffle_epi8(words, swap);
        }
        even[0] = _mm512_add_epi64(even[0], _mm512_and_si512(words, low));
        odd[0] = _mm512_add_epi64(odd[0], _mm512_srli_epi64::<32>(words));
        for i in 1..4 {
            even[i] = _mm512_add_epi64(even[i], even[i - 1]);
            odd[i] = _mm512_add_epi64(odd[i], odd[i - 1]);
        }
    }
    let lanes = |vector: __m512i| {
        let mut lanes = [0_u64; 8];
        // SAFETY: `lanes` is 64 writable bytes, and the store needs no alignment.
        unsafe { _mm512_storeu_si512(lanes.as_mut_ptr().cast(), vector) };
        lanes
    };
    interleave::<8, 16>(even.map(lanes), odd.map(lanes))
}
