//! `zfs set`, `zfs inherit`, `zfs change-key`: change properties and keys of datasets.

use super::datasets::{Pools, Types, Wanted};
use crate::context::{Context, Failure, Outcome};
use crate::getopt::Options;
use crate::zpool::writing::{self, change, command_line, why};
use admin::verbs::pool_of;
use admin::verbs::{Found, Refusal};
use admin::write::WritablePool;
use anyhow::{Context as _, Result, anyhow, bail, ensure};
use daemon::smb::SmbOptions;
use dataset::property::{self, parse_size};
use dataset::quota::Principal;
use dataset::write::{self, KeyChange, KeyFormat, NewKey};
use dataset::{Entry, View};
use serve::nfs::exports::ShareOptions;

const SET: Options = Options { short: "u", long: &[] };
const INHERIT: Options = Options { short: "rS", long: &[] };
const CHANGE_KEY: Options = Options { short: "lio:", long: &[] };
/// The exit code of libzfs for an invalid property.
const BAD_PROPERTY: u8 = 255;
/// The exit code of `zfs change-key` when nothing was changed: -1 in libzfs.
const KEY_NOT_CHANGED: u8 = 255;

fn open(cx: &mut Context<'_>, name: &str) -> Result<Option<Found>, Failure> {
    Pools::new(cx).entry(cx, name)
}

/// `zfs set`.
pub fn set(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = SET.parse(args).map_err(Failure::usage)?;
    let count = parsed.operands.iter().take_while(|o| o.contains('=')).count();
    let (assignments, names) = parsed.operands.split_at(count);
    if assignments.is_empty() {
        return Err(Failure::usage("missing property=value argument(s)"));
    }
    if names.is_empty() {
        return Err(Failure::usage("missing dataset name(s)"));
    }
    let mut properties: Vec<(String, String)> = Vec::new();
    for (name, value) in assignments.iter().filter_map(|a| a.split_once('=')) {
        if properties.iter().any(|(n, _)| n == name) {
            return Err(Failure::failed(format!("property '{name}' specified multiple times")));
        }
        properties.push((name.to_owned(), value.to_owned()));
    }
    // Check that all datasets exist before the first one is changed.
    for name in names {
        if open(cx, name)?.is_none() {
            return Ok(1);
        }
    }
    let command = command_line("zfs set", args);
    let mut code = 0;
    for name in names {
        let Some(found) = open(cx, name)? else { continue };
        let cannot = format!("cannot set property for '{name}'");
        let record = &found.pool.record;
        let told: Vec<_> = properties.iter().map(|(n, v)| (property::full_name(n), v.as_str())).collect();
        let owner = crate::mounts::owner(cx, record.guid).filter(|_| !parsed.has('u'));
        let remount = match &owner {
            Some(owner) => {
                crate::mounts::of(owner, record).prepare(name, &told).map_err(|e| Failure::from(Refusal::from(e)))?
            }
            None => None,
        };
        let result = change(cx, record, &cannot, &command, |pool| set_all(pool, name, &properties));
        if let Some(remount) = remount {
            let report = remount.settle();
            code |= cx.report(report);
        }
        match result {
            Ok(()) => {}
            Err(Failure::Failed(message)) => {
                cx.complain(&message);
                code = BAD_PROPERTY;
            }
            Err(other) => return Err(other),
        }
    }
    Ok(code)
}

/// Refuses `sharenfs` and `sharesmb` options that no server would understand, as OpenZFS does.
pub fn check_shares<'a>(mut properties: impl Iterator<Item = (&'a str, &'a str)>) -> Result<()> {
    let wrong = properties.find(|(name, value)| match *name {
        "sharenfs" => ShareOptions::parse(value).is_err(),
        "sharesmb" => SmbOptions::parse(value).is_err(),
        _ => false,
    });
    match wrong {
        Some((name, _)) => Err(anyhow!("'{name}' cannot be set to invalid options")),
        None => Ok(()),
    }
}

fn set_all(pool: &WritablePool, name: &str, properties: &[(String, String)]) -> Result<()> {
    check_shares(properties.iter().map(|(name, value)| (name.as_str(), value.as_str())))?;
    let (quotas, others): (Vec<_>, Vec<_>) = properties.iter().cloned().partition(|(n, _)| quota_of(n).is_some());
    if !others.is_empty() {
        write::set(&pool.live, name, &others).map_err(|e| match e {
            dataset::Error::Refused { why: dataset::Refusal::NoSpace, place } if place.contains("quota") => {
                anyhow!("size is less than current used or reserved space")
            }
            dataset::Error::Refused { why: dataset::Refusal::NoSpace, .. } => {
                anyhow!("size is greater than available space")
            }
            e => e.into(),
        })?;
    }
    if !quotas.is_empty() {
        pool.set_quotas(name, &quotas.iter().map(|(n, v)| quota(n, v)).collect::<Result<Vec<_>>>()?)?;
    }
    Ok(())
}

/// Parses the name of a quota property: the kind of principal, whether it counts objects, and the
/// principal.
fn quota_of(name: &str) -> Option<(Principal, bool, &str)> {
    let (kind, who) = name.split_once('@')?;
    Some(match kind {
        "userquota" => (Principal::User, false, who),
        "groupquota" => (Principal::Group, false, who),
        "projectquota" => (Principal::Project, false, who),
        "userobjquota" => (Principal::User, true, who),
        "groupobjquota" => (Principal::Group, true, who),
        "projectobjquota" => (Principal::Project, true, who),
        _ => return None,
    })
}

fn quota(name: &str, value: &str) -> Result<(Principal, u64, bool, u64)> {
    let (principal, objects, who) = quota_of(name).ok_or_else(|| anyhow!("invalid property '{name}'"))?;
    let file = match principal {
        Principal::User => "/etc/passwd",
        Principal::Group => "/etc/group",
        Principal::Project => "/dev/null",
    };
    let named = || {
        let table = std::fs::read_to_string(file).ok()?;
        table.lines().find_map(|line| {
            let mut fields = line.split(':');
            (fields.next()? == who).then(|| fields.nth(1)?.parse().ok()).flatten()
        })
    };
    let id = who.parse::<u64>().ok().or_else(named).ok_or_else(|| anyhow!("invalid property '{name}'"))?;
    let limit = match value {
        "none" => 0,
        text => parse_size(text).ok_or_else(|| anyhow!("bad numeric value '{text}'"))?,
    };
    Ok((principal, id, objects, limit))
}

/// `zfs inherit`.
pub fn inherit(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = INHERIT.parse(args).map_err(Failure::usage)?;
    let [name, datasets @ ..] = parsed.operands.as_slice() else {
        return Err(Failure::usage("missing property argument"));
    };
    if datasets.is_empty() {
        return Err(Failure::usage("missing dataset argument"));
    }
    let received = parsed.has('S');
    match property::find(name) {
        Some(def) if def.readonly() => return Err(Failure::failed(format!("{name} property is read-only"))),
        Some(def) if !def.inheritable() && !received => {
            let mut text = format!("'{name}' property cannot be inherited");
            if matches!(def.name, "quota" | "reservation" | "refquota" | "refreservation") {
                text += &format!(
                    "\nuse 'zfs set {name}=none' to clear\nuse 'zfs inherit -S {name}' to revert to received value"
                );
            }
            return Err(Failure::failed(text));
        }
        None if !property::is_user_property(name) => {
            return Err(Failure::usage(format!("invalid property '{name}'")));
        }
        _ => {}
    }
    if received && matches!(property::full_name(name), "volsize" | "version") {
        return Err(Failure::failed(format!("'{name}' property cannot be reverted to a received value")));
    }
    let recursive = parsed.has('r');
    let wanted = Wanted { types: Types::DATASETS, depth: if recursive { None } else { Some(0) } };
    let (found, mut code) = Pools::new(cx).list(cx, datasets, wanted)?;
    let command = command_line("zfs inherit", args);
    for pool in datasets.iter().map(|d| pool_of(d)).collect::<std::collections::BTreeSet<_>>() {
        let all: Vec<&Found> = found.iter().filter(|f| pool_of(f.entry.name()) == pool).collect();
        let Some(first) = all.first() else { continue };
        let cannot = |of: &str, why: &str| format!("cannot inherit {name} for '{of}': {why}");
        let record = &first.pool.record;
        let owner = crate::mounts::owner(cx, record.guid);
        let mut remounts = Vec::new();
        for root in all.iter().map(|f| f.entry.name()).filter(|n| !n.contains('@') && datasets.iter().any(|d| d == n)) {
            let Some(owner) = &owner else { continue };
            let remount = crate::mounts::of(owner, record).prepare(root, &[(property::full_name(name), "")]);
            remounts.extend(remount.map_err(|e| Failure::from(Refusal::from(e)))?);
        }
        let mut failures = Vec::new();
        let (applying, others): (Vec<&Found>, Vec<&Found>) =
            all.iter().copied().partition(|f| property::find(name).is_none_or(|def| applies(def, &f.entry)));
        if !recursive {
            let why = "property doesn't apply to datasets of this type";
            failures.extend(others.iter().map(|f| cannot(f.entry.name(), why)));
        }
        let mut opened = false;
        let changed = match applying.is_empty() {
            true => Ok(()),
            false => writing::change_or(cx, record, &command, |open| {
                opened = true;
                for f in applying.iter().filter(|f| has_place(&f.entry)) {
                    if let Err(error) = write::inherit(&open.live, f.entry.name(), name, received) {
                        failures.push(cannot(f.entry.name(), &why(&error)));
                    }
                }
                // As with OpenZFS, what was not done as a whole is not in the history.
                ensure!(failures.is_empty(), "not inherited by all");
                Ok(())
            }),
        };
        for remount in remounts {
            let report = remount.settle();
            code |= cx.report(report);
        }
        if let Err(error) = changed
            && (failures.is_empty() || !opened)
        {
            return Err(Failure::failed(cannot(first.entry.name(), &error.text)));
        }
        for failure in &failures {
            cx.complain(failure);
            code |= 1;
        }
    }
    Ok(code)
}

/// Whether a property applies to a dataset of that kind. A command on several datasets skips the
/// others.
fn applies(def: &property::PropertyDef, entry: &Entry) -> bool {
    def.kinds.intersects(match entry.kind() {
        Ok(dataset::DatasetKind::Volume) => property::Kinds::VOLUME,
        Ok(dataset::DatasetKind::Snapshot) => property::Kinds::SNAPSHOT,
        _ => property::Kinds::FILESYSTEM,
    })
}

/// Whether the dataset has an object with properties. Most snapshots have none, and removing a
/// property from them would only cost a txg.
fn has_place(entry: &Entry) -> bool {
    entry.dataset().is_some_and(|d| !d.is_snapshot() || d.phys().props_zap != 0)
}

/// `zfs change-key`. Facts: `zfs_do_change_key`, `zfs_crypto_rewrap` in lib/libzfs/libzfs_crypto.c.
pub fn change_key(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = CHANGE_KEY.parse(args).map_err(Failure::usage)?;
    let mut properties: Vec<(String, String)> = Vec::new();
    for option in parsed.all('o') {
        let Some((property, value)) = option.split_once('=') else {
            return Err(Failure::failed("missing '=' for property=value argument"));
        };
        if properties.iter().any(|(other, _)| other == property) {
            return Err(Failure::failed(format!("property '{property}' specified multiple times")));
        }
        properties.push((property.to_owned(), value.to_owned()));
    }
    let name = match parsed.operands.as_slice() {
        [] => return Err(Failure::usage("Missing dataset argument")),
        [name] => name.clone(),
        _ => return Err(Failure::usage("Too many arguments")),
    };
    // The error has been printed. The usage follows, as in OpenZFS.
    let Some(found) = open(cx, &name)? else { return Err(Failure::usage("")) };
    if parsed.has('l') {
        let dataset = found.entry.dataset().ok_or_else(|| Failure::failed("a bookmark has no key"))?;
        let is_available = found.pool.keys.is_available(dataset);
        if !is_available.map_err(|e| Failure::failed(format!("Key load error: {}", why(&e))))? {
            let code = super::keys::load(cx, std::slice::from_ref(&name))?;
            if code != 0 {
                return Ok(code);
            }
        }
    }
    let change = match new_key(cx, &found, &properties, parsed.has('i')) {
        Ok(change) => change,
        Err(error) => {
            cx.complain(&format!("Key change error: {error:#}"));
            return Ok(KEY_NOT_CHANGED);
        }
    };
    let record = &found.pool.record;
    let user: Vec<_> = properties.into_iter().filter(|(name, _)| property::is_user_property(name)).collect();
    let (change_to, material) = change;
    let changed = writing::change(cx, record, "Key change error", &command_line("zfs change-key", args), |pool| {
        write::change_key(&pool.live, &name, change_to).map_err(|error| match error {
            dataset::Error::KeyUnavailable { .. } => anyhow!("Key must be loaded."),
            error => error.into(),
        })?;
        if user.is_empty() { Ok(()) } else { set_all(pool, &name, &user) }
    });
    match changed {
        Ok(()) => {}
        Err(Failure::Failed(message)) => {
            cx.complain(&message);
            return Ok(KEY_NOT_CHANGED);
        }
        Err(other) => return Err(other),
    }
    match material {
        Some(material) => super::keys::keep_new(&cx.state, record, &name, &material),
        None => super::keys::drop_one(&cx.state, record, &name).map(|_| ()),
    }
    .map_err(|e| Failure::failed(format!("Key change error: {e:#}")))?;
    Ok(0)
}

/// What happens to the key of a dataset, and the new key, which it asks for.
///
/// A dataset that inherits its key becomes an encryption root. Its `keyformat` must be given:
/// without this check the format of the inherited key would decide how the user's input is read.
fn new_key(
    cx: &mut Context<'_>,
    found: &Found,
    properties: &[(String, String)],
    inherits: bool,
) -> Result<(KeyChange, Option<admin::new_key::Material>)> {
    let name = found.entry.name();
    let dataset = found.entry.dataset().filter(|d| !d.is_snapshot()).context("Dataset not encrypted.")?;
    let root = dataset.encryption_root()?.context("Dataset not encrypted.")?;
    let is_root = root.name() == name;
    ensure!(dataset.origin()?.is_none(), "Keys cannot be changed on clones.");
    let of_key = |property: &str| matches!(property, "keyformat" | "keylocation" | "pbkdf2iters");
    for (property, _) in properties {
        if property::is_user_property(property) || (of_key(property) && !inherits) {
            continue;
        }
        ensure!(!inherits, "Only user properties may be set with 'zfs change-key -i'");
        bail!("Only keyformat, keylocation, pbkdf2iters, and user properties may be set with this command.");
    }
    if inherits {
        ensure!(is_root, "Key inheritting can only be performed on encryption roots.");
        let (parent, _) = name.rsplit_once('/').context("Root dataset cannot inherit key.")?;
        let parent = dataset.tree().dataset(parent).context("Failed to lookup parent.")?;
        ensure!(parent.encryption_root()?.is_some(), "Parent must be encrypted.");
        ensure!(found.pool.keys.is_available(&parent)?, "Parent key must be loaded.");
        return Ok((KeyChange::Inherit, None));
    }
    let given = |property: &str| properties.iter().find(|(n, _)| n == property).map(|(_, v)| v.clone());
    let present = |property: &str| -> Option<String> {
        let found = property::get(&found.entry, property, &View::default()).ok().flatten();
        found.map(|p| p.value.raw).filter(|value| value != "none" && is_root)
    };
    let format = given("keyformat").or_else(|| present("keyformat"));
    let format = format.context("Keyformat required for new encryption root.")?;
    let location = given("keylocation").or_else(|| present("keylocation")).unwrap_or_else(|| "prompt".into());
    let mut all = properties.to_vec();
    all.retain(|(n, _)| n != "keylocation");
    all.push(("keylocation".into(), location.clone()));
    let material = admin::new_key::ask(&all, name, Some(&format), &|format| writing::ask(cx.client, format))?;
    let material = material.context("Dataset not encrypted.")?;
    let format = match format.as_str() {
        "raw" => KeyFormat::Raw,
        "hex" => KeyFormat::Hex,
        _ => KeyFormat::Passphrase,
    };
    let iterations = match given("pbkdf2iters").map(|text| text.parse::<u64>()) {
        Some(Err(_)) => bail!("bad numeric value for pbkdf2iters"),
        other => other.and_then(Result::ok),
    };
    Ok((KeyChange::New(NewKey { format, location, iterations, material: material.clone() }), Some(material)))
}
