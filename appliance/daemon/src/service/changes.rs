//! Notifies the parts that follow the pools of a change.

use super::Service;
use api::LiveMessage;

/// Whether a command may have changed which scheduled snapshots are due: a rule, or the set of
/// pools.
pub fn changes_schedules(line: &str) -> bool {
    ["weir:snapshot-", "com.sun:auto-snapshot", "zpool import", "zpool create"].iter().any(|word| line.contains(word))
}

impl Service {
    /// Notifies subscribers that pools and datasets may have changed.
    pub fn changed(&self, pool: &str) {
        self.servers.exports.changed();
        self.signals.watch.wake();
        if !pool.is_empty() {
            self.events.pass(LiveMessage::Datasets { pool: pool.to_owned() });
        }
    }

    /// Checks the rules for snapshots again if the command may have changed them.
    pub fn reschedule(&self, line: &str) {
        if changes_schedules(line) {
            self.signals.schedules.wake();
        }
    }
}
