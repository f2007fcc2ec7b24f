//! Values of pool properties as text, and lists of property names.

use crate::context::Failure;
use crate::number::{nice_number, percent, ratio};
use admin::property::{self, Kind, Property, PropertyContext, PropertyDef, Source, Value};

/// A value as it is shown.
pub fn text(property: &Property, literal: bool) -> String {
    match &property.value {
        Value::Absent => "-".into(),
        Value::Text(text) => text.clone(),
        Value::Number(n) => match property.def.map(|d| d.kind) {
            Some(Kind::Bytes) if !literal => nice_number(*n),
            Some(Kind::Percent) => percent(*n, literal),
            Some(Kind::Ratio) => ratio(*n, literal),
            _ => n.to_string(),
        },
    }
}

/// A source as it is shown.
pub fn source(source: Source) -> &'static str {
    match source {
        Source::None => "-",
        Source::Default => "default",
        Source::Local => "local",
    }
}

/// A source as JSON documents name it.
pub fn json_source(source: Source) -> &'static str {
    match source {
        Source::None => "NONE",
        Source::Default => "DEFAULT",
        Source::Local => "LOCAL",
    }
}

/// A property that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Its name in full.
    pub name: String,
    /// Its definition, if it is not a feature or a user's.
    pub def: Option<&'static PropertyDef>,
    /// Width of its values, so far.
    pub width: usize,
}

impl Wanted {
    fn new(name: &str) -> Option<Self> {
        if let Some(def) = property::find(name) {
            return Some(Self { name: def.name.into(), def: Some(def), width: def.width() });
        }
        let other = name.starts_with("feature@") || name.starts_with("unsupported@") || is_user_property(name);
        other.then(|| Self { name: name.into(), def: None, width: name.len() })
    }

    /// Makes room for the value in `context`.
    pub fn fit(&mut self, context: &PropertyContext, literal: bool) {
        if self.def.is_some_and(|d| !d.flexible()) && !literal {
            return;
        }
        if let Some(property) = context.get(&self.name) {
            self.width = self.width.max(text(&property, literal).len());
        }
    }
}

/// `module:name`, in small letters, digits and `-_.`.
pub fn is_user_property(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.:".contains(c);
    name.contains(':') && name.len() < 256 && name.chars().all(plain)
}

/// A list such as `size,health,feature@lz4_compress`.
pub fn wanted(list: &str) -> Result<Vec<Wanted>, Failure> {
    if list.is_empty() {
        return Err(Failure::usage("bad property list: no properties specified"));
    }
    let one = |name: &str| {
        Wanted::new(name).ok_or_else(|| Failure::usage(format!("bad property list: invalid property '{name}'")))
    };
    list.split(',').map(one).collect()
}
