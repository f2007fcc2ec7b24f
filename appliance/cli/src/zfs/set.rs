//! `zfs set`, `zfs inherit`, `zfs change-key`: change properties and keys of datasets.

use super::datasets::Pools;
use crate::context::{Context, Failure, Outcome};
use crate::getopt::{ArgKind, flag, value};
use crate::verb::{Call, Verb, for_delegates};
use crate::zpool::writing::{self, why};
use admin::verbs::zfs as verb;
use admin::verbs::zfs::inherit::InheritRequest;
use admin::verbs::zfs::set::{SetRequest, set_all};
use admin::verbs::{Found, Kind, Reason};
use anyhow::{Context as _, Result, bail, ensure};
use dataset::View;
use dataset::property;
use dataset::write::{self, KeyChange, NewKey};

/// The row of `zfs set`.
pub static SET: Verb = for_delegates("set", "Set properties", set)
    .usage(&["[-u] property=value ... filesystem|volume|snapshot ..."])
    .options(&[flag('u', "Change mountpoint or sharenfs without mounting or sharing anything.")])
    .operands(&[ArgKind::DatasetAssignment, ArgKind::AnyDataset])
    .history("zfs set")
    .examples(&[("zfs set quota=50G tank/home", "Limit the space of a file system and its descendants.")]);

/// The row of `zfs inherit`.
pub static INHERIT: Verb = for_delegates("inherit", "Inherit properties from the parent", inherit)
    .usage(&["[-rS] property filesystem|volume|snapshot ..."])
    .options(&[
        flag('r', "Clear the property of all descendants too."),
        flag('S', "Go back to the received value, if there is one."),
    ])
    .operands(&[ArgKind::DatasetProperties, ArgKind::AnyDataset])
    .history("zfs inherit")
    .examples(&[("zfs inherit -r compression tank/home", "Use the parent's compression below a file system.")]);

/// The row of `zfs change-key`.
pub static CHANGE_KEY: Verb = for_delegates("change-key", "Change the key of a dataset", change_key)
    .usage(&[
        "[-l] [-o keyformat=value] [-o keylocation=value] [-o pbkdf2iters=value] filesystem|volume",
        "-i [-l] filesystem|volume",
    ])
    .options(&[
        flag('l', "Load the present key first."),
        flag('i', "Use the key of the parent."),
        value(
            'o',
            "property=value",
            ArgKind::Words(&["keyformat=", "keylocation=", "pbkdf2iters="]),
            "Set a property of the new key, or a user property.",
        )
        .repeated(),
    ])
    .operands(&[ArgKind::Dataset])
    .history("zfs change-key")
    .exits(&[(255, "The key was not changed.")])
    .examples(&[("zfs change-key tank/secret", "Ask for a new passphrase.")]);

/// The exit code of `zfs change-key` when nothing was changed: -1 in libzfs.
const KEY_NOT_CHANGED: u8 = 255;

fn open(cx: &mut Context<'_>, name: &str) -> Result<Option<Found>, Failure> {
    Pools::new(cx).entry(cx, name)
}

/// `zfs set`.
pub fn set(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
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
    let request = SetRequest { properties, datasets: names.to_vec(), keep_mounts: parsed.has('u') };
    let report = verb::set::run(&cx.invocation(call.history()), &request)?;
    Ok(cx.report(report))
}

/// `zfs inherit`.
pub fn inherit(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let [name, datasets @ ..] = parsed.operands.as_slice() else {
        return Err(Failure::usage("missing property argument"));
    };
    if datasets.is_empty() {
        return Err(Failure::usage("missing dataset argument"));
    }
    let request = InheritRequest {
        property: name.clone(),
        datasets: datasets.to_vec(),
        recursive: parsed.has('r'),
        received: parsed.has('S'),
    };
    let report = verb::inherit::run(&cx.invocation(call.history()), &request)?;
    Ok(cx.report(report))
}

/// `zfs change-key`. Facts: `zfs_do_change_key`, `zfs_crypto_rewrap` in lib/libzfs/libzfs_crypto.c.
pub fn change_key(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
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
    let location = properties.iter().find(|(n, _)| n == "keylocation").map(|(_, value)| value.as_str());
    let permitted = cx.invocation(String::new()).permit(&found.pool.record, |caller, tree| {
        caller.require(tree, &name, &["change-key"])?;
        caller.check_key_location(location)?;
        let mut user = properties.iter().filter(|(name, _)| property::is_user_property(name));
        user.try_for_each(|(property, _)| caller.require_property(tree, &name, property))
    });
    if let Err(reason) = permitted {
        let text = if reason.kind == Kind::Forbidden { "Permission denied.".to_owned() } else { reason.text };
        return Err(Failure::Refused { message: format!("Key change error: {text}"), code: KEY_NOT_CHANGED });
    }
    if parsed.has('l') {
        let dataset = found.entry.dataset().ok_or_else(|| Failure::failed("a bookmark has no key"))?;
        let is_available = found.pool.keys.is_available(dataset);
        if !is_available.map_err(|e| Failure::failed(format!("Key load error: {}", why(&e))))? {
            let root = super::keys::locked(&found).unwrap_or_else(|| name.clone());
            let code = super::keys::load(cx, &super::keys::LOAD.call(&[root])?)?;
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
    let invocation = cx.invocation(call.history());
    let changed = invocation.change(record, |pool| {
        write::change_key_for(&pool.live, invocation.caller.other(), &name, change_to).map_err(
            |error| match error {
                errors::Error::KeyUnavailable { .. } => Reason::new(Kind::Conflict, "Key must be loaded."),
                error => error.into(),
            },
        )?;
        if user.is_empty() { Ok(()) } else { set_all(pool, &name, &user, invocation.check_share) }
    });
    changed.map_err(|reason| reason.refuse("Key change error").with_code(KEY_NOT_CHANGED))?;
    match material {
        Some(material) => admin::kept_keys::keep_new(&cx.state, record, &name, &material),
        None => admin::kept_keys::drop_one(&cx.state, record, &name).map(|_| ()),
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
    cx.caller.check_key_location(Some(&location)).map_err(|reason| anyhow::anyhow!(reason.text))?;
    let mut all = properties.to_vec();
    all.retain(|(n, _)| n != "keylocation");
    all.push(("keylocation".into(), location.clone()));
    let material = {
        let fetch = cx.invocation(String::new()).fetch;
        admin::new_key::ask(&all, name, Some(&format), &|format| writing::ask(cx.client, format), &*fetch)?
    };
    let material = material.context("Dataset not encrypted.")?;
    let format = write::key_format(&format);
    let iterations = match given("pbkdf2iters").map(|text| text.parse::<u64>()) {
        Some(Err(_)) => bail!("bad numeric value for pbkdf2iters"),
        other => other.and_then(Result::ok),
    };
    Ok((KeyChange::New(NewKey { format, location, iterations, material: material.clone() }), Some(material)))
}
