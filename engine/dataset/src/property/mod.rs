//! Properties of datasets: definitions, set values and effective values.
//!
//! ```text
//!   def        structure of a definition      set      contents of one property ZAP, by suffix
//!   catalogue  every definition, in order     lookup   effective value of a dataset, its source
//!   value      machine- and human-readable    format   numbers and dates for people
//!              values
//! ```

pub mod catalogue;
pub mod def;
pub mod format;
mod lookup;
pub mod set;
mod setting;
mod stats;
pub mod value;
mod view;

pub use catalogue::CATALOGUE;
pub use def::{Attr, DefaultValue, Kinds, PropertyDef, Unit, ValueType, Visibility};
pub use format::parse_size;
pub use lookup::{all, get, received, user_properties, user_property_names};
pub(crate) use setting::number;
pub use value::{Property, PropertyValue, Source, Value};
pub use view::{MountOptions, Mounts, View};

use std::collections::HashMap;
use std::sync::OnceLock;

/// Finds the definition of `name`: a full name, or the short one that commands accept, which is the
/// property's column heading in lower case (`compress`, `recsize`). Facts: propname_match in
/// module/zcommon/zprop_common.c, which is case-sensitive; the kernel, names on disk and names in
/// streams use only full names.
pub fn find(name: &str) -> Option<&'static PropertyDef> {
    static BY_NAME: OnceLock<HashMap<String, &'static PropertyDef>> = OnceLock::new();
    let by_name = BY_NAME.get_or_init(|| {
        let short = CATALOGUE.iter().map(|def| (def.column.to_ascii_lowercase(), *def));
        short.chain(CATALOGUE.iter().map(|def| (def.name.to_owned(), *def))).collect()
    });
    by_name.get(name).copied()
}

/// The full name of a property that may be given by its short name. Names that are not in the
/// catalogue (user properties, user quotas) are returned unchanged.
pub fn full_name(name: &str) -> &str {
    find(name).map_or(name, |def| def.name)
}

/// Whether `name` is that of a user property: `module:name`.
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

    /// The names that OpenZFS's own commands accept (module/zcommon/zfs_prop.c), with `volthread`
    /// from 2.4; names that differ only in case are omitted.
    #[test]
    fn short_names_are_those_of_openzfs_and_each_is_of_one_property() {
        let short = |def: &&&PropertyDef| def.column.to_ascii_lowercase() != def.name;
        let short: Vec<_> = CATALOGUE.iter().filter(short).map(|d| (d.column.to_ascii_lowercase(), d.name)).collect();
        let text: Vec<String> = short.iter().map(|(short, name)| format!("{short}={name}")).collect();
        assert_eq!(
            text.join(" "),
            "avail=available refer=referenced ratio=compressratio reserv=reservation volblock=volblocksize \
             recsize=recordsize compress=compression rdonly=readonly case=casesensitivity refreserv=refreservation \
             usedsnap=usedbysnapshots usedds=usedbydataset usedchild=usedbychildren \
             usedrefreserv=usedbyrefreservation dnsize=dnodesize refratio=refcompressratio lused=logicalused \
             lrefer=logicalreferenced fslimit=filesystem_limit sslimit=snapshot_limit fscount=filesystem_count \
             sscount=snapshot_count redund_md=redundant_metadata resumetok=receive_resume_token \
             encroot=encryptionroot rsnaps=redact_snaps volthread=volthreading"
        );
        for (short, name) in short {
            assert_eq!(find(&short).map(|def| def.name), Some(name));
        }
    }

    #[test]
    fn a_default_that_is_a_word_is_known() {
        for def in CATALOGUE.iter().filter(|def| matches!(def.value_type, ValueType::Index(_))) {
            // The version of a file system is always read from it, never defaulted.
            assert!(def.name == "version" || def.word(def.default_number()).is_some(), "{}", def.name);
        }
    }

    #[test]
    fn properties_are_found_by_name_and_column() {
        assert_eq!(find("used").unwrap().name, "used");
        assert_eq!(find("avail").unwrap().name, "available");
        assert!(find("nosuch").is_none() && find("REFER").is_none());
        assert_eq!((full_name("recsize"), full_name("com.example:recsize")), ("recordsize", "com.example:recsize"));
        assert!(is_user_property("com.example:note") && !is_user_property("note") && !is_user_property("A:b"));
    }
}
