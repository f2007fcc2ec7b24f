//! `zfs.get_prop`. Facts: module/zfs/zcp_get.c.

use super::errno;
use super::library::{Library, Returned};
use dataset::property::def::{PropertyDef, ValueType};
use dataset::property::value::Value;
use dataset::property::{find, get, is_user_property};
use dataset::{Dataset, Entry, Mounts, Property, Source, View};
use errors::{Error, Result};
use lua::{Complaint, Datum};

/// Where a received value was set, in OpenZFS's words.
const RECEIVED: &str = "$recvd";

/// Where a property was set: the name of a dataset, or a word.
pub fn set_point(source: &Source, dataset: &str) -> Datum {
    match source {
        Source::Local => Datum::text(dataset),
        Source::Inherited(from) => Datum::text(from),
        Source::Received => Datum::text(RECEIVED),
        Source::None | Source::Default => Datum::text("default"),
        Source::Temporary => Datum::text("temporary"),
    }
}

/// Whether a dataset can have a property.
pub fn applies(dataset: &Dataset, def: &PropertyDef) -> Result<bool> {
    if matches!(def.name, "mounted" | "iscsioptions") || def.name == "origin" && dataset.origin()?.is_none() {
        return Ok(false);
    }
    Ok(def.kinds.intersects(dataset.kind()?.kinds()))
}

/// The value as programs see it.
fn value(def: &PropertyDef, property: &Property) -> Datum {
    match (&property.value.value, def.value_type) {
        (Value::Number(number), ValueType::Index(_)) => {
            def.word(*number).map_or_else(|| Datum::text(&property.value.raw), Datum::text)
        }
        // As in OpenZFS, large numbers wrap around.
        (Value::Number(number), _) => Datum::Number(*number as i64),
        (Value::Text(text), _) => Datum::text(text),
    }
}

/// User properties are texts, `written@…` is a number.
fn plain(property: &Property, is_text: bool) -> Datum {
    match (&property.value.value, is_text) {
        (Value::Number(number), false) => Datum::Number(*number as i64),
        _ => Datum::text(&property.value.raw),
    }
}

/// For a property such as `userquota@1000`: whether it is a quota, and of whom.
fn account(property: &str) -> Option<(bool, &str)> {
    let (kind, id) = property.split_once('@')?;
    let what = ["user", "group", "project"].iter().find_map(|who| kind.strip_prefix(who))?;
    match what {
        "quota" | "objquota" => Some((true, id)),
        "used" | "objused" => Some((false, id)),
        _ => None,
    }
}

impl Library<'_> {
    fn view(&self) -> View<'_> {
        View { keys: Some(self.txg.keys()), mounts: Mounts::None, altroot: self.altroot, read_only: false }
    }

    /// The value and where it was set; nothing for one that the dataset has not.
    pub(super) fn property(&self, name: &str, property: &str) -> Returned {
        // Programs use full names only.
        let def = find(property).filter(|def| def.name == property);
        let is_written = property.starts_with("written@") || property.starts_with("written#");
        let number = account(property);
        if def.is_none() && !is_user_property(property) && !is_written && number.is_none() {
            return Err(Complaint::Error(format!("'{property}' is not a valid property")));
        }
        let dataset = self.hold(name)?;
        let cannot = |error: Error| match errno::of_error(&error) {
            errno::EIO => {
                Complaint::Error(format!("I/O error while retrieving property '{property}' on dataset '{name}'"))
            }
            22 => Complaint::Error(format!("property '{property}' is not a valid property on dataset '{name}'")),
            number => Complaint::Error(format!(
                "unexpected error {number} while retrieving property '{property}' on dataset '{name}'"
            )),
        };
        if let Some(def) = def
            && !applies(&dataset, def).map_err(cannot)?
        {
            return Ok(Vec::new());
        }
        if is_written {
            self.check_written(name, property)?;
        }
        let entry = Entry::Dataset(dataset.clone());
        let found = get(&entry, property, &self.view()).map_err(cannot)?;
        if let Some((is_quota, id)) = number {
            if id.parse::<u64>().is_err() {
                return Err(cannot(Error::invalid(name, "the id of a user is a number")));
            }
            let amount = match found.map(|found| found.value.value) {
                Some(Value::Number(amount)) => amount,
                _ => 0,
            };
            // A quota of 0 is none.
            let is_none = is_quota && amount == 0;
            return Ok(if is_none { Vec::new() } else { vec![Datum::Number(amount as i64), Datum::text(name)] });
        }
        // Counts that are not kept have no value.
        let is_kept = |found: &Property| {
            !matches!(property, "filesystem_count" | "snapshot_count") || found.source != Source::Default
        };
        let Some(found) = found.filter(is_kept) else {
            return Ok(match property {
                "keystatus" => vec![Datum::text("none"), Datum::Nil],
                // Of a file system's snapshot. As OpenZFS.
                "volsize" if dataset.is_snapshot() => vec![Datum::Number(0), Datum::text("default")],
                _ => Vec::new(),
            });
        };
        let Some(def) = def else {
            return Ok(vec![plain(&found, is_user_property(property)), set_point(&found.source, name)]);
        };
        if def.name == "clones" {
            let clones = dataset.clones().map_err(cannot)?;
            return Ok(vec![Datum::array(clones.iter().map(|clone| Datum::text(clone.name()))), Datum::Nil]);
        }
        let source = match def.readonly() || def.name == "version" {
            true => Datum::Nil,
            false => set_point(&found.source, name),
        };
        Ok(vec![value(def, &found), source])
    }

    /// The snapshot or bookmark of `written@…` must exist.
    fn check_written(&self, name: &str, property: &str) -> std::result::Result<(), Complaint> {
        let rest = &property["written@".len()..];
        let full =
            if rest.contains(['@', '#']) { rest.to_owned() } else { format!("{name}{}", &property["written".len()..]) };
        match self.tree()?.entry(&full) {
            Ok(_) => Ok(()),
            Err(error) => Err(self.cannot_hold(&full, &error)),
        }
    }
}
