//! Dead links: relative links of *.md files, and repository paths in the backticks of
//! [`NAMES_PATHS`].
//!
//! A link needs a file or folder; an anchor (`#tests-and-judges`) needs a heading of that file.
//! Links in code are not checked.
//!
//! Text in backticks is a repository path if its first word contains `/` and begins with the name
//! of a folder. It may leave out folders at its beginning and every `src`:
//! `pool/space/alloc/logs.rs` means engine/pool/src/space/alloc/logs.rs. A single name
//! followed by `/` is not checked.

use super::figure::{Figure, Place};
use super::tree::Tree;
use std::collections::BTreeSet;

const NAMES_PATHS: &[&str] = &["ARCHITECTURE.md", "CONTRIBUTING.md", "testing/README.md"];

pub fn check(tree: &Tree) -> Vec<Figure> {
    let folders: BTreeSet<&str> =
        tree.paths().filter_map(|path| path.rsplit_once('/')).map(|(folder, _)| last(folder)).collect();
    let short: BTreeSet<String> = tree.paths().flat_map(short_forms).collect();
    let mut places = Vec::new();
    for (path, text) in tree.files(".md") {
        let mut add = |line, what| places.push(Place { path: path.to_string(), line, what });
        for (line, text) in prose(text) {
            let (text, spans) = split_code(text);
            for target in targets(&text) {
                if let Some(what) = dead(tree, path, target) {
                    add(line, what);
                }
            }
            for span in spans.iter().filter(|_| NAMES_PATHS.contains(&path)) {
                if let Some(named) = repository_path(span, &folders)
                    && !short.contains(&without_src(named))
                    && !tree.exists(named)
                {
                    add(line, format!("`{named}` does not exist"));
                }
            }
        }
    }
    vec![Figure::of("all", places)]
}

fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// A path without its components `src`, and the same without its first components.
fn short_forms(path: &str) -> Vec<String> {
    let whole = without_src(path);
    let rest = whole.match_indices('/').map(|(at, _)| whole[at + 1..].to_string());
    rest.chain([whole.clone()]).collect()
}

fn without_src(path: &str) -> String {
    path.split('/').filter(|name| *name != "src").collect::<Vec<_>>().join("/")
}

/// The path that a span of code names, if it names one.
fn repository_path<'a>(span: &'a str, folders: &BTreeSet<&str>) -> Option<&'a str> {
    let word = span.split(' ').next()?.trim_end_matches('/');
    let (first, _) = word.split_once('/')?;
    let is_plain = word.chars().all(|c| c.is_alphanumeric() || "/._-".contains(c));
    (folders.contains(first) && is_plain).then_some(word)
}

/// The lines outside of fenced code, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (u32, &str)> {
    let mut in_code = false;
    text.lines().zip(1..).filter_map(move |(line, number)| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        (!in_code && !is_fence).then_some((number, line))
    })
}

/// A line without what is in backticks, and what is in them.
fn split_code(line: &str) -> (String, Vec<&str>) {
    let mut plain = String::new();
    let mut spans = Vec::new();
    let mut parts = line.split('`');
    while let Some(part) = parts.next() {
        plain.push_str(part);
        spans.extend(parts.next());
    }
    (plain, spans)
}

/// The targets of `[text](target)` and of `[name]: target`.
fn targets(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (at, _) in line.match_indices("](") {
        let rest = &line[at + 2..];
        found.extend(rest.split([')', ' ']).next());
    }
    if line.starts_with('[')
        && let Some((_, target)) = line.split_once("]: ")
    {
        found.extend(target.split(' ').next());
    }
    found
}

/// What is wrong with a link, if anything.
fn dead(tree: &Tree, from: &str, target: &str) -> Option<String> {
    if target.is_empty() || target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = if file.is_empty() { Some(from.to_string()) } else { join(from, file) };
    let Some(path) = path.filter(|path| tree.exists(path)) else {
        return Some(format!("the link {target} leads nowhere"));
    };
    let has_anchor = anchor.is_empty() || tree.text(&path).is_none_or(|text| anchors(text).contains(anchor));
    (!has_anchor).then(|| format!("{path} has no heading for the link {target}"))
}

/// The path of a link in the file `from`, or `None` if it leaves the repository.
fn join(from: &str, target: &str) -> Option<String> {
    let (folder, target) = match target.strip_prefix('/') {
        Some(target) => ("", target),
        None => (from.rsplit_once('/').map_or("", |(folder, _)| folder), target),
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(target.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The anchors of the headings, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (_, line) in prose(text).filter(|(_, line)| line.starts_with('#')) {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|&c| c.is_alphanumeric() || " -_".contains(c));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let again = (1..).map(|n| format!("{anchor}-{n}"));
        let free = [anchor.clone()].into_iter().chain(again).find(|anchor| !found.contains(anchor));
        found.extend(free);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::tree::testing::tree;
    use super::*;

    fn places(files: &[(&str, &str)]) -> Vec<String> {
        let tree = tree(files);
        check(&tree)[0].places.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn links_need_their_file_and_heading() {
        let text = "[a](../b.md) [b](c.md#some-heading) [c](#here)\n# Here\n[d](no.md) and [e](c.md#none \"title\")\n\
                    `[f](no.md)` [g](https://x.org/no.md) [h](/docs) [i](../../out.md)\n```\n[j](no.md)\n```\n[k]: gone/";
        let files = [("docs/a.md", text), ("b.md", ""), ("docs/c.md", "## Some `heading`!\n```\n# none\n```\n")];
        let expected = [
            "docs/a.md:3: the link no.md leads nowhere",
            "docs/a.md:3: docs/c.md has no heading for the link c.md#none",
            "docs/a.md:4: the link ../../out.md leads nowhere",
            "docs/a.md:8: the link gone/ leads nowhere",
        ];
        assert_eq!(places(&files), expected);
    }

    #[test]
    fn paths_in_backticks_exist() {
        let text = "`engine/pool/src/a.rs` `pool/a.rs` `pool/b.rs` `testing/zdb FOLDER` `engine/gone ARGS` `ui/dist`\n\
                    `and/or` `/v1/pool` `state/`\n```\n`pool/c.rs`\n```\n";
        let files = [
            ("ARCHITECTURE.md", text),
            ("README.md", "`pool/d.rs`"),
            ("engine/pool/src/a.rs", ""),
            ("testing/zdb", ""),
            ("ui/x", ""),
            (".gitignore", "/ui/dist/"),
        ];
        let expected =
            ["ARCHITECTURE.md:1: `pool/b.rs` does not exist", "ARCHITECTURE.md:1: `engine/gone` does not exist"];
        assert_eq!(places(&files), expected);
    }
}
