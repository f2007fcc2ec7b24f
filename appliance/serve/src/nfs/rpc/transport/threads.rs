//! Starts the threads of the [`Engine`], and adds some while all wait.

use super::Engine;
use super::jobs::Handed;
use super::worker::Worker;
use crate::net::sync::start;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum delay until another thread is started when all threads wait.
const MONITOR_PERIOD: Duration = Duration::from_millis(4);

/// Interval between checks for clients that stall while memory is short.
const STALLED_PERIOD: Duration = Duration::from_secs(1);

const STACK_BYTES: usize = 1 << 20;

impl Engine {
    /// Starts the threads that serve and their monitor, and returns.
    pub fn run(self: &Arc<Self>) -> io::Result<()> {
        for _ in 0..self.limits.threads.max(1) {
            self.start_thread(true)?;
        }
        let this = self.clone();
        std::thread::Builder::new().name("nfs-monitor".to_owned()).spawn(move || this.watch_threads())?;
        Ok(())
    }

    pub(super) fn start_thread(self: &Arc<Self>, stays: bool) -> io::Result<()> {
        self.threads.reader_starts();
        let this = self.clone();
        let thread = std::thread::Builder::new().name("nfs".to_owned()).stack_size(STACK_BYTES);
        let started = start(thread, move || {
            Worker::new(&this).work(stays);
            this.threads.reader_ended();
        });
        if started.is_err() {
            self.threads.reader_ended();
        }
        started
    }

    /// Adds threads when none is left to read and none makes progress, and disconnects clients that
    /// hoard memory.
    fn watch_threads(self: &Arc<Self>) {
        let mut answered = 0;
        let mut looked = Instant::now();
        loop {
            self.threads.wait_all_busy(|| self.memory.has_starved(), STALLED_PERIOD);
            if self.threads.is_stopping() {
                return;
            }
            if self.memory.has_starved() && looked.elapsed() >= STALLED_PERIOD {
                self.cut_off_stalled();
                looked = Instant::now();
            }
            std::thread::sleep(MONITOR_PERIOD);
            let now = self.threads.answers();
            let threads = self.threads.readers();
            if self.threads.has_idle() {
                self.threads.recheck_busy();
            } else if now - answered < threads as u64 && threads < self.limits.threads_max {
                // The threads wait for something. Being short of CPU would not justify another
                // thread.
                if let Err(error) = self.start_thread(false) {
                    tracing::warn!(%error, "cannot start a further thread");
                }
            }
            answered = now;
        }
    }

    /// Queues a call that may wait for the threads that handle such calls.
    pub(super) fn wait_elsewhere(self: &Arc<Self>, call: Handed) {
        if self.waiting.give(call)
            && let Err(error) = self.start_waiting_thread()
        {
            tracing::warn!(%error, "cannot start a further thread");
            if let Some(call) = self.waiting.not_started() {
                self.jobs.answer_elsewhere(call);
            }
        }
    }

    fn start_waiting_thread(self: &Arc<Self>) -> io::Result<()> {
        self.threads.starts();
        let this = self.clone();
        let thread = std::thread::Builder::new().name("nfs-wait".to_owned()).stack_size(STACK_BYTES);
        let started = start(thread, move || {
            Worker::waiting(&this).answer_waiting();
            this.threads.ended();
        });
        if started.is_err() {
            self.threads.ended();
        }
        started
    }
}
