//! Formats values of dataset properties, and parses lists of property names.

use crate::context::Failure;
use crate::number::{date_minutes, date_seconds};
use dataset::property::{self, Property, PropertyDef, Source, Unit, Value, ValueType};
use dataset::{Entry, View};

/// Most bytes of a value that OpenZFS prints: `ZFS_MAXPROPLEN` less the NUL. Only lists of clones
/// are longer.
const VALUE_BYTES_MAX: usize = 8191;

/// The text of a value; `literal`: exact numbers (`-p`). One that is too long is cut, as by
/// OpenZFS.
pub fn text(property: &Property, literal: bool) -> String {
    let mut text = match property.time {
        Some(seconds) if !literal && property.name == "creation" => date_minutes(seconds),
        Some(seconds) if !literal => date_seconds(seconds),
        _ if literal => property.value.raw.clone(),
        _ => property.value.human.clone(),
    };
    text.truncate(text.floor_char_boundary(VALUE_BYTES_MAX));
    text
}

/// The type and the data of a source in JSON output.
pub fn json_source(property: &Property) -> (&'static str, String) {
    let dash = || "-".to_owned();
    match &property.source {
        Source::None => ("NONE", dash()),
        Source::Default => ("DEFAULT", dash()),
        Source::Temporary => ("TEMPORARY", dash()),
        Source::Local => ("LOCAL", dash()),
        Source::Inherited(from) => ("INHERITED", from.clone()),
        Source::Received => ("RECEIVED", property.value.human.clone()),
    }
}

/// A property that `-o`, `-s` or an operand names.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Name in full, where the user gave a short form.
    pub name: String,
    /// The name with the id of a user or group instead of its name.
    lookup: String,
    /// The definition; `None`: a user property, or a property per user, group or project.
    pub def: Option<&'static PropertyDef>,
    /// The column width, so far.
    pub width: usize,
}

impl Wanted {
    /// Looks up a property by name. `None`: no property can have that name.
    pub fn new(name: &str) -> Option<Self> {
        if let Some(def) = property::find(name) {
            return Some(Self { name: def.name.into(), lookup: def.name.into(), def: Some(def), width: width(def) });
        }
        let counted = ["user", "group", "project"].iter().any(|who| {
            let rest = name.strip_prefix(who).unwrap_or_default();
            ["used@", "quota@", "objused@", "objquota@"].iter().any(|what| rest.starts_with(what))
        });
        let written = name.starts_with("written@") || name.starts_with("written#");
        let known = counted || written || property::is_user_property(name);
        let lookup = || admin::principals::with_id(name).into_owned();
        known.then(|| Self { name: name.into(), lookup: lookup(), def: None, width: name.len() })
    }

    /// The property of a dataset or bookmark, called as it was requested.
    pub fn get(&self, entry: &Entry, view: &View<'_>) -> Result<Option<Property>, errors::Error> {
        let found = property::get(entry, &self.lookup, view)?;
        Ok(found.map(|property| Property { name: self.name.clone(), ..property }))
    }

    /// Whether the column grows with its values: columns of names and words do, columns of numbers
    /// do not.
    fn flexible(&self) -> bool {
        match self.def.map(|d| d.value_type) {
            Some(ValueType::Number(unit)) => matches!(unit, Unit::Id | Unit::Time),
            Some(_) => true,
            None => property::is_user_property(&self.name),
        }
    }

    /// Widens the column to fit a value.
    pub fn fit(&mut self, property: Option<&Property>, literal: bool) {
        if (self.flexible() || literal)
            && let Some(property) = property
        {
            self.width = self.width.max(text(property, literal).len());
        }
    }

    /// The heading of the column.
    pub fn heading(&self) -> String {
        self.def.map_or_else(|| self.name.to_ascii_uppercase(), |d| d.column.to_owned())
    }

    /// Whether the column is aligned to the right.
    pub fn right(&self) -> bool {
        self.def.map_or(!property::is_user_property(&self.name), |d| d.right_align)
    }
}

fn width(def: &PropertyDef) -> usize {
    match def.value_type {
        ValueType::Number(_) => def.column.len().max(5),
        ValueType::Index(words) => words.iter().map(|(word, _)| word.len()).max().unwrap_or(0).max(def.column.len()),
        ValueType::Text => def.column.len(),
    }
}

/// The columns of `-o space`.
const SPACE: [&str; 7] =
    ["name", "available", "used", "usedbysnapshots", "usedbydataset", "usedbyrefreservation", "usedbychildren"];

/// Parses a list of properties, e.g. `name,used,com.example:note`.
pub fn wanted(list: &str) -> Result<Vec<Wanted>, Failure> {
    if list.is_empty() {
        return Err(Failure::usage("bad property list: no properties specified"));
    }
    let mut found = Vec::new();
    for name in list.split(',') {
        if name == "space" {
            found.extend(SPACE.iter().filter_map(|n| Wanted::new(n)));
            continue;
        }
        let bad = || Failure::usage(format!("bad property list: invalid property '{name}'"));
        found.push(Wanted::new(name).ok_or_else(bad)?);
    }
    Ok(found)
}

/// A column to sort by.
#[derive(Debug, Clone)]
pub struct SortColumn {
    pub column: Wanted,
    /// `-S`: descending.
    pub reverse: bool,
}

/// Parses `-s property` and `-S property` in the order given.
pub fn sort_columns(given: &[(char, String)]) -> Result<Vec<SortColumn>, Failure> {
    let mut columns = Vec::new();
    for (letter, name) in given.iter().filter(|(l, _)| matches!(l, 's' | 'S')) {
        let bad = || Failure::usage(format!("invalid property '{name}'"));
        columns.push(SortColumn { column: Wanted::new(name).ok_or_else(bad)?, reverse: *letter == 'S' });
    }
    Ok(columns)
}

/// Compares two values. A missing value sorts last in both directions.
pub fn compare(a: Option<&Property>, b: Option<&Property>, reverse: bool) -> std::cmp::Ordering {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let (a, b) = match (a, b) {
        (None, None) => return Equal,
        (None, Some(_)) => return Greater,
        (Some(_), None) => return Less,
        (Some(a), Some(b)) => (a, b),
    };
    // As in OpenZFS, words are in alphabetical order, whatever their numbers (zfs_compare).
    let are_words = property::find(&a.name).is_some_and(|def| matches!(def.value_type, ValueType::Index(_)));
    let order = match (&a.value.value, &b.value.value) {
        (Value::Number(x), Value::Number(y)) if !are_words => x.cmp(y),
        _ => a.value.raw.cmp(&b.value.raw),
    };
    if reverse { order.reverse() } else { order }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_openzfs_makes_them() {
        let w = |name: &str| Wanted::new(name).expect(name).width;
        assert_eq!(["used", "mountpoint", "compression", "recordsize", "atime"].map(w), [5, 10, 14, 7, 5]);
        assert_eq!(["com.example:note", "userquota@1000"].map(w), [16, 14]);
        assert!(Wanted::new("nosuch").is_none());
        let space: Vec<String> = wanted("space").expect("known").iter().map(Wanted::heading).collect();
        assert_eq!(space, ["NAME", "AVAIL", "USED", "USEDSNAP", "USEDDS", "USEDREFRESERV", "USEDCHILD"]);
    }

    #[test]
    fn long_values_are_cut_as_by_openzfs() {
        let clones = |n| Property {
            name: "clones".into(),
            value: property::PropertyValue::text("x".repeat(n)),
            source: Source::None,
            time: None,
        };
        assert_eq!([8191, 8192, 9421].map(|n| text(&clones(n), false).len()), [8191; 3]);
        assert_eq!(text(&clones(9421), true).len(), 8191);
    }

    #[test]
    fn what_has_no_value_comes_last() {
        use std::cmp::Ordering::{Greater, Less};
        let number = |n| Property {
            name: "used".into(),
            value: property::PropertyValue::bytes(n),
            source: Source::None,
            time: None,
        };
        assert_eq!(compare(Some(&number(9)), Some(&number(10)), false), Less);
        assert_eq!(compare(Some(&number(9)), Some(&number(10)), true), Greater);
        assert_eq!(compare(None, Some(&number(10)), true), Greater);
        let word = |word: &str, n| Property {
            name: "checksum".into(),
            value: property::PropertyValue { raw: word.into(), human: word.into(), value: Value::Number(n) },
            source: Source::Default,
            time: None,
        };
        assert_eq!(compare(Some(&word("on", 1)), Some(&word("fletcher2", 6)), false), Greater);
    }
}
