//! `weir nbd`: serves one volume over NBD, as long as the command runs.

use crate::client::{Client, Here};
use crate::exit_code::USAGE;
use crate::source::{self, Opener};
use admin::House;
use admin::KeySource;
use admin::house::Scope;
use anyhow::{Context, Result, bail};
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use daemon::nbd::One;
use daemon::{Commands, Control, Mounts, Owner};
use parking_lot::{Condvar, Mutex};
use serve::fuse::Signals;
use serve::nbd::{Config, PORT, Server};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Time limit for running commands to end.
const COMMANDS_END: Duration = Duration::from_secs(60);

/// Options of `weir nbd`.
pub fn command() -> clap::Command {
    clap::Command::new("nbd")
        .about("Serve a volume over NBD")
        .long_about(
            "Serves a volume, or a snapshot of one (which can only be read), to clients of NBD, the network block device \
             protocol: qemu, nbd-client, nbdcopy and others. It is served until the command receives SIGINT or SIGTERM. \
             If weir serve has the pool open, that process serves the volume; it also serves all volumes on its own \
             (nbd.listen, nbd.local).\n\n\
             Any client that can connect can read and write: without --listen and --socket, every user of this machine, \
             through port 10809 of 127.0.0.1.",
        )
        .arg(Arg::new("volume").value_name("POOL/VOLUME[@SNAPSHOT]").required(true).help("The volume to serve"))
        .arg(
            Arg::new("listen")
                .long("listen")
                .value_name("ADDRESS:PORT")
                .action(ArgAction::Append)
                .value_parser(value_parser!(SocketAddr))
                .help("Address to listen on; may be repeated [default: 127.0.0.1:10809, unless --socket is given]"),
        )
        .arg(
            Arg::new("socket")
                .long("socket")
                .value_name("PATH")
                .value_parser(value_parser!(PathBuf))
                .help("A Unix socket to listen on, accessible to the current user only"),
        )
        .arg(Arg::new("read-only").short('r').long("read-only").action(ArgAction::SetTrue).help("Refuse changes"))
        .args(source::args())
}

/// The export and the server configuration from the command line.
pub fn wanted(matches: &ArgMatches, socket: Option<PathBuf>) -> (One, Config) {
    let name = matches.get_one::<String>("volume").expect("clap insists on it").clone();
    let mut listen: Vec<SocketAddr> = matches.get_many("listen").into_iter().flatten().copied().collect();
    if listen.is_empty() && socket.is_none() {
        listen.push((Ipv4Addr::LOCALHOST, PORT).into());
    }
    let one = One { name, read_only: matches.get_flag("read-only") };
    (one, Config { listen, socket, ..Config::default() })
}

/// The addresses of the export in the form that clients accept, one per line.
pub fn describe(name: &str, server: &Server, socket: Option<&Path>) -> String {
    let tcp = server.addresses().iter().map(|address| format!("nbd://{address}/{name}\n"));
    let unix = socket.map(|path| format!("nbd+unix:///{name}?socket={}\n", path.display()));
    tcp.chain(unix).collect()
}

/// Runs `weir nbd`. If it opens the pool itself, it runs `commands` for other processes.
pub fn run(matches: &ArgMatches, commands: Arc<dyn Commands>) -> Result<ExitCode> {
    let given = |id: &str| matches.contains_id(id) && matches.value_source(id).is_some();
    if !given("search") {
        let args: Vec<String> = std::env::args().collect();
        let verb = args.iter().position(|a| a == "nbd").unwrap_or(0);
        if let Some(code) = crate::forward::run(&admin::state::State::of_process()?, "weir", &args[verb..])? {
            return Ok(ExitCode::from(code));
        }
    } else {
        eprintln!("weir nbd: only volumes of imported pools are served; import the pool with 'weir zpool import'");
        return Ok(ExitCode::from(USAGE));
    }
    serve(matches, commands)
}

fn serve(matches: &ArgMatches, commands: Arc<dyn Commands>) -> Result<ExitCode> {
    let ended = Arc::new((Mutex::new(false), Condvar::new()));
    let ending = ended.clone();
    // Before any thread is started.
    let signals = Signals::block().context("cannot block signals")?;
    let end = move |_| {
        *ending.0.lock() = true;
        ending.1.notify_all();
    };
    signals.each(end).context("cannot wait for signals")?;
    let _ = tracing_subscriber::fmt().with_writer(io::stderr).with_ansi(false).try_init();
    let socket = matches.get_one::<PathBuf>("socket").cloned();
    let (one, config) = wanted(matches, socket.clone());
    let mut opener = Opener::new(matches);
    let Some((record, pool)) = opener.writable(&one.name)? else {
        bail!("'{}' is not in a pool that is imported for writing", one.name);
    };
    let house = House::new(admin::state::State::of_process()?, Scope::One(record.guid), None);
    let pool = house.adopt(record, pool);
    let owner = Owner::new(house, Mounts::new(true), commands);
    owner.ready();
    let result = (|| {
        let ask: &admin::keys::Ask<'_> = &|question| Here.key(question);
        let location = matches.get_one::<String>("keylocation").cloned();
        let keys = KeySource { files: source::key_files(matches), location, ask: Some(ask) };
        pool.writable().context("it is open for writing")?.dataset(&one.name, &keys)?;
        let path = daemon::socket::of_pool(owner.house.state().folder(), pool.guid());
        let control = Control::start(owner.clone(), &path)
            .inspect_err(|error| tracing::warn!(error = %format!("{error:#}"), "commands cannot reach this pool"))
            .ok();
        let name = one.name.clone();
        let server = daemon::nbd::start_one(one, config, &owner)?;
        print!("{}", describe(&name, &server, socket.as_deref()));
        io::Write::flush(&mut io::stdout())?;
        let mut is_ended = ended.0.lock();
        while !*is_ended {
            ended.1.wait(&mut is_ended);
        }
        drop(is_ended);
        drop(server);
        owner.stop(COMMANDS_END);
        Ok(control)
    })();
    // The lock shows other processes that the pool is not closed yet.
    let _owned = match result {
        Ok(control) => Ok(control.and_then(Control::stop)),
        Err(error) => Err(error),
    };
    drop(pool);
    if let Some((_, error)) = owner.house.close_all().into_iter().next() {
        return Err(error);
    }
    _owned.map(|_| ExitCode::SUCCESS)
}
