//! Context of a verb of `weir zpool` and `weir zfs`: its output, the imported pools, its result.

use crate::client::Client;
use admin::mounts::{MountReport, Mounter};
use admin::state::State;
use admin::verbs::{Caller, Invocation, Refusal, Unprivileged};
use daemon::Owner;
use std::io::Write;
use std::sync::Arc;

/// Output and state of a verb.
pub struct Context<'a> {
    pub out: &'a mut dyn Write,
    pub err: &'a mut dyn Write,
    /// The state directory, with the list of imported pools.
    pub state: State,
    /// The caller: this process, or the one connected to the daemon.
    pub client: &'a dyn Client,
    /// The pools of this process, if it owns pools.
    pub owner: Option<Arc<Owner>>,
    /// Who runs the verb, and what was found to be delegated to them.
    pub caller: Caller,
}

/// Why a verb ends early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// Usage error: the message, then the usage; exit code 2. An empty message prints only the
    /// usage.
    Usage(String),
    /// Failure: the message; exit code 1.
    Failed(String),
    /// Failure with another exit code than 1: the message.
    Refused { message: String, code: u8 },
    /// Everything is printed already; the exit code.
    Code(u8),
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        match refusal.code {
            1 => Self::Failed(refusal.message),
            2 => Self::Usage(refusal.message),
            code => Self::Refused { message: refusal.message, code },
        }
    }
}

impl Failure {
    pub fn usage(message: impl std::fmt::Display) -> Self {
        Self::Usage(message.to_string())
    }

    pub fn failed(message: impl std::fmt::Display) -> Self {
        Self::Failed(message.to_string())
    }
}

/// Result of a verb: its exit code, or why it failed.
pub type Outcome = Result<u8, Failure>;

/// Function that runs a verb with its arguments.
pub type Run = fn(&mut Context<'_>, &[String]) -> Outcome;

/// Who may run a verb in a process that owns pools. A run of a verb for the owner is an event, as
/// it may be a change.
#[derive(Debug, Clone, Copy)]
pub enum Callers {
    /// It only reads the state of pools: any user who reaches the process, in any role.
    Anyone,
    /// As [`Callers::Anyone`], but only the owner if the function says so of the arguments.
    AnyoneUnless(fn(&[String]) -> bool),
    /// Any user, as far as permissions were delegated to them: the verb checks this by itself
    /// ([`Context::caller`]).
    Delegates,
    /// It changes something, or reads contents of files: the owner of the pools.
    Owner,
}

/// A verb of zpool(8) or zfs(8).
pub struct Verb {
    pub name: &'static str,
    pub callers: Callers,
    /// Usage lines, without program and verb.
    pub usage: &'static [&'static str],
    /// Description in one line.
    pub about: &'static str,
    /// Runs it; `None`: OpenZFS has it, Weir does not yet.
    pub run: Option<Run>,
}

impl Callers {
    /// Whether any user may run the verb with these arguments.
    pub fn include_anyone(self, args: &[String]) -> bool {
        match self {
            Self::Anyone => true,
            Self::AnyoneUnless(is_change) => !is_change(args),
            Self::Delegates | Self::Owner => false,
        }
    }
}

/// A verb for any user.
pub const fn for_anyone(name: &'static str, usage: &'static [&'static str], about: &'static str, run: Run) -> Verb {
    Verb { name, callers: Callers::Anyone, usage, about, run: Some(run) }
}

/// A verb for the owner of the pools.
pub const fn for_owner(name: &'static str, usage: &'static [&'static str], about: &'static str, run: Run) -> Verb {
    Verb { name, callers: Callers::Owner, usage, about, run: Some(run) }
}

/// A verb for the owner of the pools, and for those to whom it was delegated.
pub const fn for_delegates(name: &'static str, usage: &'static [&'static str], about: &'static str, run: Run) -> Verb {
    Verb { name, callers: Callers::Delegates, usage, about, run: Some(run) }
}

/// A verb of OpenZFS that Weir does not have yet.
pub const fn not_yet(name: &'static str) -> Verb {
    Verb { name, callers: Callers::Owner, usage: &[], about: "", run: None }
}

impl<'a> Context<'a> {
    /// A run of a verb of `admin` that leaves the line `command` in the history.
    pub fn invocation(&self, command: String) -> Invocation<'a> {
        let (client, owner, state) = (self.client, self.owner.clone(), self.state.clone());
        let house = owner.as_ref().map(|owner| owner.house.clone());
        let mounter = owner.map(|owner| owner as Arc<dyn Mounter>);
        Invocation {
            state: self.state.clone(),
            house,
            mounter: match self.caller.is_owner() {
                true => mounter,
                false => mounter.map(|mounter| Arc::new(Unprivileged::new(mounter)) as Arc<dyn Mounter>),
            },
            caller: self.caller.clone(),
            command,
            unmount_elsewhere: Box::new(move |record, force| {
                crate::mount_process::release_elsewhere(&state, record, force)
            }),
            check_share: daemon::exports::is_understood,
            is_gone: Box::new(move || client.is_gone()),
        }
    }
}

impl Context<'_> {
    /// Prints to standard output. A closed reader is no error: the output was for it.
    pub fn print(&mut self, text: &str) {
        let _ = self.out.write_all(text.as_bytes());
    }

    /// Prints what mounting reports. Returns the exit code.
    pub fn report(&mut self, report: MountReport) -> u8 {
        report.lines.iter().for_each(|line| self.complain(line));
        u8::from(report.failed)
    }

    /// Prints a line to standard error.
    pub fn complain(&mut self, line: &str) {
        let _ = writeln!(self.err, "{line}");
    }
}

/// Runs the verb with which `args` begins.
pub fn dispatch(cx: &mut Context<'_>, program: &str, verbs: &'static [Verb], args: &[String]) -> u8 {
    let code = run(cx, program, verbs, args);
    let _ = cx.out.flush();
    code
}

fn run(cx: &mut Context<'_>, program: &str, verbs: &'static [Verb], args: &[String]) -> u8 {
    let Some(name) = args.first() else {
        cx.complain("missing command");
        let text = overview(program, verbs);
        cx.complain(text.trim_end());
        return 2;
    };
    let name = match name.as_str() {
        "-?" | "-h" | "--help" | "help" => {
            let text = match args.get(1).and_then(|n| verbs.iter().find(|v| v.name == n)) {
                Some(verb) => format!("{}\n{}\n", verb.about, usage(program, verb)),
                None => overview(program, verbs),
            };
            cx.print(&text);
            return 0;
        }
        "-V" | "--version" => "version",
        name => name,
    };
    let Some(verb) = verbs.iter().find(|v| v.name == name) else {
        cx.complain(&format!("unrecognized command '{name}'"));
        let text = overview(program, verbs);
        cx.complain(text.trim_end());
        return 2;
    };
    let Some(run) = verb.run else {
        cx.complain(&format!("unsupported: '{program} {name}' is not in this version of weir"));
        return 1;
    };
    match run(cx, &args[1..]) {
        Ok(code) | Err(Failure::Code(code)) => code,
        Err(Failure::Failed(message)) => {
            cx.complain(&message);
            1
        }
        Err(Failure::Refused { message, code }) => {
            cx.complain(&message);
            code
        }
        Err(Failure::Usage(message)) => {
            if !message.is_empty() {
                cx.complain(&message);
            }
            let text = usage(program, verb);
            cx.complain(text.trim_end());
            2
        }
    }
}

fn usage(program: &str, verb: &Verb) -> String {
    let mut text = "usage:\n".to_owned();
    for line in verb.usage {
        text.push_str(format!("\t{} {line}", verb.name).trim_end());
        text.push('\n');
    }
    text.push_str(&format!("\nFor more, run: weir {program} help\n"));
    text
}

fn overview(program: &str, verbs: &[Verb]) -> String {
    let width = verbs.iter().filter(|v| v.run.is_some()).map(|v| v.name.len()).max().unwrap_or(0);
    let mut text = format!("usage: {program} command args ...\nwhere 'command' is one of the following:\n\n");
    for verb in verbs.iter().filter(|v| v.run.is_some()) {
        text.push_str(&format!("\t{:width$}  {}\n", verb.name, verb.about));
    }
    let missing: Vec<&str> = verbs.iter().filter(|v| v.run.is_none()).map(|v| v.name).collect();
    text.push_str(&format!("\nNot in this version of weir: {}\n", missing.join(", ")));
    text
}

/// Versions printed by `zpool version` and `zfs version`: the OpenZFS release that Weir models, and
/// Weir's own.
pub const VERSIONS: [&str; 2] =
    [concat!("zfs-2.3.2-weir", env!("CARGO_PKG_VERSION")), concat!("zfs-kmod-2.3.2-weir", env!("CARGO_PKG_VERSION"))];

/// `version [-j]` of `zpool` and `zfs`.
pub fn version(cx: &mut Context<'_>, program: &str, args: &[String]) -> Outcome {
    let options = crate::getopt::Options { short: "j", long: &[("json", false, 'j')] };
    let parsed = options.parse(args).map_err(Failure::usage)?;
    if parsed.has('j') {
        let mut document = crate::json::document(&format!("{program} version"));
        let versions = serde_json::json!({"userland": VERSIONS[0], "kernel": VERSIONS[1]});
        document.insert("zfs_version".into(), versions);
        cx.print(&crate::json::line(document));
    } else {
        cx.print(&format!("{}\n{}\n", VERSIONS[0], VERSIONS[1]));
    }
    Ok(0)
}
