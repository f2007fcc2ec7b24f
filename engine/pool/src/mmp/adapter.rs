//! A pool open for writing as its heartbeats see it.

use super::heartbeats::{Heartbeats, MultihostPool};
use crate::writer::Shared;
use block::Store;

impl MultihostPool for Shared {
    fn store(&self) -> &Store {
        &self.store
    }

    fn heartbeats(&self) -> &Heartbeats {
        &self.background.heartbeats
    }

    fn is_suspended(&self) -> bool {
        Self::is_suspended(self)
    }

    fn suspend_late(&self) {
        Self::suspend_late(self);
    }
}
