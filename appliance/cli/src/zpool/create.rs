//! `zpool create`.

use super::writing::{self, command_line};
use crate::context::{Context, Failure, Outcome};
use crate::getopt::Options;
use crate::state::Imported;
use admin::create::{self, CreateRequest, check_name};
use admin::layout::{Layout, check_replication, check_unused};
use admin::pool_properties::{PoolSetting, When, is_known, parse};
use admin::{compatibility, new_key, property};

const OPTIONS: Options = Options { short: "fndR:m:o:O:t:", long: &[] };

/// `zpool create`.
pub fn run(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = OPTIONS.parse(args).map_err(Failure::usage)?;
    let [name, words @ ..] = parsed.operands.as_slice() else {
        return Err(Failure::usage("missing pool name argument"));
    };
    if words.is_empty() {
        return Err(Failure::usage("missing vdev specification"));
    }
    let cannot = |why: &str| Failure::failed(format!("cannot create '{name}': {why}"));
    if name.contains('/') {
        return Err(Failure::failed(format!(
            "cannot create '{name}': invalid character '/' in pool name\nuse 'zfs create' to create a dataset"
        )));
    }
    let temporary_name = parsed.last('t').map(str::to_owned);
    if let Some(temporary) = temporary_name.as_ref().filter(|name| name.contains('/')) {
        return Err(Failure::failed(format!(
            "cannot create '{temporary}': invalid character '/' in temporary name\nuse 'zfs create' to create a dataset"
        )));
    }
    let shown = temporary_name.as_ref().unwrap_or(name);
    let assigned = |letter: char| {
        parsed.all(letter).map(move |option| {
            option.split_once('=').ok_or_else(|| Failure::failed(format!("missing '=' for -{letter} option")))
        })
    };
    let mut properties: Vec<(String, String)> = Vec::new();
    for pair in assigned('o') {
        let (name, value) = pair?;
        if !is_known(name) {
            return Err(Failure::failed(format!("property '{name}' is not a valid pool or vdev property")));
        }
        let full = property::full_name(name);
        if properties.iter().any(|(n, _)| n == full) {
            return Err(Failure::failed(format!("property '{name}' specified multiple times")));
        }
        properties.push((full.to_owned(), value.to_owned()));
    }
    if let Some(root) = parsed.last('R') {
        properties.push(("altroot".into(), root.to_owned()));
        if !properties.iter().any(|(n, _)| n == "cachefile") {
            properties.push(("cachefile".into(), "none".into()));
        }
    }
    if temporary_name.is_some() && !properties.iter().any(|(n, _)| n == "cachefile") {
        properties.push(("cachefile".into(), "none".into()));
    }
    let ashift = ashift(&properties)?;
    let mut datasets: Vec<(String, String)> = Vec::new();
    let mut mountpoint = None;
    for (letter, argument) in parsed.given.iter().filter(|(l, _)| matches!(l, 'O' | 'm')) {
        match (letter, argument.split_once('=')) {
            ('m', _) => mountpoint = Some(argument.clone()),
            (_, None) => return Err(Failure::failed("missing '=' for -O option")),
            (_, Some(("mountpoint", value))) => mountpoint = Some(value.to_owned()),
            (_, Some((name, value))) => {
                datasets.push((dataset::property::full_name(name).to_owned(), value.to_owned()))
            }
        }
    }
    if let Some(place) = mountpoint {
        if !place.starts_with('/') && !matches!(place.as_str(), "none" | "legacy") {
            return Err(Failure::failed(format!(
                "invalid mountpoint '{place}': must be an absolute path, 'legacy', or 'none'"
            )));
        }
        datasets.push(("mountpoint".into(), place));
    }

    // The pool name is a keyword for devices: most likely the name was omitted.
    let named = check_name(name);
    let hint = |why: &str| cannot(&format!("{why}\npool name may have been omitted"));
    if let Err(why) = &named {
        return Err(hint(why));
    }
    check_name(shown).map_err(|why| Failure::failed(format!("cannot create '{shown}': {why}")))?;
    let layout = Layout::parse(words).map_err(Failure::failed)?;
    let force = parsed.has('f');
    let imported = cx.state.pools().map_err(|e| Failure::failed(format!("{e:#}")))?;
    let is_imported = |guid: u64, _device: u64| imported.iter().any(|p| p.guid == guid);
    check_unused(&layout, force, &is_imported).map_err(Failure::failed)?;
    if !force {
        check_replication(&layout, None).map_err(Failure::failed)?;
    }
    if !layout.is_allocatable() {
        return Err(Failure::failed("invalid vdev specification: at least one toplevel vdev must be specified"));
    }
    if parsed.has('n') {
        cx.print(&format!("would create '{name}' with the following layout:\n\n{}", layout.tree(name)));
        return Ok(0);
    }
    if imported.iter().any(|p| p.name == *shown) {
        return Err(cannot("pool already exists"));
    }
    let mut settings = Vec::new();
    for (property, value) in &properties {
        settings.push(parse(property, value, When::Create).map_err(|why| cannot(&why))?);
    }
    let features = features(cx, &settings, parsed.has('d')).map_err(|why| cannot(&why))?;
    admin::create::check_properties(&datasets, &features).map_err(|why| cannot(&why))?;
    let key = new_key::ask(&datasets, shown, None, &|format| writing::ask(cx.client, format))
        .map_err(|e| cannot(&format!("{e:#}")))?;
    let import_option = |wanted: &str| {
        settings.iter().find_map(|s| match s {
            PoolSetting::Import(name, value) if name == wanted && !value.is_empty() => Some(value.clone()),
            _ => None,
        })
    };
    let (altroot, cachefile) = (import_option("altroot"), import_option("cachefile"));
    let places = create::places(&layout);
    let request = CreateRequest {
        name: name.clone(),
        temporary_name: temporary_name.clone(),
        layout,
        ashift,
        features,
        settings,
        properties: datasets,
        key,
        command: command_line("zpool create", args),
    };
    let pool = create::create(&request).map_err(|e| cannot(&writing::reason(&e)))?;
    let guid = pool.writer().pool().map_err(|e| cannot(&e.to_string()))?.guid();
    let record = Imported {
        name: shown.clone(),
        temporary_name: temporary_name.is_some(),
        guid,
        load_guid: super::import::load_guid(),
        places,
        altroot,
        cachefile,
        ..Imported::default()
    };
    if let Some(key) = &request.key {
        crate::zfs::keys::keep_new(&cx.state, &record, shown, key)
            .map_err(|e| cannot(&format!("cannot keep its key loaded: {e:#}")))?;
    }
    let remember = || {
        let changed = cx.state.change(|pools| pools.push(record.clone()));
        changed.map_err(|e| cannot(&format!("{e:#}")))
    };
    match crate::mounts::owner(cx, guid) {
        Some(owner) => {
            pool.writer().sync().map_err(|e| cannot(&writing::why(&e)))?;
            // Register the open pool before it appears in the list of pools: it cannot be opened
            // twice.
            let pool = owner.house.adopt(record.clone(), pool);
            if let Err(failure) = remember() {
                let _ = owner.house.release(guid, admin::house::Leave::Close);
                return Err(failure);
            }
            return Ok(crate::mounts::mount_all(cx, &pool));
        }
        _ => {
            remember()?;
            pool.close().map_err(|e| cannot(&writing::reason(&e)))?;
        }
    }
    Ok(0)
}

/// Parses `-o ashift=`. `None`: not given, or 0: each device decides.
///
/// Fails unless the value is 0 or between 9 and 16.
pub(super) fn ashift(properties: &[(String, String)]) -> Result<Option<u8>, Failure> {
    let Some((_, text)) = properties.iter().find(|(n, _)| n == "ashift") else { return Ok(None) };
    match text.parse::<u8>() {
        Ok(0) => Ok(None),
        Ok(n) if (9..=16).contains(&n) => Ok(Some(n)),
        Ok(_) => {
            Err(Failure::failed(format!("invalid 'ashift={text}' property: only values between 9 and 16 are allowed.")))
        }
        Err(_) => Err(Failure::failed("ashift must be a number.")),
    }
}

/// The features to enable in the new pool: those that `compatibility` allows, none with `-d`, and
/// those requested one by one.
fn features(cx: &mut Context<'_>, settings: &[PoolSetting], none: bool) -> Result<Vec<String>, String> {
    let compatibility = settings.iter().find_map(|s| match s {
        PoolSetting::Stored(name, pool::property::SetValue::Text(text)) if name == "compatibility" => {
            Some(text.as_str())
        }
        _ => None,
    });
    let allowed = compatibility::features(compatibility.unwrap_or("off"))?;
    let mut features = if none { Vec::new() } else { allowed.clone() };
    for setting in settings {
        let PoolSetting::Feature(name, on) = setting else { continue };
        features.retain(|f| f != name);
        if *on {
            pool::writer::check_features([name.as_str()]).map_err(|e| e.to_string())?;
            if compatibility.is_some() && !allowed.contains(name) {
                cx.complain(&format!(
                    "Warning: feature \"{name}\" enabled but is not in specified 'compatibility' feature set."
                ));
            }
            features.push(name.clone());
        }
    }
    Ok(features)
}
