//! Common parts of verbs that change a pool: opening it for writing, and error messages.
//!
//! Invariants:
//!   * the changes of a verb are on disk before it ends; its record in the pool's history may reach
//!     the disk one txg later
//!   * a pool that this process does not own is open for writing for the duration of one verb

use crate::client::Client;
use crate::context::{Context, Failure};
use admin::new_key::Material;
use admin::state::Imported;
use admin::verbs::{PoolLease, Reason};
use admin::write::WritablePool;
use anyhow::{Context as _, Result};
use api::Wanted;
use errors::Error;

/// Why a change failed, in OpenZFS's words where it has some.
pub fn reason(error: &anyhow::Error) -> String {
    Reason::from(error).text
}

/// [`reason`] for an error of the engine.
pub fn why(error: &Error) -> String {
    Reason::from(error).text
}

/// The import record of the pool with that name. Fails if no such pool is imported.
pub fn record(cx: &Context<'_>, name: &str) -> Result<Imported, Failure> {
    let found = cx.state.pool(name).map_err(|e| Failure::failed(format!("{e:#}")))?;
    found.ok_or_else(|| Failure::failed(format!("cannot open '{name}': no such pool")))
}

/// Opens an imported pool for writing, with the loaded keys. Error messages begin with `cannot`.
pub fn open(cx: &Context<'_>, record: &Imported, cannot: &str) -> Result<PoolLease, Failure> {
    cx.invocation(String::new()).open(record).map_err(|reason| reason.refuse(cannot).into())
}

/// Opens the pool, changes it, notes the command in its history, and closes it again. A failed
/// change is not noted. Error messages begin with `cannot`.
pub fn change<R>(
    cx: &Context<'_>,
    record: &Imported,
    cannot: &str,
    command: &str,
    change: impl FnOnce(&WritablePool) -> Result<R>,
) -> Result<R, Failure> {
    let changed = cx.invocation(command.to_owned()).change(record, |pool| Ok(change(pool)?));
    changed.map_err(|reason| reason.refuse(cannot).into())
}

/// Asks twice for a new key of that format. Input that is not a terminal is read to the end of its
/// first line, for a raw key up to 33 bytes.
pub fn ask(client: &dyn Client, format: &str) -> Result<Material> {
    if !client.input_is_terminal() {
        let wanted = if format == "raw" { Wanted::Bytes(33) } else { Wanted::Line };
        return Ok(Material::new(client.ask(wanted)?));
    }
    let kind = match format {
        "raw" => anyhow::bail!("Cannot enter a raw key at a terminal: give keylocation=file:///path"),
        "hex" => "hex key",
        _ => "passphrase",
    };
    let typed = client.secret(&format!("Enter new {kind}:")).context("cannot prompt for the key")?;
    let again = client.secret(&format!("Re-enter new {kind}:")).context("cannot prompt for the key")?;
    anyhow::ensure!(typed == again, "Provided keys do not match.");
    Ok(Material::new(typed.into_bytes()))
}
