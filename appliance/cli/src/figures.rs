//! Figures of each txg of a pool that a running mount has, for `weir inspect txgs`: no other process can ask it yet, so it
//! leaves them in a small file of the state folder.
//!
//! Invariants:
//!   * the file is replaced as a whole: who reads it sees one state or the other
//!   * it goes away with the mount; one that was left behind by a process that was killed names that process

use admin::write::WritablePool;
use anyhow::{Context as _, Result};
use pool::Writer;
use pool::writer::TxgStats;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// How often is looked whether there was another txg: figures are at most as old as this.
const EVERY: Duration = Duration::from_secs(1);

/// A txg in the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Txg {
    /// Its number.
    pub txg: u64,
    /// When it was closed, in seconds since 1970.
    pub closed_seconds: u64,
    /// Bytes of contents that were dirty then.
    pub dirty_bytes: u64,
    /// Nanoseconds of each phase, in the order of [`PHASES`].
    pub phase_ns: [u64; 6],
    /// Passes over the pool's own objects.
    pub passes: u32,
    /// Writes to devices.
    pub writes: u64,
    /// Bytes of them, copies and parity included.
    pub written_bytes: u64,
}

/// Names of the phases.
pub const PHASES: [&str; 6] = ["quiesce", "datasets", "tasks", "mos", "flush", "labels"];

/// What the file says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    /// The pool.
    pub pool: String,
    /// The process that has it.
    pub pid: u32,
    /// Where it has mounted datasets of it.
    pub places: Vec<PathBuf>,
    /// Bytes that wait to be written.
    pub waiting_bytes: u64,
    /// The last txgs, the newest last.
    pub txgs: Vec<Txg>,
}

/// Writes the file as long as it lives.
pub struct Figures {
    stop: Option<Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
    path: PathBuf,
}

fn path(folder: &Path, pool: &str) -> PathBuf {
    folder.join("txgs").join(format!("{pool}.json"))
}

/// The figures of a pool that some process has open for writing.
pub fn read(folder: &Path, pool: &str) -> Result<Option<Document>> {
    let path = path(folder, pool);
    let document: Document = match std::fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes).with_context(|| path.display().to_string())?,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e).with_context(|| path.display().to_string()),
    };
    let lives = Path::new("/proc").join(document.pid.to_string()).exists();
    Ok(lives.then_some(document))
}

impl Figures {
    /// Begins to write them for the pool of `dataset`, of which datasets are mounted at `places`.
    pub fn write_for(pool: &WritablePool, dataset: &str, places: Vec<PathBuf>) -> Result<Self> {
        let name = dataset.split('/').next().unwrap_or(dataset).to_owned();
        let path = path(&crate::state::folder()?, &name);
        let folder = path.parent().expect("it was joined");
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let (stop, stopped) = channel();
        let (writer, file) = (pool.writer().clone(), path.clone());
        let thread = std::thread::Builder::new()
            .name("figures".into())
            .spawn(move || run(&writer, &name, &places, &file, &stopped))
            .context("cannot start a thread")?;
        Ok(Self { stop: Some(stop), thread: Some(thread), path })
    }
}

fn run(writer: &Arc<Writer>, pool: &str, places: &[PathBuf], path: &Path, stopped: &Receiver<()>) {
    let (mut shown, mut wait) = (None, Duration::ZERO);
    while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(wait) {
        wait = EVERY;
        let synced = writer.synced_txg();
        if shown == Some(synced) {
            continue;
        }
        shown = Some(synced);
        let document = document(writer, pool, places);
        let fresh = path.with_extension("new");
        let written = serde_json::to_vec(&document)
            .map_err(std::io::Error::from)
            .and_then(|bytes| std::fs::write(&fresh, bytes))
            .and_then(|()| std::fs::rename(&fresh, path));
        if let Err(error) = written {
            tracing::warn!(path = %path.display(), %error, "cannot write statistics");
            return;
        }
    }
}

/// What there is to be told now.
pub fn document(writer: &Writer, pool: &str, places: &[PathBuf]) -> Document {
    Document {
        pool: pool.to_owned(),
        pid: std::process::id(),
        places: places.to_vec(),
        waiting_bytes: writer.dirty_bytes(),
        txgs: writer.txg_stats().iter().map(of).collect(),
    }
}

fn of(s: &TxgStats) -> Txg {
    Txg {
        txg: s.txg,
        closed_seconds: s.closed_seconds,
        dirty_bytes: s.dirty_bytes,
        phase_ns: s.phase_ns,
        passes: s.passes,
        writes: s.writes,
        written_bytes: s.written_bytes,
    }
}

impl Drop for Figures {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // It may never have been written.
        let _ = std::fs::remove_file(&self.path);
    }
}
