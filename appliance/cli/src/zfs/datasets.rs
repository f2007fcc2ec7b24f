//! Looks up the datasets of imported pools that a verb operates on.

use crate::context::{Context, Failure};
use crate::zpool::pools;
use admin::mounts::Plan;
use admin::verbs::{Found, ReadPool, in_listing_order, pool_of};
use dataset::{DatasetKind, ListOptions};
use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// The pools of one command, each opened once.
#[derive(Default)]
pub struct Pools {
    open: HashMap<String, Arc<ReadPool>>,
    mounted: Vec<(String, String)>,
    plans: HashMap<String, Plan>,
}

/// Which datasets to list.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// The kinds to list.
    pub types: Types,
    /// The depth below each name; `None`: no limit.
    pub depth: Option<usize>,
    /// What is below each name was asked for, with `-r` or `-d`, even to depth 0: then a name may
    /// be of a kind that is not listed.
    pub is_recursive: bool,
}

/// A set of dataset kinds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Types {
    pub filesystems: bool,
    pub volumes: bool,
    pub snapshots: bool,
    pub bookmarks: bool,
}

/// The words of `-t`; some have a short form too.
pub const TYPES: &[&str] = &["filesystem", "volume", "snapshot", "bookmark", "all"];

impl Types {
    /// File systems and volumes.
    pub const HEADS: Self = Self { filesystems: true, volumes: true, snapshots: false, bookmarks: false };
    /// All but bookmarks: what OpenZFS calls a dataset.
    pub const DATASETS: Self = Self { filesystems: true, volumes: true, snapshots: true, bookmarks: false };
    /// Datasets and bookmarks.
    pub const ALL: Self = Self { filesystems: true, volumes: true, snapshots: true, bookmarks: true };

    /// Parses the argument of `-t`, e.g. `filesystem,snapshot`.
    pub fn parse(list: &str) -> Result<Self, Failure> {
        let mut types = Self::default();
        for name in list.split(',') {
            match name {
                "filesystem" | "fs" => types.filesystems = true,
                "volume" | "vol" => types.volumes = true,
                "snapshot" | "snap" => types.snapshots = true,
                "bookmark" => types.bookmarks = true,
                "all" => types = Self::ALL,
                other => return Err(Failure::usage(format!("invalid type '{other}'"))),
            }
        }
        Ok(types)
    }

    fn wants(self, kind: DatasetKind) -> bool {
        match kind {
            DatasetKind::FileSystem => self.filesystems,
            DatasetKind::Volume => self.volumes,
            DatasetKind::Snapshot => self.snapshots,
            DatasetKind::Bookmark => self.bookmarks,
        }
    }

    /// Whether the set holds only snapshots, or only bookmarks.
    pub fn only_below(self) -> bool {
        !self.filesystems && !self.volumes && (self.snapshots != self.bookmarks)
    }
}

/// Whether an argument is a path where both a path and the name of a dataset are taken.
pub fn is_path(argument: &str) -> bool {
    argument.starts_with('/') || argument.starts_with("./")
}

/// The path that `..` leads to if nothing on the way is a symbolic link.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            component => plain.push(component),
        }
    }
    plain
}

/// Why a dataset cannot be opened.
pub fn cannot_open(name: &str, error: &errors::Error) -> String {
    admin::verbs::cannot_open(name, error).message
}

/// Writes all changes of the pool of a dataset, so that the state on disk, which verbs look at, is
/// the present one. Without a daemon that has the pool, nothing changes it.
pub fn sync(cx: &Context<'_>, name: &str) -> Result<(), String> {
    let records = cx.state.pools().map_err(|e| format!("{e:#}"))?;
    let record = records.iter().find(|record| record.name == pool_of(name));
    let owned = record.and_then(|record| pools::owned(cx, record).ok().flatten());
    let writable = owned.as_ref().and_then(|pool| pool.writable());
    writable.map_or(Ok(()), |pool| pool.writer().sync().map_err(|e| e.to_string()))
}

impl Pools {
    /// Starts with no pool open. Reads the list of mounted datasets once.
    pub fn new(cx: &Context<'_>) -> Self {
        Self { open: HashMap::new(), mounted: crate::mounts::mounted(cx), plans: crate::mounts::plans(cx) }
    }

    /// The value of a property that options of a mount override, for a mounted file system.
    pub fn mount_option(&self, name: &str, property: &str) -> Option<bool> {
        let plan = self.plans.get(name)?;
        match property {
            "atime" => plan.no_atime.then_some(false),
            "devices" => Some(plan.devices),
            "exec" => Some(!plan.no_exec),
            "readonly" => Some(plan.read_only),
            "setuid" => Some(plan.setuid),
            _ => None,
        }
    }

    /// Whether a dataset is mounted.
    pub fn is_mounted(&self, name: &str) -> bool {
        self.mounted.iter().any(|(dataset, _)| dataset == name)
    }

    /// The datasets that arguments, which may be paths, refer to; the second part is 1 if an
    /// argument refers to none. An error if there are arguments and all of them refer to none,
    /// because an empty list of names means all datasets.
    pub fn names(&self, cx: &mut Context<'_>, arguments: &[String]) -> Result<(Vec<String>, u8), Failure> {
        let names: Vec<String> = arguments.iter().filter_map(|argument| self.name(cx, argument)).collect();
        match names.len() < arguments.len() {
            true if names.is_empty() => Err(Failure::Code(1)),
            incomplete => Ok((names, u8::from(incomplete))),
        }
    }

    /// The dataset that an argument refers to: a name or, if it begins with `/` or `./`, a path
    /// inside its mount. Reports why the argument refers to none. Facts: zfs_path_to_zhandle in
    /// lib/libzfs/libzfs_util.c.
    pub fn name(&self, cx: &mut Context<'_>, argument: &str) -> Option<String> {
        if !is_path(argument) {
            return Some(argument.to_owned());
        }
        // Others than the owner of this process must not learn from it which files there are.
        let may_look = cx.client.caller().is_none_or(|(peer, _)| peer.is_owner());
        let path = cx.client.absolute(Path::new(argument));
        let path = path.and_then(|path| if may_look { path.canonicalize() } else { Ok(without_dots(&path)) });
        let found = match path {
            Ok(path) => crate::mount_table::holding(&path, &self.mounted)
                .ok_or_else(|| format!("'{argument}': not a ZFS filesystem")),
            Err(error) => Err(format!("cannot open '{argument}': {}", host::os_text(&error))),
        };
        found.map_err(|message| cx.complain(&message)).ok()
    }

    /// Opens the imported pool of that name; `None`: there is none.
    pub fn pool(&mut self, cx: &mut Context<'_>, name: &str) -> Result<Option<Arc<ReadPool>>, Failure> {
        if let Some(pool) = self.open.get(name) {
            return Ok(Some(pool.clone()));
        }
        let pool = cx.invocation(String::new()).pool(name)?;
        self.open.extend(pool.iter().map(|pool| (name.to_owned(), pool.clone())));
        Ok(pool)
    }

    /// Looks up a dataset, snapshot or bookmark. `None`: it does not exist, and the error has been
    /// printed.
    pub fn entry(&mut self, cx: &mut Context<'_>, name: &str) -> Result<Option<Found>, Failure> {
        let pool_name = pool_of(name);
        let Some(pool) = self.pool(cx, pool_name)? else {
            cx.complain(&format!("cannot open '{name}': dataset does not exist"));
            return Ok(None);
        };
        match pool.datasets.entry(name) {
            Ok(entry) => Ok(Some(Found { pool, entry })),
            Err(error) => {
                cx.complain(&cannot_open(name, &error));
                Ok(None)
            }
        }
    }

    /// Lists the datasets `names` and everything `wanted` below them, or the datasets of all pools
    /// when `names` is empty. The result is sorted, without duplicates. The second part is the exit
    /// code: 1 if a name does not exist or cannot be read.
    pub fn list(
        &mut self,
        cx: &mut Context<'_>,
        names: &[String],
        wanted: Wanted,
    ) -> Result<(Vec<Found>, u8), Failure> {
        let (mut all, mut code) = (Vec::new(), 0);
        let mut roots: Vec<(Arc<ReadPool>, String)> = Vec::new();
        let depth = if names.is_empty() { None } else { wanted.depth };
        if names.is_empty() {
            let (records, _) = pools::records(cx, &[])?;
            for record in records {
                match self.pool(cx, &record.name) {
                    Ok(pool) => roots.extend(pool.map(|p| (p, record.name))),
                    Err(Failure::Failed(message)) => {
                        cx.complain(&message);
                        code = 1;
                    }
                    Err(other) => return Err(other),
                }
            }
        }
        for name in names {
            let unexpected = [('@', "snapshot", wanted.types.snapshots), ('#', "bookmark", wanted.types.bookmarks)];
            if let Some((c, what, _)) = unexpected.iter().find(|(c, _, is_wanted)| !is_wanted && name.contains(*c)) {
                cx.complain(&format!("cannot open '{name}': {what} delimiter '{c}' is not expected here"));
                code = 1;
                continue;
            }
            let Some(found) = self.entry(cx, name)? else {
                code = 1;
                continue;
            };
            let kind = found.entry.kind().unwrap_or(DatasetKind::FileSystem);
            let has_below = matches!(kind, DatasetKind::FileSystem | DatasetKind::Volume) && wanted.is_recursive;
            if !wanted.types.wants(kind) && !has_below {
                cx.complain(&format!("cannot open '{name}': operation not applicable to datasets of this type"));
                code = 1;
                continue;
            }
            roots.push((found.pool, name.clone()));
        }
        for (pool, root) in roots {
            let t = wanted.types;
            let options = ListOptions {
                filesystems: t.filesystems,
                volumes: t.volumes,
                snapshots: t.snapshots,
                bookmarks: t.bookmarks,
                depth,
                hidden: false,
            };
            let listing =
                pool.datasets.list(&[&root], &options).map_err(|e| Failure::failed(cannot_open(&root, &e)))?;
            for error in &listing.errors {
                cx.complain(&format!("weir: {error}"));
                code = 1;
            }
            all.extend(listing.entries.into_iter().map(|entry| Found { pool: pool.clone(), entry }));
        }
        Ok((in_listing_order(all), code))
    }
}
