//! Common parts of verbs that change a pool: opening it for writing, and error messages.
//!
//! Invariants:
//!   * the changes of a verb are on disk before it ends; its record in the pool's history may reach
//!     the disk one txg later
//!   * a pool that this process does not own is open for writing for the duration of one verb

use super::pools;
use crate::client::Client;
use crate::context::{Context, Failure};
use crate::state::Imported;
use admin::house::Leave;
use admin::new_key::Material;
use admin::write::WritablePool;
pub use admin::write::is_in_use;
use anyhow::{Context as _, Result};
use api::Wanted;
use dataset::{Error, Refusal};
use std::path::PathBuf;
use std::sync::Arc;

/// A command line as the pool's history stores it.
pub fn command_line(verb: &str, args: &[String]) -> String {
    std::iter::once(verb).chain(args.iter().map(String::as_str)).collect::<Vec<_>>().join(" ")
}

/// Why a change failed, in OpenZFS's words where it has some.
pub fn reason(error: &anyhow::Error) -> String {
    match error.downcast_ref::<Error>() {
        Some(error) => why(error),
        None => format!("{error:#}"),
    }
}

/// [`reason`] for an error of the engine.
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

/// The import record of the pool with that name. Fails if no such pool is imported.
pub fn record(cx: &Context<'_>, name: &str) -> Result<Imported, Failure> {
    let found = cx.state.pool(name).map_err(|e| Failure::failed(format!("{e:#}")))?;
    found.ok_or_else(|| Failure::failed(format!("cannot open '{name}': no such pool")))
}

/// A pool that is open for writing, for one verb.
pub struct Lent {
    pool: Arc<WritablePool>,
    /// This process owns the pool: it stays open after the verb.
    stays: bool,
}

impl std::ops::Deref for Lent {
    type Target = WritablePool;

    fn deref(&self) -> &WritablePool {
        &self.pool
    }
}

impl Lent {
    /// Whether this process owns the pool and keeps it open after the verb.
    pub fn stays(&self) -> bool {
        self.stays
    }

    /// Closes the pool if this process opened it for the verb. A pool that stays open needs no
    /// sync: the changes have waited for their txg.
    pub fn finish(self) -> Result<()> {
        if self.stays { Ok(()) } else { self.pool.close() }
    }

    /// Syncs all changes to disk, and closes the pool if this process opened it for the verb.
    pub fn sync(self) -> Result<()> {
        if self.stays { Ok(self.pool.writer().sync()?) } else { self.pool.close() }
    }

    /// Closes, exports or destroys the pool, whether this process owns it or not.
    pub fn leave(self, cx: &Context<'_>, record: &Imported, how: Leave) -> Result<()> {
        match (&cx.owner, how) {
            (Some(owner), _) if self.stays => owner.house.release(record.guid, how),
            (_, Leave::Close) => self.pool.close(),
            (_, Leave::Export) => self.pool.export(),
            (_, Leave::Destroy) => self.pool.destroy(),
        }
    }
}

/// Opens an imported pool for writing, with the loaded keys. Error messages begin with `cannot`.
pub fn open(cx: &Context<'_>, record: &Imported, cannot: &str) -> Result<Lent, Failure> {
    if record.readonly {
        return Err(Failure::failed(format!("{cannot}: pool is read-only")));
    }
    let failed = |why: String| Failure::failed(format!("{cannot}: {why}"));
    if let Some(owned) = pools::owned(cx, record).map_err(|e| failed(reason(&e)))? {
        return match owned.writable() {
            Some(pool) => Ok(Lent { pool: pool.clone(), stays: true }),
            None => Err(failed(owned.why_read_only().unwrap_or("pool is read-only").to_owned())),
        };
    }
    let pool = admin::write::open(&pools::request(record)).map_err(|e| failed(reason(&e)))?;
    let datasets = pool.live.synced().map_err(|e| failed(why(&e)))?;
    crate::zfs::keys::restore(&cx.state, record, &datasets, &pool.keys);
    Ok(Lent { pool: Arc::new(pool), stays: false })
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
    let pool = open(cx, record, cannot)?;
    let failed = |e: anyhow::Error| Failure::failed(format!("{cannot}: {}", reason(&e)));
    change_opened(pool, command, change).map_err(failed)
}

/// [`change`] for verbs with exit codes of their own.
pub fn change_or<R>(
    cx: &Context<'_>,
    record: &Imported,
    command: &str,
    change: impl FnOnce(&WritablePool) -> Result<R>,
) -> Result<R> {
    let pool = open(cx, record, "").map_err(|failure| match failure {
        Failure::Failed(why) => anyhow::anyhow!(why.trim_start_matches(": ").to_owned()),
        _ => anyhow::anyhow!("pool cannot be opened"),
    })?;
    change_opened(pool, command, change)
}

fn change_opened<R>(pool: Lent, command: &str, change: impl FnOnce(&WritablePool) -> Result<R>) -> Result<R> {
    let result = change(&pool).and_then(|result| {
        pool.note_command(command)?;
        Ok(result)
    });
    let closed = pool.finish();
    let result = result?;
    closed?;
    Ok(result)
}

/// Changes the list of paths where the devices of a pool are searched for.
pub fn change_places(
    cx: &Context<'_>,
    record: &Imported,
    cannot: &str,
    change: &dyn Fn(&mut Vec<PathBuf>),
) -> Result<(), Failure> {
    let all = |pools: &mut Vec<Imported>| {
        pools.iter_mut().filter(|p| p.guid == record.guid).for_each(|p| change(&mut p.places));
    };
    cx.state.change(all).map_err(|e| Failure::failed(format!("{cannot}: {e:#}")))?;
    if let Some(owner) = &cx.owner {
        let mut record = record.clone();
        change(&mut record.places);
        owner.house.reimported(record.guid, record);
    }
    Ok(())
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

/// The operating system's error text, without the number.
pub fn os_text(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}
