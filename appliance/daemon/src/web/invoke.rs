//! Runs verbs of `admin` for requests.
//!
//! Invariants:
//!   * a verb has a thread of its own, because it may wait for disks, and the process does not stop
//!     before it has ended
//!   * a change is an event, with the line that the history of the pool has too

use super::caller::Caller;
use super::reply::{Answer, Problem};
use crate::command::in_thread;
use crate::events::Happening;
use crate::service::Service;
use admin::mounts::Mounter;
use admin::verbs::{Invocation, Kind, Refusal, pool_of};
use api::{ErrorCode, EventKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let code = match refusal.kind {
            Kind::NotFound => ErrorCode::NotFound,
            Kind::Conflict => ErrorCode::Conflict,
            Kind::Forbidden => ErrorCode::Forbidden,
            Kind::Unsupported => ErrorCode::Unsupported,
            Kind::Invalid => ErrorCode::InvalidRequest,
            Kind::Failed => ErrorCode::Failed,
        };
        Self::new(code, refusal.message)
    }
}

/// A change by a verb.
pub struct Change<'a> {
    pub kind: EventKind,
    /// Name of the pool, also for a change of datasets.
    pub pool: &'a str,
    /// The request as a command line, for the history of the pool and the event.
    pub line: &'a str,
}

impl<'a> Change<'a> {
    /// A change of a pool by a verb of zpool(8).
    pub fn of_pool(pool: &'a str, line: &'a str) -> Self {
        Self { kind: EventKind::Pool, pool, line }
    }

    /// A change of datasets by a verb of zfs(8).
    pub fn of_dataset(name: &'a str, line: &'a str) -> Self {
        Self { kind: EventKind::Dataset, pool: pool_of(name), line }
    }
}

/// Signals to a verb that its request was dropped.
struct Gone(Arc<AtomicBool>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Service {
    /// Reports that a command was run that may have changed something.
    pub fn ran(&self, caller: &Caller, line: &str, code: u8) {
        let happening = match code {
            0 => Happening::info(EventKind::Command, line),
            code => Happening::warning(EventKind::Command, format!("{line}: exited with {code}")),
        };
        self.events.post(happening.by(caller.name()));
        self.reschedule(line);
    }

    /// Runs a verb that changes something.
    pub async fn change<T: Send + 'static>(
        self: &Arc<Self>,
        caller: &Caller,
        change: Change<'_>,
        run: impl FnOnce(&Invocation<'_>) -> Result<T, Refusal> + Send + 'static,
    ) -> Answer<T> {
        let Change { kind, pool, line } = change;
        let done = self.invoke(caller, line, run).await;
        self.changed(pool);
        self.reschedule(line);
        let outcome = done?;
        self.events.post(Happening::info(kind, line.to_owned()).about(pool).by(caller.name()));
        Ok(outcome)
    }

    /// Runs a verb, or the part of one that changes nothing.
    pub async fn invoke<T: Send + 'static>(
        self: &Arc<Self>,
        caller: &Caller,
        line: &str,
        run: impl FnOnce(&Invocation<'_>) -> Result<T, Refusal> + Send + 'static,
    ) -> Answer<T> {
        if !caller.peer().is_owner() {
            return Err(Problem::new(ErrorCode::Forbidden, "permission denied"));
        }
        let (owner, command) = (self.owner.clone(), line.to_owned());
        let gone = Arc::new(AtomicBool::new(false));
        let _dropped = Gone(gone.clone());
        let (ended, running) = tokio::sync::oneshot::channel();
        let begun = in_thread(move || {
            let result = owner.begin().map(|_running| {
                run(&Invocation {
                    state: owner.house.state().clone(),
                    house: Some(owner.house.clone()),
                    mounter: Some(owner.clone() as Arc<dyn Mounter>),
                    // No other caller gets here.
                    caller: admin::verbs::Caller::owner(),
                    command,
                    // All pools of the state folder are of this process.
                    unmount_elsewhere: Box::new(|_, _| Ok(())),
                    check_share: crate::exports::is_understood,
                    fetch: Box::new(|url| {
                        let key = crate::key_server::get(url, &crate::key_server::Certificates::default());
                        key.map_err(anyhow::Error::msg)
                    }),
                    is_gone: Box::new(move || gone.load(Ordering::Relaxed)),
                })
            });
            // The request may have been dropped.
            let _ = ended.send(result);
        });
        begun.map_err(|error| {
            Problem::new(ErrorCode::Unavailable, format!("cannot start a thread for the command: {error}"))
        })?;
        match running.await {
            Ok(Some(result)) => Ok(result?),
            Ok(None) => Err(Problem::new(ErrorCode::Unavailable, "the daemon is starting or stopping")),
            Err(_) => Err(Problem::new(ErrorCode::Internal, "internal error; see the log")),
        }
    }
}
