//! xtask/limits.txt: a line for each check and crate, `CHECK CRATE LIMIT`. Lines that begin with
//! `#` are comments.

use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fmt;

#[derive(Debug)]
pub struct Limits {
    /// The comments at the head of the file.
    head: String,
    limits: BTreeMap<(String, String), usize>,
}

impl Limits {
    pub fn parse(text: &str) -> Result<Limits> {
        let mut limits = Limits { head: String::new(), limits: BTreeMap::new() };
        for (line, number) in text.lines().zip(1..) {
            if line.starts_with('#') || line.is_empty() {
                limits.head.push_str(line);
                limits.head.push('\n');
                continue;
            }
            let words: Vec<&str> = line.split_whitespace().collect();
            let &[check, krate, limit] = &words[..] else {
                bail!("limits, line {number}: \"{line}\", expected CHECK CRATE LIMIT");
            };
            let value = limit.parse().with_context(|| format!("limits, line {number}: {limit} is not a number"))?;
            if limits.limits.insert((check.to_string(), krate.to_string()), value).is_some() {
                bail!("limits, line {number}: a second limit of {check} {krate}");
            }
        }
        Ok(limits)
    }

    pub fn get(&self, check: &str, krate: &str) -> usize {
        self.limits.get(&(check.to_string(), krate.to_string())).copied().unwrap_or(0)
    }

    /// The crates that have a limit for this check.
    pub fn crates(&self, check: &str) -> Vec<String> {
        self.limits.keys().filter(|(name, _)| name == check).map(|(_, krate)| krate.clone()).collect()
    }

    /// The checks, once for each limit.
    pub fn checks(&self) -> impl Iterator<Item = &str> {
        self.limits.keys().map(|(check, _)| check.as_str())
    }

    /// Never raises a limit. One of 0 is removed.
    pub fn lower(&mut self, check: &str, krate: &str, value: usize) {
        let value = value.min(self.get(check, krate));
        let key = (check.to_string(), krate.to_string());
        if value == 0 {
            self.limits.remove(&key);
        } else {
            self.limits.insert(key, value);
        }
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.head)?;
        for ((check, krate), limit) in &self.limits {
            writeln!(f, "{check} {krate} {limit}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_only_fall() {
        let text = "# Reasons.\n\ncircles pool 5\nwords block 3\nwords pool 2\n";
        let mut limits = Limits::parse(text).unwrap();
        assert_eq!(limits.to_string(), text);
        limits.lower("circles", "pool", 6);
        limits.lower("words", "block", 1);
        limits.lower("words", "pool", 0);
        assert_eq!(limits.to_string(), "# Reasons.\n\ncircles pool 5\nwords block 1\n");
        assert_eq!((limits.get("words", "block"), limits.get("words", "pool")), (1, 0));
        assert_eq!(limits.crates("words"), ["block"]);
    }

    #[test]
    fn a_wrong_line_is_an_error_that_names_it() {
        for (text, expected) in [
            ("a b", "limits, line 1: \"a b\", expected CHECK CRATE LIMIT"),
            ("# x\na b c", "limits, line 2: c is not a number"),
            ("a b 1\na b 2", "limits, line 2: a second limit of a b"),
        ] {
            assert_eq!(Limits::parse(text).unwrap_err().to_string(), expected);
        }
    }
}
