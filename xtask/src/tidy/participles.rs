//! Files and folders of Rust sources that are named after a past participle: `told.rs` does not
//! state what it contains.
//!
//! The rule: the last word of the name (words are separated by `_`) is one of [`IRREGULAR`], or
//! ends in `ed` and is not one of [`NOT_PARTICIPLES`]. So `kept.rs` and `write_encrypted.rs` count,
//! and `encrypted_block.rs`, where the participle describes a noun, does not. A folder counts once,
//! with its `mod.rs` or a file of its name. Test programs and examples count as well.

use super::figure::{Figure, Place};
use super::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};

/// Irregular participles, without those that are usual as a noun or verb (`read`, `set`, `cut`,
/// `split`, `spread`, `put`).
const IRREGULAR: &str = "\
    awoken beaten become begun bent bitten born borne bought bound broken brought built caught \
    chosen clung dealt done drawn driven eaten fallen felt fled flown forgotten fought found \
    frozen given gone gotten grown heard held hidden kept known laid led left lent lost made \
    meant met mistaken outgrown overwritten paid proven rebuilt redone rewritten said seen sent \
    shaken shown slept sold sought spent spoken stolen stood stuck sunk swept taken taught \
    thought thrown told torn undone unknown unseen withdrawn woken won worn written";

/// Words that end in `ed` and are nouns or verbs, and OpenZFS's name for checksums in their block.
const NOT_PARTICIPLES: &str = "bed breed embed embedded exceed feed need proceed seed shed speed";

pub fn check(tree: &Tree) -> Vec<Figure> {
    let mut found: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (path, _) in tree.files(".rs") {
        let places = found.entry(tree.package_of(path)).or_default();
        let path = path.strip_suffix(".rs").unwrap_or(path);
        for (end, _) in path.match_indices('/').chain([(path.len(), "")]) {
            let name = path[..end].rsplit('/').next().unwrap_or_default();
            if is_participle(name) {
                places.insert(&path[..end]);
            }
        }
    }
    let figure = |(krate, places): (&str, BTreeSet<&str>)| {
        let place = |path: &str| {
            let file = format!("{path}.rs");
            let path = if tree.exists(&file) { file } else { format!("{path}/") };
            Place { path, line: 0, what: "is named after a past participle".to_string() }
        };
        Figure::of(krate, places.into_iter().map(place).collect())
    };
    found.into_iter().map(figure).collect()
}

fn is_participle(name: &str) -> bool {
    let word = name.rsplit('_').next().unwrap_or(name);
    let is_in = |list: &str| list.split(' ').any(|other| other == word);
    is_in(IRREGULAR) || (word.len() > 3 && word.ends_with("ed") && !is_in(NOT_PARTICIPLES))
}

#[cfg(test)]
mod tests {
    use super::super::tree::testing::tree;
    use super::*;

    #[test]
    fn participles_at_the_end_of_a_name_count() {
        for name in ["told", "kept", "sealed", "mounted_and_copied", "write_encrypted", "unknown"] {
            assert!(is_participle(name), "{name}");
        }
        for name in ["read", "speed", "parity_speed", "feed", "set", "encrypted_block", "kept_keys", "ed", "split"] {
            assert!(!is_participle(name), "{name}");
        }
    }

    #[test]
    fn a_folder_counts_once() {
        let files = [
            ("x/a/src/asked/mod.rs", ""),
            ("x/a/src/asked/one.rs", ""),
            ("x/a/src/taken.rs", ""),
            ("x/a/src/taken/two.rs", ""),
            ("x/a/src/lib.rs", ""),
            ("x/a/tests/written.rs", ""),
            ("x/b/src/lib.rs", ""),
        ];
        let tree = tree(&files);
        let figures = check(&tree);
        let places: Vec<&str> = figures[0].places.iter().map(|place| place.path.as_str()).collect();
        assert_eq!(places, ["x/a/src/asked/", "x/a/src/taken.rs", "x/a/tests/written.rs"]);
        assert_eq!((figures[1].krate.as_str(), figures[1].value), ("b", 0));
    }
}
