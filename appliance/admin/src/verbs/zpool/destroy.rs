//! `zpool destroy`: unmounts a pool, marks it as destroyed, and forgets it.
//!
//! Nothing is written to a pool that was imported read-only: it is only forgotten, as in OpenZFS
//! (spa_export_common in module/zfs/spa.c).

use super::export::{close_unwritten, forgetting};
use super::record;
use crate::cache_file;
use crate::house::Leave;
use crate::state::Imported;
use crate::verbs::line::line;
use crate::verbs::{Invocation, Kind, Reason, Refusal};

/// Which pool to destroy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DestroyRequest {
    pub pool: String,
    /// `-f`, which changes nothing: as with OpenZFS on Linux, file systems in use stay mounted.
    pub force: bool,
}

impl DestroyRequest {
    /// The request as a command line, for histories and logs.
    pub fn command_line(&self) -> String {
        line("zpool destroy", &[(self.force, "-f")], &[], [&*self.pool])
    }
}

/// Destroys the pool. Refused if a volume or a file system is in use.
pub fn run(invocation: &Invocation<'_>, request: &DestroyRequest) -> Result<(), Refusal> {
    let name = &request.pool;
    let record = record(invocation, name)?;
    let cannot = format!("cannot destroy '{name}'");
    if invocation.has_used_volume(&record) {
        return Err(Reason::new(Kind::Conflict, "pool is busy").refuse(&cannot));
    }
    let mut remarks = Vec::new();
    let left = forgetting(invocation, &record, "destroy", &mut remarks, |open, _| {
        // Held until the end: it is open when it is destroyed.
        let _open = open.map_err(|e| Reason::from(e).refuse(&cannot))?;
        unmounted(invocation, &record)?;
        if record.readonly {
            close_unwritten(invocation, &record);
            return Ok(());
        }
        destroyed(invocation, &record).map_err(|reason| reason.refuse(&cannot))
    });
    left.map_err(|refusal| refusal.after(remarks))?;
    cache_file::remove(&record);
    Ok(())
}

fn unmounted(invocation: &Invocation<'_>, record: &Imported) -> Result<(), Refusal> {
    invocation.unmount_all(record, false).map_err(|error| {
        let mut refusal = Refusal::from(error);
        refusal.message += &format!("\ncould not destroy '{}': could not unmount datasets", record.name);
        refusal
    })
}

fn destroyed(invocation: &Invocation<'_>, record: &Imported) -> Result<(), Reason> {
    let pool = invocation.open(record)?;
    pool.log_command(&invocation.command)?;
    Ok(pool.leave(invocation.house.as_deref(), record, Leave::Destroy)?)
}
