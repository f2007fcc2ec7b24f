//! Comments of Rust sources: lines that are too long, and words that CONTRIBUTING.md replaces.

use super::figure::{Figure, Place};
use super::rust::{Comment, Source};
use super::tree::Tree;
use std::collections::BTreeMap;

const COLUMNS_MAX: usize = 100;

/// Words and phrases to avoid, in lower case. The table in CONTRIBUTING.md has more; these have no
/// second meaning that is fine.
const AVOID: &[&str] = &[
    "whoever",
    "anew",
    "lately",
    "nobody",
    "somebody",
    "goes on",
    "let go of",
    "is had",
    "mend",
    "mends",
    "mended",
    "mending",
];

type Sources<'a> = BTreeMap<&'a str, Source<'a>>;

/// Lines that hold only a comment and are longer than [`COLUMNS_MAX`]. Drawings, rows of tables and
/// lines with a URL may be longer.
pub fn long_lines(tree: &Tree, sources: &Sources) -> Vec<Figure> {
    figures(tree, sources, |source| {
        let long = source.comments.iter().filter(|comment| comment.columns > COLUMNS_MAX && comment.alone);
        let place = |comment: &Comment| (comment.line, format!("{} columns", comment.columns));
        long.filter(|comment| !may_be_long(comment.text)).map(place).collect()
    })
}

fn may_be_long(text: &str) -> bool {
    let is_drawing = text.contains(|c| ('\u{2500}'..='\u{257f}').contains(&c));
    is_drawing || text.trim_start().starts_with('|') || text.contains("://")
}

/// Occurrences of [`AVOID`], also across lines, but not in backticks: `nobody` is a user.
pub fn words(tree: &Tree, sources: &Sources) -> Vec<Figure> {
    figures(tree, sources, |source| {
        let mut found = Vec::new();
        let mut words: Vec<(u32, String)> = Vec::new();
        for comment in &source.comments {
            if words.last().is_some_and(|(line, _)| line + 1 < comment.line) {
                // No phrase spans two comments.
                words.push((comment.line, String::new()));
            }
            let prose: Vec<&str> = comment.text.split('`').step_by(2).collect();
            let prose = prose.join("`");
            let split = prose.split(|c: char| !c.is_alphanumeric() && !"'_`".contains(c));
            words.extend(split.filter(|word| !word.is_empty()).map(|word| (comment.line, word.to_lowercase())));
        }
        for phrase in AVOID {
            let phrase: Vec<&str> = phrase.split(' ').collect();
            let hits = words.windows(phrase.len()).filter(|window| window.iter().map(|(_, word)| word).eq(&phrase));
            found.extend(hits.map(|window| (window[0].0, format!("\"{}\"", phrase.join(" ")))));
        }
        found.sort();
        found
    })
}

fn figures(tree: &Tree, sources: &Sources, find: impl Fn(&Source) -> Vec<(u32, String)>) -> Vec<Figure> {
    let mut all: BTreeMap<&str, Vec<Place>> = BTreeMap::new();
    for (path, source) in sources {
        let place = |(line, what)| Place { path: path.to_string(), line, what };
        all.entry(tree.package_of(path)).or_default().extend(find(source).into_iter().map(place));
    }
    all.into_iter().map(|(krate, places)| Figure::of(krate, places)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tree::testing::tree;
    use super::*;

    fn places(check: impl Fn(&Tree, &Sources) -> Vec<Figure>, text: &str) -> Vec<String> {
        let tree = tree(&[("x/a/src/lib.rs", text)]);
        let figures = check(&tree, &tree.sources());
        assert_eq!(figures[0].krate, "a");
        figures[0].places.iter().map(|place| format!("{}: {}", place.line, place.what)).collect()
    }

    #[test]
    fn only_long_lines_of_prose_count() {
        let dots = |start: &str, columns: usize| format!("{start}{}\n", "ä".repeat(columns - start.chars().count()));
        let text = [
            dots("// ", 100),
            dots("    /// ", 101),
            dots("// | ", 120),
            dots("//! ─> ", 120),
            dots("// https://", 120),
            dots("let a; // ", 110),
            dots("let b = \"\n// ", 120),
            dots("\"; /*\n", 6),
            dots("", 130),
        ];
        let text = format!("{}*/", text.concat());
        assert_eq!(places(long_lines, &text), ["2: 101 columns", "11: 130 columns"]);
    }

    #[test]
    fn words_count_in_comments_only_and_across_lines() {
        let text = "// Whoever let\n// go of it, `anew`, lately_ or (Mended).\nlet nobody = \"nobody\"; // renewed, goes\n\
                    let x = 1;\n// on\nlet y; // nobody's \"nobody\"";
        let expected = ["1: \"let go of\"", "1: \"whoever\"", "2: \"mended\"", "6: \"nobody\""];
        assert_eq!(places(words, text), expected);
    }
}
