//! `zpool checkpoint`.
//!
//! Discarding a checkpoint frees its blocks step by step. A process that owns the pool does it in
//! the background. Without one, the verb keeps the pool open until all blocks are freed; if it is
//! interrupted, the next process that opens the pool continues.

use super::record;
use crate::verbs::line::line;
use crate::verbs::{Invocation, Reason, Refusal};

/// A checkpoint to create or to discard.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckpointRequest {
    pub pool: String,
    /// Discard the checkpoint (`-d`); otherwise, take one.
    pub discard: bool,
}

impl CheckpointRequest {
    /// The request as a command line, for histories and logs.
    pub fn command_line(&self) -> String {
        line("zpool checkpoint", &[(self.discard, "-d")], &[], [&*self.pool])
    }
}

/// Creates or discards the checkpoint. Returns whether blocks may still be being freed in the
/// process that owns the pool.
pub fn run(invocation: &Invocation<'_>, request: &CheckpointRequest) -> Result<bool, Refusal> {
    let CheckpointRequest { pool: name, discard } = request;
    let record = record(invocation, name).map_err(|refusal| match name.contains('/') {
        true => refusal.after(vec![
            "'zpool checkpoint' doesn't work on datasets. To save the state of a dataset from a specific point in time \
             please use 'zfs snapshot'"
                .to_owned(),
        ]),
        false => refusal,
    })?;
    let cannot = match discard {
        false => format!("cannot checkpoint '{name}'"),
        true => format!("cannot discard checkpoint in '{name}'"),
    };
    let pool = invocation.open(&record).map_err(|reason| reason.refuse(&cannot))?;
    let writer = pool.writer();
    let result = if *discard { writer.discard_checkpoint() } else { writer.checkpoint() };
    let noted = result.map_err(Into::into).and_then(|()| pool.note_command(&invocation.command));
    let stays = pool.stays();
    let done = match noted {
        Ok(()) if *discard && !stays => writer.finish_discarding(&*invocation.is_gone).map_err(Into::into),
        other => other,
    };
    let closed = pool.finish();
    done.and(closed).map_err(|e| Reason::from(e).refuse(&cannot))?;
    Ok(*discard && stays)
}
