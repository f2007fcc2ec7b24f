//! The kernel's table of mounts, and the mounts of Weir in it.

use std::path::Path;

/// What the kernel calls Weir's mounts.
const KIND: &str = "fuse.weir";

/// A mount of the kernel's table.
struct KernelMount {
    /// The dataset, of a mount of Weir.
    source: String,
    place: String,
    kind: String,
}

/// The kernel's table; a later mount hides an earlier one at the same place.
fn table() -> Vec<KernelMount> {
    let table = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let entry = |line: &str| {
        let mut parts = line.split(' ');
        let (source, place, kind) = (parts.next()?, parts.next()?, parts.next()?);
        Some(KernelMount { source: unescape(source), place: unescape(place), kind: kind.to_owned() })
    };
    table.lines().filter_map(entry).collect()
}

/// Datasets that `weir mount` has mounted, and where.
pub fn mounted() -> Vec<(String, String)> {
    table().into_iter().filter(|m| m.kind == KIND).map(|m| (m.source, m.place)).collect()
}

/// The dataset whose mount contains a path, which must be free of symbolic links; `None`: the path
/// is in no mount of Weir. `ours` are the datasets that this process serves, some of them through
/// the mount of another dataset.
pub fn holding(path: &Path, ours: &[(String, String)]) -> Option<String> {
    let depth = |place: &str| path.starts_with(place).then(|| Path::new(place).components().count());
    let kernel = table();
    let mount = kernel.iter().filter_map(|m| Some((depth(&m.place)?, m))).max_by_key(|(depth, _)| *depth);
    let shown = ours.iter().filter_map(|(dataset, place)| Some((depth(place)?, dataset))).max();
    match (mount, shown) {
        (Some((outer, mount)), Some((inner, dataset))) if inner > outer && mount.kind == KIND => Some(dataset.clone()),
        (Some((_, mount)), _) if mount.kind == KIND => Some(mount.source.clone()),
        _ => None,
    }
}

/// The kernel writes spaces and the like as a backslash and three octal digits.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let octal = tail.get(..3).filter(|d| *first == b'\\' && d.iter().all(|d| (b'0'..=b'7').contains(d)));
        match octal {
            Some(digits) => {
                let number = digits.iter().fold(0u32, |n, d| n * 8 + u32::from(d - b'0'));
                bytes.push(u8::try_from(number).unwrap_or(b'?'));
                rest = &tail[3..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_table_is_unescaped() {
        assert_eq!(unescape(r"tank/sp\040ace"), "tank/sp ace");
        assert_eq!(unescape(r"a\134b\9"), r"a\b\9");
    }
}
