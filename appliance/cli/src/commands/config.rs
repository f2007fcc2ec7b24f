//! `weir config`: prints and checks the configuration of `weir serve`, and shows and changes it
//! while the daemon runs.

use super::serve;
use crate::exit_code::SOME_FAILED;
use crate::forward;
use crate::state_folder;
use anyhow::{Context as _, Result, bail};
use api::{ChangeSettings, SettingChanges, SettingList, SettingSource, SettingsChanged};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use daemon::config::{Config, DEFAULT_FILE, Source, Wrong, default_file};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `weir config`.
pub fn command() -> Command {
    let file = Arg::new("file").value_name("FILE").value_parser(value_parser!(PathBuf));
    let set = Arg::new("set")
        .value_name("KEY=VALUE")
        .required(true)
        .action(ArgAction::Append)
        .help("A setting and its value");
    let unset = Arg::new("unset").value_name("KEY").required(true).action(ArgAction::Append).help("A setting");
    Command::new("config")
        .about("Print, check, show or change the configuration of 'weir serve'")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(Command::new("default").about("Print a commented file with all keys and their defaults"))
        .subcommand(
            Command::new("check")
                .about(
                    "Check a configuration: print each error on a line (exit code 1), and which settings a running daemon \
                     would apply at once or after a restart",
                )
                .arg(file.help("The file [default: /etc/weir/weir.toml]")),
        )
        .subcommand(Command::new("show").about("Print the current settings and the source of each"))
        .subcommand(Command::new("reload").about(
            "Make the daemon re-read its file and certificate, without disconnecting clients. Prints what has changed and \
             what requires a restart",
        ))
        .subcommand(
            Command::new("set")
                .about("Change settings of the running daemon and of later starts; they override the file")
                .arg(set),
        )
        .subcommand(Command::new("unset").about("Revert settings to those of the file").arg(unset))
}

pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    match matches.subcommand() {
        Some(("check", check)) => {
            return self::check(&check.get_one::<PathBuf>("file").cloned().unwrap_or_else(|| DEFAULT_FILE.into()));
        }
        Some(("show", _)) => show()?,
        Some(("reload", _)) => changed("POST", "/v1/settings/reload", None)?,
        Some(("set", set)) => {
            let mut request = ChangeSettings::default();
            for pair in set.get_many::<String>("set").into_iter().flatten() {
                let (key, value) = pair.split_once('=').with_context(|| format!("{pair}: expected KEY=VALUE"))?;
                request.set.insert(key.to_owned(), Some(value.to_owned()));
            }
            changed("PATCH", "/v1/settings", Some(&request))?;
        }
        Some(("unset", unset)) => {
            let keys = unset.get_many::<String>("unset").into_iter().flatten();
            let request = ChangeSettings { set: keys.map(|key| (key.clone(), None)).collect() };
            changed("PATCH", "/v1/settings", Some(&request))?;
        }
        _ => print!("{}", default_file()),
    }
    Ok(ExitCode::SUCCESS)
}

/// Current settings of the running daemon.
fn in_force(config: &Config) -> Result<Option<SettingList>> {
    let answer = forward::ask(&state_folder::configured(config)?, "GET", "/v1/settings", None)?;
    answer.map(|text| serde_json::from_slice(&text).context("cannot parse the daemon's answer")).transpose()
}

fn check(file: &Path) -> Result<ExitCode> {
    let config = Config::load(Some(file)).and_then(|config| match serve::filter(&config.log.level) {
        Ok(_) => Ok(config),
        Err(why) => {
            let message = format!("log.level is '{}': {why}", config.log.level);
            Err(vec![Wrong { file: file.display().to_string(), line: None, message }])
        }
    });
    let config = match config {
        Ok(config) => config,
        Err(wrong) => {
            wrong.iter().for_each(|w| eprintln!("{w}"));
            return Ok(ExitCode::from(SOME_FAILED));
        }
    };
    println!("{}: good", file.display());
    // A user without access to the daemon gets only the check of the file.
    let Ok(Some(running)) = in_force(&config) else { return Ok(ExitCode::SUCCESS) };
    let says: BTreeMap<String, String> = config.settings(&config).into_iter().map(|s| (s.name, s.value)).collect();
    for setting in running.items {
        let Some(value) = says.get(&setting.name).filter(|value| **value != setting.value) else { continue };
        let (name, has) = (&setting.name, &setting.value);
        let what = match (setting.source, setting.changes) {
            (SettingSource::Option, _) => "an option of its command line overrides the file",
            (SettingSource::Interface, _) => "it was set with 'weir config set', which overrides the file",
            (_, SettingChanges::Now) => "'weir config reload' applies it",
            (_, SettingChanges::Restart) => "it applies after a restart",
        };
        println!("{name} = {value}, the running daemon has {has}: {what}");
    }
    Ok(ExitCode::SUCCESS)
}

fn show() -> Result<()> {
    let config = Source::default().load().map_err(|wrong| {
        let all: Vec<String> = wrong.iter().map(ToString::to_string).collect();
        anyhow::anyhow!(all.join("; "))
    });
    let items = match in_force(config.as_ref().unwrap_or(&Config::default()))? {
        Some(list) => list.items,
        None => {
            let config = config?;
            eprintln!("weir config: no daemon is running; these are the settings it would start with");
            config.settings(&config)
        }
    };
    for setting in items {
        let from = match setting.source {
            SettingSource::Default => "default",
            SettingSource::File => "file",
            SettingSource::Interface => "weir config set",
            SettingSource::Option => "command line",
        };
        let pending = setting.pending.map(|value| format!("; {value} after a restart")).unwrap_or_default();
        println!("{} = {}    # {from}{pending}", setting.name, setting.value);
    }
    Ok(())
}

fn changed(method: &str, path: &str, request: Option<&ChangeSettings>) -> Result<()> {
    let config = Source::default().load().unwrap_or_default();
    let body = request.map(serde_json::to_vec).transpose()?;
    let Some(text) = forward::ask(&state_folder::configured(&config)?, method, path, body.as_deref())? else {
        bail!("'weir serve' is not running with this state folder");
    };
    let done: SettingsChanged = serde_json::from_slice(&text).context("cannot parse the daemon's answer")?;
    match done.changed.is_empty() {
        true => println!("nothing changed"),
        false => println!("changed: {}", done.changed.join(", ")),
    }
    if !done.restart.is_empty() {
        println!("after a restart: {}", done.restart.join(", "));
    }
    Ok(())
}
