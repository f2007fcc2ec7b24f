//! What the tree lacks after a record could not be replayed, and which later records depend on it
//! and must not be replayed.
//!
//! A record is independent of a skipped one when they name different objects and different
//! directory entries. An independent record is replayed. A dependent one would change something
//! that the log does not mean:
//!
//! ```text
//!   skipped                 later                        if replayed anyway, it would
//!   create "a", object 9    write to object 9            change another file that has number 9
//!   rename "a" to "b"       remove "a" (a newer one)     remove the file that should be "b"
//!   write to object 9       rename object 9 over "b"     replace a whole file by an incomplete one
//!   write to object 9       write to object 9            leave a state the file never had
//!   link "a" as "b"         remove "a"                   remove the last name, and thus the file
//! ```
//! So an object that lacks a change keeps its state from before that change; so do directory
//! entries.

use ondisk::zil::Body;
use std::collections::HashMap;

/// State that later records must not depend on, with the number of the skipped record.
#[derive(Debug, Default)]
pub(super) struct Missing {
    /// Objects that were not created: the number may belong to another object.
    objects: HashMap<u64, u64>,
    /// Objects that lack a change of their contents or attributes.
    stale: HashMap<u64, u64>,
    /// Objects that lack a name: their existing name may be their last.
    nameless: HashMap<u64, u64>,
    /// Directory entries, in lower case: names that differ only in case may be the same.
    entries: HashMap<(u64, Vec<u8>), u64>,
    /// The file that a hidden directory of extended attributes, or an object in it, belongs to,
    /// if the log creates them.
    owners: HashMap<u64, u64>,
    /// A record that could not be parsed: any later one may depend on it.
    blind: Option<u64>,
}

fn entry(directory: u64, name: &[u8]) -> (u64, Vec<u8>) {
    (directory, name.to_ascii_lowercase())
}

/// The object of a record that concerns only its contents or attributes (`TX_OOO`).
pub(super) fn contents_of(body: &Body<'_>) -> Option<u64> {
    match body {
        Body::Write { object, .. }
        | Body::Truncate { object, .. }
        | Body::SetAttr { object, .. }
        | Body::Acl { object, .. }
        | Body::SetSaXattr { object, .. }
        | Body::CloneRange { object, .. } => Some(*object),
        _ => None,
    }
}

impl Missing {
    /// Whether nothing was skipped.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.stale.is_empty() && self.entries.is_empty() && self.blind.is_none()
    }

    /// The skipped record that `body` depends on.
    pub fn needed_by(&self, body: &Body<'_>) -> Option<u64> {
        let object = |id: &u64| self.objects.get(id);
        let named = |directory: u64, name: &[u8]| self.entries.get(&entry(directory, name));
        let found = match body {
            Body::Create(c) => object(&c.directory).or_else(|| named(c.directory, c.name)),
            Body::Remove { directory, name } => object(directory).or_else(|| named(*directory, name)),
            Body::Link { directory, object: id, name } => {
                object(directory).or_else(|| object(id)).or_else(|| named(*directory, name))
            }
            Body::Rename { from_directory, to_directory, from, to, .. } => object(from_directory)
                .or_else(|| object(to_directory))
                .or_else(|| named(*from_directory, from))
                .or_else(|| named(*to_directory, to)),
            Body::Commit => None,
            other => contents_of(other).and_then(|id| object(&id).or_else(|| self.stale.get(&id))),
        };
        self.blind.or(found.copied())
    }

    /// The skipped record that a file being moved or unlinked lacks. `find` resolves a name to
    /// an object.
    pub fn lacked_by_named(&self, body: &Body<'_>, find: &dyn Fn(u64, &[u8]) -> Option<u64>) -> Option<u64> {
        let lacked = |lacks: &HashMap<u64, u64>, directory: u64, name: &[u8]| {
            if lacks.is_empty() { None } else { find(directory, name).and_then(|id| lacks.get(&id).copied()) }
        };
        match body {
            Body::Remove { directory, name } => lacked(&self.nameless, *directory, name),
            Body::Rename { from_directory, to_directory, from, to, .. } => {
                lacked(&self.stale, *from_directory, from).or_else(|| lacked(&self.nameless, *to_directory, to))
            }
            _ => None,
        }
    }

    /// Record `sequence` was skipped.
    pub fn note(&mut self, sequence: u64, body: &Body<'_>) {
        match body {
            Body::Create(c) => {
                self.objects.insert(c.object, sequence);
                self.entries.insert(entry(c.directory, c.name), sequence);
                if let Some(owner) = self.owners.get(&c.directory).copied() {
                    self.stale.insert(owner, sequence);
                }
            }
            Body::Remove { directory, name } => {
                self.entries.insert(entry(*directory, name), sequence);
            }
            Body::Link { directory, object, name } => {
                self.entries.insert(entry(*directory, name), sequence);
                self.nameless.insert(*object, sequence);
            }
            Body::Rename { from_directory, to_directory, from, to, whiteout } => {
                self.entries.insert(entry(*from_directory, from), sequence);
                self.entries.insert(entry(*to_directory, to), sequence);
                self.objects.extend(whiteout.map(|w| (w.object, sequence)));
            }
            Body::Commit => {}
            other => {
                if let Some(id) = contents_of(other) {
                    self.stale.insert(id, sequence);
                    if let Some(owner) = self.owners.get(&id).copied() {
                        self.stale.insert(owner, sequence);
                    }
                }
            }
        }
        self.follow(body);
    }

    /// Record `sequence` was skipped, and its contents are unknown.
    pub fn note_unknown(&mut self, sequence: u64) {
        self.blind.get_or_insert(sequence);
    }

    pub fn done(&mut self, body: &Body<'_>) {
        if let Body::Create(c) = body {
            // From here on, the number means the object that the log means.
            self.objects.remove(&c.object);
            self.stale.remove(&c.object);
            self.nameless.remove(&c.object);
            self.owners.remove(&c.object);
        }
        self.follow(body);
    }

    fn follow(&mut self, body: &Body<'_>) {
        if let Body::Create(c) = body {
            let owner = match c.name {
                // A hidden directory has no name.
                [] => Some(c.directory),
                _ => self.owners.get(&c.directory).copied(),
            };
            self.owners.extend(owner.map(|owner| (c.object, owner)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondisk::zil::record::Create;

    fn create(directory: u64, name: &'static [u8], object: u64) -> Body<'static> {
        Body::Create(Create {
            directory,
            object,
            slots: 1,
            mode: 0o100644,
            uid: 0,
            gid: 0,
            generation: 1,
            created: [0, 0],
            rdev: 0,
            attributes: None,
            acl: None,
            domains: Vec::new(),
            name,
            target: None,
        })
    }

    #[test]
    fn a_file_that_lacks_a_name_keeps_the_one_that_it_has() {
        let mut missing = Missing::default();
        missing.note(1, &Body::Link { directory: 34, object: 9, name: b"b" });
        let find = |_: u64, name: &[u8]| if name == b"a" { Some(9) } else { Some(8) };
        let remove = |name| Body::Remove { directory: 34, name };
        assert_eq!(missing.lacked_by_named(&remove(b"a"), &find), Some(1));
        assert_eq!(missing.lacked_by_named(&remove(b"c"), &find), None);
        assert_eq!(missing.lacked_by_named(&rename(b"c", b"a"), &find), Some(1), "it would be replaced");
        assert_eq!(missing.lacked_by_named(&rename(b"a", b"c"), &find), None, "it keeps a name");
    }

    fn truncate(object: u64) -> Body<'static> {
        Body::Truncate { object, offset: 0, length: 0 }
    }

    fn rename(from: &'static [u8], to: &'static [u8]) -> Body<'static> {
        Body::Rename { from_directory: 34, to_directory: 34, from, to, whiteout: None }
    }

    fn remove(name: &'static [u8]) -> Body<'static> {
        Body::Remove { directory: 34, name }
    }

    #[test]
    fn records_of_the_same_object_or_entry_depend_and_no_others() {
        let mut m = Missing::default();
        assert!(m.is_empty());
        m.note(5, &create(34, b"a", 9));
        for dependent in
            [create(9, b"x", 10), truncate(9), remove(b"a"), remove(b"A"), rename(b"a", b"b"), rename(b"b", b"a")]
        {
            assert_eq!(m.needed_by(&dependent), Some(5), "{dependent:?}");
        }
        for independent in [create(34, b"c", 10), truncate(10), remove(b"b"), rename(b"c", b"d")] {
            assert_eq!(m.needed_by(&independent), None, "{independent:?}");
        }
        let link = |object, name| Body::Link { directory: 34, object, name };
        assert_eq!(m.needed_by(&link(9, b"z")), Some(5));
        assert_eq!(m.needed_by(&link(8, b"z")), None);
        // The number is assigned to a new file.
        m.done(&create(34, b"new", 9));
        assert_eq!(m.needed_by(&truncate(9)), None);
    }

    #[test]
    fn a_file_that_lacks_a_change_takes_no_place() {
        let mut m = Missing::default();
        m.note(7, &truncate(9));
        assert_eq!(m.needed_by(&truncate(9)), Some(7));
        let move_it = rename(b"tmp", b"file");
        assert_eq!(m.needed_by(&move_it), None);
        assert_eq!(m.lacked_by_named(&move_it, &|_, name| (name == b"tmp").then_some(9)), Some(7));
        assert_eq!(m.lacked_by_named(&move_it, &|_, _| Some(8)), None);
        // Removing it affects no other file.
        assert_eq!(m.needed_by(&remove(b"tmp")), None);
    }

    #[test]
    fn a_file_whose_attribute_lacks_its_contents_lacks_a_change() {
        let mut m = Missing::default();
        m.done(&create(9, b"", 20));
        m.done(&create(20, b"system.posix_acl_access", 21));
        m.note(7, &truncate(21));
        assert_eq!(m.needed_by(&truncate(9)), Some(7));
    }

    #[test]
    fn nothing_is_replayed_after_an_unknown_record() {
        let mut m = Missing::default();
        m.note_unknown(3);
        m.note_unknown(4);
        assert_eq!(m.needed_by(&truncate(1000)), Some(3));
    }
}
