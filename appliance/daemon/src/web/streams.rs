//! Common parts of all streams: limits, and sending.

use super::caller::Caller;
use super::reply::{Answer, Problem};
use crate::body::chunks;
use crate::places::Place;
use crate::service::Service;
use axum::body::Bytes;
use axum::response::Response;
use std::time::Duration;
use tokio::sync::mpsc::Receiver;

/// Interval of keep-alive messages. The page reports a server that sends nothing for 4 s
/// (`ui/app/api/stream.ts`).
pub const HEARTBEAT: Duration = Duration::from_secs(2);
/// Interval of checks whether the client still has permission. A revocation is noticed at once;
/// this finds sessions that expired.
const PERMITTED: Duration = Duration::from_secs(15);

impl Service {
    /// A slot for a stream.
    pub fn stream_place(&self, caller: &Caller) -> Answer<Option<Place<String>>> {
        let place = caller.key().map(|key| self.access.streams.take(key)).transpose();
        place.map_err(|full| Problem::full(full, "streams are open"))
    }

    /// Returns when the caller may not continue: its session or token has ended, or its role has
    /// changed.
    pub async fn until_over(&self, caller: &Caller) {
        let mut revocations = self.access.revocations.subscribe();
        let mut again = tokio::time::interval(PERMITTED);
        while self.is_still(caller) {
            tokio::select! {
                _ = again.tick() => {}
                _ = revocations.changed() => {}
            }
        }
    }
}

/// Response `text/event-stream` that sends these chunks, each a complete event.
pub fn events(from: Receiver<Bytes>) -> Response {
    chunks(from, "text/event-stream")
}
