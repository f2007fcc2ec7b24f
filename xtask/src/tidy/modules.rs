//! The modules of each crate, without tests: which file holds which items, what it imports, and
//! which paths it names.
//!
//! Below: `rust`. Above: the checks `circles`, `re-exports` and `locks`. Modules are followed from
//! the roots of a crate (src/lib.rs, src/main.rs, src/bin/*.rs), so files that only tests declare
//! are not part of it.

use super::rust::{Source, Token, close, without_tests};
use super::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};

pub struct Crate<'a> {
    pub name: &'a str,
    pub modules: Vec<Module<'a>>,
    /// Path of each file, and its tokens without tests.
    pub files: Vec<(&'a str, Vec<Token<'a>>)>,
}

pub type ModuleId = usize;
pub type FileId = usize;

#[derive(Default)]
pub struct Module<'a> {
    pub file: FileId,
    pub parent: Option<ModuleId>,
    pub children: BTreeMap<&'a str, ModuleId>,
    /// Names that it defines.
    pub items: BTreeSet<&'a str>,
    pub imports: Vec<Import<'a>>,
    /// Paths of at least two segments outside of `use`.
    pub paths: Vec<Path<'a>>,
    /// Names in its code that may be imported: types, and functions and macros where they are
    /// called.
    pub names: BTreeSet<&'a str>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Path<'a> {
    /// Begins with `::`.
    pub absolute: bool,
    pub segments: Vec<&'a str>,
    pub line: u32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Import<'a> {
    pub path: Path<'a>,
    /// Its name here; `None` if it ends with `*`.
    pub name: Option<&'a str>,
    pub visibility: Visibility,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Visibility {
    Private,
    /// `pub(crate)`, `pub(super)`, `pub(in ..)`.
    Restricted,
    Public,
}

/// What a path leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    Module(ModuleId),
    /// Something in a module: an item, or a name that a macro defines.
    Item(ModuleId),
    /// Another crate, whose item is imported or re-exported here.
    Outside,
}

/// All crates that have a root.
pub fn crates<'a>(tree: &'a Tree, sources: &BTreeMap<&'a str, Source<'a>>) -> Vec<Crate<'a>> {
    let mut crates = Vec::new();
    for (folder, name) in tree.packages() {
        let mut made = Crate { name, modules: Vec::new(), files: Vec::new() };
        let source = format!("{folder}/src/");
        let is_root = |path: &str| {
            let inside = path.strip_prefix(&source);
            inside.is_some_and(|inside| inside == "lib.rs" || inside == "main.rs" || is_bin(inside))
        };
        for root in sources.keys().copied().filter(|path| is_root(path)) {
            let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder);
            made.add_file(root, folder.to_string(), None, sources);
        }
        if !made.modules.is_empty() {
            crates.push(made);
        }
    }
    crates
}

fn is_bin(inside: &str) -> bool {
    inside.strip_prefix("bin/").is_some_and(|name| !name.contains('/'))
}

impl<'a> Crate<'a> {
    /// Adds the module of a whole file, whose child modules are in `folder`.
    fn add_file(
        &mut self,
        path: &'a str,
        folder: String,
        parent: Option<ModuleId>,
        sources: &BTreeMap<&'a str, Source<'a>>,
    ) -> ModuleId {
        let tokens = without_tests(&sources[path].tokens);
        let file = self.files.len();
        self.files.push((path, tokens.clone()));
        let module = self.add_module(file, parent);
        Scan { krate: self, sources, tokens: &tokens, path }.run(module, &folder, 0, tokens.len());
        module
    }

    fn add_module(&mut self, file: FileId, parent: Option<ModuleId>) -> ModuleId {
        self.modules.push(Module { file, parent, ..Module::default() });
        self.modules.len() - 1
    }

    /// What a path leads to from `module`, through re-exports and imports to where the item is
    /// defined. `None` if it leaves the crate, or begins with a name that is no module or import.
    pub fn resolve(&self, module: ModuleId, path: &Path) -> Option<Target> {
        if path.absolute { None } else { self.walk(module, &path.segments, &mut Vec::new()) }
    }

    fn walk<'b>(
        &'b self,
        module: ModuleId,
        segments: &[&'b str],
        seen: &mut Vec<(ModuleId, &'b str)>,
    ) -> Option<Target> {
        let (&first, mut rest) = segments.split_first()?;
        let mut target = match first {
            "crate" | "$crate" => Target::Module(self.root(module)),
            "self" => Target::Module(module),
            "super" => Target::Module(self.modules[module].parent?),
            _ => self.find(module, first, rest.is_empty(), seen)?,
        };
        while let (Target::Module(inside), Some((&name, after))) = (target, rest.split_first()) {
            target = match name {
                "super" => Target::Module(self.modules[inside].parent?),
                "self" => target,
                _ => self.find(inside, name, after.is_empty(), seen).unwrap_or(Target::Item(inside)),
            };
            rest = after;
        }
        Some(target)
    }

    fn root(&self, mut module: ModuleId) -> ModuleId {
        while let Some(parent) = self.modules[module].parent {
            module = parent;
        }
        module
    }

    /// Finds a name in a module. A function may have the name of a module: it is meant at the end
    /// of a path.
    fn find<'b>(
        &'b self,
        module: ModuleId,
        name: &'b str,
        last: bool,
        seen: &mut Vec<(ModuleId, &'b str)>,
    ) -> Option<Target> {
        // Imports may lead back here, as a glob import of the parent does that imports the child.
        if seen.contains(&(module, name)) {
            return None;
        }
        seen.push((module, name));
        let here = &self.modules[module];
        let child = here.children.get(name).map(|&child| Target::Module(child));
        let item = here.items.contains(name).then_some(Target::Item(module));
        let own = if last { item.or(child) } else { child.or(item) };
        own.or_else(|| {
            let named: Vec<_> = here.imports.iter().filter(|import| import.name == Some(name)).collect();
            let mut inside = named.iter().filter(|import| !import.path.absolute);
            let found = inside.find_map(|import| self.walk(module, &import.path.segments, seen));
            found.or((!named.is_empty()).then_some(Target::Outside))
        })
        .or_else(|| self.through_glob(module, name, last, seen))
    }

    fn through_glob<'b>(
        &'b self,
        module: ModuleId,
        name: &'b str,
        last: bool,
        seen: &mut Vec<(ModuleId, &'b str)>,
    ) -> Option<Target> {
        let globs = self.modules[module].imports.iter().filter(|import| import.name.is_none() && !import.path.absolute);
        for glob in globs {
            if let Some(Target::Module(inside)) = self.walk(module, &glob.path.segments, seen)
                && let Some(target) = self.find(inside, name, last, seen)
            {
                return Some(target);
            }
        }
        None
    }

    /// What a glob import of `module` makes of a name, if it is not defined or imported by name.
    pub fn resolve_through_globs(&self, module: ModuleId, name: &str) -> Option<Target> {
        let here = &self.modules[module];
        let known = here.items.contains(name) || here.imports.iter().any(|import| import.name == Some(name));
        if known { None } else { self.through_glob(module, name, true, &mut Vec::new()) }
    }
}

/// Fills a module from the tokens of its file.
struct Scan<'s, 'a> {
    krate: &'s mut Crate<'a>,
    sources: &'s BTreeMap<&'a str, Source<'a>>,
    tokens: &'s [Token<'a>],
    path: &'a str,
}

impl<'a> Scan<'_, 'a> {
    /// Scans the tokens from `at` to `end`, which are a module whose child modules are in `folder`.
    fn run(&mut self, module: ModuleId, folder: &str, mut at: usize, end: usize) {
        let mut depth = 0;
        while at < end {
            let token = self.tokens[at];
            let next = self.tokens.get(at + 1).copied();
            let name = next.and_then(|token| token.ident());
            match token.text {
                "{" | "(" | "[" if token.ident().is_none() => depth += 1,
                "}" | ")" | "]" if token.ident().is_none() => depth -= 1,
                "mod" if depth == 0 && name.is_some() => {
                    at = self.module(module, folder, at);
                    continue;
                }
                // `use<'a>` in a type is no import.
                "use" if token.ident().is_some() && !next.is_some_and(|token| token.is("<")) => {
                    at = self.import(module, at);
                    continue;
                }
                "fn" | "struct" | "enum" | "union" | "trait" | "type" | "const" | "static" if depth == 0 => {
                    let name = if name == Some("mut") { self.ident(at + 2) } else { name };
                    self.krate.modules[module].items.extend(name);
                }
                "macro_rules" if depth == 0 => {
                    let name = self.ident(at + 2);
                    self.krate.modules[module].items.extend(name);
                }
                _ => {}
            }
            at = if token.ident().is_some() { self.path(module, at) } else { at + 1 };
        }
    }

    fn ident(&self, at: usize) -> Option<&'a str> {
        self.tokens.get(at)?.ident()
    }

    fn is(&self, at: usize, text: &str) -> bool {
        self.tokens.get(at).is_some_and(|token| token.is(text))
    }

    /// `mod name;` or `mod name { .. }`. Returns where the rest begins.
    fn module(&mut self, parent: ModuleId, folder: &str, at: usize) -> usize {
        let name = self.tokens[at + 1].text;
        if self.is(at + 2, "{") {
            let end = close(self.tokens, at + 2);
            let child = self.krate.add_module(self.krate.modules[parent].file, Some(parent));
            self.krate.modules[parent].children.insert(name, child);
            self.run(child, &format!("{folder}/{name}"), at + 3, end.min(self.tokens.len()));
            return end + 1;
        }
        let beside = self.path.rsplit_once('/').map_or("", |(beside, _)| beside);
        let candidates = match self.path_attribute(at) {
            Some(path) => vec![format!("{beside}/{path}")],
            None => vec![format!("{folder}/{name}.rs"), format!("{folder}/{name}/mod.rs")],
        };
        let file = candidates.iter().find_map(|path| self.sources.get_key_value(path.as_str()));
        if let Some((&path, _)) = file {
            let child = self.krate.add_file(path, format!("{folder}/{name}"), Some(parent), self.sources);
            self.krate.modules[parent].children.insert(name, child);
        }
        at + 3
    }

    /// The text of `#[path = ".."]` before the `mod` (and its visibility) at `at`.
    fn path_attribute(&self, at: usize) -> Option<&'a str> {
        let from = at.saturating_sub(12);
        let before = &self.tokens[from..at];
        let start = before.iter().rposition(|token| token.is(";") || token.is("}")).map_or(0, |at| at + 1);
        let found = before[start..].windows(3).find(|three| three[0].is("path") && three[1].is("="))?;
        Some(found[2].text.trim_matches('"'))
    }

    /// A `use` declaration. Returns where the rest begins.
    fn import(&mut self, module: ModuleId, at: usize) -> usize {
        let visibility = match at.checked_sub(1).map(|before| self.tokens[before]) {
            Some(token) if token.is("pub") => Visibility::Public,
            Some(token) if token.is(")") => Visibility::Restricted,
            _ => Visibility::Private,
        };
        let absolute = self.is(at + 1, "::");
        let mut imports = Vec::new();
        let start = at + 1 + usize::from(absolute);
        let end = self.use_tree(start, &mut Vec::new(), &mut |segments, name, line| {
            let path = Path { absolute, segments, line };
            imports.push(Import { path, name, visibility });
        });
        self.krate.modules[module].imports.extend(imports);
        end + 1
    }

    /// One tree of a `use` declaration below `prefix`. Returns the index of what follows it.
    fn use_tree(
        &self,
        mut at: usize,
        prefix: &mut Vec<&'a str>,
        add: &mut dyn FnMut(Vec<&'a str>, Option<&'a str>, u32),
    ) -> usize {
        let depth = prefix.len();
        let line = self.tokens.get(at).map_or(0, |token| token.line);
        loop {
            if self.is(at, "{") {
                let end = close(self.tokens, at);
                at += 1;
                while at < end {
                    at = self.use_tree(at, prefix, add);
                    at += usize::from(self.is(at, ","));
                }
                prefix.truncate(depth);
                return end + 1;
            }
            if self.is(at, "*") {
                add(prefix.clone(), None, line);
                prefix.truncate(depth);
                return at + 1;
            }
            let Some(segment) = self.ident(at) else {
                prefix.truncate(depth);
                return at + 1;
            };
            at += 1;
            // `a::{self}` imports `a`.
            if segment != "self" || prefix.is_empty() {
                prefix.push(segment);
            }
            if self.is(at, "::") {
                at += 1;
                continue;
            }
            let mut name = prefix.last().copied();
            if self.is(at, "as") {
                name = self.ident(at + 1);
                at += 2;
            }
            add(prefix.clone(), name, line);
            prefix.truncate(depth);
            return at;
        }
    }

    /// A name, or a path that begins here. Returns where the rest begins.
    fn path(&mut self, module: ModuleId, at: usize) -> usize {
        let before = |text: &str| at > 0 && self.is(at - 1, text);
        let line = self.tokens[at].line;
        if before("::") {
            // `::name` or `<T>::name`: nothing of this crate.
            return at + 1;
        }
        let mut segments = vec![self.tokens[at].text];
        let mut end = at + 1;
        while self.is(end, "::")
            && let Some(segment) = self.ident(end + 1)
        {
            segments.push(segment);
            end += 2;
        }
        let first = segments[0];
        let is_type = first.starts_with(|c: char| c.is_uppercase());
        let is_called = self.is(end, "(") || self.is(end, "!") || segments.len() > 1;
        if !before(".") && !before("fn") && !before("mod") && (is_type || is_called) {
            self.krate.modules[module].names.insert(first);
        }
        if segments.len() > 1 {
            self.krate.modules[module].paths.push(Path { absolute: false, segments, line });
        }
        end
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::testing::tree;
    use super::*;

    fn with_crate(files: &[(&str, &str)], check: impl FnOnce(&Crate)) {
        let tree = tree(files);
        let sources = tree.sources();
        let crates = crates(&tree, &sources);
        assert_eq!(crates.len(), 1);
        check(&crates[0]);
    }

    /// The file that a path leads to from the file `from`.
    fn leads<'a>(krate: &'a Crate, from: &str, path: &str) -> Option<&'a str> {
        let path = Path { absolute: path.starts_with("::"), segments: path.split("::").collect(), line: 1 };
        let module = krate.modules.iter().position(|module| krate.files[module.file].0 == from).unwrap();
        match krate.resolve(module, &path)? {
            Target::Module(found) | Target::Item(found) => Some(krate.files[krate.modules[found].file].0),
            Target::Outside => Some("outside"),
        }
    }

    #[test]
    fn paths_lead_through_re_exports_to_the_file_that_defines_the_item() {
        let files = [
            (
                "x/a/src/lib.rs",
                "mod one; pub mod two; pub use one::One; use two::*; mod inline { pub struct In; } pub use object::Error;",
            ),
            ("x/a/src/one.rs", "pub struct One; mod deep; #[path = \"odd_name.rs\"] mod odd;"),
            ("x/a/src/one/deep.rs", "use super::super::inline::In; pub fn run() {}"),
            ("x/a/src/odd_name.rs", "use super::One as Renamed;"),
            ("x/a/src/two/mod.rs", "pub enum Two { A } mod three; #[cfg(test)] mod tests;"),
            ("x/a/src/two/three.rs", "use crate::one::deep; thing! { pub struct Made; }"),
            ("x/a/src/two/tests.rs", "use crate::One;"),
        ];
        with_crate(&files, |krate| {
            let root = "x/a/src/lib.rs";
            let three = "x/a/src/two/three.rs";
            assert_eq!(krate.files.len(), 6, "the tests are not part of it");
            assert_eq!(leads(krate, three, "crate::One"), Some("x/a/src/one.rs"));
            assert_eq!(leads(krate, three, "crate::Two::A"), Some("x/a/src/two/mod.rs"), "through a glob");
            assert_eq!(leads(krate, three, "deep::run"), Some("x/a/src/one/deep.rs"), "through an imported module");
            assert_eq!(leads(krate, root, "two::three::Made"), Some(three), "a macro defines it");
            assert_eq!(leads(krate, "x/a/src/odd_name.rs", "Renamed::new"), Some("x/a/src/one.rs"));
            assert_eq!(leads(krate, "x/a/src/one/deep.rs", "In"), Some(root), "an inline module is in the file");
            assert_eq!(leads(krate, three, "std::fs::read"), None);
            assert_eq!(leads(krate, three, "crate::Error::Io"), Some("outside"), "a re-export of another crate");
        });
    }

    #[test]
    fn imports_are_split_into_paths() {
        let files = [("x/a/src/lib.rs", "pub use a::{self, b::{C as D, e::*}, f}; pub(crate) use ::g::h; use i;")];
        with_crate(&files, |krate| {
            let text = |import: &Import| {
                let path = import.path.segments.join("::");
                format!("{path} {} {:?}", import.name.unwrap_or("*"), import.visibility)
            };
            let found: Vec<String> = krate.modules[0].imports.iter().map(text).collect();
            let expected = [
                "a a Public",
                "a::b::C D Public",
                "a::b::e * Public",
                "a::f f Public",
                "g::h h Restricted",
                "i i Private",
            ];
            assert_eq!(found, expected);
            assert!(krate.modules[0].imports[4].path.absolute);
        });
    }
}
