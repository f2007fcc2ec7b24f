//! The single pass over a row, written once for vectors of any width.
//!
//! A [`Lane`] is a vector with the few operations that the field needs. `strip` loads `U` vectors
//! from every data column and keeps P, Q and R in registers; generating, verifying and
//! reconstructing differ in what they do with the sums. What is shorter than a strip is left to
//! narrower lanes ([`super::pass`]).
//!
//! Everything here is `#[inline(always)]`, so that it becomes part of the caller, which has the
//! target features required by the lane's instructions.

#![allow(unsafe_code)]
// The loops over `u` index several arrays at once.
#![allow(clippy::needless_range_loop)]

use super::field::MAX_PARITY;

/// A vector of field elements.
///
/// # Safety
///
/// The machine must support the instructions of the implementation wherever a method is called.
pub(super) trait Lane: Copy {
    /// Size of the vector in bytes.
    const BYTES: usize;
    /// A factor prepared for `mul`.
    type Factor: Copy;
    unsafe fn zero() -> Self;
    /// `from` must point to `BYTES` readable bytes.
    unsafe fn load(from: *const u8) -> Self;
    /// `to` must point to `BYTES` writable bytes.
    unsafe fn store(self, to: *mut u8);
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn or(self, other: Self) -> Self;
    unsafe fn mul2(self) -> Self;
    unsafe fn mul4(self) -> Self;
    unsafe fn factor(factor: u8) -> Self::Factor;
    unsafe fn mul(self, factor: Self::Factor) -> Self;
    unsafe fn is_zero(self) -> bool;
}

/// How missing columns are computed from the differences of stored and computed parity.
#[derive(Debug, Clone, Copy)]
pub(super) struct Solution {
    /// Row: missing column; column: index into `chosen`.
    pub matrix: [[u8; MAX_PARITY]; MAX_PARITY],
    /// The parity columns that are used.
    pub chosen: [usize; MAX_PARITY],
    /// Number of missing columns.
    pub unknown: usize,
}

/// A whole pass over `[from, to)`, in which every data column has either all bytes or none.
type Generate = unsafe fn(&[*mut u8], &[&[u8]], usize, usize) -> usize;
type Verify = unsafe fn([*const u8; MAX_PARITY], &[&[u8]], usize, usize, &mut [bool; MAX_PARITY]) -> usize;
type Reconstruct = unsafe fn([*const u8; MAX_PARITY], &[&[u8]], &Solution, &[*mut u8], usize, usize) -> usize;

/// The three passes of one backend. Each returns the offset it reached: `to`, or `from` if the
/// range is shorter than a strip.
///
/// The function that returns a kernel has checked that the machine supports its instructions.
#[derive(Clone, Copy)]
pub(super) struct Kernel {
    pub generate: Generate,
    pub verify: Verify,
    pub reconstruct: Reconstruct,
}

/// Offsets of the strips in `[from, to)`. After the first, they start at vector boundaries of the
/// data columns, which have the same alignment within a block (loads across cache lines take twice
/// as long); the last one ends at `to`. The first two and the last two may therefore overlap, which
/// is harmless: results are not read back.
struct Strips {
    next: Option<usize>,
    /// Bytes from the first strip to the second.
    first_step: usize,
    step: usize,
    to: usize,
    /// End of the strips: `to`, or `from` if no strip fits.
    done: usize,
}

impl Strips {
    #[inline(always)]
    fn new<L: Lane>(vectors: usize, data: &[&[u8]], from: usize, to: usize) -> Self {
        let step = vectors * L::BYTES;
        let fits = to - from >= step;
        let skew = data
            .iter()
            .find(|column| column.len() >= to)
            .map_or(0, |column| column.as_ptr().addr().wrapping_add(from) % L::BYTES);
        Self { next: fits.then_some(from), first_step: step - skew, step, to, done: if fits { to } else { from } }
    }

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let at = self.next?;
        let last = self.to - self.step;
        self.next = (at < last).then(|| last.min(at + self.first_step));
        self.first_step = self.step;
        Some(at)
    }
}

/// P, Q and R of a strip; those not requested are zero.
///
/// # Safety
///
/// The machine supports the lane's instructions; `at + U * L::BYTES <= to`.
#[inline(always)]
unsafe fn strip<L: Lane, const U: usize, const P: bool, const Q: bool, const R: bool>(
    data: &[&[u8]],
    at: usize,
    to: usize,
) -> [[L; U]; 3] {
    // SAFETY: a column is read only if it has `to` bytes, and the strip ends at or before `to`.
    unsafe {
        let mut sums = [[L::zero(); U]; 3];
        for column in data {
            if Q {
                for sum in &mut sums[1] {
                    *sum = sum.mul2();
                }
            }
            if R {
                for sum in &mut sums[2] {
                    *sum = sum.mul4();
                }
            }
            if column.len() >= to {
                let base = column.as_ptr().add(at);
                for u in 0..U {
                    let bytes = L::load(base.add(u * L::BYTES));
                    if P {
                        sums[0][u] = sums[0][u].add(bytes);
                    }
                    if Q {
                        sums[1][u] = sums[1][u].add(bytes);
                    }
                    if R {
                        sums[2][u] = sums[2][u].add(bytes);
                    }
                }
            }
        }
        sums
    }
}

/// # Safety
///
/// The machine supports the lane's instructions; `parity` has a pointer to `to` writable bytes for
/// each requested one of P, Q, R.
#[inline(always)]
pub(super) unsafe fn generate<L: Lane, const U: usize, const P: bool, const Q: bool, const R: bool>(
    parity: &[*mut u8],
    data: &[&[u8]],
    from: usize,
    to: usize,
) -> usize {
    let mut strips = Strips::new::<L>(U, data, from, to);
    while let Some(at) = strips.next() {
        // SAFETY: the strip is within `to`; see above.
        unsafe {
            let sums = strip::<L, U, P, Q, R>(data, at, to);
            for (sum, column) in sums.iter().zip(parity) {
                for (u, lane) in sum.iter().enumerate() {
                    lane.store(column.add(at + u * L::BYTES));
                }
            }
        }
    }
    strips.done
}

/// # Safety
///
/// The machine supports the lane's instructions; the requested parity pointers refer to `to`
/// readable bytes.
#[inline(always)]
pub(super) unsafe fn verify<L: Lane, const U: usize, const P: bool, const Q: bool, const R: bool>(
    parity: [*const u8; MAX_PARITY],
    data: &[&[u8]],
    from: usize,
    to: usize,
    wrong: &mut [bool; MAX_PARITY],
) -> usize {
    let enabled = [P, Q, R];
    let mut strips = Strips::new::<L>(U, data, from, to);
    // SAFETY: the strips lie within `to`; see above.
    unsafe {
        let mut differences = [L::zero(); 3];
        while let Some(at) = strips.next() {
            let sums = strip::<L, U, P, Q, R>(data, at, to);
            for which in 0..3 {
                if enabled[which] {
                    for u in 0..U {
                        let stored = L::load(parity[which].add(at + u * L::BYTES));
                        differences[which] = differences[which].or(sums[which][u].add(stored));
                    }
                }
            }
        }
        for which in 0..3 {
            wrong[which] |= enabled[which] && !differences[which].is_zero();
        }
    }
    strips.done
}

/// # Safety
///
/// The machine supports the lane's instructions; the requested parity pointers refer to `to`
/// readable bytes and are the `N` that `solution` chose; `outputs` are `N` pointers to `to`
/// writable bytes.
#[inline(always)]
pub(super) unsafe fn reconstruct<
    L: Lane,
    const U: usize,
    const N: usize,
    const P: bool,
    const Q: bool,
    const R: bool,
>(
    parity: [*const u8; MAX_PARITY],
    data: &[&[u8]],
    solution: &Solution,
    outputs: &[*mut u8],
    from: usize,
    to: usize,
) -> usize {
    let enabled = [P, Q, R];
    let mut strips = Strips::new::<L>(U, data, from, to);
    // SAFETY: the strips lie within `to`; see above.
    unsafe {
        let mut factors = [[L::factor(0); N]; N];
        for (row, coefficients) in factors.iter_mut().zip(&solution.matrix) {
            for (factor, coefficient) in row.iter_mut().zip(coefficients) {
                *factor = L::factor(*coefficient);
            }
        }
        // One missing column and P available: the difference is the column.
        let plain = N == 1 && P;
        while let Some(at) = strips.next() {
            let sums = strip::<L, U, P, Q, R>(data, at, to);
            let mut differences = [[L::zero(); U]; N];
            let mut place = 0;
            for which in 0..3 {
                if enabled[which] {
                    for u in 0..U {
                        let stored = L::load(parity[which].add(at + u * L::BYTES));
                        differences[place][u] = sums[which][u].add(stored);
                    }
                    place += 1;
                }
            }
            for (row, output) in factors.iter().zip(outputs) {
                for u in 0..U {
                    let mut bytes = if plain { differences[0][u] } else { differences[0][u].mul(row[0]) };
                    for place in 1..N {
                        bytes = bytes.add(differences[place][u].mul(row[place]));
                    }
                    bytes.store(output.add(at + u * L::BYTES));
                }
            }
        }
    }
    strips.done
}

/// Creates a [`Kernel`] from a lane: functions with the target features that dispatch on the
/// requested columns. `$one`, `$two`, `$three` are the number of vectors in a strip that keeps one,
/// two or three sums, `$compared` if it keeps three and compares them: exceeding the number of
/// registers is slow.
macro_rules! kernel {
    ($name:ident, $lane:ty, $one:literal, $two:literal, $three:literal, $compared:literal $(, #[$feature:meta])?) => {
        pub(in crate::parity) const $name: $crate::parity::kernel::Kernel = {
            use $crate::parity::kernel::{self, Solution};

            /// # Safety
            ///
            /// Same as [`kernel::generate`].
            $(#[$feature])?
            unsafe fn generate(parity: &[*mut u8], data: &[&[u8]], from: usize, to: usize) -> usize {
                // SAFETY: forwarded to the caller.
                unsafe {
                    match parity.len() {
                        1 => kernel::generate::<$lane, $one, true, false, false>(parity, data, from, to),
                        2 => kernel::generate::<$lane, $two, true, true, false>(parity, data, from, to),
                        _ => kernel::generate::<$lane, $three, true, true, true>(parity, data, from, to),
                    }
                }
            }

            /// # Safety
            ///
            /// Same as [`kernel::verify`].
            $(#[$feature])?
            unsafe fn verify(
                parity: [*const u8; 3],
                data: &[&[u8]],
                from: usize,
                to: usize,
                wrong: &mut [bool; 3],
            ) -> usize {
                let [p, q, r] = parity.map(|column| !column.is_null());
                // SAFETY: forwarded to the caller; only columns that are present are requested.
                unsafe {
                    match (p, q, r) {
                        (false, false, false) => to,
                        (true, false, false) => {
                            kernel::verify::<$lane, $one, true, false, false>(parity, data, from, to, wrong)
                        }
                        (false, true, false) => {
                            kernel::verify::<$lane, $one, false, true, false>(parity, data, from, to, wrong)
                        }
                        (false, false, true) => {
                            kernel::verify::<$lane, $one, false, false, true>(parity, data, from, to, wrong)
                        }
                        (true, true, false) => {
                            kernel::verify::<$lane, $two, true, true, false>(parity, data, from, to, wrong)
                        }
                        (true, false, true) => {
                            kernel::verify::<$lane, $two, true, false, true>(parity, data, from, to, wrong)
                        }
                        (false, true, true) => {
                            kernel::verify::<$lane, $two, false, true, true>(parity, data, from, to, wrong)
                        }
                        (true, true, true) => {
                            kernel::verify::<$lane, $compared, true, true, true>(parity, data, from, to, wrong)
                        }
                    }
                }
            }

            /// # Safety
            ///
            /// Same as [`kernel::reconstruct`].
            $(#[$feature])?
            unsafe fn reconstruct(
                parity: [*const u8; 3],
                data: &[&[u8]],
                solution: &Solution,
                to_columns: &[*mut u8],
                from: usize,
                to: usize,
            ) -> usize {
                use kernel::reconstruct as run;
                let [p, q, r] = parity.map(|column| !column.is_null());
                let (y, s, o) = (parity, solution, to_columns);
                // SAFETY: forwarded to the caller; the columns present are those that the solution
                // chose.
                unsafe {
                    match (p, q, r) {
                        (false, false, false) => to,
                        (true, false, false) => run::<$lane, $one, 1, true, false, false>(y, data, s, o, from, to),
                        (false, true, false) => run::<$lane, $one, 1, false, true, false>(y, data, s, o, from, to),
                        (false, false, true) => run::<$lane, $one, 1, false, false, true>(y, data, s, o, from, to),
                        (true, true, false) => run::<$lane, $two, 2, true, true, false>(y, data, s, o, from, to),
                        (true, false, true) => run::<$lane, $two, 2, true, false, true>(y, data, s, o, from, to),
                        (false, true, true) => run::<$lane, $two, 2, false, true, true>(y, data, s, o, from, to),
                        (true, true, true) => run::<$lane, $three, 3, true, true, true>(y, data, s, o, from, to),
                    }
                }
            }

            $crate::parity::kernel::Kernel { generate, verify, reconstruct }
        };
    };
}
pub(super) use kernel;
