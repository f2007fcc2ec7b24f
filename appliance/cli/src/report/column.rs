//! Columns and the values in their cells.

/// Kind of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Names, aligned to the left.
    Text,
    /// Numbers, with this many decimals.
    Number(usize),
    /// Bytes, in the requested unit.
    Bytes,
    /// Bytes per second, in the requested unit.
    ByteRate,
    /// Bytes in units of 1024, with this many decimals, as these headings always mean.
    Kibi(usize),
}

#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// Its heading, and its name for `-f`.
    pub name: &'static str,
    /// Kind of its values.
    pub kind: Kind,
    /// Minimum width in characters.
    pub width: usize,
    pub help: &'static str,
}

/// Creates a column, for tables of columns.
pub const fn column(name: &'static str, kind: Kind, width: usize, help: &'static str) -> Column {
    Column { name, kind, width, help }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Not known or not counted: `-` in tables, null in JSON.
    Absent,
    Text(String),
    /// A number, in the column's basic unit, such as bytes.
    Number(f64),
}

impl From<u64> for Value {
    fn from(n: u64) -> Self {
        Self::Number(n as f64)
    }
}

impl From<f64> for Value {
    fn from(n: f64) -> Self {
        Self::Number(n)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Absent, Into::into)
    }
}
