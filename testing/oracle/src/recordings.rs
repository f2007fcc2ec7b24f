//! Reads recorded files, and compares trees.

use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::path::Path;

/// Maximum number of differences in a message.
const LISTED_MAX: usize = 12;
/// Maximum length of a line in a message.
const LINE_MAX: usize = 300;

/// The output of sha256sum for a tree without files: xargs runs it on empty input.
const NO_FILES: &[u8] = b"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  -";

/// The lines of a recorded tree.
pub fn tree(file: &Path) -> Result<Vec<Vec<u8>>> {
    let bytes = std::fs::read(file).with_context(|| file.display().to_string())?;
    Ok(bytes.split(|b| *b == b'\n').filter(|line| !line.is_empty() && *line != NO_FILES).map(<[u8]>::to_vec).collect())
}

/// The blocks of recorded attributes and ACLs, sorted.
pub fn xattrs(file: &Path) -> Result<Vec<Vec<u8>>> {
    let bytes = std::fs::read(file).with_context(|| file.display().to_string())?;
    let (mut blocks, mut block) = (Vec::new(), Vec::new());
    for line in bytes.split(|b| *b == b'\n') {
        if !line.is_empty() {
            block.extend_from_slice(line);
            block.push(b'\n');
        } else if !block.is_empty() {
            blocks.push(std::mem::take(&mut block));
        }
    }
    blocks.sort();
    Ok(blocks)
}

/// The differences between both sides; `None` if they are equal.
pub fn differences(openzfs: &[Vec<u8>], weir: &[Vec<u8>]) -> Option<String> {
    let (theirs, ours): (BTreeSet<_>, BTreeSet<_>) = (openzfs.iter().collect(), weir.iter().collect());
    let show = |who: &str, line: &[u8]| {
        let text = String::from_utf8_lossy(line);
        format!("  {who}: {}\n", text.chars().take(LINE_MAX).collect::<String>().trim_end())
    };
    let missing: Vec<_> = theirs.difference(&ours).map(|l| show("OpenZFS", l)).collect();
    let extra: Vec<_> = ours.difference(&theirs).map(|l| show("Weir   ", l)).collect();
    let count = missing.len() + extra.len();
    if count == 0 && openzfs.len() == weir.len() {
        return None;
    }
    let mut text = format!("{count} lines differ ({} and {} in all)\n", openzfs.len(), weir.len());
    let half = LISTED_MAX / 2;
    text.extend(missing.into_iter().take(half).chain(extra.into_iter().take(half)));
    Some(text)
}
