//! Values of the configuration: read from TOML and written as TOML.

use host::device::Io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use toml::de::DeValue;

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size(pub u64);

/// Use of TLS by NBD, with the certificate of the HTTP interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NbdTls {
    Off,
    /// Clients may use TLS.
    Offered,
    /// Clients must use TLS.
    Required,
}

/// How NFSv3 clients find the ports of services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Portmap {
    /// They do not: clients name the port.
    Off,
    /// Registers them with the system's rpcbind.
    Register,
    /// This process answers on port 111.
    Answer,
}

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON document per line.
    Json,
}

impl FromStr for Size {
    type Err = String;

    /// `64M`, `2G`, or a number of bytes; more than 0.
    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let shift = match text[digits.len()..].to_ascii_uppercase().trim_end_matches('B').trim_end_matches('I') {
            "" => 0,
            "K" => 10,
            "M" => 20,
            "G" => 30,
            "T" => 40,
            unit => return Err(format!("'{unit}' is not a unit, use K, M, G or T")),
        };
        let number: u64 = digits.parse().map_err(|_| format!("'{digits}' is not a number"))?;
        let bytes = number.checked_mul(1 << shift).filter(|&n| n > 0);
        bytes.map(Self).ok_or_else(|| format!("'{text}' is out of range"))
    }
}

/// A type of values. An error of `read` says what was found instead.
pub trait Read: Sized {
    fn read(value: &DeValue<'_>) -> Result<Self, String>;
    /// The value in TOML.
    fn write(&self) -> String;
}

fn found(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("'{text}'"),
        DeValue::Integer(number) => number.as_str().to_owned(),
        DeValue::Boolean(yes) => yes.to_string(),
        other => format!("a TOML {}", other.type_str()),
    }
}

fn quoted(text: &str) -> String {
    // Basic strings of TOML use the same escapes as JSON.
    serde_json::Value::from(text).to_string()
}

impl Read for String {
    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        value.as_str().map(str::to_owned).ok_or_else(|| found(value))
    }

    fn write(&self) -> String {
        quoted(self)
    }
}

impl Read for bool {
    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        value.as_bool().ok_or_else(|| found(value))
    }

    fn write(&self) -> String {
        self.to_string()
    }
}

impl Read for u64 {
    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        let number = value.as_integer().and_then(|n| Self::from_str_radix(n.as_str(), n.radix()).ok());
        number.ok_or_else(|| found(value))
    }

    fn write(&self) -> String {
        self.to_string()
    }
}

impl Read for Size {
    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        let wrong = || found(value);
        if let Ok(bytes) = u64::read(value) {
            return Ok(Self(bytes)).and_then(|s| if s.0 > 0 { Ok(s) } else { Err(wrong()) });
        }
        value.as_str().and_then(|text| text.parse().ok()).ok_or_else(wrong)
    }

    fn write(&self) -> String {
        let unit = [(40, "T"), (30, "G"), (20, "M"), (10, "K")];
        let fits = unit.iter().find(|(shift, _)| self.0.trailing_zeros() >= *shift);
        fits.map_or_else(|| self.0.to_string(), |(shift, unit)| format!("\"{}{unit}\"", self.0 >> shift))
    }
}

impl Read for SocketAddr {
    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        value.as_str().and_then(|text| text.parse().ok()).ok_or_else(|| found(value))
    }

    fn write(&self) -> String {
        quoted(&self.to_string())
    }
}

impl Read for PathBuf {
    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        value.as_str().map(Self::from).ok_or_else(|| found(value))
    }

    fn write(&self) -> String {
        quoted(&self.display().to_string())
    }
}

impl Read for Option<PathBuf> {
    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        match value.as_str() {
            Some("") => Ok(None),
            Some(path) if path.starts_with('/') => Ok(Some(PathBuf::from(path))),
            _ => Err(found(value)),
        }
    }

    fn write(&self) -> String {
        quoted(&self.as_deref().map_or_else(String::new, |p| p.display().to_string()))
    }
}

/// A list; a single value is read as a list of one.
impl<T: Read> Read for Vec<T> {
    fn read(value: &DeValue<'_>) -> Result<Self, String> {
        match value.as_array() {
            Some(array) => array.iter().map(|item| T::read(item.get_ref())).collect(),
            None => Ok(vec![T::read(value)?]),
        }
    }

    fn write(&self) -> String {
        format!("[{}]", self.iter().map(T::write).collect::<Vec<_>>().join(", "))
    }
}

macro_rules! words {
    ($type:ty: $($word:literal = $value:expr),*) => {
        impl Read for $type {
            fn read(value: &DeValue<'_>) -> Result<Self, String> {
                match value.as_str() {
                    $(Some($word) => Ok($value),)*
                    _ => Err(found(value)),
                }
            }

            fn write(&self) -> String {
                $(if *self == $value { return concat!("\"", $word, "\"").to_owned(); })*
                String::new()
            }
        }
    };
}

words!(Portmap: "off" = Self::Off, "register" = Self::Register, "answer" = Self::Answer);
words!(NbdTls: "off" = Self::Off, "offered" = Self::Offered, "required" = Self::Required);
words!(Io: "auto" = Self::Auto, "direct" = Self::Direct, "buffered" = Self::Buffered);
words!(LogFormat: "text" = Self::Text, "json" = Self::Json);
