//! Where a stream is received.

use crate::delegation::Credentials;
use crate::live::OwnersOf;
use errors::Result;
use zeroize::Zeroizing;

/// The target of a receive.
pub struct Target<'a> {
    /// Full name of the file system or volume.
    pub dataset: String,
    /// Name of the snapshot, without the `@`.
    pub snapshot: String,
    /// `-F`: discards changes since the base snapshot; a full stream replaces an existing dataset.
    pub force: bool,
    /// `-s`: keeps received data if the stream is interrupted, so that the receive can be resumed.
    pub resumable: bool,
    /// Encryption properties for a new dataset; if empty, it inherits encryption from its parent.
    /// Raw streams bring their own.
    pub encryption: Vec<(String, String)>,
    /// The key, if the new dataset is to be an encryption root (property `keyformat`).
    pub key: Option<Zeroizing<Vec<u8>>>,
    /// `-o origin=`: the snapshot that the new dataset is cloned from.
    pub origin: Option<String>,
    /// The user who receives; `None`: the owner of the pools.
    pub user: Option<Credentials>,
    /// Returns the owner of an object of a file system.
    pub owners_of: OwnersOf,
    /// Called when the dataset to receive into exists, before the first record: sets properties
    /// that affect how it is written. The argument is the number of its head.
    pub started: &'a dyn Fn(u64) -> Result<()>,
    /// Closes the files of the dataset that is about to be replaced; it must not be open
    /// afterwards.
    pub let_go: &'a dyn Fn() -> Result<()>,
}

/// What was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Bytes of the stream.
    pub bytes: u64,
    /// Number of the head of the dataset that has the new snapshot.
    pub head: u64,
}

/// The destination of records during a receive.
#[derive(Debug, Clone)]
pub(crate) struct Spot {
    /// Name of the dataset created for the stream.
    pub name: String,
    /// Object number of its head.
    pub head: u64,
}
