//! Why bytes from a disk or a stream were refused.

/// What `parse` says of bytes that it does not turn into a value.
///
/// The caller knows where the bytes came from and adds the place (pool, device, offset).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The bytes cannot be what they claim to be.
    #[error("{structure}: {field} is {found}, expected {expected}")]
    Corrupt {
        /// Structure in the format's words, such as `uberblock`.
        structure: &'static str,
        /// Field in the format's words, such as `ub_magic`.
        field: &'static str,
        /// The value found.
        found: String,
        /// What would have been accepted.
        expected: String,
    },
    /// The bytes are well formed, but Weir does not know this variant yet.
    #[error("{structure}: unsupported {what}")]
    Unsupported {
        /// Structure in the format's words.
        structure: &'static str,
        /// The feature, version or encoding that is not known.
        what: String,
    },
}

impl Error {
    /// Shorthand for [`Error::Corrupt`].
    pub fn corrupt(
        structure: &'static str,
        field: &'static str,
        found: impl std::fmt::Display,
        expected: impl std::fmt::Display,
    ) -> Self {
        Self::Corrupt { structure, field, found: found.to_string(), expected: expected.to_string() }
    }

    /// Shorthand for bytes that end too early.
    pub fn short(structure: &'static str, found_bytes: usize, expected_bytes: usize) -> Self {
        Self::corrupt(
            structure,
            "length",
            format_args!("{found_bytes} bytes"),
            format_args!("at least {expected_bytes} bytes"),
        )
    }
}

/// Result of parsing.
pub type Result<T> = std::result::Result<T, Error>;
