//! The devices of the allocator.

use super::group::Group;
use std::sync::Arc;

/// All devices, by number and by class.
#[derive(Default)]
pub(super) struct Table {
    /// By number of the top-level device.
    pub by_vdev: Vec<Option<Arc<Group>>>,
    pub by_class: [Vec<Arc<Group>>; 4],
}

impl Table {
    pub fn groups(&self) -> impl Iterator<Item = &Arc<Group>> {
        self.by_vdev.iter().flatten()
    }

    pub fn group(&self, vdev: u32) -> Option<&Arc<Group>> {
        self.by_vdev.get(vdev as usize)?.as_ref()
    }

    /// The same table with a new state of one of its devices.
    pub fn with(&self, group: Group) -> Self {
        let (vdev, group) = (group.vdev, Arc::new(group));
        let mut table = Self { by_vdev: self.by_vdev.clone(), by_class: self.by_class.clone() };
        for place in &mut table.by_class[group.class as usize] {
            if place.vdev == vdev {
                place.clone_from(&group);
            }
        }
        table.by_vdev[vdev as usize] = Some(group);
        table
    }

    pub fn add(&mut self, group: Group) {
        let group = Arc::new(group);
        let at = group.vdev as usize;
        if self.by_vdev.len() <= at {
            self.by_vdev.resize_with(at + 1, || None);
        }
        self.by_class[group.class as usize].push(group.clone());
        self.by_vdev[at] = Some(group);
    }
}
