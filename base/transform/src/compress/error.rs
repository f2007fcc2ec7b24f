//! Why a stream cannot be decompressed.

/// Why decompression failed. The checksum matched before, so either the writer or the pointer was
/// wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The stream ends before the block is full, or is too short for its own header.
    #[error("{algorithm} stream ends after {have} of {want} bytes")]
    Short {
        /// Name of the algorithm.
        algorithm: &'static str,
        have: usize,
        want: usize,
    },
    /// A length in the header exceeds the stream.
    #[error("{algorithm} header says {length} bytes follow, expected at most {limit}")]
    Length {
        /// Name of the algorithm.
        algorithm: &'static str,
        length: u32,
        limit: usize,
    },
    /// The stream violates the rules of the algorithm.
    #[error("{algorithm} stream is malformed: {what}")]
    Malformed {
        /// Name of the algorithm.
        algorithm: &'static str,
        what: String,
    },
}
