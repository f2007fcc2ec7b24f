//! Statistics of each txg of a pool that a running mount has, for `weir inspect txgs`: no other
//! process can ask it yet, so it writes them to a small file in the state directory.
//!
//! Invariants:
//!   * the file is replaced as a whole: a reader sees the old or the new state
//!   * it is removed with the mount; a file left behind by a killed process contains its process id

use admin::write::WritablePool;
use anyhow::{Context as _, Result};
use pool::Writer;
use pool::writer::TxgStats;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Interval at which to check for a new txg: this limits the age of the statistics.
const EVERY: Duration = Duration::from_secs(1);

/// A txg in the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Txg {
    pub txg: u64,
    /// Time when it was closed, in seconds since 1970.
    pub closed_seconds: u64,
    /// Dirty bytes at that time.
    pub dirty_bytes: u64,
    /// Nanoseconds of each phase, in the order of [`PHASES`].
    pub phase_ns: [u64; 6],
    /// Passes over the MOS.
    pub passes: u32,
    /// Number of writes to devices.
    pub writes: u64,
    /// Bytes of these writes, including copies and parity.
    pub written_bytes: u64,
}

/// Names of the phases.
pub const PHASES: [&str; 6] = ["quiesce", "datasets", "tasks", "mos", "flush", "labels"];

/// Contents of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    /// Name of the pool.
    pub pool: String,
    /// Id of the process that has the pool open.
    pub pid: u32,
    /// Mount points of its datasets.
    pub places: Vec<PathBuf>,
    /// Dirty bytes that wait to be written.
    pub waiting_bytes: u64,
    /// The last txgs, the newest last.
    pub txgs: Vec<Txg>,
}

/// Writes the file while it exists.
pub struct Figures {
    stop: Option<Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
    path: PathBuf,
}

fn path(folder: &Path, pool: &str) -> PathBuf {
    folder.join("txgs").join(format!("{pool}.json"))
}

/// The statistics of a pool that a process has open for writing.
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
    /// Starts to write them for the pool of `dataset`, with datasets mounted at `places`.
    pub fn write_for(pool: &WritablePool, dataset: &str, places: Vec<PathBuf>) -> Result<Self> {
        let name = dataset.split('/').next().unwrap_or(dataset).to_owned();
        let path = path(&admin::state::folder()?, &name);
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

/// The statistics of now, ready to be written.
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
