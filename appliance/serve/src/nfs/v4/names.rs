//! Users and groups as NFSv4 strings: a number, or a name with a domain.
//!
//! Attributes return numbers, as AUTH_SYS uses them (RFC 7530 section 5.9). Names are accepted if
//! this machine's passwd and group files contain them.

use std::io::Read;

/// Maximum size of a passwd or group file.
const LIST_BYTES_MAX: u64 = 4 << 20;

/// The uid of an `owner` string.
pub(crate) fn user(name: &[u8]) -> Option<u32> {
    number(name).or_else(|| listed("/etc/passwd", name))
}

/// The gid of an `owner_group` string.
pub(crate) fn group(name: &[u8]) -> Option<u32> {
    number(name).or_else(|| listed("/etc/group", name))
}

fn number(name: &[u8]) -> Option<u32> {
    let is_plain = !name.is_empty() && name.len() <= 10 && name.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(name).ok().filter(|_| is_plain)?.parse().ok().filter(|id| *id != u32::MAX)
}

fn listed(path: &str, name: &[u8]) -> Option<u32> {
    let mut text = Vec::new();
    std::fs::File::open(path).ok()?.take(LIST_BYTES_MAX).read_to_end(&mut text).ok()?;
    find(&text, name)
}

/// Looks up a name without its domain in lines of `name:password:number:...`.
fn find(text: &[u8], name: &[u8]) -> Option<u32> {
    let bare = name.split(|b| *b == b'@').next().filter(|n| !n.is_empty())?;
    text.split(|b| *b == b'\n').find_map(|line| {
        let mut fields = line.split(|b| *b == b':');
        (fields.next()? == bare).then(|| fields.nth(1).and_then(number))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_used_directly_and_names_are_looked_up_without_their_domain() {
        assert_eq!((user(b"0"), user(b"4000000000"), group(b"17")), (Some(0), Some(4_000_000_000), Some(17)));
        assert_eq!(
            (number(b""), number(b"-1"), number(b"4294967295"), number(b"99999999999")),
            (None, None, None, None)
        );
        let list = b"root:x:0:0:root:/root:/bin/sh\nada:x:1815:100::/:\nbad\n";
        assert_eq!(find(list, b"ada@example.org"), Some(1815));
        assert_eq!((find(list, b"ad"), find(list, b"@x"), find(list, b"bad")), (None, None, None));
    }
}
