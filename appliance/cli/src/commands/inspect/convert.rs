//! On-disk structures as JSON, shared by the parts.

use crate::number::ctime;
use ondisk::nvlist::{Nvlist, Value as NvValue};
use ondisk::{BlkPtr, Dnode, ObjectType};
use serde_json::{Map, Value, json};

/// Converts an nvlist to a JSON object; a repeated name keeps its last value.
pub fn nvlist(list: &Nvlist) -> Value {
    let pairs = list.pairs.iter().map(|p| (p.name_lossy().into_owned(), nv(&p.value)));
    Value::Object(pairs.collect::<Map<_, _>>())
}

fn nv(value: &NvValue) -> Value {
    match value {
        NvValue::Boolean => json!(true),
        NvValue::BooleanValue(v) => json!(v),
        NvValue::Byte(v) | NvValue::Uint8(v) => json!(v),
        NvValue::Int8(v) => json!(v),
        NvValue::Int16(v) => json!(v),
        NvValue::Uint16(v) => json!(v),
        NvValue::Int32(v) => json!(v),
        NvValue::Uint32(v) => json!(v),
        NvValue::Int64(v) | NvValue::HrTime(v) => json!(v),
        NvValue::Uint64(v) => json!(v),
        NvValue::Double(v) => json!(v),
        NvValue::String(v) => text(v),
        NvValue::ByteArray(v) | NvValue::Uint8Array(v) => json!(hex(v)),
        NvValue::Int8Array(v) => json!(v),
        NvValue::Int16Array(v) => json!(v),
        NvValue::Uint16Array(v) => json!(v),
        NvValue::Int32Array(v) => json!(v),
        NvValue::Uint32Array(v) => json!(v),
        NvValue::Int64Array(v) => json!(v),
        NvValue::Uint64Array(v) => json!(v),
        NvValue::BooleanArray(v) => json!(v),
        NvValue::StringArray(v) => v.iter().map(|s| text(s)).collect(),
        NvValue::Nvlist(v) => nvlist(v),
        NvValue::NvlistArray(v) => v.iter().map(nvlist).collect(),
    }
}

/// Bytes as text if they are text, else in hexadecimal.
pub fn text(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(s) if !s.chars().any(char::is_control) => json!(s),
        _ => json!(format!("hex {}", hex(bytes))),
    }
}

/// Lower-case hexadecimal digits, two for each byte.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Bytes in the format of `hexdump -C`.
pub fn dump(bytes: &[u8]) -> Vec<String> {
    let line = |(i, chunk): (usize, &[u8])| {
        let half = |c: &[u8]| c.iter().map(|b| format!("{b:02x} ")).collect::<String>();
        let (a, b) = chunk.split_at(chunk.len().min(8));
        let shown: String =
            chunk.iter().map(|b| if b.is_ascii_graphic() || *b == b' ' { char::from(*b) } else { '.' }).collect();
        format!("{:08x}  {:24} {:24} |{shown}|", i * 16, half(a), half(b))
    };
    bytes.chunks(16).enumerate().map(line).collect()
}

/// A time, in words and as a number.
pub fn time(seconds: u64) -> Value {
    json!(format!("{seconds} ({})", ctime(seconds)))
}

/// A block pointer in one line, with zdb's terms.
pub fn pointer(bp: &BlkPtr) -> String {
    if bp.is_hole() {
        let birth = bp.logical_birth().0;
        return if birth == 0 { "hole".into() } else { format!("hole, {:x}L, born {birth}", bp.lsize_bytes()) };
    }
    let kind = bp.object_type().name();
    let compression = bp.compression().map_or("?", |c| c.name());
    let birth = bp.logical_birth().0;
    if bp.is_embedded() {
        return format!(
            "L{} {kind} embedded {compression} {:x}L/{:x}P born {birth}",
            bp.level(),
            bp.lsize_bytes(),
            bp.psize_bytes()
        );
    }
    let dvas: Vec<String> = bp
        .dvas()
        .map(|d| {
            let gang = if d.is_gang { "G" } else { "" };
            format!("<{}:{:x}:{:x}{gang}>", d.vdev, d.offset_bytes, d.asize_bytes)
        })
        .collect();
    let mut flags = String::new();
    for (is, what) in [
        (bp.is_dedup(), " dedup"),
        (bp.is_encrypted(), " encrypted"),
        (bp.is_authenticated(), " authenticated"),
        (bp.is_redacted(), " redacted"),
    ] {
        flags += if is { what } else { "" };
    }
    let [a, b, c, d] = bp.checksum();
    format!(
        "{} L{} {kind} {} {compression}{flags} {:?} {:x}L/{:x}P born {birth}L/{}P fill {} cksum {a:016x}:{b:016x}:{c:016x}:{d:016x}",
        dvas.join(" "),
        bp.level(),
        bp.checksum_kind().map_or("?", |k| k.name()),
        bp.endian(),
        bp.lsize_bytes(),
        bp.psize_bytes(),
        bp.physical_birth().0,
        bp.fill(),
    )
}

/// A dnode without its pointers.
pub fn dnode(d: &Dnode) -> Value {
    let algorithm = |name: Option<&'static str>, raw: u8| match (raw, name) {
        (0, _) => "inherit".to_owned(),
        (_, Some(name)) => name.to_owned(),
        (raw, None) => raw.to_string(),
    };
    json!({
        "type": type_name(d.object_type),
        "bonus_type": type_name(d.bonus_type),
        "bonus_bytes": d.bonus.len(),
        "levels": d.levels,
        "indirect_block_bytes": 1u64.checked_shl(u32::from(d.indirect_shift)).unwrap_or(0),
        "data_block_bytes": d.data_block_bytes,
        "max_block_id": d.max_block_id,
        "used_bytes": d.used_bytes,
        "slots": d.slots,
        "flags": format!("{:#x}", d.flags),
        "checksum": algorithm(ondisk::Checksum::from_raw(d.checksum).ok().map(|c| c.name()), d.checksum),
        "compression": algorithm(ondisk::Compression::from_raw(d.compression).ok().map(|c| c.name()), d.compression),
    })
}

/// Name and number of a type.
pub fn type_name(kind: ObjectType) -> String {
    format!("{} ({})", kind.name(), kind.0)
}

/// A value of a ZAP.
pub fn zap_value(value: &ondisk::zap::Value) -> Value {
    if let Some(n) = value.as_u64() {
        return json!(n);
    }
    if let Some(bytes) = value.as_bytes() {
        let trimmed = bytes.strip_suffix(&[0]).unwrap_or(&bytes);
        return text(trimmed);
    }
    json!(value.ints)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dumps_look_as_those_of_hexdump() {
        let lines = dump(b"weir\x00holds a pool, always");
        assert_eq!(lines[0], "00000000  77 65 69 72 00 68 6f 6c  64 73 20 61 20 70 6f 6f  |weir.holds a poo|");
        assert_eq!(lines[1], "00000010  6c 2c 20 61 6c 77 61 79  73                       |l, always|");
    }

    #[test]
    fn bytes_that_are_no_text_are_hexadecimal() {
        assert_eq!(text(b"tank"), json!("tank"));
        assert_eq!(text(&[0xff, 1]), json!("hex ff01"));
    }
}
