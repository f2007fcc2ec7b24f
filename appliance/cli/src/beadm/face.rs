//! The command lines of the two programs.

use crate::context::Failure;
use crate::getopt::Parsed;

/// The program that is run: the messages differ, the actions do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Face {
    Beadm,
    Bectl,
}

impl Face {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Beadm => "beadm",
            Self::Bectl => "bectl",
        }
    }
}

/// The one operand of a verb.
pub(super) fn operand(parsed: &Parsed) -> Result<&str, Failure> {
    match parsed.operands.as_slice() {
        [one] => Ok(one),
        _ => Err(Failure::usage("")),
    }
}
