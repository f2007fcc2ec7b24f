//! Runs the programs of a directory: selects them by event, checks that no other user could have
//! changed them, and limits their time.
//!
//! Facts: zed_exec.c and zed_conf.c (cmd/zed): a program is called for the classes with which its
//! name begins, or for all.

use super::{TURN, environment};
use crate::config::EventsConfig;
use block::zevent::{Event, Queue};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// `PATH` in the environment of programs.
const PATH: &str = "/sbin:/bin:/usr/sbin:/usr/bin";
/// Interval at which to check whether programs have ended, while some run.
const POLL: Duration = Duration::from_millis(20);
/// Limit for the bytes of a program's output that are logged.
const SAID_BYTES: usize = 1000;

/// Runs the programs of one directory, for the events that their names select.
pub struct Runner {
    folder: PathBuf,
    longest: Duration,
    at_once: usize,
    state: PathBuf,
    tools: Option<PathBuf>,
}

struct Running {
    child: Child,
    name: String,
    event: u64,
    until: Instant,
}

impl Runner {
    /// For the programs in `folder`.
    pub fn new(folder: PathBuf, config: &EventsConfig, state: &Path) -> Self {
        let tools = tools(state);
        if let Err(error) = &tools {
            tracing::warn!(%error, "programs run without ZPOOL and ZFS");
        }
        let longest = Duration::from_secs(config.program_seconds);
        let at_once = usize::try_from(config.programs_at_once).unwrap_or(1).max(1);
        Self { folder, longest, at_once, state: state.to_owned(), tools: tools.ok() }
    }

    /// Runs programs for events until the process stops.
    pub fn run(&self, queue: &Arc<Queue>, ended: &AtomicBool) {
        let (mut seen, mut running) = (0, Vec::new());
        while !ended.load(Ordering::Acquire) {
            let news = queue.wait_after(seen, if running.is_empty() { TURN } else { POLL });
            if news.dropped > 0 && seen > 0 {
                tracing::warn!(missed = news.dropped, "programs are too slow: events were dropped");
            }
            for event in &news.events {
                seen = event.id;
                for program in self.programs(event) {
                    while running.len() >= self.at_once && !ended.load(Ordering::Acquire) {
                        reap(&mut running);
                        std::thread::sleep(POLL);
                    }
                    running.extend(self.start(&program, event));
                }
                reap(&mut running);
            }
            reap(&mut running);
        }
        for one in &mut running {
            kill(one);
        }
    }

    /// The programs for an event, by name. Programs that another user could have changed are logged
    /// and skipped.
    fn programs(&self, event: &Event) -> Vec<PathBuf> {
        if let Err(why) = check(&self.folder, true) {
            tracing::warn!(folder = %self.folder.display(), why, "event programs are not run");
            return Vec::new();
        }
        let Ok(entries) = std::fs::read_dir(&self.folder) else { return Vec::new() };
        let mut found: Vec<PathBuf> = entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
        found.retain(|path| {
            let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
            if !is_wanted(name, event) {
                return false;
            }
            match check(path, false) {
                Ok(()) => true,
                Err(why) => {
                    tracing::warn!(program = %path.display(), why, "the program is skipped");
                    false
                }
            }
        });
        found.sort();
        found
    }

    fn start(&self, program: &Path, event: &Event) -> Option<Running> {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", PATH).env("WEIR_STATE", &self.state);
        command.env("ZED_PID", std::process::id().to_string()).env("ZED_ZEDLET_DIR", &self.folder);
        if let Some(tools) = &self.tools {
            command.env("ZPOOL", tools.join("zpool")).env("ZFS", tools.join("zfs"));
        }
        command.envs(environment::of(event)).current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        // A process group of its own, so that its children can be killed with it.
        command.process_group(0);
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match command.spawn() {
            Ok(child) => {
                tracing::debug!(program = name, event = event.id, class = event.class, "runs");
                Some(Running { child, name, event: event.id, until: Instant::now() + self.longest })
            }
            Err(error) => {
                tracing::warn!(program = name, event = event.id, %error, "cannot run the program");
                None
            }
        }
    }
}

/// Creates links by which programs call this very program, so that `"$ZPOOL" status` works.
fn tools(state: &Path) -> std::io::Result<PathBuf> {
    let folder = state.join("run").join("bin");
    std::fs::create_dir_all(&folder)?;
    let own = std::env::current_exe()?;
    for name in ["zpool", "zfs"] {
        let link = folder.join(name);
        if std::fs::read_link(&link).is_ok_and(|target| target == own) {
            continue;
        }
        match std::fs::remove_file(&link) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => std::os::unix::fs::symlink(&own, &link)?,
        }
    }
    Ok(folder)
}

/// Whether a name begins with the event's class, the part after its third dot, or `all`, followed
/// by something other than a letter.
fn is_wanted(name: &str, event: &Event) -> bool {
    let begins = |class: &str| {
        let rest = name.strip_prefix(class);
        rest.is_some_and(|rest| rest.chars().next().is_none_or(|c| !c.is_ascii_alphabetic()))
    };
    !name.starts_with('.') && [&event.class, event.subclass(), "all"].iter().any(|class| begins(class))
}

/// Why a path is not trusted: another user could have changed it, or it is not a program.
fn check(path: &Path, is_folder: bool) -> Result<(), String> {
    let meta = std::fs::metadata(path).map_err(|error| error.to_string())?;
    let own = rustix::process::geteuid().as_raw();
    if meta.uid() != own && meta.uid() != 0 {
        return Err(format!("it belongs to user {}", meta.uid()));
    }
    if meta.permissions().mode() & 0o022 != 0 {
        return Err("it is writable by others".to_owned());
    }
    match is_folder {
        true if !meta.is_dir() => Err("it is not a folder".to_owned()),
        false if !meta.is_file() => Err("it is not a file".to_owned()),
        false if meta.permissions().mode() & 0o100 == 0 => Err("it is not executable".to_owned()),
        _ => Ok(()),
    }
}

/// Removes ended programs, and kills those that exceed their time limit.
fn reap(running: &mut Vec<Running>) {
    running.retain_mut(|one| match one.child.try_wait() {
        Ok(None) if Instant::now() < one.until => true,
        Ok(None) => {
            tracing::warn!(program = one.name, event = one.event, "it took too long and was killed");
            kill(one);
            false
        }
        Ok(Some(status)) if status.success() => false,
        Ok(Some(status)) => {
            tracing::warn!(program = one.name, event = one.event, %status, output = output_of(&mut one.child), "it failed");
            false
        }
        Err(error) => {
            tracing::warn!(program = one.name, event = one.event, %error, "its process is lost");
            false
        }
    });
}

fn kill(one: &mut Running) {
    let group = i32::try_from(one.child.id()).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(group) = group {
        // It may have ended already.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = one.child.kill();
    let _ = one.child.wait();
}

/// Standard error of a program that has ended, without waiting for its own children, which may
/// still hold the pipe.
fn output_of(child: &mut Child) -> String {
    let mut bytes = [0; SAID_BYTES];
    let Some(mut errors) = child.stderr.take() else { return String::new() };
    let flags = rustix::fs::fcntl_getfl(&errors);
    let flags = flags.and_then(|flags| rustix::fs::fcntl_setfl(&errors, flags | rustix::fs::OFlags::NONBLOCK));
    let count = if flags.is_ok() { errors.read(&mut bytes).unwrap_or(0) } else { 0 };
    String::from_utf8_lossy(bytes.get(..count).unwrap_or_default()).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::environment::sample;
    use super::*;

    #[test]
    fn names_select_events() {
        let event = sample("ereport.fs.zfs.io");
        for (name, wanted) in [
            ("all-log.sh", true),
            ("all", true),
            ("allow", false),
            ("io-notify", true),
            ("io_failure-x", true),
            ("iostat", false),
            ("ereport.fs.zfs.io-x", true),
            ("checksum-x", false),
            (".all", false),
        ] {
            assert_eq!(is_wanted(name, &event), wanted, "{name}");
        }
    }

    fn program(folder: &Path, name: &str, mode: u32, text: &str) {
        let path = folder.join(name);
        std::fs::write(&path, text).expect("written");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("set");
    }

    fn until(what: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !what() {
            assert!(Instant::now() < deadline, "it does not appear");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn programs_get_the_event_and_are_ended_in_time_and_none_that_others_could_change_runs() {
        let dir = tempfile::tempdir().expect("a folder");
        let (folder, out) = (dir.path().join("programs"), dir.path().join("out"));
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o755)).expect("set");
        let script =
            |name: &str| format!("#!/bin/sh\necho \"{name} $ZEVENT_SUBCLASS $ZEVENT_POOL $#\" >> {}\n", out.display());
        program(&folder, "all-script", 0o755, &script("all"));
        program(&folder, "statechange-script", 0o755, &script("state"));
        program(&folder, "all-writable", 0o777, &script("writable"));
        program(&folder, "all-plain", 0o644, &script("plain"));
        let pid = dir.path().join("pid");
        program(&folder, "io-hang", 0o755, &format!("#!/bin/sh\nsleep 1000 & echo $! > {}\nwait\n", pid.display()));
        let config = EventsConfig { program_seconds: 1, programs_at_once: 2, ..EventsConfig::default() };
        let runner = Runner::new(folder.clone(), &config, dir.path());
        let queue = Arc::<Queue>::default();
        let post = |class: &str| queue.post(class.to_owned(), |list| list.put("pool", "a $(reboot)"));
        post("ereport.fs.zfs.io");
        post("resource.fs.zfs.statechange");
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| runner.run(&queue, &ended));
            until(|| std::fs::read_to_string(&out).is_ok_and(|text| text.lines().count() >= 3));
            until(|| {
                pid.exists() && {
                    // Its children have ended with it.
                    let child = std::fs::read_to_string(&pid).unwrap_or_default();
                    let status = std::fs::read_to_string(format!("/proc/{}/stat", child.trim())).unwrap_or_default();
                    !child.trim().is_empty() && (status.is_empty() || status.contains(") Z "))
                }
            });
            ended.store(true, Ordering::Release);
        });
        let text = std::fs::read_to_string(&out).expect("written");
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["all io a $(reboot) 0", "all statechange a $(reboot) 0", "state statechange a $(reboot) 0"]);
        std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o777)).expect("set");
        assert_eq!(
            runner.programs(&sample("ereport.fs.zfs.io")),
            Vec::<PathBuf>::new(),
            "any user could put programs there"
        );
        assert!(std::fs::read_link(dir.path().join("run/bin/zpool")).is_ok());
    }
}
