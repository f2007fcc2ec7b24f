//! Random bytes for keys, salts, IVs and guids, from the machine of the calling thread.

use crate::machine::Machine;

/// `N` random bytes, suitable for keys.
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut out = [0; N];
    fill(&mut out);
    out
}

/// A random number. Costs a system call on the real machine.
pub fn u64() -> u64 {
    u64::from_ne_bytes(bytes())
}

/// Fills `out` with random bytes, suitable for keys.
pub fn fill(out: &mut [u8]) {
    match Machine::simulated() {
        Some(machine) => machine.random.fill(out),
        None => from_system(out),
    }
}

#[allow(unsafe_code)]
fn from_system(out: &mut [u8]) {
    let mut done = 0;
    while done < out.len() {
        let rest = &mut out[done..];
        // SAFETY: the pointer and length are those of a live, writable slice.
        let got = unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) };
        match usize::try_from(got) {
            Ok(got) => done += got,
            Err(_) => {
                let error = std::io::Error::last_os_error();
                // Only a signal may interrupt the call. Any other error means that there is no
                // randomness, and continuing would produce predictable keys.
                assert_eq!(error.kind(), std::io::ErrorKind::Interrupted, "getrandom: {error}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn two_keys_differ() {
        assert_ne!(super::bytes::<32>(), super::bytes::<32>());
        assert_ne!(super::u64(), super::u64());
    }
}
