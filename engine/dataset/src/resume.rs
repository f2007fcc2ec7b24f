//! The token of an interrupted receive, which `zfs send -t` resumes from.
//!
//! `1-CHECKSUM-LENGTH-DATA`: the state as a packed nvlist (native encoding), compressed at zlib
//! level 6, in hexadecimal, with the first word of its fletcher4 checksum and its length before
//! compression. Facts: `get_receive_resume_token_impl` in module/zfs/dsl_dataset.c.

mod zlib;

use crate::dataset::Dataset;
use errors::{Error, Result};
use ondisk::nvlist::{Nvlist, Value};
use ondisk::{Endian, dsl_dataset as field};
use transform::checksum::{Order, fletcher4};
use transform::compress::Algorithm;

/// Longest nvlist accepted in a token: a few numbers and a name, or thousands of redaction
/// snapshots.
const LIST_BYTES_MAX: u64 = 1 << 20;
/// Name of the child that an interrupted incremental receive leaves.
const RECEIVING_CHILD: &str = "%recv";

/// The token of `dataset`, or of the incremental receive into it; `None` if no receive was
/// interrupted.
pub fn token(dataset: &Dataset) -> Result<Option<String>> {
    if let Some(token) = own_token(dataset)? {
        return Ok(Some(token));
    }
    match dataset.tree().dataset(&format!("{}/{RECEIVING_CHILD}", dataset.name())) {
        Ok(child) => own_token(&child),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(e) => Err(e),
    }
}

fn own_token(d: &Dataset) -> Result<Option<String>> {
    if d.field(field::FIELD_RESUME_TOGUID)?.is_none() {
        return Ok(None);
    }
    let mut state = Nvlist::new();
    let numbers = [
        ("fromguid", field::FIELD_RESUME_FROMGUID),
        ("object", field::FIELD_RESUME_OBJECT),
        ("offset", field::FIELD_RESUME_OFFSET),
        ("bytes", field::FIELD_RESUME_BYTES),
        ("toguid", field::FIELD_RESUME_TOGUID),
    ];
    for (name, key) in numbers {
        if let Some(n) = d.field_u64(key)? {
            state.put(name, n);
        }
    }
    if let Some(name) = d.field(field::FIELD_RESUME_TONAME)?.and_then(|value| value.as_bytes()) {
        let text: Vec<u8> = name.into_iter().take_while(|b| *b != 0).collect();
        state.put("toname", Value::String(text));
    }
    let flags = [
        ("largeblockok", field::FIELD_RESUME_LARGEBLOCK),
        ("embedok", field::FIELD_RESUME_EMBEDOK),
        ("compressok", field::FIELD_RESUME_COMPRESSOK),
        ("rawok", field::FIELD_RESUME_RAWOK),
    ];
    for (name, key) in flags {
        if d.field(key)?.is_some() {
            state.put(name, Value::Boolean);
        }
    }
    let lists = [
        ("redact_snaps", field::FIELD_REDACTED_DATASETS),
        ("book_redact_snaps", field::FIELD_RESUME_REDACT_BOOKMARK_SNAPS),
    ];
    for (name, key) in lists {
        if let Some(guids) = d.field(key)? {
            state.put(name, guids.ints);
        }
    }
    Ok(Some(encode(&state)))
}

/// Parses a token. Errors describe the problem in OpenZFS's words.
pub fn parse(token: &str) -> Result<Nvlist> {
    let bad = |what: &str| Error::invalid("", format!("resume token is corrupt ({what})"));
    let parts: Vec<&str> = token.trim().splitn(4, '-').collect();
    let [version, sum, len, digits] = parts[..] else { return Err(bad("invalid format")) };
    if version != "1" {
        return Err(bad(&format!("invalid version {version}")));
    }
    let number = |digits: &str| u64::from_str_radix(digits, 16).map_err(|_| bad("invalid format"));
    let (sum, len) = (number(sum)?, number(len)?);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let data: Option<Vec<u8>> = digits.as_bytes().chunks_exact(2).map(byte).collect();
    let data = data.ok_or_else(|| bad("payload is not hex-encoded"))?;
    if fletcher4::checksum(&data, Order::Little)[0] != sum {
        return Err(bad("incorrect checksum"));
    }
    if len > LIST_BYTES_MAX {
        return Err(bad("decompression failed"));
    }
    let mut packed = vec![0; len as usize];
    transform::compress::decompress(Algorithm::Gzip(6), &data, &mut packed).map_err(|_| bad("decompression failed"))?;
    Nvlist::parse(&packed).map_err(|_| bad("nvlist_unpack failed"))
}

fn encode(state: &Nvlist) -> String {
    let packed = state.to_native(Endian::Little);
    let data = zlib::compress(&packed);
    let checksum = fletcher4::checksum(&data, Order::Little);
    let mut token = format!("1-{:x}-{:x}-", checksum[0], packed.len());
    for byte in data {
        token.push_str(&format!("{byte:02x}"));
    }
    token
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> Nvlist {
        let mut state = Nvlist::new();
        state.put("object", 7u64);
        state.put("toguid", 0x1234u64);
        state.put("toname", "tank/a@s");
        state.put("embedok", Value::Boolean);
        state
    }

    /// `zstream token` of OpenZFS 2.3.2 reads such a token back.
    #[test]
    fn a_token_has_its_four_parts_and_reads_back() {
        let token = encode(&state());
        let parts: Vec<&str> = token.split('-').collect();
        assert_eq!((parts.len(), parts[0]), (4, "1"));
        assert_eq!(parse(&token).unwrap(), state());
    }

    #[test]
    fn errors_in_a_token_are_reported() {
        let token = encode(&state());
        let altered = match token.ends_with('0') {
            true => format!("{}1", &token[..token.len() - 1]),
            false => format!("{}0", &token[..token.len() - 1]),
        };
        for (token, what) in [
            ("", "invalid format"),
            ("1-2", "invalid format"),
            ("2-ab-10-78", "invalid version 2"),
            ("1-ab-10-zz", "payload is not hex-encoded"),
            (&altered, "incorrect checksum"),
        ] {
            assert_eq!(parse(token).unwrap_err().to_string(), format!(": resume token is corrupt ({what})"));
        }
        let long = token.splitn(4, '-').collect::<Vec<_>>();
        let long = format!("1-{}-ffffffffff-{}", long[1], long[3]);
        assert!(parse(&long).unwrap_err().to_string().contains("decompression failed"));
    }
}
