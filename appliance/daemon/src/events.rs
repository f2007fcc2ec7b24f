//! Recent events, and their subscribers.
//!
//! Invariants:
//!   * the last [`KEPT`] events are kept, in memory and in `events.log` of the state directory;
//!     their numbers increase by one, and continue after a restart
//!   * a slow subscriber is notified that it missed events, and delays no other thread

use crate::access::Sight;
use crate::access::now_ms;
use crate::lines::Lines;
use anyhow::Result;
use api::{Event, EventKind, LiveMessage, Severity};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::path::Path;
use tokio::sync::broadcast::{Receiver, Sender, channel};

/// Number of events kept.
pub const KEPT: usize = 10_000;
/// Number of messages that a subscriber may be behind.
const BEHIND: usize = 256;
/// Maximum length of a message.
const MESSAGE_BYTES: usize = 4000;
/// Maximum size of the file; the previous one is kept too. One file holds [`KEPT`] typical events.
const FILE_BYTES: u64 = 4 << 20;
const FILES: u32 = 2;

/// The events of this process and of earlier ones.
pub struct Events {
    kept: Mutex<Ring>,
    file: Option<Lines>,
    live: Sender<Live>,
}

/// An event as stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct StoredEvent {
    #[serde(flatten)]
    event: Event,
    /// Message for readers who may not see file names, if it differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    without_files: Option<String>,
}

impl StoredEvent {
    /// The event for a reader.
    fn seen(self, sight: Sight) -> Event {
        match self.without_files.filter(|_| !sight.files) {
            Some(message) => Event { message, ..self.event },
            None => self.event,
        }
    }
}

/// A message for subscribers, before it is filtered for each.
#[derive(Debug, Clone, PartialEq)]
pub struct Live(Either);

#[derive(Debug, Clone, PartialEq)]
enum Either {
    Event(StoredEvent),
    Other(LiveMessage),
}

impl Live {
    /// The message for a reader.
    pub fn seen(self, sight: Sight) -> LiveMessage {
        match self.0 {
            Either::Event(kept) => LiveMessage::Event { event: kept.seen(sight) },
            Either::Other(message) => message,
        }
    }
}

#[derive(Default)]
struct Ring {
    events: VecDeque<StoredEvent>,
    last: u64,
}

/// An event to report.
#[derive(Debug, Clone)]
pub struct Happening {
    kind: EventKind,
    severity: Severity,
    subject: Option<String>,
    by: Option<String>,
    message: String,
    without_files: Option<String>,
}

impl Happening {
    /// An event that needs no attention.
    pub fn info(kind: EventKind, message: impl Into<String>) -> Self {
        Self { kind, severity: Severity::Info, subject: None, by: None, message: message.into(), without_files: None }
    }

    /// An event that someone should know about.
    pub fn warning(kind: EventKind, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::info(kind, message) }
    }

    /// An event that requires action.
    pub fn error(kind: EventKind, message: impl Into<String>) -> Self {
        Self { severity: Severity::Error, ..Self::info(kind, message) }
    }

    /// Sets the object that the event is about.
    pub fn about(mut self, subject: impl Into<String>) -> Self {
        self.subject = Some(subject.into());
        self
    }

    /// Sets the message for readers who may not see file names.
    pub fn without_files(mut self, message: Option<String>) -> Self {
        self.without_files = message;
        self
    }

    /// Sets the user who caused it.
    pub fn by(mut self, who: impl Into<String>) -> Self {
        self.by = Some(who.into());
        self
    }
}

impl Default for Events {
    fn default() -> Self {
        Self { kept: Mutex::default(), file: None, live: channel(BEHIND).0 }
    }
}

impl Events {
    /// Opens the events of the state directory, which stores new ones.
    pub fn open(state: &Path) -> Result<Self> {
        let file = Lines::open(&state.join("events.log"), FILE_BYTES, FILES)?;
        let mut found: Vec<StoredEvent> = file.newest(KEPT);
        found.reverse();
        let mut ring = Ring::default();
        // Numbers must increase, even if the file was edited.
        for kept in found.into_iter().filter(|e| e.event.id < u64::MAX / 2) {
            if kept.event.id > ring.last {
                ring.last = kept.event.id;
                ring.events.push_back(kept);
            }
        }
        Ok(Self { kept: Mutex::new(ring), file: Some(file), live: channel(BEHIND).0 })
    }

    /// Records an event and sends it to subscribers.
    pub fn post(&self, happening: Happening) {
        let Happening { kind, severity, subject, by, mut message, mut without_files } = happening;
        for text in [&mut message].into_iter().chain(&mut without_files).filter(|text| text.len() > MESSAGE_BYTES) {
            let end = (0..=MESSAGE_BYTES).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
            text.truncate(end);
        }
        let mut kept = self.kept.lock();
        kept.last += 1;
        let event = Event { id: kept.last, time_ms: now_ms(), kind, severity, subject, message, by };
        if kept.events.len() >= KEPT {
            kept.events.pop_front();
        }
        let event = StoredEvent { event, without_files };
        if let Some(file) = &self.file {
            file.append(&event);
        }
        kept.events.push_back(event.clone());
        // Sent under the lock, so that subscribers get events in order. No subscribers is no error.
        let _ = self.live.send(Live(Either::Event(event)));
    }

    /// Sends a message that is not stored.
    pub fn pass(&self, message: LiveMessage) {
        let _ = self.live.send(Live(Either::Other(message)));
    }

    /// Whether there are subscribers.
    pub fn heard(&self) -> bool {
        self.live.receiver_count() > 0
    }

    /// Events after this number, oldest first: at most `limit`, and whether there are more. Without
    /// a number, the newest ones.
    pub fn after(&self, id: Option<u64>, limit: usize, sight: Sight) -> (Vec<Event>, bool) {
        let kept = self.kept.lock();
        let newest = kept.events.len().saturating_sub(limit);
        let start = id.map_or(newest, |id| kept.events.partition_point(|e| e.event.id <= id));
        let found: Vec<Event> = kept.events.iter().skip(start).take(limit).cloned().map(|e| e.seen(sight)).collect();
        (found, kept.events.len() > start + limit)
    }

    /// Subscribes from now on. Also returns the events after `id`, or [`LiveMessage::Missed`] if
    /// some of them are no longer stored.
    pub fn listen(&self, id: Option<u64>, sight: Sight) -> (Vec<LiveMessage>, Receiver<Live>) {
        let kept = self.kept.lock();
        let receiver = self.live.subscribe();
        let Some(id) = id else { return (Vec::new(), receiver) };
        let first = kept.events.front().map_or(kept.last + 1, |e| e.event.id);
        // A number that was never used comes from another state directory.
        if id + 1 < first || id > kept.last {
            return (vec![LiveMessage::Missed], receiver);
        }
        let missed = kept.events.iter().filter(|e| e.event.id > id).cloned();
        (missed.map(|kept| LiveMessage::Event { event: kept.seen(sight) }).collect(), receiver)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Sight = Sight { files: true };

    fn posted(count: usize) -> Events {
        let events = Events::default();
        (0..count).for_each(|i| events.post(Happening::info(EventKind::Pool, i.to_string()).about("tank")));
        events
    }

    #[test]
    fn the_last_ones_are_kept() {
        let events = posted(KEPT + 5);
        let (all, more) = events.after(Some(0), KEPT * 2, ALL);
        assert_eq!((all.len(), all[0].id, more), (KEPT, 6, false));
        let (page, more) = events.after(Some(10), 3, ALL);
        assert_eq!((page.iter().map(|e| e.id).collect::<Vec<_>>(), more), (vec![11, 12, 13], true));
        let (newest, _) = events.after(None, 2, ALL);
        assert_eq!(newest.last().map(|e| e.id), Some(KEPT as u64 + 5));
    }

    #[test]
    fn events_and_their_numbers_continue_after_a_restart() {
        let folder = tempfile::tempdir().expect("a folder");
        let events = Events::open(folder.path()).expect("opened");
        (0..3).for_each(|i| events.post(Happening::info(EventKind::Pool, i.to_string()).about("tank")));
        drop(events);
        let events = Events::open(folder.path()).expect("opened again");
        events.post(Happening::info(EventKind::Pool, "3"));
        let all: Vec<(u64, String)> = events.after(None, 100, ALL).0.into_iter().map(|e| (e.id, e.message)).collect();
        let expected: Vec<(u64, String)> = (0..4).map(|i| (i + 1, i.to_string())).collect();
        assert_eq!(all, expected);
        // A subscriber from before the restart gets the events that it missed.
        let (missed, _) = events.listen(Some(2), ALL);
        assert_eq!(missed.len(), 2);
    }

    #[test]
    fn file_names_are_shown_to_authorized_users_also_after_a_restart() {
        let folder = tempfile::tempdir().expect("a folder");
        let none = Sight { files: false };
        let events = Events::open(folder.path()).expect("opened");
        let (_, mut live) = events.listen(None, none);
        let alert = Happening::warning(EventKind::Alert, "too much of /secret");
        events.post(alert.without_files(Some("too much of <hidden>".to_owned())));
        let heard = live.try_recv().expect("posted").seen(none);
        assert!(matches!(heard, LiveMessage::Event { event } if event.message == "too much of <hidden>"));
        drop(events);
        let events = Events::open(folder.path()).expect("opened again");
        let read = |sight| events.after(None, 1, sight).0.remove(0).message;
        assert_eq!((read(none).as_str(), read(ALL).as_str()), ("too much of <hidden>", "too much of /secret"));
        assert!(
            matches!(&events.listen(Some(0), none).0[..], [LiveMessage::Event { event }] if !event.message.contains("secret"))
        );
    }

    #[test]
    fn a_reconnecting_client_gets_missed_events() {
        let events = posted(5);
        let (missed, mut live) = events.listen(Some(3), ALL);
        assert_eq!(missed.len(), 2);
        events.post(Happening::error(EventKind::Device, "gone").by("root"));
        assert!(matches!(live.try_recv().map(|m| m.seen(ALL)), Ok(LiveMessage::Event { event }) if event.id == 6));
        assert_eq!(events.listen(Some(99), ALL).0, [LiveMessage::Missed]);
        assert_eq!(posted(KEPT + 9).listen(Some(3), ALL).0, [LiveMessage::Missed]);
        assert_eq!(events.listen(None, ALL).0, []);
    }
}
