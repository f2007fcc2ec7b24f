//! Structs with locks and more than [`FIELDS_MAX`] fields: several owners of state in one place.

use super::figure::{Figure, Place};
use super::modules::Crate;
use super::rust::{Token, close};
use std::collections::BTreeSet;

/// Guessed: what a reader can keep in mind.
const FIELDS_MAX: usize = 12;
const LOCKS: &[&str] = &["Mutex", "RwLock", "Condvar", "OnceLock"];

pub fn check(crates: &[Crate]) -> Vec<Figure> {
    let mut figures = Vec::new();
    for krate in crates {
        let mut places = BTreeSet::new();
        for (path, tokens) in &krate.files {
            for found in structs(tokens).iter().filter(|found| found.fields > FIELDS_MAX && found.locks > 0) {
                let what = format!("{} has {} fields, {} of them with locks", found.name, found.fields, found.locks);
                places.insert(Place { path: path.to_string(), line: found.line, what });
            }
        }
        figures.push(Figure::of(krate.name, places.into_iter().collect()));
    }
    figures
}

#[derive(PartialEq, Eq, Debug)]
struct Struct<'a> {
    name: &'a str,
    line: u32,
    fields: usize,
    /// Fields whose type contains a lock.
    locks: usize,
}

/// The structs with named fields.
fn structs<'a>(tokens: &[Token<'a>]) -> Vec<Struct<'a>> {
    let mut found = Vec::new();
    for (at, pair) in tokens.windows(2).enumerate() {
        let Some(name) = pair[1].ident().filter(|_| pair[0].is("struct")) else { continue };
        let Some(open) = body(tokens, at + 2) else { continue };
        let end = close(tokens, open);
        let (fields, locks) = count_fields(&tokens[open + 1..end]);
        found.push(Struct { name, line: pair[0].line, fields, locks });
    }
    found
}

/// The `{` that begins the fields, after parameters and bounds.
fn body(tokens: &[Token], mut at: usize) -> Option<usize> {
    let mut angles = 0;
    while let Some(token) = tokens.get(at) {
        if token.is("{") {
            return Some(at);
        } else if token.is(";") || (token.is("(") && angles == 0 && !has_bounds(tokens, at)) {
            return None;
        } else if token.is("(") {
            at = close(tokens, at);
        } else if token.is("<") {
            angles += 1;
        } else if token.is(">") && !tokens[at - 1].is("-") {
            angles -= 1;
        }
        at += 1;
    }
    None
}

/// A parenthesis after `where` belongs to a bound such as `Fn(u8)`, not to a tuple struct.
fn has_bounds(tokens: &[Token], at: usize) -> bool {
    let header = tokens[..at].iter().rev().take_while(|token| !token.is("struct"));
    header.into_iter().any(|token| token.is("where"))
}

fn count_fields(tokens: &[Token]) -> (usize, usize) {
    let (mut fields, mut locks) = (0, 0);
    let (mut angles, mut at) = (0, 0);
    // Behind the `:` of a field.
    let (mut in_type, mut has_lock) = (false, false);
    while at < tokens.len() {
        let token = &tokens[at];
        if token.is("#") {
            at = close(tokens, at + 1);
        } else if !in_type {
            if token.is("(") {
                at = close(tokens, at);
            } else if token.is(":") {
                fields += 1;
                (in_type, has_lock) = (true, false);
            }
        } else if token.is("(") || token.is("[") {
            let end = close(tokens, at);
            has_lock |= tokens[at..end].iter().any(is_lock);
            at = end;
        } else if token.is("<") {
            angles += 1;
        } else if token.is(">") && !tokens[at - 1].is("-") {
            angles -= 1;
        } else if token.is(",") && angles == 0 {
            locks += usize::from(has_lock);
            in_type = false;
        } else {
            has_lock |= is_lock(token);
        }
        at += 1;
    }
    (fields, locks + usize::from(in_type && has_lock))
}

fn is_lock(token: &Token) -> bool {
    token.ident().is_some_and(|name| LOCKS.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::super::modules::crates;
    use super::super::rust::Source;
    use super::super::tree::testing::tree;
    use super::*;

    #[test]
    fn fields_and_their_locks_are_counted() {
        let text = "struct A<T: Fn(u8) -> u8> where T: Send { #[doc = \"a, b\"] pub(in crate::x) a: Map<A, Arc<Mutex<B>>>, \
            b: (u8, RwLock<u8>), c: fn(u8) -> u8, d: Vec<MutexGuard<'a, u8>>, e: [OnceLock<u8>; 2], f: Condvar } \
            struct B; struct C(Mutex<u8>); struct D<T>(T) where T: Fn(u8); struct E {}";
        let expected =
            [Struct { name: "A", line: 1, fields: 6, locks: 4 }, Struct { name: "E", line: 1, fields: 0, locks: 0 }];
        assert_eq!(structs(&Source::lex(text).tokens), expected);
    }

    #[test]
    fn only_large_structs_with_locks_are_reported() {
        let fields = |count: usize| (0..count).map(|n| format!("f{n}: u8, ")).collect::<String>();
        let text = format!(
            "struct Small {{ {} lock: Mutex<u8> }}\nstruct Large {{ {} lock: Mutex<u8> }}\nstruct Plain {{ {} }}\n\
             #[cfg(test)] struct Test {{ {} lock: Mutex<u8> }}",
            fields(11),
            fields(12),
            fields(20),
            fields(20)
        );
        let tree = tree(&[("x/a/src/lib.rs", &text), ("x/a/tests/t.rs", &text)]);
        let sources = tree.sources();
        let figures = check(&crates(&tree, &sources));
        let places: Vec<String> = figures[0].places.iter().map(ToString::to_string).collect();
        assert_eq!(places, ["x/a/src/lib.rs:2: Large has 13 fields, 1 of them with locks"]);
    }
}
