//! The files of a set: names, existence, ownership, and creation.

use super::{Fileset, Format};
use crate::drive::Control;
use crate::tree::{self, Access, Tree, fill};
use anyhow::{Context, Result, bail};
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// The file or directory exists.
const THERE: u8 = 1;
/// A thread is using the file.
const TAKEN: u8 = 2;
/// Threads that create files, and the size of their writes. Guessed: enough for a server, not too
/// much for this machine.
const MAKERS: usize = 8;
const MAKE_BYTES: usize = 1 << 20;

impl Fileset {
    fn lowest(&self) -> u64 {
        u64::from(self.width).saturating_pow(self.depth)
    }

    /// Number of directories, on all levels.
    pub fn directories(&self) -> u64 {
        (1..=self.depth).map(|level| u64::from(self.width).saturating_pow(level)).sum()
    }

    fn with_files(&self) -> u64 {
        if self.everywhere && self.depth > 0 { self.directories() } else { self.lowest() }
    }

    /// Number of files in all directories.
    pub fn count(&self) -> u64 {
        self.with_files().saturating_mul(self.files)
    }

    /// Total size in bytes, on average.
    pub fn bytes(&self) -> f64 {
        self.count() as f64 * self.sizes.mean()
    }

    /// The path of directory `n` of a level, named as in vdbench.
    fn directory_at(&self, level: u32, n: u64) -> String {
        let mut parts = Vec::new();
        let mut n = n;
        for level in (1..=level).rev() {
            parts.insert(0, format!("vdb.{level}_{}.dir", n % u64::from(self.width) + 1));
            n /= u64::from(self.width);
        }
        parts.join("/")
    }

    /// The path of directory `n` of all levels, upper levels first.
    pub(super) fn directory(&self, mut n: u64) -> String {
        for level in 1..=self.depth {
            let here = u64::from(self.width).saturating_pow(level);
            if n < here {
                return self.directory_at(level, n);
            }
            n -= here;
        }
        String::new()
    }

    /// The path of file `n`.
    pub(crate) fn path(&self, n: u64) -> String {
        let (directory, file) = (n / self.files, n % self.files);
        let name = format!("vdb_f{:04}.file", file + 1);
        let directory = if self.depth == 0 {
            String::new()
        } else if self.everywhere {
            self.directory(directory)
        } else {
            self.directory_at(self.depth, directory)
        };
        if directory.is_empty() { name } else { format!("{directory}/{name}") }
    }

    fn is_there_first(&self, n: u64) -> bool {
        // Evenly distributed, and always the same.
        n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 < u64::from(self.there) * (1 << 32) / 100
    }
}

/// State of a file set in use.
pub(super) struct Files {
    pub set: Fileset,
    states: Vec<AtomicU8>,
    sizes: Vec<AtomicU64>,
    /// State of each directory, with the same bits as those of files.
    directories: Vec<AtomicU8>,
}

impl Files {
    pub fn new(set: &Fileset) -> Self {
        let (files, directories) = (set.count() as usize, set.directories() as usize);
        Self {
            set: set.clone(),
            states: (0..files).map(|_| AtomicU8::new(0)).collect(),
            sizes: (0..files).map(|_| AtomicU64::new(0)).collect(),
            directories: (0..directories).map(|_| AtomicU8::new(0)).collect(),
        }
    }

    pub fn size(&self, n: u64) -> u64 {
        self.sizes[n as usize].load(Ordering::Relaxed)
    }

    pub fn grow(&self, n: u64, to: u64) {
        self.sizes[n as usize].fetch_max(to, Ordering::Relaxed);
    }

    pub fn set_there(&self, n: u64, is_there: bool, size: u64) {
        self.sizes[n as usize].store(size, Ordering::Relaxed);
        let state = &self.states[n as usize];
        if is_there {
            state.fetch_or(THERE, Ordering::Relaxed)
        } else {
            state.fetch_and(!THERE, Ordering::Relaxed)
        };
    }

    /// Reserves a file that exists, or one that does not, searching from `from`.
    pub fn take(&self, from: u64, is_there: bool) -> Option<u64> {
        take(&self.states, from, is_there, self.set.shared && is_there)
    }

    pub fn give_back(&self, n: u64) {
        self.states[n as usize].fetch_and(!TAKEN, Ordering::Release);
    }

    pub fn take_directory(&self, from: u64, is_there: bool) -> Option<u64> {
        take(&self.directories, from, is_there, false)
    }

    pub fn give_directory(&self, n: u64, is_there: bool) {
        self.directories[n as usize].store(if is_there { THERE } else { 0 }, Ordering::Release);
    }

    /// Prepares the set as specified by `format`.
    pub fn prepare(&self, format: Format, access: Access, seed: u64, control: &Control<'_>) -> Result<()> {
        let anchor = &self.set.anchor;
        let open = |n: u64| tree::open(anchor, Access { sync: false, direct: false, ..access }, MAKE_BYTES, seed ^ n);
        let mut first = open(0).with_context(|| anchor.to_string())?;
        for n in 0..self.set.directories() {
            let path = self.set.directory(n);
            match format {
                Format::Keep => match first.look(&path) {
                    Ok(_) => self.give_directory(n, true),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error).with_context(|| format!("{anchor}/{path}")),
                },
                Format::Fill | Format::Fresh => {
                    first.make_directory(&path).with_context(|| format!("{anchor}/{path}"))?;
                    self.give_directory(n, true);
                }
            }
        }
        let (next, failed) = (AtomicU64::new(0), AtomicBool::new(false));
        let why = Mutex::new(None);
        std::thread::scope(|scope| {
            for maker in 0..MAKERS as u64 {
                let (next, failed, why, open) = (&next, &failed, &why, &open);
                let stop = control.stop;
                scope.spawn(move || {
                    let done = open(maker + 1).and_then(|mut tree| {
                        loop {
                            let n = next.fetch_add(1, Ordering::Relaxed);
                            let over = failed.load(Ordering::Relaxed) || stop.load(Ordering::Relaxed);
                            if over || n >= self.set.count() {
                                return Ok(());
                            }
                            let path = self.set.path(n);
                            self.make(tree.as_mut(), format, n, &path).with_context(|| format!("{anchor}/{path}"))?;
                        }
                    });
                    if let Err(error) = done {
                        failed.store(true, Ordering::Relaxed);
                        why.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(error);
                    }
                });
            }
        });
        match why.into_inner().unwrap_or_else(|e| e.into_inner()) {
            Some(error) => Err(error),
            None if control.stop.load(Ordering::Relaxed) => bail!("stopped while files were being created"),
            None => Ok(()),
        }
    }

    /// Prepares one file as specified by `format`.
    fn make(&self, tree: &mut dyn Tree, format: Format, n: u64, path: &str) -> io::Result<()> {
        let found = match tree.look(path) {
            Ok(size) => Some(size),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let wanted = self.set.is_there_first(n).then(|| self.set.sizes.of_number(n));
        match (format, wanted) {
            (Format::Keep, _) => {
                if let Some(size) = found {
                    self.set_there(n, true, size);
                }
                return Ok(());
            }
            (_, None) => {
                if found.is_some() {
                    tree.remove(path)?;
                }
                return Ok(());
            }
            (Format::Fill, Some(size)) if found == Some(size) => {}
            (_, Some(size)) => fill(tree, path, size, MAKE_BYTES)?,
        }
        self.set_there(n, true, wanted.unwrap_or(0));
        Ok(())
    }

    /// Whether any file exists.
    pub fn has_some(&self) -> bool {
        self.states.iter().any(|s| s.load(Ordering::Relaxed) & THERE != 0)
    }
}

fn take(states: &[AtomicU8], from: u64, is_there: bool, shared: bool) -> Option<u64> {
    let count = states.len();
    let wanted = if is_there { THERE } else { 0 };
    for i in 0..count {
        let n = (from as usize + i) % count;
        let state = &states[n];
        let now = state.load(Ordering::Relaxed);
        if now & THERE != wanted {
            continue;
        }
        if shared {
            return Some(n as u64);
        }
        let taken = wanted | TAKEN;
        if now == wanted && state.compare_exchange(wanted, taken, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            return Some(n as u64);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::Mix;
    use super::*;

    #[test]
    fn files_are_in_the_lowest_directories_or_in_all_and_have_unique_names() {
        let mut set = Fileset {
            name: "fsd1".to_owned(),
            anchor: crate::Target::Path("/x".into()),
            depth: 2,
            width: 8,
            files: 10_000,
            everywhere: false,
            sizes: Mix::one(1),
            there: 100,
            shared: false,
        };
        // The published mail archive: 64 directories with 10,000 files each.
        assert_eq!((set.count(), set.directories()), (640_000, 72));
        assert_eq!(set.path(0), "vdb.1_1.dir/vdb.2_1.dir/vdb_f0001.file");
        assert_eq!(set.path(639_999), "vdb.1_8.dir/vdb.2_8.dir/vdb_f10000.file");
        set.files = 3;
        set.everywhere = true;
        let all: std::collections::BTreeSet<String> = (0..set.count()).map(|n| set.path(n)).collect();
        assert_eq!(all.len(), 72 * 3);
        assert!(all.contains("vdb.1_3.dir/vdb_f0002.file"));
        set.there = 80;
        let there = (0..10_000).filter(|n| set.is_there_first(*n)).count();
        assert!((7_800..8_200).contains(&there), "{there}");
    }

    #[test]
    fn a_file_has_one_thread_at_a_time() {
        let states: Vec<AtomicU8> = [THERE, 0, THERE].into_iter().map(AtomicU8::new).collect();
        assert_eq!((take(&states, 1, true, false), take(&states, 1, true, false)), (Some(2), Some(0)));
        assert_eq!(take(&states, 1, true, false), None);
        assert_eq!(take(&states, 1, true, true), Some(2));
        assert_eq!((take(&states, 0, false, false), take(&states, 0, false, false)), (Some(1), None));
    }
}
