//! The files of the repository: what the checks of [`super`] read.
//!
//! Whatever .gitignore names is not part of the tree, so that a check gives the same result before
//! and after a build.

use super::rust::Source;
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

pub struct Tree {
    /// Contents of the files that a check reads: *.rs, *.md and Cargo.toml.
    texts: BTreeMap<String, String>,
    /// Every file and folder, with `/` between the components.
    paths: BTreeSet<String>,
    ignored: Ignored,
    /// Folder of a package -> its name without `weir-`.
    packages: BTreeMap<String, String>,
}

impl Tree {
    pub fn read(root: &Path) -> Result<Tree> {
        let ignored = Ignored::parse(&std::fs::read_to_string(root.join(".gitignore")).unwrap_or_default());
        let mut texts = BTreeMap::new();
        let mut paths = BTreeSet::new();
        let mut folders = vec![String::new()];
        while let Some(folder) = folders.pop() {
            for entry in
                std::fs::read_dir(root.join(&folder)).with_context(|| root.join(&folder).display().to_string())?
            {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().into_owned();
                let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
                if name == ".git" || ignored.contains(&path) {
                    continue;
                }
                paths.insert(path.clone());
                if entry.file_type()?.is_dir() {
                    folders.push(path);
                } else if is_read(&path) {
                    let text = std::fs::read_to_string(entry.path()).with_context(|| path.clone())?;
                    texts.insert(path, text);
                }
            }
        }
        Ok(Tree::new(texts, paths, ignored))
    }

    fn new(texts: BTreeMap<String, String>, paths: BTreeSet<String>, ignored: Ignored) -> Tree {
        let mut packages = BTreeMap::new();
        for (path, text) in &texts {
            let Some(folder) = path.strip_suffix("/Cargo.toml") else { continue };
            let name = text.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
            if let Some(name) = name {
                packages.insert(folder.to_string(), name.strip_prefix("weir-").unwrap_or(name).to_string());
            }
        }
        Tree { texts, paths, ignored, packages }
    }

    /// The file or folder is in the repository, or a build makes it.
    pub fn exists(&self, path: &str) -> bool {
        path.is_empty() || self.paths.contains(path) || self.ignored.contains(path)
    }

    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.paths.iter().map(String::as_str)
    }

    pub fn text(&self, path: &str) -> Option<&str> {
        self.texts.get(path).map(String::as_str)
    }

    /// Path and contents of the files with this extension.
    pub fn files(&self, extension: &str) -> impl Iterator<Item = (&str, &str)> {
        let texts = self.texts.iter().filter(move |(path, _)| path.ends_with(extension));
        texts.map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// Every *.rs file as tokens and comments.
    pub fn sources(&self) -> BTreeMap<&str, Source<'_>> {
        self.files(".rs").map(|(path, text)| (path, Source::lex(text))).collect()
    }

    /// Folder and name of each package.
    pub fn packages(&self) -> impl Iterator<Item = (&str, &str)> {
        self.packages.iter().map(|(folder, name)| (folder.as_str(), name.as_str()))
    }

    /// The package that a file belongs to, or its top-level folder if it belongs to none.
    pub fn package_of<'a>(&'a self, path: &'a str) -> &'a str {
        let mut folder = path;
        while let Some((parent, _)) = folder.rsplit_once('/') {
            if let Some(name) = self.packages.get(parent) {
                return name;
            }
            folder = parent;
        }
        folder
    }
}

fn is_read(path: &str) -> bool {
    path.ends_with(".rs") || path.ends_with(".md") || path.ends_with("Cargo.toml")
}

/// The two forms of .gitignore that this repository uses: `/path/from/the/root` and `name`, each
/// with or without `/` at its end. Patterns with `*` are left out.
struct Ignored {
    rooted: Vec<String>,
    anywhere: Vec<String>,
}

impl Ignored {
    fn parse(text: &str) -> Ignored {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.contains(['#', '*', '!']));
        let (rooted, anywhere): (Vec<&str>, Vec<&str>) = lines.partition(|line| line.starts_with('/'));
        let plain = |lines: Vec<&str>| lines.iter().map(|line| line.trim_matches('/').to_string()).collect();
        Ignored { rooted: plain(rooted), anywhere: plain(anywhere) }
    }

    fn contains(&self, path: &str) -> bool {
        let below = |rooted: &String| path == rooted || path.starts_with(&format!("{rooted}/"));
        self.rooted.iter().any(below) || path.split('/').any(|name| self.anywhere.iter().any(|other| name == other))
    }
}

#[cfg(test)]
pub mod testing {
    use super::*;

    /// A tree of these files. Every folder `FOLDER/NAME` with sources in `src` or `tests` is a
    /// package `weir-NAME`.
    pub fn tree(files: &[(&str, &str)]) -> Tree {
        let mut texts: BTreeMap<String, String> = BTreeMap::new();
        for (path, text) in files {
            texts.insert(path.to_string(), text.to_string());
            if let Some((folder, _)) = path.split_once("/src/").or_else(|| path.split_once("/tests/")) {
                let name = folder.rsplit('/').next().unwrap();
                texts.insert(format!("{folder}/Cargo.toml"), format!("[package]\nname = \"weir-{name}\"\n"));
            }
        }
        let mut paths = BTreeSet::new();
        for path in texts.keys() {
            let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
            paths.extend(ends.map(|end| path[..end].to_string()));
        }
        let ignored = Ignored::parse(texts.get(".gitignore").map_or("", String::as_str));
        Tree::new(texts, paths, ignored)
    }
}

#[cfg(test)]
mod tests {
    use super::testing::tree;
    use super::*;

    #[test]
    fn a_file_belongs_to_the_nearest_package() {
        let tree = tree(&[("engine/pool/src/a/b.rs", ""), ("engine/pool/fuzz/src/c.rs", ""), ("docs/d.rs", "")]);
        assert_eq!(tree.package_of("engine/pool/src/a/b.rs"), "pool");
        assert_eq!(tree.package_of("engine/pool/fuzz/src/c.rs"), "fuzz");
        assert_eq!(tree.package_of("docs/d.rs"), "docs");
    }

    #[test]
    fn ignored_paths_are_generated_and_exist() {
        let ignored = Ignored::parse("# made\ntarget/\n/ui/dist/\n*.tmp\n");
        assert!(ignored.contains("target") && ignored.contains("fuzz/target/x") && ignored.contains("ui/dist/a.js"));
        assert!(!ignored.contains("dist") && !ignored.contains("ui/distance") && !ignored.contains("a.tmp"));
        let tree = tree(&[(".gitignore", "/ui/dist/"), ("ui/a.md", "")]);
        assert!(tree.exists("ui") && tree.exists("ui/a.md") && tree.exists("ui/dist/a.js") && !tree.exists("ui/b.md"));
    }
}
