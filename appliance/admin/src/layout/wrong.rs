//! Why devices are refused.

/// Why devices are refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Wrong {
    pub flaw: Flaw,
    /// OpenZFS's message, without a final newline.
    pub text: String,
}

/// What is wrong with devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// There is no such device.
    Absent,
    /// A device is in use, or holds data of a pool or of another file system.
    InUse,
    /// They make no vdev.
    Invalid,
}

pub fn wrong<T>(message: impl std::fmt::Display) -> Result<T, Wrong> {
    Err(Wrong { flaw: Flaw::Invalid, text: message.to_string() })
}

pub fn absent<T>(message: impl std::fmt::Display) -> Result<T, Wrong> {
    Err(Wrong { flaw: Flaw::Absent, text: message.to_string() })
}

pub fn invalid<T>(message: impl std::fmt::Display) -> Result<T, Wrong> {
    wrong(format!("invalid vdev specification: {message}"))
}
