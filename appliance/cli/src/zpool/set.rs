//! `zpool set` and `zpool upgrade`: change properties and features of a pool.

use super::writing::change;
use crate::context::{Context, Failure, Outcome};
use crate::getopt::{ArgKind, flag, value};
use crate::verb::{Call, Verb, for_owner};
use admin::state::Imported;
use admin::verbs::zpool::set::{self, SetRequest};
use anyhow::Result;
use dataset::write;
use ondisk::feature::{FEATURES, Feature, by_name};
use pool::property::FEATURES_2_3;
use pool::writer::{VERSION_FEATURES as CURRENT_VERSION, is_version};
use std::fmt::Write;

/// The row of `zpool set`.
pub static SET: Verb = for_owner("set", "Set a property of a pool or a device", run)
    .usage(&["property=value pool", "property=value pool vdev"])
    .operands(&[ArgKind::PoolAssignment, ArgKind::Pool, ArgKind::Text])
    .history("zpool set")
    .examples(&[("zpool set autotrim=on tank", "TRIM freed space from now on.")]);
const LEGACY: &str = "\nThe following legacy versions are also supported:\n\nVER  DESCRIPTION\n---  \
                      --------------------------------------------------------\n";
/// The descriptions of the versions before feature flags, from version 1 on.
const VERSIONS: [&str; 28] = [
    "Initial ZFS version",
    "Ditto blocks (replicated metadata)",
    "Hot spares and double parity RAID-Z",
    "zpool history",
    "Compression using the gzip algorithm",
    "bootfs pool property",
    "Separate intent log devices",
    "Delegated administration",
    "refquota and refreservation properties",
    "Cache devices",
    "Improved scrub performance",
    "Snapshot properties",
    "snapused property",
    "passthrough-x aclinherit",
    "user/group space accounting",
    "stmf property support",
    "Triple-parity RAID-Z",
    "Snapshot user holds",
    "Log device removal",
    "Compression using zle (zero-length encoding)",
    "Deduplication",
    "Received properties",
    "Slim ZIL",
    "System attributes",
    "Improved scrub stats",
    "Improved snapshot deletion performance",
    "Improved snapshot creation performance",
    "Multiple vdev replacements",
];
/// The row of `zpool upgrade`.
pub static UPGRADE: Verb = for_owner("upgrade", "Enable features", upgrade)
    .usage(&["", "-v", "[-V version] -a | pool ..."])
    .options(&[
        flag('a', "Enable all supported features of all pools."),
        flag('v', "List the supported features."),
        value('V', "version", ArgKind::Text, "Upgrade to this version of the format instead of enabling features."),
    ])
    .operands(&[ArgKind::Pool])
    .history("zpool upgrade")
    .examples(&[
        ("zpool upgrade", "List pools with features that are not enabled."),
        ("zpool upgrade tank", "Enable all supported features of a pool."),
    ]);

/// `zpool set`.
pub fn run(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let (assignment, pool, device) = match parsed.operands.as_slice() {
        [] => return Err(Failure::usage("missing property=value argument")),
        [_] => return Err(Failure::usage("missing pool name")),
        [assignment, pool] => (assignment, pool, None),
        [assignment, pool, device] => (assignment, pool, Some(device.clone())),
        _ => return Err(Failure::usage("too many pool names")),
    };
    let Some((property, value)) = assignment.split_once('=') else {
        return Err(Failure::usage("missing value in property=value argument"));
    };
    let (property, value) = (property.to_owned(), value.to_owned());
    let request = SetRequest { pool: pool.clone(), device, property, value };
    set::run(&cx.invocation(call.history()), &request)?;
    Ok(0)
}

/// Sets several properties of a pool, each as `zpool set` does. Returns the exit code, and
/// continues after one that is refused.
pub fn assign(cx: &mut Context<'_>, pool: &str, assignments: &[String]) -> u8 {
    let mut code = 0;
    for assignment in assignments {
        let call = SET.call(&[assignment.clone(), pool.to_owned()]);
        match call.and_then(|call| run(cx, &call)) {
            Ok(set) | Err(Failure::Code(set)) => code |= set,
            Err(Failure::Usage(why) | Failure::Failed(why) | Failure::Refused { message: why, .. }) => {
                cx.complain(&why);
                code = 1;
            }
        }
    }
    code
}

fn enable(pool: &admin::write::WritablePool, features: Vec<String>) -> Result<()> {
    Ok(pool.writer().task(move |cx| features.iter().try_for_each(|name| write::enable_feature(cx, name)))?)
}

/// The features that an upgrade of the pool would enable.
fn missing(cx: &Context<'_>, record: &Imported) -> Result<Vec<&'static Feature>, Failure> {
    let pool = super::pools::open(cx, record)?;
    let compatibility = pool.config().get_str("compatibility").unwrap_or("off").to_owned();
    let wanted = admin::compatibility::features(&compatibility).map_err(Failure::failed)?;
    let is_missing =
        |f: &&'static Feature| pool.features().count(f.guid).is_none() && wanted.iter().any(|w| w == f.name);
    Ok(FEATURES_2_3.iter().filter_map(|name| by_name(name)).filter(is_missing).collect())
}

/// `zpool upgrade`.
pub fn upgrade(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let version = match parsed.last('V') {
        None => CURRENT_VERSION,
        Some(text) => text
            .parse()
            .ok()
            .filter(|v| is_version(*v))
            .ok_or_else(|| Failure::usage(format!("invalid version '{text}'")))?,
    };
    if parsed.has('V') && !parsed.has('a') && parsed.operands.is_empty() {
        return Err(Failure::usage("-V option is incompatible with other arguments"));
    }
    if parsed.has('v') && (parsed.has('a') || !parsed.operands.is_empty()) {
        return Err(Failure::usage("-v option is incompatible with other arguments"));
    }
    if parsed.has('a') && !parsed.operands.is_empty() {
        return Err(Failure::usage("-a option should not be used along with a pool name"));
    }
    cx.print("This system supports ZFS pool feature flags.\n\n");
    if parsed.has('v') {
        cx.print(&table());
        return Ok(0);
    }
    let (records, code) = super::pools::records(cx, &parsed.operands)?;
    if parsed.operands.is_empty() && !parsed.has('a') {
        return list(cx, &records);
    }
    let mut upgraded = 0;
    for record in &records {
        let name = &record.name;
        let known = super::pools::open(cx, record)?.version();
        if known > version && !parsed.has('a') {
            cx.print(&format!("Pool '{name}' is already formatted using more current version '{known}'.\n\n"));
        } else if known == version && version != CURRENT_VERSION && !parsed.has('a') {
            cx.print(&format!("Pool '{name}' is already formatted using version {version}.\n\n"));
        }
        if version != CURRENT_VERSION && known >= version {
            continue;
        }
        let command = call.history();
        if known < version {
            if is_kept_old(cx, record)? {
                cx.complain("Upgrade not performed because 'compatibility' property set to 'legacy'.");
                return Ok(1);
            }
            let raise = |pool: &admin::write::WritablePool| {
                Ok(pool.writer().task(move |cx| write::upgrade_pool(cx, version))?)
            };
            change(cx, record, &format!("cannot set property for '{name}'"), &command, raise)?;
            let to = match version {
                CURRENT_VERSION => "feature flags".to_owned(),
                version => format!("version {version}"),
            };
            cx.print(&format!("Successfully upgraded '{name}' from version {known} to {to}.\n"));
            upgraded += 1;
            if version != CURRENT_VERSION {
                cx.print("\n");
                continue;
            }
        }
        let features: Vec<&Feature> =
            missing(cx, record)?.into_iter().filter(|f| !f.flags.is_excluded_from_upgrade()).collect();
        if features.is_empty() {
            if known < version {
                cx.print("\n");
            } else if !parsed.has('a') {
                cx.print(&format!("Pool '{name}' already has all supported and requested features enabled.\n"));
            }
            continue;
        }
        let names: Vec<String> = features.iter().map(|f| f.name.to_owned()).collect();
        change(cx, record, &format!("cannot set property for '{name}'"), &command, |pool| enable(pool, names.clone()))?;
        let list: String = names.iter().map(|n| format!("  {n}\n")).collect();
        cx.print(&format!("Enabled the following features on '{name}':\n{list}\n"));
        upgraded += 1;
    }
    if upgraded == 0 && parsed.has('a') && version != CURRENT_VERSION {
        cx.print(&format!("All pools are already formatted with version {version} or higher.\n"));
    } else if upgraded == 0 && parsed.has('a') {
        cx.print(
            "All pools are already formatted using feature flags.\n\nEvery feature flags pool already has all supported \
             and requested features enabled.\n",
        );
    }
    Ok(code)
}

/// Whether the property `compatibility` keeps the pool without feature flags.
fn is_kept_old(cx: &Context<'_>, record: &Imported) -> Result<bool, Failure> {
    Ok(super::pools::open(cx, record)?.config().get_str("compatibility") == Some("legacy"))
}

/// The pools of versions before feature flags.
fn older(cx: &Context<'_>, records: &[Imported]) -> Result<String, Failure> {
    let mut out = String::new();
    for record in records {
        let version = super::pools::open(cx, record)?.version();
        if version >= CURRENT_VERSION {
            continue;
        }
        if out.is_empty() {
            out.push_str(
                "The following pools are formatted with legacy version numbers and can\nbe upgraded to use feature flags.  \
                 After being upgraded, these pools\nwill no longer be accessible by software that does not support \
                 feature\nflags.\n\nNote that setting a pool's 'compatibility' feature to 'legacy' will\ninhibit \
                 upgrades.\n\nVER  POOL\n---  ------------\n",
            );
        }
        let _ = writeln!(out, "{version:2}   {}", record.name);
    }
    if out.is_empty() {
        return Ok("All pools are formatted using feature flags.\n\n".to_owned());
    }
    Ok(out + "\nUse 'zpool upgrade -v' for a list of available legacy versions.\n")
}

fn list(cx: &mut Context<'_>, records: &[Imported]) -> Outcome {
    let older = older(cx, records)?;
    cx.print(&older);
    let mut out = String::new();
    for record in records {
        if super::pools::open(cx, record)?.version() < CURRENT_VERSION {
            continue;
        }
        let features = missing(cx, record)?;
        if features.is_empty() {
            continue;
        }
        if out.is_empty() {
            out.push_str(
                "\nSome supported features are not enabled on the following pools. Once a\nfeature is enabled the pool may \
                 become incompatible with software\nthat does not support the feature. See zpool-features(7) for \
                 details.\n\nNote that the pool 'compatibility' feature can be used to inhibit\nfeature upgrades.\n\n\
                 Features marked with (*) are not applied automatically on upgrade, and\nmust be applied explicitly with \
                 zpool-set(7).\n\nPOOL  FEATURE\n---------------\n",
            );
        }
        let _ = writeln!(out, "{}", record.name);
        for feature in features {
            let mark = if feature.flags.is_excluded_from_upgrade() { "(*)" } else { "" };
            let _ = writeln!(out, "      {}{mark}", feature.name);
        }
    }
    if out.is_empty() {
        cx.print("Every feature flags pool has all supported and requested features enabled.\n");
    } else {
        cx.print(&(out + "\n"));
    }
    Ok(0)
}

fn table() -> String {
    let mut out = format!(
        "The following features are supported:\n\nFEAT DESCRIPTION\n{}\n",
        "-------------------------------------------------------------"
    );
    for feature in FEATURES.iter().filter(|f| pool::writer::can_write(f.name)) {
        let compatible = if feature.flags.is_readonly_compatible() { " (read-only compatible)" } else { "" };
        let _ = writeln!(out, "{:37}{compatible}\n     {}", feature.name, feature.summary);
    }
    out.push_str(LEGACY);
    for (version, what) in (1..).zip(VERSIONS) {
        let _ = writeln!(out, " {version:<3} {what}");
    }
    out + "\nFor more information on a particular version, including supported releases,\nsee the ZFS Administration Guide.\n\n"
}
