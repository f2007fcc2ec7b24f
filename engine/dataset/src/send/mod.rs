//! Sending: writes a snapshot, or the changes since an earlier one, as a stream.
//!
//! ```text
//!   walk (a thread) ── steps in stream order, bounded bytes ahead ──> records ──> stream::Writer
//!        └ blocks to read ──> readers (threads) ── contents ─────────────┘
//! ```
//!
//! Below: `object`, `stream`. Above: `weir zfs send`. Format: docs/format/stream.md. ZFS name:
//! dmu_send.
//!
//! Invariants:
//!   * records are ordered by object, then by offset; each block is sent once
//!   * sending is read-only: it reads a snapshot, or a pool that does not change, and holds no lock
//!   * contents waiting to be sent never exceed `ahead::BYTES_MAX`, however large the dataset

mod ahead;
mod begin;
mod estimate;
mod package;
mod records;
mod walk;

pub use estimate::estimate;
pub use package::{Package, PackageOptions, Planned};

use crate::bookmark::Bookmark;
use crate::dataset::Dataset;
use crate::keys::KeyStore;
use crate::stream::Writer;
use errors::{Error, Place, Result};
use object::ObjectSet;
use ondisk::dsl_dataset::FIELD_IVSET_GUID;
use ondisk::send_record::{Begin, Features};
use ondisk::{DslDataset, Endian};
use std::io::Write;
use std::sync::Arc;

/// Largest block that a receiver without large blocks accepts (`SPA_OLD_MAXBLOCKSIZE`).
const OLD_BLOCK_BYTES_MAX: u64 = 128 << 10;

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
    fn guid(&self) -> u64 {
        match self {
            Self::Snapshot(d) => d.phys().guid,
            Self::Bookmark(b) => b.phys().guid,
        }
    }

    fn txg(&self) -> u64 {
        match self {
            Self::Snapshot(d) => d.phys().creation_txg.0,
            Self::Bookmark(b) => b.phys().creation_txg.0,
        }
    }

    fn dataset(&self) -> &Dataset {
        match self {
            Self::Snapshot(d) => d,
            Self::Bookmark(b) => b.dataset(),
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Snapshot(d) => d.name(),
            Self::Bookmark(b) => b.name(),
        }
    }

    fn ivset_guid(&self) -> Result<u64> {
        match self {
            Self::Snapshot(d) => Ok(d.field_u64(FIELD_IVSET_GUID)?.unwrap_or(0)),
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
    to: Dataset,
    from: Option<String>,
    set: Arc<ObjectSet>,
    from_txg: u64,
    begin: Begin,
    list: Vec<u8>,
    resume: Option<Resume>,
    endian: Endian,
}

impl Outgoing {
    /// Prepares a send; of the contents, only the root block is read.
    pub fn new(
        to: &Dataset,
        from: Option<&Base>,
        keys: &KeyStore,
        options: Options,
        resume: Option<Resume>,
    ) -> Result<Self> {
        if let Some(from) = from {
            let earlier = matches!(from, Base::Bookmark(_)) || from.dataset().is_snapshot();
            if !earlier || !to.is_after(from.dataset(), from.txg())? {
                return Err(Error::invalid(
                    to.name(),
                    format!("{} is not an earlier snapshot from the same fs", from.name()),
                ));
            }
            if let Base::Bookmark(mark) = from
                && mark.phys().redaction_obj != 0
            {
                return Err(Error::unsupported(mark.name(), "sending from a redaction bookmark"));
            }
        }
        if to.phys().has(DslDataset::FLAG_INCONSISTENT) {
            return Err(Error::unsupported(to.name(), "sending of what was received in part"));
        }
        for dataset in [Some(to), from.map(Base::dataset)].into_iter().flatten() {
            if dataset.field(ondisk::dsl_dataset::FIELD_REDACTED_DATASETS)?.is_some() {
                return Err(Error::unsupported(dataset.name(), "sending of redacted datasets"));
            }
        }
        let features = begin::features(to, keys, options, resume.is_some())?;
        let set = match features.contains(Features::RAW) {
            true => to.objset_without_keys()?,
            false => to.objset(keys)?,
        };
        let endian = set.phys().endian;
        let begin = begin::begin(to, from, &set, features)?;
        let list = begin::list(to, from, &set, features, resume)?;
        let from_txg = from.map_or(0, Base::txg);
        let from = from.map(|from| from.name().to_owned());
        Ok(Self { to: to.clone(), from, set, from_txg, begin, list, resume, endian })
    }

    /// Name of the snapshot or dataset to send.
    pub fn name(&self) -> &str {
        self.to.name()
    }

    /// Name of the base snapshot or bookmark.
    pub fn from(&self) -> Option<&str> {
        self.from.as_deref()
    }

    /// The BEGIN record.
    pub fn begin(&self) -> &Begin {
        &self.begin
    }

    /// Byte order of the stream: that of the dataset being sent.
    pub fn endian(&self) -> Endian {
        self.endian
    }

    /// Writes the stream, from BEGIN to END.
    pub fn run<W: Write>(&self, out: &mut Writer<W>) -> Result<()> {
        out.record(ondisk::send_record::Body::Begin(self.begin.clone()), &self.list)?;
        let mut records = records::Records::new(self, out);
        ahead::run(self, &mut |step, data| records.step(step, data)).at(self.to.name())?;
        records.finish()?;
        out.end(self.begin.to_guid)
    }
}
