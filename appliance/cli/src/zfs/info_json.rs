//! The members at the start of each dataset object in JSON output.

use crate::json::{Object, number};
use dataset::{DatasetKind, Entry};

/// Name, type, pool and creation txg; for a snapshot also its dataset and snapshot name.
pub fn dataset(entry: &Entry, as_int: bool) -> Object {
    let name = entry.name();
    let pool = name.split(['/', '@', '#']).next().unwrap_or(name);
    let kind = match entry.kind().unwrap_or(DatasetKind::FileSystem) {
        DatasetKind::FileSystem => "FILESYSTEM",
        DatasetKind::Volume => "VOLUME",
        DatasetKind::Snapshot => "SNAPSHOT",
        DatasetKind::Bookmark => "BOOKMARK",
    };
    let mut object = Object::new();
    object.insert("name".into(), name.into());
    object.insert("type".into(), kind.into());
    object.insert("pool".into(), pool.into());
    object.insert("createtxg".into(), number(entry.creation_txg(), as_int));
    if let Some((dataset, snapshot)) = name.split_once('@') {
        object.insert("dataset".into(), dataset.into());
        object.insert("snapshot_name".into(), snapshot.into());
    }
    object
}
