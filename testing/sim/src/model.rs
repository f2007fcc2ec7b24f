//! A record of what a run did and which parts were acknowledged as durable, so that any tree found
//! after a cut can be checked.
//!
//! Names change in an order that a crash must respect: the tree found is the tree after some step.
//! The same holds for the contents and attributes of one file, but a file that was never synced may
//! be older than the names around it. Nothing may be older than what was acknowledged before the
//! cut, and no size or attribute may be newer than the names.
//!
//! A file may be a byte-by-byte mixture of the allowed versions and newer ones: the intent log
//! takes the bytes of a long write when it is committed, as in OpenZFS, so they may come from a
//! later write.
//!
//! Invariants:
//!   * step numbers increase; every change belongs to one step, and a step is present completely or
//!     not at all

use std::collections::BTreeMap;
use std::sync::Arc;

/// Path from the root, without a leading slash; the root is the empty path.
pub type Path = String;

/// Type of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    File,
    Directory,
    /// A symbolic link with its target.
    Symlink(Vec<u8>),
}

/// Contents and attributes at one time.
#[derive(Clone, PartialEq, Eq)]
pub struct State {
    /// Contents of a file.
    pub data: Arc<Vec<u8>>,
    /// Permission bits.
    pub mode: u32,
    /// `user.` attributes and POSIX ACLs.
    pub xattrs: Arc<BTreeMap<Vec<u8>, Vec<u8>>>,
}

struct Node {
    kind: Kind,
    /// Each with the step that made it; the first one created the node.
    versions: Vec<(u64, State)>,
}

struct Ack {
    operation: u64,
    step: u64,
    /// The node that was synced; `None`: all.
    node: Option<usize>,
}

/// Names, with the nodes that they refer to; `""` is the root.
pub type Names = BTreeMap<Path, usize>;

/// The record of a run.
pub struct Model {
    nodes: Vec<Node>,
    /// Names, each with the step after which they were in effect.
    names: Vec<(u64, Arc<Names>)>,
    /// For each step, the operation of the machine at which it began.
    began: Vec<u64>,
    acks: Vec<Ack>,
}

/// A node found after a cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Equal for names of the same node.
    pub identity: u64,
    pub kind: Kind,
    /// Link count; 0 if it is not checked.
    pub links: u64,
    pub state: State,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sum = self.data.iter().fold(0u64, |sum, b| sum.wrapping_mul(31).wrapping_add(u64::from(*b)));
        write!(f, "{} bytes #{sum:x}, mode {:o}, {} xattrs", self.data.len(), self.mode, self.xattrs.len())
    }
}

impl Model {
    /// Starts with an empty root directory.
    pub fn new(root_mode: u32) -> Self {
        let root = Node { kind: Kind::Directory, versions: vec![(0, State::empty(root_mode))] };
        let names = Arc::new(Names::from([(String::new(), 0)]));
        Self { nodes: vec![root], names: vec![(0, names)], began: vec![0], acks: Vec::new() }
    }

    /// Begins a step, when the machine has done `operation` operations.
    pub fn begin(&mut self, operation: u64) {
        self.began.push(operation);
    }

    fn step(&self) -> u64 {
        self.began.len() as u64 - 1
    }

    /// The names after the last step.
    pub fn names(&self) -> &Names {
        &self.names.last().expect("there is always the empty tree").1
    }

    /// Changes names in this step.
    pub fn rename<R>(&mut self, change: impl FnOnce(&mut Names) -> R) {
        let mut names = self.names().clone();
        change(&mut names);
        self.names.push((self.step(), Arc::new(names)));
    }

    /// Adds a node without a name.
    pub fn add(&mut self, kind: Kind, mode: u32) -> usize {
        self.nodes.push(Node { kind, versions: vec![(self.step(), State::empty(mode))] });
        self.nodes.len() - 1
    }

    /// Adds a node with this initial state.
    pub fn add_like(&mut self, kind: Kind, state: State) -> usize {
        self.nodes.push(Node { kind, versions: vec![(self.step(), state)] });
        self.nodes.len() - 1
    }

    /// Type of a node.
    pub fn kind(&self, node: usize) -> &Kind {
        &self.nodes[node].kind
    }

    /// Current contents and attributes of a node.
    pub fn state(&self, node: usize) -> &State {
        &self.nodes[node].versions.last().expect("a node begins with a version").1
    }

    /// Changes contents or attributes of a node in this step.
    pub fn change(&mut self, node: usize, change: impl FnOnce(&mut State)) {
        let mut state = self.state(node).clone();
        change(&mut state);
        let step = self.step();
        self.nodes[node].versions.push((step, state));
    }

    /// Records that everything done so far to `node` (or to all nodes) is durable, as acknowledged
    /// when the machine had done `operation` operations.
    pub fn acknowledge(&mut self, operation: u64, node: Option<usize>) {
        self.acks.push(Ack { operation, step: self.step(), node });
    }

    /// Number of steps so far.
    pub fn steps(&self) -> u64 {
        self.step()
    }

    /// Checks the tree found after a cut at `operation`. Returns the step whose names it has.
    pub fn judge(&self, operation: u64, found: &BTreeMap<Path, Found>) -> Result<u64, String> {
        let acks = || self.acks.iter().filter(|a| a.operation <= operation);
        let least = acks().map(|a| a.step).max().unwrap_or(0);
        let most = self.began.iter().rposition(|began| *began <= operation).unwrap_or(0) as u64;
        let first = self.names.iter().rposition(|(step, _)| *step <= least).unwrap_or(0);
        let mut reasons = Vec::new();
        for (i, (step, names)) in self.names.iter().enumerate().skip(first) {
            if *step > most {
                break;
            }
            let before = self.names.get(i + 1).map_or(u64::MAX, |(next, _)| *next).min(most + 1);
            let needed =
                |node: usize| acks().filter(|a| a.node.is_none_or(|n| n == node)).map(|a| a.step).max().unwrap_or(0);
            match self.matches(names, found, before, most, &needed) {
                Ok(()) => return Ok(*step),
                Err(why) => reasons.push(format!("  not as after step {step}: {why}")),
            }
        }
        Err(format!(
            "cut at operation {operation}: expected the names of a step from {least} to {most}\n{}",
            reasons.join("\n")
        ))
    }

    fn matches(
        &self,
        names: &Names,
        found: &BTreeMap<Path, Found>,
        before: u64,
        most: u64,
        needed: &dyn Fn(usize) -> u64,
    ) -> Result<(), String> {
        if let Some(path) = names.keys().find(|p| !found.contains_key(*p)) {
            return Err(format!("{path:?} is missing"));
        }
        if let Some(path) = found.keys().find(|p| !names.contains_key(*p)) {
            return Err(format!("{path:?} should not be there"));
        }
        let mut identities: BTreeMap<u64, usize> = BTreeMap::new();
        let mut links: BTreeMap<usize, u64> = BTreeMap::new();
        for node in names.values() {
            *links.entry(*node).or_default() += 1;
        }
        for (path, node) in names {
            let there = &found[path];
            let known = &self.nodes[*node];
            if there.kind != known.kind {
                return Err(format!("{path:?} is {:?} instead of {:?}", there.kind, known.kind));
            }
            if *identities.entry(there.identity).or_insert(*node) != *node {
                return Err(format!("{path:?} is linked to something else"));
            }
            if there.links != 0 && there.kind != Kind::Directory && there.links != links[node] {
                return Err(format!("{path:?} has {} links instead of {}", there.links, links[node]));
            }
            let from = known.versions.iter().rposition(|(step, _)| *step <= needed(*node)).unwrap_or(0);
            let allowed: Vec<&State> =
                known.versions[from..].iter().filter(|(step, _)| *step < before).map(|(_, state)| state).collect();
            let younger = known.versions[from..].iter().filter(|(step, _)| *step >= before && *step <= most);
            let bytes: Vec<&State> = allowed.iter().copied().chain(younger.map(|(_, state)| state)).collect();
            if !allowed.contains(&&there.state) && !is_mixture(&there.state, &allowed, &bytes) {
                let stale = known.versions.iter().rfind(|(_, state)| *state == there.state);
                let when = stale.map_or("never".to_owned(), |(step, _)| format!("so at step {step}"));
                let history: Vec<String> = known.versions.iter().map(|(step, s)| format!("{step}: {s:?}")).collect();
                return Err(format!(
                    "{path:?} (node {node}) has {:?}, {when}; needed is step {} and less than {before} of [{}]",
                    there.state,
                    needed(*node),
                    history.join(", ")
                ));
            }
        }
        if identities.len() != links.len() {
            return Err("names that should be one node are several".into());
        }
        Ok(())
    }
}

/// Whether a file is a mixture of several versions: a write that was logged before a later one
/// became durable may contain bytes of the later one, as in OpenZFS. Every byte must equal that of
/// one of `bytes`; size and attributes must be allowed.
fn is_mixture(there: &State, allowed: &[&State], bytes: &[&State]) -> bool {
    let size = there.data.len();
    allowed.iter().any(|s| s.data.len() == size)
        && allowed.iter().any(|s| s.mode == there.mode && s.xattrs == there.xattrs)
        && there
            .data
            .iter()
            .enumerate()
            .all(|(i, byte)| bytes.iter().any(|s| s.data.get(i).copied().unwrap_or(0) == *byte))
}

impl State {
    fn empty(mode: u32) -> Self {
        Self { data: Arc::default(), mode, xattrs: Arc::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(data: &[u8]) -> Found {
        let state = State { data: Arc::new(data.to_vec()), ..State::empty(0o644) };
        Found { identity: 5, kind: Kind::File, links: 1, state }
    }

    fn tree(files: &[(&str, Found)]) -> BTreeMap<Path, Found> {
        let root = Found { identity: 1, kind: Kind::Directory, links: 2, state: State::empty(0o755) };
        let mut tree = BTreeMap::from([(String::new(), root)]);
        tree.extend(files.iter().map(|(path, f)| ((*path).to_owned(), f.clone())));
        tree
    }

    #[test]
    fn acknowledged_changes_must_exist_and_names_are_ordered() {
        let mut m = Model::new(0o755);
        m.begin(10);
        let f = m.add(Kind::File, 0o644);
        m.rename(|n| n.insert("a".into(), f));
        m.begin(11);
        m.change(f, |s| s.data = Arc::new(b"one".to_vec()));
        m.acknowledge(20, Some(f));
        m.begin(21);
        m.change(f, |s| s.data = Arc::new(b"two".to_vec()));
        m.begin(22);
        m.rename(|n| (n.remove("a"), n.insert("b".into(), f)));
        // Before the acknowledgement, any state from nothing to everything is correct.
        assert_eq!(m.judge(19, &tree(&[])), Ok(0));
        assert_eq!(m.judge(19, &tree(&[("a", found(b""))])), Ok(1));
        assert_eq!(m.judge(19, &tree(&[("a", found(b"one"))])), Ok(1));
        assert!(m.judge(9, &tree(&[("a", found(b""))])).is_err(), "from the future");
        // After it, nothing older is.
        assert!(m.judge(20, &tree(&[])).is_err());
        assert!(m.judge(20, &tree(&[("a", found(b""))])).unwrap_err().contains("at step 1"));
        assert_eq!(m.judge(20, &tree(&[("a", found(b"one"))])), Ok(1));
        assert_eq!(m.judge(30, &tree(&[("a", found(b"two"))])), Ok(1));
        assert_eq!(m.judge(30, &tree(&[("b", found(b"one"))])), Ok(4));
        // A write that was logged with bytes of a later write, which is not present itself. Bytes
        // that were never written are not allowed.
        m.begin(31);
        m.change(f, |s| s.data = Arc::new(b"tzo!".to_vec()));
        assert_eq!(m.judge(31, &tree(&[("a", found(b"tzo"))])), Ok(1));
        assert!(m.judge(31, &tree(&[("a", found(b"two!"))])).is_err(), "a size younger than the names");
        // Never both names of a rename, and never contents that were not written.
        assert!(m.judge(30, &tree(&[("a", found(b"two")), ("b", found(b"two"))])).is_err());
        assert!(m.judge(30, &tree(&[])).is_err());
        assert!(m.judge(30, &tree(&[("a", found(b"xwo"))])).unwrap_err().contains("never"));
    }
}
