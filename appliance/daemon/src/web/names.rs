//! Names and values in requests, checked before anything gets them.
//!
//! Invariants:
//!   * text from a request is never an option of a command line: it begins with a letter or digit,
//!     or is a path

use super::reply::{Answer, Problem};
use std::collections::BTreeMap;

/// Properties of a request, if their names and values are possible.
pub fn assignments(properties: BTreeMap<String, String>) -> Answer<Vec<(String, String)>> {
    for (name, value) in &properties {
        property_name(name)?;
        property_value(name, value)?;
    }
    Ok(properties.into_iter().collect())
}

/// Refuses invalid names of pools, datasets, snapshots and bookmarks.
pub fn dataset_name<'a>(place: &str, name: &'a str) -> Answer<&'a str> {
    let first = name.chars().next().is_some_and(char::is_alphanumeric);
    let rest = name.chars().all(|c| c.is_alphanumeric() || "-_.: /@#%".contains(c));
    match first && rest && name.len() < 256 {
        true => Ok(name),
        false => Err(Problem::invalid(
            place,
            format!("'{name}'"),
            "a name that begins with a letter or digit, of letters, digits, '-', '_', '.', ':' and '/'",
        )),
    }
}

/// Refuses invalid property names.
pub fn property_name(name: &str) -> Answer<&str> {
    let first = name.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
    let rest = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.:@#".contains(c));
    match first && rest && name.len() < 256 {
        true => Ok(name),
        false => Err(Problem::invalid("property", format!("'{name}'"), "the name of a property")),
    }
}

fn property_value(name: &str, value: &str) -> Answer<()> {
    match value.contains('\0') || value.len() > 8192 {
        true => Err(Problem::invalid(name, "too long, or has a zero byte", "at most 8192 bytes of text")),
        false => Ok(()),
    }
}

/// Refuses paths that are not absolute.
pub fn absolute_path<'a>(place: &str, path: &'a str) -> Answer<&'a str> {
    match path.starts_with('/') && !path.contains('\0') && path.len() < 4096 {
        true => Ok(path),
        false => Err(Problem::invalid(place, format!("'{path}'"), "an absolute path")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_requests_are_never_options() {
        for name in ["-f", "", "--help", "a\nb", "tank/$(x)", &"x".repeat(256)] {
            assert!(dataset_name("name", name).is_err(), "{name}");
        }
        for name in ["tank", "tank/a b", "tank/a@s:1", "tank#b", "9lives", "tank/ü"] {
            assert!(dataset_name("name", name).is_ok(), "{name}");
        }
        assert!(property_name("-o").is_err() && property_name("a=b").is_err() && property_name("org.x:y").is_ok());
        assert!(absolute_path("path", "-x").is_err() && absolute_path("path", "/dev/sda").is_ok());
        let properties = BTreeMap::from([("compression".to_owned(), "-rf".to_owned())]);
        assert_eq!(assignments(properties), Ok(vec![("compression".to_owned(), "-rf".to_owned())]));
        assert!(assignments(BTreeMap::from([("-o".to_owned(), String::new())])).is_err());
        assert!(assignments(BTreeMap::from([("comment".to_owned(), "a\0b".to_owned())])).is_err());
    }
}
