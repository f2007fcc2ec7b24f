//! Messages of errors.

use crate::zpool::writing::why;
use errors::{Error, Refusal};

/// The message for an error, in OpenZFS's words where it has some; for a damaged stream it includes
/// the record.
pub(super) fn said(error: &Error) -> String {
    match error {
        Error::Corrupt { place, what } => {
            let short = if what.contains("checksum is ") {
                "checksum mismatch"
            } else if what.contains("the stream ends") {
                "incomplete stream"
            } else if place.starts_with("record ") || place.starts_with("dmu_replay_record") {
                "invalid backup stream"
            } else {
                return error.to_string();
            };
            format!("{short}\n{}", error.to_string().trim_start_matches(": "))
        }
        Error::Refused { why: Refusal::Busy, .. } => "dataset is busy".to_owned(),
        error => why(error),
    }
}
