//! What a property is: the shape of one definition in the catalogue.
//!
//! A definition is data, not code: lists, help, man page, API and forms are made from it. Values are computed in
//! `property::lookup`, which asks by name.

use super::catalogue::values::Word;

/// The definition of a property.
#[derive(Debug)]
pub struct PropertyDef {
    /// Name as on the command line and in property ZAPs.
    pub name: &'static str,
    /// Heading of the column in `zfs list`.
    pub column: &'static str,
    /// What values are.
    pub value_type: ValueType,
    /// The value when nothing is set.
    pub default: DefaultValue,
    /// Who may set it and who inherits it.
    pub attr: Attr,
    /// Kinds of dataset that have it.
    pub kinds: Kinds,
    /// Values that are accepted, in one line.
    pub values: &'static str,
    /// What it means, in one sentence.
    pub help: &'static str,
    /// Whether lists of all properties show it.
    pub visibility: Visibility,
    /// Whether its column is aligned to the right.
    pub right_align: bool,
}

/// What the values of a property are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueType {
    /// A number.
    Number(Unit),
    /// Text.
    Text,
    /// One of some words, a number on disk.
    Index(&'static [Word]),
}

/// How a number is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Shortened, such as `12K`.
    Count,
    /// Shortened, with `B` below 1024.
    Bytes,
    /// Hundredths, such as `1.50x`.
    Ratio,
    /// In full: an identity.
    Id,
    /// Seconds since 1970, shown as a date.
    Time,
}

/// The value of a property that is not set anywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultValue {
    /// A number, or the number of a word.
    Number(u64),
    /// Text.
    Text(&'static str),
    /// There is none: the property is absent.
    None,
}

/// Who may set a property and who inherits it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attr {
    /// Nobody sets it.
    ReadOnly,
    /// Holds where it is set.
    Default,
    /// Holds where it is set and below.
    Inherit,
    /// Set when the dataset is created; inherited then.
    OneTime,
    /// Set when the dataset is created; holds there.
    OneTimeDefault,
}

/// Whether lists of all properties show a property.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visibility {
    /// Shown.
    Listed,
    /// Given when asked for by name, as OpenZFS hides it.
    Hidden,
    /// Given when asked for by name: it came after OpenZFS 2.3, whose lists are the model.
    Newer,
}

/// A set of kinds of dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kinds(pub u8);

impl Kinds {
    /// File systems.
    pub const FILESYSTEM: Self = Self(1);
    /// Volumes.
    pub const VOLUME: Self = Self(2);
    /// Snapshots.
    pub const SNAPSHOT: Self = Self(4);
    /// Bookmarks.
    pub const BOOKMARK: Self = Self(8);
    /// File systems and volumes.
    pub const HEAD: Self = Self(3);
    /// File systems and snapshots of them.
    pub const FS_SNAP: Self = Self(5);
    /// Volumes and snapshots of them.
    pub const VOL_SNAP: Self = Self(6);
    /// All but bookmarks.
    pub const DATASET: Self = Self(7);
    /// All.
    pub const ANY: Self = Self(15);

    /// Whether the sets have a kind in common.
    pub fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl PropertyDef {
    /// Whether datasets below take the value over.
    pub fn inheritable(&self) -> bool {
        matches!(self.attr, Attr::Inherit | Attr::OneTime)
    }

    /// Whether no one can change it, at least not later.
    pub fn readonly(&self) -> bool {
        matches!(self.attr, Attr::ReadOnly | Attr::OneTime | Attr::OneTimeDefault)
    }

    /// Whether it is chosen when the dataset is created.
    pub fn set_once(&self) -> bool {
        matches!(self.attr, Attr::OneTime | Attr::OneTimeDefault)
    }

    /// Whether `zfs get all` shows it, where it applies.
    pub fn listed(&self) -> bool {
        self.visibility == Visibility::Listed
    }

    /// The default as a number, 0 where there is none.
    pub fn default_number(&self) -> u64 {
        match self.default {
            DefaultValue::Number(n) => n,
            _ => 0,
        }
    }

    /// The default as text.
    pub fn default_text(&self) -> Option<&'static str> {
        match self.default {
            DefaultValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The word of `number`, if the property has words and knows this one.
    pub fn word(&self, number: u64) -> Option<&'static str> {
        match self.value_type {
            ValueType::Index(words) => words.iter().find(|(_, n)| *n == number).map(|(word, _)| *word),
            _ => None,
        }
    }
}
