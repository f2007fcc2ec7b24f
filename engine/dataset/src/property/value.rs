//! A property's value and its source.

use super::def::{PropertyDef, Unit, ValueType};
use super::format;

/// A value before formatting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A number, or the number of a word.
    Number(u64),
    Text(String),
}

/// A value as commands display it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PropertyValue {
    /// As `-p` prints it: numbers in full.
    pub raw: String,
    /// Human-readable; dates are UTC, see [`Property::time`].
    pub human: String,
    pub value: Value,
}

/// The source of a value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Source {
    /// Not applicable: `-`.
    None,
    /// Set nowhere: the property's default.
    Default,
    /// Temporarily overridden by a mount or import option.
    Temporary,
    /// Set on this dataset.
    Local,
    /// Inherited from the named dataset.
    Inherited(String),
    /// Received with a stream.
    Received,
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.write_str("-"),
            Self::Default => f.write_str("default"),
            Self::Temporary => f.write_str("temporary"),
            Self::Local => f.write_str("local"),
            Self::Inherited(from) => write!(f, "inherited from {from}"),
            Self::Received => f.write_str("received"),
        }
    }
}

/// A property of a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Property {
    pub name: String,
    pub value: PropertyValue,
    pub source: Source,
    /// Seconds since 1970, if the value is a date: the caller knows the time zone.
    pub time: Option<u64>,
}

impl PropertyValue {
    /// Text that is the same in both forms.
    pub fn text(text: impl Into<String>) -> Self {
        let raw: String = text.into();
        Self { human: raw.clone(), value: Value::Text(raw.clone()), raw }
    }

    /// A number of bytes.
    pub fn bytes(number: u64) -> Self {
        let raw = number.to_string();
        Self { raw, human: format::nice_bytes(number), value: Value::Number(number) }
    }

    /// A number, abbreviated for people.
    pub fn count(number: u64) -> Self {
        let raw = number.to_string();
        Self { raw, human: format::nice_number(number), value: Value::Number(number) }
    }

    /// `number` as the value of `def`; `None` if it is not one of its words.
    pub(crate) fn of(def: &PropertyDef, number: u64) -> Option<Self> {
        let value = Value::Number(number);
        let none_for_people = |mut v: Self| {
            v.human = "none".into();
            v
        };
        Some(match (def.name, def.value_type) {
            ("quota" | "refquota" | "reservation" | "refreservation", _) if number == 0 => {
                none_for_people(Self::bytes(0))
            }
            ("filesystem_limit" | "snapshot_limit" | "filesystem_count" | "snapshot_count", _)
                if number == u64::MAX =>
            {
                Self { raw: "none".into(), human: "none".into(), value }
            }
            ("mounted", _) => {
                let word = if number == 0 { "no" } else { "yes" };
                Self { raw: word.into(), human: word.into(), value }
            }
            (_, ValueType::Index(_)) => {
                let word = def.word(number)?;
                Self { raw: word.into(), human: word.into(), value }
            }
            (_, ValueType::Number(Unit::Bytes)) => Self::bytes(number),
            (_, ValueType::Number(Unit::Ratio)) => {
                let raw = format::ratio(number);
                Self { human: format!("{raw}x"), raw, value }
            }
            (_, ValueType::Number(Unit::Id)) => Self { raw: number.to_string(), human: number.to_string(), value },
            (_, ValueType::Number(Unit::Time)) => {
                Self { raw: number.to_string(), human: format::date(number, def.name != "creation"), value }
            }
            (_, ValueType::Number(Unit::Count)) => Self::count(number),
            (_, ValueType::Text) => Self::text(number.to_string()),
        })
    }
}
