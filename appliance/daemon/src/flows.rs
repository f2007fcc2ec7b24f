//! Streams of `zfs send` and `zfs receive`: records are counted, and a stream that takes longer
//! than a second is shown as a job.
//!
//! ```text
//!   the command's thread ── begin ─> Flow <── passed, a record at a time ── the stream
//!                                     └ a watching thread: after a second, a job until the end
//! ```
//!
//! Invariants:
//!   * counting never blocks: a record costs a few atomic additions, and an event if events are
//!     enabled
//!   * a dropped flow has ended, whatever happened to its command

use crate::jobs::{Finished, Running};
use crate::peer::Peer;
use anyhow::{Result, bail};
use api::JobKind;
use observe::event::Note;
use observe::{Event, Events, Layer};
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Shorter flows are counted, but are not jobs: most incremental streams are short.
const SHOWN_AFTER: Duration = Duration::from_secs(1);
/// Interval at which the progress is updated.
const LOOKED: Duration = Duration::from_millis(500);

/// Direction of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Send,
    Receive,
}

/// Shows a flow as a job.
pub(crate) type Show = Box<dyn Fn(&Arc<Flow>) + Send + Sync>;

/// Takes the outcome of a flow, with the reason of a failure.
pub(crate) type Report = Box<dyn Fn(&Flow, Result<(), String>) + Send + Sync>;

/// All flows of a process, with the receivers of their events.
#[derive(Default)]
pub struct Flows {
    events: OnceLock<Arc<Events>>,
    show: OnceLock<Show>,
    report: OnceLock<Report>,
}

/// A command that sends or receives; several streams if it is a replication package.
pub struct Flow {
    direction: Direction,
    target: String,
    by: Peer,
    /// Receives an event for each record, if there is a receiver.
    recorder: Option<Recorder>,
    progress: Progress,
    cancelled: Arc<AtomicBool>,
    started: Instant,
    end: End,
}

/// Makes an event of each record.
struct Recorder {
    events: Arc<Events>,
    /// Numbers of the pool, and of the dataset of the current records, among the names of `events`.
    pool: u32,
    place: AtomicU32,
    /// Time when the previous record ended, in nanoseconds.
    last: AtomicU64,
}

/// What has been transferred so far.
#[derive(Default)]
struct Progress {
    bytes: AtomicU64,
    /// The estimated total in bytes; 0: unknown.
    total: AtomicU64,
    doing: Mutex<String>,
}

/// The end of a flow, with the reason of a failure.
#[derive(Default)]
struct End {
    how: Mutex<Option<Result<(), String>>>,
    came: Condvar,
}

/// The owner's handle of a flow, which ends when this is dropped.
pub struct Begun(Arc<Flow>, Arc<Flows>);

impl Flows {
    /// Sets the receiver of events. Only the first call has an effect.
    pub(crate) fn record_to(&self, events: Arc<Events>) {
        let _ = self.events.set(events);
    }

    /// Sets how long flows are shown. Only the first call has an effect.
    pub(crate) fn show_by(&self, show: Show) {
        let _ = self.show.set(show);
    }

    /// Sets the receiver of outcomes. Only the first call has an effect.
    pub(crate) fn report_to(&self, report: Report) {
        let _ = self.report.set(report);
    }

    /// Begins a flow: a command sends or receives `target`, a dataset or snapshot. `cancelled`
    /// becomes true when the flow is stopped.
    pub fn begin(self: &Arc<Self>, direction: Direction, target: &str, by: Peer, cancelled: Arc<AtomicBool>) -> Begun {
        let pool = target.split(['/', '@', '#']).next().unwrap_or(target);
        let recorder = self.events.get().map(|events| Recorder {
            events: events.clone(),
            pool: events.clients.number(pool),
            place: AtomicU32::new(0),
            last: AtomicU64::new(host::clock::nanoseconds()),
        });
        let flow = Arc::new(Flow {
            direction,
            target: target.to_owned(),
            by,
            recorder,
            progress: Progress::default(),
            cancelled,
            started: Instant::now(),
            end: End::default(),
        });
        flow.dataset(target);
        let (flows, looked_at) = (self.clone(), flow.clone());
        let looking = std::thread::Builder::new().name("weir-flow".to_owned()).spawn(move || {
            if !looked_at.ends_within(SHOWN_AFTER)
                && let Some(show) = flows.show.get()
            {
                show(&looked_at);
            }
        });
        if let Err(error) = looking {
            tracing::warn!(%error, target, "the stream is not shown");
        }
        Begun(flow, self.clone())
    }
}

impl Flow {
    /// Dataset or snapshot that is sent, or received into.
    pub(crate) fn target(&self) -> &str {
        &self.target
    }

    /// The user who called the command.
    pub(crate) fn by(&self) -> String {
        format!("uid {}", self.by.uid)
    }

    /// Kind of job for this flow.
    pub(crate) fn kind(&self) -> JobKind {
        match self.direction {
            Direction::Send => JobKind::Send,
            Direction::Receive => JobKind::Receive,
        }
    }

    /// Sets the estimated total in bytes; 0: unknown.
    pub fn total(&self, bytes: u64) {
        self.progress.total.store(bytes, Relaxed);
    }

    /// Describes what is transferred next.
    pub fn doing(&self, what: String) {
        *self.progress.doing.lock() = what;
    }

    /// Sets the dataset of the following records; for a snapshot, its dataset.
    pub fn dataset(&self, name: &str) {
        let Some(Recorder { events, place, .. }) = &self.recorder else { return };
        place.store(events.places.number(name.split(['@', '#']).next().unwrap_or(name)), Relaxed);
    }

    /// Counts a record: its kind as numbered by [`Layer::operation`], its object, offset and bytes.
    /// Returns false if the stream must end.
    pub fn passed(&self, kind: u8, object: u64, offset: u64, bytes: u64) -> bool {
        self.progress.bytes.fetch_add(bytes, Relaxed);
        if let Some(Recorder { events, pool, place, last }) = self.recorder.as_ref().filter(|r| r.events.is_on()) {
            let done = host::clock::nanoseconds();
            let latency = done.saturating_sub(last.swap(done, Relaxed));
            let size = u32::try_from(bytes).unwrap_or(u32::MAX);
            let note = Note { place: place.load(Relaxed), object, offset, size, ..Note::default() };
            let layer = match self.direction {
                Direction::Send => Layer::Send,
                Direction::Receive => Layer::Receive,
            };
            events.record(Event { done, latency, layer, op: kind, client: *pool, user: self.by.uid, note });
        }
        !self.cancelled.load(Relaxed)
    }

    fn ends_within(&self, longest: Duration) -> bool {
        let mut how = self.end.how.lock();
        if how.is_none() {
            self.end.came.wait_for(&mut how, longest);
        }
        how.is_some()
    }

    /// Reports progress until the flow ends. Stopping the job stops the flow.
    pub(crate) fn follow(&self, running: &Running) -> Result<Finished> {
        loop {
            let ended = self.ends_within(LOOKED);
            let bytes = self.progress.bytes.load(Relaxed);
            let total = match self.progress.total.load(Relaxed) {
                // The total is an estimate: it is at least what was already transferred.
                total if total > 0 => total.max(bytes),
                _ => 0,
            };
            let doing = self.progress.doing.lock().clone();
            match self.end.how.lock().clone() {
                Some(Ok(())) => {
                    running.progress(&doing, bytes, bytes);
                    let seconds = self.started.elapsed().as_secs().max(1);
                    let (size, rate) = (nice(bytes), nice(bytes / seconds));
                    let message = Some(format!("{size} in {seconds} seconds ({rate}/sec)"));
                    return Ok(Finished { message, verification: None });
                }
                Some(Err(why)) if !running.is_cancelled() => bail!(why),
                Some(Err(_)) => {
                    let message = Some(format!("stopped after {}", nice(bytes)));
                    return Ok(Finished { message, verification: None });
                }
                None => running.progress(&doing, bytes, total),
            }
            if running.is_cancelled() && !ended {
                self.cancelled.store(true, Relaxed);
            }
        }
    }
}

fn nice(bytes: u64) -> String {
    dataset::property::format::nice_bytes(bytes)
}

impl std::ops::Deref for Begun {
    type Target = Arc<Flow>;

    fn deref(&self) -> &Arc<Flow> {
        &self.0
    }
}

impl Begun {
    /// Ends the flow, with the reason of a failure.
    pub fn end(self, how: Result<(), String>) {
        *self.0.end.how.lock() = Some(how);
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        let how = self.0.end.how.lock().get_or_insert_with(|| Err("it broke off".to_owned())).clone();
        self.0.end.came.notify_all();
        if let Some(report) = self.1.report.get() {
            report(&self.0, how);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Events as JobEvents;
    use crate::jobs::Jobs;
    use api::{Job, JobState};

    fn peer() -> Peer {
        Peer { uid: 7, gid: 7, groups: Arc::new([]), pid: None }
    }

    fn shown() -> (Arc<Flows>, Arc<Jobs>) {
        let (flows, jobs) = (Arc::new(Flows::default()), Arc::new(Jobs::new(Arc::new(JobEvents::default()))));
        let shows = jobs.clone();
        flows.show_by(Box::new(move |flow| {
            let followed = flow.clone();
            let started = shows.start(flow.kind(), flow.target(), &flow.by(), move |running| followed.follow(running));
            started.expect("streams are always shown");
        }));
        (flows, jobs)
    }

    fn until(jobs: &Jobs, wanted: impl Fn(&Job) -> bool) -> Job {
        for _ in 0..6000 {
            if let Some(job) = jobs.list().into_iter().find(|job| wanted(job)) {
                return job;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("no such job: {:?}", jobs.list());
    }

    #[test]
    fn records_are_counted_where_they_belong() {
        let flows = Arc::new(Flows::default());
        let events = Arc::new(Events::new(1, 100));
        events.switch(true);
        flows.record_to(events.clone());
        let flow = flows.begin(Direction::Receive, "tank/a@s", peer(), Arc::default());
        assert!(flow.passed(3, 12, 4096, 8504));
        flow.dataset("tank/a/b");
        assert!(flow.passed(1, 13, 0, 312));
        flow.end(Ok(()));
        let mut all = Vec::new();
        events.drain(&mut all);
        let name = |e: &Event| (events.clients.name(e.client), events.places.name(e.note.place));
        let recorded: Vec<_> =
            all.iter().map(|e| (name(e), e.layer, e.op, e.user, e.note.object, e.note.size)).collect();
        let of = |dataset: &str| (Some("tank".into()), Some(dataset.into()));
        assert_eq!(
            recorded,
            [(of("tank/a"), Layer::Receive, 3, 7, 12, 8504), (of("tank/a/b"), Layer::Receive, 1, 7, 13, 312)]
        );
        assert!(all[1].latency <= all[1].done - all[0].done);
    }

    #[test]
    fn a_long_stream_is_a_job_with_its_progress_until_it_ends() {
        let (flows, jobs) = shown();
        let flow = flows.begin(Direction::Send, "tank/a@s", peer(), Arc::default());
        flow.total(1000);
        flow.doing("tank/a@s since @r".to_owned());
        flow.passed(3, 1, 0, 400);
        let job = until(&jobs, |job| job.progress.done_bytes == 400);
        let progress = &job.progress;
        assert_eq!((job.kind, job.target.as_str(), job.started_by.as_str()), (JobKind::Send, "tank/a@s", "uid 7"));
        assert_eq!((progress.total_bytes, job.message.as_deref()), (1000, Some("tank/a@s since @r")));
        flow.passed(5, 0, 0, 300);
        flow.end(Ok(()));
        let job = until(&jobs, |job| job.state == JobState::Done);
        assert_eq!((job.progress.done_bytes, job.progress.total_bytes), (700, 700));
        assert!(job.message.is_some_and(|m| m.starts_with("700B in ")));
    }

    #[test]
    fn a_job_that_is_stopped_stops_its_stream() {
        let (flows, jobs) = shown();
        let flow = flows.begin(Direction::Send, "tank/a@s", peer(), Arc::default());
        let id = until(&jobs, |job| job.state == JobState::Running).id;
        jobs.cancel(id);
        for _ in 0..6000 {
            if !flow.passed(3, 1, 0, 1) {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(!flow.passed(3, 1, 0, 1));
        drop(flow);
        until(&jobs, |job| job.id == id && job.state == JobState::Cancelled);
        // Another one is interrupted without a result.
        let flow = flows.begin(Direction::Receive, "tank/b", peer(), Arc::default());
        until(&jobs, |job| job.state == JobState::Running);
        drop(flow);
        until(&jobs, |job| job.state == JobState::Failed && job.message.as_deref() == Some("it broke off"));
    }
}
