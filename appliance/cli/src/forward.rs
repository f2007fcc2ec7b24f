//! Forwards commands to the process that owns the pools. An answer has one frame per line.

use crate::client::{Client, Here};
use crate::http::{self, Reply};
use crate::zfs::datasets::is_path;
use admin::state::{Imported, State};
use anyhow::{Context as _, Result, bail};
use api::{
    COMMAND_BYTES_PATH, COMMAND_ENVIRONMENT, COMMAND_INPUT_PATH, COMMAND_OUTPUT_PATH, COMMANDS_PATH, CommandAnswer,
    CommandFrame, CommandQuestion, CommandRequest, Terminal, Wanted,
};
use daemon::socket;
use serde::Serialize;
use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time limit for the remaining output of a failed command: its reader may have stopped.
const LAST_OUTPUT: Duration = Duration::from_secs(5);
/// Interval at which to check whether it is written.
const LAST_OUTPUT_POLL: Duration = Duration::from_millis(10);
/// Maximum size of an answer that is read as a whole.
const ANSWER_BYTES: usize = 16 << 20;

/// Runs a command line in the process that owns the affected pools. Returns its exit code, or
/// `None` if there is no such process.
pub fn run(state: &State, program: &str, args: &[String]) -> Result<Option<u8>> {
    if let Some(code) = to_daemon(state, program, args)? {
        return Ok(Some(code));
    }
    for record in named(&state.pools()?, program, args) {
        let path = socket::of_pool(state.folder(), record.guid);
        if let Some(stream) = socket::connect(&path)? {
            let code = converse(stream, &path, program, args)?;
            settle(state, record, args, code);
            return Ok(Some(code));
        }
    }
    Ok(None)
}

/// A process that owns a pool because of a mount ends with its last mount. Waits for its end, so
/// that the next command finds the pool free.
fn settle(state: &State, record: &Imported, args: &[String], code: u8) {
    if code == 0 && args.first().is_some_and(|verb| matches!(verb.as_str(), "unmount" | "umount")) {
        crate::mount_process::wait_for(state, record);
    }
}

/// The same for a command whose arguments name no pool: in the first process that owns one.
pub fn run_anywhere(state: &State, program: &str, args: &[String]) -> Result<Option<u8>> {
    if let Some(code) = to_daemon(state, program, args)? {
        return Ok(Some(code));
    }
    for record in state.pools()? {
        if let Some(code) = to_pool(state, &record, program, args)? {
            settle(state, &record, args, code);
            return Ok(Some(code));
        }
    }
    Ok(None)
}

/// The same, only in the daemon.
pub fn to_daemon(state: &State, program: &str, args: &[String]) -> Result<Option<u8>> {
    let path = socket::of_daemon(state.folder());
    match socket::connect(&path)? {
        Some(stream) => converse(stream, &path, program, args).map(Some),
        None => Ok(None),
    }
}

/// The same, in the process that has this pool mounted.
pub fn to_pool(state: &State, record: &Imported, program: &str, args: &[String]) -> Result<Option<u8>> {
    let path = socket::of_pool(state.folder(), record.guid);
    match socket::connect(&path)? {
        Some(stream) => converse(stream, &path, program, args).map(Some),
        None => Ok(None),
    }
}

/// A state of a pool that its owner keeps intact while this value exists.
pub struct Hold(UnixStream);

/// Makes the process that owns the pool write all confirmed changes to disk, and keep space that is
/// freed from then on, so that a reader of the disks sees this state intact. `None`: no accessible
/// process has the pool.
pub fn hold(state: &State, record: &Imported) -> Result<Option<Hold>> {
    for path in [socket::of_daemon(state.folder()), socket::of_pool(state.folder(), record.guid)] {
        // A socket that cannot be opened belongs to another user; the state on the disks must do
        // then.
        let Ok(Some(stream)) = socket::connect(&path) else { continue };
        let request = CommandRequest {
            program: "weir".to_owned(),
            args: vec!["hold".to_owned(), record.name.clone()],
            ..CommandRequest::default()
        };
        let keep = stream.try_clone().context("the connection to the process that owns the pool")?;
        let mut answer = post(stream, COMMANDS_PATH, &request)?;
        if answer.status != 200 {
            tracing::debug!(why = answer.problem(), "reading the pool's last synced state");
            return Ok(None);
        }
        while let Some(line) = answer.line()? {
            match serde_json::from_slice(&line).context("cannot parse the daemon's answer")? {
                CommandFrame::Stdout(_) => return Ok(Some(Hold(keep))),
                CommandFrame::Stderr(text) => tracing::debug!(text, "reading the pool's last synced state"),
                CommandFrame::Ask(_) => {}
                CommandFrame::Exit(_) => break,
            }
        }
        return Ok(None);
    }
    Ok(None)
}

impl Hold {
    /// Whether the state is still intact: a pool that is nearly full needs its space.
    pub fn is_whole(&self) -> bool {
        let mut byte = [0];
        self.0.set_nonblocking(true).is_ok()
            && matches!((&self.0).read(&mut byte), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

/// The imported pools that arguments refer to: by their own names, by a dataset or, for `zfs`, by a
/// path inside the mount of a dataset. Paths in arguments of `zpool` are devices.
fn named<'a>(pools: &'a [Imported], program: &str, args: &'a [String]) -> impl Iterator<Item = &'a Imported> {
    let held = |path: &String| crate::mount_table::holding(&Path::new(path).canonicalize().ok()?, &[]);
    let paths = args.iter().filter(|arg| program == "zfs" && is_path(arg));
    let held: Vec<String> = paths.filter_map(held).collect();
    let is_in = move |pool: &Imported| args.iter().chain(&held).any(|arg| admin::verbs::pool_of(arg) == pool.name);
    pools.iter().filter(move |pool| is_in(pool))
}

fn converse(stream: UnixStream, path: &Path, program: &str, args: &[String]) -> Result<u8> {
    let folder = Here.folder().unwrap_or_else(|_| PathBuf::from("/"));
    let variable = |name: &&str| Some(((*name).to_owned(), Here.variable(name)?));
    let request = CommandRequest {
        program: program.to_owned(),
        args: args.to_vec(),
        cwd: Some(folder.to_string_lossy().into_owned()),
        environment: COMMAND_ENVIRONMENT.iter().filter_map(variable).collect(),
        terminal: Terminal {
            input: io::stdin().is_terminal(),
            output: io::stdout().is_terminal(),
            error: io::stderr().is_terminal(),
        },
    };
    let mut answer = post(stream, COMMANDS_PATH, &request)?;
    if answer.status != 200 {
        bail!("{}", answer.problem());
    }
    let (mut out, mut err) = (io::stdout().lock(), io::stderr().lock());
    let mut output: Option<JoinHandle<()>> = None;
    while let Some(line) = answer.line()? {
        // A closed reader is no error: the output was for it.
        match serde_json::from_slice(&line).context("cannot parse the daemon's answer")? {
            CommandFrame::Stdout(text) => {
                let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
            }
            CommandFrame::Stderr(text) => {
                let _ = err.write_all(text.as_bytes());
            }
            CommandFrame::Ask(CommandQuestion { id, wanted: Wanted::Output }) => output = Some(take(path, &id)?),
            CommandFrame::Ask(CommandQuestion { id, wanted: Wanted::Input }) => give(path, &id)?,
            CommandFrame::Ask(question) => send_answer(path, question)?,
            CommandFrame::Exit(code) => {
                finish(output, code);
                return Ok(code);
            }
        }
    }
    bail!("the process that owns the pools ended before the command did")
}

/// Sends the daemon a request other than a command. Returns the body of the answer; `None`: no
/// daemon runs.
pub fn ask(state: &State, method: &str, path: &str, body: Option<&[u8]>) -> Result<Option<Vec<u8>>> {
    let Some(stream) = socket::connect(&socket::of_daemon(state.folder()))? else { return Ok(None) };
    let mut reply = http::send(stream, method, path, body.unwrap_or_default())?;
    if !(200..300).contains(&reply.status) {
        bail!("{}", reply.problem());
    }
    reply.rest(ANSWER_BYTES).map(Some)
}

/// Requests lines from the daemon, until `each` returns false. `None`: no daemon runs.
pub fn lines(state: &State, path: &str, each: &mut dyn FnMut(&[u8]) -> Result<bool>) -> Result<Option<()>> {
    let Some(stream) = socket::connect(&socket::of_daemon(state.folder()))? else { return Ok(None) };
    let mut reply = http::send(stream, "GET", path, &[])?;
    if !(200..300).contains(&reply.status) {
        bail!("{}", reply.problem());
    }
    while let Some(line) = reply.line()? {
        if !each(&line)? {
            break;
        }
    }
    Ok(Some(()))
}

/// Passes standard input to a command as long as it reads. Its end is not awaited: a command that
/// needs no more input ends.
fn give(path: &Path, id: &str) -> Result<()> {
    let stream = socket::connect(path)?.context("the process that owns the pools ended")?;
    // Bypasses the buffer of the standard library: unread bytes are left to the next program that
    // reads.
    let from = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let path = format!("{COMMAND_BYTES_PATH}?id={id}");
    // The connection is closed only after the answer, which shows that all input was taken. If
    // reading fails, the command notices the closed connection.
    let passed = move || drop(http::send_file(stream, &path, from));
    std::thread::Builder::new().name("input".to_owned()).spawn(passed)?;
    Ok(())
}

/// Copies a command's bytes to standard output, separately from its text. Ends with them, or when
/// standard output is closed: then the command notices the closed connection.
fn take(path: &Path, id: &str) -> Result<JoinHandle<()>> {
    let stream = socket::connect(path)?.context("the process that owns the pools ended")?;
    let mut reply = http::send(stream, "GET", &format!("{COMMAND_OUTPUT_PATH}?id={id}"), &[])?;
    if reply.status != 200 {
        bail!("{}", reply.problem());
    }
    // Bypasses the buffer of the standard library, which is for text.
    let mut to = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let copied = move || {
        while let Ok(Some(piece)) = reply.piece() {
            if to.write_all(&piece).is_err() {
                return;
            }
        }
    };
    Ok(std::thread::Builder::new().name("output".to_owned()).spawn(copied)?)
}

/// Waits until the output of a command that has ended is written. Write errors are already
/// reported.
fn finish(output: Option<JoinHandle<()>>, code: u8) {
    let Some(output) = output else { return };
    let deadline = Instant::now() + LAST_OUTPUT;
    while code != 0 && !output.is_finished() {
        if Instant::now() >= deadline {
            return;
        }
        std::thread::sleep(LAST_OUTPUT_POLL);
    }
    let _ = output.join();
}

/// Answers a question, over a connection of its own.
fn send_answer(path: &Path, question: CommandQuestion) -> Result<()> {
    let answer = match Here.ask(question.wanted) {
        Ok(bytes) => CommandAnswer { id: question.id, bytes: Some(bytes), error: None },
        Err(error) => CommandAnswer { id: question.id, bytes: None, error: Some(error.to_string()) },
    };
    let stream = socket::connect(path)?.context("the process that owns the pools ended")?;
    let mut reply = post(stream, COMMAND_INPUT_PATH, &answer)?;
    if reply.status != 204 {
        bail!("{}", reply.problem());
    }
    Ok(())
}

fn post(stream: UnixStream, path: &str, body: &impl Serialize) -> Result<Reply> {
    http::send(stream, "POST", path, &serde_json::to_vec(body)?)
}
