//! `POOL/DATASET[@SNAPSHOT]:/path`: which file in which pool, where its disks are, and its key.

use anyhow::{Result, bail};
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use files::namespace::Provider;
use files::vfs::Vfs;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

/// A file or directory in a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// `POOL/DATASET` or `POOL/DATASET@SNAPSHOT`.
    pub dataset: String,
    /// What stands behind the colon; empty for the dataset itself.
    pub path: Vec<u8>,
}

impl Spec {
    /// Splits at the first `:/`, or at a colon that ends the argument. (A dataset's name may hold colons of its own, but a
    /// component that ends in one is not seen in practice, and can be reached by its parent.)
    pub fn parse(argument: &OsStr) -> Result<Self> {
        let bytes = argument.as_bytes();
        let split = bytes
            .windows(2)
            .position(|w| w == b":/")
            .or_else(|| bytes.len().checked_sub(1).filter(|_| bytes.ends_with(b":")));
        let Some(at) = split else {
            bail!("{}: expected POOL/DATASET:/path", argument.to_string_lossy());
        };
        let (dataset, path) = bytes.split_at(at);
        let path = path.get(1..).unwrap_or_default().to_vec();
        match std::str::from_utf8(dataset) {
            Ok(name) if !name.is_empty() => Ok(Self { dataset: name.to_owned(), path }),
            _ => bail!("{}: expected the name of a dataset before the colon", argument.to_string_lossy()),
        }
    }

    /// As [`Self::parse`]; without a colon, the root of the dataset.
    pub fn parse_or_root(argument: &OsStr) -> Result<Self> {
        if argument.as_bytes().contains(&b':') {
            return Self::parse(argument);
        }
        let mut with_colon = argument.to_owned();
        with_colon.push(":");
        Self::parse(&with_colon)
    }

    /// Last component of the path; of a volume (no path), of the dataset's name; nothing for a root directory.
    pub fn base_name(&self) -> Option<Vec<u8>> {
        let path = self.path.split(|&b| b == b'/').rfind(|c| !c.is_empty() && *c != b".");
        match path {
            Some(b"..") => None,
            Some(name) => Some(name.to_vec()),
            None if self.path.is_empty() => {
                let dataset = self.dataset.split('@').next().unwrap_or_default();
                dataset.rsplit('/').next().map(|n| n.as_bytes().to_vec())
            }
            None => None,
        }
    }
}

impl std::fmt::Display for Spec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.dataset, String::from_utf8_lossy(&crate::tree::shown(&self.path, true)))
    }
}

/// The options that say where the disks are and what opens them, for every command that opens a dataset.
pub fn args() -> [Arg; 4] {
    [
        Arg::new("search")
            .short('d')
            .value_name("DIR-OR-DEVICE")
            .action(ArgAction::Append)
            .value_parser(value_parser!(PathBuf))
            .help(
                "Look for the pool's disks here: a folder of devices or image files, or one of them. May be repeated",
            ),
        Arg::new("key-file")
            .long("key-file")
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .help("The dataset's raw or hexadecimal key"),
        Arg::new("passphrase-file")
            .long("passphrase-file")
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .help("A file whose first line is the dataset's passphrase"),
        Arg::new("keylocation")
            .short('L')
            .value_name("KEYLOCATION")
            .help("Where the key is, instead of the property: 'prompt' or file:///absolute/path"),
    ]
}

/// Opens datasets, each once.
pub struct Opener {
    search: Vec<PathBuf>,
    opened: HashMap<String, Arc<dyn Vfs>>,
}

impl Opener {
    /// From the options of [`args`].
    pub fn new(matches: &ArgMatches) -> Self {
        let search = matches.get_many::<PathBuf>("search").into_iter().flatten().cloned().collect();
        Self { search, opened: HashMap::new() }
    }

    /// A dataset with all that can be opened from it.
    pub fn provider(&mut self, dataset: &str) -> Result<Arc<dyn Provider>> {
        Err(files::Error::unsupported(dataset, "opening of pools").into())
    }

    /// The files of a dataset, or of a volume: then the root is a regular file.
    pub fn open(&mut self, dataset: &str) -> Result<Arc<dyn Vfs>> {
        if let Some(vfs) = self.opened.get(dataset) {
            return Ok(vfs.clone());
        }
        let vfs = open(dataset, &self.search)?;
        self.opened.insert(dataset.to_owned(), vfs.clone());
        Ok(vfs)
    }
}

fn open(dataset: &str, _search: &[PathBuf]) -> Result<Arc<dyn Vfs>> {
    Err(files::Error::unsupported(dataset, "opening of pools").into())
}

/// The arguments of a command that takes files.
pub fn operands(matches: &ArgMatches, id: &str) -> Vec<OsString> {
    matches.get_many::<OsString>(id).into_iter().flatten().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(s: &str) -> Option<(String, String)> {
        let spec = Spec::parse(OsStr::new(s)).ok()?;
        Some((spec.dataset, String::from_utf8(spec.path).expect("was text")))
    }

    #[test]
    fn specs_split_at_the_path() {
        let some = |d: &str, p: &str| Some((d.to_owned(), p.to_owned()));
        assert_eq!(parse("tank/fs:/a:b"), some("tank/fs", "/a:b"));
        assert_eq!(parse("tank/a:b@s:1:/c:/d"), some("tank/a:b@s:1", "/c:/d"));
        assert_eq!(parse("tank/vol:"), some("tank/vol", ""));
        assert_eq!(parse("tank:/"), some("tank", "/"));
        assert_eq!(parse("tank/fs"), None);
        assert_eq!(parse(":/x"), None);
        assert_eq!(parse("a:b"), None);
    }

    #[test]
    fn base_names_are_what_cp_makes() {
        let base =
            |s: &str| Spec::parse(OsStr::new(s)).expect(s).base_name().map(|b| String::from_utf8(b).expect("text"));
        assert_eq!(base("tank/fs:/a/b/").as_deref(), Some("b"));
        assert_eq!(base("tank/fs/vol@s:").as_deref(), Some("vol"));
        assert_eq!(base("tank/fs:/"), None);
        assert_eq!(base("tank/fs:/a/.."), None);
    }
}
