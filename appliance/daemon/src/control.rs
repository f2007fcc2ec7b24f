//! The control socket of a process with one pool: `weir mount` without a daemon.

use crate::owner::Owner;
use crate::peer::Peer;
use crate::{http, socket};
use anyhow::{Context as _, Result};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Time limit for sending the last answers when stopping.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Answers requests on a socket until it is dropped.
pub struct Control {
    runtime: Option<Runtime>,
    stop: watch::Sender<bool>,
    server: Option<JoinHandle<()>>,
    listening: Option<socket::Listening>,
}

impl Control {
    /// Listens at `path` for commands to `owner`.
    pub fn start(owner: Arc<Owner>, path: &Path) -> Result<Self> {
        let mut listening = socket::listen(path)?;
        let listener = listening.listener().context("the socket was replaced")?;
        listener.set_nonblocking(true).context("the control socket")?;
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).thread_name("weir-http").enable_all().build();
        let runtime = runtime.context("cannot start threads")?;
        let listener = {
            let _inside = runtime.enter();
            UnixListener::from_std(listener).context("the control socket")?
        };
        let router = http::control(owner).into_make_service_with_connect_info::<Peer>();
        let (stop, mut stopped) = watch::channel(false);
        let server = axum::serve(listener, router).with_graceful_shutdown(async move {
            let _ = stopped.wait_for(|stopped| *stopped).await;
        });
        let server = runtime.spawn(async move { drop(server.await) });
        Ok(Self { runtime: Some(runtime), stop, server: Some(server), listening: Some(listening) })
    }

    /// Stops answering. While the returned value exists, other processes see that the pool is not
    /// released yet.
    pub fn stop(mut self) -> Option<socket::Listening> {
        self.end();
        let listening = self.listening.take();
        if let Some(listening) = &listening {
            listening.hide();
        }
        listening
    }

    fn end(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // The last answer may still be in transit.
            let _ = self.stop.send(true);
            if let Some(server) = self.server.take() {
                let _ = runtime.block_on(async { tokio::time::timeout(LAST_WORDS, server).await });
            }
            runtime.shutdown_background();
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.end();
    }
}
