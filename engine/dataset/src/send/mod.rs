//! Sending: writes a snapshot, or the changes since an earlier one, as a stream.
//!
//! ```text
//!   walk (a thread) ─> redaction ── steps in stream order, bounded bytes ahead ──> records ─> stream::Writer
//!                        └ blocks to read ──> readers (threads) ── contents ─────────┘
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
mod outgoing;
mod package;
mod records;
mod redaction;
pub(crate) mod walk;

pub use begin::HEAD_SUFFIX;
pub use estimate::{estimate, needs_measuring};
pub use outgoing::{Base, Options, Outgoing, Resume};
pub use package::{Package, PackageOptions, Planned};

use crate::bookmark::Bookmark;
use crate::dataset::Dataset;
use crate::keys::KeyStore;
use crate::stream::Writer;
use errors::{Error, Place, Result};
use ondisk::DslDataset;
use ondisk::send_record::Features;
use std::io::Write;

impl Outgoing {
    /// Prepares a send; of the contents, only the root block is read.
    pub fn new(
        to: &Dataset,
        from: Option<&Base>,
        keys: &KeyStore,
        options: Options,
        resume: Option<Resume>,
    ) -> Result<Self> {
        Self::redacted(to, from, keys, options, resume, None)
    }

    /// Prepares a send that leaves out what redaction bookmark `redact` lists.
    pub fn redacted(
        to: &Dataset,
        from: Option<&Base>,
        keys: &KeyStore,
        options: Options,
        resume: Option<Resume>,
        redact: Option<&Bookmark>,
    ) -> Result<Self> {
        let base = match from {
            Some(Base::Bookmark(mark)) if mark.is_redaction() => Some(mark),
            _ => None,
        };
        if let Some(from) = from {
            let earlier = matches!(from, Base::Bookmark(_)) || from.dataset().is_snapshot();
            // A redaction bookmark of the same snapshot: what it lacks can be sent later.
            let is_same = base.is_some() && from.guid() == to.phys().guid;
            if !earlier || !(is_same || to.is_after(from.dataset(), from.txg())?) {
                return Err(Error::invalid(
                    to.name(),
                    format!("{} is not an earlier snapshot from the same fs", from.name()),
                ));
            }
        }
        if to.phys().has(DslDataset::FLAG_INCONSISTENT) {
            return Err(Error::unsupported(to.name(), "sending a partially received state"));
        }
        let mut features = begin::features(to, keys, options, resume.is_some())?;
        features.set(Features::REDACTED, redact.is_some());
        let set = match features.contains(Features::RAW) {
            true => to.objset_without_keys()?,
            false => to.objset(keys)?,
        };
        let endian = set.phys().endian;
        let begin = begin::begin(to, from, &set, features)?;
        let list = begin::list(to, from, &set, features, (resume, redact))?;
        let from_txg = from.map_or(0, Base::txg);
        let from = from.map(|from| from.name().to_owned());
        let (redact, base) = (redact.cloned(), base.cloned());
        Ok(Self { to: to.clone(), from, set, from_txg, begin, list, resume, redact, base, endian })
    }

    /// Writes the stream, from BEGIN to END.
    pub fn run<W: Write>(&self, out: &mut Writer<W>) -> Result<()> {
        out.record(ondisk::send_record::Body::Begin(self.begin.clone()), &self.list)?;
        let mut records = records::Records::new(self, out);
        ahead::run(self, &mut |step, data| records.step(step, data)).at(self.to.name())?;
        records.finish()?;
        out.end(self.begin.to_guid)
    }

    /// Size of the stream in bytes, exactly: reads pointers and dnodes, and no contents.
    pub fn measure(&self) -> Result<u64> {
        let mut out = Writer::measuring(self.endian);
        out.record(ondisk::send_record::Body::Begin(self.begin.clone()), &self.list)?;
        let mut records = records::Records::new(self, &mut out);
        ahead::measure(self, &mut |step, data| records.step(step, data)).at(self.to.name())?;
        records.finish()?;
        out.end(self.begin.to_guid)?;
        Ok(out.bytes())
    }
}
