//! Scripts that add columns to `zpool status` and `zpool iostat` (`-c`): runs them for devices.
//!
//! They run in the process of the caller and as its user, never in a process that owns pools.
//! Facts: vdev_run_cmd, zpool_get_cmd_search_path in cmd/zpool/zpool_iter.c, zpool_do_status.
//!
//! Invariants:
//!   * a script is a file of the search path; a name with a slash is none

use api::{ScriptDevice, Scripts};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where scripts are searched for after those of the user.
const SYSTEM_FOLDER: &str = "/etc/zfs/zpool.d";
/// What a script is read of, in bytes: it prints a few words.
const OUTPUT_BYTES_MAX: u64 = 16 << 10;
/// What all scripts of a command together may print, in bytes: the answer is one message.
const ALL_BYTES_MAX: usize = 384 << 10;
/// The search path of programs in scripts, as with OpenZFS.
const PROGRAMS: &str = "/bin:/sbin:/usr/bin:/usr/sbin";

/// Whether a variable is set to what counts as yes. Facts: libzfs_envvar_is_set.
fn is_set(name: &str) -> bool {
    std::env::var(name).is_ok_and(|value| {
        let is_number = value.trim().parse::<i64>().is_ok_and(|n| n > 0);
        is_number || value.eq_ignore_ascii_case("yes") || value.eq_ignore_ascii_case("on")
    })
}

/// Fails if scripts are disabled, or must not run as root.
fn check() -> io::Result<()> {
    if std::env::var_os("ZPOOL_SCRIPTS_ENABLED").is_some() && !is_set("ZPOOL_SCRIPTS_ENABLED") {
        return Err(io::Error::other("Can't run -c, disabled by ZPOOL_SCRIPTS_ENABLED."));
    }
    let is_root = rustix::process::getuid().is_root() || rustix::process::geteuid().is_root();
    if is_root && !is_set("ZPOOL_SCRIPTS_AS_ROOT") {
        return Err(io::Error::other("Can't run -c with root privileges unless ZPOOL_SCRIPTS_AS_ROOT is set."));
    }
    Ok(())
}

fn search_path() -> Vec<PathBuf> {
    if let Some(path) = std::env::var_os("ZPOOL_SCRIPTS_PATH") {
        return std::env::split_paths(&path).collect();
    }
    let of_user = std::env::var_os("HOME").map(|home| Path::new(&home).join(".zpool.d"));
    of_user.into_iter().chain([PathBuf::from(SYSTEM_FOLDER)]).collect()
}

fn is_executable(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok() && path.is_file()
}

fn find(name: &str) -> Option<PathBuf> {
    if name.is_empty() || name.contains('/') {
        return None;
    }
    search_path().into_iter().map(|folder| folder.join(name)).find(|path| is_executable(path))
}

/// What a script prints; empty if it fails.
fn output(command: &mut Command) -> String {
    let mut run = || -> io::Result<String> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let mut bytes = Vec::new();
        if let Some(out) = child.stdout.take() {
            // Closed afterwards, so that a script that keeps printing ends.
            out.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes)?;
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Ok(if child.wait()?.success() { text } else { String::new() })
    };
    run().unwrap_or_default()
}

fn run_one(script: &Path, device: &ScriptDevice) -> String {
    let real = std::fs::canonicalize(&device.path).unwrap_or_else(|_| device.path.clone().into());
    output(
        Command::new(script)
            .env_clear()
            .env("PATH", PROGRAMS)
            .env("VDEV_PATH", &device.path)
            .env("VDEV_UPATH", real)
            .env("VDEV_ENC_SYSFS_PATH", ""),
    )
}

/// Runs scripts for devices. Returns what they print: for each device, an item for each script.
/// Without a device, the available scripts with their descriptions: one line each.
pub fn run(wanted: &Scripts) -> io::Result<Vec<Vec<String>>> {
    if wanted.devices.is_empty() {
        return Ok(vec![available()]);
    }
    check()?;
    let scripts: Vec<PathBuf> = wanted.names.iter().filter_map(|name| find(name)).collect();
    let of = |number: usize| -> Vec<String> {
        scripts.iter().map(|script| run_one(script, &wanted.devices[number])).collect()
    };
    let all = host::work::each(wanted.devices.len(), of);
    if all.iter().flatten().map(String::len).sum::<usize>() > ALL_BYTES_MAX {
        return Err(io::Error::other(format!("the scripts print more than {ALL_BYTES_MAX} bytes")));
    }
    Ok(all)
}

/// The scripts of the search path, with what they print for `-h`.
fn available() -> Vec<String> {
    let mut lines = Vec::new();
    for folder in search_path() {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut scripts: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| is_executable(path)).collect();
        scripts.sort();
        for script in scripts {
            let name = script.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let help = output(Command::new(&script).arg("-h"));
            lines.extend(help.lines().filter(|l| !l.trim().is_empty()).map(|l| format!("  {name:<14}  {l}")));
        }
    }
    lines
}
