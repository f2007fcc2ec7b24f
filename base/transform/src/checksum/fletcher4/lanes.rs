//! Sums that vectors compute side by side, one stream of words per lane.
//!
//! Above: the vector implementations. Theory: the parent module.

use crate::checksum::Order;

/// An implementation that sums a run of bytes, starting from zero.
#[derive(Clone, Copy)]
pub struct Twin {
    /// Name, for benchmarks.
    pub name: &'static str,
    /// Lengths must be a multiple of this many bytes.
    pub step_bytes: usize,
    /// The sums of bytes written in the given byte order.
    pub sum: fn(&[u8], Order) -> [u64; 4],
}

/// The sums of the whole from the A, B, C, D of its L lanes.
///
/// From m = tL - j and the lanes' T1 = t, T2 = t(t+1)/2, T3 = t(t+1)(t+2)/6:
/// ```text
///   m            = L T1 - j
///   m(m+1)/2     = L² T2 - L(L-1+2j)/2 T1 + j(j-1)/2
///   m(m+1)(m+2)/6= L³ T3 - L²(L-1+j) T2 + L((L-1)(L-2) + 3j(L+j-2))/6 T1 - j(j-1)(j-2)/6
/// ```
pub(super) fn combine_lanes<const L: usize>([a, b, c, d]: [[u64; L]; 4]) -> [u64; 4] {
    let l = L as i64;
    let mut sums = [0_u64; 4];
    for lane in 0..L {
        let j = lane as i64;
        // Products wrap like the sums; the coefficients themselves are small and exact.
        let term = |coefficient: i64, sum: u64| (coefficient as u64).wrapping_mul(sum);
        let (a, b, c, d) = (a[lane], b[lane], c[lane], d[lane]);
        let parts = [
            a,
            term(l, b).wrapping_add(term(-j, a)),
            term(l * l, c).wrapping_add(term(-(l * (l - 1 + 2 * j) / 2), b)).wrapping_add(term(j * (j - 1) / 2, a)),
            term(l * l * l, d)
                .wrapping_add(term(-(l * l * (l - 1 + j)), c))
                .wrapping_add(term(l * ((l - 1) * (l - 2) + 3 * j * (l + j - 2)) / 6, b))
                .wrapping_add(term(-(j * (j - 1) * (j - 2) / 6), a)),
        ];
        for (sum, part) in sums.iter_mut().zip(parts) {
            *sum = sum.wrapping_add(part);
        }
    }
    sums
}
