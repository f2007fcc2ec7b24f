//! Tables of `zpool list`, `zfs list`, `zpool get` and `zfs get`.
//!
//! There are two kinds: a list has a column for each property, a get has a line for each property.
//! With `-H` cells are separated by one tab and nothing is aligned.

/// A column of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    pub heading: String,
    /// Minimum width in characters.
    pub width: usize,
    /// Aligned to the right, as numbers are.
    pub right: bool,
}

/// One line of a list: cells two spaces apart; the last one is not padded if it is aligned to the
/// left.
pub fn list_line<S: AsRef<str>>(columns: &[Column], cells: &[S], scripted: bool) -> String {
    let mut line = String::new();
    for (i, (column, cell)) in columns.iter().zip(cells).enumerate() {
        let cell = cell.as_ref();
        if i > 0 {
            line.push_str(if scripted { "\t" } else { "  " });
        }
        let last = i + 1 == columns.len();
        if scripted || (last && !column.right) {
            line.push_str(cell);
        } else if column.right {
            pad(&mut line, cell, column.width);
            line.push_str(cell);
        } else {
            line.push_str(cell);
            pad(&mut line, cell, column.width);
        }
    }
    line.push('\n');
    line
}

/// The line of headings.
pub fn list_header(columns: &[Column]) -> String {
    let headings: Vec<&str> = columns.iter().map(|c| c.heading.as_str()).collect();
    list_line(columns, &headings, false)
}

/// C's `%*s` counts bytes, and so does this: names with non-ASCII letters shift the line as in
/// OpenZFS.
fn pad(line: &mut String, cell: &str, width: usize) {
    line.extend(std::iter::repeat_n(' ', width.saturating_sub(cell.len())));
}

/// A field of a get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Field {
    /// Name of the pool or dataset.
    Name,
    /// Name of the property.
    Property,
    Value,
    /// The value received with a stream.
    Received,
    /// Source of the value.
    Source,
}

impl Field {
    fn heading(self) -> &'static str {
        match self {
            Self::Name => "NAME",
            Self::Property => "PROPERTY",
            Self::Value => "VALUE",
            Self::Received => "RECEIVED",
            Self::Source => "SOURCE",
        }
    }
}

/// One line of a get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GetLine {
    /// Name of the pool or dataset.
    pub name: String,
    /// Name of the property.
    pub property: String,
    pub value: String,
    /// The value received with a stream.
    pub received: Option<String>,
    /// Source of the value.
    pub source: String,
}

/// The layout of a get.
#[derive(Debug, Clone)]
pub struct GetTable {
    /// The fields to print.
    pub fields: Vec<Field>,
    /// `-H`: tabs, no headings.
    pub scripted: bool,
    name: usize,
    property: usize,
    value: usize,
    received: usize,
}

impl GetTable {
    /// A table whose columns are as wide as their headings.
    pub fn new(fields: &[Field], scripted: bool) -> Self {
        Self {
            fields: fields.to_vec(),
            scripted,
            name: "NAME".len(),
            property: "PROPERTY".len(),
            value: "VALUE".len(),
            received: "RECEIVED".len(),
        }
    }

    /// Widens the table for a name.
    pub fn fit_name(&mut self, name: &str) {
        self.name = self.name.max(name.len());
    }

    /// Widens the table for a property whose values take at least `width`.
    pub fn fit_property(&mut self, name: &str, width: usize) {
        self.property = self.property.max(name.len());
        self.value = self.value.max(width);
    }

    /// Widens the table for a received value.
    pub fn fit_received(&mut self, value: &str) {
        self.received = self.received.max(value.len());
    }

    fn width(&self, field: Field) -> usize {
        match field {
            Field::Name => self.name,
            Field::Property => self.property,
            Field::Value => self.value,
            Field::Received => self.received,
            // As if every value were inherited from the longest name: the source is nearly always
            // the last column.
            Field::Source if self.name > "NAME".len() => self.name + "inherited from".len(),
            Field::Source => "SOURCE".len(),
        }
    }

    /// The line of headings; empty with `-H`.
    pub fn header(&self) -> String {
        if self.scripted {
            return String::new();
        }
        self.join(|field| field.heading())
    }

    /// A line of the table.
    pub fn line(&self, line: &GetLine) -> String {
        self.join(|field| match field {
            Field::Name => &line.name,
            Field::Property => &line.property,
            Field::Value => &line.value,
            Field::Received => line.received.as_deref().unwrap_or("-"),
            Field::Source => &line.source,
        })
    }

    fn join<'a>(&self, cell: impl Fn(Field) -> &'a str) -> String {
        let mut text = String::new();
        for (i, field) in self.fields.iter().enumerate() {
            text.push_str(cell(*field));
            if i + 1 == self.fields.len() {
                break;
            }
            if self.scripted {
                text.push('\t');
            } else {
                pad(&mut text, cell(*field), self.width(*field));
                text.push_str("  ");
            }
        }
        text.push('\n');
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_align_numbers_to_the_right_and_leave_the_end_ragged() {
        let column = |heading: &str, width, right| Column { heading: heading.into(), width, right };
        let columns = [column("NAME", 6, false), column("USED", 5, true), column("MOUNTPOINT", 10, false)];
        assert_eq!(list_header(&columns), "NAME     USED  MOUNTPOINT\n");
        assert_eq!(list_line(&columns, &["tank/a", "24K", "/"], false), "tank/a    24K  /\n");
        assert_eq!(list_line(&columns, &["tank/a", "24K", "/"], true), "tank/a\t24K\t/\n");
    }

    #[test]
    fn the_last_field_of_a_get_is_not_padded() {
        let mut table = GetTable::new(&[Field::Name, Field::Property, Field::Value, Field::Source], false);
        table.fit_name("tank/x/y");
        table.fit_property("compression", 14);
        let line = GetLine {
            name: "tank/x".into(),
            property: "compression".into(),
            value: "zstd-5".into(),
            received: None,
            source: "local".into(),
        };
        assert_eq!(table.header(), "NAME      PROPERTY     VALUE           SOURCE\n");
        assert_eq!(table.line(&line), "tank/x    compression  zstd-5          local\n");
    }
}
