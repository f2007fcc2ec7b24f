//! The field GF(2^8) with polynomial 0x11d: products, powers, inverses and small systems of
//! equations.
//!
//! Everything here is computed at compile time or works on a few bytes; the kernels process the
//! columns.
//!
//! Invariant: 2 generates all 255 elements other than 0.

/// Maximum number of parity columns: P, Q and R.
pub const MAX_PARITY: usize = 3;

/// The product of each pair of elements: 64 KiB, used by tests and for multiplying single bytes.
pub static MUL: [[u8; 256]; 256] = {
    let mut table = [[0; 256]; 256];
    let mut a = 0;
    while a < 256 {
        let mut b = 0;
        while b < 256 {
            table[a][b] = multiply(a as u8, b as u8);
            b += 1;
        }
        a += 1;
    }
    table
};

/// For each factor, its products with 0x00 … 0x0f and with 0x00, 0x10 … 0xf0: the lookup tables for
/// byte shuffles.
#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), allow(dead_code))]
pub(super) static NIBBLES: [[[u8; 16]; 2]; 256] = {
    let mut table = [[[0; 16]; 2]; 256];
    let mut factor = 0;
    while factor < 256 {
        let mut nibble = 0;
        while nibble < 16 {
            table[factor][0][nibble] = multiply(factor as u8, nibble as u8);
            table[factor][1][nibble] = multiply(factor as u8, (nibble as u8) << 4);
            nibble += 1;
        }
        factor += 1;
    }
    table
};

/// Multiplication by a factor as a matrix of 8 × 8 bits, in the order of `gf2p8affineqb`: byte 7 -
/// i of the word selects the bits of the operand whose sum is bit i of the product.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub(super) const fn bit_matrix(factor: u8) -> u64 {
    let mut matrix = 0u64;
    let mut bit = 0;
    while bit < 8 {
        let product = multiply(factor, 1 << bit);
        let mut row = 0;
        while row < 8 {
            if product >> row & 1 == 1 {
                matrix |= 1 << ((7 - row) * 8 + bit);
            }
            row += 1;
        }
        bit += 1;
    }
    matrix
}

/// Product of two elements.
pub const fn multiply(mut a: u8, mut b: u8) -> u8 {
    let mut product = 0;
    while b != 0 {
        if b & 1 == 1 {
            product ^= a;
        }
        a = a << 1 ^ if a & 0x80 != 0 { 0x1d } else { 0 };
        b >>= 1;
    }
    product
}

/// `base` to the power of `exponent`.
pub const fn power(base: u8, mut exponent: usize) -> u8 {
    let mut result = 1;
    let mut square = base;
    while exponent != 0 {
        if exponent & 1 == 1 {
            result = multiply(result, square);
        }
        square = multiply(square, square);
        exponent >>= 1;
    }
    result
}

/// The multiplicative inverse of `a`; 0 for 0.
pub const fn inverse(a: u8) -> u8 {
    power(a, 254)
}

/// Inverse of the matrix whose row `i` belongs to parity `chosen[i]` (0 P, 1 Q, 2 R) and whose
/// column `j` belongs to a data column with exponent `exponents[j]`.
///
/// These matrices are invertible for any choice of parity columns, as long as the exponents differ
/// and are below 255: 1, 2 and 4 are powers 0, 1 and 2 of a generator, so the determinants are
/// products of differences of powers of 2 (Vandermonde), possibly multiplied by common factors.
pub(super) fn solve(chosen: &[usize], exponents: &[usize]) -> [[u8; MAX_PARITY]; MAX_PARITY] {
    let size = chosen.len();
    assert!(size <= MAX_PARITY && size == exponents.len(), "as many equations as unknowns");
    // Gauss-Jordan on [matrix | identity].
    let mut rows = [[0u8; 2 * MAX_PARITY]; MAX_PARITY];
    for (i, (row, which)) in rows.iter_mut().zip(chosen).enumerate() {
        for (cell, exponent) in row.iter_mut().zip(exponents) {
            *cell = power(1 << which, *exponent);
        }
        row[MAX_PARITY + i] = 1;
    }
    for pivot in 0..size {
        let found = (pivot..size).find(|row| rows[*row][pivot] != 0).expect("the matrix has an inverse, see above");
        rows.swap(pivot, found);
        let scale = inverse(rows[pivot][pivot]);
        rows[pivot] = rows[pivot].map(|cell| multiply(cell, scale));
        let pivot_row = rows[pivot];
        for (i, row) in rows.iter_mut().enumerate().take(size) {
            if i != pivot && row[pivot] != 0 {
                let factor = row[pivot];
                for (cell, above) in row.iter_mut().zip(pivot_row) {
                    *cell ^= multiply(factor, above);
                }
            }
        }
    }
    let mut result = [[0; MAX_PARITY]; MAX_PARITY];
    for (to, from) in result.iter_mut().zip(rows) {
        to.copy_from_slice(&from[MAX_PARITY..]);
    }
    result
}
