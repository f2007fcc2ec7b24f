//! Forwards commands to the process that owns the pools.
//!
//! A minimal HTTP/1.1 client: one request, and a chunked answer with one frame per line.

use crate::client::{Client, Here};
use crate::zfs::datasets::is_path;
use admin::state::{Imported, State};
use anyhow::{Context as _, Result, bail};
use api::{
    COMMAND_BYTES_PATH, COMMAND_ENVIRONMENT, COMMAND_INPUT_PATH, COMMAND_OUTPUT_PATH, COMMANDS_PATH, CommandAnswer,
    CommandFrame, CommandQuestion, CommandRequest, ErrorReply, Terminal, Wanted,
};
use daemon::socket;
use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Maximum length of a line in an answer.
const LINE_BYTES: u64 = 1 << 20;
/// Bytes of an answer read at a time.
const READ_BYTES: usize = 8 << 10;
/// The same if the answer is a command's output.
const OUTPUT_READ_BYTES: usize = 256 << 10;
/// Limit for the bytes of standard input that are passed on at a time.
const INPUT_READ_BYTES: usize = 256 << 10;
/// Time limit for the remaining output of a failed command: its reader may have stopped.
const LAST_OUTPUT: Duration = Duration::from_secs(5);
/// Interval at which to check whether it is written.
const LAST_OUTPUT_POLL: Duration = Duration::from_millis(10);
/// Maximum size of an answer that is read as a whole.
const ANSWER_BYTES: u64 = 16 << 20;

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
        let Ok(Some(mut stream)) = socket::connect(&path) else { continue };
        let request = CommandRequest {
            program: "weir".to_owned(),
            args: vec!["hold".to_owned(), record.name.clone()],
            ..CommandRequest::default()
        };
        let keep = stream.try_clone().context("the connection to the process that owns the pool")?;
        post(&mut stream, COMMANDS_PATH, &serde_json::to_vec(&request)?)?;
        let mut answer = Reply::begin(stream)?;
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

fn converse(mut stream: UnixStream, path: &Path, program: &str, args: &[String]) -> Result<u8> {
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
    post(&mut stream, COMMANDS_PATH, &serde_json::to_vec(&request)?)?;
    let mut answer = Reply::begin(stream)?;
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
    let Some(mut stream) = socket::connect(&socket::of_daemon(state.folder()))? else { return Ok(None) };
    send(&mut stream, method, path, body.unwrap_or_default())?;
    let mut reply = Reply::begin(stream)?;
    if !(200..300).contains(&reply.status) {
        bail!("{}", reply.problem());
    }
    while reply.more()? {
        if reply.line.len() as u64 > ANSWER_BYTES {
            bail!("the daemon's answer is longer than expected");
        }
    }
    Ok(Some(reply.line))
}

/// Requests lines from the daemon, until `each` returns false. `None`: no daemon runs.
pub fn lines(state: &State, path: &str, each: &mut dyn FnMut(&[u8]) -> Result<bool>) -> Result<Option<()>> {
    let Some(mut stream) = socket::connect(&socket::of_daemon(state.folder()))? else { return Ok(None) };
    send(&mut stream, "GET", path, &[])?;
    let mut reply = Reply::begin(stream)?;
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
    let mut stream = socket::connect(path)?.context("the process that owns the pools ended")?;
    let head = format!(
        "POST {COMMAND_BYTES_PATH}?id={id} HTTP/1.1\r\nHost: weir\r\nContent-Type: application/octet-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).context("the daemon does not listen")?;
    // Bypasses the buffer of the standard library: unread bytes are left to the next program that
    // reads.
    let mut from = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let copied = move || {
        let mut piece = vec![0; INPUT_READ_BYTES];
        // If reading fails, the command notices the closed connection.
        while let Ok(read) = from.read(&mut piece) {
            let head = format!("{read:x}\r\n");
            let parts = [head.as_bytes(), &piece[..read], b"\r\n"];
            if parts.iter().any(|part| stream.write_all(part).is_err()) || read == 0 {
                // The connection is closed only after the answer, which shows that all input was
                // taken.
                let _ = head_line(&mut BufReader::new(stream));
                return;
            }
        }
    };
    std::thread::Builder::new().name("input".to_owned()).spawn(copied)?;
    Ok(())
}

/// Copies a command's bytes to standard output, separately from its text. Ends with them, or when
/// standard output is closed: then the command notices the closed connection.
fn take(path: &Path, id: &str) -> Result<JoinHandle<()>> {
    let mut stream = socket::connect(path)?.context("the process that owns the pools ended")?;
    send(&mut stream, "GET", &format!("{COMMAND_OUTPUT_PATH}?id={id}"), &[])?;
    let mut reply = Reply::with_capacity(stream, OUTPUT_READ_BYTES)?;
    if reply.status != 200 {
        bail!("{}", reply.problem());
    }
    // Bypasses the buffer of the standard library, which is for text.
    let mut to = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let copied = move || {
        while let Ok(true) = reply.more() {
            if to.write_all(&reply.line).is_err() {
                return;
            }
            reply.line.clear();
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
    let mut stream = socket::connect(path)?.context("the process that owns the pools ended")?;
    post(&mut stream, COMMAND_INPUT_PATH, &serde_json::to_vec(&answer)?)?;
    let mut reply = Reply::begin(stream)?;
    if reply.status != 204 {
        bail!("{}", reply.problem());
    }
    Ok(())
}

fn post(stream: &mut UnixStream, path: &str, body: &[u8]) -> Result<()> {
    send(stream, "POST", path, body)
}

fn send(stream: &mut UnixStream, method: &str, path: &str, body: &[u8]) -> Result<()> {
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: weir\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)).context("the daemon does not listen")
}

/// An answer, read incrementally.
struct Reply {
    status: u16,
    stream: BufReader<UnixStream>,
    body: Body,
    /// The part of the current line that was read so far.
    line: Vec<u8>,
}

enum Body {
    /// Known length; remaining bytes.
    Sized(u64),
    /// Chunked; remaining bytes of the current chunk.
    Chunked(u64),
    Ended,
}

impl Reply {
    fn begin(stream: UnixStream) -> Result<Self> {
        Self::with_capacity(stream, READ_BYTES)
    }

    fn with_capacity(stream: UnixStream, bytes: usize) -> Result<Self> {
        let mut stream = BufReader::with_capacity(bytes, stream);
        let first = head_line(&mut stream)?;
        let status = first.split(' ').nth(1).and_then(|s| s.parse().ok());
        let status = status.with_context(|| format!("cannot parse the daemon's answer: '{first}'"))?;
        let mut body = Body::Sized(0);
        loop {
            let line = head_line(&mut stream)?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').unwrap_or((&line, ""));
            match (name.to_ascii_lowercase().as_str(), value.trim()) {
                ("content-length", n) => body = Body::Sized(n.parse().context("the length of the answer")?),
                ("transfer-encoding", "chunked") => body = Body::Chunked(0),
                _ => {}
            }
        }
        Ok(Self { status, stream, body, line: Vec::new() })
    }

    /// Reads more of the body. Returns false at its end.
    fn more(&mut self) -> Result<bool> {
        let left = match &mut self.body {
            Body::Ended | Body::Sized(0) => return Ok(false),
            Body::Sized(left) => left,
            Body::Chunked(left) => {
                if *left == 0 {
                    let size = head_line(&mut self.stream)?;
                    let digits = size.split(';').next().unwrap_or_default().trim();
                    *left = u64::from_str_radix(digits, 16).context("cannot parse the daemon's answer")?;
                    if *left == 0 {
                        self.body = Body::Ended;
                        return Ok(false);
                    }
                }
                left
            }
        };
        let waiting = self.stream.fill_buf()?;
        if waiting.is_empty() {
            bail!("the process that owns the pools ended before the command did");
        }
        let taken = waiting.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
        self.line.extend_from_slice(&waiting[..taken]);
        self.stream.consume(taken);
        *left -= taken as u64;
        if *left == 0 && matches!(self.body, Body::Chunked(_)) {
            head_line(&mut self.stream)?;
        }
        Ok(true)
    }

    /// The next line of the body.
    fn line(&mut self) -> Result<Option<Vec<u8>>> {
        loop {
            if let Some(end) = self.line.iter().position(|b| *b == b'\n') {
                let rest = self.line.split_off(end + 1);
                return Ok(Some(std::mem::replace(&mut self.line, rest)));
            }
            if self.line.len() as u64 > LINE_BYTES {
                bail!("cannot parse the daemon's answer: a line without end");
            }
            if !self.more()? {
                return Ok(None);
            }
        }
    }

    /// Message of an error answer.
    fn problem(&mut self) -> String {
        while (self.line.len() as u64) < LINE_BYTES && matches!(self.more(), Ok(true)) {}
        match serde_json::from_slice::<ErrorReply>(&self.line) {
            Ok(reply) => reply.error.message,
            Err(_) => format!("the daemon answers {}: {}", self.status, String::from_utf8_lossy(&self.line).trim()),
        }
    }
}

/// Reads a line that ends with CR LF.
fn head_line(stream: &mut BufReader<UnixStream>) -> Result<String> {
    let mut line = Vec::new();
    stream.take(LINE_BYTES).read_until(b'\n', &mut line)?;
    if line.pop() != Some(b'\n') {
        bail!("the process that owns the pools ended before the command did");
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    Ok(String::from_utf8_lossy(&line).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(text: &str) -> Result<Reply> {
        let (mut ours, theirs) = UnixStream::pair().expect("a pair");
        ours.write_all(text.as_bytes()).expect("written");
        drop(ours);
        Reply::begin(theirs)
    }

    fn lines(text: &str) -> Result<Vec<String>> {
        let mut reply = reply(text)?;
        let mut lines = Vec::new();
        while let Some(line) = reply.line()? {
            lines.push(String::from_utf8(line)?);
        }
        Ok(lines)
    }

    #[test]
    fn answers_in_pieces_are_put_together() {
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        let text = format!("{head}3\r\na\nb\r\n2;x=y\r\nc\n\r\n0\r\n\r\n");
        assert_eq!(lines(&text).expect("whole"), ["a\n", "bc\n"]);
        assert_eq!(lines("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\na\nb\nmore").expect("whole"), ["a\n", "b\n"]);
        assert!(lines(&format!("{head}5\r\na\nb")).is_err(), "it broke off");
        assert!(reply("HTTP/1.1 200").is_err());
        let problem =
            "HTTP/1.1 503 X\r\nContent-Length: 48\r\n\r\n{\"error\":{\"code\":\"unavailable\",\"message\":\"why\"}}";
        assert_eq!(reply(problem).expect("whole").problem(), "why");
    }
}
