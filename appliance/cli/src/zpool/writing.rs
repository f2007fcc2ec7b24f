//! What verbs that change a pool have in common: opening it for writing, and saying why that or the change was not possible.
//!
//! Invariants:
//!   * a pool is open for writing as long as one verb takes, and is synced before the verb ends

use super::pools;
use crate::context::{Context, Failure};
use crate::state::Imported;
use admin::new_key::Material;
use admin::write::{NotWritable, WritablePool};
use anyhow::{Context as _, Result};
use dataset::{Error, Refusal};
use std::io::{BufRead, IsTerminal};

/// A command as the pool's history keeps it.
pub fn command_line(verb: &str, args: &[String]) -> String {
    std::iter::once(verb).chain(args.iter().map(String::as_str)).collect::<Vec<_>>().join(" ")
}

/// Why a change was not possible, in OpenZFS's words where it has some.
pub fn reason(error: &anyhow::Error) -> String {
    match error.downcast_ref::<Error>() {
        Some(error) => why(error),
        None => format!("{error:#}"),
    }
}

/// The same for an error of the engine.
pub fn why(error: &Error) -> String {
    match error {
        Error::Refused { why: Refusal::NoSpace, .. } => "out of space".to_owned(),
        Error::Refused { why: Refusal::Exists, .. } => "dataset already exists".to_owned(),
        Error::Refused { why: Refusal::Busy, .. } => "pool or dataset is busy".to_owned(),
        Error::Refused { why: Refusal::ReadOnly, .. } => "pool is read-only".to_owned(),
        Error::Refused { why: Refusal::NameTooLong, .. } => "name is too long".to_owned(),
        Error::Refused { why: Refusal::CrossDevice, .. } => "datasets must be within same pool".to_owned(),
        Error::Refused { why: Refusal::Suspended, place } => format!("pool I/O is currently suspended ({place})"),
        Error::NotFound { what, .. } if what == "the parent dataset" => "parent does not exist".to_owned(),
        Error::NotFound { .. } => "dataset does not exist".to_owned(),
        Error::Invalid { what, .. } => what.clone(),
        Error::Unsupported { what, .. } => format!("unsupported: {what}"),
        Error::KeyUnavailable { .. } => "encryption key not loaded".to_owned(),
        error => error.to_string(),
    }
}

/// The pool imported under that name; says that there is none.
pub fn record(cx: &Context<'_>, name: &str) -> Result<Imported, Failure> {
    let found = cx.state.pool(name).map_err(|e| Failure::failed(format!("{e:#}")))?;
    found.ok_or_else(|| Failure::failed(format!("cannot open '{name}': no such pool")))
}

/// Opens an imported pool for writing, with the keys that are loaded. What cannot be is told behind `cannot`.
pub fn open(cx: &Context<'_>, record: &Imported, cannot: &str) -> Result<WritablePool, Failure> {
    if record.readonly {
        return Err(Failure::failed(format!("{cannot}: pool is read-only")));
    }
    let failed = |why: String| Failure::failed(format!("{cannot}: {why}"));
    let pool = admin::write::open(&pools::request(record)).map_err(|e| failed(reason(&e)))?;
    let datasets = pool.live.synced().map_err(|e| failed(why(&e)))?;
    crate::zfs::keys::restore(&cx.state, record, &datasets, &pool.keys);
    Ok(pool)
}

/// Opens the pool, changes it, notes the command in its history, and closes it again. After a change that failed nothing is
/// noted. What cannot be done is told behind `cannot`.
pub fn change<R>(
    cx: &Context<'_>,
    record: &Imported,
    cannot: &str,
    command: &str,
    change: impl FnOnce(&WritablePool) -> Result<R>,
) -> Result<R, Failure> {
    let pool = open(cx, record, cannot)?;
    let result = change(&pool).and_then(|result| {
        pool.log_command(command)?;
        Ok(result)
    });
    let closed = pool.close();
    let failed = |e: anyhow::Error| Failure::failed(format!("{cannot}: {}", reason(&e)));
    let result = result.map_err(failed)?;
    closed.map_err(failed)?;
    Ok(result)
}

/// Whether another process has the pool, told as a message.
pub fn is_in_use(failure: &anyhow::Error) -> bool {
    matches!(failure.downcast_ref::<NotWritable>(), Some(NotWritable::InUse(_)))
}

/// Asks for a new key of that format, twice; input that is no terminal is read to the end of its first line.
pub fn ask(format: &str) -> Result<Material> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        let mut key = Vec::new();
        if format == "raw" {
            std::io::Read::read_to_end(&mut std::io::Read::take(stdin.lock(), 33), &mut key)?;
        } else {
            stdin.lock().read_until(b'\n', &mut key)?;
            while key.last().is_some_and(|b| matches!(b, b'\n' | b'\r')) {
                key.pop();
            }
        }
        return Ok(Material::new(key));
    }
    let kind = match format {
        "raw" => anyhow::bail!("Cannot enter a raw key at a terminal: give keylocation=file:///path"),
        "hex" => "hex key",
        _ => "passphrase",
    };
    let typed = rpassword::prompt_password(format!("Enter new {kind}:")).context("cannot ask for the key")?;
    let again = rpassword::prompt_password(format!("Re-enter new {kind}:")).context("cannot ask for the key")?;
    anyhow::ensure!(typed == again, "Provided keys do not match.");
    Ok(Material::new(typed.into_bytes()))
}

/// What the operating system says, without the number.
pub fn os_text(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}
