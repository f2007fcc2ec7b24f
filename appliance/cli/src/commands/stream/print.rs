//! Prints nvlists and bytes in the formats of OpenZFS's tools (`nvlist_print`, `zstream dump -d`).

use ondisk::Nvlist;
use ondisk::nvlist::Value;
use std::io::{self, Write};

/// Bytes in a line of a hexadecimal dump.
const LINE_BYTES: usize = 16;
/// Bytes in a group; a further space separates groups.
const GROUP_BYTES: usize = 4;

/// Prints a list, indented by `depth` tabs.
pub fn list(out: &mut dyn Write, of: &Nvlist, depth: usize) -> io::Result<()> {
    let tabs = "\t".repeat(depth);
    writeln!(out, "{tabs}nvlist version: 0")?;
    for pair in &of.pairs {
        let name = pair.name_lossy();
        match &pair.value {
            Value::Nvlist(inner) => {
                writeln!(out, "{tabs}\t{name} = (embedded nvlist)")?;
                list(out, inner, depth + 1)?;
                writeln!(out, "{tabs}\t(end {name})\n")?;
            }
            Value::NvlistArray(all) => {
                writeln!(out, "{tabs}\t{name} = (array of embedded nvlists)")?;
                for (i, inner) in all.iter().enumerate() {
                    writeln!(out, "{tabs}\t(start {name}[{i}])")?;
                    list(out, inner, depth + 1)?;
                    writeln!(out, "{tabs}\t(end {name}[{i}])")?;
                }
                writeln!(out)?;
            }
            value => writeln!(out, "{tabs}\t{name} = {}", plain(value))?,
        }
    }
    Ok(())
}

fn many<T>(values: &[T], one: impl Fn(&T) -> String) -> String {
    values.iter().map(one).collect::<Vec<_>>().join(" ")
}

fn plain(value: &Value) -> String {
    let text = |s: &Vec<u8>| String::from_utf8_lossy(s).into_owned();
    match value {
        Value::Boolean => "1".into(),
        Value::BooleanValue(v) => u8::from(*v).to_string(),
        Value::Byte(v) => format!("{v:#04x}"),
        Value::Int8(v) => v.to_string(),
        Value::Int16(v) => v.to_string(),
        Value::Int32(v) => v.to_string(),
        Value::Int64(v) => v.to_string(),
        Value::Uint8(v) => format!("{v:#x}"),
        Value::Uint16(v) => format!("{v:#x}"),
        Value::Uint32(v) => format!("{v:#x}"),
        Value::Uint64(v) => format!("{v:#x}"),
        Value::HrTime(v) => format!("{v:#x}"),
        Value::Double(v) => format!("0x{v:.6}"),
        Value::String(v) => text(v),
        Value::BooleanArray(v) => many(v, |v| u8::from(*v).to_string()),
        Value::ByteArray(v) => many(v, |v| format!("{v:#04x}")),
        Value::Int8Array(v) => many(v, ToString::to_string),
        Value::Int16Array(v) => many(v, ToString::to_string),
        Value::Int32Array(v) => many(v, ToString::to_string),
        Value::Int64Array(v) => many(v, ToString::to_string),
        Value::Uint8Array(v) => many(v, |v| format!("{v:#x}")),
        Value::Uint16Array(v) => many(v, |v| format!("{v:#x}")),
        Value::Uint32Array(v) => many(v, |v| format!("{v:#x}")),
        Value::Uint64Array(v) => many(v, |v| format!("{v:#x}")),
        Value::StringArray(v) => many(v, text),
        Value::Nvlist(_) | Value::NvlistArray(_) => String::new(),
    }
}

/// Prints bytes in hexadecimal, and as text next to it.
pub fn bytes(out: &mut dyn Write, of: &[u8]) -> io::Result<()> {
    for line in of.chunks(LINE_BYTES) {
        let (mut hex, mut text) = (String::new(), String::new());
        for (i, byte) in line.iter().enumerate() {
            if i % GROUP_BYTES == 0 {
                hex.push(' ');
                text.push_str(if i == 0 { "" } else { " " });
            }
            hex.push_str(&format!("{byte:02x} "));
            text.push(if byte.is_ascii_graphic() || *byte == b' ' { char::from(*byte) } else { '.' });
        }
        let width = LINE_BYTES * 3 + LINE_BYTES / GROUP_BYTES + 2;
        writeln!(out, "{hex:width$}{text}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_printed_in_columns() {
        let mut out = Vec::new();
        bytes(&mut out, b"ab\0\x7fcdefghijklmnop").unwrap();
        let text = String::from_utf8(out).unwrap();
        let expected = " 61 62 00 7f  63 64 65 66  67 68 69 6a  6b 6c 6d 6e   ab.. cdef ghij klmn\n 6f 70";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.ends_with(&format!("{}op\n", " ".repeat(47))), "{text}");
    }
}
