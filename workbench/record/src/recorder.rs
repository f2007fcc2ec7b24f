//! The recorder: samples all sources at even intervals, until it is stopped.
//!
//! A source that fails leaves its columns empty in that row. A note records this once, until the
//! source responds again: a daemon that starts or restarts later is recorded from then on.

use crate::collect::{Sample, Source};
use crate::format::{Error, Meta, Stamp, Writer};
use host::pace::Pace;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A message to a running recorder.
#[derive(Debug)]
enum Order {
    Note(Stamp, String),
    Stop,
}

/// A handle that sends notes and the stop request to a recorder.
#[derive(Debug, Clone)]
pub struct Orders {
    send: Sender<Order>,
}

impl Orders {
    /// Adds a note with the current time.
    pub fn note(&self, text: &str) {
        // A recorder that has ended ignores notes.
        let _ = self.send.send(Order::Note(Stamp::now(), text.to_owned()));
    }

    /// Requests the end of the recording, without waiting for it.
    pub fn stop(&self) {
        let _ = self.send.send(Order::Stop);
    }
}

/// A recording that runs on the calling thread.
pub struct Recording {
    writer: Writer,
    sources: Vec<Box<dyn Source>>,
    failing: BTreeSet<String>,
    orders: Receiver<Order>,
    every: Duration,
    until: Option<Instant>,
}

impl std::fmt::Debug for Recording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recording").field("writer", &self.writer).finish_non_exhaustive()
    }
}

impl Recording {
    /// Creates the file. `span`: maximum duration.
    pub fn new(
        file: &Path,
        meta: &Meta,
        sources: Vec<Box<dyn Source>>,
        span: Option<Duration>,
    ) -> Result<(Self, Orders), Error> {
        let (send, orders) = channel();
        let writer = Writer::create(file, meta)?;
        let (every, until) = (Duration::from_nanos(meta.every_ns), span.map(|span| Instant::now() + span));
        Ok((Self { writer, sources, failing: BTreeSet::new(), orders, every, until }, Orders { send }))
    }

    /// Records until it is stopped or its time is over. Returns the number of rows that were missed
    /// because sampling took too long.
    pub fn run(mut self) -> Result<u64, Error> {
        let mut pace = Pace::new(Some(self.every), None);
        let begun = Instant::now();
        let mut rows = 0u64;
        loop {
            self.row()?;
            rows += 1;
            let due = pace.due();
            // The last row is at the end, so that the whole time is covered.
            let due = self.until.map_or(due, |until| due.min(until.max(Instant::now())));
            let mut is_over = self.until.is_some_and(|until| Instant::now() >= until);
            while !is_over {
                match self.orders.recv_timeout(due.saturating_duration_since(Instant::now())) {
                    Ok(Order::Note(at, text)) => self.writer.note(at, &text)?,
                    Ok(Order::Stop) => {
                        self.row()?;
                        rows += 1;
                        is_over = true;
                    }
                    Err(RecvTimeoutError::Timeout) => break,
                    // All handles are gone: record until the time is over, or forever.
                    Err(RecvTimeoutError::Disconnected) => {
                        std::thread::sleep(due.saturating_duration_since(Instant::now()));
                        break;
                    }
                }
            }
            if is_over {
                let expected = begun.elapsed().as_nanos() / self.every.as_nanos().max(1);
                let missed = u64::try_from(expected).unwrap_or(u64::MAX).saturating_sub(rows);
                self.writer.finish(missed)?;
                return Ok(missed);
            }
        }
    }

    fn row(&mut self) -> Result<(), Error> {
        let at = Stamp::now();
        let mut sample = Sample::default();
        for source in &mut self.sources {
            let name = source.name().to_owned();
            match source.sample(&mut sample) {
                Ok(()) if self.failing.remove(&name) => self.writer.note(at, &format!("{name} responds again"))?,
                Ok(()) => {}
                Err(error) if self.failing.insert(name.clone()) => {
                    self.writer.note(at, &format!("{name} cannot be read: {error}"))?;
                }
                Err(_) => {}
            }
        }
        let values: Vec<_> = sample.values.iter().map(|(column, value)| (self.writer.column(column), *value)).collect();
        self.writer.row(at, &values)
    }
}

/// A recording that runs on its own thread.
#[derive(Debug)]
pub struct Recorder {
    orders: Orders,
    thread: Option<JoinHandle<Result<u64, Error>>>,
}

impl Recorder {
    /// Creates `file` and records on a new thread until [`Self::stop`], or until it is dropped.
    pub fn start(file: &Path, meta: &Meta, sources: Vec<Box<dyn Source>>) -> Result<Self, Error> {
        let (recording, orders) = Recording::new(file, meta, sources, None)?;
        let path: Arc<Path> = file.into();
        let thread = std::thread::Builder::new().name("record".to_owned()).spawn(move || recording.run());
        let thread = thread.map_err(|error| Error::Io { path: path.to_path_buf(), error })?;
        Ok(Self { orders, thread: Some(thread) })
    }

    /// Adds a note with the current time.
    pub fn note(&self, text: &str) {
        self.orders.note(text);
    }

    /// Stops with a last row. Returns the number of missed rows.
    pub fn stop(mut self) -> Result<u64, Error> {
        self.orders.stop();
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(done)) => done,
            // Propagate a panic of the recorder thread.
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(0),
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.orders.stop();
    }
}
