//! Checks that the bytes shown in the documentation are bytes that OpenZFS wrote.
//!
//! Every `hexdump -C` line in a doc comment of this crate must occur, at that offset, in a file of
//! `testdata/`.

use std::fs;
use std::path::Path;

/// Offset and bytes of a line such as `//! 00000010  0c b1 ba 00 ..  |....|`, or `None` for other
/// lines.
fn hexdump_line(line: &str) -> Option<(usize, Vec<u8>)> {
    let text = line.trim_start().strip_prefix("//")?.trim_start_matches(['!', '/']).strip_prefix(' ')?;
    let (offset, rest) = text.split_once("  ")?;
    if offset.len() != 8 {
        return None;
    }
    let offset = usize::from_str_radix(offset, 16).ok()?;
    let (hex, _) = rest.split_once('|')?;
    let bytes = hex.split_whitespace().map(|b| u8::from_str_radix(b, 16)).collect::<Result<Vec<_>, _>>().ok()?;
    (!bytes.is_empty()).then_some((offset, bytes))
}

fn rust_files(dir: &Path, out: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

#[test]
fn hexdumps_in_the_documentation_are_real() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let golden: Vec<(String, Vec<u8>)> = fs::read_dir(root.join("testdata"))
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "bin"))
        .map(|p| (p.display().to_string(), fs::read(&p).unwrap()))
        .collect();
    let mut files = Vec::new();
    rust_files(&root.join("src"), &mut files);
    let (mut seen, mut wrong) = (0, Vec::new());
    for file in files {
        for (number, line) in fs::read_to_string(&file).unwrap().lines().enumerate() {
            let Some((offset, bytes)) = hexdump_line(line) else { continue };
            seen += 1;
            if !golden.iter().any(|(_, g)| g.get(offset..offset + bytes.len()) == Some(&bytes)) {
                wrong.push(format!("{}:{}: {line}", file.display(), number + 1));
            }
        }
    }
    assert!(seen > 20, "the documentation has {seen} lines of hexdump");
    assert!(wrong.is_empty(), "not in any golden file:\n{}", wrong.join("\n"));
}
