//! Loads the key of an encrypted dataset, from the location that the user or the dataset specifies.

use anyhow::{Context, Result, bail};
use dataset::tree::Entry;
use dataset::{Dataset, KeyLocation, KeyStore, View, property};
use std::io;
use std::path::{Path, PathBuf};

/// Maximum size of a key file, in bytes: a passphrase has at most 512.
const KEY_FILE_MAX: u64 = 4096;
/// Number of times that a user may try.
const ATTEMPTS: usize = 3;

/// Numeric values of the property `keyformat`.
const FORMAT_RAW: u64 = 1;
const FORMAT_HEX: u64 = 2;

/// A question for a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question<'a> {
    /// What a person at a terminal is shown.
    pub prompt: &'a str,
    /// The key is raw: bytes, not a line of text.
    pub is_raw: bool,
}

/// Asks a user, or reads from piped input.
pub type Ask<'a> = dyn Fn(&Question<'_>) -> io::Result<Vec<u8>> + 'a;

/// A file with a raw or hex key, or with a passphrase in its first line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyFile {
    /// The encryption root; `None` to try it for any.
    pub dataset: Option<String>,
    pub path: PathBuf,
}

/// Sources of keys that override the datasets' own.
#[derive(Default, Clone)]
pub struct KeySource<'a> {
    /// Files to try first.
    pub files: Vec<KeyFile>,
    /// Replaces the property `keylocation`.
    pub location: Option<String>,
    /// Prompts the user; `None` if there is no user.
    pub ask: Option<&'a Ask<'a>>,
}

/// Loads the key of the encryption root of `dataset`. Does nothing if the dataset is not encrypted.
pub fn load(keys: &KeyStore, dataset: &Dataset, source: &KeySource<'_>) -> Result<()> {
    let Some(key) = dataset.key_object()? else { return Ok(()) };
    let root = dataset.encryption_root()?.context("it has no encryption root")?;
    let named = source.files.iter().filter(|f| f.dataset.as_deref() == Some(root.name()));
    let mut failed = None;
    for file in named.chain(source.files.iter().filter(|f| f.dataset.is_none())) {
        let result = read_key(&file.path, key.key_format).and_then(|key| Ok(keys.load(dataset, &key)?));
        match result {
            Ok(()) => return Ok(()),
            Err(e) => failed = Some(e.context(file.path.display().to_string())),
        }
    }
    if let Some(error) = failed {
        return Err(error);
    }
    let location = match &source.location {
        Some(location) => location.clone(),
        None => location_of(dataset.tree().head(&root)?)?,
    };
    match KeyLocation::parse(&location) {
        Some(KeyLocation::File(path)) => Ok(keys.load(dataset, &read_key(Path::new(&path), key.key_format)?)?),
        Some(KeyLocation::Url(url)) => {
            bail!("{url}: keys from a web server are not supported; download it and use -L file:///...")
        }
        Some(KeyLocation::Prompt) => prompt(keys, root.name(), dataset, key.key_format, source),
        Some(KeyLocation::None) | None => bail!("keylocation is '{location}'; give the location of the key with -L"),
    }
}

fn location_of(root: Dataset) -> Result<String> {
    let property = property::get(&Entry::Dataset(root), "keylocation", &View::default())?;
    Ok(property.map_or_else(|| "prompt".to_owned(), |p| p.value.raw))
}

fn read_key(path: &Path, format: u64) -> Result<Vec<u8>> {
    let mut bytes = crate::new_key::read(path, KEY_FILE_MAX).with_context(|| path.display().to_string())?;
    if format != FORMAT_RAW
        && let Some(end) = bytes.iter().position(|&b| b == b'\n')
    {
        bytes.truncate(end);
    }
    Ok(bytes)
}

fn prompt(keys: &KeyStore, root: &str, dataset: &Dataset, format: u64, source: &KeySource<'_>) -> Result<()> {
    let Some(ask) = source.ask else {
        return Err(errors::Error::KeyUnavailable { place: dataset.name().to_owned() }.into());
    };
    let kind = match format {
        FORMAT_RAW => "Raw key",
        FORMAT_HEX => "Hexadecimal key",
        _ => "Passphrase",
    };
    let mut attempt = 1;
    loop {
        let question = Question { prompt: &format!("{kind} for '{root}': "), is_raw: format == FORMAT_RAW };
        let typed = ask(&question).context("cannot prompt for the key")?;
        match keys.load(dataset, &typed) {
            Ok(()) => return Ok(()),
            Err(errors::Error::Invalid { .. }) if attempt < ATTEMPTS => attempt += 1,
            Err(e) => return Err(e.into()),
        }
    }
}
