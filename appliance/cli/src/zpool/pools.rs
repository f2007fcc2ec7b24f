//! Opens the imported pools that a verb operates on.

use crate::context::{Context, Failure};
use admin::OwnedPool;
use admin::house::{facts, request};
use admin::state::Imported;
use admin::view::PoolView;
use pool::Pool;
use std::sync::Arc;

/// The pools that a verb operates on.
pub struct Selection {
    /// The pools: sorted by name if all are selected, otherwise in the order of the arguments.
    pub views: Vec<PoolView>,
    /// The exit code: 1 if a named pool is not imported or cannot be opened.
    pub code: u8,
}

/// The imported pools with these names, or all of them. Prints an error for each name that is not
/// imported; the second part is the exit code.
pub fn records(cx: &mut Context<'_>, names: &[String]) -> Result<(Vec<Imported>, u8), Failure> {
    let all = cx.state.pools().map_err(|e| Failure::failed(format!("{e:#}")))?;
    if names.is_empty() {
        return Ok((all, 0));
    }
    let (mut found, mut code) = (Vec::new(), 0);
    for name in names {
        match all.iter().find(|p| p.name == *name) {
            Some(record) => found.push(record.clone()),
            None => {
                cx.complain(&format!("cannot open '{name}': no such pool"));
                code = 1;
            }
        }
    }
    Ok((found, code))
}

/// The open pool in this process. `None`: this process does not own the pool, so commands open it
/// themselves.
pub fn owned(cx: &Context<'_>, record: &Imported) -> Result<Option<Arc<OwnedPool>>, anyhow::Error> {
    match &cx.owner {
        Some(owner) if owner.house.owns(record.guid) => owner.house.import(record).map(Some),
        _ => Ok(None),
    }
}

/// Opens an imported pool for reading, in the state of the last synced txg.
pub fn open(cx: &Context<'_>, record: &Imported) -> Result<Arc<Pool>, Failure> {
    let pool = owned(cx, record).and_then(|owned| match owned {
        Some(owned) => owned.pool(),
        None => admin::import::open(&request(record)),
    });
    pool.map_err(|e| Failure::failed(format!("cannot open '{}': {e:#}", record.name)))
}

/// Opens an imported pool for reading after a sync: the result includes changes that commands left
/// for the next txg.
pub fn open_synced(cx: &Context<'_>, record: &Imported) -> Result<Arc<Pool>, Failure> {
    let cannot = |e: anyhow::Error| Failure::failed(format!("cannot open '{}': {e:#}", record.name));
    if let Some(owned) = owned(cx, record).map_err(cannot)?
        && let Some(pool) = owned.writable()
        // A pool whose writes fail is shown as it is.
        && pool.writer().failure().is_none()
    {
        pool.writer().sync().map_err(|e| cannot(e.into()))?;
    }
    open(cx, record)
}

/// The status and properties of the imported pools with these names, or of all of them.
pub fn views(cx: &mut Context<'_>, names: &[String]) -> Result<Selection, Failure> {
    let (records, mut code) = records(cx, names)?;
    let mut views = Vec::new();
    for record in &records {
        let view = match &cx.owner {
            Some(owner) if owner.house.owns(record.guid) => {
                // If the devices do not answer in time, show what is known: the other pools must
                // not wait.
                owner.house.import_in_time(record).and_then(|owned| owned.view())
            }
            _ => admin::import::open(&request(record)).and_then(|pool| admin::view::of_imported(&pool, &facts(record))),
        };
        let view = view.map_err(|e| Failure::failed(format!("cannot open '{}': {e:#}", record.name)));
        if let Some(silence) = view.as_ref().ok().and_then(PoolView::silence) {
            cx.complain(&format!("{}: {silence}", record.name));
        }
        match view {
            Ok(view) => views.push(view),
            Err(Failure::Failed(message)) => {
                cx.complain(&message);
                code = 1;
            }
            Err(other) => return Err(other),
        }
    }
    Ok(Selection { views, code })
}
