//! RAID-Z parity: computes one to three parity columns from the data columns of a row, and
//! reconstructs missing data columns.
//!
//! Below: nothing. Above: `block::vdev::raidz`, `draid`, `reconstruct`. ZFS name: vdev_raidz_math.
//!
//! Bytes are elements of GF(2^8) with the polynomial x^8 + x^4 + x^3 + x^2 + 1 (0x11d). For data
//! columns D0 … Dn-1 the parity columns are polynomials evaluated at 1, 2 and 4, highest power
//! first:
//!
//! ```text
//! P = D0          + D1          + … + Dn-1
//! Q = 2^(n-1)·D0  + 2^(n-2)·D1  + … + Dn-1     = (…(D0·2 + D1)·2 + …)·2 + Dn-1
//! R = 4^(n-1)·D0  + 4^(n-2)·D1  + … + Dn-1     = (…(D0·4 + D1)·4 + …)·4 + Dn-1
//! ```
//!
//! A single pass does everything: a strip of a few vectors is loaded from every data column in
//! turn, and the three sums stay in registers. At the end they are stored (generate), compared
//! (verify), or multiplied by the inverse of a matrix of at most 3 × 3 (reconstruct). Every byte of
//! data is read once, and only the result is written.
//!
//! Invariants:
//!   * a data column that is shorter than the parity is zero beyond its end
//!   * every backend returns the same bytes as [`Backend::Scalar`]
//!   * nothing here allocates

mod field;
mod kernel;
#[cfg(target_arch = "aarch64")]
mod neon;
mod pass;
mod scalar;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use field::{MAX_PARITY, MUL, inverse, multiply, power};

use kernel::{Kernel, Solution};

/// Maximum number of data columns: more would repeat a coefficient of Q, since 2^255 = 1.
pub const MAX_DATA: usize = 255;

/// An implementation of the arithmetic; all return the same bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Backend {
    /// 64-bit words, any machine.
    Scalar,
    /// 32-byte vectors.
    Avx2,
    /// 64-byte vectors.
    Avx512,
    /// 64-byte vectors and the GFNI instruction that multiplies by a bit matrix.
    Gfni,
    /// 16-byte vectors.
    Neon,
}

impl Backend {
    /// All backends, slowest first.
    pub const ALL: [Backend; 5] = [Self::Scalar, Self::Neon, Self::Avx2, Self::Avx512, Self::Gfni];

    /// Whether this machine supports it.
    pub fn available(self) -> bool {
        match self {
            Self::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => is_x86_feature_detected!("avx2"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw"),
            #[cfg(target_arch = "x86_64")]
            Self::Gfni => Self::Avx512.available() && is_x86_feature_detected!("gfni"),
            #[cfg(target_arch = "aarch64")]
            Self::Neon => std::arch::is_aarch64_feature_detected!("neon"),
            _ => false,
        }
    }

    /// The fastest backend that this machine supports.
    pub fn best() -> Self {
        Self::ALL.into_iter().rev().find(|backend| backend.available()).unwrap_or(Self::Scalar)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Gfni => "gfni",
            Self::Neon => "neon",
        }
    }

    fn kernel(self) -> Kernel {
        assert!(self.available(), "{} is not available on this machine", self.name());
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => x86::AVX2,
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => x86::AVX512,
            #[cfg(target_arch = "x86_64")]
            Self::Gfni => x86::GFNI,
            #[cfg(target_arch = "aarch64")]
            Self::Neon => neon::NEON,
            _ => scalar::SCALAR,
        }
    }
}

/// There are fewer parity columns than missing data columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{missing} data columns are missing and {parity} parity columns are given")]
pub struct NotEnoughParity {
    /// Number of missing data columns.
    pub missing: usize,
    /// Number of parity columns given.
    pub parity: usize,
}

/// Computes P, or P and Q, or P, Q and R, depending on the number of `parity` columns.
///
/// # Panics
///
/// Unless there are 1 to 3 parity columns of equal length and 1 to 255 data columns, none of them
/// longer.
pub fn generate(parity: &mut [&mut [u8]], data: &[&[u8]]) {
    generate_with(Backend::best(), parity, data);
}

/// [`generate`] with a given backend.
pub fn generate_with(backend: Backend, parity: &mut [&mut [u8]], data: &[&[u8]]) {
    assert!((1..=MAX_PARITY).contains(&parity.len()), "1 to 3 parity columns");
    let length = parity[0].len();
    assert!(parity.iter().all(|column| column.len() == length), "parity columns have one length");
    check_data(data, length);
    let kernel = backend.kernel();
    segments(length, data, &[], |from, to| kernel.generate(parity, data, from, to));
}

/// Compares the given parity columns with the data. Returns `true` for each column that does not
/// match.
///
/// Column 0 of `parity` is P, 1 is Q, 2 is R. A column that is `None` is unknown and never
/// reported.
///
/// # Panics
///
/// Same as [`generate`].
pub fn verify(parity: &[Option<&[u8]>], data: &[&[u8]]) -> [bool; MAX_PARITY] {
    verify_with(Backend::best(), parity, data)
}

/// [`verify`] with a given backend.
pub fn verify_with(backend: Backend, parity: &[Option<&[u8]>], data: &[&[u8]]) -> [bool; MAX_PARITY] {
    let Some((columns, length)) = check_parity(parity) else { return [false; MAX_PARITY] };
    check_data(data, length);
    let kernel = backend.kernel();
    let mut wrong = [false; MAX_PARITY];
    segments(length, data, &[], |from, to| {
        let here = kernel.verify(columns, data, from, to);
        for (all, one) in wrong.iter_mut().zip(here) {
            *all |= one;
        }
    });
    wrong
}

/// A data column to reconstruct.
#[derive(Debug)]
pub struct Missing<'a> {
    /// Index among the data columns, from 0.
    pub column: usize,
    /// Receives the column; has the length of the column.
    pub bytes: &'a mut [u8],
}

/// Reconstructs missing data columns from the others and an equal number of parity columns.
///
/// `parity` is as in [`verify`]; the first ones that suffice are used. `data` lists all data
/// columns, with an empty slice for each missing one.
///
/// # Panics
///
/// Same as [`generate`]; also if a missing column is not empty in `data`, is out of range, is
/// listed twice or is longer than the parity.
pub fn reconstruct(
    parity: &[Option<&[u8]>],
    data: &[&[u8]],
    missing: &mut [Missing<'_>],
) -> Result<(), NotEnoughParity> {
    reconstruct_with(Backend::best(), parity, data, missing)
}

/// [`reconstruct`] with a given backend.
pub fn reconstruct_with(
    backend: Backend,
    parity: &[Option<&[u8]>],
    data: &[&[u8]],
    missing: &mut [Missing<'_>],
) -> Result<(), NotEnoughParity> {
    if missing.is_empty() {
        return Ok(());
    }
    let given = parity.iter().filter(|column| column.is_some()).count();
    if given < missing.len() {
        return Err(NotEnoughParity { missing: missing.len(), parity: given });
    }
    let (columns, length) = check_parity(parity).expect("at least one column is given, see above");
    check_data(data, length);
    let mut lengths = [0; MAX_PARITY];
    for (place, gap) in missing.iter().enumerate() {
        assert!(data[gap.column].is_empty(), "a missing column is empty in the list of data columns");
        assert!(gap.bytes.len() <= length, "a data column is not longer than the parity");
        assert!(missing[..place].iter().all(|other| other.column != gap.column), "a column is missing once");
        lengths[place] = gap.bytes.len();
    }
    let lengths = &lengths[..missing.len()];
    let kernel = backend.kernel();
    segments(length, data, lengths, |from, to| {
        // Beyond its end a missing column is known to be zero, so each segment has its own,
        // possibly smaller, system of equations.
        let mut places = [0; MAX_PARITY];
        let mut exponents = [0; MAX_PARITY];
        let mut unknown = 0;
        for (place, gap) in missing.iter().enumerate() {
            if lengths[place] >= to {
                places[unknown] = place;
                exponents[unknown] = data.len() - 1 - gap.column;
                unknown += 1;
            }
        }
        if unknown == 0 {
            return;
        }
        let mut used = [None; MAX_PARITY];
        let mut chosen = [0; MAX_PARITY];
        let mut count = 0;
        for (which, column) in columns.iter().enumerate() {
            if column.is_some() && count < unknown {
                used[which] = *column;
                chosen[count] = which;
                count += 1;
            }
        }
        let solution = Solution { matrix: field::solve(&chosen[..count], &exponents[..unknown]), chosen, unknown };
        let mut outputs: [&mut [u8]; MAX_PARITY] = [&mut [], &mut [], &mut []];
        let mut filled = 0;
        for (place, gap) in missing.iter_mut().enumerate() {
            if places[..unknown].contains(&place) {
                outputs[filled] = &mut *gap.bytes;
                filled += 1;
            }
        }
        kernel.reconstruct(used, data, &solution, &mut outputs[..unknown], from, to);
    });
    Ok(())
}

fn check_data(data: &[&[u8]], length: usize) {
    assert!((1..=MAX_DATA).contains(&data.len()), "1 to 255 data columns");
    assert!(data.iter().all(|column| column.len() <= length), "a data column is not longer than the parity");
}

type ParityColumns<'a> = [Option<&'a [u8]>; MAX_PARITY];

fn check_parity<'a>(parity: &[Option<&'a [u8]>]) -> Option<(ParityColumns<'a>, usize)> {
    assert!((1..=MAX_PARITY).contains(&parity.len()), "1 to 3 parity columns");
    let mut columns = [None; MAX_PARITY];
    columns[..parity.len()].copy_from_slice(parity);
    let length = columns.iter().flatten().next()?.len();
    assert!(columns.iter().flatten().all(|column| column.len() == length), "parity columns have one length");
    Some((columns, length))
}

/// Calls `each(from, to)` for the ranges in which every column has either all bytes or none.
fn segments(length: usize, data: &[&[u8]], missing: &[usize], mut each: impl FnMut(usize, usize)) {
    let mut from = 0;
    while from < length {
        let mut to = length;
        for end in data.iter().map(|column| column.len()).chain(missing.iter().copied()) {
            if end > from {
                to = to.min(end);
            }
        }
        each(from, to);
        from = to;
    }
}
