//! Boot loader menus in the root file system of a pool, updated as environments change.
//!
//! Only existing menus are changed. A pool without `boot/menu.lst`, `boot/grub/menu.lst` and
//! `boot/loader/entries` uses another boot loader, which finds environments itself.

use super::menu::{self, Change};
use super::{Environment, last, property};
use crate::write::WritablePool;
use anyhow::{Context, Result, bail};
use errors::Error;
use files::FileSystem;
use files::vfs::{Caller, NewNode, NodeId, RenameFlags, SetAttr, SyncKind, Vfs};
use std::sync::Arc;

/// Menus in the format of `menu.lst`: illumos' loader, and GRUB before version 2.
const LISTS: &[&str] = &["boot/menu.lst", "boot/grub/menu.lst"];
/// Folder with entries of the Boot Loader Specification.
const ENTRIES: &str = "boot/loader/entries";
/// Maximum size of a menu, in bytes.
const MENU_BYTES: usize = 1 << 20;
/// Maximum number of files read in a folder.
const FILES: usize = 1 << 16;
/// Suffix of a menu that is being written.
const NEW: &str = ".new";

/// Result of an update.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refreshed {
    /// Paths of changed files in the root file system of the pool.
    pub changed: Vec<String>,
}

/// Reads and replaces files of a file system, as root.
pub(super) struct Folder {
    files: Arc<FileSystem>,
    who: Caller,
}

impl Folder {
    /// Opens the root file system of a pool; `None` if its key is not loaded.
    pub fn open(pool: &WritablePool, name: &str) -> Result<Option<Self>> {
        let dataset = pool.live.synced()?.dataset(name)?;
        if !pool.keys.is_available(&dataset)? {
            return Ok(None);
        }
        let files = pool.files().written(&dataset)?;
        Ok(Some(Self { files, who: Caller { privileged: true, ..Caller::default() } }))
    }

    fn find(&self, path: &str) -> Result<Option<NodeId>> {
        let mut at = self.files.root();
        for part in path.split('/').filter(|part| !part.is_empty()) {
            at = match self.files.lookup(at, part.as_bytes()) {
                Ok(found) => found.node,
                Err(Error::NotFound { .. }) => return Ok(None),
                Err(error) => return Err(error.into()),
            };
        }
        Ok(Some(at))
    }

    pub fn read(&self, path: &str) -> Result<Option<String>> {
        let Some(node) = self.find(path)? else { return Ok(None) };
        let data = self.files.read(node, 0, MENU_BYTES + 1)?;
        if data.len() > MENU_BYTES {
            bail!("{path}: larger than the {MENU_BYTES} bytes that a menu may have");
        }
        Ok(Some(String::from_utf8(data.to_vec()).with_context(|| format!("{path}: not a text file"))?))
    }

    fn list(&self, path: &str) -> Result<Option<Vec<String>>> {
        let Some(node) = self.find(path)? else { return Ok(None) };
        let mut names = Vec::new();
        self.files.read_dir(node, 0, &mut |entry| {
            names.extend(String::from_utf8(entry.name).ok().filter(|name| name != "." && name != ".."));
            names.len() < FILES
        })?;
        names.sort();
        Ok(Some(names))
    }

    /// The folder; creates it and its parents if missing.
    fn folder(&self, path: &str) -> Result<NodeId> {
        let mut at = self.files.root();
        for part in path.split('/').filter(|part| !part.is_empty()) {
            at = match self.files.lookup(at, part.as_bytes()) {
                Ok(found) => found.node,
                Err(Error::NotFound { .. }) => {
                    self.files.create(&self.who, at, part.as_bytes(), &NewNode::Directory, 0o755, 0)?.node
                }
                Err(error) => return Err(error.into()),
            };
        }
        Ok(at)
    }

    /// Replaces a file with `text`, atomically.
    pub fn replace(&self, path: &str, text: &str) -> Result<()> {
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        let dir = self.folder(above)?;
        let mode = match self.find(path)? {
            Some(node) => self.files.attr(node)?.mode & 0o7777,
            None => 0o644,
        };
        let new = format!("{name}{NEW}");
        let node = match self.files.lookup(dir, new.as_bytes()) {
            Ok(found) => found.node,
            Err(_) => self.files.create(&self.who, dir, new.as_bytes(), &NewNode::Regular, mode, 0)?.node,
        };
        self.files.set_attr(&self.who, node, &SetAttr { size: Some(0), ..SetAttr::default() })?;
        self.files.write(&self.who, node, 0, text.as_bytes())?;
        self.files.sync_node(node, SyncKind::All)?;
        Ok(self.files.rename(&self.who, dir, new.as_bytes(), dir, name.as_bytes(), RenameFlags::default())?)
    }

    fn remove(&self, path: &str) -> Result<()> {
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        let Some(dir) = self.find(above)? else { return Ok(()) };
        Ok(self.files.unlink(&self.who, dir, name.as_bytes())?)
    }
}

/// Updates the menus of a pool after `change`. Fails if the key of its root file system is not
/// loaded.
pub fn refresh_menus(pool: &WritablePool, pool_name: &str, change: &Change) -> Result<Refreshed> {
    let mut done = Refreshed::default();
    let Some(folder) = Folder::open(pool, pool_name)? else {
        bail!("the key of '{pool_name}' is not loaded: its boot menus are unchanged");
    };
    for path in LISTS {
        let Some(text) = folder.read(path)? else { continue };
        let new = menu::lst(&text, change);
        if new != text {
            folder.replace(path, &new)?;
            done.changed.push((*path).to_owned());
        }
    }
    for name in folder.list(ENTRIES)?.unwrap_or_default().iter().filter(|name| name.ends_with(".conf")) {
        let path = format!("{ENTRIES}/{name}");
        let Some(text) = folder.read(&path)? else { continue };
        match change {
            Change::Made { root, like, title } if menu::names(&text, like) => {
                let new = other_name(name, like, root);
                let new = format!("{ENTRIES}/{new}");
                folder.replace(&new, &menu::entry_like(&text, like, root, Some(title)))?;
                done.changed.push(new);
            }
            Change::Renamed { from, to } if menu::names(&text, from) => {
                let is_name = text.lines().any(|line| line.trim() == format!("title {}", last(from)));
                let new = format!("{ENTRIES}/{}", other_name(name, from, to));
                folder.replace(&new, &menu::entry_like(&text, from, to, is_name.then(|| last(to))))?;
                if new != path {
                    folder.remove(&path)?;
                }
                done.changed.push(new);
            }
            Change::Gone { root } if menu::names(&text, root) => {
                folder.remove(&path)?;
                done.changed.push(path);
            }
            _ => {}
        }
    }
    Ok(done)
}

/// Name of the entry file for another environment.
fn other_name(name: &str, from: &str, to: &str) -> String {
    match name.strip_prefix(last(from)) {
        Some(rest) => format!("{}{rest}", last(to)),
        None => format!("{}-{name}", last(to)),
    }
}

/// Creates the missing menus of a pool: `boot/menu.lst`, and an entry for each Linux kernel of an
/// environment.
pub fn write_menus(pool: &WritablePool, pool_name: &str, environments: &[Environment]) -> Result<Refreshed> {
    let mut done = Refreshed::default();
    let Some(folder) = Folder::open(pool, pool_name)? else {
        bail!("the key of '{pool_name}' is not loaded: cannot write a menu there");
    };
    if folder.find(LISTS[0])?.is_none() {
        folder.replace(LISTS[0], &menu::new_lst(environments))?;
        done.changed.push(LISTS[0].to_owned());
    }
    let datasets = pool.live.synced()?;
    for environment in environments {
        let Some(own) = Folder::open(pool, environment.root())? else { continue };
        let names = own.list("boot")?.unwrap_or_default();
        let options = property(&datasets, environment.root(), "org.zfsbootmenu:commandline")?;
        for version in names.iter().filter_map(|name| name.strip_prefix("vmlinuz-")) {
            let path = format!("{ENTRIES}/{}-{version}.conf", environment.name);
            if folder.find(&path)?.is_some() {
                continue;
            }
            let forms = [format!("initrd.img-{version}"), format!("initramfs-{version}.img")];
            let initrd = forms.iter().find(|form| names.contains(form)).map(String::as_str);
            let options = options.as_deref().unwrap_or("ro");
            folder.replace(&path, &menu::new_entry(&environment.name, environment.root(), version, initrd, options))?;
            done.changed.push(path);
        }
    }
    Ok(done)
}
