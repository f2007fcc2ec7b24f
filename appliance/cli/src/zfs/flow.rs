//! Reports from `zfs send` and `zfs receive` to the daemon when it runs them: records as they pass,
//! for its statistics, and progress, for its jobs.

use crate::context::{Context, Failure, Outcome};
use daemon::flows::{Begun, Direction, Flow};
use dataset::stream::{Watch, place_of};
use errors::{Error, Result};
use ondisk::send_record::{Begin, Body};
use std::io;
use std::sync::Arc;

/// Begins a report. `None`: the command does not run in the daemon.
pub fn begin(cx: &Context<'_>, direction: Direction, target: &str) -> Option<Begun> {
    let owner = cx.owner.as_ref()?;
    let (peer, cancelled) = cx.client.caller()?;
    Some(owner.flows.begin(direction, target, peer, cancelled))
}

/// Reports the outcome of the command.
pub fn end(flow: Option<Begun>, outcome: &Outcome) {
    let Some(flow) = flow else { return };
    flow.end(match outcome {
        Ok(0) => Ok(()),
        Err(Failure::Failed(why) | Failure::Usage(why) | Failure::Refused { message: why, .. }) => Err(why.clone()),
        Ok(code) | Err(Failure::Code(code)) => Err(format!("it ended with {code}")),
    });
}

/// The observer of a stream that is written.
pub fn sending(flow: Option<&Begun>) -> Option<Box<dyn Watch>> {
    flow.map(|flow| Box::new(Told { flow: Arc::clone(flow), names_datasets: true }) as Box<dyn Watch>)
}

/// The observer of a stream that is read. The sender does not know the local names of the datasets:
/// the receiver sets them with [`Flow::dataset`].
pub fn receiving(flow: Option<&Begun>) -> Option<Box<dyn Watch>> {
    flow.map(|flow| Box::new(Told { flow: Arc::clone(flow), names_datasets: false }) as Box<dyn Watch>)
}

struct Told {
    flow: Arc<Flow>,
    /// The name in BEGIN is the name of the dataset in this pool.
    names_datasets: bool,
}

impl Watch for Told {
    fn passed(&mut self, body: &Body, bytes: u64) -> Result<()> {
        if let Body::Begin(begin) = body
            && self.names_datasets
            && begin.header_type == Begin::STREAM
        {
            self.flow.dataset(&String::from_utf8_lossy(&begin.to_name));
        }
        let (object, offset) = place_of(body);
        match self.flow.passed(body.kind(), object, offset, bytes) {
            true => Ok(()),
            false => Err(Error::io("the stream", io::Error::other("it was stopped"))),
        }
    }
}

/// A short description of a stream: what it sends, and its base.
pub fn words(to: &str, from: Option<&str>) -> String {
    let dataset = to.split('@').next().unwrap_or(to);
    match from {
        Some(from) => format!("{to} since {}", from.strip_prefix(dataset).unwrap_or(from)),
        None => format!("{to}, full"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_told_in_words() {
        assert_eq!(words("tank/a@s", None), "tank/a@s, full");
        assert_eq!(words("tank/a@s", Some("tank/a@r")), "tank/a@s since @r");
        assert_eq!(words("tank/a@s", Some("tank/a#r")), "tank/a@s since #r");
        assert_eq!(words("tank/clone@s", Some("tank/a@r")), "tank/clone@s since tank/a@r");
    }
}
