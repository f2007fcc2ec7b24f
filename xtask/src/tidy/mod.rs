//! `cargo xtask tidy`: figures about the source that may fall and not grow.
//!
//! Each check counts places in each crate. xtask/limits.txt states the highest allowed count, one
//! line for each check and crate; without a line it is 0. A higher count fails and lists the
//! places. A lower one is reported, so that the limit can follow, and fails only with `--strict`.
//! Crate edges and dead links have no limits: each one fails.
//!
//! Invariants:
//!   * a check reads [`tree::Tree`] only, so that every check can be tested with files in memory
//!   * nothing outside of xtask/limits.txt is written

mod circles;
mod comments;
mod figure;
mod limits;
mod links;
mod locks;
mod modules;
mod participles;
mod reexports;
mod rust;
mod tree;

use crate::edges;
use anyhow::{Context, Result, bail};
use figure::{Figure, Place};
use limits::Limits;
use std::path::Path;
use tree::Tree;

/// Places that the message about one exceeded limit lists; `--list` lists all.
const PLACES_MAX: usize = 50;

const LIMITS: &str = "xtask/limits.txt";

struct Check {
    /// As in xtask/limits.txt and `--list`.
    name: &'static str,
    title: &'static str,
    /// The project wants it to be 0.
    goal: bool,
    /// No limit: each place fails.
    strict: bool,
    figures: Vec<Figure>,
}

/// Prints all figures. Fails if one exceeds its limit, with `strict` also if one is below it.
pub fn check(root: &Path, strict: bool) -> Result<()> {
    let checks = checks(root)?;
    for check in &checks {
        println!("{}", summary(check));
    }
    let outcome = compare(&checks, &read_limits(root)?);
    for line in &outcome.lower {
        println!("{line}");
    }
    let mut failed = outcome.failed;
    if strict {
        failed.extend(outcome.lower);
    }
    if !failed.is_empty() {
        bail!("{}", failed.join("\n"));
    }
    Ok(())
}

/// Lowers the limits to the figures. A limit that is exceeded stays.
pub fn lower(root: &Path) -> Result<()> {
    let checks = checks(root)?;
    let mut limits = read_limits(root)?;
    for (check, figures) in limited(&checks) {
        for krate in limits.crates(check.name) {
            let value = figures.iter().find(|figure| figure.krate == krate).map_or(0, |figure| figure.value);
            limits.lower(check.name, &krate, value);
        }
    }
    std::fs::write(root.join(LIMITS), limits.to_string()).context(LIMITS)
}

/// Prints every place of one check.
pub fn list(root: &Path, name: &str) -> Result<()> {
    let checks = checks(root)?;
    let Some(check) = checks.iter().find(|check| check.name == name) else {
        let names: Vec<&str> = checks.iter().map(|check| check.name).collect();
        bail!("no check is named {name}; available: {}", names.join(", "));
    };
    for place in check.figures.iter().flat_map(|figure| &figure.places) {
        println!("{place}");
    }
    Ok(())
}

fn read_limits(root: &Path) -> Result<Limits> {
    Limits::parse(&std::fs::read_to_string(root.join(LIMITS)).context(LIMITS)?)
}

fn checks(root: &Path) -> Result<Vec<Check>> {
    let tree = Tree::read(root)?;
    let sources = tree.sources();
    let crates = modules::crates(&tree, &sources);
    let names = tree.packages().map(|(_, name)| name.replace('-', "_")).collect();
    let (in_circles, largest_circle) = circles::check(&crates);
    let edge = |what| Place { path: "edges:".to_string(), line: 0, what };
    let edges = Figure::of("all", edges::violations(root)?.into_iter().map(edge).collect());
    let check = |name, title, figures| Check { name, title, goal: false, strict: false, figures };
    Ok(vec![
        Check { strict: true, ..check("edges", "crate edges that ARCHITECTURE.md does not allow", vec![edges]) },
        Check { strict: true, ..check("links", "dead links and paths", links::check(&tree)) },
        Check { goal: true, ..check("re-exports", "layer-jumping re-exports", reexports::check(&crates, &names)) },
        Check { goal: true, ..check("circles", "files in import circles", in_circles) },
        Check { goal: true, ..check("largest-circle", "files in the largest import circle", largest_circle) },
        Check { goal: true, ..check("locks", "structs with locks and more than 12 fields", locks::check(&crates)) },
        Check { goal: true, ..check("participles", "files named after a participle", participles::check(&tree)) },
        check("long-comments", "comment lines longer than 100 columns", comments::long_lines(&tree, &sources)),
        check("words", "words to avoid in comments", comments::words(&tree, &sources)),
    ])
}

/// One line: `files in import circles: 12 (pool 10, block 2), goal 0`. The largest circle is the
/// largest of all crates, everything else is a sum.
fn summary(check: &Check) -> String {
    let values = check.figures.iter().map(|figure| figure.value);
    let total: usize = if check.name == "largest-circle" { values.max().unwrap_or(0) } else { values.sum() };
    let mut parts: Vec<&Figure> = check.figures.iter().filter(|figure| figure.value > 0).collect();
    parts.sort_by(|a, b| b.value.cmp(&a.value).then(a.krate.cmp(&b.krate)));
    let parts: Vec<String> = parts.iter().map(|figure| format!("{} {}", figure.krate, figure.value)).collect();
    let parts = if check.strict || parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
    let goal = if check.goal && total > 0 { ", goal 0" } else { "" };
    format!("{}: {total}{parts}{goal}", check.title)
}

fn limited(checks: &[Check]) -> impl Iterator<Item = (&Check, &[Figure])> {
    checks.iter().filter(|check| !check.strict).map(|check| (check, &check.figures[..]))
}

#[derive(Default)]
struct Outcome {
    /// Limits that are exceeded, with the places, and mistakes in the limits.
    failed: Vec<String>,
    /// Limits that can be lowered.
    lower: Vec<String>,
}

fn compare(checks: &[Check], limits: &Limits) -> Outcome {
    let mut outcome = Outcome::default();
    for check in checks.iter().filter(|check| check.strict) {
        outcome.failed.extend(check.figures.iter().flat_map(|figure| &figure.places).map(ToString::to_string));
    }
    for (check, figures) in limited(checks) {
        for figure in figures {
            let limit = limits.get(check.name, &figure.krate);
            if figure.value > limit {
                outcome.failed.push(exceeded(check, figure, limit));
            }
        }
        for krate in limits.crates(check.name) {
            let value = figures.iter().find(|figure| figure.krate == krate).map_or(0, |figure| figure.value);
            if value < limits.get(check.name, &krate) {
                outcome.lower.push(format!("{LIMITS}: lower the limit of {} {krate} to {value}", check.name));
            }
        }
    }
    for name in limits.checks().filter(|&name| limited(checks).all(|(check, _)| check.name != name)) {
        outcome.failed.push(format!("{LIMITS}: no check named {name} has limits"));
    }
    outcome
}

fn exceeded(check: &Check, figure: &Figure, limit: usize) -> String {
    let mut text = format!("{}: {}: {}, the limit is {limit}", figure.krate, check.title, figure.value);
    for place in figure.places.iter().take(PLACES_MAX) {
        text.push_str(&format!("\n  {place}"));
    }
    if figure.places.len() > PLACES_MAX {
        let rest = figure.places.len() - PLACES_MAX;
        text.push_str(&format!("\n  and {rest} more: cargo xtask tidy --list {}", check.name));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(line: u32) -> Place {
        Place { path: "a.rs".to_string(), line, what: "is wrong".to_string() }
    }

    fn with_figures(name: &'static str, strict: bool, values: &[(&str, u32)]) -> Check {
        let figure = |(krate, value): &(&str, u32)| Figure::of(krate, (1..=*value).map(place).collect());
        let figures = values.iter().map(figure).collect();
        Check { name, title: "wrong lines", goal: true, strict, figures }
    }

    #[test]
    fn more_than_the_limit_fails_with_the_places_and_less_requires_lowering_it() {
        let checks = [with_figures("wrong", false, &[("pool", 2), ("block", 3), ("host", 0), ("cli", 1)])];
        let limits = Limits::parse("wrong pool 1\nwrong block 3\nwrong host 2\nwrong gone 7\n").unwrap();
        let outcome = compare(&checks, &limits);
        let expected = [
            "pool: wrong lines: 2, the limit is 1\n  a.rs:1: is wrong\n  a.rs:2: is wrong",
            "cli: wrong lines: 1, the limit is 0\n  a.rs:1: is wrong",
        ];
        assert_eq!(outcome.failed, expected);
        let expected = [
            "xtask/limits.txt: lower the limit of wrong gone to 0",
            "xtask/limits.txt: lower the limit of wrong host to 0",
        ];
        assert_eq!(outcome.lower, expected);
    }

    #[test]
    fn each_place_of_a_strict_check_fails_and_it_has_no_limits() {
        let checks = [with_figures("dead", true, &[("all", 2)])];
        let outcome = compare(&checks, &Limits::parse("dead all 2\n").unwrap());
        let expected = ["a.rs:1: is wrong", "a.rs:2: is wrong", "xtask/limits.txt: no check named dead has limits"];
        assert_eq!(outcome.failed, expected);
    }

    #[test]
    fn a_message_lists_a_bounded_number_of_places() {
        let check = with_figures("wrong", false, &[("pool", 60)]);
        let text = exceeded(&check, &check.figures[0], 3);
        assert_eq!(text.lines().count(), 1 + PLACES_MAX + 1);
        assert!(text.ends_with("and 10 more: cargo xtask tidy --list wrong"));
    }

    #[test]
    fn a_summary_names_crates_from_the_largest_figure_down() {
        let check = with_figures("wrong", false, &[("block", 1), ("host", 0), ("pool", 2)]);
        assert_eq!(summary(&check), "wrong lines: 3 (pool 2, block 1), goal 0");
        assert_eq!(summary(&with_figures("wrong", false, &[("host", 0)])), "wrong lines: 0");
        let circle = with_figures("largest-circle", false, &[("block", 2), ("pool", 4)]);
        assert_eq!(summary(&circle), "wrong lines: 4 (pool 4, block 2), goal 0");
    }
}
