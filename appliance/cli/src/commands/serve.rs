//! `weir serve`: the daemon.

use crate::exit_code::USAGE;
use crate::state_folder;
use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use daemon::config::{Config, LogFormat, Source};
use daemon::{Commands, SetLevel};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use tracing_subscriber::EnvFilter;

/// Options of `weir serve`.
pub fn command() -> clap::Command {
    clap::Command::new("serve")
        .about("Run the daemon, which opens the imported pools and runs zpool and zfs commands")
        .long_about(
            "Opens the imported pools and keeps them open until SIGTERM or SIGINT, when it writes all pending data to \
             disk. Meanwhile the commands of the same state folder (weir zpool, weir zfs) run in it, with the same output \
             as without it. Only one daemon can use a state folder.",
        )
        .arg(
            Arg::new("config")
                .long("config")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help("The configuration [default: /etc/weir/weir.toml, if it exists]; see 'weir config default'"),
        )
        .arg(
            Arg::new("set")
                .long("set")
                .value_name("KEY=VALUE")
                .action(ArgAction::Append)
                .help("Set a key of the configuration, overriding the file; may be repeated"),
        )
        .arg(
            Arg::new("arc-max")
                .long("arc-max")
                .value_name("SIZE")
                .help("Most memory for cached blocks of each pool, such as 64M or 2G [default: 256M]"),
        )
        .arg(
            Arg::new("no-mount")
                .long("no-mount")
                .action(clap::ArgAction::SetTrue)
                .help("Mount file systems on request only, not when they are created or imported"),
        )
}

/// Source of the configuration: the file, overridden by options.
fn source(matches: &ArgMatches) -> Source {
    let set = matches.get_many::<String>("set").into_iter().flatten();
    let set = set.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let arc_max = matches.get_one::<String>("arc-max").map(|size| ("arc_max", size.as_str()));
    let no_mount = matches.get_flag("no-mount").then_some(("mount", "false"));
    let options = set.chain(arc_max).chain(no_mount).map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    Source { file: matches.get_one::<PathBuf>("config").cloned(), options }
}

/// Parses a log filter.
pub fn filter(level: &str) -> Result<EnvFilter, String> {
    EnvFilter::try_new(level).map_err(|error| error.to_string())
}

/// Starts logging to standard error. Returns the function that changes the level.
fn log(config: &Config) -> Result<SetLevel> {
    let filtered =
        filter(&config.log.level).map_err(|why| anyhow::anyhow!("log.level is '{}': {why}", config.log.level))?;
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).with_env_filter(filtered);
    // The two formats have handles of different types.
    Ok(match config.log.format {
        LogFormat::Text => {
            let log = log.with_filter_reloading();
            let handle = log.reload_handle();
            let _ = log.try_init();
            Box::new(move |level| handle.reload(filter(level)?).map_err(|error| error.to_string()))
        }
        LogFormat::Json => {
            let log = log.json().with_filter_reloading();
            let handle = log.reload_handle();
            let _ = log.try_init();
            Box::new(move |level| handle.reload(filter(level)?).map_err(|error| error.to_string()))
        }
    })
}

/// Runs `weir serve`, which runs `commands` for other processes.
pub fn run(matches: &ArgMatches, commands: Arc<dyn Commands>) -> Result<ExitCode> {
    let source = source(matches);
    let config = match source.load() {
        Ok(config) => config,
        Err(wrong) => {
            wrong.iter().for_each(|w| eprintln!("weir serve: {w}"));
            return Ok(ExitCode::from(USAGE));
        }
    };
    let level = log(&config)?;
    let state = state_folder::configured(&config)?;
    daemon::run(state, source, commands, level)?;
    Ok(ExitCode::SUCCESS)
}
