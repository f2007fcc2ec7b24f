//! A model of what one thread did to its directory, and what was acknowledged as durable. Each tree
//! found after a kill is checked against it.
//!
//! ```text
//!   names:   base, then steps: create, mkdir, link, rename, ...
//!   a file:  base, then changes: write, truncate, ...
//!   what is found must be the state after one of them
//! ```
//! Names change in the order of the operations, and so does each file. A file that was never synced
//! may be older than the names around it, but not newer.
//!
//! Invariants:
//!   * nothing may be older than what was synced
//!   * the target of a rename or link has at least the contents that it had then
//!   * a change in progress may be present or not; a write that is one request to the server, and
//!     fits into one record of the log, is never torn
//!   * the log takes the contents of a write when it is committed, not when the write was made: a
//!     replayed write may contain bytes of a later one that was never synced. OpenZFS does the same
//!     (its `WR_NEED_COPY`).

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Instant;

/// A longer write that was never synced may be torn, because it needs several log records.
const RECORD_BYTES: usize = 100 << 10;
/// The kernel splits writes into requests at multiples of this.
const PAGE_BYTES: usize = 4096;

/// State of a file.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct State {
    pub data: Vec<u8>,
    pub mode: u32,
    /// Value of the attribute `user.a`.
    pub xattr: Option<Vec<u8>>,
}

/// A change of one file.
#[derive(Clone)]
pub enum Change {
    /// (offset, bytes).
    Write(u64, Vec<u8>),
    /// New size in bytes.
    Truncate(u64),
    /// (offset, length) to be zeroed, not beyond the end of the file.
    Punch(u64, u64),
    /// New permission bits.
    Mode(u32),
    /// New value of the attribute `user.a`.
    Xattr(Option<Vec<u8>>),
}

/// A change of names. Paths are relative to the thread's directory.
#[derive(Clone, Debug)]
pub enum Step {
    /// Creates a file with this index.
    Create(String, usize),
    Mkdir(String),
    Rmdir(String),
    /// Creates a symbolic link with this target.
    Symlink(String, String),
    /// Gives the file with the first name a second one.
    Link(String, String),
    Unlink(String),
    /// Renames the first to the second.
    Rename(String, String),
    /// Exchanges the two names.
    Exchange(String, String),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Entry {
    /// A file, by index.
    File(usize),
    Dir,
    /// A symbolic link with its target.
    Symlink(String),
}

/// Objects by path, relative to the thread's directory.
pub type Names = BTreeMap<String, Entry>;

struct Done {
    change: Change,
    finished: bool,
    /// Number of name steps that started before it.
    after_steps: usize,
}

#[derive(Default)]
pub struct File {
    /// Inode number, once it is known.
    pub inode: Option<u64>,
    pub now: State,
    base: State,
    changes: Vec<Done>,
    synced: usize,
}

struct Named {
    step: Step,
    finished: Option<Instant>,
    /// (file, number of its changes) when a rename or link gave it a name.
    floor: Option<(usize, usize)>,
}

/// See the module documentation.
#[derive(Default)]
pub struct Model {
    pub now: Names,
    /// All files, including those without a name.
    pub files: Vec<File>,
    base: Names,
    steps: Vec<Named>,
    synced: usize,
}

/// A named object in a tree that was found after a kill.
#[derive(Clone, PartialEq, Eq)]
pub enum Found {
    /// A file: inode number, link count, state.
    File(u64, u64, State),
    Dir,
    /// A symbolic link with its target.
    Symlink(String),
}

/// Found objects by path.
pub type Tree = BTreeMap<String, Found>;

pub fn change(state: &mut State, change: &Change) {
    match change {
        Change::Write(at, bytes) => {
            let (at, end) = (*at as usize, *at as usize + bytes.len());
            if state.data.len() < end {
                state.data.resize(end, 0);
            }
            state.data[at..end].copy_from_slice(bytes);
        }
        Change::Truncate(len) => state.data.resize(*len as usize, 0),
        Change::Punch(at, len) => {
            let size = state.data.len();
            let (from, to) = ((*at as usize).min(size), (*at as usize + *len as usize).min(size));
            state.data[from..to].fill(0);
        }
        Change::Mode(mode) => state.mode = *mode,
        Change::Xattr(value) => state.xattr.clone_from(value),
    }
}

pub fn step(names: &mut Names, step: &Step) {
    match step {
        Step::Create(path, file) => drop(names.insert(path.clone(), Entry::File(*file))),
        Step::Mkdir(path) => drop(names.insert(path.clone(), Entry::Dir)),
        Step::Symlink(path, target) => drop(names.insert(path.clone(), Entry::Symlink(target.clone()))),
        Step::Rmdir(path) | Step::Unlink(path) => drop(names.remove(path)),
        Step::Link(from, to) => {
            if let Some(entry) = names.get(from).cloned() {
                names.insert(to.clone(), entry);
            }
        }
        Step::Rename(from, to) => {
            let below = format!("{from}/");
            let moved: Vec<String> = names.keys().filter(|p| *p == from || p.starts_with(&below)).cloned().collect();
            for path in moved {
                if let Some(entry) = names.remove(&path) {
                    names.insert(format!("{to}{}", &path[from.len()..]), entry);
                }
            }
        }
        Step::Exchange(a, b) => {
            if let (Some(x), Some(y)) = (names.remove(a), names.remove(b)) {
                names.insert(a.clone(), y);
                names.insert(b.clone(), x);
            }
        }
    }
}

impl Model {
    /// Records that a step begins.
    pub fn begin(&mut self, step: Step) {
        let renamed = match &step {
            Step::Link(from, _) | Step::Rename(from, _) => self.now.get(from),
            _ => None,
        };
        let floor = match renamed {
            Some(Entry::File(file)) => Some((*file, self.files[*file].changes.len())),
            _ => None,
        };
        self.steps.push(Named { step, finished: None, floor });
    }

    /// Records that the last step is complete.
    pub fn finish(&mut self) {
        if let Some(last) = self.steps.last_mut() {
            last.finished = Some(Instant::now());
            step(&mut self.now, &last.step);
        }
    }

    /// Records that a change of a file begins.
    pub fn begin_change(&mut self, file: usize, change: Change) {
        let after_steps = self.steps.len();
        self.files[file].changes.push(Done { change, finished: false, after_steps });
    }

    /// Records that the last change is complete.
    pub fn finish_change(&mut self, file: usize) {
        let file = &mut self.files[file];
        if let Some(last) = file.changes.last_mut() {
            last.finished = true;
            change(&mut file.now, &last.change);
        }
    }

    /// A file was synced, and with it all names.
    pub fn synced_file(&mut self, file: usize) {
        self.files[file].synced = self.files[file].changes.len();
        self.synced_names();
    }

    /// All names were synced.
    pub fn synced_names(&mut self) {
        self.synced = self.steps.len();
    }

    /// Compares what was found with what is allowed, and continues from it. `synced_since`: when
    /// the last acknowledged sync of any thread began; names that existed then must exist now.
    pub fn judge(&mut self, found: &Tree, synced_since: Option<Instant>) -> Result<(), String> {
        let before = |named: &Named| matches!((named.finished, synced_since), (Some(at), Some(since)) if at < since);
        let by_others = self.steps.iter().rposition(before).map_or(0, |at| at + 1);
        let least = self.synced.max(by_others);
        let mut names = self.base.clone();
        let mut complaints = String::new();
        for count in 0..=self.steps.len() {
            if count > 0 {
                step(&mut names, &self.steps[count - 1].step);
            }
            if let Some(difference) = self.differs(&names, found) {
                if count == least || count == self.steps.len() {
                    let _ = writeln!(complaints, "  names after step {count}: {difference}");
                }
                continue;
            }
            if count < least {
                let _ = writeln!(complaints, "  the names are those after step {count}");
                continue;
            }
            match self.contents_after(&names, count, found) {
                Ok(()) => {
                    self.rebase(names, found);
                    return Ok(());
                }
                Err(what) => {
                    let _ = writeln!(complaints, "  the names are those after step {count}, but {what}");
                }
            }
        }
        let steps = self.steps.len();
        let mut report = format!(
            "{steps} steps, {} synced by this thread, {by_others} by any; none matches the current state:\n{complaints}",
            self.synced
        );
        for (number, named) in self.steps.iter().enumerate().skip(least.saturating_sub(6)) {
            let _ = writeln!(report, "  step {}: {:?}, done: {}", number + 1, named.step, named.finished.is_some());
        }
        Err(report)
    }

    fn differs(&self, names: &Names, found: &Tree) -> Option<String> {
        for (path, entry) in names {
            match (entry, found.get(path)) {
                (_, None) => return Some(format!("{path} is missing")),
                (Entry::File(file), Some(Found::File(inode, links, _))) => {
                    let known = self.files[*file].inode;
                    if known.is_some_and(|known| known != *inode) {
                        return Some(format!("{path} is inode {inode}, not {known:?}"));
                    }
                    let expected = names.values().filter(|e| *e == entry).count() as u64;
                    if *links != expected {
                        return Some(format!("{path} has {links} links, not {expected}"));
                    }
                }
                (Entry::Dir, Some(Found::Dir)) => {}
                (Entry::Symlink(to), Some(Found::Symlink(is))) if to == is => {}
                _ => return Some(format!("{path} has another type or contents")),
            }
        }
        found.keys().find(|path| !names.contains_key(*path)).map(|path| format!("{path} should not be there"))
    }

    fn contents_after(&self, names: &Names, count: usize, found: &Tree) -> Result<(), String> {
        for (path, entry) in names {
            let (Entry::File(index), Some(Found::File(_, _, state))) = (entry, found.get(path)) else { continue };
            let file = &self.files[*index];
            let floors = self.steps[..count].iter().filter_map(|s| s.floor.filter(|f| f.0 == *index));
            let least = floors.map(|f| f.1).fold(file.synced, usize::max);
            let most = file.changes.iter().take_while(|c| c.after_steps <= count).count();
            file.fits(state, least, most).map_err(|what| format!("{path} {what}"))?;
        }
        Ok(())
    }

    fn rebase(&mut self, names: Names, found: &Tree) {
        let mut files: Vec<File> = Vec::new();
        let mut new = BTreeMap::new();
        self.now = names;
        for (path, entry) in &mut self.now {
            let (Entry::File(index), Some(Found::File(inode, _, state))) = (entry, found.get(path)) else { continue };
            *index = *new.entry(*index).or_insert_with(|| {
                let (now, base) = (state.clone(), state.clone());
                files.push(File { inode: Some(*inode), now, base, ..File::default() });
                files.len() - 1
            });
        }
        self.files = files;
        self.base = self.now.clone();
        self.steps.clear();
        self.synced = 0;
    }
}

impl File {
    pub fn new(inode: Option<u64>, mode: u32) -> Self {
        let state = State { mode, ..State::default() };
        Self { inode, now: state.clone(), base: state, ..Self::default() }
    }

    fn fits(&self, found: &State, least: usize, most: usize) -> Result<(), String> {
        let mut state = self.base.clone();
        let mut report = String::new();
        for count in 0..=self.changes.len() {
            if count >= least && count <= most {
                if state == *found || (count < most && self.changes[count].is_torn(&state, found)) {
                    return Ok(());
                }
                if self.is_mixed(&state, count, found) {
                    return Ok(());
                }
            } else if state == *found {
                let _ = write!(report, "; it is as after change {count}");
            }
            if let Some(next) = self.changes.get(count) {
                if count + 1 >= least {
                    let (at, done) = (difference(&state, found), next.finished);
                    let _ = write!(report, "\n    after {count}: {at}; then {:?}, done: {done}", next.change);
                }
                change(&mut state, &next.change);
            } else {
                let _ = write!(report, "\n    after {count}: {}", difference(&state, found));
            }
        }
        let all = self.changes.len();
        Err(format!("is as after none of changes {least} to {most} (of {all}, {} synced){report}", self.synced))
    }

    /// Whether `found` is `state`, the one after `count` changes, except that unsynced writes
    /// contain bytes of later ones.
    fn is_mixed(&self, state: &State, count: usize, found: &State) -> bool {
        // The next change may be partially present, as in `is_torn`.
        let partial = self.changes.get(count).filter(|next| !next.finished || next.is_long());
        let mut state = state.clone();
        if let Some(Change::Write(at, bytes)) = partial.map(|next| &next.change)
            && (state.data.len()..=*at as usize + bytes.len()).contains(&found.data.len())
        {
            state.data.resize(found.data.len(), 0);
        }
        if state.data.len() != found.data.len() || state.mode != found.mode || state.xattr != found.xattr {
            return false;
        }
        let mut open: Vec<usize> = (0..found.data.len()).filter(|at| state.data[*at] != found.data[*at]).collect();
        let unsynced = self.changes.get(self.synced..count).unwrap_or_default();
        let written = |at: usize| unsynced.iter().chain(partial).any(|c| c.writes(at));
        if !open.iter().all(|at| written(*at)) {
            return false;
        }
        let mut later = state;
        for next in &self.changes[count..] {
            change(&mut later, &next.change);
            open.retain(|at| later.data.get(*at).copied().unwrap_or(0) != found.data[*at]);
        }
        open.is_empty()
    }
}

impl Done {
    fn is_long(&self) -> bool {
        matches!(&self.change, Change::Write(_, bytes) if bytes.len() > RECORD_BYTES)
    }

    fn writes(&self, byte: usize) -> bool {
        matches!(&self.change, Change::Write(at, bytes) if (*at as usize..*at as usize + bytes.len()).contains(&byte))
    }

    /// Whether `found` is `before` with a prefix of this write.
    fn is_torn(&self, before: &State, found: &State) -> bool {
        let Change::Write(at, bytes) = &self.change else { return false };
        let start = *at as usize;
        let same = bytes.iter().zip(found.data.iter().skip(start)).take_while(|(a, b)| a == b).count();
        // The kernel may split a write into several requests.
        let is_cut = !self.finished || (start + same).is_multiple_of(PAGE_BYTES);
        if !is_cut && bytes.len() <= RECORD_BYTES {
            return false;
        }
        let mut torn = before.clone();
        change(&mut torn, &Change::Write(*at, bytes[..same].to_vec()));
        torn == *found
    }
}

fn difference(right: &State, found: &State) -> String {
    if right.data != found.data {
        let differs = |at: &usize| right.data[*at] != found.data[*at];
        let common = 0..right.data.len().min(found.data.len());
        let (first, last) = (common.clone().find(differs), common.rev().find(differs));
        let zeros = first.is_some_and(|first| found.data[first] == 0);
        let is = if zeros { " (0 there)" } else { "" };
        return format!("{} bytes, found {}, differs in {first:?} to {last:?}{is}", right.data.len(), found.data.len());
    }
    if right.mode != found.mode {
        return format!("mode {:o}, found {:o}", right.mode, found.mode);
    }
    format!("attribute {:?}, found {:?}", right.xattr.as_ref().map(Vec::len), found.xattr.as_ref().map(Vec::len))
}

impl std::fmt::Debug for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Write(at, bytes) => write!(f, "Write({at}, {} bytes)", bytes.len()),
            Self::Truncate(len) => write!(f, "Truncate({len})"),
            Self::Punch(at, len) => write!(f, "Punch({at}, {len})"),
            Self::Mode(mode) => write!(f, "Mode({mode:o})"),
            Self::Xattr(value) => write!(f, "Xattr({:?} bytes)", value.as_ref().map(Vec::len)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(entries: &[(&str, u64, &[u8])]) -> Tree {
        let file = |inode, data: &[u8]| Found::File(inode, 1, State { data: data.to_vec(), mode: 0o600, xattr: None });
        entries.iter().map(|(path, inode, data)| ((*path).to_owned(), file(*inode, data))).collect()
    }

    fn model() -> Model {
        let mut model = Model::default();
        model.files.push(File::new(Some(7), 0o600));
        model.begin(Step::Create("a".into(), 0));
        model.finish();
        model.begin_change(0, Change::Write(0, b"one".to_vec()));
        model.finish_change(0);
        model.synced_file(0);
        model.begin_change(0, Change::Write(1, b"two".to_vec()));
        model.finish_change(0);
        model.begin(Step::Rename("a".into(), "b".into()));
        model.finish();
        model
    }

    #[test]
    fn synced_changes_must_exist_and_later_ones_may() {
        assert!(model().judge(&tree(&[("a", 7, b"one")]), None).is_ok());
        assert!(model().judge(&tree(&[("a", 7, b"otwo")]), None).is_ok());
        assert!(model().judge(&tree(&[("b", 7, b"otwo")]), None).is_ok());
        assert!(model().judge(&tree(&[]), None).is_err());
        assert!(model().judge(&tree(&[("a", 7, b"")]), None).is_err());
        assert!(model().judge(&tree(&[("a", 8, b"one")]), None).is_err());
        assert!(model().judge(&tree(&[("a", 7, b"ot")]), None).is_err());
        assert!(model().judge(&tree(&[("a", 7, b"one"), ("b", 7, b"one")]), None).is_err());
    }

    #[test]
    fn a_write_done_again_may_bring_bytes_of_a_later_one() {
        let with_later = || {
            let mut model = model();
            model.begin_change(0, Change::Write(0, b"XYZ!".to_vec()));
            model.finish_change(0);
            model
        };
        assert!(with_later().judge(&tree(&[("b", 7, b"oYZ!")]), None).is_ok());
        assert!(with_later().judge(&tree(&[("b", 7, b"XYZ!")]), None).is_ok());
        assert!(with_later().judge(&tree(&[("b", 7, b"Xtwo")]), None).is_err());
        assert!(with_later().judge(&tree(&[("b", 7, b"oQwo")]), None).is_err());
    }

    #[test]
    fn a_renamed_file_has_its_contents_and_synced_names_count_for_all_threads() {
        assert!(model().judge(&tree(&[("b", 7, b"one")]), None).is_err());
        assert!(model().judge(&tree(&[("a", 7, b"one")]), Some(Instant::now())).is_err());
        assert!(model().judge(&tree(&[("b", 7, b"otwo")]), Some(Instant::now())).is_ok());
    }
}
