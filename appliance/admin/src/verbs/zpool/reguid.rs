//! `zpool reguid`: gives a pool a new guid.

use super::record;
use crate::import::load_guid;
use crate::state::Imported;
use crate::verbs::line::line;
use crate::verbs::{Invocation, Kind, Refusal};

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

/// Gives the pool a new guid.
pub fn run(invocation: &Invocation<'_>, request: &ReguidRequest) -> Result<(), Refusal> {
    let name = &request.pool;
    let guid = request.guid.unwrap_or_else(load_guid);
    if matches!(guid, 0 | u64::MAX) {
        return Err(Refusal::usage(Kind::Invalid, format!("invalid GUID: {guid}")));
    }
    let record = record(invocation, name)?;
    let changed = invocation.change(&record, |pool| {
        let before = pool.writer().pool()?.guid();
        pool.writer().set_guid(guid)?;
        Ok(pool.writer().task(move |cx| cx.history("guid change", None, &format!("old={before} new={guid}")))?)
    });
    changed.map_err(|reason| reason.refuse(&format!("cannot reguid '{name}'")))?;
    let rename = |pools: &mut Vec<Imported>| {
        pools.iter_mut().filter(|p| p.name == *name && p.guid == record.guid).for_each(|p| p.guid = guid);
    };
    invocation.state.change(rename).map_err(|e| Refusal::new(Kind::Failed, format!("{e:#}")))?;
    if let Some(house) = &invocation.house {
        house.reimported(record.guid, Imported { guid, ..record.clone() });
    }
    Ok(())
}
