//! A pass over columns of any length: one backend for the whole strips, scalar lanes of eight bytes
//! and of one for the rest.

#![allow(unsafe_code)]

use super::field::MAX_PARITY;
use super::kernel::{Kernel, Solution};
use super::scalar;

impl Kernel {
    pub fn generate(&self, parity: &mut [&mut [u8]], data: &[&[u8]], from: usize, to: usize) {
        let mut pointers = [std::ptr::null_mut(); MAX_PARITY];
        for (pointer, column) in pointers.iter_mut().zip(parity.iter_mut()) {
            assert!(from <= to && to <= column.len());
            *pointer = column.as_mut_ptr();
        }
        let pointers = &pointers[..parity.len()];
        // SAFETY: each pointer refers to `to` writable bytes that have no other reference; the
        // machine supports the instructions (type invariant).
        unsafe {
            let done = (self.generate)(pointers, data, from, to);
            let done = (scalar::WORDS.generate)(pointers, data, done, to);
            (scalar::BYTES.generate)(pointers, data, done, to);
        }
    }

    pub fn verify(
        &self,
        parity: [Option<&[u8]>; MAX_PARITY],
        data: &[&[u8]],
        from: usize,
        to: usize,
    ) -> [bool; MAX_PARITY] {
        let pointers = readable(parity, from, to);
        let mut wrong = [false; MAX_PARITY];
        // SAFETY: each pointer is null or refers to `to` readable bytes; the machine supports the
        // instructions (type invariant).
        unsafe {
            let done = (self.verify)(pointers, data, from, to, &mut wrong);
            let done = (scalar::WORDS.verify)(pointers, data, done, to, &mut wrong);
            (scalar::BYTES.verify)(pointers, data, done, to, &mut wrong);
        }
        wrong
    }

    pub fn reconstruct(
        &self,
        parity: [Option<&[u8]>; MAX_PARITY],
        data: &[&[u8]],
        solution: &Solution,
        outputs: &mut [&mut [u8]],
        from: usize,
        to: usize,
    ) {
        assert!(solution.unknown == outputs.len() && outputs.len() <= MAX_PARITY);
        assert!(solution.chosen[..solution.unknown].iter().all(|which| parity[*which].is_some()));
        let pointers = readable(parity, from, to);
        let mut targets = [std::ptr::null_mut(); MAX_PARITY];
        for (target, column) in targets.iter_mut().zip(outputs.iter_mut()) {
            assert!(to <= column.len());
            *target = column.as_mut_ptr();
        }
        let targets = &targets[..outputs.len()];
        // SAFETY: as in `verify`; each of `targets` refers to `to` writable bytes that have no
        // other reference, one for each unknown of the solution; the parity columns that it names
        // are present.
        unsafe {
            let done = (self.reconstruct)(pointers, data, solution, targets, from, to);
            let done = (scalar::WORDS.reconstruct)(pointers, data, solution, targets, done, to);
            (scalar::BYTES.reconstruct)(pointers, data, solution, targets, done, to);
        }
    }
}

fn readable(parity: [Option<&[u8]>; MAX_PARITY], from: usize, to: usize) -> [*const u8; MAX_PARITY] {
    parity.map(|column| match column {
        None => std::ptr::null(),
        Some(column) => {
            assert!(from <= to && to <= column.len());
            column.as_ptr()
        }
    })
}
