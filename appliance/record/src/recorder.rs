//! Records: a row at even distances from all sources, until somebody says that it is enough.
//!
//! A source that fails leaves its columns empty in that row, and a note says so once until it answers again: a daemon that
//! starts later, or anew, is recorded from then on.

use crate::collect::{Sample, Source};
use crate::format::{Error, Meta, Stamp, Writer};
use crate::pace::Pace;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What a recorder is told while it works.
#[derive(Debug)]
enum Order {
    Note(Stamp, String),
    Stop,
}

/// Says to a recorder what to note, and when to stop.
#[derive(Debug, Clone)]
pub struct Orders {
    send: Sender<Order>,
}

impl Orders {
    /// Has it note something that happens now.
    pub fn note(&self, text: &str) {
        // One that has ended notes nothing more.
        let _ = self.send.send(Order::Note(Stamp::now(), text.to_owned()));
    }

    /// Has it end.
    pub fn stop(&self) {
        let _ = self.send.send(Order::Stop);
    }
}

/// Records on the thread that runs it.
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
    /// Begins a file. `span`: how long at most.
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

    /// Records until it is told to stop, or its time is over. Gives the number of rows that it missed because reading took too long.
    pub fn run(mut self) -> Result<u64, Error> {
        let mut pace = Pace::new(Some(self.every), None);
        let begun = Instant::now();
        let mut rows = 0u64;
        loop {
            self.row()?;
            rows += 1;
            let due = pace.due();
            // The last row is at the end, so that all of the time is told.
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
                    // Nobody can say anything any more: until its time is over, or for ever.
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
                Ok(()) if self.failing.remove(&name) => self.writer.note(at, &format!("{name} answers again"))?,
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

/// Records on a thread of its own.
#[derive(Debug)]
pub struct Recorder {
    orders: Orders,
    thread: Option<JoinHandle<Result<u64, Error>>>,
}

impl Recorder {
    /// Begins.
    pub fn start(file: &Path, meta: &Meta, sources: Vec<Box<dyn Source>>) -> Result<Self, Error> {
        let (recording, orders) = Recording::new(file, meta, sources, None)?;
        let path: Arc<Path> = file.into();
        let thread = std::thread::Builder::new().name("record".to_owned()).spawn(move || recording.run());
        let thread = thread.map_err(|error| Error::Io { path: path.to_path_buf(), error })?;
        Ok(Self { orders, thread: Some(thread) })
    }

    /// Has something noted that happens now.
    pub fn note(&self, text: &str) {
        self.orders.note(text);
    }

    /// Ends with a last row. Gives the number of rows that were missed.
    pub fn stop(mut self) -> Result<u64, Error> {
        self.orders.stop();
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(done)) => done,
            // A panic of the recorder is ours.
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
