//! Statistics that are watched while they are counted.
//!
//! Invariants:
//!   * a statistic that is counted only for watchers is counted no longer than they exist
//!   * the first second of a statistic is complete: the part before it was watched is counted from
//!     the recorder, or the second is omitted

use super::Engine;
use super::answer::{Answer, answer};
use super::error::Error;
use super::live::Live;
use super::state::SECOND;
use crate::catalogue;
use crate::name::Name;
use std::time::Duration;

/// Maximum number of statistics counted only for watchers: each adds a small cost to every
/// operation.
const WATCHED: usize = 64;

/// Keeps a statistic counted while it exists.
pub struct Watch {
    engine: Engine,
    id: u32,
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut state = self.engine.0.state.lock();
        if let Some(live) = state.live.iter_mut().find(|l| l.definition.id == self.id) {
            live.watchers = live.watchers.saturating_sub(1);
        }
        state.live.retain(|l| l.wanted || l.watchers > 0);
    }
}

impl Engine {
    /// Counts a statistic while the returned guard exists. The statistic may already be counted.
    pub fn watch(&self, name: &Name) -> Result<Watch, Error> {
        catalogue::find(name)?;
        let _turning = self.0.turning.lock();
        let mut state = self.0.state.lock();
        if !state.live.iter().any(|l| l.name == *name) {
            if state.live.iter().filter(|l| !l.wanted).count() >= WATCHED {
                return Err(Error::Watched(WATCHED));
            }
            state.begin(&self.0, name, false)?;
        }
        let live = state.live.iter_mut().find(|l| l.name == *name).ok_or(Error::NotRecorded)?;
        live.watchers += 1;
        Ok(Watch { engine: self.clone(), id: live.definition.id })
    }

    /// The columns of all watched statistics in a closed second. A statistic that was not counted
    /// then has no column.
    pub fn watched(&self, second: u64) -> Vec<Answer> {
        let collected: Vec<_> = {
            let state = self.0.state.lock();
            let watched = state.live.iter().filter(|l| l.watchers > 0);
            let column = |live: &Live| live.window.iter().rev().find(|(s, _)| *s <= second).cloned();
            watched.map(|l| (l.name.clone(), column(l).filter(|(s, _)| *s == second))).collect()
        };
        collected
            .into_iter()
            .filter_map(|(name, column)| answer(&self.0, &name, 1, column.into_iter().collect()).ok())
            .collect()
    }

    /// The last closed second, since 1970; waits up to `patience` for one after `after`.
    pub fn wait(&self, after: u64, patience: Duration) -> u64 {
        let mut state = self.0.state.lock();
        if state.second / SECOND <= after + 1 {
            self.0.closed.wait_for(&mut state, patience);
        }
        (state.second / SECOND).saturating_sub(1)
    }
}
