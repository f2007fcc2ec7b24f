//! The dimensions of the matrix, and the selection of cases to run.

use rig::Chance;
use transform::compress::zstd::Level;

/// Number of datasets in one pool.
const CASES_PER_POOL: usize = 18;

/// Arrangement of a pool's devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrangement {
    /// Name for messages; the number after the colon is `ashift`.
    pub name: &'static str,
    /// `file`, `mirror`, `raidz` or `draid`.
    pub kind: &'static str,
    /// Parity of a raidz or draid.
    pub parity: u64,
    pub devices: usize,
    /// log2 of the allocation unit in bytes.
    pub ashift: u8,
}

pub const ARRANGEMENTS: [Arrangement; 9] = [
    Arrangement { name: "disk:9", kind: "file", parity: 0, devices: 1, ashift: 9 },
    Arrangement { name: "disk:12", kind: "file", parity: 0, devices: 1, ashift: 12 },
    Arrangement { name: "stripe:13", kind: "file", parity: 0, devices: 2, ashift: 13 },
    Arrangement { name: "mirror:12", kind: "mirror", parity: 0, devices: 2, ashift: 12 },
    Arrangement { name: "raidz1:9", kind: "raidz", parity: 1, devices: 3, ashift: 9 },
    Arrangement { name: "raidz2:12", kind: "raidz", parity: 2, devices: 5, ashift: 12 },
    Arrangement { name: "raidz3:9", kind: "raidz", parity: 3, devices: 5, ashift: 9 },
    Arrangement { name: "draid1:12", kind: "draid", parity: 1, devices: 4, ashift: 12 },
    Arrangement { name: "draid2:9", kind: "draid", parity: 2, devices: 5, ashift: 9 },
];

const RECORD_BYTES: [u32; 6] = [512, 4 << 10, 16 << 10, 128 << 10, 1 << 20, 16 << 20];
/// Record sizes for the slice. Half of them are large enough for streams that are abandoned
/// half-way.
const SLICE_RECORD_BYTES: [u32; 6] = [512, 4 << 10, 16 << 10, 128 << 10, 256 << 10, 1 << 20];
const CHECKSUMS: [&str; 9] = ["on", "off", "fletcher2", "fletcher4", "sha256", "sha512", "skein", "edonr", "blake3"];
const ENCRYPTIONS: [&str; 6] =
    ["aes-128-ccm", "aes-192-ccm", "aes-256-ccm", "aes-128-gcm", "aes-192-gcm", "aes-256-gcm"];
const DEDUPS: [&str; 6] = ["off", "off", "on", "verify", "sha512,verify", "blake3"];

/// How the files of one dataset are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    pub compression: String,
    /// Property `recordsize`.
    pub record_bytes: u32,
    pub checksum: &'static str,
    /// Property `encryption`; `None` if not encrypted.
    pub encryption: Option<&'static str>,
    pub copies: u8,
    pub dedup: &'static str,
    /// Seed of the contents.
    pub seed: u64,
}

impl Case {
    fn draw(compression: &str, record_bytes: u32, is_encrypted: bool, chance: &mut Chance) -> Self {
        let mut pick = |from: &[&'static str]| from[chance.below(from.len() as u64) as usize];
        let (checksum, encryption, dedup) = (pick(&CHECKSUMS), pick(&ENCRYPTIONS), pick(&DEDUPS));
        let encryption = is_encrypted.then_some(encryption);
        // The third address of an encrypted block holds its IV.
        let copies = 1 + chance.below(if is_encrypted { 2 } else { 3 }) as u8;
        Self {
            compression: compression.to_owned(),
            record_bytes,
            checksum,
            encryption,
            copies,
            dedup,
            seed: chance.next(),
        }
    }

    /// The properties as an administrator sets them.
    pub fn properties(&self) -> Vec<(String, String)> {
        let mut all = vec![
            ("compression", self.compression.clone()),
            ("recordsize", self.record_bytes.to_string()),
            ("checksum", self.checksum.to_owned()),
            ("copies", self.copies.to_string()),
            ("dedup", self.dedup.to_owned()),
        ];
        if let Some(encryption) = self.encryption {
            all.extend([("encryption", encryption.to_owned()), ("keyformat", "hex".to_owned())]);
        }
        all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Whether compressing a megabyte takes seconds.
    pub fn is_slow(&self) -> bool {
        let level = self.compression.strip_prefix("zstd-").and_then(|level| level.parse::<u32>().ok());
        level.is_some_and(|level| level >= 13)
    }
}

/// The datasets of one pool.
#[derive(Debug, Clone)]
pub struct Group {
    pub arrangement: Arrangement,
    pub cases: Vec<Case>,
}

/// All values of the property `compression`.
pub fn compressions() -> Vec<String> {
    let plain = ["off", "on", "lzjb", "zle", "lz4", "gzip", "zstd", "zstd-fast"].map(str::to_owned);
    let gzip = (1..=9).map(|level| format!("gzip-{level}"));
    let zstd = (0..=255).filter_map(Level::from_number).map(|level| match level.level() {
        level if level < 0 => format!("zstd-fast-{}", -level),
        level => format!("zstd-{level}"),
    });
    plain.into_iter().chain(gzip).chain(zstd).collect()
}

/// Each compression with each record size, encrypted and not, on each arrangement; the other
/// properties are random. The seed determines the order, so that runs that end early cover
/// different parts.
pub fn everything(seed: u64) -> Vec<Group> {
    let mut chance = Chance::new(seed);
    let mut groups = Vec::new();
    for arrangement in ARRANGEMENTS {
        let mut cases = Vec::new();
        for compression in compressions() {
            for record_bytes in RECORD_BYTES {
                for is_encrypted in [false, true] {
                    cases.push(Case::draw(&compression, record_bytes, is_encrypted, &mut chance));
                }
            }
        }
        shuffle(&mut cases, &mut chance);
        groups.extend(cases.chunks(CASES_PER_POOL).map(|cases| Group { arrangement, cases: cases.to_vec() }));
    }
    shuffle(&mut groups, &mut chance);
    groups
}

/// Each compression once; the other properties are random. Gzip comes first, with records that are
/// large enough.
pub fn slice(seed: u64) -> Vec<Group> {
    let mut chance = Chance::new(seed);
    let mut cases: Vec<Case> = Vec::new();
    for compression in compressions() {
        let sizes = if compression.starts_with("gzip") { &SLICE_RECORD_BYTES[3..5] } else { &SLICE_RECORD_BYTES[..] };
        let record_bytes = sizes[chance.below(sizes.len() as u64) as usize];
        let is_encrypted = chance.once_in(3);
        let mut case = Case::draw(&compression, record_bytes, is_encrypted, &mut chance);
        if case.is_slow() {
            case.record_bytes = case.record_bytes.min(128 << 10);
        }
        cases.push(case);
    }
    shuffle(&mut cases, &mut chance);
    cases.sort_by_key(|case| !case.compression.starts_with("gzip"));
    let mut arrangements = ARRANGEMENTS.to_vec();
    shuffle(&mut arrangements, &mut chance);
    let groups = cases.chunks(CASES_PER_POOL).zip(arrangements);
    groups.map(|(cases, arrangement)| Group { arrangement, cases: cases.to_vec() }).collect()
}

fn shuffle<T>(items: &mut [T], chance: &mut Chance) {
    for end in (1..items.len()).rev() {
        items.swap(end, chance.below(end as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_has_each_compression_with_each_record_size_on_each_arrangement_encrypted_and_not() {
        let all = everything(1);
        let cases: Vec<_> = all.iter().flat_map(|g| g.cases.iter().map(|c| (g.arrangement.name, c))).collect();
        assert_eq!(cases.len(), ARRANGEMENTS.len() * compressions().len() * RECORD_BYTES.len() * 2);
        let distinct: std::collections::HashSet<_> = cases
            .iter()
            .map(|(name, c)| (*name, c.compression.as_str(), c.record_bytes, c.encryption.is_some()))
            .collect();
        assert_eq!(distinct.len(), cases.len());
        for checksum in CHECKSUMS {
            assert!(cases.iter().any(|(_, c)| c.checksum == checksum), "{checksum}");
        }
    }

    #[test]
    fn the_slice_has_each_compression_and_gzip_where_streams_are_given_up() {
        for seed in 0..20 {
            let cases: Vec<Case> = slice(seed).into_iter().flat_map(|group| group.cases).collect();
            let mut names: Vec<_> = cases.iter().map(|c| c.compression.clone()).collect();
            let mut all = compressions();
            names.sort();
            all.sort();
            assert_eq!(names, all);
            let gzip = cases.iter().filter(|c| c.compression.starts_with("gzip"));
            assert!(gzip.clone().count() == 10 && gzip.clone().all(|c| c.record_bytes >= 128 << 10));
        }
    }
}
