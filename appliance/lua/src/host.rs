//! What a program sees of the world outside: functions that its host provides.

/// Number of a function of the host.
pub type FunctionId = u16;

/// A value outside of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Datum {
    Nil,
    Boolean(bool),
    Number(i64),
    Text(Vec<u8>),
    /// Keys and values of a table, in its order.
    Table(Vec<(Datum, Datum)>),
    /// As a result of a function: an iterator that supplies these values, one row for each step.
    Rows(Vec<Vec<Datum>>),
    /// A value that cannot leave the machine: the name of its type.
    Other(&'static str),
}

impl Datum {
    /// A text.
    pub fn text(text: impl AsRef<[u8]>) -> Self {
        Self::Text(text.as_ref().to_vec())
    }

    /// A table of the values, with keys from 1 on.
    pub fn array(values: impl IntoIterator<Item = Datum>) -> Self {
        Self::Table(values.into_iter().zip(1..).map(|(value, at)| (Self::Number(at), value)).collect())
    }

    /// Bytes of memory that it takes, about.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Text(text) => text.len(),
                Self::Table(entries) => entries.iter().map(|(key, value)| key.bytes() + value.bytes()).sum(),
                Self::Rows(rows) => rows.iter().flatten().map(Self::bytes).sum(),
                _ => 0,
            }
    }

    /// The name of its type.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Nil => "nil",
            Self::Boolean(_) => "boolean",
            Self::Number(_) => "number",
            Self::Text(_) => "string",
            Self::Table(_) => "table",
            Self::Rows(_) => "function",
            Self::Other(name) => name,
        }
    }
}

/// Why a function of the host ends the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Complaint {
    /// An error at the place of the call.
    Error(String),
    /// An argument, counted from 1, is wrong.
    Argument(usize, String),
}

/// The host of a program.
pub trait Host {
    /// Calls a function with its arguments. Tables in arguments are one level deep.
    fn call(&mut self, function: FunctionId, arguments: Vec<Datum>) -> Result<Vec<Datum>, Complaint>;

    /// Whether the program must end. Called every 100 instructions.
    fn is_cancelled(&mut self) -> bool {
        false
    }
}
