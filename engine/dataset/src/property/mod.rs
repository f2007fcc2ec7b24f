//! Properties of datasets: what there is, what is set, what holds.
//!
//! ```text
//!   def        the shape of a definition          set      what one ZAP of properties holds, by suffix
//!   catalogue  every definition, in order         lookup   what holds for a dataset, and from where
//!   value      a value as programs and people read it      format   numbers and dates for people
//! ```

pub mod catalogue;
pub mod def;
pub mod format;
mod lookup;
pub mod set;
mod stats;
pub mod value;

pub use catalogue::CATALOGUE;
pub use def::{Attr, DefaultValue, Kinds, PropertyDef, Unit, ValueType, Visibility};
pub use format::parse_size;
pub(crate) use lookup::number;
pub use lookup::{Mounts, View, all, get, received, user_properties, user_property_names};
pub use value::{Property, PropertyValue, Source, Value};

use std::collections::HashMap;
use std::sync::OnceLock;

/// The definition of `name`, by its name or by the heading of its column, as `zfs list -o` takes it.
pub fn find(name: &str) -> Option<&'static PropertyDef> {
    static BY_NAME: OnceLock<HashMap<&'static str, &'static PropertyDef>> = OnceLock::new();
    let by_name = BY_NAME.get_or_init(|| CATALOGUE.iter().map(|def| (def.name, *def)).collect());
    if let Some(def) = by_name.get(name) {
        return Some(def);
    }
    CATALOGUE.iter().find(|def| def.column.eq_ignore_ascii_case(name)).copied()
}

/// Whether `name` is that of a property that a user invents: `module:name`.
pub fn is_user_property(name: &str) -> bool {
    name.contains(':')
        && name.len() < 256
        && name.bytes().all(|c| matches!(c, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_property_is_defined_once() {
        let mut names: Vec<_> = CATALOGUE.iter().map(|def| def.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CATALOGUE.len());
        assert_eq!(CATALOGUE.len(), 108);
    }

    #[test]
    fn a_default_that_is_a_word_is_known() {
        for def in CATALOGUE.iter().filter(|def| matches!(def.value_type, ValueType::Index(_))) {
            // The version of a file system is read from it, never defaulted.
            assert!(def.name == "version" || def.word(def.default_number()).is_some(), "{}", def.name);
        }
    }

    #[test]
    fn properties_are_found_by_name_and_column() {
        assert_eq!(find("used").unwrap().name, "used");
        assert_eq!(find("avail").unwrap().name, "available");
        assert_eq!(find("REFER").unwrap().name, "referenced");
        assert!(find("nosuch").is_none());
        assert!(is_user_property("com.example:note") && !is_user_property("note") && !is_user_property("A:b"));
    }
}
