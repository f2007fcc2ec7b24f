//! Bookmarks of a dataset.
//!
//! Below: the ZAP in the head's field `com.delphix:bookmarks`. ZFS name: dsl_bookmark.

use crate::dataset::Dataset;
use crate::redact::{RedactedBlocks, header_of};
use crate::zap::open_zap;
use errors::{Error, Place, Result};
use ondisk::dsl_dataset::FIELD_BOOKMARKS;
use ondisk::{DslBookmark, RedactionList};

#[derive(Clone)]
pub struct Bookmark {
    name: String,
    dataset: Dataset,
    phys: DslBookmark,
}

impl Bookmark {
    /// All bookmarks of a head, ordered by the creation of their snapshots.
    pub(crate) fn all(dataset: &Dataset) -> Result<Vec<Self>> {
        let Some(zap) = dataset.field_u64(FIELD_BOOKMARKS)?.filter(|id| *id != 0) else { return Ok(Vec::new()) };
        let entries = open_zap(dataset.mos(), zap).and_then(|zap| zap.entries()).at(dataset.name())?;
        let mut all = Vec::new();
        for entry in entries {
            let name = format!("{}#{}", dataset.name(), String::from_utf8_lossy(&entry.name));
            let phys = DslBookmark::from_words(&entry.value.ints).at(&name)?;
            all.push(Self { name, dataset: dataset.clone(), phys });
        }
        all.sort_by(|a, b| (a.phys.creation_txg.0, &a.name).cmp(&(b.phys.creation_txg.0, &b.name)));
        Ok(all)
    }

    /// Bookmark `short` of a head.
    pub(crate) fn open(dataset: &Dataset, short: &str) -> Result<Self> {
        let name = format!("{}#{short}", dataset.name());
        let missing = || Error::not_found(name.clone(), "the bookmark");
        let zap = dataset.field_u64(FIELD_BOOKMARKS)?.filter(|id| *id != 0).ok_or_else(missing)?;
        let zap = open_zap(dataset.mos(), zap).at(&name)?;
        let value = if dataset.ignores_case() {
            zap.lookup_normalised(short.as_bytes(), false).at(&name)?.map(|(value, _)| value)
        } else {
            zap.lookup(short).at(&name)?
        };
        let phys = DslBookmark::from_words(&value.ok_or_else(missing)?.ints).at(&name)?;
        Ok(Self { name, dataset: dataset.clone(), phys })
    }

    /// Full name, such as `tank/home#monday`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The head that it belongs to.
    pub fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    /// As read when the bookmark was opened.
    pub fn phys(&self) -> &DslBookmark {
        &self.phys
    }

    /// Whether it is a redaction bookmark, which has a list of redacted blocks.
    pub fn is_redaction(&self) -> bool {
        self.phys.redaction_obj != 0
    }

    /// The header of the list of redacted blocks, for a redaction bookmark.
    pub fn redaction_list(&self) -> Result<Option<RedactionList>> {
        if !self.is_redaction() {
            return Ok(None);
        }
        let object = self.dataset.mos().object(self.phys.redaction_obj).at(&self.name)?;
        let list = header_of(&object).at(&self.name)?;
        if (list.snaps.len() as u64) < list.num_snaps {
            let what = format!("a redaction list with {} of {} snapshots", list.snaps.len(), list.num_snaps);
            return Err(Error::corrupt(&self.name, what));
        }
        Ok(Some(list))
    }

    /// The redacted blocks from block `from` (object and number) on. Fails for a list that is not
    /// complete.
    pub(crate) fn redacted_blocks(&self, from: (u64, u64)) -> Result<RedactedBlocks> {
        let list = self.redaction_list()?.ok_or_else(|| Error::invalid(&self.name, "not a redaction bookmark"))?;
        if !list.is_complete() {
            return Err(Error::invalid(&self.name, "incomplete redaction bookmark provided"));
        }
        let object = self.dataset.mos().object(self.phys.redaction_obj).at(&self.name)?;
        Ok(RedactedBlocks::new(object, list.entries, from))
    }
}

impl Dataset {
    /// The bookmarks of a head; a snapshot has none.
    pub fn bookmarks(&self) -> Result<Vec<Bookmark>> {
        if self.is_snapshot() { Ok(Vec::new()) } else { Bookmark::all(self) }
    }

    /// Bookmark `name` of a head.
    pub fn bookmark(&self, name: &str) -> Result<Bookmark> {
        Bookmark::open(self, name)
    }
}
