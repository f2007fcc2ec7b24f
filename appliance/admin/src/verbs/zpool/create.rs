//! `zpool create`: creates a pool with its root file system, and imports it.
//!
//! [`plan`] checks a request and changes nothing; [`CreatePlan::run`] creates the pool.

use super::imported_devices::ImportedDevices;
use crate::create::{self, CreateRequest as NewPool, check_name, check_properties};
use crate::house::Leave;
use crate::layout::{Layout, Wrong, check_in_use, check_replication};
use crate::mounts::MountReport;
use crate::new_key::{self, AskNew};
use crate::pool_properties::{PoolSetting, When, is_known, parse};
use crate::principals;
use crate::state::Imported;
use crate::verbs::line::{assignments, line};
use crate::verbs::{Invocation, Kind, Reason, Refusal};
use crate::{cache_file, compatibility, import, kept_keys};
use dataset::property::{Kinds, is_user_property};
use dataset::write;
use pool::property::{SetValue, full_name};
use pool::writer::VERSION_FEATURES;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A pool to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateRequest {
    pub name: String,
    /// The devices, or what is wrong with them, which is reported after what is wrong with names
    /// and properties.
    pub layout: Result<Layout, Wrong>,
    /// Name under which it is imported until it is exported (`-t`).
    pub temporary_name: Option<String>,
    /// Properties of the pool, as a user writes them (`-o`).
    pub properties: Vec<(String, String)>,
    /// Alternate root directory (`-R`).
    pub altroot: Option<String>,
    /// Properties of the root file system, as a user writes them (`-O`, and `-m` as `mountpoint`).
    pub dataset_properties: Vec<(String, String)>,
    /// Enable no features (`-d`).
    pub without_features: bool,
    /// Use devices that seem to be in use, and mix kinds of redundancy (`-f`).
    pub force: bool,
}

/// A request that has passed all checks that need no open device.
pub struct CreatePlan {
    request: CreateRequest,
    pub layout: Layout,
    properties: Vec<(String, String)>,
    ashift: Option<u8>,
    /// Properties of the root file system.
    datasets: Vec<(String, String)>,
}

impl CreateRequest {
    /// A request without options.
    pub fn new(name: String, layout: Result<Layout, Wrong>) -> Self {
        Self {
            name,
            layout,
            temporary_name: None,
            properties: Vec::new(),
            altroot: None,
            dataset_properties: Vec::new(),
            without_features: false,
            force: false,
        }
    }

    /// The request as a command line, for histories and logs.
    pub fn command_line(&self) -> String {
        let mut options = assignments("-o", &self.properties);
        options.extend(assignments("-O", &self.dataset_properties));
        options.extend(self.altroot.iter().map(|root| ("-R", root.clone())));
        options.extend(self.temporary_name.iter().map(|name| ("-t", name.clone())));
        let words = self.layout.as_ref().map(Layout::words).unwrap_or_default();
        let operands = std::iter::once(&self.name).chain(&words).map(String::as_str);
        line("zpool create", &[(self.force, "-f"), (self.without_features, "-d")], &options, operands)
    }

    /// The name under which it is imported.
    fn shown(&self) -> &str {
        self.temporary_name.as_ref().unwrap_or(&self.name)
    }

    fn cannot(&self) -> String {
        format!("cannot create '{}'", self.name)
    }

    /// The properties with full names, and those that others imply.
    fn properties(&self) -> Result<Vec<(String, String)>, Refusal> {
        let mut properties: Vec<(String, String)> = Vec::new();
        for (name, value) in &self.properties {
            let invalid = |message: String| Err(Refusal::new(Kind::Invalid, message));
            if !is_known(name) {
                return invalid(format!("property '{name}' is not a valid pool or vdev property"));
            }
            let full = full_name(name);
            if full != "cachefile" && properties.iter().any(|(n, _)| n == full) {
                return invalid(format!("property '{name}' specified multiple times"));
            }
            properties.push((full.to_owned(), value.clone()));
        }
        let has = |is: &dyn Fn(&str) -> bool| properties.iter().any(|(name, _)| is(name));
        if has(&|name| name == "version") && has(&|name| name.starts_with("feature@")) {
            let message = "'feature@' and 'version' properties cannot be specified together";
            return Err(Refusal::usage(Kind::Invalid, message));
        }
        let compatibility = properties.iter().find(|(name, _)| name == "compatibility");
        if has(&|name| name == "version") && compatibility.is_some_and(|(_, value)| value != "legacy") {
            let message = "when 'version' is specified, the 'compatibility' feature may only be set to 'legacy'";
            return Err(Refusal::new(Kind::Invalid, message));
        }
        properties.extend(self.altroot.iter().map(|root| ("altroot".to_owned(), root.clone())));
        let is_temporary = self.altroot.is_some() || self.temporary_name.is_some();
        if is_temporary && !properties.iter().any(|(n, _)| n == "cachefile") {
            properties.push(("cachefile".into(), "none".into()));
        }
        Ok(properties)
    }

    /// The properties of the root file system with full names, the mount point last.
    fn datasets(&self) -> Result<Vec<(String, String)>, Refusal> {
        let (places, others): (Vec<_>, Vec<_>) = self.dataset_properties.iter().partition(|(n, _)| n == "mountpoint");
        let mut datasets: Vec<(String, String)> = Vec::new();
        for (name, value) in others {
            let is_of_file_systems = match dataset::property::find(name) {
                Some(def) => def.kinds.intersects(Kinds::FILESYSTEM),
                None => is_user_property(name) || principals::is_quota(name),
            };
            let full = dataset::property::full_name(name);
            if !is_of_file_systems {
                let why = format!("property '{name}' is not a valid filesystem property");
                return Err(Refusal::new(Kind::Invalid, why));
            }
            if datasets.iter().any(|(other, _)| other == full) {
                return Err(Refusal::new(Kind::Invalid, format!("property '{name}' specified multiple times")));
            }
            datasets.push((full.to_owned(), value.clone()));
        }
        if let Some((_, place)) = places.last() {
            if !place.starts_with('/') && !matches!(place.as_str(), "none" | "legacy") {
                let why = "must be an absolute path, 'legacy', or 'none'";
                return Err(Refusal::new(Kind::Invalid, format!("invalid mountpoint '{place}': {why}")));
            }
            datasets.push(("mountpoint".into(), place.clone()));
        }
        Ok(datasets)
    }
}

/// Checks a request: names, the form of properties, devices.
pub fn plan(invocation: &Invocation<'_>, request: CreateRequest) -> Result<CreatePlan, Refusal> {
    let names = [(Some(&request.name), "pool"), (request.temporary_name.as_ref(), "temporary")];
    for (name, what) in names.into_iter().filter_map(|(name, what)| Some((name?, what))) {
        if name.contains('/') {
            let why = format!("invalid character '/' in {what} name\nuse 'zfs create' to create a dataset");
            return Err(Refusal::new(Kind::Invalid, format!("cannot create '{name}': {why}")));
        }
    }
    let properties = request.properties()?;
    let ashift = ashift(&properties)?;
    let datasets = request.datasets()?;
    // The pool name is a keyword for devices: most likely the name was omitted.
    if let Err(why) = check_name(&request.name) {
        let why = format!("{why}\npool name may have been omitted");
        return Err(Reason::new(Kind::Invalid, why).refuse(&request.cannot()));
    }
    let shown = request.shown();
    check_name(shown).map_err(|why| Reason::new(Kind::Invalid, why).refuse(&format!("cannot create '{shown}'")))?;
    let layout = request.layout.clone()?;
    check_in_use(&layout, request.force, &ImportedDevices::new(invocation)?)?;
    if !request.force {
        check_replication(&layout, None)?;
    }
    if !layout.is_allocatable() {
        let why = "invalid vdev specification: at least one toplevel vdev must be specified";
        return Err(Refusal::new(Kind::Invalid, why));
    }
    check_mountpoint(invocation, shown_place(&request.name, &properties, &datasets).as_deref())?;
    Ok(CreatePlan { request, layout, properties, ashift, datasets })
}

/// Where the root file system will be mounted, below the alternate root. `None`: nowhere.
fn shown_place(pool: &str, properties: &[(String, String)], datasets: &[(String, String)]) -> Option<PathBuf> {
    let find = |all: &[(String, String)], name: &str| all.iter().rev().find(|(n, _)| n == name).map(|(_, v)| v.clone());
    let place = find(datasets, "mountpoint").unwrap_or_else(|| format!("/{pool}"));
    let altroot = find(properties, "altroot").unwrap_or_default();
    place.starts_with('/').then(|| PathBuf::from(altroot + &place))
}

/// Refuses a mount point that is not an empty directory, if this process mounts file systems.
fn check_mountpoint(invocation: &Invocation<'_>, place: Option<&Path>) -> Result<(), Refusal> {
    let Some(place) = place.filter(|_| invocation.mounter.as_ref().is_some_and(|mounter| mounter.is_automatic()))
    else {
        return Ok(());
    };
    let why = match std::fs::read_dir(place).map(|mut entries| entries.next().is_some()) {
        Ok(true) => format!("'{}' exists and is not empty", place.display()),
        Ok(false) => return Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => format!("'{}' : {}", place.display(), host::os_text(&error)),
    };
    let text = format!("mountpoint {why}\nuse '-m' option to provide a different default");
    Err(Refusal::new(Kind::Conflict, text))
}

impl CreatePlan {
    /// Creates the pool and mounts its file system. `ask` asks for its key if it is to have one and
    /// the properties do not name a file.
    pub fn run(self, invocation: &Invocation<'_>, ask: &AskNew<'_>) -> Result<MountReport, Refusal> {
        let cannot = self.request.cannot();
        let mut report = MountReport::default();
        match self.create(invocation, ask, &mut report) {
            Ok(()) => Ok(report),
            Err(reason) => Err(reason.refuse(&cannot).after(report.lines)),
        }
    }

    fn create(self, invocation: &Invocation<'_>, ask: &AskNew<'_>, report: &mut MountReport) -> Result<(), Reason> {
        let Self { request, layout, properties, ashift, datasets } = self;
        let shown = request.shown().to_owned();
        if invocation.state.pool(&shown)?.is_some() {
            return Err(Reason::new(Kind::Conflict, "pool already exists"));
        }
        let settings = properties.iter().map(|(property, value)| parse(property, value, When::Create));
        let settings = settings.collect::<Result<Vec<_>, _>>()?;
        let asked = settings.iter().rev().find_map(|s| match s {
            PoolSetting::Version(version) => Some(*version),
            _ => None,
        });
        let version = asked.unwrap_or(VERSION_FEATURES);
        let without_features = request.without_features || version < VERSION_FEATURES;
        let features = features(&settings, without_features, &mut report.lines)?;
        let (quotas, datasets) = principals::split_quotas(&datasets)?;
        invocation.check_shares(&datasets)?;
        check_properties(&datasets, version, &features)?;
        write::check_version(&datasets, version)
            .map_err(|_| Reason::new(Kind::Unsupported, "pool must be upgraded to set this property or value"))?;
        let key = new_key::ask(&datasets, &shown, None, ask, &*invocation.fetch);
        let key = key.map_err(|e| Reason::new(Kind::Invalid, format!("{e:#}")))?;
        let import_option = |wanted: &str| {
            settings.iter().rev().find_map(|s| match s {
                PoolSetting::Import(name, value) if name == wanted && !value.is_empty() => Some(value.clone()),
                _ => None,
            })
        };
        let (altroot, cachefile) = (import_option("altroot"), import_option("cachefile"));
        let places = create::places(&layout);
        let pool = create::create(&NewPool {
            name: request.name.clone(),
            temporary_name: request.temporary_name.clone(),
            layout,
            ashift,
            version,
            features,
            settings,
            properties: datasets,
            key: key.clone(),
            command: invocation.command.clone(),
        })?;
        if let Err(error) = pool.set_quotas(&shown, &quotas) {
            pool.destroy()?;
            return Err(error.into());
        }
        let record = Imported {
            name: shown.clone(),
            temporary_name: request.temporary_name.is_some(),
            guid: pool.writer().pool()?.guid(),
            load_guid: import::load_guid(),
            places,
            altroot,
            cachefile,
            ..Imported::default()
        };
        cache_file::try_update(&record, &pool);
        if let Some(key) = &key {
            kept_keys::keep_new(&invocation.state, &record, &shown, key)
                .map_err(|e| Reason::new(Kind::Failed, format!("cannot keep its key loaded: {e:#}")))?;
        }
        let remember = || invocation.state.change(|pools| pools.push(record.clone()));
        let Some(house) = invocation.house_of(&record) else {
            remember()?;
            return Ok(pool.close()?);
        };
        pool.writer().sync()?;
        // Register the open pool before it appears in the list of pools: it cannot be opened twice.
        let pool = house.adopt(record.clone(), pool);
        if let Err(error) = remember() {
            let _ = house.release(record.guid, Leave::Close);
            return Err(error.into());
        }
        if let Some(mounts) = invocation.mounts(&record) {
            report.merge(mounts.mount_all(&pool, None, &*invocation.is_gone));
        }
        Ok(())
    }
}

/// Parses `ashift`. `None`: not given, or 0: each device decides.
///
/// Fails unless the value is 0 or between 9 and 16.
pub fn ashift(properties: &[(String, String)]) -> Result<Option<u8>, Refusal> {
    let Some((_, text)) = properties.iter().find(|(n, _)| n == "ashift") else { return Ok(None) };
    let invalid = |message: String| Err(Refusal::new(Kind::Invalid, message));
    match text.parse::<u8>() {
        Ok(0) => Ok(None),
        Ok(n) if (9..=16).contains(&n) => Ok(Some(n)),
        Ok(_) => invalid(format!("invalid 'ashift={text}' property: only values between 9 and 16 are allowed.")),
        Err(_) => invalid("ashift must be a number.".to_owned()),
    }
}

/// The features to enable in the new pool: those that `compatibility` allows, none with `-d`, and
/// those requested one by one.
fn features(settings: &[PoolSetting], none: bool, remarks: &mut Vec<String>) -> Result<Vec<String>, Reason> {
    let compatibility = settings.iter().find_map(|s| match s {
        PoolSetting::Stored(name, SetValue::Text(text)) if name == "compatibility" => Some(text.as_str()),
        _ => None,
    });
    let allowed = compatibility::features(compatibility.unwrap_or("off"));
    let allowed = allowed.map_err(|why| Reason::new(Kind::Invalid, why))?;
    let mut features = if none { Vec::new() } else { allowed.clone() };
    for setting in settings {
        let PoolSetting::Feature(name, on) = setting else { continue };
        features.retain(|f| f != name);
        if *on {
            let known = pool::writer::check_features([name.as_str()]);
            known.map_err(|e| Reason::new(Kind::of(&e), e.to_string()))?;
            if compatibility.is_some() && !allowed.contains(name) {
                remarks.push(format!(
                    "Warning: feature \"{name}\" enabled but is not in specified 'compatibility' feature set."
                ));
            }
            features.push(name.clone());
        }
    }
    Ok(features)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_excludes_features_and_all_compatibility_but_legacy() {
        let refusal = |settings: &[(&str, &str)]| {
            let mut request = CreateRequest::new("tank".to_owned(), Ok(Layout::default()));
            request.properties =
                settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            request.properties().err().map(|refusal| (refusal.code, refusal.message))
        };
        let message = "when 'version' is specified, the 'compatibility' feature may only be set to 'legacy'";
        for version in ["28", "5000"] {
            for other in ["off", "openzfs-2.1-linux"] {
                let mut settings = [("version", version), ("compatibility", other)];
                assert_eq!(refusal(&settings), Some((1, message.to_owned())));
                settings.reverse();
                assert_eq!(refusal(&settings), Some((1, message.to_owned())));
            }
            assert_eq!(refusal(&[("version", version), ("compatibility", "legacy")]), None);
        }
        assert!(refusal(&[("version", "28"), ("feature@lz4_compress", "enabled")]).is_some());
    }
}
