//! `weir zpool`: the verbs of zpool(8), a file each. What they print is OpenZFS's, to the letter.

use crate::context::{Verb, version};

/// All verbs.
pub static VERBS: &[Verb] = &[Verb {
    name: "version",
    usage: &["[-j]"],
    about: "Show versions",
    run: Some(|cx, args| version(cx, "zpool", args)),
}];
