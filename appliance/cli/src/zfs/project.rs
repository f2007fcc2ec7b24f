//! `zfs project`: lists, checks, sets and clears the project of files and directories.
//!
//! It works on files by their paths, as `chattr -p` does: in the process and with the permissions
//! of its caller, on any file system that has projects. Facts: `zfs_do_project` in
//! cmd/zfs/zfs_main.c, cmd/zfs/zfs_project.c.
//!
//! Invariants:
//!   * a check compares all targets with the project of the first one, unless `-p` names one
//!   * the walk enters no directory through a symbolic link; the first error ends it

use crate::context::{Context, Failure, Outcome};
use crate::getopt::{ArgKind, Parsed, flag, value};
use crate::verb::{Call, Verb, for_caller};
use host::project::FileProject;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The row of `zfs project`.
pub static VERB: Verb = for_caller("project", "Show or set the project of files", project)
    .usage(&[
        "[-d|-r] <directory|file ...>",
        "-c [-0] [-d|-r] [-p id] <directory|file ...>",
        "-C [-k] [-r] <directory ...>",
        "[-p id] [-r] [-s] <directory ...>",
    ])
    .options(&[
        flag('0', "With -c: print names that end with a NUL byte, without a diagnosis."),
        flag('C', "Clear the flag that makes new files inherit the project, and the project."),
        flag('c', "Check the project and the flag, and report what differs."),
        flag('d', "The directory itself, without its entries."),
        flag('k', "With -C: keep the project."),
        value('p', "id", ArgKind::Text, "The project to set, or to compare with."),
        flag('r', "Everything below too."),
        flag('s', "Set the flag that makes new files inherit the project."),
    ])
    .operands(&[ArgKind::File])
    .exits(&[(FAILED, "A file or directory cannot be opened, read or changed.")])
    .examples(&[
        ("zfs project -p 7 -rs /tank/home/ann", "Count everything in a directory as project 7."),
        ("zfs project -c -r /tank/home/ann", "Report what is not counted as the project of the directory."),
    ]);

/// Exit code when a target cannot be handled: -1 of a C function.
const FAILED: u8 = 255;
/// The project of a file for which none was set.
const DEFAULT: u32 = 0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    List,
    Check,
    Clear,
    Set,
}

/// What to do with each target.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    operation: Operation,
    /// The project to set or to compare with; the first target's if none is given.
    project: Option<u32>,
    directory_only: bool,
    recursive: bool,
    keeps_project: bool,
    sets_inherit: bool,
    ends_with_nul: bool,
}

/// `zfs project`.
pub fn project(cx: &mut Context<'_>, call: &Call) -> Outcome {
    if cx.owner.is_some() {
        return Err(Failure::failed("cannot project: it runs in the process of its caller only"));
    }
    if call.parsed.given.is_empty() && call.parsed.operands.is_empty() {
        return Err(Failure::usage(""));
    }
    let mut request = Request::parse(&call.parsed).map_err(Failure::usage)?;
    let mut code = 0;
    for target in &call.parsed.operands {
        if let Err(message) = request.run(cx, Path::new(target)) {
            // Before the message: both may go to one terminal.
            let _ = cx.out.flush();
            cx.complain(&message);
            code = FAILED;
        }
    }
    Ok(code)
}

/// A number as strtoull(3) reads it with base 0. `None`: it does not fit, or is followed by
/// something.
fn number(text: &str) -> Option<u64> {
    if text.is_empty() {
        return Some(0);
    }
    let text = text.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b');
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let hexadecimal = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
    let (digits, radix) = match (hexadecimal, digits.strip_prefix('0')) {
        (Some(digits), _) => (digits, 16),
        (None, Some(rest)) if !rest.is_empty() => (rest, 8),
        _ => (digits, 10),
    };
    if !digits.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    let found = u64::from_str_radix(digits, radix).ok()?;
    Some(if is_negative { found.wrapping_neg() } else { found })
}

impl Request {
    fn parse(parsed: &Parsed) -> Result<Self, String> {
        let mut this = Self {
            operation: Operation::List,
            project: None,
            directory_only: false,
            recursive: false,
            keeps_project: false,
            sets_inherit: false,
            ends_with_nul: false,
        };
        let mut operation = None;
        for (letter, argument) in &parsed.given {
            match letter {
                '0' => this.ends_with_nul = true,
                'k' => this.keeps_project = true,
                'd' => (this.directory_only, this.recursive) = (true, false),
                'r' => (this.recursive, this.directory_only) = (true, false),
                'p' => {
                    let id = number(argument).ok_or(format!("project ID must be less than {}", u32::MAX))?;
                    let id = u32::try_from(id).ok().filter(|id| *id != u32::MAX);
                    this.project = Some(id.ok_or("invalid project ID")?);
                }
                letter => {
                    if operation.is_some() {
                        return Err("cannot specify '-C' '-c' '-s' together".to_owned());
                    }
                    this.sets_inherit = *letter == 's';
                    operation = Some(match letter {
                        'C' => Operation::Clear,
                        'c' => Operation::Check,
                        _ => Operation::Set,
                    });
                }
            }
        }
        let default = if this.project.is_some() { Operation::Set } else { Operation::List };
        this.operation = operation.unwrap_or(default);
        this.check()?;
        match parsed.operands.is_empty() {
            true => Err("missing file or directory target(s)".to_owned()),
            false => Ok(this),
        }
    }

    /// Refuses options that mean nothing for the operation.
    fn check(&self) -> Result<(), &'static str> {
        let is = |operation| self.operation == operation;
        let wrong = [
            (self.directory_only && is(Operation::Clear), "'-d' is useless together with '-C'"),
            (self.directory_only && is(Operation::Set), "'-d' is useless for set project ID and/or inherit flag"),
            (self.keeps_project && !is(Operation::Clear), "'-k' is only valid together with '-C'"),
            (self.ends_with_nul && !is(Operation::Check), "'-0' is only valid together with '-c'"),
            (self.project.is_some() && is(Operation::Clear), "'-p' is useless together with '-C'"),
        ];
        wrong.iter().find(|(is_wrong, _)| *is_wrong).map_or(Ok(()), |(_, message)| Err(message))
    }

    fn run(&mut self, cx: &mut Context<'_>, target: &Path) -> Result<(), String> {
        let meta = fs::metadata(target).map_err(failed("stat", target))?;
        if !meta.is_file() && !meta.is_dir() {
            return Err("only support project quota on regular file or directory".to_owned());
        }
        for (letter, is_given) in [('d', self.directory_only), ('r', self.recursive)] {
            if is_given && !meta.is_dir() {
                return Err(format!("'-{letter}' option on non-dir target {}", target.display()));
            }
        }
        if self.project.is_none() && matches!(self.operation, Operation::Set | Operation::Check) {
            let file = open(target, 0).map_err(failed("open", target))?;
            let found = FileProject::of(file.as_fd()).map_err(failed("get xattr for", target))?;
            self.project = Some(found.id);
        }
        let file = open(target, 0).map_err(failed("open", target))?;
        self.handle(cx, target, &file)?;
        let looks = matches!(self.operation, Operation::List | Operation::Check);
        if !meta.is_dir() || self.directory_only || !self.recursive && !looks {
            return Ok(());
        }
        let mut waiting = VecDeque::from([target.to_owned()]);
        while let Some(dir) = waiting.pop_front() {
            self.handle_entries(cx, &dir, dir == *target, &mut waiting)?;
        }
        Ok(())
    }

    /// Handles the entries of a directory. Adds the directories among them to `waiting`.
    fn handle_entries(
        &self,
        cx: &mut Context<'_>,
        dir: &Path,
        is_target: bool,
        waiting: &mut VecDeque<PathBuf>,
    ) -> Result<(), String> {
        let entries = match fs::read_dir(dir) {
            // What is below a target may be removed meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound && !is_target => return Ok(()),
            other => other.map_err(failed("opendir", dir))?,
        };
        for entry in entries {
            let entry = entry.map_err(failed("readdir", dir))?;
            let path = below(dir, &entry.file_name());
            // A link in a user's directory may lead to another user's file.
            let file = match open(&path, libc::O_NOFOLLOW) {
                Err(error) if error.kind() == ErrorKind::NotFound || is_link(&error) => continue,
                other => other.map_err(failed("open", &path))?,
            };
            self.handle(cx, &path, &file)?;
            if self.recursive && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                waiting.push_back(path);
            }
        }
        Ok(())
    }

    fn handle(&self, cx: &mut Context<'_>, path: &Path, file: &File) -> Result<(), String> {
        let mut found = FileProject::of(file.as_fd()).map_err(failed("get xattr for", path))?;
        let expected = self.project.unwrap_or(DEFAULT);
        let before = found;
        match self.operation {
            Operation::List => {
                let flag = if found.inherits() { 'P' } else { '-' };
                print(cx, &format!("{:5} {flag} ", found.id), path, "\n");
            }
            Operation::Check if found.id == expected && found.inherits() => {}
            Operation::Check if self.ends_with_nul => print(cx, "", path, "\0"),
            Operation::Check => {
                if found.id != expected {
                    let rest = format!(" - project ID is not set properly ({}/{expected})\n", found.id);
                    print(cx, "", path, &rest);
                }
                if !found.inherits() {
                    print(cx, "", path, " - project inherit flag is not set\n");
                }
            }
            Operation::Clear => {
                found.set_inherits(false);
                found.id = if self.keeps_project { found.id } else { DEFAULT };
            }
            Operation::Set => {
                found.id = expected;
                found.set_inherits(found.inherits() || self.sets_inherit);
            }
        }
        match found == before {
            true => Ok(()),
            false => found.set(file.as_fd()).map_err(failed("set xattr for", path)),
        }
    }
}

/// The path of an entry as OpenZFS prints it: with a slash after a directory that ends with one.
fn below(dir: &Path, name: &std::ffi::OsStr) -> PathBuf {
    let mut path = dir.as_os_str().as_bytes().to_vec();
    path.push(b'/');
    path.extend_from_slice(name.as_bytes());
    OsString::from_vec(path).into()
}

/// Opens a file without waiting for the other end of a FIFO.
fn open(path: &Path, more: i32) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NOCTTY | libc::O_NONBLOCK | more).open(path)
}

/// Whether a file was not opened because it is a symbolic link.
fn is_link(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ELOOP)
}

fn failed<'a>(what: &'a str, path: &'a Path) -> impl Fn(io::Error) -> String + 'a {
    move |error| format!("failed to {what} {}: {}", path.display(), host::os_text(&error))
}

/// Prints a line with a path, which need not be UTF-8.
fn print(cx: &mut Context<'_>, before: &str, path: &Path, after: &str) {
    cx.print(before);
    // A closed reader is no error: the output was for it.
    let _ = cx.out.write_all(path.as_os_str().as_bytes());
    cx.print(after);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Request, String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        Request::parse(&VERB.parse(&words).expect("options of the row"))
    }

    #[test]
    fn projects_are_numbers_of_any_base_below_the_invalid_one() {
        let rows = [
            ("7", Some(7)),
            ("0x1F", Some(31)),
            ("010", Some(8)),
            ("0", Some(0)),
            (" +5", Some(5)),
            ("", Some(0)),
            ("-1", Some(u64::MAX)),
            ("18446744073709551616", None),
            (" ", None),
            ("0x", None),
            ("7x", None),
            ("09", None),
            ("x", None),
        ];
        for (text, expected) in rows {
            assert_eq!(number(text), expected, "{text:?}");
        }
        assert_eq!(parse("-p 4294967294 f").expect("good").project, Some(u32::MAX - 1));
        for id in ["4294967295", "-1"] {
            assert_eq!(parse(&format!("-p {id} f")), Err("invalid project ID".to_owned()));
        }
        assert_eq!(parse("-p x f"), Err("project ID must be less than 4294967295".to_owned()));
    }

    #[test]
    fn options_that_contradict_each_other_are_refused() {
        for (line, message) in [
            ("-c -s f", "cannot specify '-C' '-c' '-s' together"),
            ("-C -C f", "cannot specify '-C' '-c' '-s' together"),
            ("-k f", "'-k' is only valid together with '-C'"),
            ("-ck f", "'-k' is only valid together with '-C'"),
            ("-0 f", "'-0' is only valid together with '-c'"),
            ("-C -p 1 f", "'-p' is useless together with '-C'"),
            ("-C -d f", "'-d' is useless together with '-C'"),
            ("-s -d f", "'-d' is useless for set project ID and/or inherit flag"),
            ("-r", "missing file or directory target(s)"),
        ] {
            assert_eq!(parse(line), Err(message.to_owned()), "{line}");
        }
    }

    #[test]
    fn a_project_alone_is_set_and_the_last_of_d_and_r_counts() {
        let set = parse("-p 3 f").expect("good");
        assert_eq!((set.operation, set.sets_inherit), (Operation::Set, false));
        assert_eq!(parse("-s f").map(|r| (r.operation, r.sets_inherit)), Ok((Operation::Set, true)));
        assert_eq!(parse("f").map(|r| r.operation), Ok(Operation::List));
        assert_eq!(parse("-c -p 3 f").map(|r| (r.operation, r.project)), Ok((Operation::Check, Some(3))));
        assert_eq!(parse("-d -r f").map(|r| (r.directory_only, r.recursive)), Ok((false, true)));
        assert_eq!(parse("-r -d f").map(|r| (r.directory_only, r.recursive)), Ok((true, false)));
    }
}
