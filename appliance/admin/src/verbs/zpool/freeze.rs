//! `zpool freeze`: keeps the state of a pool on disk, so that the next import replays intent logs.

use super::record;
use crate::verbs::line::line;
use crate::verbs::{Invocation, Kind, Reason, Refusal};

/// A pool to freeze.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FreezeRequest {
    pub pool: String,
}

impl FreezeRequest {
    /// The request as a command line, for logs.
    pub fn command_line(&self) -> String {
        line("zpool freeze", &[], &[], [&*self.pool])
    }
}

/// Freezes the pool until it is exported. Like OpenZFS's command, it is not in the history.
pub fn run(invocation: &Invocation<'_>, request: &FreezeRequest) -> Result<(), Refusal> {
    let record = record(invocation, &request.pool)?;
    let pool = invocation.open(&record).and_then(|pool| match pool.stays() {
        true => Ok(pool),
        false => {
            let why = "unsupported without 'weir serve', because no process keeps the pool open";
            Err(pool.finish().err().map_or_else(|| Reason::new(Kind::Unsupported, why), Reason::from))
        }
    });
    let frozen = pool.and_then(|pool| Ok(pool.writer().freeze()?));
    frozen.map_err(|reason| reason.refuse(&format!("cannot freeze '{}'", record.name)))
}
