//! Re-exports that jump layers: `pub use` of another workspace crate's items. A user of them
//! depends on a crate that its row in ARCHITECTURE.md does not name.
//!
//! Each item counts, not each declaration. `pub(crate)` and `pub(super)` do not leave the crate.

use super::figure::{Figure, Place};
use super::modules::{Crate, Import, Module, Visibility};
use std::collections::BTreeSet;

/// `names` are the names of all workspace crates in code.
pub fn check(crates: &[Crate], names: &BTreeSet<String>) -> Vec<Figure> {
    let mut figures = Vec::new();
    for krate in crates {
        let mut places = Vec::new();
        for module in &krate.modules {
            for import in module.imports.iter().filter(|import| leaves(import, module, names)) {
                let star = if import.name.is_none() { "::*" } else { "" };
                let what = format!("pub use {}{star}", import.path.segments.join("::"));
                places.push(Place { path: krate.files[module.file].0.to_string(), line: import.path.line, what });
            }
        }
        places.sort();
        // A file that is part of the library and of the program.
        places.dedup();
        figures.push(Figure::of(krate.name, places));
    }
    figures
}

fn leaves(import: &Import, module: &Module, names: &BTreeSet<String>) -> bool {
    let first = import.path.segments[0];
    let is_here = module.children.contains_key(first) || module.items.contains(first);
    import.visibility == Visibility::Public && names.contains(first) && (import.path.absolute || !is_here)
}

#[cfg(test)]
mod tests {
    use super::super::modules::crates;
    use super::super::tree::testing::tree;
    use super::*;

    #[test]
    fn only_public_re_exports_of_other_crates_count() {
        let tree = tree(&[
            (
                "x/admin/src/lib.rs",
                "mod files;\nmod one;\npub use pool::{stats, facts::*};\npub use files::A;\npub use ::files::B;\n\
                 pub(crate) use pool::D;\nuse pool::E;\npub use std::fmt;\n#[cfg(test)]\npub use pool::F;",
            ),
            ("x/admin/src/files.rs", "pub struct A;"),
            ("x/admin/src/one.rs", "pub mod inline { pub use pool::G as H; }"),
            ("x/admin/tests/t.rs", "pub use pool::I;"),
        ]);
        let sources = tree.sources();
        let names = ["admin", "pool", "files"].map(str::to_string).into();
        let figures = check(&crates(&tree, &sources), &names);
        let places: Vec<String> = figures[0].places.iter().map(ToString::to_string).collect();
        let expected = [
            "x/admin/src/lib.rs:3: pub use pool::facts::*",
            "x/admin/src/lib.rs:3: pub use pool::stats",
            "x/admin/src/lib.rs:5: pub use files::B",
            "x/admin/src/one.rs:1: pub use pool::G",
        ];
        assert_eq!(places, expected);
        assert_eq!(figures[0].value, 4);
    }
}
