//! Import circles: files of one crate that import each other, directly or through others. None of
//! them can be understood, tested or moved without the rest.
//!
//! How it is counted: the nodes are files, without tests. File A imports file B if A's code names
//! an item that B defines: in a `use` declaration, or in a path that begins with `crate`, `self`,
//! `super`, a module or an import. Re-exports and imports are followed to the file that defines
//! the item, so a facade (`mod child; pub use child::Item;`) imports nothing by itself, and a user
//! of the facade imports the child's file. Not counted: `mod` declarations, methods that a value
//! brings along, and names in comments. So a parent and a child are a circle only if the parent's
//! own code names an item of the child and the child names one that the parent's file defines.
//!
//! A circle is a strongly connected component of more than one file.

use super::figure::{Figure, Place};
use super::modules::{Crate, Module, ModuleId, Path, Target, Visibility};
use std::collections::BTreeMap;

/// Importing file -> imported file -> the first line that does it, and what the line names.
type Imports = Vec<BTreeMap<usize, (u32, String)>>;

/// The number of files in circles, and of those in the largest circle, of each crate.
pub fn check(crates: &[Crate]) -> (Vec<Figure>, Vec<Figure>) {
    let mut all = Vec::new();
    let mut largest = Vec::new();
    for krate in crates {
        let imports = imports(krate);
        let mut circles = circles(&imports);
        circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
        let places = |circle: &Vec<usize>| places(krate, &imports, circle);
        let count = circles.iter().map(Vec::len).sum();
        let figure = |value, places| Figure { krate: krate.name.to_string(), value, places };
        all.push(figure(count, circles.iter().flat_map(places).collect()));
        let first = circles.first();
        largest.push(figure(first.map_or(0, Vec::len), first.map(places).unwrap_or_default()));
    }
    (all, largest)
}

/// Each import from a file of the circle to another one.
fn places(krate: &Crate, imports: &Imports, circle: &[usize]) -> Vec<Place> {
    let mut places = Vec::new();
    for &from in circle {
        for (&to, (line, what)) in imports[from].iter().filter(|(to, _)| circle.contains(to)) {
            let what = format!("{what} is in {}; {} files in this circle", krate.files[to].0, circle.len());
            places.push(Place { path: krate.files[from].0.to_string(), line: *line, what });
        }
    }
    places
}

fn imports(krate: &Crate) -> Imports {
    let mut imports: Imports = vec![BTreeMap::new(); krate.files.len()];
    for (id, module) in krate.modules.iter().enumerate() {
        let mut add = |target: Option<Target>, line: u32, what: String| {
            // A module alone imports nothing: what is used of it is in a path.
            let Some(Target::Item(to)) = target else { return };
            let to = krate.modules[to].file;
            if to != module.file {
                let first = imports[module.file].entry(to).or_insert((line, what.clone()));
                if line < first.0 {
                    *first = (line, what);
                }
            }
        };
        for import in &module.imports {
            let is_used = match import.name {
                Some(name) => import.visibility == Visibility::Private || module.names.contains(name),
                None => false,
            };
            if is_used {
                add(krate.resolve(id, &import.path), import.path.line, text(&import.path));
            }
        }
        for path in &module.paths {
            add(resolve_code(krate, id, module, path), path.line, text(path));
        }
        if let Some(glob) = module.imports.iter().find(|import| import.name.is_none()) {
            for name in &module.names {
                add(krate.resolve_through_globs(id, name), glob.path.line, name.to_string());
            }
        }
    }
    imports
}

/// A path in code. If it begins with an item that is imported by name, the import counts, which
/// may be under a different name elsewhere.
fn resolve_code(krate: &Crate, id: ModuleId, module: &Module, path: &Path) -> Option<Target> {
    let first = Path { absolute: path.absolute, segments: vec![path.segments[0]], line: path.line };
    let is_start = ["crate", "self", "super"].contains(&path.segments[0]);
    let is_module =
        module.children.contains_key(path.segments[0]) || matches!(krate.resolve(id, &first), Some(Target::Module(_)));
    if is_start || is_module { krate.resolve(id, path) } else { None }
}

fn text(path: &Path) -> String {
    path.segments.join("::")
}

/// Strongly connected components of more than one node (Tarjan's algorithm).
fn circles(imports: &Imports) -> Vec<Vec<usize>> {
    let count = imports.len();
    let mut search = Search {
        imports,
        next: 0,
        index: vec![None; count],
        low: vec![0; count],
        on_stack: vec![false; count],
        stack: Vec::new(),
        found: Vec::new(),
    };
    for node in 0..count {
        if search.index[node].is_none() {
            search.visit(node);
        }
    }
    search.found
}

struct Search<'a> {
    imports: &'a Imports,
    next: usize,
    index: Vec<Option<usize>>,
    low: Vec<usize>,
    on_stack: Vec<bool>,
    stack: Vec<usize>,
    found: Vec<Vec<usize>>,
}

impl Search<'_> {
    fn visit(&mut self, node: usize) {
        let index = self.next;
        self.next += 1;
        self.index[node] = Some(index);
        self.low[node] = index;
        self.stack.push(node);
        self.on_stack[node] = true;
        for &to in self.imports[node].keys() {
            match self.index[to] {
                None => {
                    self.visit(to);
                    self.low[node] = self.low[node].min(self.low[to]);
                }
                Some(index) if self.on_stack[to] => self.low[node] = self.low[node].min(index),
                Some(_) => {}
            }
        }
        if self.low[node] == index {
            let start = self.stack.iter().rposition(|&other| other == node).expect("it was pushed above");
            let mut circle = self.stack.split_off(start);
            for &member in &circle {
                self.on_stack[member] = false;
            }
            if circle.len() > 1 {
                circle.sort_unstable();
                self.found.push(circle);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::modules::crates;
    use super::super::tree::testing::tree;
    use super::*;

    /// Files in circles, and files in the largest one.
    fn count(files: &[(&str, &str)]) -> (usize, usize) {
        let tree = tree(files);
        let sources = tree.sources();
        let (all, largest) = check(&crates(&tree, &sources));
        (all[0].value, largest[0].value)
    }

    #[test]
    fn a_facade_and_children_that_use_its_items_are_no_circle() {
        let files = [
            ("x/a/src/lib.rs", "mod one; mod two; pub use one::One; pub struct Base;"),
            ("x/a/src/one.rs", "use super::Base; pub struct One(Base);"),
            ("x/a/src/two.rs", "use crate::One; fn two(_: One) {}"),
        ];
        assert_eq!(count(&files), (0, 0));
    }

    #[test]
    fn a_parent_that_uses_its_child_and_is_used_by_it_is_a_circle() {
        let child = ("x/a/src/one.rs", "use super::Base; pub struct One(Base); pub fn one() {}");
        let parents = [
            "mod one; pub use one::One; pub struct Base; fn f(one: One) {}",
            "mod one; use one::One; pub struct Base;",
            "mod one; pub struct Base; fn f() { one::one() }",
            "mod one; pub struct Base; use one::*; fn f() { one() }",
        ];
        for parent in parents {
            assert_eq!(count(&[("x/a/src/lib.rs", parent), child]), (2, 2), "{parent}");
        }
        let outside = ("x/a/src/one.rs", "use super::Error; pub struct One(Error);");
        assert_eq!(
            count(&[("x/a/src/lib.rs", "mod one; pub use object::Error; fn f(_: one::One) {}"), outside]),
            (0, 0)
        );
        assert_eq!(count(&[("x/a/src/lib.rs", "mod one; pub struct Base; pub use one::*;"), child]), (0, 0));
    }

    #[test]
    fn circles_of_siblings_are_counted_and_tests_are_not() {
        let files = [
            ("x/a/src/lib.rs", "mod a; mod b; mod c; mod d; mod e;"),
            ("x/a/src/a.rs", "use super::b; pub struct A; fn f() { b::run() }"),
            ("x/a/src/b.rs", "pub fn run() { crate::c::run::<u8>() }"),
            ("x/a/src/c.rs", "pub fn run<T>() -> super::a::A { todo!() }"),
            ("x/a/src/d.rs", "use crate::e::E; pub struct D;"),
            ("x/a/src/e.rs", "pub struct E; #[cfg(test)] mod tests { use crate::d::D; } /* crate::d::D */"),
        ];
        assert_eq!(count(&files), (3, 3));
        let closed = files
            .map(|(path, text)| (path, if path.ends_with("e.rs") { "use super::d::D; pub struct E;" } else { text }));
        assert_eq!(count(&closed), (5, 3));
    }

    #[test]
    fn a_place_names_the_line_and_both_files() {
        let tree = tree(&[
            ("x/a/src/lib.rs", "mod a;\nmod b;"),
            ("x/a/src/a.rs", "use super::b::B;\npub struct A;"),
            ("x/a/src/b.rs", "\npub struct B(crate::a::A);"),
        ]);
        let sources = tree.sources();
        let (all, _) = check(&crates(&tree, &sources));
        let places: Vec<String> = all[0].places.iter().map(ToString::to_string).collect();
        let expected = [
            "x/a/src/a.rs:1: super::b::B is in x/a/src/b.rs; 2 files in this circle",
            "x/a/src/b.rs:2: crate::a::A is in x/a/src/a.rs; 2 files in this circle",
        ];
        assert_eq!(places, expected);
    }
}
