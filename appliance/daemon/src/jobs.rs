//! Jobs: work that takes longer than a request. It continues without a client, and its result is
//! kept.
//!
//! Invariants:
//!   * a job runs in a thread of its own, and ends soon after it is cancelled
//!   * at most [`AT_A_TIME`] jobs run at once, and one of a kind per target, not counting streams,
//!     which run anyway; [`ENDED_KEPT`] ended jobs are kept with their results
//!   * a job whose thread panics has failed; nothing else is affected
//!   * each job is a file in `jobs/` of the state directory: ended jobs survive a restart, and a
//!     job that ran when the process ended is marked as interrupted

use crate::access::now;
use crate::events::{Events, Happening};
use anyhow::{Context as _, Result};
use api::{EventKind, Job, JobKind, JobProgress, JobState, LiveMessage, Verification};
use host::durable;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Limit for running jobs.
const AT_A_TIME: usize = 8;
/// Ended jobs that are kept, not counting streams.
const ENDED_KEPT: usize = 100;
/// Ended streams that are kept: there may be several each minute.
const STREAMS_KEPT: usize = 20;
/// Minimum interval between progress messages to subscribers.
const PUBLISHED_EVERY: Duration = Duration::from_secs(1);
/// Minimum interval between progress updates of a job's file.
const NOTED_EVERY: Duration = Duration::from_secs(10);
/// Time over which the current rate is measured.
const RECENT: Duration = Duration::from_secs(10);

/// The running and finished jobs.
pub struct Jobs {
    events: Arc<Events>,
    /// Directory in which they are stored.
    folder: Option<PathBuf>,
    all: Mutex<BTreeMap<u64, Arc<Running>>>,
    last: AtomicU64,
}

/// A job, while it runs and after.
pub struct Running {
    events: Arc<Events>,
    shown: Mutex<Shown>,
    file: Option<PathBuf>,
    cancelled: AtomicBool,
    /// The job ends because the process ends.
    interrupted: AtomicBool,
}

struct Shown {
    job: Job,
    published: Instant,
    noted: Instant,
    /// Bytes done at recent times.
    recent: VecDeque<(Instant, u64)>,
}

/// Result of a successful job.
#[derive(Default)]
pub struct Finished {
    /// The result in one sentence.
    pub message: Option<String>,
    /// Result of a verification.
    pub verification: Option<Verification>,
}

impl Running {
    /// Whether the job must end.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// A copy of its current state, for the API.
    pub fn job(&self) -> Job {
        self.shown.lock().job.clone()
    }

    /// Reports the progress and the current step.
    pub fn progress(&self, doing: &str, done_bytes: u64, total_bytes: u64) {
        self.progress_at(Instant::now(), doing, done_bytes, total_bytes);
    }

    fn progress_at(&self, now: Instant, doing: &str, done_bytes: u64, total_bytes: u64) {
        let mut shown = self.shown.lock();
        let Shown { job, published, noted, recent } = &mut *shown;
        // Several threads report: an older number may arrive later.
        let done_bytes = done_bytes.max(job.progress.done_bytes);
        while recent.len() > 2 && recent.front().is_some_and(|(then, _)| now.duration_since(*then) > RECENT) {
            recent.pop_front();
        }
        if recent.back().is_none_or(|(then, _)| now.duration_since(*then) >= Duration::from_millis(200)) {
            recent.push_back((now, done_bytes));
        }
        let rate = recent.front().map_or(0.0, |(then, bytes)| {
            let seconds = now.duration_since(*then).as_secs_f64();
            if seconds > 0.0 { done_bytes.saturating_sub(*bytes) as f64 / seconds } else { 0.0 }
        });
        let left = total_bytes.saturating_sub(done_bytes);
        let percent =
            if total_bytes == 0 { 0.0 } else { 100.0 * done_bytes.min(total_bytes) as f64 / total_bytes as f64 };
        job.message = Some(doing.to_owned());
        job.progress = JobProgress {
            done_bytes,
            total_bytes,
            percent,
            bytes_per_second: rate,
            seconds_left: (rate >= 1.0 && total_bytes > 0).then(|| (left as f64 / rate).ceil() as u64),
        };
        if now.duration_since(*published) >= PUBLISHED_EVERY {
            *published = now;
            self.events.pass(LiveMessage::Job { job: job.clone() });
        }
        if now.duration_since(*noted) >= NOTED_EVERY {
            *noted = now;
            note(self.file.as_deref(), job);
        }
    }

    fn end(&self, state: JobState, finished: Finished) {
        let mut shown = self.shown.lock();
        let job = &mut shown.job;
        (job.state, job.ended, job.message) = (state, Some(now()), finished.message);
        job.verification = finished.verification;
        job.progress.seconds_left = None;
        job.progress.bytes_per_second = 0.0;
        if state == JobState::Done {
            (job.progress.done_bytes, job.progress.percent) = (job.progress.total_bytes, 100.0);
        }
        note(self.file.as_deref(), job);
        let job = job.clone();
        drop(shown);
        let outcome = job.message.clone().unwrap_or_default();
        let what = format!("{} of {}", name(job.kind), job.target);
        let happening = match (state, job.verification.as_ref().map(|v| v.verdict)) {
            (JobState::Failed, _) => Happening::error(EventKind::Job, format!("{what} failed: {outcome}")),
            (JobState::Interrupted, _) => {
                Happening::warning(EventKind::Job, format!("{what} was interrupted: {outcome}"))
            }
            (JobState::Cancelled, _) if outcome.is_empty() => {
                Happening::warning(EventKind::Job, format!("{what} was cancelled"))
            }
            (JobState::Cancelled, _) => Happening::info(EventKind::Job, format!("{what}: {outcome}")),
            (_, None | Some(api::Verdict::Clean)) => Happening::info(EventKind::Job, format!("{what}: {outcome}")),
            (_, Some(_)) => Happening::error(EventKind::Job, format!("{what}: {outcome}")),
        };
        self.events.post(happening.about(job.target.clone()).by(job.started_by.clone()));
        self.events.pass(LiveMessage::Job { job });
    }
}

fn name(kind: JobKind) -> &'static str {
    match kind {
        JobKind::Verify => "verify",
        JobKind::Destroy => "destroy",
        JobKind::Scrub => "scrub",
        JobKind::Resilver => "resilver",
        JobKind::Send => "send",
        JobKind::Receive => "receive",
    }
}

/// Message of a job that ended with the process.
fn interruption(job: &Job) -> String {
    let far = match job.progress.total_bytes {
        0 => String::new(),
        _ => format!(" at {:.0} %", job.progress.percent),
    };
    match job.kind {
        JobKind::Verify => format!("the daemon stopped{far}, and the rest was not done; start the job again"),
        JobKind::Destroy => format!("the daemon stopped{far}; freeing continues automatically"),
        JobKind::Scrub | JobKind::Resilver => format!("the daemon stopped{far}; it continues automatically"),
        JobKind::Send | JobKind::Receive => format!("the daemon stopped{far}; start the command again"),
    }
}

/// Message of a job that was cancelled.
fn cancellation(kind: JobKind) -> Option<String> {
    let what = match kind {
        JobKind::Verify | JobKind::Send | JobKind::Receive => return None,
        JobKind::Destroy => "freeing",
        JobKind::Scrub => "scrubbing",
        JobKind::Resilver => "resilvering",
    };
    Some(format!("the pool was exported; {what} continues when it is imported again"))
}

/// Whether a job shows work of the pool that cannot be stopped.
pub fn cannot_be_stopped(kind: JobKind) -> bool {
    matches!(kind, JobKind::Destroy | JobKind::Resilver)
}

/// Whether a job shows a stream that a command sends or receives.
pub fn is_stream(kind: JobKind) -> bool {
    matches!(kind, JobKind::Send | JobKind::Receive)
}

/// Stores the current state of a job.
fn note(file: Option<&Path>, job: &Job) {
    let Some(path) = file else { return };
    let written = serde_json::to_vec(job).map_err(std::io::Error::other);
    let written = written.and_then(|text| durable::replace(path, &text, durable::PRIVATE));
    if let Err(error) = written {
        tracing::error!(%error, path = %path.display(), "the job will be lost at a restart");
    }
}

impl Jobs {
    /// No jobs, and nothing is stored.
    pub fn new(events: Arc<Events>) -> Self {
        Self { events, folder: None, all: Mutex::default(), last: AtomicU64::new(0) }
    }

    /// Opens the jobs of the state directory. Jobs that ran when their process ended are marked as
    /// interrupted.
    pub fn open(events: Arc<Events>, state: &Path) -> Result<Self> {
        let folder = state.join("jobs");
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.with_context(|| folder.display().to_string())?;
        let mut jobs = Self::new(events);
        let mut found = BTreeMap::new();
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry.with_context(|| folder.display().to_string())?.path();
            let number = path.file_name().and_then(|n| n.to_str()?.strip_suffix(".json")?.parse::<u64>().ok());
            let job = fs::read(&path).ok().and_then(|text| serde_json::from_slice::<Job>(&text).ok());
            match (number, job) {
                (Some(number), Some(job)) if number == job.id && number < u64::MAX / 2 => {
                    drop(found.insert(number, job))
                }
                _ => tracing::warn!(path = %path.display(), "skipped an invalid job record"),
            }
        }
        jobs.last = AtomicU64::new(found.keys().next_back().copied().unwrap_or(0));
        jobs.folder = Some(folder);
        for (id, job) in found {
            let running = jobs.running(job);
            let job = running.job();
            if job.ended.is_none() {
                running
                    .end(JobState::Interrupted, Finished { message: Some(interruption(&job)), ..Finished::default() });
            }
            jobs.all.lock().insert(id, running);
        }
        jobs.forget_old(&mut jobs.all.lock());
        Ok(jobs)
    }

    fn running(&self, job: Job) -> Arc<Running> {
        let file = self.folder.as_ref().map(|folder| folder.join(format!("{}.json", job.id)));
        let now = Instant::now();
        Arc::new(Running {
            events: self.events.clone(),
            shown: Mutex::new(Shown { job, published: now, noted: now, recent: VecDeque::new() }),
            file,
            cancelled: AtomicBool::new(false),
            interrupted: AtomicBool::new(false),
        })
    }

    /// Removes all but the newest ended jobs.
    fn forget_old(&self, all: &mut BTreeMap<u64, Arc<Running>>) {
        let ended = all.values().map(|r| r.job()).filter(|j| j.ended.is_some());
        let (streams, others): (Vec<Job>, Vec<Job>) = ended.partition(|job| is_stream(job.kind));
        let most = [(streams, STREAMS_KEPT), (others, ENDED_KEPT)];
        let old = most.iter().flat_map(|(jobs, kept)| jobs.iter().take(jobs.len().saturating_sub(*kept)));
        for old in old.map(|job| &job.id) {
            if let Some(file) = all.remove(old).and_then(|running| running.file.clone()) {
                let _ = fs::remove_file(file);
            }
        }
    }

    /// Starts a job. The error says why it cannot start.
    pub fn start(
        &self,
        kind: JobKind,
        target: &str,
        by: &str,
        work: impl FnOnce(&Running) -> anyhow::Result<Finished> + Send + 'static,
    ) -> Result<Job, String> {
        let mut all = self.all.lock();
        let running: Vec<Job> = all.values().map(|r| r.job()).filter(|j| j.ended.is_none()).collect();
        if let Some(same) = running.iter().find(|j| j.kind == kind && j.target == target && !is_stream(kind)) {
            return Err(format!("job {} is already doing that", same.id));
        }
        if !is_stream(kind) && running.iter().filter(|j| !is_stream(j.kind)).count() >= AT_A_TIME {
            return Err(format!("{AT_A_TIME} jobs are running"));
        }
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let job = Job {
            id,
            kind,
            target: target.to_owned(),
            state: JobState::Running,
            started_by: by.to_owned(),
            started: now(),
            ended: None,
            progress: JobProgress::default(),
            message: None,
            verification: None,
        };
        let running = self.running(job.clone());
        note(running.file.as_deref(), &job);
        let thread = running.clone();
        let spawned = std::thread::Builder::new().name(format!("weir-job-{id}")).spawn(move || {
            let result = catch_unwind(AssertUnwindSafe(|| work(&thread)));
            let failed = |message: String| (JobState::Failed, Finished { message: Some(message), verification: None });
            let (state, finished) = match result {
                Ok(_) if thread.interrupted.load(Ordering::Relaxed) => {
                    let message = Some(interruption(&thread.job()));
                    (JobState::Interrupted, Finished { message, verification: None })
                }
                Ok(Ok(finished)) if thread.is_cancelled() && finished.message.is_some() => {
                    (JobState::Cancelled, finished)
                }
                Ok(_) if thread.is_cancelled() => {
                    (JobState::Cancelled, Finished { message: cancellation(kind), verification: None })
                }
                Ok(Ok(finished)) => (JobState::Done, finished),
                Ok(Err(error)) => failed(format!("{error:#}")),
                Err(_) => failed("internal error; see the log".to_owned()),
            };
            thread.end(state, finished);
        });
        if let Err(e) = spawned {
            return Err(format!("cannot start a thread: {e}"));
        }
        all.insert(id, running);
        self.forget_old(&mut all);
        drop(all);
        // The command of a stream reports its own end.
        if !is_stream(kind) {
            let begins = Happening::info(EventKind::Job, format!("{} of {target} started", name(kind)));
            self.events.post(begins.about(target).by(by));
        }
        self.events.pass(LiveMessage::Job { job: job.clone() });
        Ok(job)
    }

    /// All jobs, newest first.
    pub fn list(&self) -> Vec<Job> {
        self.all.lock().values().rev().map(|r| r.job()).collect()
    }

    /// The running job of one of these kinds for a target.
    pub fn running_on(&self, kinds: &[JobKind], target: &str) -> Option<Job> {
        let is_it = |job: &Job| kinds.contains(&job.kind) && job.target == target && job.ended.is_none();
        self.all.lock().values().map(|running| running.job()).find(is_it)
    }

    pub fn get(&self, id: u64) -> Option<Job> {
        self.all.lock().get(&id).map(|r| r.job())
    }

    /// Cancels a job and returns it; `None`: there is no such job. A job that has ended or cannot
    /// be stopped is left as it is.
    pub fn cancel(&self, id: u64) -> Option<Job> {
        let running = self.all.lock().get(&id).cloned()?;
        if cannot_be_stopped(running.job().kind) {
            return Some(running.job());
        }
        running.cancelled.store(true, Ordering::Relaxed);
        let mut shown = running.shown.lock();
        if shown.job.state == JobState::Running {
            shown.job.state = JobState::Cancelling;
            self.events.pass(LiveMessage::Job { job: shown.job.clone() });
        }
        Some(shown.job.clone())
    }

    /// Cancels all jobs of a pool and waits for them, before the pool is closed.
    pub fn cancel_of(&self, pool: &str, longest: Duration) {
        let of = |target: &str| target.split(['/', '@']).next() == Some(pool);
        self.cancel_where(of, longest);
    }

    /// Interrupts all jobs, because the process ends.
    pub fn interrupt_all(&self, longest: Duration) {
        self.all.lock().values().for_each(|running| running.interrupted.store(true, Ordering::Relaxed));
        self.cancel_where(|_| true, longest);
    }

    fn cancel_where(&self, wanted: impl Fn(&str) -> bool, longest: Duration) {
        let all: Vec<Arc<Running>> = self.all.lock().values().cloned().collect();
        let concerned: Vec<_> = all.iter().filter(|r| wanted(&r.job().target)).collect();
        concerned.iter().for_each(|r| r.cancelled.store(true, Ordering::Relaxed));
        let deadline = Instant::now() + longest;
        while concerned.iter().any(|r| r.job().ended.is_none()) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    fn jobs() -> Jobs {
        Jobs::new(Arc::new(Events::default()))
    }

    fn wait(jobs: &Jobs, id: u64) -> Job {
        for _ in 0..1000 {
            match jobs.get(id) {
                Some(job) if job.ended.is_some() => return job,
                _ => std::thread::sleep(Duration::from_millis(5)),
            }
        }
        panic!("job {id} does not end");
    }

    #[test]
    fn a_job_runs_to_its_end_and_its_result_is_kept() {
        let jobs = jobs();
        let job = jobs.start(JobKind::Verify, "tank", "root", |running| {
            running.progress("reading", 50, 100);
            Ok(Finished { message: Some("all is well".into()), verification: None })
        });
        let job = wait(&jobs, job.expect("started").id);
        assert_eq!(
            (job.state, job.message.as_deref(), job.progress.percent),
            (JobState::Done, Some("all is well"), 100.0)
        );
        assert_eq!(jobs.list().len(), 1);
    }

    #[test]
    fn a_cancelled_job_ends_and_a_failed_one_has_a_reason() {
        let jobs = jobs();
        let (ready, wait_ready) = channel();
        let job = jobs.start(JobKind::Verify, "tank", "root", move |running| {
            ready.send(()).expect("the test waits");
            while !running.is_cancelled() {
                std::thread::sleep(Duration::from_millis(1));
            }
            anyhow::bail!("cancelled")
        });
        let id = job.expect("started").id;
        wait_ready.recv().expect("it runs");
        assert!(jobs.start(JobKind::Verify, "tank", "root", |_| Ok(Finished::default())).is_err(), "one at a time");
        assert_eq!(jobs.cancel(id).expect("there").state, JobState::Cancelling);
        assert_eq!(wait(&jobs, id).state, JobState::Cancelled);
        assert!(jobs.cancel(99).is_none());
        let failing = jobs.start(JobKind::Verify, "tank", "root", |_| anyhow::bail!("no disk")).expect("started");
        let failed = wait(&jobs, failing.id);
        assert_eq!((failed.state, failed.message.as_deref()), (JobState::Failed, Some("no disk")));
    }

    #[test]
    fn a_job_that_panics_has_failed() {
        let jobs = jobs();
        let job = jobs.start(JobKind::Verify, "tank", "root", |_| panic!("on purpose")).expect("started");
        assert_eq!(wait(&jobs, job.id).state, JobState::Failed);
    }

    #[test]
    fn jobs_of_a_pool_end_before_it_is_released() {
        let jobs = jobs();
        let spin = |running: &Running| {
            while !running.is_cancelled() {
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(Finished::default())
        };
        let (a, b) = (jobs.start(JobKind::Verify, "a", "", spin), jobs.start(JobKind::Verify, "b", "", spin));
        jobs.cancel_of("a", Duration::from_secs(5));
        assert_eq!(jobs.get(a.expect("started").id).expect("kept").state, JobState::Cancelled);
        assert_eq!(jobs.get(b.expect("started").id).expect("kept").state, JobState::Running);
        jobs.interrupt_all(Duration::from_secs(5));
    }

    #[test]
    fn jobs_are_there_after_a_restart_and_those_that_ran_are_interrupted() {
        let folder = tempfile::tempdir().expect("a folder");
        let open = || Jobs::open(Arc::new(Events::default()), folder.path()).expect("opened");
        let jobs = open();
        let found = |_: &Running| Ok(Finished { message: Some("all well".into()), verification: None });
        let done = jobs.start(JobKind::Verify, "a", "root", found).expect("started").id;
        wait(&jobs, done);
        let (go, gone) = channel::<()>();
        let killed =
            jobs.start(JobKind::Verify, "b", "root", move |_| Ok(gone.recv().map(|()| Finished::default())?));
        let killed = killed.expect("started").id;
        // As if the process were killed here.
        std::mem::forget(go);
        let jobs = open();
        assert_eq!(jobs.get(done).map(|j| (j.state, j.message)), Some((JobState::Done, Some("all well".to_owned()))));
        let stored = jobs.get(killed).expect("stored");
        assert_eq!((stored.state, stored.ended.is_some()), (JobState::Interrupted, true));
        let next = jobs.start(JobKind::Verify, "c", "root", |running| {
            while !running.is_cancelled() {
                std::thread::sleep(Duration::from_millis(2));
            }
            Ok(Finished::default())
        });
        let next = next.expect("started").id;
        assert_eq!(next, killed + 1);
        // As a clean shutdown does.
        jobs.interrupt_all(Duration::from_secs(10));
        assert_eq!(jobs.get(next).expect("kept").state, JobState::Interrupted);
        assert_eq!(open().get(next).expect("kept").state, JobState::Interrupted);
        for i in 0..ENDED_KEPT + 5 {
            wait(
                &jobs,
                jobs.start(JobKind::Verify, &i.to_string(), "", |_| Ok(Finished::default())).expect("started").id,
            );
        }
        assert!(fs::read_dir(folder.path().join("jobs")).expect("read").count() <= ENDED_KEPT + 1);
        assert!(open().get(done).is_none());
    }

    #[test]
    fn progress_has_a_rate_and_the_remaining_time() {
        let jobs = jobs();
        let (go, gone) = channel();
        let id = jobs
            .start(JobKind::Verify, "tank", "", move |_| Ok(gone.recv().map(|()| Finished::default())?))
            .expect("started")
            .id;
        let running = jobs.all.lock()[&id].clone();
        let start = Instant::now();
        for second in 0..=20 {
            running.progress_at(start + Duration::from_secs(second), "reading", second * 1000, 100_000);
        }
        let progress = running.job().progress;
        assert!((progress.bytes_per_second - 1000.0).abs() < 1.0, "{progress:?}");
        assert_eq!((progress.percent, progress.seconds_left), (20.0, Some(80)));
        go.send(()).expect("it waits");
        wait(&jobs, id);
    }
}
