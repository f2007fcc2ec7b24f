//! Contents of the files: compressible, incompressible, and alternating.

use crate::Case;
use rig::Chance;

/// A file of a dataset.
#[derive(Debug, Clone)]
pub struct File {
    pub name: String,
    pub bytes: Vec<u8>,
    /// Lengths of the writes that create it.
    pub writes: Vec<usize>,
}

/// The files of a case. The same case always has the same files.
pub fn files(case: &Case) -> Vec<File> {
    let mut chance = Chance::new(case.seed);
    let record = case.record_bytes as usize;
    let (huge, records) = shape(case);
    let tail = 1 + chance.below(record as u64 - 1) as usize;
    let bytes = records * record + tail;
    let mut found = Vec::new();
    let mut add = |name: String, bytes: Vec<u8>, chance: &mut Chance| {
        let mut writes = Vec::new();
        let mut left = bytes.len();
        while left > 0 {
            let next = match chance.below(4) {
                0 => chance.below(3 * record as u64) as usize + 1,
                1 => record,
                _ => left,
            };
            // Writes of a few bytes each would take too long.
            let next = next.max(4096).min(left);
            writes.push(next);
            left -= next;
        }
        found.push(File { name, bytes, writes });
    };
    // Incompressible records, each followed by a compressible one that the same thread compresses.
    let alternating = (0..bytes.div_ceil(record)).flat_map(|n| match n % 2 {
        0 => chance.bytes(record),
        _ => words(&mut chance, record),
    });
    let mut alternating: Vec<u8> = alternating.collect();
    alternating.truncate(bytes);
    add("alternating".into(), alternating, &mut chance);
    let pages: Vec<u8> = (0..bytes.div_ceil(4096))
        .flat_map(|_| match chance.below(4) {
            0 => vec![0; 4096],
            1 => chance.bytes(4096),
            _ => words(&mut chance, 4096),
        })
        .collect();
    add("pages".into(), pages, &mut chance);
    if !huge {
        let text = words(&mut chance, bytes);
        add("words".into(), text.clone(), &mut chance);
        // A duplicate, for dedup.
        add("words-again".into(), text, &mut chance);
        let noise = chance.bytes(bytes);
        add("noise".into(), noise, &mut chance);
        add("zeros".into(), vec![0; bytes], &mut chance);
    }
    let mut tails = [0, 1, 100, 511, 513, record - 1, record + 1].to_vec();
    tails.sort_unstable();
    tails.dedup();
    for size in tails {
        let contents = if chance.once_in(2) { words(&mut chance, size) } else { chance.bytes(size) };
        add(format!("tail-{size}"), contents, &mut chance);
    }
    found
}

/// Whether records are so large, or so slow to compress, that there are few files; and the number
/// of whole records of a file.
fn shape(case: &Case) -> (bool, usize) {
    let record = case.record_bytes as usize;
    let huge = record > 1 << 20 || (case.is_slow() && record > 128 << 10);
    (huge, if huge { 1 } else { ((256 << 10) / record).clamp(2, 64) })
}

/// Upper limit of the total size of a case's files in bytes.
pub fn bytes_max(case: &Case) -> usize {
    let (huge, records) = shape(case);
    let (files, record) = (if huge { 2 } else { 6 }, case.record_bytes as usize);
    // The files with tails need two records together, and a little more.
    (files * (records + 1) + 3) * record + 4096
}

/// Bytes that compress like text.
fn words(chance: &mut Chance, bytes: usize) -> Vec<u8> {
    const WORDS: [&str; 12] = [
        "pool ",
        "dataset ",
        "txg ",
        "of the ",
        "block ",
        "0x00bab10c\n",
        "vdev ",
        "snapshot@",
        "mirror-0 ",
        "raidz2 ",
        "weir ",
        "\tstate: ONLINE\n",
    ];
    let mut text = Vec::with_capacity(bytes + 16);
    while text.len() < bytes {
        match chance.below(8) {
            0 => text.extend_from_slice(chance.next().to_string().as_bytes()),
            _ => text.extend_from_slice(WORDS[chance.below(WORDS.len() as u64) as usize].as_bytes()),
        }
    }
    text.truncate(bytes);
    text
}
