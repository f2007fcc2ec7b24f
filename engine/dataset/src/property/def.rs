//! The structure of a property definition in the catalogue.
//!
//! A definition is data, not code: lists, help, man page, API and forms are generated from it.
//! Values are computed in `property::lookup`, by name.

use super::catalogue::values::Word;

/// The definition of a property.
#[derive(Debug)]
pub struct PropertyDef {
    /// Name as on the command line and in property ZAPs.
    pub name: &'static str,
    /// Column heading in `zfs list`.
    pub column: &'static str,
    pub value_type: ValueType,
    /// The value if it is not set.
    pub default: DefaultValue,
    /// Who can set it, and whether it is inherited.
    pub attr: Attr,
    /// Kinds of dataset that have it.
    pub kinds: Kinds,
    /// Accepted values, in one line.
    pub values: &'static str,
    /// Its meaning, in one sentence.
    pub help: &'static str,
    /// Whether lists of all properties include it.
    pub visibility: Visibility,
    /// Whether its column is right-aligned.
    pub right_align: bool,
}

/// The type of a property's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueType {
    Number(Unit),
    Text,
    /// One of a set of words, stored as a number.
    Index(&'static [Word]),
}

/// How a number is displayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Abbreviated, such as `12K`.
    Count,
    /// Abbreviated, with `B` below 1024.
    Bytes,
    /// Hundredths, such as `1.50x`.
    Ratio,
    /// In full: an identifier.
    Id,
    /// Seconds since 1970, displayed as a date.
    Time,
}

/// The value of a property that is not set anywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultValue {
    /// A number, or the number of a word.
    Number(u64),
    Text(&'static str),
    /// No default: the property is absent.
    None,
}

/// Who can set a property, and whether it is inherited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attr {
    /// Cannot be set.
    ReadOnly,
    /// Applies only where it is set.
    Default,
    /// Applies where it is set and to all descendants.
    Inherit,
    /// Set when the dataset is created, when it is inherited.
    OneTime,
    /// Set when the dataset is created; applies only there.
    OneTimeDefault,
}

/// Whether lists of all properties include a property.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visibility {
    Listed,
    /// Returned only when requested by name, because OpenZFS hides it.
    Hidden,
    /// Returned only when requested by name: it was added after OpenZFS 2.3, whose lists are the
    /// model.
    Newer,
}

/// A set of kinds of dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kinds(pub u8);

impl Kinds {
    pub const FILESYSTEM: Self = Self(1);
    pub const VOLUME: Self = Self(2);
    pub const SNAPSHOT: Self = Self(4);
    pub const BOOKMARK: Self = Self(8);
    /// File systems and volumes.
    pub const HEAD: Self = Self(3);
    /// File systems and snapshots of them.
    pub const FS_SNAP: Self = Self(5);
    /// Volumes and snapshots of them.
    pub const VOL_SNAP: Self = Self(6);
    /// Everything except bookmarks.
    pub const DATASET: Self = Self(7);
    pub const ANY: Self = Self(15);

    /// Whether the sets have a kind in common.
    pub fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl PropertyDef {
    /// Whether descendants inherit the value.
    pub fn inheritable(&self) -> bool {
        matches!(self.attr, Attr::Inherit | Attr::OneTime)
    }

    /// Whether it cannot be changed, at least after creation.
    pub fn readonly(&self) -> bool {
        matches!(self.attr, Attr::ReadOnly | Attr::OneTime | Attr::OneTimeDefault)
    }

    /// Whether it is set when the dataset is created.
    pub fn set_once(&self) -> bool {
        matches!(self.attr, Attr::OneTime | Attr::OneTimeDefault)
    }

    /// Whether `zfs get all` includes it, where it applies.
    pub fn listed(&self) -> bool {
        self.visibility == Visibility::Listed
    }

    /// The default as a number; 0 if there is none.
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

    /// The word for `number`, if the property has words and this is one.
    pub fn word(&self, number: u64) -> Option<&'static str> {
        match self.value_type {
            ValueType::Index(words) => words.iter().find(|(_, n)| *n == number).map(|(word, _)| *word),
            _ => None,
        }
    }
}
