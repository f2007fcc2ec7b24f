//! Runs commands for other processes, in a process that owns pools.

use crate::client::There;
use crate::context::Context;
use crate::dispatch::dispatch;
use crate::hold::keep;
use crate::verb::{Callers, Verb};
use crate::{beadm, commands, zfs, zpool};
use admin::KeySource;
use admin::verbs::Caller;
use anyhow::{Context as _, Result};
use api::CommandRequest;
use daemon::{Commands, Io, Owner, Stream};
use dataset::Credentials;
use serve::fuse::MountOptions;
use std::io::BufWriter;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Weir's own verbs that run in the process that owns the pools.
const OWN: &[(&str, Callers)] = &[
    // It changes nothing. Only the owner may run it, which [`weir`] checks.
    ("hold", Callers::Anyone),
    ("inject", Callers::Owner),
    ("inspect", Callers::Owner),
    ("mount", Callers::Owner),
    ("nbd", Callers::Owner),
    ("schedule", Callers::Anyone),
];

/// The verbs of this program.
pub struct CommandRunner;

impl Commands for CommandRunner {
    fn run(&self, owner: &Arc<Owner>, request: &CommandRequest, io: &Io) -> u8 {
        let (mut out, mut err) = (BufWriter::new(io.stream(Stream::Out)), io.stream(Stream::Err));
        let client = There { request, io };
        let state = owner.house.state().clone();
        let (peer, program) = (io.peer(), request.program.as_str());
        let caller = match peer.is_owner() {
            true => Caller::owner(),
            false => Caller::user(Credentials { uid: peer.uid, gid: peer.gid, groups: peer.groups.clone() }),
        };
        let owned = Some(owner.clone());
        let mut cx = Context { out: &mut out, err: &mut err, state, client: &client, owner: owned, caller };
        if program == "weir" {
            return weir(&mut cx, owner, io, &request.args);
        }
        let Some(verbs) = verbs(program) else {
            cx.complain(&format!("weir: '{program}' cannot be run by the daemon"));
            return 2;
        };
        let verb = request.args.first().map(String::as_str).unwrap_or_default();
        let delegated = peer.is_known() && checks_delegation(program, &request.args);
        if !peer.is_owner() && !delegated && !only_looks(program, &request.args) {
            cx.complain(&format!("cannot {verb}: permission denied"));
            return 1;
        }
        let tz = request.environment.get("TZ").map(String::as_str);
        crate::number::in_zone(tz, || dispatch(&mut cx, program, verbs, &request.args))
    }

    fn only_looks(&self, request: &CommandRequest) -> bool {
        only_looks(&request.program, &request.args)
    }

    fn checks_delegation(&self, request: &CommandRequest) -> bool {
        checks_delegation(&request.program, &request.args)
    }
}

fn verbs(program: &str) -> Option<&'static [&'static Verb]> {
    match program {
        "zpool" => Some(zpool::VERBS),
        "zfs" => Some(zfs::VERBS),
        "beadm" => Some(beadm::VERBS),
        "bectl" => Some(beadm::BECTL),
        _ => None,
    }
}

/// Weir's own verbs that use the pools of this process.
fn weir(cx: &mut Context<'_>, owner: &Arc<Owner>, io: &Io, args: &[String]) -> u8 {
    let verb = args.first().map(String::as_str).unwrap_or_default();
    if verb == "schedule" {
        return commands::schedule::in_context(cx, args);
    }
    if verb == "inject" && io.peer().is_owner() {
        return commands::inject::in_owner(cx, owner, args);
    }
    let done = match verb {
        "inspect" => commands::inspect::in_owner(owner, args).map(|text| cx.print(&text)),
        "mount" if io.peer().is_owner() => mount(cx, owner, args),
        "hold" if io.peer().is_owner() => hold(cx, owner, args),
        "nbd" if io.peer().is_owner() => nbd(cx, owner, args),
        _ if OWN.iter().any(|(own, _)| *own == verb) => Err(anyhow::anyhow!("permission denied")),
        _ => Err(anyhow::anyhow!("it does not run in the daemon")),
    };
    let _ = cx.out.flush();
    match done {
        Ok(()) => 0,
        Err(error) => {
            cx.complain(&format!("weir {verb}: {error:#}"));
            1
        }
    }
}

/// Interval at which to check whether a state is still needed.
const HELD: Duration = Duration::from_millis(100);

/// For a reader of the disks: writes all confirmed changes to disk, and keeps that state intact
/// until the client disconnects.
fn hold(cx: &mut Context<'_>, owner: &Arc<Owner>, args: &[String]) -> Result<()> {
    let pool = owner.house.pool(args.get(1).context("no pool")?)?;
    let kept = keep(&pool)?;
    cx.print("held\n");
    let _ = cx.out.flush();
    while !cx.client.is_gone() && owner.is_ready() {
        let holds = kept.as_ref().is_none_or(|kept| kept.holds());
        anyhow::ensure!(holds, "the pool is nearly full, and the space being read was reused");
        std::thread::sleep(HELD);
    }
    Ok(())
}

/// `weir mount`, for a pool that this process has imported.
fn mount(cx: &mut Context<'_>, owner: &Arc<Owner>, args: &[String]) -> Result<()> {
    let matches = commands::mount::command().try_get_matches_from(args)?;
    let options = commands::mount::mount_options(&matches)?;
    let dataset = matches.get_one::<String>("dataset").context("no dataset")?;
    let dir = cx.client.absolute(matches.get_one::<PathBuf>("directory").context("no directory")?)?;
    anyhow::ensure!(dir.is_dir(), "{}: not a directory", dir.display());
    let pool = owner.house.pool(admin::verbs::pool_of(dataset))?;
    let found = pool.datasets()?.dataset(dataset)?;
    if !pool.keys().is_available(&found)? {
        let ask: &admin::keys::Ask<'_> = &|question| cx.client.key(question);
        let location = matches.get_one::<String>("keylocation").cloned();
        let source = KeySource { files: crate::source::key_files(&matches), location, ask: Some(ask) };
        admin::keys::load(pool.keys(), &found, &source).with_context(|| format!("{dataset}: cannot load its key"))?;
    }
    // Writes of other servers must be visible: no write-back cache.
    let options = MountOptions { write_back: false, ..options };
    let shape = commands::mount::shape(&matches);
    owner.mounts.mount_tree(pool.guid(), pool.provider(dataset)?, &dir, &options, shape)?;
    Ok(())
}

/// `weir nbd`, for a pool that this process has imported: until the client disconnects.
fn nbd(cx: &mut Context<'_>, owner: &Arc<Owner>, args: &[String]) -> Result<()> {
    let matches = commands::nbd::command().try_get_matches_from(args)?;
    let socket = matches.get_one::<PathBuf>("socket").map(|path| cx.client.absolute(path)).transpose()?;
    let (one, config) = commands::nbd::wanted(&matches, socket.clone());
    let pool = owner.house.pool(admin::verbs::pool_of(&one.name))?;
    let found = pool.datasets()?.dataset(&one.name)?;
    if !pool.keys().is_available(&found)? {
        let ask: &admin::keys::Ask<'_> = &|question| cx.client.key(question);
        let location = matches.get_one::<String>("keylocation").cloned();
        let source = KeySource { files: crate::source::key_files(&matches), location, ask: Some(ask) };
        admin::keys::load(pool.keys(), &found, &source)
            .with_context(|| format!("{}: cannot load its key", one.name))?;
    }
    // References that would keep the pool from being closed.
    drop((found, pool));
    let name = one.name.clone();
    let server = daemon::nbd::start_one(one, config, owner)?;
    cx.print(&commands::nbd::describe(&name, &server, socket.as_deref()));
    let _ = cx.out.flush();
    while !cx.client.is_gone() && owner.is_ready() {
        std::thread::sleep(HELD);
    }
    Ok(())
}

fn checks_delegation(program: &str, args: &[String]) -> bool {
    let (verb, all) = (args.first().map(String::as_str).unwrap_or_default(), verbs(program).unwrap_or_default());
    all.iter().any(|v| v.name == verb && matches!(v.callers, Callers::Delegates))
}

fn only_looks(program: &str, args: &[String]) -> bool {
    let verb = args.first().map(String::as_str).unwrap_or_default();
    if program == "weir" {
        return OWN.iter().any(|(own, callers)| *own == verb && callers.include_anyone(&args[1..]));
    }
    // Without a verb, only help or versions are printed.
    let Some(all) = verbs(program) else { return false };
    verb.is_empty()
        || verb.starts_with('-')
        || verb == "help"
        || all.iter().any(|v| v.name == verb && v.callers.include_anyone(&args[1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_other_than_the_owner_may_only_read() {
        for (program, verb) in [("zpool", "list"), ("zfs", "get"), ("zpool", "-V"), ("zfs", ""), ("bectl", "help")] {
            assert!(only_looks(program, &[verb.to_owned()]), "{program} {verb}");
        }
        for (program, verb) in [
            ("zpool", "create"),
            ("zfs", "set"),
            ("zpool", "import"),
            ("zfs", "mount"),
            ("weir", "list"),
            ("zfs", "send"),
        ] {
            assert!(!only_looks(program, &[verb.to_owned()]), "{program} {verb}");
        }
        // Clearing the events is a change, however the option is written.
        let events = |options: &[&str]| {
            let args: Vec<String> = ["events"].iter().chain(options).map(|a| (*a).to_owned()).collect();
            only_looks("zpool", &args)
        };
        for options in [&["-c"][..], &["-vc"], &["-H", "-c"], &["tank", "-c"], &["-cf"]] {
            assert!(!events(options), "{options:?}");
        }
        for options in [&[][..], &["-v"], &["-f", "tank"], &["--", "-c"]] {
            assert!(events(options), "{options:?}");
        }
    }

    /// A verb added to the wrong list would be open to every user of the machine.
    #[test]
    fn verbs_for_any_user_are_these() {
        let open = |program: &str| -> Vec<&str> {
            let all = verbs(program).expect("a program").iter();
            all.filter(|v| matches!(v.callers, Callers::Anyone | Callers::AnyoneUnless(_))).map(|v| v.name).collect()
        };
        let zpool = ["version", "list", "iostat", "status", "get", "wait", "history", "events"];
        assert_eq!(open("zpool"), zpool);
        assert_eq!(open("zfs"), ["version", "list", "get", "holds", "userspace", "groupspace", "projectspace"]);
        assert_eq!((open("beadm"), open("bectl")), (vec!["list"], vec!["check", "list"]));
        let delegated = |program: &str| -> Vec<&str> {
            let all = verbs(program).expect("a program").iter();
            all.filter(|v| matches!(v.callers, Callers::Delegates)).map(|v| v.name).collect()
        };
        let zfs = [
            "diff",
            "send",
            "receive",
            "recv",
            "load-key",
            "unload-key",
            "create",
            "destroy",
            "snapshot",
            "snap",
            "rollback",
            "clone",
            "promote",
            "hold",
            "release",
            "bookmark",
            "rename",
            "set",
            "inherit",
            "change-key",
            "allow",
            "unallow",
        ];
        assert_eq!(delegated("zfs"), zfs);
        assert!(["zpool", "beadm", "bectl"].iter().all(|program| delegated(program).is_empty()));
    }
}
