//! Changes of the configuration when devices are attached or detached: a parent is inserted above a
//! device, or removed. Pure functions: no device is accessed.
//!
//! Above: `attach`, `detach`, `split`. Facts: vdev_add_parent, vdev_remove_parent,
//! vdev_top_transfer, vdev_compact_children (module/zfs/vdev.c).
//!
//! Invariants:
//!   * children are numbered by their position
//!   * the space-related entries of a top-level device stay at the top, whichever device is there

use super::vdevs::new_guid;
use crate::config::VdevConfig;
use ondisk::nvlist::Nvlist;
use ondisk::pool_dir::config;

/// Entries that only top-level devices have. A device that becomes one takes them over.
const OF_TOPS: [&str; 9] = [
    config::METASLAB_ARRAY,
    config::METASLAB_SHIFT,
    config::ASHIFT,
    config::ASIZE,
    config::IS_LOG,
    config::NONALLOCATING,
    config::REMOVING,
    config::VDEV_TOP_ZAP,
    config::ALLOCATION_BIAS,
];

impl VdevConfig {
    /// The device with this guid: this one or a descendant.
    pub(crate) fn find_mut(&mut self, guid: u64) -> Option<&mut VdevConfig> {
        if self.guid == guid {
            return Some(self);
        }
        self.children.iter_mut().find_map(|c| c.find_mut(guid))
    }

    /// The parent of the device with this guid.
    pub(crate) fn parent(&self, guid: u64) -> Option<&VdevConfig> {
        if self.children.iter().any(|c| c.guid == guid) {
            return Some(self);
        }
        self.children.iter().find_map(|c| c.parent(guid))
    }

    /// The top-level device of the device with this guid; `self` is the root.
    pub(crate) fn top_of(&self, guid: u64) -> Option<&VdevConfig> {
        self.children.iter().find(|top| top.find(guid).is_some())
    }

    pub(crate) fn set_guid(&mut self, guid: u64) {
        self.guid = guid;
        self.all.put(config::GUID, guid);
    }

    /// Sets the position among the siblings.
    pub(crate) fn set_id(&mut self, id: u64) {
        self.id = id;
        self.all.put(config::ID, id);
    }

    /// Sets the path of a leaf.
    pub(crate) fn set_path(&mut self, path: &str) {
        self.path = Some(path.to_owned());
        self.all.put(config::PATH, path);
    }

    /// Numbers the children by their position.
    pub(crate) fn renumber(&mut self) {
        for (child, id) in self.children.iter_mut().zip(0..) {
            child.set_id(id);
        }
    }

    /// Whether two configurations describe the same device tree.
    pub(crate) fn is_same_tree(&self, other: &VdevConfig) -> bool {
        let same =
            |a: &VdevConfig, b: &VdevConfig| (&a.kind, a.id, a.guid, &a.path) == (&b.kind, b.id, b.guid, &b.path);
        // These determine the places of a raidz's sectors.
        let widths = |c: &VdevConfig| {
            (c.all.contains(config::RAIDZ_EXPANDING), c.all.get_u64_array(config::RAIDZ_EXPAND_TXGS).map(<[u64]>::len))
        };
        same(self, other)
            && widths(self) == widths(other)
            && self.children.len() == other.children.len()
            && self.children.iter().zip(&other.children).all(|(a, b)| a.is_same_tree(b))
    }
}

fn move_top(from: &mut VdevConfig, to: &mut VdevConfig) {
    for key in OF_TOPS {
        if let Some(value) = from.all.get(key).cloned() {
            to.all.put(key, value);
            from.all.remove(key);
        }
    }
}

/// Inserts a device of `kind` as the parent of the one with this guid. Returns the parent's guid.
pub(crate) fn add_parent(root: &mut VdevConfig, guid: u64, kind: &str) -> Option<u64> {
    let is_top = root.children.iter().any(|top| top.guid == guid);
    let place = root.find_mut(guid)?;
    let above = new_guid();
    let mut all = Nvlist::new();
    all.put(config::TYPE, kind);
    all.put(config::ID, place.id);
    all.put(config::GUID, above);
    if let Some(txg) = place.all.get_u64(config::CREATE_TXG) {
        all.put(config::CREATE_TXG, txg);
    }
    let mut parent = VdevConfig { kind: kind.into(), id: place.id, guid: above, path: None, all, children: Vec::new() };
    let mut child = std::mem::take(place);
    if is_top {
        move_top(&mut child, &mut parent);
    }
    child.set_id(0);
    parent.children.push(child);
    *place = parent;
    Some(above)
}

/// Removes a device that has one child: the child takes its place. A child that becomes a top-level
/// device gets the guid of the removed one, so that labels of the two are never taken for two
/// devices. Returns the child's guid before and after.
pub(crate) fn remove_parent(root: &mut VdevConfig, guid: u64) -> Option<(u64, u64)> {
    let is_top = root.children.iter().any(|top| top.guid == guid);
    let place = root.find_mut(guid)?;
    let mut parent = std::mem::take(place);
    let mut child = parent.children.pop()?;
    let before = child.guid;
    if is_top {
        child.set_guid(parent.guid);
        move_top(&mut parent, &mut child);
    }
    child.set_id(parent.id);
    let now = child.guid;
    *place = child;
    Some((before, now))
}

/// The side of a mirror that is in `going`, as a top-level device with the mirror's number and
/// space-related entries.
pub(crate) fn side_alone(mirror: &VdevConfig, going: &[u64]) -> VdevConfig {
    let mut mirror = mirror.clone();
    let side = mirror.children.iter().position(|child| going.contains(&child.guid));
    let mut side = side.map_or_else(VdevConfig::default, |at| mirror.children.swap_remove(at));
    move_top(&mut mirror, &mut side);
    side.set_id(mirror.id);
    side
}

/// Removes the device with this guid from its siblings, which are renumbered.
pub(crate) fn remove_child(root: &mut VdevConfig, guid: u64) -> Option<VdevConfig> {
    let parent = root.parent(guid)?.guid;
    let parent = root.find_mut(parent)?;
    let at = parent.children.iter().position(|c| c.guid == guid)?;
    let child = parent.children.remove(at);
    parent.renumber();
    Some(child)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A device as in a configuration.
    pub(in crate::writer) fn device(kind: &str, guid: u64, id: u64, children: Vec<VdevConfig>) -> VdevConfig {
        let mut all = Nvlist::new();
        all.put(config::TYPE, kind);
        all.put(config::GUID, guid);
        all.put(config::ID, id);
        VdevConfig { kind: kind.into(), id, guid, path: None, all, children }
    }

    #[test]
    fn space_and_identity_stay_with_the_top_level_vdev() {
        let mut leaf = device("file", 7, 0, vec![]);
        leaf.all.put(config::ASIZE, 99u64);
        leaf.all.put(config::VDEV_TOP_ZAP, 5u64);
        leaf.all.put(config::VDEV_LEAF_ZAP, 6u64);
        let mut root = device("root", 1, 0, vec![leaf]);
        let above = add_parent(&mut root, 7, "mirror").unwrap();
        let top = root.children[0].clone();
        assert_eq!((top.guid, top.number(config::ASIZE), top.number(config::VDEV_TOP_ZAP)), (above, 99, 5));
        let inner = &top.children[0];
        assert_eq!((inner.guid, inner.number(config::VDEV_LEAF_ZAP), inner.all.contains(config::ASIZE)), (7, 6, false));
        root.children[0].children.push(device("file", 8, 1, vec![]));
        assert_eq!(remove_child(&mut root, 7).map(|c| c.guid), Some(7));
        assert_eq!(root.children[0].children[0].id, 0);
        assert_eq!(remove_parent(&mut root, above), Some((8, above)));
        let top = &root.children[0];
        assert_eq!((top.kind.as_str(), top.guid, top.number(config::ASIZE)), ("file", above, 99));
        assert_eq!(top.number(config::GUID), above);
    }

    #[test]
    fn below_the_top_identities_stay() {
        let raidz = device("raidz", 2, 0, vec![device("file", 3, 0, vec![]), device("file", 4, 1, vec![])]);
        let mut root = device("root", 1, 0, vec![raidz]);
        let above = add_parent(&mut root, 4, "replacing").unwrap();
        let replacing = root.find(above).unwrap();
        assert_eq!((replacing.id, replacing.children[0].guid, replacing.children[0].id), (1, 4, 0));
        assert_eq!(remove_parent(&mut root, above), Some((4, 4)));
        assert_eq!((root.parent(4).unwrap().guid, root.find(4).unwrap().id), (2, 1));
        assert_eq!(root.top_of(4).map(|t| t.guid), Some(2));
    }
}
