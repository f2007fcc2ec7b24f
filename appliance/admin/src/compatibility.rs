//! Feature sets: the default for new pools, and the files that the property `compatibility` names.
//!
//! Facts: zpool_load_compat in lib/libzfs/libzfs_pool.c.

use pool::property::FEATURES_2_3;
use pool::writer;
use std::collections::BTreeSet;
use std::path::Path;

/// Folders with the files, in search order.
const PLACES: [&str; 2] = ["/etc/zfs/compatibility.d", "/usr/share/zfs/compatibility.d"];
/// Maximum file size, in bytes.
const FILE_BYTES_MAX: usize = 16 << 10;

/// Whether OpenZFS 2.3 or Weir knows a feature of that name.
pub fn is_feature(name: &str) -> bool {
    FEATURES_2_3.contains(&name) || writer::check_features([name]).is_ok()
}

/// The features that a value of `compatibility` allows; `None` for all. Fails with a description of
/// the files that cannot be used.
pub fn load(value: &str) -> Result<Option<BTreeSet<String>>, String> {
    match value {
        "" | "off" => return Ok(None),
        "legacy" => return Ok(Some(BTreeSet::new())),
        _ => {}
    }
    let (mut allowed, mut unreadable, mut unknown) = (None::<BTreeSet<String>>, String::new(), String::new());
    for file in value.split(',').filter(|f| !f.is_empty()) {
        let read = PLACES.iter().enumerate().find_map(|(i, place)| {
            let text = std::fs::read_to_string(Path::new(place).join(file)).ok()?;
            Some((i == 0, text))
        });
        let Some((is_local, text)) = read.filter(|(_, t)| t.len() <= FILE_BYTES_MAX && t.ends_with('\n')) else {
            unreadable += &format!("{file} ");
            continue;
        };
        let words = text.lines().filter_map(|l| l.split('#').next()).flat_map(|l| l.split([',', ' ', '\t']));
        let mut found = BTreeSet::new();
        for word in words.filter(|w| !w.is_empty()) {
            if is_feature(word) {
                found.insert(word.to_owned());
            } else if is_local {
                unknown += &format!("{word} ");
            }
        }
        allowed = Some(match allowed {
            Some(before) => before.intersection(&found).cloned().collect(),
            None => found,
        });
    }
    match (unreadable.is_empty(), unknown.is_empty(), allowed) {
        (false, ..) => Err(format!("could not read/parse feature file(s): {unreadable}")),
        (_, _, None) => Err("no valid compatibility files specified".to_owned()),
        (_, false, _) => Err(format!("invalid feature name(s) in local compatibility files: {unknown}")),
        (.., allowed) => Ok(allowed),
    }
}

/// The features of a new pool, or those that an upgrade enables: all features of OpenZFS 2.3 that
/// Weir can write and `compatibility` allows.
pub fn features(compatibility: &str) -> Result<Vec<String>, String> {
    let allowed = load(compatibility)?;
    let is_allowed = |name: &&str| allowed.as_ref().is_none_or(|a| a.contains(*name));
    Ok(writer::default_features().filter(is_allowed).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_pool_has_all_writable_features_and_legacy_none() {
        let all = features("off").expect("no file is needed");
        assert!(all.iter().any(|f| f == "lz4_compress") && !all.iter().any(|f| f == "draid_failure_domains"));
        assert_eq!(features("legacy").expect("no file is needed"), Vec::<String>::new());
        assert!(is_feature("block_cloning") && !is_feature("nosuch"));
    }

    #[test]
    fn a_file_allows_what_it_names() {
        if !Path::new(PLACES[1]).join("zol-0.6.5").is_file() {
            println!("skipped: install zfsutils-linux for its compatibility files");
            return;
        }
        let some = features("zol-0.6.5").expect("a good file");
        assert!(some.iter().any(|f| f == "lz4_compress") && !some.iter().any(|f| f == "zstd_compress"));
        let fewer = features("zol-0.6.5,grub2").expect("good files");
        assert!(fewer.len() <= some.len());
    }
}
