//! The names of devices: by path, by last component, by guid, with symbolic links resolved.

use pool::status::{PoolStatus, VdevStatus};

/// How devices are named in output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NameOptions {
    /// `-g`: by guid.
    pub guid: bool,
    /// `-L`: with symbolic links resolved.
    pub follow: bool,
    /// `-P`: with the full path.
    pub path: bool,
}

/// The name of a device under these options.
pub fn vdev_name(vdev: &VdevStatus, options: NameOptions) -> String {
    if options.guid || vdev.not_present {
        return vdev.guid.to_string();
    }
    let Some(path) = vdev.path.as_ref().filter(|_| vdev.is_leaf() && vdev.kind != "dspare") else {
        return if vdev.kind == "root" { "root-0".to_owned() } else { vdev.name.clone() };
    };
    let path = match options.follow.then(|| std::fs::canonicalize(path)) {
        Some(Ok(real)) => real.to_string_lossy().into_owned(),
        _ => path.clone(),
    };
    if vdev.kind != "disk" || options.path {
        return path;
    }
    let name = path.strip_prefix("/dev/").map_or(path.as_str(), |_| path.rsplit('/').next().unwrap_or(&path));
    if vdev.whole_disk { without_partition(name).to_owned() } else { name.to_owned() }
}

/// Finds a device of a pool by name, path, last component of the path, or guid. `root` is the whole
/// tree.
pub fn find<'a>(status: &'a PoolStatus, device: &str) -> Option<&'a VdevStatus> {
    let is_it = |v: &&VdevStatus| {
        vdev_name(v, NameOptions::default()) == device
            || v.guid.to_string() == device
            || (device == "root" && v.kind == "root")
            || v.path.as_ref().is_some_and(|p| p == device || p.rsplit('/').next() == Some(device))
    };
    status.all_vdevs().into_iter().find(is_it)
}

/// Strips the partition: `sda1` -> `sda`, `nvme0n1p1` -> `nvme0n1`, `wwn-0x5000-part1` ->
/// `wwn-0x5000`.
fn without_partition(name: &str) -> &str {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    if stem.len() == name.len() || stem.is_empty() {
        return name;
    }
    if let Some(disk) = stem.strip_suffix("-part") {
        return disk;
    }
    match stem.strip_suffix('p') {
        Some(disk) if disk.ends_with(|c: char| c.is_ascii_digit()) => disk,
        _ if ["sd", "hd", "vd", "xvd"].iter().any(|d| stem.strip_prefix(d).is_some_and(is_letters)) => stem,
        _ => name,
    }
}

fn is_letters(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase())
}

/// The width of the longest name in a tree, indentation included.
pub fn width(vdev: &VdevStatus, depth: usize, options: NameOptions) -> usize {
    let below = vdev.children.iter().map(|c| width(c, depth + 2, options)).max().unwrap_or(0);
    below.max(vdev_name(vdev, options).len() + depth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_are_named_without_folder_and_partition() {
        let disk = |path: &str, whole_disk| VdevStatus {
            kind: "disk".into(),
            path: Some(path.into()),
            whole_disk,
            guid: 5,
            ..VdevStatus::default()
        };
        let name = |path: &str, whole| vdev_name(&disk(path, whole), NameOptions::default());
        assert_eq!(name("/dev/sda1", true), "sda");
        assert_eq!(name("/dev/sda1", false), "sda1");
        assert_eq!(name("/dev/disk/by-id/wwn-0x50-part1", true), "wwn-0x50");
        assert_eq!(name("/dev/nvme0n1p1", true), "nvme0n1");
        assert_eq!(name("/dev/loop0", true), "loop0");
        let full = NameOptions { path: true, ..NameOptions::default() };
        assert_eq!(vdev_name(&disk("/dev/sda1", true), full), "/dev/sda1");
        assert_eq!(vdev_name(&VdevStatus { not_present: true, ..disk("/dev/sdb", true) }, full), "5");
    }
}
