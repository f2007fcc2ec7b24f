//! A client of the server whose power is cut: what it does, how that fails, and the loop that
//! continues after each restart.

use anyhow::{Result, anyhow, ensure};
use load::nfs::PATIENCE;
use parking_lot::RwLock;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Totals of a run.
#[derive(Debug, Default, Clone, Copy)]
pub struct Totals {
    /// Power cuts: (in total, while the previous log was being replayed).
    pub cuts: (u64, u64),
    /// Changes of properties.
    pub properties: u64,
    /// Calls and requests answered.
    pub calls: u64,
    /// Changes acknowledged as durable: (contents, extended attributes, copies, NBD requests).
    pub safe: (u64, u64, u64, u64),
    /// Number of complete checks by a client.
    pub judged: u64,
    /// Number of zdb checks.
    pub zdb: u64,
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (contents, attributes, copies, blocks) = self.safe;
        write!(
            f,
            "{} power cuts, {} more while opening, {} changes of properties; {} calls; acknowledged and not lost: {contents} \
             changes of contents, {attributes} of extended attributes, {copies} copies, {blocks} of the volume; judged {} times, \
             by zdb {}",
            self.cuts.0, self.cuts.1, self.properties, self.calls, self.judged, self.zdb
        )
    }
}

impl Totals {
    pub(super) fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.judged += other.judged;
        self.safe.0 += other.safe.0;
        self.safe.1 += other.safe.1;
        self.safe.2 += other.safe.2;
        self.safe.3 += other.safe.3;
    }
}

/// Why an attempt failed.
pub(super) enum Failure {
    /// The server is gone. It is restarted.
    Lost,
    /// A wrong result, which ends the run.
    Wrong(anyhow::Error),
}

pub(super) type Attempt<T> = std::result::Result<T, Failure>;

impl From<anyhow::Error> for Failure {
    fn from(e: anyhow::Error) -> Self {
        Self::Wrong(e)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        use io::ErrorKind as K;
        match error.kind() {
            K::InvalidData => Self::Wrong(anyhow!(error)),
            K::WouldBlock | K::TimedOut => Self::Wrong(anyhow!("no answer within {PATIENCE:?}, and the server lives")),
            _ => Self::Lost,
        }
    }
}

/// A client with its journal.
pub(super) trait Client: Send {
    /// Connects, checks what is found, and continues from it.
    fn begin(&mut self) -> Attempt<()>;
    /// Performs one operation. `promises`: acknowledgements guarantee durability.
    fn work(&mut self, promises: bool) -> Attempt<()>;
    /// Makes everything durable.
    fn settle(&mut self) -> Attempt<()>;
    /// The connection is gone.
    fn forget(&mut self);
    fn totals(&self) -> Totals;
}

/// Works until `stop` is set, then settles and checks everything once more.
pub(super) fn run(client: &mut dyn Client, stop: &AtomicBool, promises: &RwLock<bool>) -> Result<()> {
    let (mut is_new_life, mut deadline) = (true, Instant::now() + 3 * PATIENCE);
    loop {
        let attempt = (|| -> Attempt<bool> {
            if is_new_life {
                client.begin()?;
                is_new_life = false;
            }
            if stop.load(Ordering::SeqCst) {
                client.settle()?;
                return client.begin().map(|()| true);
            }
            let promises = promises.read();
            client.work(*promises).map(|()| false)
        })();
        match attempt {
            Ok(true) => return Ok(()),
            Ok(false) => deadline = Instant::now() + 3 * PATIENCE,
            Err(Failure::Lost) => {
                ensure!(Instant::now() < deadline, "the server does not come back");
                client.forget();
                is_new_life = true;
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(Failure::Wrong(e)) => return Err(e),
        }
    }
}
