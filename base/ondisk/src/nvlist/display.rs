//! Prints an [`Nvlist`] in the format of `zdb`.

use super::list::{Nvlist, Value};

/// The format of `zdb`, indented by four spaces for each level of nesting.
impl std::fmt::Display for Nvlist {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        show(self, f, 0)
    }
}

fn show(list: &Nvlist, f: &mut std::fmt::Formatter<'_>, indent: usize) -> std::fmt::Result {
    for pair in &list.pairs {
        let name = pair.name_lossy();
        let text = |s: &[u8]| format!("'{}'", String::from_utf8_lossy(s));
        macro_rules! one {
            ($v:expr) => {
                writeln!(f, "{:indent$}{name}: {}", "", $v)?
            };
        }
        macro_rules! many {
            ($v:expr) => {
                for (i, v) in $v.iter().enumerate() {
                    writeln!(f, "{:indent$}{name}[{i}]: {v}", "")?;
                }
            };
        }
        match &pair.value {
            Value::Boolean => writeln!(f, "{:indent$}{name}", "")?,
            Value::BooleanValue(v) => one!(v),
            Value::Byte(v) | Value::Uint8(v) => one!(v),
            Value::Int8(v) => one!(v),
            Value::Int16(v) => one!(v),
            Value::Uint16(v) => one!(v),
            Value::Int32(v) => one!(v),
            Value::Uint32(v) => one!(v),
            Value::Int64(v) | Value::HrTime(v) => one!(v),
            Value::Uint64(v) => one!(v),
            Value::Double(v) => one!(v),
            Value::String(v) => one!(text(v)),
            Value::ByteArray(v) | Value::Uint8Array(v) => many!(v),
            Value::Int8Array(v) => many!(v),
            Value::Int16Array(v) => many!(v),
            Value::Uint16Array(v) => many!(v),
            Value::Int32Array(v) => many!(v),
            Value::Uint32Array(v) => many!(v),
            Value::Int64Array(v) => many!(v),
            Value::Uint64Array(v) => many!(v),
            Value::BooleanArray(v) => many!(v),
            Value::StringArray(v) => many!(v.iter().map(|s| text(s)).collect::<Vec<_>>()),
            Value::Nvlist(v) => {
                writeln!(f, "{:indent$}{name}:", "")?;
                show(v, f, indent + 4)?;
            }
            Value::NvlistArray(v) => {
                for (i, v) in v.iter().enumerate() {
                    writeln!(f, "{:indent$}{name}[{i}]:", "")?;
                    show(v, f, indent + 4)?;
                }
            }
        }
    }
    Ok(())
}
