//! Context of a verb of `weir zpool` and `weir zfs`: its output, the imported pools, its result.

use crate::client::{Client, Here};
use crate::exit_code::SOME_FAILED;
use admin::mounts::{MountReport, Mounter};
use admin::state::State;
use admin::verbs::{Caller, Invocation, Refusal, Unprivileged};
use daemon::{Owner, key_server};
use std::io::Write;
use std::path::Path;
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

impl<'a> Context<'a> {
    /// For a verb that the user of this process runs in it, for themselves.
    pub fn here(out: &'a mut dyn Write, err: &'a mut dyn Write, state: State) -> Self {
        Self { out, err, state, client: &Here, owner: None, caller: Caller::owner() }
    }

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
            fetch: Box::new(move |url| {
                let file = |name: &str| client.absolute(Path::new(&client.variable(name)?)).ok();
                key_server::get(url, &key_server::Certificates::new(file)).map_err(anyhow::Error::msg)
            }),
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

    /// Ends a command of Weir's own: flushes its output, and prints the message of a failure, whose
    /// exit code is [`SOME_FAILED`]. Returns the exit code.
    pub fn conclude(&mut self, done: Outcome) -> u8 {
        let _ = self.out.flush();
        match done {
            Ok(code) | Err(Failure::Code(code)) => code,
            Err(Failure::Failed(message) | Failure::Usage(message) | Failure::Refused { message, .. }) => {
                self.complain(&message);
                SOME_FAILED
            }
        }
    }

    /// Prints a line to standard error.
    pub fn complain(&mut self, line: &str) {
        let _ = writeln!(self.err, "{line}");
    }
}
