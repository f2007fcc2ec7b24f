//! `zfs load-key` and `zfs unload-key`.
//!
//! [`crate::kept_keys`] stores loaded keys for later commands and for the process that owns the
//! pool.

use crate::kept_keys;
use crate::keys::{Ask, Question};
use crate::new_key;
use crate::verbs::line::line;
use crate::verbs::lookup::Lookup;
use crate::verbs::tally::Tally;
use crate::verbs::{Found, Invocation, Kind, Reason, Refusal};
use anyhow::{Context as _, Result};
use dataset::property::{self, View};
use dataset::write::PBKDF2_ITERATIONS_MAX;
use dataset::{Dataset, Entry, KeyLocation, ListOptions};
use errors::{Error, Refusal as Denied};
use std::path::Path;

/// The largest key file that is read, in bytes.
const KEY_FILE_MAX: u64 = 4096;
/// Exit code of OpenZFS's commands when a key was not loaded or unloaded: -1 of a C function.
const REFUSED: u8 = 255;

/// Whose keys to load or unload.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeysRequest {
    /// Encryption roots; none means all of all pools (`-a`).
    pub datasets: Vec<String>,
    /// Encryption roots below too (`-r`).
    pub recursive: bool,
}

/// Operands and options of `zfs load-key`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadKeyRequest {
    pub keys: KeysRequest,
    /// Where the keys are, if not where the property `keylocation` says (`-L`).
    pub location: Option<String>,
    /// Only check them (`-n`).
    pub check_only: bool,
}

/// What was tried, and what was refused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeysOutcome {
    /// Keys that were to be loaded or unloaded.
    pub tried: usize,
    pub done: usize,
    /// Several datasets were concerned: OpenZFS then reports how many keys were.
    pub several: bool,
    pub refused: Option<Refusal>,
}

impl KeysRequest {
    fn words(&self) -> (Vec<(bool, &'static str)>, Vec<&str>) {
        let flags = vec![(self.datasets.is_empty(), "-a"), (self.recursive, "-r")];
        (flags, self.datasets.iter().map(String::as_str).collect())
    }

    /// The request to unload as a command line, for histories and logs.
    pub fn command_line(&self) -> String {
        let (flags, operands) = self.words();
        line("zfs unload-key", &flags, &[], operands)
    }

    fn several(&self) -> bool {
        self.datasets.is_empty() || self.recursive
    }
}

impl LoadKeyRequest {
    /// The request as a command line, for histories and logs.
    pub fn command_line(&self) -> String {
        let (mut flags, operands) = self.keys.words();
        flags.push((self.check_only, "-n"));
        let location: Vec<_> = self.location.iter().map(|location| ("-L", location.clone())).collect();
        line("zfs load-key", &flags, &location, operands)
    }
}

impl KeysOutcome {
    /// Refused, if any part was.
    pub fn into_result(self) -> Result<(), Refusal> {
        self.refused.map_or(Ok(()), Err)
    }
}

/// Loads keys. `ask` asks for those that are in no file.
pub fn load(invocation: &Invocation<'_>, request: &LoadKeyRequest, ask: &Ask<'_>) -> Result<KeysOutcome, Refusal> {
    let LoadKeyRequest { keys, location, check_only } = request;
    if let Some(location) = location.as_ref().filter(|l| KeyLocation::parse(l).is_none()) {
        return Err(Refusal::usage(Kind::Invalid, format!("invalid keylocation '{location}'")));
    }
    let is_wanted = |found: &Found| *check_only || !is_loaded(found);
    each(invocation, keys, &is_wanted, &|found| {
        load_one(invocation, found, location.as_deref(), *check_only, ask)
            .map_err(|reason| reason.refuse("Key load error"))
    })
}

/// Unloads keys, unless datasets that use them are mounted.
pub fn unload(invocation: &Invocation<'_>, request: &KeysRequest) -> Result<KeysOutcome, Refusal> {
    // A stored key is loaded again at the next start, even if it is no longer in memory.
    let is_wanted =
        |found: &Found| is_loaded(found) || kept_keys::has(&invocation.state, &found.pool.record, found.entry.name());
    each(invocation, request, &is_wanted, &|found| {
        unload_one(invocation, found).map_err(|reason| reason.refuse("Key unload error"))
    })
}

fn is_loaded(found: &Found) -> bool {
    found.entry.dataset().is_some_and(|dataset| found.pool.keys.is_available(dataset).unwrap_or(false))
}

/// `is_wanted` selects among several encryption roots; a dataset named on its own gets an error
/// instead.
fn each(
    invocation: &Invocation<'_>,
    request: &KeysRequest,
    is_wanted: &dyn Fn(&Found) -> bool,
    one: &dyn Fn(&Found) -> Result<(), Refusal>,
) -> Result<KeysOutcome, Refusal> {
    let several = request.several();
    let options = ListOptions { depth: if several { None } else { Some(0) }, ..ListOptions::heads() };
    let mut tally = Tally::default();
    let found = match Lookup::new(invocation).list(&request.datasets, &options, &mut tally) {
        Ok(found) => found,
        Err(refusal) => return Err(tally.abort(refusal)),
    };
    let mut outcome = KeysOutcome { several, ..KeysOutcome::default() };
    for found in found.iter().filter(|found| !several || (is_encryption_root(found) && is_wanted(found))) {
        outcome.tried += 1;
        match one(found) {
            Ok(()) => outcome.done += 1,
            Err(refusal) => tally.refuse(refusal.with_code(REFUSED)),
        }
    }
    outcome.refused = tally.finish().err().map(|refusal| match outcome.tried > outcome.done {
        true => refusal.with_code(REFUSED),
        false => refusal,
    });
    Ok(outcome)
}

fn is_encryption_root(found: &Found) -> bool {
    let root = found.entry.dataset().and_then(|d| d.encryption_root().ok().flatten());
    root.is_some_and(|root| root.name() == found.entry.name())
}

/// The dataset, if it is an encryption root: its key may be loaded or unloaded.
fn root<'a>(found: &'a Found, verb: &str) -> Result<&'a Dataset, Reason> {
    let name = found.entry.name();
    let none = || Reason::new(Kind::Invalid, format!("'{name}' is not encrypted."));
    let dataset = found.entry.dataset().ok_or_else(none)?;
    let root = dataset.encryption_root().map_err(|e| plain(&e))?.ok_or_else(none)?;
    match root.name() == name {
        true => Ok(dataset),
        false => {
            let why = format!("Keys must be {verb}ed for encryption root of '{name}' ({}).", root.name());
            Err(Reason::new(Kind::Invalid, why))
        }
    }
}

/// The engine's own words.
fn plain(error: &Error) -> Reason {
    Reason::new(Kind::of(error), error.to_string())
}

fn load_one(
    invocation: &Invocation<'_>,
    found: &Found,
    location: Option<&str>,
    check_only: bool,
    ask: &Ask<'_>,
) -> Result<(), Reason> {
    let (dataset, name, keys) = (root(found, "load")?, found.entry.name(), &found.pool.keys);
    require(invocation, found)?;
    if !check_only && keys.is_available(dataset).map_err(|e| plain(&e))? {
        return Err(Reason::new(Kind::Conflict, format!("Key already loaded for '{name}'.")));
    }
    check_iterations(invocation, dataset)?;
    let material = material(invocation, &found.entry, location, ask)?;
    let result = if check_only { keys.check(dataset, &material) } else { keys.load(dataset, &material) };
    match result {
        Ok(()) if check_only => Ok(()),
        Ok(()) => Ok(kept_keys::keep_new(&invocation.state, &found.pool.record, name, &material)?),
        Err(error) if error.is_incorrect_key() => {
            Err(Reason::new(Kind::Failed, format!("Incorrect key provided for '{name}'.")))
        }
        Err(error) => Err(plain(&error)),
    }
}

/// Others than the owner of the pools do not choose how long this process works: datasets that were
/// received raw come with any number of iterations.
fn check_iterations(invocation: &Invocation<'_>, dataset: &Dataset) -> Result<(), Reason> {
    let key = dataset.key_object().map_err(|e| plain(&e))?;
    match key.map(|key| key.pbkdf2_iterations) {
        Some(n) if n > PBKDF2_ITERATIONS_MAX && !invocation.caller.is_owner() => {
            let why = format!(
                "its pbkdf2iters is {n}; users other than the owner of the pools load keys with at most \
                 {PBKDF2_ITERATIONS_MAX}"
            );
            Err(Reason::new(Kind::Forbidden, why))
        }
        _ => Ok(()),
    }
}

fn require(invocation: &Invocation<'_>, found: &Found) -> Result<(), Reason> {
    let name = found.entry.name();
    let permitted = invocation.permit(&found.pool.record, |caller, tree| caller.require(tree, name, &["load-key"]));
    permitted.map_err(|reason| match reason.kind {
        Kind::Forbidden => Reason { text: "Permission denied.".to_owned(), ..reason },
        _ => reason,
    })
}

/// Reads the key from its location.
fn material(
    invocation: &Invocation<'_>,
    entry: &Entry,
    location: Option<&str>,
    ask: &Ask<'_>,
) -> Result<Vec<u8>, Reason> {
    let value = |name: &str| Ok::<_, anyhow::Error>(property::get(entry, name, &View::default())?.map(|p| p.value.raw));
    let format = value("keyformat")?.unwrap_or_default();
    let location = match location {
        Some(location) => location.to_owned(),
        None => value("keylocation")?.unwrap_or_else(|| "prompt".into()),
    };
    invocation.caller.check_key_location(Some(&location))?;
    Ok(read_key(invocation, entry, &format, &location, ask)?)
}

fn read_key(
    invocation: &Invocation<'_>,
    entry: &Entry,
    format: &str,
    location: &str,
    ask: &Ask<'_>,
) -> Result<Vec<u8>> {
    match KeyLocation::parse(location) {
        Some(KeyLocation::File(path)) => {
            let shown = || format!("Failed to open key material file '{location}'");
            let mut bytes = new_key::read(Path::new(&path), KEY_FILE_MAX).with_context(shown)?;
            if format != "raw"
                && let Some(end) = bytes.iter().position(|b| *b == b'\n')
            {
                bytes.truncate(end);
            }
            Ok(bytes)
        }
        Some(KeyLocation::Url(url)) => Ok(new_key::used(format, (invocation.fetch)(&url)?).to_vec()),
        _ => {
            let kind = match format {
                "raw" => "raw key",
                "hex" => "hex key",
                _ => "passphrase",
            };
            let prompt = format!("Enter {kind} for '{}':", entry.name());
            Ok(ask(&Question { prompt: &prompt, is_raw: format == "raw" })?)
        }
    }
}

fn unload_one(invocation: &Invocation<'_>, found: &Found) -> Result<(), Reason> {
    let (dataset, name) = (root(found, "unload")?, found.entry.name());
    require(invocation, found)?;
    forget_here(invocation, found, dataset)?;
    match kept_keys::drop_one(&invocation.state, &found.pool.record, name)? {
        true => Ok(()),
        false => Err(Reason::new(Kind::Conflict, format!("Key already unloaded for '{name}'."))),
    }
}

/// Unloads a key in this process, if it owns the pool, unless a dataset that uses it is in use.
fn forget_here(invocation: &Invocation<'_>, found: &Found, dataset: &Dataset) -> Result<(), Reason> {
    let (record, name) = (&found.pool.record, dataset.name());
    let busy = || Reason::new(Kind::Conflict, format!("'{name}' is busy."));
    let Some(pool) = invocation.owned(record)? else { return Ok(()) };
    let Some(writable) = pool.writable() else {
        return found.pool.keys.unload(dataset).map(drop).map_err(|e| plain(&e));
    };
    let mounts = invocation.mounts(record);
    // Clones have the key of their origin, wherever they are.
    let heads = found.pool.datasets.list(&[&record.name], &ListOptions::heads()).map_err(|e| plain(&e))?;
    let uses_key =
        |dataset: &&Dataset| dataset.encryption_root().is_ok_and(|root| root.is_some_and(|root| root.name() == name));
    let users: Vec<&Dataset> = heads.entries.iter().filter_map(Entry::dataset).filter(uses_key).collect();
    if users.iter().any(|user| mounts.as_ref().is_some_and(|mounts| mounts.is_mounted(user.name()))) {
        return Err(busy());
    }
    for user in users {
        let closed = writable.close_dataset(user.name());
        closed.map_err(|e| Reason::new(Reason::from(&e).kind, format!("{e:#}")))?;
    }
    match writable.live.unload_key(name) {
        Ok(_) => Ok(()),
        Err(Error::Refused { why: Denied::Busy, .. }) => Err(busy()),
        Err(error) => Err(plain(&error)),
    }
}
