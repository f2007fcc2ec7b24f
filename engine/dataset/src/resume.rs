//! The token of a receive that broke off, by which `zfs send -t` goes on.
//!
//! `1-CHECKSUM-LENGTH-DATA`: the state as a packed nvlist (native encoding), compressed at zlib level 6, in hexadecimal,
//! with the first word of its fletcher4 checksum and its length before compression. Facts:
//! `get_receive_resume_token_impl` in module/zfs/dsl_dataset.c.

use crate::dataset::Dataset;
use crate::{Error, Result};
use ondisk::dsl_dataset as field;

/// Name of the child that an interrupted incremental receive leaves.
const RECEIVING_CHILD: &str = "%recv";

/// The token of `dataset`, or of the incremental receive into it; `None` when none broke off.
pub fn token(dataset: &Dataset) -> Result<Option<String>> {
    if let Some(token) = own_token(dataset)? {
        return Ok(Some(token));
    }
    match dataset.tree().dataset(&format!("{}/{RECEIVING_CHILD}", dataset.name())) {
        Ok(child) => own_token(&child),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(e) => Err(e),
    }
}

fn own_token(d: &Dataset) -> Result<Option<String>> {
    if d.field(field::FIELD_RESUME_TOGUID)?.is_none() {
        return Ok(None);
    }
    Err(Error::unsupported(d.name(), "composing receive_resume_token"))
}
