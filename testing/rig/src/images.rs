//! Devices in memory and image files.

use host::device::{Device, MemoryDevice};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// Piece size for copying. Pieces of zeros become holes.
const COPY_BYTES: usize = 256 << 10;

/// Writes each device to a file of its name in `folder`.
pub fn write(devices: &[Arc<dyn Device>], folder: &Path) -> io::Result<()> {
    let mut part = vec![0; COPY_BYTES];
    for device in devices {
        let file = File::create(folder.join(device.name()))?;
        file.set_len(device.size_bytes())?;
        for at in (0..device.size_bytes()).step_by(COPY_BYTES) {
            let part = &mut part[..COPY_BYTES.min((device.size_bytes() - at) as usize)];
            device.read_at(at, part)?;
            // Most of a device is empty: skipping that saves time and space.
            if part.iter().any(|byte| *byte != 0) {
                file.write_all_at(part, at)?;
            }
        }
    }
    Ok(())
}

/// The images in `folder` as devices in memory, sorted by name. Files with an extension are no
/// images.
pub fn read(folder: &Path) -> io::Result<Vec<Arc<dyn Device>>> {
    let mut paths = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    let images = paths.iter().filter(|path| path.is_file() && path.extension().is_none());
    images
        .map(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            Ok(Arc::new(MemoryDevice::new(name, std::fs::read(path)?)) as Arc<dyn Device>)
        })
        .collect()
}

/// Devices in memory with the current contents of `devices`: what a power cut leaves that keeps all
/// that was written.
pub fn copy(devices: &[Arc<dyn Device>]) -> io::Result<Vec<Arc<dyn Device>>> {
    let copy = |device: &Arc<dyn Device>| {
        let mut bytes = vec![0; device.size_bytes() as usize];
        device.read_at(0, &mut bytes)?;
        Ok(Arc::new(MemoryDevice::new(device.name(), bytes)) as Arc<dyn Device>)
    };
    devices.iter().map(copy).collect()
}
