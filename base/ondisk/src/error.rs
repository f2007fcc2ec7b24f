//! Errors for bytes from a disk or a stream that cannot be parsed.

/// Why `parse` rejected the bytes.
///
/// The caller knows the location of the bytes (pool, device, offset) and adds it to the message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The bytes are invalid.
    #[error("{structure}: {field} is {found}, expected {expected}")]
    Corrupt {
        /// Structure, by its name in the format, such as `uberblock`.
        structure: &'static str,
        /// Field, by its name in the format, such as `ub_magic`.
        field: &'static str,
        found: String,
        /// The values that are accepted.
        expected: String,
    },
    /// The bytes are well formed, but Weir does not support this variant.
    #[error("{structure}: unsupported {what}")]
    Unsupported {
        /// Structure, by its name in the format.
        structure: &'static str,
        /// The unsupported feature, version or encoding.
        what: String,
    },
}

impl Error {
    pub fn corrupt(
        structure: &'static str,
        field: &'static str,
        found: impl std::fmt::Display,
        expected: impl std::fmt::Display,
    ) -> Self {
        Self::Corrupt { structure, field, found: found.to_string(), expected: expected.to_string() }
    }

    /// Creates an [`Error::Corrupt`] for bytes that end too early.
    pub fn short(structure: &'static str, found_bytes: usize, expected_bytes: usize) -> Self {
        Self::corrupt(
            structure,
            "length",
            format_args!("{found_bytes} bytes"),
            format_args!("at least {expected_bytes} bytes"),
        )
    }
}

pub type Result<T> = std::result::Result<T, Error>;
