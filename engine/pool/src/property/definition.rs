//! The definition of a property: the columns of the catalogue.

/// How a value is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A number of bytes, shortened.
    Bytes,
    /// A guid, in full.
    Id,
    /// A number, in full.
    Number,
    Percent,
    /// Hundredths, printed as `1.00x`.
    Ratio,
    /// One of these words.
    Word(&'static [&'static str]),
    Text,
}

/// The definition of a property.
#[derive(Debug, PartialEq, Eq)]
pub struct PropertyDef {
    pub name: &'static str,
    /// Heading of its column in `zpool list`.
    pub column: &'static str,
    /// Kind of its values.
    pub kind: Kind,
    /// Users cannot set it.
    pub readonly: bool,
    /// Accepted values, in one line.
    pub values: &'static str,
    /// Description in one sentence.
    pub help: &'static str,
    /// `zpool get all` lists it.
    pub listed: bool,
}

impl PropertyDef {
    /// Whether its column is aligned to the right, as numbers are.
    pub fn right_align(&self) -> bool {
        matches!(self.kind, Kind::Bytes | Kind::Id | Kind::Number | Kind::Percent | Kind::Ratio)
            || self.name == "health"
    }

    /// Minimum width of its column.
    pub fn width(&self) -> usize {
        match self.kind {
            _ if self.name == "health" => 8,
            Kind::Bytes | Kind::Id | Kind::Number | Kind::Percent | Kind::Ratio => self.column.len().max(5),
            Kind::Word(words) => words.iter().map(|w| w.len()).max().unwrap_or(0).max(self.column.len()),
            Kind::Text => self.column.len(),
        }
    }

    /// Whether its column grows with its values.
    pub fn flexible(&self) -> bool {
        matches!(self.kind, Kind::Id | Kind::Text | Kind::Word(_)) && self.name != "health"
    }
}
