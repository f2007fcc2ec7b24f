//! What depends on a dataset or snapshot, and in which order all of it can be destroyed.

use crate::verbs::{Kind, Refusal};
use dataset::Dataset;
use dataset::name::is_hidden;
use errors::Error;
use std::collections::HashSet;

/// What must be destroyed before a dataset, in a possible order: its descendants, its snapshots,
/// and their clones.
///
/// A dataset may be a clone of a snapshot below itself: a clone created below its origin and then
/// promoted. Then neither can be destroyed first.
#[derive(Default)]
pub struct Dependents {
    /// The names, in the order of destruction.
    pub names: Vec<String>,
    /// A dataset that depends on itself.
    circle: Option<String>,
    seen: HashSet<u64>,
}

/// Work left to do. Chains of clones have no length limit, so an explicit stack replaces recursion.
enum Visit {
    /// Visit the dependents of the file system or volume.
    Head(Dataset),
    /// Visit the dependents of the snapshot.
    Snapshot(Dataset),
    /// All dependents were visited.
    Done(Dataset),
}

impl Dependents {
    /// Adds the dependents of `head`.
    pub fn of_head(&mut self, head: &Dataset) -> Result<(), Error> {
        self.visit(Visit::Head(head.clone()))
    }

    /// Adds the clones of `snapshot` and their dependents.
    pub fn of_snapshot(&mut self, snapshot: &Dataset) -> Result<(), Error> {
        self.visit(Visit::Snapshot(snapshot.clone()))
    }

    fn visit(&mut self, first: Visit) -> Result<(), Error> {
        // The path from the first dataset to the one being visited.
        let mut way = HashSet::new();
        let mut left = vec![first];
        while let Some(visit) = left.pop() {
            let mut next = Vec::new();
            match visit {
                Visit::Head(head) if way.contains(&head.id()) => {
                    self.circle.get_or_insert_with(|| head.name().to_owned());
                }
                Visit::Head(head) if self.seen.contains(&head.id()) => {}
                Visit::Head(head) => {
                    way.insert(head.id());
                    let tree = head.tree();
                    for child in tree.children(head.dir())? {
                        self.add(&way, tree.head(&child)?, &mut next);
                    }
                    for snapshot in head.snapshots()? {
                        if !snapshot.snapshot_name().is_some_and(is_hidden) {
                            next.extend([Visit::Snapshot(snapshot.clone()), Visit::Done(snapshot)]);
                        }
                    }
                }
                Visit::Snapshot(snapshot) => {
                    for clone in snapshot.clones()? {
                        self.add(&way, clone, &mut next);
                    }
                }
                Visit::Done(dataset) => {
                    way.remove(&dataset.id());
                    self.push(&dataset);
                }
            }
            left.extend(next.into_iter().rev());
        }
        Ok(())
    }

    /// Pushes a child or a clone, unless it was visited already.
    fn add(&self, way: &HashSet<u64>, head: Dataset, next: &mut Vec<Visit>) {
        if way.contains(&head.id()) {
            next.push(Visit::Head(head));
        } else if !self.seen.contains(&head.id()) {
            next.extend([Visit::Head(head.clone()), Visit::Done(head)]);
        }
    }

    /// Adds `dataset` as the next one to destroy.
    pub fn push(&mut self, dataset: &Dataset) {
        if self.seen.insert(dataset.id()) {
            self.names.push(dataset.name().to_owned());
        }
    }

    /// Fails, as OpenZFS does, if a dataset depends on itself: no order of destruction exists.
    pub fn check_order(&self) -> Result<(), Refusal> {
        match &self.circle {
            None => Ok(()),
            Some(name) => {
                let what = format!("cannot determine dependent datasets: recursive dependency at '{name}'");
                Err(Refusal::new(Kind::Conflict, what))
            }
        }
    }
}
