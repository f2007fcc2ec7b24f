//! Parses lines, keywords and lists.

use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;

/// A keyword and its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Item {
    pub keyword: String,
    pub values: Vec<String>,
}

/// A line: its number and its items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub number: usize,
    pub items: Vec<Item>,
}

/// Maximum nesting of included files, which stops circular includes.
const INCLUDED_MAX: usize = 8;

pub(super) fn lines(
    text: &str,
    variables: &BTreeMap<String, String>,
    include: &dyn Fn(&str) -> Result<String>,
    depth: usize,
) -> Result<Vec<Line>> {
    ensure!(depth <= INCLUDED_MAX, "more than {INCLUDED_MAX} files include each other");
    let mut found = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (n, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', '*', '/']) {
            continue;
        }
        if line == "eof" {
            break;
        }
        let line = replaced(until_blank(line), variables).with_context(|| format!("line {}", n + 1))?;
        let (number, mut whole) = open.take().unwrap_or((n + 1, String::new()));
        whole += &line;
        if whole.ends_with(',') {
            open = Some((number, whole));
            continue;
        }
        let items = items(&whole).with_context(|| format!("line {number}"))?;
        match &items[..] {
            [Item { keyword, values }] if keyword == "include" => {
                let name = values.first().map(String::as_str).unwrap_or_default();
                found.extend(lines(&include(name)?, variables, include, depth + 1)?);
            }
            _ => found.push(Line { number, items }),
        }
    }
    if let Some((number, whole)) = open {
        bail!("line {number}: '{whole}' is continued, but the file ends");
    }
    Ok(found)
}

/// The text up to the first blank outside quotes.
fn until_blank(line: &str) -> &str {
    let mut quoted = false;
    for (at, c) in line.char_indices() {
        match c {
            '"' => quoted = !quoted,
            c if c.is_whitespace() && !quoted => return &line[..at],
            _ => {}
        }
    }
    line
}

fn replaced(line: &str, variables: &BTreeMap<String, String>) -> Result<String> {
    let mut out = String::new();
    let mut rest = line;
    while let Some((before, behind)) = rest.split_once('$') {
        out += before;
        let end = behind.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(behind.len());
        let name = &behind[..end];
        out += variables.get(name).with_context(|| format!("${name} has no value; use {name}=VALUE"))?;
        rest = &behind[end..];
    }
    Ok(out + rest)
}

/// Splits at commas outside parentheses and quotes.
fn split(text: &str) -> Result<Vec<&str>> {
    let (mut depth, mut quoted, mut from) = (0, false, 0);
    let mut parts = Vec::new();
    for (at, c) in text.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth -= 1,
            ',' if depth == 0 && !quoted => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
        ensure!(depth >= 0, "'{text}' has a ) without its (");
    }
    ensure!(depth == 0 && !quoted, "'{text}' has a ( or \" that does not end");
    parts.push(&text[from..]);
    Ok(parts)
}

fn items(line: &str) -> Result<Vec<Item>> {
    let mut items = Vec::new();
    for part in split(line)? {
        let (keyword, value) = part.split_once('=').with_context(|| format!("'{part}' is not keyword=value"))?;
        let value = value.trim();
        let values = match value.strip_prefix('(').and_then(|v| v.strip_suffix(')')) {
            Some(list) => split(list)?,
            None => vec![value],
        };
        let values = values.into_iter().map(|v| v.trim().trim_matches('"').to_owned()).collect();
        items.push(Item { keyword: keyword.trim().to_ascii_lowercase(), values });
    }
    Ok(items)
}

/// Resolves a keyword: the exact match in `known`, or the first that starts with it.
pub(super) fn full<'a>(keyword: &str, known: &[&'a str]) -> Option<&'a str> {
    let same = known.iter().find(|k| **k == keyword);
    same.or_else(|| known.iter().find(|k| k.starts_with(keyword))).copied()
}

/// Values of a loop: as listed, or a range `1-8,1`, `1-64,d`.
pub(super) fn range(values: &[String]) -> Result<Vec<String>> {
    let [bounds, step] = values else {
        if let [one] = values
            && let Some((from, to)) = numbers(one)
        {
            return Ok((from..=to).map(|n| n.to_string()).collect());
        }
        return Ok(values.to_vec());
    };
    let Some((from, to)) = numbers(bounds) else { return Ok(values.to_vec()) };
    let by = crate::number::size(step);
    ensure!(
        step == "d" || by.is_some_and(|s| s > 0),
        "'{bounds},{step}': the step of a range is a number, or d for doubling"
    );
    let (mut at, mut found) = (from.max(u64::from(step == "d")), Vec::new());
    while at <= to {
        found.push(at.to_string());
        at = by.map_or(at * 2, |s| at + s);
        ensure!(found.len() <= 1000, "'{bounds},{step}' has more than 1,000 values");
    }
    Ok(found)
}

fn numbers(text: &str) -> Option<(u64, u64)> {
    let (from, to) = text.split_once('-')?;
    Some((crate::number::size(from)?, crate::number::size(to)?)).filter(|(from, to)| from <= to)
}
