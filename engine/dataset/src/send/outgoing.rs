//! A stream that is ready to be written: what to send, since when, and in which form.

use crate::bookmark::Bookmark;
use crate::dataset::Dataset;
use errors::{Error, Result};
use object::ObjectSet;
use ondisk::Endian;
use ondisk::send_record::Begin;
use std::sync::Arc;

/// Largest block that a receiver without large blocks accepts (`SPA_OLD_MAXBLOCKSIZE`).
pub(super) const OLD_BLOCK_BYTES_MAX: u64 = 128 << 10;

/// Features a stream may use, which its receiver must support.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// `-L`: sends blocks above 128 KiB whole.
    pub large_blocks: bool,
    /// `-e`: sends embedded blocks as such.
    pub embedded: bool,
    /// `-c`: sends compressed blocks as stored.
    pub compressed: bool,
    /// `-w`: sends encrypted blocks as stored; implies the others.
    pub raw: bool,
}

/// The base of an incremental stream.
#[derive(Clone)]
pub enum Base {
    /// A snapshot of the same dataset, or of its origin.
    Snapshot(Dataset),
    /// A bookmark of such a snapshot.
    Bookmark(Bookmark),
}

impl Base {
    pub(super) fn guid(&self) -> u64 {
        match self {
            Self::Snapshot(d) => d.phys().guid,
            Self::Bookmark(b) => b.phys().guid,
        }
    }

    pub(super) fn txg(&self) -> u64 {
        match self {
            Self::Snapshot(d) => d.phys().creation_txg.0,
            Self::Bookmark(b) => b.phys().creation_txg.0,
        }
    }

    pub(super) fn dataset(&self) -> &Dataset {
        match self {
            Self::Snapshot(d) => d,
            Self::Bookmark(b) => b.dataset(),
        }
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Self::Snapshot(d) => d.name(),
            Self::Bookmark(b) => b.name(),
        }
    }

    pub(super) fn ivset_guid(&self) -> Result<u64> {
        match self {
            Self::Snapshot(d) => Ok(d.ivset_guid()?.unwrap_or(0)),
            Self::Bookmark(b) => Ok(b.phys().ivset_guid),
        }
    }
}

/// Where an interrupted stream resumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resume {
    pub object: u64,
    /// Offset of its first missing byte.
    pub offset: u64,
}

/// A stream that is ready to be written.
pub struct Outgoing {
    pub(super) to: Dataset,
    pub(super) from: Option<String>,
    pub(super) set: Arc<ObjectSet>,
    pub(super) from_txg: u64,
    pub(super) begin: Begin,
    pub(super) list: Vec<u8>,
    pub(super) resume: Option<Resume>,
    /// What the stream leaves out.
    pub(super) redact: Option<Bookmark>,
    /// The base, if it is a redaction bookmark: what the receiver lacks.
    pub(super) base: Option<Bookmark>,
    pub(super) endian: Endian,
}

impl Outgoing {
    /// Name of the snapshot or dataset to send.
    pub fn name(&self) -> &str {
        self.to.name()
    }

    /// Name of the base snapshot or bookmark.
    pub fn from(&self) -> Option<&str> {
        self.from.as_deref()
    }

    pub fn begin(&self) -> &Begin {
        &self.begin
    }

    /// The first blocks of the redaction lists that the stream has to consider.
    pub(super) fn lists_from(&self) -> Result<(u64, u64)> {
        let Some(resume) = self.resume else { return Ok((0, 0)) };
        match self.set.object(resume.object) {
            Ok(object) => Ok((resume.object, resume.offset / object.block_bytes().max(1))),
            // The stream was interrupted before its first object.
            Err(Error::NotFound { .. }) => Ok((resume.object, 0)),
            Err(error) => Err(error),
        }
    }

    /// Byte order of the stream: that of the dataset being sent.
    pub fn endian(&self) -> Endian {
        self.endian
    }
}
