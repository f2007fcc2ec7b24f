//! The HTTP interface of `weir serve`, on its Unix socket and over TCP.
//!
//! ```text
//!   tcp, socket ─> outer (host, headers) ─> route ─> guard (caller, role, CSRF, audit) ─> handler ─> House, Commands, Jobs, Accounts
//!                                             └ no route ─> the web page
//! ```
//!
//! Invariants:
//!   * every route is a row of the table of operations, and every row has a handler; a test checks
//!     this
//!   * changes of pools are verbs of `admin`, as for the commands that people type; reads use the
//!     newest synced view

mod activity;
mod alerts;
mod caller;
mod columns;
mod datasets;
mod guard;
mod invoke;
mod names;
mod operations;
mod people;
mod pictures;
mod pools;
mod reply;
mod shares;
mod snapshots;
mod statistics;
mod streams;
mod system;
mod tree;
mod worksheets;

pub use caller::Caller;

use crate::service::Service;
use api::Method;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use axum::routing::{MethodFilter, MethodRouter, on};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum size of a request.
const REQUEST_BYTES: usize = 1 << 20;

/// The handler of an operation.
fn handler(id: &str, filter: MethodFilter) -> Option<MethodRouter<Arc<Service>>> {
    Some(match id {
        "getHealth" => on(filter, system::healthz),
        "getReadiness" => on(filter, system::readyz),
        "getMetrics" => on(filter, system::metrics),
        "getVersion" => on(filter, system::version),
        "getSystemHealth" => on(filter, system::system_health),
        "getSystem" => on(filter, system::system),
        "listSettings" => on(filter, system::settings),
        "changeSettings" => on(filter, system::change_settings),
        "reloadSettings" => on(filter, system::reload_settings),
        "getSetup" => on(filter, people::setup_state),
        "setUp" => on(filter, people::set_up),
        "logIn" => on(filter, people::log_in),
        "getSession" => on(filter, people::session),
        "logOut" => on(filter, people::log_out),
        "changePassword" => on(filter, people::change_password),
        "listUsers" => on(filter, people::users),
        "createUser" => on(filter, people::create_user),
        "changeUser" => on(filter, people::change_user),
        "deleteUser" => on(filter, people::delete_user),
        "listTokens" => on(filter, people::tokens),
        "createToken" => on(filter, people::create_token),
        "deleteToken" => on(filter, people::delete_token),
        "listAudit" => on(filter, activity::audit),
        "listPools" => on(filter, pools::list),
        "createPool" => on(filter, pools::create),
        "listImportablePools" => on(filter, pools::importable),
        "importPool" => on(filter, pools::import),
        "getPool" => on(filter, pools::get),
        "listPoolProperties" => on(filter, pools::properties),
        "setPoolProperties" => on(filter, pools::set_properties),
        "exportPool" => on(filter, pools::export),
        "destroyPool" => on(filter, pools::destroy),
        "syncPool" => on(filter, pools::sync),
        "clearPool" => on(filter, pools::clear),
        "listDatasets" => on(filter, datasets::list),
        "createDataset" => on(filter, datasets::create),
        "getDataset" => on(filter, datasets::get),
        "setDatasetProperties" => on(filter, datasets::set_properties),
        "renameDataset" => on(filter, datasets::rename),
        "destroyDataset" => on(filter, snapshots::destroy),
        "previewDestroy" => on(filter, snapshots::preview),
        "createSnapshots" => on(filter, snapshots::create),
        "rollBack" => on(filter, snapshots::roll_back),
        "cloneSnapshot" => on(filter, snapshots::clone),
        "promoteClone" => on(filter, snapshots::promote),
        "createBookmark" => on(filter, snapshots::bookmark),
        "listHolds" => on(filter, snapshots::holds),
        "holdSnapshot" => on(filter, snapshots::hold),
        "releaseSnapshot" => on(filter, snapshots::release),
        "loadKey" => on(filter, datasets::load_key),
        "unloadKey" => on(filter, datasets::unload_key),
        "listPropertyDefinitions" => on(filter, datasets::definitions),
        "listShares" => on(filter, shares::list),
        "setShare" => on(filter, shares::set),
        "listClients" => on(filter, shares::clients),
        "listJobs" => on(filter, activity::jobs),
        "startJob" => on(filter, activity::start_job),
        "getJob" => on(filter, activity::job),
        "cancelJob" => on(filter, activity::cancel_job),
        "listEvents" => on(filter, activity::events),
        "streamEvents" => on(filter, activity::stream),
        "listStatistics" => on(filter, statistics::list),
        "listCounted" => on(filter, statistics::datasets),
        "countStatistic" => on(filter, statistics::count),
        "changeCounted" => on(filter, statistics::change),
        "deleteCounted" => on(filter, statistics::delete),
        "pruneCounted" => on(filter, statistics::prune),
        "queryStatistic" => on(filter, statistics::query),
        "streamStatistics" => on(filter, columns::stream),
        "listOperations" => on(filter, operations::list),
        "explainStatistic" => on(filter, statistics::explain),
        "listWorksheets" => on(filter, worksheets::list),
        "createWorksheet" => on(filter, worksheets::create),
        "getWorksheet" => on(filter, worksheets::get),
        "saveWorksheet" => on(filter, worksheets::save),
        "deleteWorksheet" => on(filter, worksheets::delete),
        "drawStatistic" => on(filter, pictures::picture),
        "exportStatistic" => on(filter, pictures::export),
        "listAlerts" => on(filter, alerts::list),
        "createAlert" => on(filter, alerts::create),
        "getAlert" => on(filter, alerts::get),
        "replaceAlert" => on(filter, alerts::replace),
        "deleteAlert" => on(filter, alerts::delete),
        "runCommand" => on(filter, activity::command),
        "answerCommand" => on(filter, activity::answer),
        "writeCommandInput" => on(filter, activity::bytes),
        "readCommandOutput" => on(filter, activity::output),
        _ => return None,
    })
}

/// Routes of the whole interface and the page.
pub fn router(service: &Arc<Service>) -> Router {
    let mut paths: BTreeMap<&str, MethodRouter<Arc<Service>>> = BTreeMap::new();
    for operation in api::operations() {
        let filter = match operation.method {
            Method::Get => MethodFilter::GET,
            Method::Post => MethodFilter::POST,
            Method::Put => MethodFilter::PUT,
            Method::Patch => MethodFilter::PATCH,
            Method::Delete => MethodFilter::DELETE,
        };
        let Some(handler) = handler(operation.id, filter) else { continue };
        let there = paths.remove(operation.path).unwrap_or_default();
        paths.insert(operation.path, there.merge(handler));
    }
    let mut router = Router::new();
    for (path, methods) in paths {
        router = router.route(path, methods.fallback(reply::unknown));
    }
    router
        .route_layer(middleware::from_fn_with_state(service.clone(), guard::guard))
        .route("/v1/{*rest}", axum::routing::any(reply::unknown))
        .fallback(crate::page::page)
        .layer(DefaultBodyLimit::max(REQUEST_BYTES))
        .layer(middleware::from_fn_with_state(service.clone(), guard::outer))
        .with_state(service.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_a_handler() {
        for operation in api::operations() {
            assert!(handler(operation.id, MethodFilter::GET).is_some(), "{}", operation.id);
        }
    }
}
