//! `zfs set`: sets properties of datasets, and quotas of users, groups and projects.

use crate::mounts::MountReport;
use crate::principals;
use crate::verbs::line::line;
use crate::verbs::lookup::Lookup;
use crate::verbs::tally::Tally;
use crate::verbs::{CheckShare, Invocation, Kind, Reason, Refusal};
use crate::write::WritablePool;
use dataset::DatasetKind;
use dataset::property::full_name;
use dataset::write::{self, parse_version, pool_version_for};
use errors::{Error, Refusal as Denied};

/// Exit code of libzfs for an invalid property.
pub(super) const BAD_PROPERTY: u8 = 255;

/// OpenZFS's words for a property that needs a newer version.
const TOO_OLD: &str = "pool and or dataset must be upgraded to set this property or value";

/// Names and values of properties as a user writes them.
type Properties = Vec<(String, String)>;

/// Operands and options of `zfs set`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SetRequest {
    /// Names and values as a user writes them, each name once.
    pub properties: Vec<(String, String)>,
    pub datasets: Vec<String>,
    /// Leave mounts as they are (`-u`).
    pub keep_mounts: bool,
}

impl SetRequest {
    /// The request as a command line, for histories and logs.
    pub fn command_line(&self) -> String {
        let assigned: Vec<String> = self.properties.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let operands: Vec<&str> = assigned.iter().chain(&self.datasets).map(String::as_str).collect();
        line("zfs set", &[(self.keep_mounts, "-u")], &[], operands)
    }
}

/// Sets the properties, for each dataset all of them or none.
pub fn run(invocation: &Invocation<'_>, request: &SetRequest) -> Result<MountReport, Refusal> {
    // Check that all datasets exist before the first one is changed.
    let mut lookup = Lookup::new(invocation);
    for name in &request.datasets {
        lookup.entry(name)?;
    }
    drop(lookup);
    let mut tally = Tally::default();
    for name in &request.datasets {
        if let Err(refusal) = one(invocation, request, name, &mut tally) {
            return Err(tally.abort(refusal));
        }
    }
    tally.finish()
}

/// Sets the properties of one dataset. An error ends the verb.
fn one(invocation: &Invocation<'_>, request: &SetRequest, name: &str, tally: &mut Tally) -> Result<(), Refusal> {
    let found = match Lookup::new(invocation).find(name)? {
        Ok(found) => found,
        Err(refusal) => {
            tally.refuse(refusal);
            return Ok(());
        }
    };
    let record = found.pool.record.clone();
    drop(found);
    let permitted = invocation.permit(&record, |caller, tree| {
        request.properties.iter().try_for_each(|(property, _)| caller.require_property(tree, name, property))
    });
    if let Err(reason) = permitted {
        tally.refuse(reason.refuse(&format!("cannot set property for '{name}'")).with_code(BAD_PROPERTY));
        return Ok(());
    }
    let full: Vec<_> = request.properties.iter().map(|(n, v)| (full_name(n), v.as_str())).collect();
    let mounts = invocation.mounts(&record).filter(|_| !request.keep_mounts);
    let remount = mounts.map(|mounts| mounts.prepare(name, &full)).transpose()?.flatten();
    let result = invocation.change(&record, |pool| set_all(pool, name, &request.properties, invocation.check_share));
    if let Some(remount) = remount {
        tally.report(remount.settle(result.is_ok()));
    }
    if let Err(reason) = result {
        let cannot = format!("cannot set property for '{name}'");
        tally.refuse(reason.refuse(&cannot).with_code(BAD_PROPERTY));
    }
    Ok(())
}

/// Sets properties and quotas of a dataset.
pub fn set_all(
    pool: &WritablePool,
    name: &str,
    properties: &[(String, String)],
    check_share: CheckShare,
) -> Result<(), Reason> {
    // OpenZFS refuses options that no server would understand.
    if let Some((name, _)) = properties.iter().find(|(name, value)| !check_share(name, value)) {
        return Err(Reason::new(Kind::Invalid, format!("'{name}' cannot be set to invalid options")));
    }
    let (version, properties) = split_version(properties)?;
    if let Some(version) = version {
        set_version(pool, name, version)?;
    }
    let (quotas, others) = principals::split_quotas(&properties)?;
    if !others.is_empty() {
        write::set(&pool.live, name, &others).map_err(reason)?;
    }
    pool.set_quotas(name, &quotas).map_err(|error| match error.downcast_ref::<Error>() {
        Some(Error::Unsupported { .. }) => Reason::new(Kind::Unsupported, TOO_OLD),
        _ => error.into(),
    })
}

fn reason(error: Error) -> Reason {
    let text = match &error {
        Error::Refused { why: Denied::NoSpace, place } if place.contains("quota") => {
            "size is less than current used or reserved space"
        }
        Error::Refused { why: Denied::NoSpace, .. } => "size is greater than available space",
        _ => return error.into(),
    };
    Reason::new(Kind::of(&error), text)
}

/// The version among `properties`, and the other properties.
pub(super) fn split_version(properties: &[(String, String)]) -> Result<(Option<u64>, Properties), Reason> {
    let (versions, others): (Vec<_>, Vec<_>) = properties.iter().cloned().partition(|(name, _)| name == "version");
    let version = versions.last().map(|(_, text)| parse_version(text)).transpose();
    Ok((version.map_err(|why| Reason::new(Kind::Invalid, why))?, others))
}

/// `zfs set version=N`.
pub(super) fn set_version(pool: &WritablePool, name: &str, version: u64) -> Result<(), Reason> {
    if name.contains('@') {
        return Err(Reason::new(Kind::Invalid, "this property can not be modified for snapshots"));
    }
    let dataset = pool.live.synced()?.dataset(name)?;
    if dataset.kind()? != DatasetKind::FileSystem {
        return Err(Reason::new(Kind::Invalid, "'version' does not apply to datasets of this type"));
    }
    if pool.writer().pool()?.version() < pool_version_for(version) {
        return Err(Reason::new(Kind::Unsupported, TOO_OLD));
    }
    Ok(pool.upgrade_files(name, version)?)
}
