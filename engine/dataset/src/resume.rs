//! The token of a receive that broke off, by which `zfs send -t` goes on.
//!
//! `1-CHECKSUM-LENGTH-DATA`: the state as a packed nvlist (native encoding), compressed at zlib level 6, in hexadecimal,
//! with the first word of its fletcher4 checksum and its length before compression. Facts:
//! `get_receive_resume_token_impl` in module/zfs/dsl_dataset.c.

mod zlib;

use crate::dataset::Dataset;
use crate::{Error, Result};
use ondisk::nvlist::{Nvlist, Value};
use ondisk::{Endian, dsl_dataset as field};
use transform::checksum::{Order, fletcher4};

/// Name of the child that an interrupted incremental receive leaves.
const RECEIVING_CHILD: &str = "%recv";

/// The token of `dataset`, or of the incremental receive into it; `None` when none broke off.
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
    use transform::compress::Algorithm;

    /// `zstream token` of OpenZFS 2.3.2 reads such a token back.
    #[test]
    fn a_token_has_its_four_parts() {
        let mut state = Nvlist::new();
        state.put("object", 7u64);
        state.put("toguid", 0x1234u64);
        state.put("toname", "tank/a@s");
        state.put("embedok", Value::Boolean);
        let token = encode(&state);
        println!("{token}");
        let parts: Vec<&str> = token.split('-').collect();
        assert_eq!((parts.len(), parts[0]), (4, "1"));
        let data: Vec<u8> =
            (0..parts[3].len() / 2).map(|i| u8::from_str_radix(&parts[3][i * 2..i * 2 + 2], 16).unwrap()).collect();
        assert_eq!(format!("{:x}", fletcher4::checksum(&data, Order::Little)[0]), parts[1]);
        let mut packed = vec![0; usize::from_str_radix(parts[2], 16).unwrap()];
        transform::compress::decompress(Algorithm::Gzip(6), &data, &mut packed).unwrap();
        assert_eq!(Nvlist::parse(&packed).unwrap(), state);
    }
}
