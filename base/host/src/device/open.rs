//! Opens devices by name, with the partitions on them.

use super::{Device, FileDevice, Slice, gpt};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Opens `path` read-only and, if it has a GPT, its partitions. The whole device comes first, then
/// each partition in order.
pub fn open_with_partitions(path: &Path) -> io::Result<Vec<Arc<dyn Device>>> {
    let whole: Arc<dyn Device> = Arc::new(FileDevice::open(path)?);
    let mut all = vec![whole.clone()];
    for p in gpt::partitions(whole.as_ref()) {
        let name = format!("{}#{}", path.display(), p.number);
        all.push(Arc::new(Slice::new(whole.clone(), p.start_bytes, p.size_bytes, name)));
    }
    Ok(all)
}

/// Opens devices for writing by the names that [`open_with_partitions`] gave them: paths, or
/// `PATH#NUMBER` for a partition. Partitions of one disk share its lock. An error names the device.
pub fn open_all_for_writing(names: &[&str]) -> io::Result<Vec<Arc<dyn Device>>> {
    let mut whole: Vec<(String, Arc<dyn Device>)> = Vec::new();
    let mut open = |path: &str| match whole.iter().find(|(opened, _)| *opened == path) {
        Some((_, device)) => Ok(device.clone()),
        None => {
            let device: Arc<dyn Device> = Arc::new(FileDevice::open_for_writing(Path::new(path))?);
            whole.push((path.to_owned(), device.clone()));
            Ok(device)
        }
    };
    let mut one = |name: &str| -> io::Result<Arc<dyn Device>> {
        let number = name.rsplit_once('#').and_then(|(path, number)| Some((path, number.parse::<u32>().ok()?)));
        let Some((path, number)) = number.filter(|_| !Path::new(name).exists()) else { return open(name) };
        let disk = open(path)?;
        let partition = gpt::partitions(disk.as_ref()).into_iter().find(|p| p.number == number);
        let p = partition.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no such partition"))?;
        Ok(Arc::new(Slice::new(disk, p.start_bytes, p.size_bytes, name.to_owned())))
    };
    names.iter().map(|name| one(name).map_err(|e| io::Error::new(e.kind(), format!("{name}: {e}")))).collect()
}

/// The file or block device at `place`, or, if `place` is a directory, those directly in it, sorted
/// by path.
pub fn devices_in(place: &Path) -> io::Result<Vec<PathBuf>> {
    if !std::fs::metadata(place)?.is_dir() {
        return Ok(vec![place.to_owned()]);
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(place)? {
        let path = entry?.path();
        // Follows symbolic links: /dev/disk/by-id consists of them. Entries that vanish or cannot
        // be examined are skipped.
        let Ok(meta) = std::fs::metadata(&path) else { continue };
        if meta.is_file() || meta.file_type().is_block_device() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
