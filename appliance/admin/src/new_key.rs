//! The key for a new encryption root: from the file named by `keylocation`, or from a user.
//!
//! Facts: get_key_material in lib/libzfs/libzfs_crypto.c.

use anyhow::{Context, Result, bail};
use dataset::KeyLocation;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use zeroize::Zeroizing;

/// Maximum size of a key file, in bytes.
const FILE_BYTES_MAX: u64 = 4096;

/// Key material in memory.
pub type Material = Zeroizing<Vec<u8>>;

/// Prompts a user for a key of that format, twice if it is new, or reads it from piped input.
pub type AskNew<'a> = dyn Fn(&str) -> Result<Material> + 'a;

/// Reads a key from a web server, by its URL.
pub type Fetch<'a> = dyn Fn(&str) -> Result<Material> + 'a;

/// Returns the key required by the properties of a new dataset; `None` if it has no key of its own.
/// `present` is the format of its current key, if that does not change.
pub fn ask(
    properties: &[(String, String)],
    dataset: &str,
    present: Option<&str>,
    ask: &AskNew<'_>,
    fetch: &Fetch<'_>,
) -> Result<Option<Material>> {
    let value = |name: &str| properties.iter().rev().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
    if value("encryption") == Some("off") {
        return Ok(None);
    }
    let Some(format) = value("keyformat").filter(|f| *f != "none").or(present) else { return Ok(None) };
    if !matches!(format, "raw" | "hex" | "passphrase") {
        bail!("'keyformat' must be one of 'none | raw | hex | passphrase'");
    }
    let location = value("keylocation").unwrap_or("prompt");
    let key = match KeyLocation::parse(location) {
        Some(KeyLocation::File(path)) => from_file(Path::new(&path), format)?,
        Some(KeyLocation::Prompt) => ask(format)?,
        Some(KeyLocation::Url(url)) => used(format, fetch(&url)?),
        Some(KeyLocation::None) | None => bail!("invalid keylocation"),
    };
    check(format, &key)
        .with_context(|| format!("key of '{dataset}'"))
        .map_err(|e| anyhow::anyhow!("{}", e.root_cause()))?;
    Ok(Some(key))
}

/// Reads the key from a file.
pub fn from_file(path: &Path, format: &str) -> Result<Material> {
    let shown = || format!("Failed to open key material file: {}", path.display());
    Ok(used(format, Zeroizing::new(read(path, FILE_BYTES_MAX).with_context(shown)?)))
}

/// The part of a file that is the key: its first line, unless the key is raw.
pub(crate) fn used(format: &str, mut bytes: Material) -> Material {
    if format != "raw" {
        let line = bytes.iter().position(|b| *b == b'\n').unwrap_or(bytes.len());
        bytes.truncate(line);
    }
    bytes
}

/// Reads a regular file of at most `max` bytes. Anything else is refused: reading a FIFO could wait
/// for ever.
pub(crate) fn read(path: &Path, max: u64) -> Result<Vec<u8>> {
    let meta = std::fs::metadata(path)?;
    if !meta.is_file() {
        bail!("it is not a regular file");
    }
    if meta.len() > max {
        bail!("Key file too large.");
    }
    // Another file may have taken its place: opening waits for nothing, and reading ends.
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let mut bytes = Vec::new();
    file.take(max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max {
        bail!("Key file too large.");
    }
    Ok(bytes)
}

fn check(format: &str, key: &[u8]) -> Result<()> {
    match (format, key.len()) {
        ("raw", 0..=31) => bail!("Raw key too short (expected 32)."),
        ("raw", 33..) => bail!("Raw key too long (expected 32)."),
        ("hex", 0..=63) => bail!("Hex key too short (expected 64)."),
        ("hex", 65..) => bail!("Hex key too long (expected 64)."),
        ("hex", _) if !key.iter().all(u8::is_ascii_hexdigit) => bail!("Invalid hex character detected."),
        ("passphrase", 0..=7) => bail!("Passphrase too short (min 8)."),
        ("passphrase", 513..) => bail!("Passphrase too long (max 512)."),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn properties(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn a_key_comes_from_its_file_or_a_person_and_is_checked() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("k");
        std::fs::write(&path, "password\nnot this\n").expect("written");
        let location = format!("file://{}", path.display());
        let no_terminal = |_: &str| bail!("there is no terminal");
        let no_server = |url: &str| bail!("{url} is not there");
        let with_file = properties(&[("keyformat", "passphrase"), ("keylocation", &location)]);
        let key = ask(&with_file, "tank/e", None, &no_terminal, &no_server).expect("readable").expect("a key");
        assert_eq!(key.as_slice(), b"password");
        let properties_given = properties(&[("keyformat", "passphrase")]);
        assert!(ask(&properties_given, "tank/e", None, &no_terminal, &no_server).is_err());
        let with_url = properties(&[("keyformat", "passphrase"), ("keylocation", "https://keys.example/k")]);
        let server = |url: &str| match url {
            "https://keys.example/k" => Ok(Zeroizing::new(b"from afar\nnot this".to_vec())),
            other => bail!("{other}"),
        };
        let key = ask(&with_url, "tank/e", None, &no_terminal, &server).expect("readable").expect("a key");
        assert_eq!(key.as_slice(), b"from afar");
        let why = ask(&with_url, "tank/e", None, &no_terminal, &no_server).unwrap_err().to_string();
        assert_eq!(why, "https://keys.example/k is not there");
        let short = |_: &str| Ok(Zeroizing::new(b"short".to_vec()));
        assert_eq!(
            ask(&properties_given, "t", None, &short, &no_server).unwrap_err().to_string(),
            "Passphrase too short (min 8)."
        );
        let fifo = dir.path().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status().expect("mkfifo");
        assert!(made.success());
        for other in [&fifo, &dir.path().to_owned()] {
            assert!(format!("{:#}", from_file(other, "hex").unwrap_err()).contains("not a regular file"));
        }
        assert!(
            ask(&properties(&[("compression", "lz4")]), "t", None, &no_terminal, &no_server).expect("no key").is_none()
        );
    }
}
