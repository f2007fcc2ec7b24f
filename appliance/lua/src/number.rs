//! Numbers: 64-bit integers that wrap around. Facts: `lcompat_strtoll`, `lua_strx2number`,
//! `luaV_div`, `luaV_mod`, `lcompat_pow` of OpenZFS.

fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

fn trim(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|b| !is_space(*b)).unwrap_or(text.len());
    let end = text.iter().rposition(|b| !is_space(*b)).map_or(start, |at| at + 1);
    &text[start..end]
}

/// The value of digits in a base; `None`: there is none, or one does not belong to the base.
fn digits(text: &[u8], base: u32) -> Option<i64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0i64, |value, byte| {
        let digit = char::from(*byte).to_digit(36).filter(|digit| *digit < base)?;
        Some(value.wrapping_mul(i64::from(base)).wrapping_add(i64::from(digit)))
    })
}

/// The number that a text is, with spaces around it: decimal, hexadecimal with `0x`, octal with a
/// leading zero.
pub(crate) fn parse(text: &[u8]) -> Option<i64> {
    let text = trim(text);
    let (is_negative, rest, has_plus) = match text.first() {
        Some(b'-') => (true, &text[1..], false),
        Some(b'+') => (false, &text[1..], true),
        _ => (false, text, false),
    };
    let value = match rest {
        [b'0', b'x' | b'X', hexadecimal @ ..] => digits(hexadecimal, 16)?,
        // Only hexadecimal numbers may have this sign.
        _ if has_plus => return None,
        [b'0'] => 0,
        [b'0', octal @ ..] => digits(octal, 8)?,
        decimal => digits(decimal, 10)?,
    };
    Some(if is_negative { value.wrapping_neg() } else { value })
}

/// The number that a text is in a base.
pub(crate) fn parse_in(text: &[u8], base: u32) -> Option<i64> {
    let text = trim(text);
    match text.first() {
        Some(b'-') => digits(&text[1..], base).map(i64::wrapping_neg),
        Some(b'+') => digits(&text[1..], base),
        _ => digits(text, base),
    }
}

/// Rounds towards minus infinity; `None`: the divisor is 0.
pub(crate) fn divide(a: i64, b: i64) -> Option<i64> {
    match b {
        0 => None,
        -1 => Some(a.wrapping_neg()),
        b => Some(a.div_euclid(b) - i64::from(b < 0 && a.rem_euclid(b) != 0)),
    }
}

/// Has the sign of the divisor; `None`: the divisor is 0.
pub(crate) fn modulo(a: i64, b: i64) -> Option<i64> {
    match b {
        0 => None,
        -1 => Some(0),
        b => {
            let rest = a % b;
            Some(if rest != 0 && (rest ^ b) < 0 { rest + b } else { rest })
        }
    }
}

/// 0 for negative exponents.
pub(crate) fn power(mut base: i64, mut exponent: i64) -> i64 {
    let mut result = 1i64;
    if exponent < 0 {
        return 0;
    }
    while exponent != 0 {
        if exponent & 1 == 1 {
            result = result.wrapping_mul(base);
        }
        exponent >>= 1;
        base = base.wrapping_mul(base);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn division_rounds_down() {
        for (a, b, quotient, rest) in [(7, 2, 3, 1), (-7, 2, -4, 1), (7, -2, -4, -1), (-7, -2, 3, -1), (6, -3, -2, 0)] {
            assert_eq!((divide(a, b), modulo(a, b)), (Some(quotient), Some(rest)), "{a} / {b}");
        }
        assert_eq!((divide(i64::MIN, -1), modulo(i64::MIN, -1)), (Some(i64::MIN), Some(0)));
        assert_eq!((divide(1, 0), modulo(1, 0)), (None, None));
    }

    #[test]
    fn texts_are_numbers_as_in_openzfs() {
        for (text, value) in [
            ("10", Some(10)),
            (" -012 ", Some(-10)),
            ("0x10", Some(16)),
            ("+0x2", Some(2)),
            ("+2", None),
            ("08", None),
            ("1.0", None),
            ("1e1", None),
            ("", None),
            ("0x", None),
            ("- 1", None),
            ("18446744073709551615", Some(-1)),
        ] {
            assert_eq!(parse(text.as_bytes()), value, "{text}");
        }
        assert_eq!(parse_in(b" +1Z ", 36), Some(71));
    }
}
