//! Exit codes of the commands.

/// Exit code if some part of the request failed.
pub const SOME_FAILED: u8 = 1;
/// Exit code for usage errors.
pub const USAGE: u8 = 2;
