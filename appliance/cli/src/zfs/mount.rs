//! `zfs mount`: what is mounted. Mounting is `weir mount`'s.

use crate::context::{Context, Failure, Outcome};
use crate::getopt::Options;
use crate::json::{self, Object};
use serde_json::{Value, json};

const OPTIONS: Options = Options { short: "jRlvfaOo:", long: &[("json", false, 'j')] };

/// Datasets that `weir mount` has mounted, and where.
pub fn mounted() -> Vec<(String, String)> {
    let table = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let entry = |line: &str| {
        let mut parts = line.split(' ');
        let (source, place, kind) = (parts.next()?, parts.next()?, parts.next()?);
        (kind == "fuse.weir").then(|| (unescape(source), unescape(place)))
    };
    table.lines().filter_map(entry).collect()
}

/// The kernel writes spaces and the like as a backslash and three octal digits.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let octal = tail.get(..3).filter(|d| *first == b'\\' && d.iter().all(|d| (b'0'..=b'7').contains(d)));
        match octal {
            Some(digits) => {
                let number = digits.iter().fold(0u32, |n, d| n * 8 + u32::from(d - b'0'));
                bytes.push(u8::try_from(number).unwrap_or(b'?'));
                rest = &tail[3..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// `zfs mount`.
pub fn run(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = OPTIONS.parse(args).map_err(Failure::usage)?;
    if parsed.has('a') || !parsed.operands.is_empty() {
        let name = parsed.operands.first().map_or("POOL/DATASET", String::as_str);
        return Err(Failure::failed(format!(
            "unsupported: 'zfs mount' with a dataset; to mount it with FUSE run: weir mount {name} DIR"
        )));
    }
    let mounted = mounted();
    if parsed.has('j') {
        let mut datasets = Object::new();
        for (name, place) in mounted {
            datasets.insert(name.clone(), json!({"filesystem": name, "mountpoint": place}));
        }
        let mut document = json::document("zfs mount");
        document.insert("datasets".into(), Value::Object(datasets));
        cx.print(&json::line(document));
        return Ok(0);
    }
    for (name, place) in mounted {
        cx.print(&format!("{name:30}  {place}\n"));
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_table_is_unescaped() {
        assert_eq!(unescape(r"tank/sp\040ace"), "tank/sp ace");
        assert_eq!(unescape(r"a\134b\9"), r"a\b\9");
    }
}
