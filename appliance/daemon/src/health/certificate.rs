//! The validity and the names of a certificate, from its DER (RFC 5280, section 4.1).
//!
//! ```text
//! Certificate { TBSCertificate { [0] version OPTIONAL, serialNumber, signature, issuer,
//!                                validity { notBefore, notAfter }, subject, … }, … }
//! ```

use super::inputs::Validity;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SET: u8 = 0x31;
const OBJECT_ID: u8 = 0x06;
/// id-at-commonName, 2.5.4.3.
const COMMON_NAME: &[u8] = &[0x55, 4, 3];
/// id-ce-subjectAltName, 2.5.29.17, with its tag and length.
const ALTERNATIVE_NAME: &[u8] = &[OBJECT_ID, 3, 0x55, 0x1d, 0x11];

/// The validity; `None` if this is not a certificate.
pub fn validity(der: &[u8]) -> Option<Validity> {
    let (times, _) = contents(SEQUENCE, element(from_validity(der)?)?)?;
    let (tag, before, rest) = element(times)?;
    let not_before = time(tag, before)?;
    let (tag, after, _) = element(rest)?;
    Some(Validity { not_before, not_after: time(tag, after)? })
}

/// Whether the certificate has a subjectAltName: then its common name is not the name of a host.
pub fn has_alternative_names(der: &[u8]) -> bool {
    der.windows(ALTERNATIVE_NAME.len()).any(|part| part == ALTERNATIVE_NAME)
}

/// The common name of the subject.
pub fn common_name(der: &[u8]) -> Option<String> {
    let subject = element(from_validity(der)?)?.2;
    let (mut names, _) = contents(SEQUENCE, element(subject)?)?;
    while !names.is_empty() {
        let (set, rest) = contents(SET, element(names)?)?;
        let (attribute, _) = contents(SEQUENCE, element(set)?)?;
        let (id, value) = contents(OBJECT_ID, element(attribute)?)?;
        if id == COMMON_NAME {
            return String::from_utf8(element(value)?.1.to_vec()).ok();
        }
        names = rest;
    }
    None
}

/// What begins with the validity.
fn from_validity(der: &[u8]) -> Option<&[u8]> {
    let (tbs, _) = contents(SEQUENCE, element(der)?)?;
    let (mut rest, _) = contents(SEQUENCE, element(tbs)?)?;
    if rest.first() == Some(&VERSION) {
        rest = element(rest)?.2;
    }
    // Serial number, signature algorithm, issuer.
    for _ in 0..3 {
        rest = element(rest)?.2;
    }
    Some(rest)
}

/// The first element: its tag and contents, and what follows it.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = der.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match *first {
        short @ 0..0x80 => (usize::from(short), rest),
        long => {
            let (digits, rest) = rest.split_at_checked(usize::from(long & 0x7f)).filter(|(d, _)| d.len() <= 4)?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
    };
    let (contents, rest) = rest.split_at_checked(length)?;
    Some((*tag, contents, rest))
}

fn contents<'d>(expected: u8, (tag, contents, rest): (u8, &'d [u8], &'d [u8])) -> Option<(&'d [u8], &'d [u8])> {
    (tag == expected).then_some((contents, rest))
}

/// Seconds since 1970 of `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ`; 0 for earlier times.
fn time(tag: u8, text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let text = match tag {
        // Years from 50 on belong to the 20th century.
        UTC_TIME => format!("{}{text}", if text.get(..2)? >= "50" { "19" } else { "20" }),
        GENERALIZED_TIME => text.to_owned(),
        _ => return None,
    };
    let civil = DateTime::strptime("%Y%m%d%H%M%S", &text).ok()?;
    let second = civil.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second();
    Some(u64::try_from(second).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair};
    use std::time::{Duration, UNIX_EPOCH};

    fn certificate(from: u64, to: u64) -> Vec<u8> {
        let at = |second: u64| UNIX_EPOCH + Duration::from_secs(second);
        let mut params = CertificateParams::new(vec!["filer".to_owned()]).expect("a name");
        (params.not_before, params.not_after) = (at(from).into(), at(to).into());
        let key = KeyPair::generate().expect("a key");
        params.self_signed(&key).expect("signed").der().to_vec()
    }

    #[test]
    fn both_forms_of_time_are_read() {
        // Until 2049 times have two digits of the year.
        for (not_before, not_after) in [(1_700_000_000, 1_800_000_000), (1_795_303_000, 4_102_444_800)] {
            assert_eq!(validity(&certificate(not_before, not_after)), Some(Validity { not_before, not_after }));
        }
        assert_eq!(time(UTC_TIME, b"991231235959Z"), Some(946_684_799));
        assert_eq!((time(UTC_TIME, b"20240101Z"), time(2, b"991231235959Z")), (None, None));
    }

    #[test]
    fn damaged_bytes_are_refused_or_read_but_never_panic() {
        let whole = certificate(1_700_000_000, 1_800_000_000);
        for cut in 0..200 {
            assert_eq!(validity(whole.get(..cut).expect("long enough")), None, "{cut}");
        }
        for place in 0..300 {
            for value in [0, 0x30, 0x7f, 0x80, 0x84, 0xff] {
                let mut der = whole.clone();
                der[place] = value;
                let _ = validity(&der);
            }
        }
    }
}
