//! Operands of the form `POOL/DATASET[@SNAPSHOT]:/path`: parsing them, and opening pool, dataset
//! and key.

use crate::client::{Client, Here};
use crate::forward::Hold;
use admin::state::{Imported, State};
use admin::write::WritablePool;
use admin::{KeyFile, KeySource, OpenPool};
use anyhow::{Context, Result, bail};
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use daemon::config::Size;
use dataset::Dataset;
use dataset::stream::browse;
use files::namespace::Provider;
use files::vfs::{Time, Vfs};
use files::{FileSystem, Volume, VolumeFile, zpl};
use host::device::{Device, FileDevice};
use ondisk::ObjsetKind;
use pool::OpenOptions;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A file or directory in a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// `POOL/DATASET` or `POOL/DATASET@SNAPSHOT`.
    pub dataset: String,
    /// The path after the colon; empty for the dataset itself.
    pub path: Vec<u8>,
}

impl Spec {
    /// Splits at the first `:/`, or at a colon that ends the argument. (The name of a dataset may
    /// contain colons, but a component that ends in one does not occur in practice, and can be
    /// reached through its parent.)
    pub fn parse(argument: &OsStr) -> Result<Self> {
        let bytes = argument.as_bytes();
        let split = bytes
            .windows(2)
            .position(|w| w == b":/")
            .or_else(|| bytes.len().checked_sub(1).filter(|_| bytes.ends_with(b":")));
        let Some(at) = split else {
            bail!("{}: expected POOL/DATASET:/path", argument.to_string_lossy());
        };
        let (dataset, path) = bytes.split_at(at);
        let path = path.get(1..).unwrap_or_default().to_vec();
        match std::str::from_utf8(dataset) {
            Ok(name) if !name.is_empty() => Ok(Self { dataset: name.to_owned(), path }),
            _ => bail!("{}: expected the name of a dataset before the colon", argument.to_string_lossy()),
        }
    }

    /// Like [`Self::parse`]; without a colon, the root of the dataset.
    pub fn parse_or_root(argument: &OsStr) -> Result<Self> {
        if argument.as_bytes().contains(&b':') {
            return Self::parse(argument);
        }
        let mut with_colon = argument.to_owned();
        with_colon.push(":");
        Self::parse(&with_colon)
    }

    /// Last component of the path; for a volume (no path), of the dataset's name; `None` for a root
    /// directory.
    pub fn base_name(&self) -> Option<Vec<u8>> {
        let path = self.path.split(|&b| b == b'/').rfind(|c| !c.is_empty() && *c != b".");
        match path {
            Some(b"..") => None,
            Some(name) => Some(name.to_vec()),
            None if self.path.is_empty() => {
                let dataset = self.dataset.split('@').next().unwrap_or_default();
                dataset.rsplit('/').next().map(|n| n.as_bytes().to_vec())
            }
            None => None,
        }
    }
}

impl std::fmt::Display for Spec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.path.is_empty() {
            return f.write_str(&self.dataset);
        }
        write!(f, "{}:{}", self.dataset, String::from_utf8_lossy(&crate::tree::shown(&self.path, true)))
    }
}

/// The options for disks and keys, for every command that opens a dataset.
pub fn args() -> [Arg; 5] {
    [
        Arg::new("search")
            .short('d')
            .value_name("DIR-OR-DEVICE")
            .action(ArgAction::Append)
            .value_parser(value_parser!(PathBuf))
            .help(
                "Look for the pool's disks here: a folder of devices or image files, or one of them. May be repeated",
            ),
        key_file_arg("key-file", "A file with the dataset's raw or hexadecimal key"),
        key_file_arg("passphrase-file", "A file whose first line is the dataset's passphrase"),
        Arg::new("arc-max")
            .long("arc-max")
            .value_name("SIZE")
            .value_parser(size)
            .help("Most memory for cached blocks, such as 64M or 2G [default: 256M]"),
        Arg::new("keylocation")
            .short('L')
            .value_name("KEYLOCATION")
            .help("Where the key is, instead of the property: 'prompt' or file:///absolute/path"),
    ]
}

/// `64M`, `2G`, or a number of bytes.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    text.parse().map(|Size(bytes)| bytes)
}

fn key_file_arg(name: &'static str, help: &str) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name("[DATASET=]FILE")
        .action(ArgAction::Append)
        .help(format!("{help}. May be repeated, for datasets with different keys"))
}

/// Parses `DATASET=FILE` or `FILE`. An argument that begins with a slash or a dot is a path even if
/// it contains `=`.
fn key_file(argument: &str) -> KeyFile {
    match argument.split_once('=') {
        Some((dataset, path)) if !dataset.is_empty() && !argument.starts_with(['/', '.']) => {
            KeyFile { dataset: Some(dataset.to_owned()), path: path.into() }
        }
        _ => KeyFile { dataset: None, path: argument.into() },
    }
}

/// The key files named by options.
pub(crate) fn key_files(matches: &ArgMatches) -> Vec<KeyFile> {
    let given = ["key-file", "passphrase-file"].into_iter().filter_map(|id| matches.get_many::<String>(id));
    given.flatten().map(|argument| key_file(argument)).collect()
}

/// The options of commands that read saved streams instead of pools: [`Opener`] then takes the text
/// before the colon for a file.
pub fn stream_args() -> [Arg; 3] {
    [
        Arg::new(OF_STREAMS).long(OF_STREAMS).default_value("yes").hide(true),
        Arg::new("then")
            .long("then")
            .value_name("FILE")
            .action(ArgAction::Append)
            .value_parser(value_parser!(PathBuf))
            .help("An incremental stream that continues from the one before. May be repeated"),
        Arg::new("snapshot").long("snapshot").value_name("SNAPSHOT").help(
            "The snapshot to show, by its full name or the part after '@' [default: the last one of the first dataset]",
        ),
    ]
}

/// A hidden option that only commands for streams have.
const OF_STREAMS: &str = "of-streams";
/// Time limit for a process that had a pool mounted to close it, and interval of checks. Guessed.
const CLOSING_MAX: Duration = Duration::from_secs(20);
const CLOSING_POLL: Duration = Duration::from_millis(50);

/// Options for saved streams.
struct Streams {
    then: Vec<PathBuf>,
    snapshot: Option<String>,
}

impl Streams {
    fn new(matches: &ArgMatches) -> Option<Self> {
        matches.try_get_one::<String>(OF_STREAMS).ok().flatten()?;
        let then = matches.get_many::<PathBuf>("then").into_iter().flatten().cloned().collect();
        Some(Self { then, snapshot: matches.get_one::<String>("snapshot").cloned() })
    }

    /// The files in the stream `path` and the streams that continue it.
    fn open(&self, path: &str) -> Result<Arc<dyn Vfs>> {
        let paths = std::iter::once(Path::new(path)).chain(self.then.iter().map(PathBuf::as_path));
        let open = |path: &Path| -> Result<Arc<dyn Device>> {
            Ok(Arc::new(FileDevice::open(path).with_context(|| path.display().to_string())?))
        };
        let streams = paths.map(open).collect::<Result<Vec<_>>>()?;
        let saved = browse::open(&streams, self.snapshot.as_deref())?;
        let name = String::from_utf8_lossy(&saved.begin.to_name).into_owned();
        if saved.set.phys().kind == ObjsetKind::Volume {
            let volume = Volume::open(&saved.set, name)?;
            let created = Time { seconds: i64::try_from(saved.begin.creation_time).unwrap_or(0), nanoseconds: 0 };
            let bytes = volume.size();
            return Ok(Arc::new(VolumeFile::new(Arc::new(volume), bytes, created, saved.begin.to_guid)));
        }
        let options = zpl::Options { name, ..zpl::Options::default() };
        Ok(FileSystem::open(saved.set, options)?)
    }
}

/// Opens pools and datasets, each once.
pub struct Opener {
    streams: Option<Streams>,
    search: Vec<PathBuf>,
    key_files: Vec<KeyFile>,
    location: Option<String>,
    cache_bytes: Option<u64>,
    pools: HashMap<String, OpenPool>,
    /// Holds on pools that another process owns: the state being read stays intact.
    holds: HashMap<String, Hold>,
    opened: HashMap<String, Arc<dyn Vfs>>,
}

impl Opener {
    /// Creates an opener from the options of [`args`].
    pub fn new(matches: &ArgMatches) -> Self {
        let search = matches.get_many::<PathBuf>("search").into_iter().flatten().cloned().collect();
        Self {
            streams: Streams::new(matches),
            search,
            key_files: key_files(matches),
            location: matches.get_one("keylocation").cloned(),
            cache_bytes: matches.get_one("arc-max").copied(),
            pools: HashMap::new(),
            holds: HashMap::new(),
            opened: HashMap::new(),
        }
    }

    /// Loads the keys of all encrypted datasets of a pool, from the given files and from the
    /// datasets' keylocation, without prompting. Returns the encryption roots that stay locked,
    /// with the reasons.
    pub fn load_keys(&self, pool: &OpenPool) -> Result<Vec<(String, anyhow::Error)>> {
        pool.load_keys(&KeySource { files: self.key_files.clone(), location: self.location.clone(), ask: None })
    }

    /// The pool with this name, or of the dataset with this name.
    pub fn pool(&mut self, name: &str) -> Result<&OpenPool> {
        let pool_name = name.split(['/', '@']).next().unwrap_or(name).to_owned();
        if !self.pools.contains_key(&pool_name) {
            let record = self.imported(&pool_name)?;
            if let Some(record) = &record
                && let Some(hold) = crate::forward::hold(&State::of_process()?, record)?
            {
                self.holds.insert(pool_name.clone(), hold);
            }
            let pool = match &record {
                // An imported pool may have another name than that on its disks, so it is found by
                // its guid.
                Some(r) => admin::open_pool(&r.guid.to_string(), &r.places, &self.capped(open_options(r)))?,
                None => admin::open_pool(name, &self.search, &self.capped(OpenOptions::default()))?,
            };
            if let Some(record) = &record {
                let state = State::of_process()?;
                admin::kept_keys::restore(&state, record, &pool.datasets, &pool.keys);
            }
            for warning in pool.pool().warnings() {
                eprintln!("weir: {pool_name}: {warning}");
            }
            self.pools.insert(pool_name.clone(), pool);
        }
        Ok(self.pools.get(&pool_name).expect("it was opened above"))
    }

    /// The pool with this name, or of the dataset with this name, if [`Self::pool`] has opened it.
    pub fn opened(&self, name: &str) -> Option<&OpenPool> {
        self.pools.get(name.split(['/', '@']).next().unwrap_or(name))
    }

    /// A dataset, with its key loaded if it needs one.
    pub fn dataset(&mut self, name: &str) -> Result<(&OpenPool, Dataset)> {
        let (files, location) = (self.key_files.clone(), self.location.clone());
        let pool = self.pool(name)?;
        let ask: &admin::keys::Ask<'_> = &|question| Here.key(question);
        let keys = KeySource { files, location, ask: Some(ask) };
        let dataset = pool.dataset(name, &keys)?;
        if let Some(notice) = pool.unreplayed(&dataset) {
            eprintln!("weir: {name}: {notice}");
        }
        Ok((pool, dataset))
    }

    /// Opens the pool of `dataset` for writing, if it is imported so; `None`: it can only be read.
    pub fn writable(&mut self, dataset: &str) -> Result<Option<(Imported, WritablePool)>> {
        let pool_name = dataset.split(['/', '@']).next().unwrap_or(dataset);
        let Some(record) = self.imported(pool_name)?.filter(|r| !r.readonly) else { return Ok(None) };
        let request = admin::house::request(&record);
        let options = OpenOptions { name: Some(record.name.clone()), ..self.capped(open_options(&record)) };
        let state = State::of_process()?;
        let pool = open_patiently(&state, &record, || admin::write::open_with(&request, &options)).map_err(|e| {
            match crate::zpool::writing::reason(&e) {
                why if admin::write::is_in_use(&e) => anyhow::anyhow!("cannot mount '{dataset}': {why}"),
                why => anyhow::anyhow!("cannot open '{pool_name}' for writing: {why} (-o ro mounts it read-only)"),
            }
        })?;
        admin::kept_keys::restore(&state, &record, &pool.live.synced()?, &pool.keys);
        Ok(Some((record, pool)))
    }

    /// A dataset of a pool that is open for writing, and the datasets reachable from it.
    pub fn live_provider(&self, pool: &WritablePool, dataset: &str) -> Result<Arc<dyn Provider>> {
        let ask: &admin::keys::Ask<'_> = &|question| Here.key(question);
        let keys = KeySource { files: self.key_files.clone(), location: self.location.clone(), ask: Some(ask) };
        Ok(pool.provider(pool.dataset(dataset, &keys)?, &self.key_files))
    }

    fn capped(&self, options: OpenOptions) -> OpenOptions {
        OpenOptions { cache_bytes: self.cache_bytes.unwrap_or(options.cache_bytes), ..options }
    }

    /// Pools whose owner needed the space of the state being read: later errors may not be damage.
    pub fn lost(&self) -> impl Iterator<Item = &str> {
        self.holds.iter().filter(|(_, hold)| !hold.is_whole()).map(|(pool, _)| pool.as_str())
    }

    /// How the pool is imported, unless the command line says where its disks are.
    pub fn imported(&self, pool: &str) -> Result<Option<Imported>> {
        if !self.search.is_empty() {
            return Ok(None);
        }
        State::of_process()?.pool(pool)
    }

    /// A dataset, and the datasets reachable from it.
    pub fn provider(&mut self, dataset: &str) -> Result<Arc<dyn Provider>> {
        let key_files = self.key_files.clone();
        let (pool, dataset) = self.dataset(dataset)?;
        Ok(pool.provider(dataset, &key_files))
    }

    /// The files of a dataset, or of a volume: then the root is a regular file.
    pub fn open(&mut self, dataset: &str) -> Result<Arc<dyn Vfs>> {
        if let Some(vfs) = self.opened.get(dataset) {
            return Ok(vfs.clone());
        }
        let vfs = match &self.streams {
            Some(streams) => streams.open(dataset)?,
            None => {
                let (pool, found) = self.dataset(dataset)?;
                pool.files(&found)?
            }
        };
        self.opened.insert(dataset.to_owned(), vfs.clone());
        Ok(vfs)
    }
}

fn open_options(record: &Imported) -> OpenOptions {
    let (txg, rewind, checkpoint) = (record.txg, record.rewind, record.checkpoint);
    let offline = record.offline.clone();
    OpenOptions { txg, rewind, checkpoint, name: Some(record.name.clone()), offline, ..OpenOptions::default() }
}

/// The operands of a command that takes files.
pub fn operands(matches: &ArgMatches, id: &str) -> Vec<OsString> {
    matches.get_many::<OsString>(id).into_iter().flatten().cloned().collect()
}

/// Opens a pool that another process may be about to close, because nothing is mounted any more:
/// umount(8) returns earlier.
fn open_patiently(state: &State, record: &Imported, open: impl Fn() -> Result<WritablePool>) -> Result<WritablePool> {
    let deadline = Instant::now() + CLOSING_MAX;
    loop {
        match open() {
            Err(error)
                if admin::write::is_in_use(&error)
                    && Instant::now() < deadline
                    && crate::mount_process::places(state, record).is_empty() =>
            {
                std::thread::sleep(CLOSING_POLL);
            }
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(s: &str) -> Option<(String, String)> {
        let spec = Spec::parse(OsStr::new(s)).ok()?;
        Some((spec.dataset, String::from_utf8(spec.path).expect("was text")))
    }

    #[test]
    fn specs_split_at_the_path() {
        let some = |d: &str, p: &str| Some((d.to_owned(), p.to_owned()));
        assert_eq!(parse("tank/fs:/a:b"), some("tank/fs", "/a:b"));
        assert_eq!(parse("tank/a:b@s:1:/c:/d"), some("tank/a:b@s:1", "/c:/d"));
        assert_eq!(parse("tank/vol:"), some("tank/vol", ""));
        assert_eq!(parse("tank:/"), some("tank", "/"));
        assert_eq!(parse("tank/fs"), None);
        assert_eq!(parse(":/x"), None);
        assert_eq!(parse("a:b"), None);
    }

    #[test]
    fn key_files_may_name_their_dataset() {
        let named = key_file("tank/a=b/key");
        assert_eq!((named.dataset.as_deref(), named.path.to_str()), (Some("tank/a"), Some("b/key")));
        for path in ["/a=b", "./a=b", "key"] {
            assert_eq!(key_file(path), KeyFile { dataset: None, path: path.into() });
        }
    }

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [("4096", 4096), ("64M", 64 << 20), ("2g", 2 << 30), ("1KiB", 1024)] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "M", "0", "1X", "99999999999T", "-1"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn base_names_are_those_of_cp() {
        let base =
            |s: &str| Spec::parse(OsStr::new(s)).expect(s).base_name().map(|b| String::from_utf8(b).expect("text"));
        assert_eq!(base("tank/fs:/a/b/").as_deref(), Some("b"));
        assert_eq!(base("tank/fs/vol@s:").as_deref(), Some("vol"));
        assert_eq!(base("tank/fs:/"), None);
        assert_eq!(base("tank/fs:/a/.."), None);
    }
}
