//! SMB: Samba's smbd over the FUSE mounts, for file systems whose `sharesmb` is not off.
//!
//! ```text
//!   sharesmb, mounts ─> shares ─> STATE/smb/smb.conf ─> smbd (a child of this process) ─> FUSE mount
//! ```
//!
//! Invariants:
//!   * smbd runs only while `smb.listen` is set and something is shared; it ends with this process
//!   * a share that is removed is closed for clients that have it open, so that it does not keep
//!     its file system busy

mod conf;
mod options;
mod share;

pub use options::{SmbOptions, share_name};
pub use share::SmbShare;

use crate::config::SmbConfig;
use crate::owner::Owner;
use admin::OwnedPool;
use anyhow::{Context as _, Result, bail};
use dataset::{DatasetKind, Entry, ListOptions, Source, View, property};
use host::durable;
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time limit for smbd to end.
const END: Duration = Duration::from_secs(5);
/// Time during which a file system that is about to be unmounted is not shared.
const RELEASED: Duration = Duration::from_secs(3);
/// Time for smbd's processes to leave a share. Guessed; if it is too short, the unmount reports
/// that the file system is busy.
const LET_GO: Duration = Duration::from_millis(300);
/// Time before smbd is restarted after it ended by itself.
const AGAIN: Duration = Duration::from_secs(30);

/// The smbd process with its configuration and shares.
pub struct Smb {
    owner: Arc<Owner>,
    folder: PathBuf,
    server: Mutex<Server>,
}

#[derive(Default)]
struct Server {
    child: Option<Child>,
    /// Current contents of the configuration file.
    text: String,
    /// Names of the shares.
    names: BTreeSet<String>,
    /// Datasets that are about to be unmounted with their descendants, and until when they are not
    /// shared.
    released: Vec<(String, Instant)>,
    failure: Option<String>,
    failed: Option<Instant>,
    /// The process is stopping: nothing is started any more.
    ends: bool,
}

impl Smb {
    /// The server, not started yet. Samba's files are below `state`.
    pub fn new(owner: Arc<Owner>, state: &Path) -> Self {
        Self { owner, folder: state.join("smb"), server: Mutex::default() }
    }

    /// All file systems of the pools whose `sharesmb` is not off, by dataset.
    pub fn shares(&self) -> Result<Vec<SmbShare>> {
        let mut found = Vec::new();
        for pool in self.owner.house.list() {
            self.of_pool(&pool, &mut found)?;
        }
        found.sort_by(|a, b| a.dataset.cmp(&b.dataset));
        let mut names = BTreeSet::new();
        for share in found.iter_mut().filter(|s| s.problem.is_none()) {
            // Names are not case-sensitive.
            if !names.insert(share.name.to_lowercase()) {
                share.problem = Some(format!("another share is called {}", share.name));
            }
        }
        Ok(found)
    }

    fn of_pool(&self, pool: &OwnedPool, found: &mut Vec<SmbShare>) -> Result<()> {
        let record = pool.record();
        let view = View { keys: Some(pool.keys()), altroot: record.altroot.as_deref(), ..View::default() };
        let mounts = self.owner.mounts.list();
        let options = ListOptions { volumes: false, ..ListOptions::heads() };
        for entry in pool.datasets()?.list(&[], &options)?.entries {
            let Entry::Dataset(dataset) = &entry else { continue };
            if dataset.kind()? != DatasetKind::FileSystem {
                continue;
            }
            let Some(sharesmb) = property::get(&entry, "sharesmb", &view)? else { continue };
            let text = sharesmb.value.raw;
            let parsed = SmbOptions::parse(&text);
            if parsed == Ok(None) {
                continue;
            }
            let name = dataset.name();
            let mountpoint = property::get(&entry, "mountpoint", &view)?.map(|p| p.value.raw).unwrap_or_default();
            let own = mounts.iter().find(|m| m.dataset == name).map(|m| m.place.display().to_string());
            // A file system inside another one's mount is shown through it.
            let above = |m: &&admin::mounts::Mounted| {
                admin::mounts::is_at_or_below(name, &m.dataset) && Path::new(&mountpoint).starts_with(&m.place)
            };
            let path = own.or_else(|| mounts.iter().find(above).map(|_| mountpoint.clone()));
            let problem = match (&parsed, &path) {
                (Err(why), _) => Some(why.clone()),
                (_, None) => Some("it is not mounted, which SMB requires".to_owned()),
                (_, Some(path)) if !conf::fits(path) => {
                    Some("its mount point cannot be written in smb.conf".to_owned())
                }
                _ if self.owner.unshared_smb.lock().contains(name) => Some("it was unshared".to_owned()),
                _ => None,
            };
            let options = parsed.ok().flatten().unwrap_or_default();
            found.push(SmbShare {
                dataset: name.to_owned(),
                name: options.name.clone().unwrap_or_else(|| share_name(name)),
                path,
                text,
                options,
                inherited_from: match sharesmb.source {
                    Source::Inherited(from) => Some(from),
                    _ => None,
                },
                problem,
            });
        }
        Ok(())
    }

    /// Why SMB is not served at all, if so.
    pub fn failure(&self, config: &SmbConfig) -> Option<String> {
        match config.listen.is_empty() {
            true => Some("SMB is not configured to listen (smb.listen)".to_owned()),
            false => self.server.lock().failure.clone(),
        }
    }

    /// Updates the configuration and smbd to the current shares. Called when something may have
    /// changed, and periodically.
    pub fn refresh(&self, config: &SmbConfig) {
        if config.listen.is_empty() {
            return;
        }
        let mut server = self.server.lock();
        if server.ends {
            return;
        }
        if let Err(error) = self.bring(&mut server, config) {
            let why = format!("{error:#}");
            if server.failure.as_ref() != Some(&why) {
                tracing::error!(why, "SMB is not served");
            }
            server.failure = Some(why);
            server.failed = Some(Instant::now());
        }
    }

    /// Removes the shares of a dataset and its descendants, before they are unmounted.
    pub fn release(&self, config: &SmbConfig, dataset: &str) {
        let mut server = self.server.lock();
        if server.child.is_none() {
            return;
        }
        let before = server.names.clone();
        server.released.push((dataset.to_owned(), Instant::now() + RELEASED));
        if let Err(error) = self.bring(&mut server, config) {
            tracing::warn!(error = %format!("{error:#}"), "cannot notify smbd");
        }
        if server.names != before {
            // Messages to the processes of clients are not answered.
            std::thread::sleep(LET_GO);
        }
    }

    fn bring(&self, server: &mut Server, config: &SmbConfig) -> Result<()> {
        let mut shares = self.shares()?;
        server.released.retain(|(_, until)| *until > Instant::now());
        for share in &mut shares {
            let is_released = |(of, _): &(String, Instant)| admin::mounts::is_at_or_below(&share.dataset, of);
            if server.released.iter().any(is_released) {
                share.problem = Some("it is being unmounted".to_owned());
            }
        }
        let names: BTreeSet<String> = shares.iter().filter(|s| s.problem.is_none()).map(|s| s.name.clone()).collect();
        if let Some(status) = server.child.as_mut().and_then(|child| child.try_wait().transpose()) {
            server.child = None;
            server.failed = Some(Instant::now());
            bail!("smbd ended: {}; {}", status.context("smbd")?, self.last_words());
        }
        if names.is_empty() && server.child.is_none() {
            server.failure = None;
            return Ok(());
        }
        let text = conf::text(config, &self.folder, &shares);
        let path = self.folder.join("smb.conf");
        if text != server.text || !path.exists() {
            let made = |folder: &Path| fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
            made(&self.folder).with_context(|| self.folder.display().to_string())?;
            for name in conf::FOLDERS {
                // Samba requires certain permissions for some of them.
                let folder = self.folder.join(name);
                let mode = if name == "private" { 0o700 } else { 0o755 };
                made(&folder).and_then(|()| fs::set_permissions(&folder, fs::Permissions::from_mode(mode)))?;
            }
            durable::replace(&path, text.as_bytes(), durable::PUBLIC).with_context(|| path.display().to_string())?;
            server.text = text;
            if let Some(child) = &server.child {
                kill_process(pid(child)?, Signal::HUP).context("smbd")?;
                for gone in server.names.difference(&names) {
                    self.control(config, &["close-share", gone]);
                }
            }
        }
        server.names = names;
        if server.child.is_none()
            && server.failed.is_none_or(|then| then.elapsed() >= AGAIN || server.failure.is_none())
        {
            server.child = Some(self.start(config)?);
            tracing::info!(listen = ?config.listen, config = %path.display(), "serving SMB");
            (server.failure, server.failed) = (None, None);
        }
        Ok(())
    }

    fn start(&self, config: &SmbConfig) -> Result<Child> {
        conf::check_modules(&config.program)?;
        let log = self.folder.join("start.log");
        let log = fs::File::options().write(true).create(true).truncate(true).mode(durable::PRIVATE).open(log)?;
        let mut command = Command::new(&config.program);
        command.args(["--foreground", "--no-process-group", "--debug-stdout", "-s"]).arg(self.folder.join("smb.conf"));
        // A process group of its own: its children end with it, and a terminal's Ctrl-C is handled
        // here.
        command.process_group(0).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        command.spawn().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                anyhow::anyhow!("{}: Samba is not installed (apt-get install samba)", config.program.display())
            }
            _ => anyhow::anyhow!("{}: {error}", config.program.display()),
        })
    }

    fn last_words(&self) -> String {
        let log = fs::read_to_string(self.folder.join("start.log")).unwrap_or_default();
        log.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no output").trim().to_owned()
    }

    fn control(&self, config: &SmbConfig, args: &[&str]) {
        let program = config.program.with_file_name("smbcontrol");
        let program = if program.exists() { program } else { PathBuf::from("smbcontrol") };
        let done = Command::new(program)
            .arg("-s")
            .arg(self.folder.join("smb.conf"))
            .arg("smbd")
            .args(args)
            .stdin(Stdio::null())
            .output();
        if let Err(error) = done {
            tracing::warn!(%error, "cannot run smbcontrol: clients keep their open files");
        }
    }

    /// Ends smbd and its children.
    pub fn stop(&self) {
        let mut server = self.server.lock();
        server.ends = true;
        let Some(mut child) = server.child.take() else { return };
        let Ok(group) = pid(&child) else { return };
        let _ = kill_process_group(group, Signal::TERM);
        let deadline = Instant::now() + END;
        while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = kill_process_group(group, Signal::KILL);
        let _ = child.wait();
    }
}

impl Drop for Smb {
    fn drop(&mut self) {
        self.stop();
    }
}

fn pid(child: &Child) -> Result<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("smbd has no process ID")
}
