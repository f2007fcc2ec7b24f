//! `weir cp`: copies files and directories out of a pool, and volumes into image files.

use crate::copy::{self, Options, Report};
use crate::exit_code::{SOME_FAILED, USAGE};
use crate::source::{self, Opener, Spec};
use crate::tree;
use anyhow::{Context, Result, bail};
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use files::vfs::FileKind;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Options of `weir cp`.
pub fn command() -> clap::Command {
    clap::Command::new("cp")
        .about("Copy files, directories and volumes out of a pool")
        .long_about(
            "Copies out of a pool, with mode, times, extended attributes, ACLs, links and holes; as root with owners and \
             devices. A volume is copied as POOL/VOLUME: into an image file with holes, or onto a disk.\n\n\
             A file that is damaged beyond repair is reported and not copied. With --best-effort, everything that can be \
             verified is copied, the rest is filled with zeros, and FILE.weir-map next to it lists the missing byte ranges as \
             JSON: {\"unreadable\": [{\"offset\": …, \"bytes\": …, \"error\": …}, …], …}.\n\n\
             Exit code: 0 if everything was copied, 1 if something was not, 2 for a usage error.",
        )
        .override_usage("weir cp [OPTIONS] POOL/DATASET[@SNAPSHOT]:/path... DESTINATION")
        .arg(
            Arg::new("paths")
                .value_name("PATH")
                .required(true)
                .num_args(2..)
                .value_parser(value_parser!(OsString))
                .help("One or more POOL/DATASET[@SNAPSHOT]:/path to copy, then the destination"),
        )
        .arg(Arg::new("recursive").short('r').short_alias('R').long("recursive").action(ArgAction::SetTrue).help("Copy directories recursively"))
        .arg(Arg::new("archive").short('a').long("archive").action(ArgAction::SetTrue).help("The same as -r: attributes are always kept"))
        .arg(Arg::new("preserve").short('p').action(ArgAction::SetTrue).hide(true))
        .arg(Arg::new("best-effort").long("best-effort").action(ArgAction::SetTrue).help("Copy the intact parts of damaged files, and list the rest in FILE.weir-map"))
        .arg(Arg::new("no-owner").long("no-owner").action(ArgAction::SetTrue).help("Do not set owners, even as root"))
        .arg(Arg::new("quiet").short('q').long("quiet").action(ArgAction::SetTrue).help("Show no progress"))
        .args(source::args())
}

pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let mut paths = source::operands(matches, "paths");
    let to = PathBuf::from(paths.pop().expect("clap insists on two"));
    let specs: Result<Vec<Spec>> = paths.iter().map(|p| Spec::parse(p)).collect();
    let specs = match specs.and_then(|s| check_target(&s, &to).map(|()| s)) {
        Ok(specs) => specs,
        Err(e) => {
            eprintln!("weir cp: {e:#}");
            return Ok(ExitCode::from(USAGE));
        }
    };
    let mut options = Options {
        recursive: matches.get_flag("recursive") || matches.get_flag("archive"),
        best_effort: matches.get_flag("best-effort"),
        ..Options::default()
    };
    options.owner &= !matches.get_flag("no-owner");
    let bar = if io::stderr().is_terminal() && !matches.get_flag("quiet") {
        ProgressBar::no_length()
    } else {
        ProgressBar::hidden()
    };
    let report = Report::new(bar.clone());
    let mut opener = Opener::new(matches);
    for spec in &specs {
        if let Err(e) = one(&mut opener, spec, &to, &options, &report, &bar) {
            report.fail(&spec.to_string(), format_args!("{e:#}"));
        }
    }
    bar.finish_and_clear();
    Ok(if report.failed() == 0 { ExitCode::SUCCESS } else { ExitCode::from(SOME_FAILED) })
}

fn check_target(specs: &[Spec], to: &Path) -> Result<()> {
    if to.as_os_str().as_bytes().windows(2).any(|w| w == b":/") && !to.exists() {
        bail!("{}: copying into a pool is not supported; the destination must be a path of this machine", to.display());
    }
    if specs.len() > 1 && !to.is_dir() {
        bail!("{}: not a directory, but there are several sources", to.display());
    }
    Ok(())
}

fn one(
    opener: &mut Opener,
    spec: &Spec,
    to: &Path,
    options: &Options,
    report: &Report,
    bar: &ProgressBar,
) -> Result<()> {
    let vfs = opener.open(&spec.dataset)?;
    let attr = tree::resolve(&*vfs, &spec.path, !options.recursive)?;
    let mut to = to.to_owned();
    if to.is_dir()
        && let Some(name) = spec.base_name()
    {
        to.push(OsStr::from_bytes(&name));
    }
    if attr.kind == FileKind::Regular {
        bar.set_length(attr.size);
        bar.set_position(0);
        bar.set_style(style("{wide_bar} {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {eta} left")?);
    } else {
        bar.set_style(style("{binary_bytes} copied, {binary_bytes_per_sec}  {wide_msg}")?);
    }
    if !bar.is_hidden() {
        bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(5));
        bar.enable_steady_tick(Duration::from_millis(500));
    }
    copy::copy(&*vfs, &attr, &spec.to_string(), &to, options, report)
}

fn style(template: &str) -> Result<ProgressStyle> {
    ProgressStyle::with_template(template).context("progress bar")
}
