//! Mounts /dev/fuse at a directory with mount(2), or with fusermount3 for unprivileged users.

use super::sys;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

/// Parameters of a mount.
pub(super) struct How {
    /// Source shown by `mount` and `df`.
    pub source: String,
    /// Mount flags such as `MS_RDONLY` and `MS_NOSUID`.
    pub flags: libc::c_ulong,
    /// `allow_other` and `default_permissions`, if requested.
    pub options: Vec<&'static str>,
}

/// fusermount3's names for mount flags: (flag, name if set, name if not set).
const FLAG_NAMES: [(libc::c_ulong, &str, &str); 5] = [
    (libc::MS_RDONLY, "ro", "rw"),
    (libc::MS_NOSUID, "nosuid", "suid"),
    (libc::MS_NODEV, "nodev", "dev"),
    (libc::MS_NOEXEC, "noexec", "exec"),
    (libc::MS_NOATIME, "noatime", "atime"),
];

/// Mounts at `dir` and returns the connection to the kernel.
pub(super) fn attach(dir: &Path, how: &How) -> io::Result<File> {
    let place = dir.metadata()?;
    match by_system_call(dir, &place, how) {
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => by_fusermount(dir, how),
        result => result,
    }
}

fn by_system_call(dir: &Path, place: &Metadata, how: &How) -> io::Result<File> {
    let device = File::options().read(true).write(true).open("/dev/fuse").map_err(|e| {
        let kind = if e.kind() == io::ErrorKind::NotFound { io::ErrorKind::Unsupported } else { e.kind() };
        io::Error::new(kind, format!("/dev/fuse: {e}"))
    })?;
    let mut options = format!(
        "fd={},rootmode={:o},user_id={},group_id={}",
        device.as_raw_fd(),
        place.mode() & libc::S_IFMT,
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    );
    for option in &how.options {
        options.push(',');
        options.push_str(option);
    }
    sys::mount(&how.source, dir, "fuse.weir", how.flags, &options)?;
    Ok(device)
}

fn by_fusermount(dir: &Path, how: &How) -> io::Result<File> {
    // fusermount3 splits options at commas and treats a backslash as an escape.
    let source = how.source.replace('\\', "\\\\").replace(',', "\\,");
    let mut options = vec![format!("fsname={source}"), "subtype=weir".to_owned()];
    options.extend(how.options.iter().map(|&o| o.to_owned()));
    options.extend(FLAG_NAMES.iter().map(|(flag, on, off)| if how.flags & flag != 0 { *on } else { *off }.to_owned()));
    let (ours, theirs) = UnixStream::pair()?;
    let mut command = Command::new("fusermount3");
    // fusermount3 gets its end of the socket as standard input, a descriptor number that is known
    // in advance and leaks no other descriptor to it.
    command.env("_FUSE_COMMFD", "0").stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::piped());
    command.arg("-o").arg(OsString::from(options.join(","))).arg("--").arg(dir);
    let child = command.spawn().map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => {
            let text = "fusermount3 is not installed, which is required to mount without root (apt-get install fuse3)";
            io::Error::new(io::ErrorKind::NotFound, text)
        }
        kind => io::Error::new(kind, format!("fusermount3: {e}")),
    })?;
    drop(command);
    let device = receive_device(&ours);
    drop(ours);
    let output = child.wait_with_output()?;
    match device? {
        Some(device) if output.status.success() => Ok(device),
        _ => {
            let error_text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            // fusermount3 opens the device as the user, and the mode of the device may not allow
            // that.
            let advice = match error_text.contains("/dev/fuse") && error_text.contains("Permission denied") {
                true => " (its mode is to be 0666; in a container the device must be given to it)",
                false => "",
            };
            Err(io::Error::other(format!("{error_text}{advice}")))
        }
    }
}

/// Receives the open device, passed as ancillary data with one byte; `None` if the other end closes
/// first.
fn receive_device(socket: &UnixStream) -> io::Result<Option<File>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    loop {
        match rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
            Ok(_) => break,
        }
    }
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(mut files) = message
            && let Some(device) = files.next()
        {
            return Ok(Some(File::from(device)));
        }
    }
    Ok(None)
}
