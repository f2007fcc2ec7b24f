//! Formats values of pool properties, and parses lists of property names.

use crate::context::Failure;
use crate::number::{nice_number, percent, ratio};
use pool::property::{self, Kind, Property, PropertyContext, PropertyDef, Source, Value};

/// The text of a value; `literal`: exact numbers (`-p`).
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

/// The text of a source.
pub fn source(source: Source) -> &'static str {
    match source {
        Source::None => "-",
        Source::Default => "default",
        Source::Local => "local",
    }
}

/// The name of a source in JSON output.
pub fn json_source(source: Source) -> &'static str {
    match source {
        Source::None => "NONE",
        Source::Default => "DEFAULT",
        Source::Local => "LOCAL",
    }
}

/// A property that `-o` or an operand names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Name in full, where the user gave a short form.
    pub name: String,
    /// The definition; `None`: a feature or a user property.
    pub def: Option<&'static PropertyDef>,
    /// The column width, so far.
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

    /// Widens the column to fit the value in `context`.
    pub fn fit(&mut self, context: &PropertyContext, literal: bool) {
        if self.def.is_some_and(|d| !d.flexible()) && !literal {
            return;
        }
        if let Some(property) = context.get(&self.name) {
            self.width = self.width.max(text(&property, literal).len());
        }
    }
}

/// Whether a name has the form of a user property: `module:name`, of lowercase letters, digits and
/// `-_.`, shorter than 256 bytes.
pub fn is_user_property(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.:".contains(c);
    name.contains(':') && name.len() < 256 && name.chars().all(plain)
}

/// Parses a list of properties, e.g. `size,health,feature@lz4_compress`.
pub fn wanted(list: &str) -> Result<Vec<Wanted>, Failure> {
    if list.is_empty() {
        return Err(Failure::usage("bad property list: no properties specified"));
    }
    let one = |name: &str| {
        Wanted::new(name).ok_or_else(|| Failure::usage(format!("bad property list: invalid property '{name}'")))
    };
    list.split(',').map(one).collect()
}
