//! `weir ls`: lists files in a pool, like ls(1) with numeric owners.

use crate::exit_code::{SOME_FAILED, USAGE};
use crate::source::{self, Opener, Spec};
use crate::text::{mode_string, time_full, time_short};
use crate::tree;
use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use files::vfs::{Attr, FileKind, NodeId, Vfs};
use std::collections::HashSet;
use std::ffi::OsString;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::process::ExitCode;

/// Options of `weir ls`.
pub fn command() -> clap::Command {
    let flag = |id: &'static str, short: char, help: &'static str| {
        Arg::new(id).short(short).long(id).action(ArgAction::SetTrue).help(help)
    };
    clap::Command::new("ls")
        .about("List files in a pool, without mounting it")
        .arg(
            Arg::new("source")
                .value_name("POOL/DATASET[@SNAPSHOT][:/path]")
                .help("What to list: datasets, or files and directories in them")
                .required(true)
                .num_args(1..)
                .value_parser(value_parser!(OsString)),
        )
        .arg(
            Arg::new("long")
                .short('l')
                .action(ArgAction::SetTrue)
                .help("Show mode, links, owner, group, size and time"),
        )
        .arg(flag("all", 'a', "Show names that start with a dot"))
        .arg(flag("recursive", 'R', "List subdirectories recursively"))
        .arg(flag("inode", 'i', "Show the object number of each file"))
        .arg(
            Arg::new("directory")
                .long("directory")
                .action(ArgAction::SetTrue)
                .help("List directories themselves, not their contents"),
        )
        .arg(Arg::new("full-time").long("full-time").action(ArgAction::SetTrue).help("Like -l, with full timestamps"))
        .args(source::args())
}

struct Lister<'a> {
    out: BufWriter<io::StdoutLock<'a>>,
    terminal: bool,
    long: bool,
    all: bool,
    recursive: bool,
    inode: bool,
    full_time: bool,
    directory: bool,
    failed: bool,
}

struct Row {
    name: Vec<u8>,
    attr: Option<Attr>,
    target: Option<Vec<u8>>,
    acl: bool,
}

pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let mut opener = Opener::new(matches);
    let full_time = matches.get_flag("full-time");
    let mut lister = Lister {
        out: BufWriter::with_capacity(1 << 16, io::stdout().lock()),
        terminal: io::stdout().is_terminal(),
        long: matches.get_flag("long") || full_time,
        all: matches.get_flag("all"),
        recursive: matches.get_flag("recursive"),
        inode: matches.get_flag("inode"),
        full_time,
        directory: matches.get_flag("directory"),
        failed: false,
    };
    let sources = source::operands(matches, "source");
    for (i, argument) in sources.iter().enumerate() {
        let spec = match Spec::parse_or_root(argument) {
            Ok(spec) => spec,
            Err(e) => {
                eprintln!("weir ls: {e:#}");
                return Ok(ExitCode::from(USAGE));
            }
        };
        let result = opener.open(&spec.dataset).and_then(|vfs| lister.operand(&*vfs, &spec, sources.len() > 1, i == 0));
        match result {
            Err(e) if is_broken_pipe(&e) => return Ok(ExitCode::SUCCESS),
            Err(e) => lister.fail(&spec.to_string(), &e),
            Ok(()) => {}
        }
    }
    match lister.out.flush() {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(e.into()),
        _ if lister.failed => Ok(ExitCode::from(SOME_FAILED)),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// The reader of the output has closed it: no error.
pub(super) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}

impl Lister<'_> {
    fn fail(&mut self, what: &str, error: &anyhow::Error) {
        let _ = self.out.flush();
        eprintln!("weir ls: {what}: {error:#}");
        self.failed = true;
    }

    fn operand(&mut self, vfs: &dyn Vfs, spec: &Spec, header: bool, first: bool) -> Result<()> {
        // As in ls: a link on the command line is followed, unless its own attributes are
        // requested.
        let attr = tree::resolve(vfs, &spec.path, !self.long && !self.directory)?;
        let shown = spec.to_string();
        if attr.kind == FileKind::Directory && !self.directory {
            if !first {
                writeln!(self.out)?;
            }
            return self.directories(vfs, attr.node, shown, header || self.recursive);
        }
        let name = if spec.path.is_empty() { spec.dataset.clone().into_bytes() } else { spec.path.clone() };
        let row = self.row(vfs, name, Ok(attr), &shown);
        self.print(&[row])
    }

    fn row(&mut self, vfs: &dyn Vfs, name: Vec<u8>, attr: errors::Result<Attr>, place: &str) -> Row {
        let mut row = Row { name, attr: None, target: None, acl: false };
        match attr {
            Ok(attr) => {
                row.attr = Some(attr);
                if self.long && attr.kind == FileKind::Symlink {
                    match vfs.read_link(attr.node) {
                        Ok(target) => row.target = Some(target),
                        Err(e) => self.fail(place, &e.into()),
                    }
                } else if self.long {
                    // This only decides about a "+"; errors are reported when attributes are
                    // copied.
                    row.acl = vfs
                        .list_xattr(attr.node)
                        .is_ok_and(|names| names.iter().any(|n| n.starts_with(b"system.posix_acl_")));
                }
            }
            Err(e) => {
                self.fail(&format!("{place}/{}", String::from_utf8_lossy(&tree::shown(&row.name, true))), &e.into())
            }
        }
        row
    }

    /// A directory, and with `-R` those below it. A directory has one parent, but a damaged tree
    /// may claim otherwise, so each is listed only once.
    fn directories(&mut self, vfs: &dyn Vfs, dir: NodeId, shown: String, header: bool) -> Result<()> {
        let mut stack = vec![(dir, shown)];
        let mut seen = HashSet::new();
        while let Some((node, shown)) = stack.pop() {
            if !seen.insert(node) {
                self.fail(&shown, &anyhow::anyhow!("directory loop: this directory was already visited"));
                continue;
            }
            if seen.len() > 1 {
                writeln!(self.out)?;
            }
            match self.directory(vfs, node, &shown, header) {
                Ok(below) => stack.extend(below.into_iter().rev()),
                Err(e) if seen.len() == 1 || is_broken_pipe(&e) => return Err(e),
                Err(e) => self.fail(&shown, &e),
            }
        }
        Ok(())
    }

    fn directory(&mut self, vfs: &dyn Vfs, dir: NodeId, shown: &str, header: bool) -> Result<Vec<(NodeId, String)>> {
        if header {
            writeln!(self.out, "{shown}:")?;
        }
        let mut bad = Vec::new();
        let entries = tree::entries(vfs, dir, &mut |name| bad.push(name.to_vec()))?;
        for name in bad {
            let name = String::from_utf8_lossy(&tree::shown(&name, true)).into_owned();
            self.fail(shown, &anyhow::anyhow!("entry '{name}' is not a valid file name"));
        }
        let mut rows = Vec::new();
        let mut below = Vec::new();
        for entry in entries {
            if entry.name.starts_with(b".") && !self.all {
                continue;
            }
            if self.recursive && entry.kind == FileKind::Directory {
                let slash = if shown.ends_with('/') { "" } else { "/" };
                let name = String::from_utf8_lossy(&tree::shown(&entry.name, true)).into_owned();
                below.push((entry.node, format!("{shown}{slash}{name}")));
            }
            if self.long {
                rows.push(self.row(vfs, entry.name, vfs.attr(entry.node), shown));
            } else {
                let number = if self.inode { format!("{} ", entry.node.0 & 0xffff_ffff_ffff) } else { String::new() };
                self.out.write_all(number.as_bytes())?;
                self.out.write_all(&tree::shown(&entry.name, self.terminal))?;
                self.out.write_all(b"\n")?;
            }
        }
        if self.long {
            let blocks: u64 = rows.iter().filter_map(|r| r.attr).fold(0, |n, a| n.saturating_add(a.blocks_512));
            writeln!(self.out, "total {}", blocks.div_ceil(2))?;
            self.print(&rows)?;
        }
        Ok(below)
    }

    fn print(&mut self, rows: &[Row]) -> Result<()> {
        let now = i64::try_from(host::clock::seconds()).unwrap_or(i64::MAX);
        let columns: Vec<Option<[String; 7]>> = rows
            .iter()
            .map(|row| {
                let a = row.attr?;
                let size = match a.kind {
                    FileKind::CharDevice | FileKind::BlockDevice => format!("{}, {}", a.rdev_major, a.rdev_minor),
                    _ => a.size.to_string(),
                };
                let mode = mode_string(a.kind, a.mode) + if row.acl { "+" } else { "" };
                let time = if self.full_time { time_full(a.mtime) } else { time_short(a.mtime, now) };
                Some([a.ino.to_string(), mode, a.links.to_string(), a.uid.to_string(), a.gid.to_string(), size, time])
            })
            .collect();
        let width = |i: usize| columns.iter().flatten().map(|c| c[i].len()).max().unwrap_or(1);
        let widths: [usize; 7] = std::array::from_fn(width);
        for (row, columns) in rows.iter().zip(&columns) {
            match columns {
                Some([ino, mode, links, uid, gid, size, time]) => {
                    let [w_ino, w_mode, w_links, w_uid, w_gid, w_size, w_time] = widths;
                    if self.inode {
                        write!(self.out, "{ino:>w_ino$} ")?;
                    }
                    if self.long {
                        write!(
                            self.out,
                            "{mode:<w_mode$} {links:>w_links$} {uid:>w_uid$} {gid:>w_gid$} {size:>w_size$} {time:>w_time$} "
                        )?;
                    }
                }
                None => write!(self.out, "?????????? ? ? ? ? ? ")?,
            }
            self.out.write_all(&tree::shown(&row.name, self.terminal))?;
            if let Some(target) = &row.target {
                self.out.write_all(b" -> ")?;
                self.out.write_all(&tree::shown(target, self.terminal))?;
            }
            self.out.write_all(b"\n")?;
        }
        Ok(())
    }
}
