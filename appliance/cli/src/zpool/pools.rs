//! The imported pools that a verb is asked about, opened.

use crate::context::{Context, Failure};
use crate::state::Imported;
use admin::import::OpenRequest;
use admin::view::{ImportFacts, PoolView};
use pool::Pool;
use std::sync::Arc;

/// What a verb is asked about.
pub struct Selection {
    /// The pools, by name when all are meant, else in the order of the arguments.
    pub views: Vec<PoolView>,
    /// 1 when one of those named is not imported or cannot be opened.
    pub code: u8,
}

/// How to open an imported pool.
pub fn request(record: &Imported) -> OpenRequest {
    OpenRequest {
        guid: record.guid,
        places: record.places.clone(),
        txg: record.txg,
        rewind: record.rewind,
        name: Some(record.name.clone()),
    }
}

/// What the import adds to the pool.
pub fn facts(record: &Imported) -> ImportFacts {
    ImportFacts {
        name: record.name.clone(),
        load_guid: record.load_guid,
        readonly: record.readonly,
        altroot: record.altroot.clone(),
        cachefile: record.cachefile.clone(),
    }
}

/// The imported pools of these names, or all of them. Says which are not there.
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

/// Opens an imported pool.
pub fn open(record: &Imported) -> Result<Arc<Pool>, Failure> {
    admin::import::open(&request(record)).map_err(|e| Failure::failed(format!("cannot open '{}': {e:#}", record.name)))
}

/// The imported pools of these names, or all of them, with status and properties.
pub fn views(cx: &mut Context<'_>, names: &[String]) -> Result<Selection, Failure> {
    let (records, mut code) = records(cx, names)?;
    let mut views = Vec::new();
    for record in &records {
        let view = open(record).and_then(|pool| {
            admin::view::of_imported(&pool, &facts(record))
                .map_err(|e| Failure::failed(format!("cannot open '{}': {e:#}", record.name)))
        });
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
