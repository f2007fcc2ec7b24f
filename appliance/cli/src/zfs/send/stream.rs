//! One stream, and its size before it is sent.

use super::options::Asked;
use dataset::send::{self, Base, Outgoing, Resume};
use dataset::{Bookmark, Dataset, KeyStore};

/// A stream that neither `-R` nor `-I` makes.
pub(super) struct Stream<'a> {
    pub to: &'a Dataset,
    pub base: Option<&'a Base>,
    /// `--redact`
    pub redact: Option<&'a Bookmark>,
    /// Where it resumes.
    pub at: Option<Resume>,
    /// Bytes sent before it was interrupted.
    pub done: u64,
}

impl Stream<'_> {
    pub fn outgoing(&self, keys: &KeyStore, asked: &Asked) -> errors::Result<Outgoing> {
        Outgoing::redacted(self.to, self.base, keys, asked.options, self.at, self.redact)
    }

    pub fn needs_measuring(&self) -> bool {
        send::needs_measuring(self.base, self.redact)
    }

    /// The size to print, in bytes.
    pub fn size(&self, keys: &KeyStore, asked: &Asked) -> errors::Result<u64> {
        match self.needs_measuring() {
            true => self.outgoing(keys, asked)?.measure(),
            false => Ok(send::estimate(self.to, self.base, asked.options)?.saturating_sub(self.done)),
        }
    }

    /// The size for progress reports, as if nothing were redacted; 0: unknown.
    pub fn quick_size(&self, asked: &Asked) -> u64 {
        send::estimate(self.to, self.base, asked.options).unwrap_or(0).saturating_sub(self.done)
    }
}
