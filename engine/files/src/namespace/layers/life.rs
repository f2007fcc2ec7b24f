//! The life of the file systems of a tree: numbered when first entered, closed when others need the
//! room, dropped when nothing refers to them. See the parent module for the rules.
//!
//! Locks: a layer's `opened`, then [`Idle`], then the [`Table`](super::Table). A provider is called
//! while `opened` is held, never while one of the others is. Code that holds [`Idle`] does not wait
//! for an `opened`.

use super::{Idle, Layer, OPEN_MAX, Source};
use crate::namespace::system::Opened;
use crate::namespace::{Namespace, Provider};
use crate::vfs::{NodeId, Vfs};
use errors::{Error, Refusal, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Number of attempts to open what a name leads to while it leads to something else each time.
/// Guessed.
const TRIES: u32 = 8;

impl Namespace {
    /// The file system with this number. A number that is not in use any more is stale.
    pub(in crate::namespace) fn layer_at(&self, number: u64) -> Result<Arc<Layer>> {
        let found = self.layers.read().by_number.get(&number).cloned();
        found.ok_or_else(|| Refusal::Stale.at(format!("file system {number} of the tree")))
    }

    /// Everything that is open below the tree's own file system.
    pub(in crate::namespace) fn all_opened(&self) -> Vec<Arc<Opened>> {
        let layers: Vec<_> = self.layers.read().by_number.values().cloned().collect();
        layers.iter().filter_map(|layer| layer.opened.lock().clone()).collect()
    }

    /// The layer for what `source` currently leads to. A snapshot or volume that has the name of an
    /// earlier one gets a number of its own.
    fn layer(&self, above: u64, source: &Source, parent: NodeId) -> Result<Arc<Layer>> {
        let none = || Error::invalid("namespace", "a file system without a provider above");
        let guid = match source {
            Source::Child(_) => None,
            source => source.guid(&**self.open(above)?.provider.as_ref().ok_or_else(none)?)?,
        };
        if let Some(layer) = self.layers.read().called(above, source).filter(|layer| layer.guid == guid) {
            return Ok(layer.clone());
        }
        self.layers.write().enter(above, source, parent, guid)
    }

    /// What `source` currently leads to, opened if necessary.
    pub(in crate::namespace) fn open_source(&self, above: u64, source: &Source, parent: NodeId) -> Result<Arc<Opened>> {
        let mut tries = 0;
        loop {
            let layer = self.layer(above, source, parent)?;
            tries += 1;
            match self.open_layer(&layer) {
                // Dropped, or destroyed and taken again, since it was found. Destroyed for good if
                // the next round does not find it.
                Err(_) if layer.gone.load(Ordering::Acquire) && tries < TRIES => {}
                result => return result,
            }
        }
    }

    /// The file system, opened if necessary.
    pub(in crate::namespace) fn open(&self, number: u64) -> Result<Arc<Opened>> {
        if number == 0 {
            return Ok(self.root.clone());
        }
        let layer = self.layer_at(number)?;
        self.open_layer(&layer)
    }

    pub(in crate::namespace) fn open_layer(&self, layer: &Arc<Layer>) -> Result<Arc<Opened>> {
        let mut slot = layer.opened.lock();
        if layer.gone.load(Ordering::Acquire) {
            return Err(layer.stale());
        }
        if let Some(opened) = &*slot {
            let opened = opened.clone();
            drop(slot);
            if !layer.used.load(Ordering::Relaxed) {
                layer.used.store(true, Ordering::Relaxed);
            }
            return if self.is_known_gone(layer) { Err(layer.stale()) } else { Ok(opened) };
        }
        let above = self.open(layer.above)?;
        let none = || Error::invalid("namespace", "a file system without a provider above");
        let provider = above.provider.as_ref().ok_or_else(none)?;
        let (vfs, own) = match layer.source() {
            Source::Child(key) => {
                let child = provider.open_child(&key)?;
                (child.root()?, Some(child))
            }
            source => match self.open_named(layer, &**provider, source)? {
                Some(vfs) => (vfs, None),
                None => {
                    layer.gone.store(true, Ordering::Release);
                    self.layers.write().remove(layer);
                    return Err(layer.stale());
                }
            },
        };
        let opened = Arc::new(self.compose(layer.number, vfs, own)?);
        *slot = Some(opened.clone());
        drop(slot);
        if layer.guid.is_some() {
            layer.checked.store(host::clock::coarse_seconds(), Ordering::Relaxed);
            self.close_unused(layer);
        }
        Ok(opened)
    }

    /// Opens a snapshot or volume under its current name. `None` if it no longer exists.
    fn open_named(&self, layer: &Layer, provider: &dyn Provider, source: Source) -> Result<Option<Arc<dyn Vfs>>> {
        let open = |source: &Source| {
            let vfs = match source {
                Source::Snapshot(name) => provider.open_snapshot(name)?,
                Source::Volume(name) => provider.open_volume(name)?,
                Source::Child(_) => return Ok(None),
            };
            let guid = vfs.handle(vfs.root())?.fs_guid;
            Ok((layer.guid == Some(guid)).then_some(vfs))
        };
        match open(&source) {
            Ok(Some(vfs)) => return Ok(Some(vfs)),
            Ok(None) | Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        let way = layer.guid.map_or(Ok(None), |guid| provider.way_to(guid))?;
        let Some(source) = way.and_then(Source::of_way) else { return Ok(None) };
        let opened = open(&source)?;
        if opened.is_some() {
            self.layers.write().rename(layer, source);
        }
        Ok(opened)
    }

    /// Closes snapshots and volumes that were not used recently while too many are open. Calls that
    /// use one of them complete first, since each holds a reference to what it uses.
    fn close_unused(&self, just_opened: &Arc<Layer>) {
        // Freed after the locks are released.
        let mut closed = Vec::new();
        let mut idle = self.idle.lock();
        idle.open.push_back(just_opened.clone());
        // Two passes: the first pass only marks those that were used.
        for _ in 0..2 * idle.open.len() {
            if idle.open.len() <= OPEN_MAX {
                return;
            }
            let Some(layer) = idle.open.pop_front() else { return };
            if Arc::ptr_eq(&layer, just_opened) || layer.used.swap(false, Ordering::Relaxed) {
                idle.open.push_back(layer);
                continue;
            }
            let Some(mut slot) = layer.opened.try_lock() else {
                idle.open.push_back(layer);
                continue;
            };
            closed.push(slot.take());
            let is_gone = layer.gone.load(Ordering::Acquire);
            drop(slot);
            if !is_gone && layer.references.load(Ordering::SeqCst) == 0 {
                self.rest(&mut idle, layer);
            }
        }
    }

    /// Notes a layer that is closed and without references, and drops the one that has been so for
    /// longest if there are too many.
    fn rest(&self, idle: &mut Idle, layer: Arc<Layer>) {
        idle.serial += 1;
        let serial = idle.serial;
        layer.rest.store(serial, Ordering::SeqCst);
        idle.closed.push_back((layer, serial));
        for _ in idle.closed_kept..idle.closed.len() {
            let Some((layer, serial)) = idle.closed.pop_front() else { return };
            if layer.rest.load(Ordering::SeqCst) != serial {
                continue;
            }
            let is_unused = layer.opened.try_lock().map(|slot| {
                let is_unused = slot.is_none() && layer.references.load(Ordering::SeqCst) == 0;
                layer.gone.fetch_or(is_unused, Ordering::AcqRel);
                is_unused
            });
            match is_unused {
                Some(true) => self.layers.write().remove(&layer),
                // It rests again when it is closed, or when its last reference is dropped.
                Some(false) => {}
                None => idle.closed.push_back((layer, serial)),
            }
        }
    }

    /// Takes a reference to a layer, which keeps its number while it is closed.
    pub(in crate::namespace) fn refer(&self, number: u64) -> Result<Arc<Layer>> {
        let layer = self.layer_at(number)?;
        layer.references.fetch_add(1, Ordering::SeqCst);
        Ok(layer)
    }

    /// Drops a reference. Without references, a closed snapshot or volume may be forgotten.
    pub(in crate::namespace) fn release(&self, layer: &Arc<Layer>) {
        let before = layer.references.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        if before != Ok(1) || layer.guid.is_none() {
            return;
        }
        // A layer that is open rests when it is closed.
        let is_closed = layer.opened.lock().is_none() && !layer.gone.load(Ordering::Acquire);
        if is_closed {
            self.rest(&mut self.idle.lock(), layer.clone());
        }
    }

    /// Drops a layer whose snapshot or volume no longer exists. Its nodes are stale from now on.
    fn drop_layer(&self, layer: &Layer) {
        let mut slot = layer.opened.lock();
        layer.gone.store(true, Ordering::Release);
        let was_open = slot.take();
        drop(slot);
        self.layers.write().remove(layer);
        drop(was_open);
    }

    /// Drops the layers of a snapshot that was destroyed.
    pub(in crate::namespace) fn drop_destroyed(&self, fs_guid: u64) {
        let all: Vec<_> = self.layers.read().by_number.values().cloned().collect();
        for layer in all.iter().filter(|layer| layer.guid == Some(fs_guid)) {
            self.drop_layer(layer);
        }
    }

    /// Makes a name no longer lead to what it led to.
    pub(in crate::namespace) fn forget_name(&self, above: u64, source: Source) {
        self.layers.write().by_source.remove(&(above, source));
    }

    /// Whether a snapshot or volume was destroyed, as of the last check, at most a second ago. Only
    /// data that has a checksum reports by itself that its blocks were reused.
    fn is_known_gone(&self, layer: &Layer) -> bool {
        if layer.guid.is_none() {
            return false;
        }
        let now = host::clock::coarse_seconds();
        layer.checked.load(Ordering::Relaxed) != now && {
            layer.checked.store(now, Ordering::Relaxed);
            self.is_gone(layer)
        }
    }

    /// Whether a snapshot or volume was destroyed. If so, drops it.
    fn is_gone(&self, layer: &Layer) -> bool {
        let Some(guid) = layer.guid else { return false };
        let Ok(above) = self.open(layer.above) else { return false };
        let Some(provider) = &above.provider else { return false };
        match layer.source().guid(&**provider) {
            Ok(now) if now == Some(guid) => return false,
            Ok(_) | Err(Error::NotFound { .. }) => {}
            // Nothing is known while the pool cannot be read.
            Err(_) => return false,
        }
        match provider.way_to(guid) {
            Ok(None) => self.drop_layer(layer),
            Ok(Some(way)) => {
                if let Some(source) = Source::of_way(way) {
                    self.layers.write().rename(layer, source);
                }
                return false;
            }
            Err(_) => return false,
        }
        true
    }

    /// The result of a read. If reading failed because the snapshot was destroyed in the meantime,
    /// and its blocks were reused, the error is `Stale`.
    pub(in crate::namespace) fn or_stale<T>(&self, opened: &Opened, result: Result<T>) -> Result<T> {
        match result {
            Err(error @ (Error::Corrupt { .. } | Error::Io { .. })) => match self.layer_at(opened.number) {
                Ok(layer) if !self.is_gone(&layer) => Err(error),
                Err(_) if opened.number == 0 => Err(error),
                Ok(_) => Err(Refusal::Stale.at(format!("file system {} of the tree", opened.number))),
                Err(stale) => Err(stale),
            },
            result => result,
        }
    }

    /// The layer that was last found for this identity.
    pub(in crate::namespace) fn number_of(&self, fs_guid: u64) -> Option<u64> {
        self.layers.read().by_guid.get(&fs_guid).copied()
    }

    /// Records the layer of an identity.
    pub(in crate::namespace) fn record_guid(&self, fs_guid: u64, number: u64) {
        let mut layers = self.layers.write();
        if number == 0 || layers.by_number.contains_key(&number) {
            layers.by_guid.insert(fs_guid, number);
        }
    }
}

#[cfg(test)]
impl Namespace {
    pub(in crate::namespace) fn layer_count(&self) -> usize {
        self.layers.read().by_number.len()
    }
}
