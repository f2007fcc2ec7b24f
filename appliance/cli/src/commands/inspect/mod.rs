//! `weir inspect`: shows on-disk data, structure by structure. ZFS name: zdb.
//!
//! Each part creates one document, which is printed as JSON or as tables for people ([`show`]).
//! Sizes, offsets and txgs are full numbers, because they are looked up elsewhere. Addresses are
//! `device:offset:size` with the last two in hexadecimal, as in zdb.

mod argument;
mod block;
mod convert;
mod dataset;
mod device;
mod log;
mod multihost;
mod object;
mod pool;
mod show;
mod spacemap;
mod txgs;

use crate::source;
use anyhow::Result;
use argument::argument;
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use daemon::Owner;
use serde_json::Value;
use std::io::{self, Write};
use std::process::ExitCode;

/// A part of `weir inspect`.
struct Part {
    name: &'static str,
    about: &'static str,
    /// Name and help of each argument; names that begin with `[` are optional.
    args: &'static [(&'static str, &'static str)],
    run: fn(&ArgMatches) -> Result<Value>,
}

const PARTS: &[Part] = &[
    Part {
        name: "label",
        about: "The four labels of a device: errors in each, and the configuration",
        args: &[("DEVICE", "A device or image file")],
        run: device::label,
    },
    Part {
        name: "uberblocks",
        about: "Earlier states of a pool: time of each, and the datasets it would show (for `zpool import -T`)",
        args: &[("DEVICE-OR-POOL", "A device (its rings of uberblocks), or a pool (its states)")],
        run: device::uberblocks,
    },
    Part {
        name: "nvlist",
        about: "A file with a packed nvlist, such as zpool.cache",
        args: &[("FILE", "The file")],
        run: device::nvlist,
    },
    Part {
        name: "config",
        about: "The configuration stored in the pool",
        args: &[("POOL", "The pool")],
        run: pool::config,
    },
    Part {
        name: "features",
        about: "The pool's features and how often each is used",
        args: &[("POOL", "The pool")],
        run: pool::features,
    },
    Part {
        name: "history",
        about: "The history of the pool, including internal events",
        args: &[("POOL", "The pool")],
        run: pool::history,
    },
    Part {
        name: "dataset",
        about: "The metadata of a dataset or snapshot",
        args: &[("DATASET", "POOL/DATASET[@SNAPSHOT]")],
        run: dataset::dataset,
    },
    Part {
        name: "object",
        about: "An object: its dnode, contents, and block locations",
        args: &[
            ("DATASET", "POOL/DATASET[@SNAPSHOT]; with --mos the pool, for its own objects"),
            ("[NUMBER]", "The object's number [default: a list of all objects]"),
        ],
        run: object::object,
    },
    Part {
        name: "block",
        about: "A block: state of each copy, and contents",
        args: &[
            ("POOL", "The pool"),
            ("ADDRESS", "DEVICE:OFFSET:SIZE (hexadecimal, as zdb), or OBJSET:OBJECT:LEVEL:BLOCK (decimal)"),
        ],
        run: block::block,
    },
    Part {
        name: "spacemap",
        about: "Allocated space: of devices, of a device's metaslabs, or the entries of one",
        args: &[
            ("POOL", "The pool"),
            ("[DEVICE]", "Number of the top-level device"),
            ("[METASLAB]", "Number of the metaslab"),
        ],
        run: spacemap::spacemap,
    },
    Part {
        name: "log",
        about: "The intent log: records since the last synced txg that are not replayed",
        args: &[("DATASET", "POOL for all logs, or POOL/DATASET for one")],
        run: log::log,
    },
    Part {
        name: "txgs",
        about: "The last txgs of a mounted pool: bytes written and duration of the phases",
        args: &[("POOL", "The pool, mounted for writing")],
        run: txgs::txgs,
    },
    Part {
        name: "multihost",
        about: "The last heartbeats of a pool with multihost=on: as many as the setting multihost.history",
        args: &[("POOL", "The pool, open for writing")],
        run: multihost::multihost,
    },
];

/// Options of `weir inspect`.
pub fn command() -> clap::Command {
    let part = |p: &Part| {
        let mut command = clap::Command::new(p.name).about(p.about).args(source::args()).arg(
            Arg::new("json").long("json").action(ArgAction::SetTrue).help("Write one JSON document, for programs"),
        );
        for (name, help) in p.args {
            let required = !name.starts_with('[');
            let name: &'static str = name.trim_matches(['[', ']']);
            command = command.arg(Arg::new(name).value_name(name).required(required).help(*help));
        }
        match p.name {
            "object" => {
                command.arg(Arg::new("mos").long("mos").action(ArgAction::SetTrue).help("The pool's own objects")).arg(
                    Arg::new("blocks-max")
                        .long("blocks-max")
                        .value_name("N")
                        .default_value("10000")
                        .value_parser(value_parser!(u64))
                        .help("Maximum number of block pointers and entries to list"),
                )
            }
            "block" => command.arg(
                Arg::new("bytes")
                    .long("bytes")
                    .value_name("N")
                    .default_value("512")
                    .value_parser(value_parser!(usize))
                    .help("Maximum number of bytes to show"),
            ),
            _ => command,
        }
    };
    clap::Command::new("inspect")
        .about("Show the on-disk structures of a pool")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(PARTS.iter().map(part))
}

pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let (name, matches) = matches.subcommand().expect("clap insists on a subcommand");
    let part = PARTS.iter().find(|p| p.name == name).expect("clap knows only these");
    if name == "multihost" || (name == "txgs" && !txgs::are_in_folder(matches)?) {
        // The process that has the pool imported knows them.
        let mut args: Vec<String> = ["inspect", name, argument(matches, "POOL")].map(str::to_owned).to_vec();
        args.extend(matches.get_flag("json").then(|| "--json".to_owned()));
        if let Some(code) = crate::forward::to_daemon(&admin::state::State::of_process()?, "weir", &args)? {
            return Ok(ExitCode::from(code));
        }
    }
    let document = (part.run)(matches)?;
    let text = text(&document, matches);
    match io::stdout().write_all(text.as_bytes()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(e.into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn text(document: &Value, matches: &ArgMatches) -> String {
    if matches.get_flag("json") { format!("{document:#}\n") } else { show::text(document) }
}

/// `inspect txgs` or `multihost` of a pool that this process has imported; the other parts read
/// disks, as the caller can.
pub fn in_owner(owner: &Owner, args: &[String]) -> Result<String> {
    let matches = command().try_get_matches_from(args)?;
    match matches.subcommand() {
        Some(("txgs", matches)) => Ok(text(&txgs::of_owner(owner, argument(matches, "POOL"))?, matches)),
        Some(("multihost", matches)) => multihost::of_owner(owner, matches),
        _ => anyhow::bail!("only 'inspect txgs' and 'inspect multihost' run in the process that has the pool open"),
    }
}
