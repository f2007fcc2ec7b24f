//! `zpool reguid`: gives a pool a new guid.

use super::{imported, record};
use crate::import::load_guid;
use crate::state::Imported;
use crate::verbs::line::line;
use crate::verbs::{Invocation, Kind, Reason, Refusal};
use pool::status::VdevState;

/// A pool to give a new guid.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReguidRequest {
    pub pool: String,
    /// `None`: a random one.
    pub guid: Option<u64>,
}

impl ReguidRequest {
    /// The request as a command line, for histories and logs.
    pub fn command_line(&self) -> String {
        let guid: Vec<_> = self.guid.iter().map(|guid| ("-g", guid.to_string())).collect();
        line("zpool reguid", &[], &guid, [&*self.pool])
    }
}

/// Exit code of the command if the pool refuses: -1 of a C function.
const REFUSED: u8 = 255;

/// Gives the pool a new guid. Refused if a device of the pool is missing, which would then belong
/// to the old guid, and if a pool that is imported here has that guid already.
///
/// Facts: zpool_do_reguid (cmd/zpool/zpool_main.c), spa_change_guid (module/zfs/spa.c).
pub fn run(invocation: &Invocation<'_>, request: &ReguidRequest) -> Result<(), Refusal> {
    let name = &request.pool;
    let record = record(invocation, name)?;
    let refuse = |reason: Reason| reason.refuse(&format!("cannot reguid '{name}'")).with_code(REFUSED);
    let guid = match request.guid {
        None => load_guid(),
        Some(0) => return Err(refuse(Reason::new(Kind::Invalid, "invalid argument for this pool operation"))),
        Some(guid) if imported(invocation)?.iter().any(|pool| pool.guid == guid) => {
            return Err(refuse(Reason::new(Kind::Conflict, "pool already exists")));
        }
        Some(guid) => guid,
    };
    let changed = invocation.change(&record, |pool| {
        let before = pool.writer().pool()?;
        if before.status()?.root.state != VdevState::Healthy {
            return Err(Reason::new(Kind::Failed, "one or more devices is currently unavailable"));
        }
        let before = before.guid();
        pool.writer().set_guid(guid)?;
        Ok(pool.writer().task(move |cx| cx.history("guid change", None, &format!("old={before} new={guid}")))?)
    });
    changed.map_err(refuse)?;
    let rename = |pools: &mut Vec<Imported>| {
        pools.iter_mut().filter(|p| p.name == *name && p.guid == record.guid).for_each(|p| p.guid = guid);
    };
    invocation.state.change(rename).map_err(|e| Refusal::new(Kind::Failed, format!("{e:#}")))?;
    if let Some(house) = &invocation.house {
        house.reimported(record.guid, Imported { guid, ..record.clone() });
    }
    Ok(())
}
