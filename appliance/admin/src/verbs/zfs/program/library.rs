//! The functions `zfs.*` of a program.

use super::arguments::Signature;
use super::errno;
use dataset::write::OneTxg;
use dataset::{Dataset, Datasets};
use errors::Error;
use lua::{Complaint, Datum, FunctionId, Host};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a function returns.
pub type Returned = Result<Vec<Datum>, Complaint>;

/// Numbers of the functions. Those of `zfs.check` follow `zfs.sync` at a distance.
const DEBUG: FunctionId = 1;
const EXISTS: FunctionId = 2;
const GET_PROP: FunctionId = 3;
const LISTS: FunctionId = 10;
const SYNC: FunctionId = 100;
const CHECK: FunctionId = 200;

/// Bytes of a text that `zfs.debug` writes to the log. Guessed.
const LOGGED_BYTES: usize = 1024;

/// All functions.
pub const FUNCTIONS: &[(&str, FunctionId)] = &[
    ("zfs.debug", DEBUG),
    ("zfs.exists", EXISTS),
    ("zfs.get_prop", GET_PROP),
    ("zfs.list.children", LISTS),
    ("zfs.list.snapshots", LISTS + 1),
    ("zfs.list.user_properties", LISTS + 2),
    ("zfs.list.properties", LISTS + 3),
    ("zfs.list.clones", LISTS + 4),
    ("zfs.list.system_properties", LISTS + 5),
    ("zfs.list.bookmarks", LISTS + 6),
    ("zfs.list.holds", LISTS + 7),
    ("zfs.sync.destroy", SYNC),
    ("zfs.sync.promote", SYNC + 1),
    ("zfs.sync.rollback", SYNC + 2),
    ("zfs.sync.snapshot", SYNC + 3),
    ("zfs.sync.rename_snapshot", SYNC + 4),
    ("zfs.sync.inherit", SYNC + 5),
    ("zfs.sync.bookmark", SYNC + 6),
    ("zfs.sync.set_prop", SYNC + 7),
    ("zfs.check.destroy", CHECK),
    ("zfs.check.promote", CHECK + 1),
    ("zfs.check.rollback", CHECK + 2),
    ("zfs.check.snapshot", CHECK + 3),
    ("zfs.check.rename_snapshot", CHECK + 4),
    ("zfs.check.inherit", CHECK + 5),
    ("zfs.check.bookmark", CHECK + 6),
    ("zfs.check.set_prop", CHECK + 7),
];

const NAME: &str = "string";

/// What the functions that look at datasets take, by number.
const LOOKS: &[(FunctionId, Signature)] = &[
    (DEBUG, Signature { name: "debug", positions: &[("debug string", NAME)], keywords: &[] }),
    (EXISTS, Signature { name: "exists", positions: &[("dataset", NAME)], keywords: &[] }),
    (GET_PROP, Signature { name: "get_prop", positions: &[("dataset", NAME), ("property", NAME)], keywords: &[] }),
    (LISTS, Signature { name: "children", positions: &[("filesystem | volume", NAME)], keywords: &[] }),
    (LISTS + 1, Signature { name: "snapshots", positions: &[("filesystem | volume", NAME)], keywords: &[] }),
    (
        LISTS + 2,
        Signature { name: "user_properties", positions: &[("filesystem | snapshot | volume", NAME)], keywords: &[] },
    ),
    (
        LISTS + 3,
        Signature { name: "properties", positions: &[("filesystem | snapshot | volume", NAME)], keywords: &[] },
    ),
    (LISTS + 4, Signature { name: "clones", positions: &[("snapshot", NAME)], keywords: &[] }),
    (LISTS + 5, Signature { name: "system_properties", positions: &[("dataset", NAME)], keywords: &[] }),
    (LISTS + 6, Signature { name: "bookmarks", positions: &[("dataset", NAME)], keywords: &[] }),
    (LISTS + 7, Signature { name: "holds", positions: &[("snapshot", NAME)], keywords: &[] }),
];

/// What the library did that concerns more than the pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A file system or volume was destroyed.
    Destroyed(String),
    /// A clone became the encryption root instead of another dataset.
    Root { before: String, now: String },
}

/// The host of a program.
pub struct Library<'a> {
    pub(super) txg: &'a OneTxg<'a>,
    pub(super) pool: &'a str,
    pub(super) altroot: Option<&'a str>,
    pub(super) read_only: bool,
    is_cancelled: &'a AtomicBool,
    /// In the order in which they happened.
    pub(super) events: Vec<Event>,
    /// The engine runs, not the interpreter.
    in_engine: bool,
}

impl<'a> Library<'a> {
    pub(super) fn new(txg: &'a OneTxg<'a>, pool: &'a str, read_only: bool, is_cancelled: &'a AtomicBool) -> Self {
        Self { txg, pool, altroot: None, read_only, is_cancelled, events: Vec::new(), in_engine: false }
    }

    /// Mount points are below this directory.
    pub(super) fn with_altroot(self, altroot: Option<&'a str>) -> Self {
        Self { altroot, ..self }
    }

    pub(super) fn is_in_engine(&self) -> bool {
        self.in_engine
    }

    pub(super) fn into_events(self) -> Vec<Event> {
        self.events
    }

    pub(super) fn tree(&self) -> Result<Arc<Datasets>, Complaint> {
        self.txg.tree().map_err(|error| Complaint::Error(error.to_string()))
    }

    /// A dataset or snapshot, as OpenZFS looks it up.
    pub(super) fn find(&self, name: &str) -> Result<Dataset, Error> {
        let pool = name.split(['/', '@', '#']).next().unwrap_or(name);
        if pool != self.pool {
            return Err(errors::Refusal::CrossDevice.at(name));
        }
        if name.contains('#') {
            return Err(Error::not_found(name, "the dataset"));
        }
        self.txg.tree()?.dataset(name)
    }

    /// The same; a dataset that cannot be opened ends the program. It is the first argument.
    pub(super) fn hold(&self, name: &str) -> Result<Dataset, Complaint> {
        self.find(name).map_err(|error| self.cannot_hold(name, &error))
    }

    pub(super) fn cannot_hold(&self, name: &str, error: &Error) -> Complaint {
        match errno::of_error(error) {
            errno::ENOENT => Complaint::Argument(1, format!("no such dataset '{name}'")),
            errno::EXDEV => {
                Complaint::Argument(1, format!("dataset '{name}' is not in the target pool '{}'", self.pool))
            }
            errno::EIO => Complaint::Error(format!("I/O error while accessing dataset '{name}'")),
            number => Complaint::Error(format!("unexpected error {number} while accessing dataset '{name}'")),
        }
    }

    fn dispatch(&mut self, function: FunctionId, arguments: Vec<Datum>) -> Returned {
        match function {
            SYNC..CHECK => return self.change(usize::from(function - SYNC), arguments, false),
            CHECK.. => return self.change(usize::from(function - CHECK), arguments, true),
            _ => {}
        }
        let signature = LOOKS.iter().find(|(number, _)| *number == function).map(|(_, signature)| signature);
        let signature = signature.ok_or_else(|| Complaint::Error("no such function".to_owned()))?;
        let arguments = texts(signature.parse(arguments)?);
        let first = arguments.first().map(String::as_str).unwrap_or_default();
        match function {
            DEBUG => {
                tracing::info!("txg {} ZCP: {}", self.txg.txg(), loggable(first));
                Ok(Vec::new())
            }
            EXISTS => self.exists(first),
            GET_PROP => self.property(first, arguments.get(1).map(String::as_str).unwrap_or_default()),
            _ => self.list(usize::from(function - LISTS), first),
        }
    }

    fn exists(&self, name: &str) -> Returned {
        let is_there = match self.find(name) {
            Ok(_) => true,
            Err(error) => match errno::of_error(&error) {
                errno::ENOENT => false,
                errno::EXDEV => {
                    return Err(Complaint::Error(format!("dataset '{name}' is not in the target pool")));
                }
                errno::EIO => return Err(Complaint::Error(format!("I/O error opening dataset '{name}'"))),
                number => return Err(Complaint::Error(format!("unexpected error {number}"))),
            },
        };
        Ok(vec![Datum::Boolean(is_there)])
    }
}

/// A text as it goes to the log: its beginning, in one line.
fn loggable(text: &str) -> String {
    let mut shown = String::new();
    for character in text.chars() {
        match character.is_control() {
            true => shown.extend(character.escape_default()),
            false => shown.push(character),
        }
        if shown.len() >= LOGGED_BYTES {
            shown.push_str("...");
            break;
        }
    }
    shown
}

/// Arguments that are texts.
pub fn texts(arguments: Vec<Datum>) -> Vec<String> {
    let text = |datum| match datum {
        Datum::Text(text) => String::from_utf8_lossy(&text).into_owned(),
        _ => String::new(),
    };
    arguments.into_iter().map(text).collect()
}

impl Host for Library<'_> {
    fn call(&mut self, function: FunctionId, arguments: Vec<Datum>) -> Returned {
        self.in_engine = true;
        let result = self.dispatch(function, arguments);
        self.in_engine = false;
        result
    }

    fn is_cancelled(&mut self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_go_to_the_log_in_one_short_line() {
        assert_eq!(loggable("a 'b' \u{e4}\n\u{1b}[0m"), "a 'b' \u{e4}\\n\\u{1b}[0m");
        assert_eq!(loggable(&"x".repeat(1 << 20)), "x".repeat(LOGGED_BYTES) + "...");
    }
}
