//! A share: a file system as SMB clients see it.

use super::options::SmbOptions;

/// A file system and its sharing options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SmbShare {
    pub dataset: String,
    /// The name that clients see.
    pub name: String,
    /// Mount point, if it is mounted.
    pub path: Option<String>,
    /// Value of `sharesmb`, as set.
    pub text: String,
    /// The parsed value of `sharesmb`.
    pub options: SmbOptions,
    /// The dataset from which `sharesmb` is inherited, if it is another one.
    pub inherited_from: Option<String>,
    /// Why clients cannot use it, if so.
    pub problem: Option<String>,
}
