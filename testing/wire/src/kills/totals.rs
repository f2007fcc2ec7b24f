//! What a run counts.

/// Totals of a run.
#[derive(Debug, Default, Clone, Copy)]
pub struct Totals {
    /// Kills: (in total, while the pool was being opened).
    pub kills: (u64, u64),
    /// Calls answered.
    pub calls: u64,
    /// Bytes acknowledged as durable.
    pub bytes: u64,
    /// Writes sent again because the verifier had changed or there was no answer.
    pub sent_again: u64,
    /// Changes of names sent again.
    pub done_again: u64,
    /// Number of complete checks by a client.
    pub judged: u64,
    /// Number of zdb checks.
    pub zdb: u64,
}

impl Totals {
    /// Adds the counts of `other`.
    pub fn add(&mut self, other: Self) {
        self.kills = (self.kills.0 + other.kills.0, self.kills.1 + other.kills.1);
        self.calls += other.calls;
        self.bytes += other.bytes;
        self.sent_again += other.sent_again;
        self.done_again += other.done_again;
        self.judged += other.judged;
        self.zdb += other.zdb;
    }
}
