//! Commands that run in the process that owns the pools, while input and output belong to a client.

use crate::peer::Peer;
use api::{CommandAnswer, CommandFrame, CommandQuestion, Wanted};
use axum::body::Bytes;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc::error::SendTimeoutError;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Interval at which a command that waits for an answer checks whether its client is still
/// connected.
const POLL: Duration = Duration::from_millis(200);
/// Maximum size of the output in one frame.
const FRAME_BYTES: usize = 64 << 10;
/// Bytes of output that are passed on at once.
const PIECE_BYTES: usize = 256 << 10;
/// Interval at which to check whether the client has requested the bytes.
const FETCHED_POLL: Duration = Duration::from_millis(2);
/// Limit for pieces that wait for the client.
const PIECES: usize = 4;

/// Input and output of a command.
pub struct Io {
    frames: Sender<CommandFrame>,
    questions: Arc<Questions>,
    peer: Peer,
    cancelled: Arc<AtomicBool>,
}

/// A standard output stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Out,
    Err,
}

/// A writer for one of the client's standard streams.
pub struct StreamWriter {
    frames: Sender<CommandFrame>,
    stream: Stream,
    /// The beginning of a character whose end is not written yet.
    part: Vec<u8>,
}

/// Bytes of a client's standard input.
pub struct Input {
    from: Receiver<io::Result<Bytes>>,
    piece: Bytes,
    transfer: Transfer,
}

/// Bytes for a client's standard output.
pub struct Output {
    to: Sender<Bytes>,
    piece: Vec<u8>,
    transfer: Transfer,
}

/// A transfer of bytes that was requested from a client, separate from its text.
struct Transfer {
    id: String,
    frames: Sender<CommandFrame>,
    cancelled: Arc<AtomicBool>,
    questions: Arc<Questions>,
}

/// Questions that wait for an answer.
#[derive(Default)]
pub(crate) struct Questions {
    waiting: Mutex<HashMap<String, SyncSender<CommandAnswer>>>,
    /// Output that the client has not requested yet.
    outputs: Mutex<HashMap<String, Receiver<Bytes>>>,
    /// Commands that wait for input which has not started yet.
    inputs: Mutex<HashMap<String, Sender<io::Result<Bytes>>>>,
}

/// Runs a command in a thread of its own: a command that takes long, or waits for a device, does
/// not take a thread from other requests.
pub(crate) fn in_thread(run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let runtime = Handle::current();
    let thread = std::thread::Builder::new().name("weir-command".to_owned());
    let thread = thread.spawn(move || {
        let _inside = runtime.enter();
        run();
    });
    thread.map(drop)
}

impl Questions {
    /// Delivers an answer. Returns whether a command was waiting for it.
    pub fn answer(&self, answer: CommandAnswer) -> bool {
        let waiting = self.waiting.lock().remove(&answer.id);
        waiting.is_some_and(|to| to.try_send(answer).is_ok())
    }

    /// The channel for the input that a command requested under this number; it can be taken once.
    /// Dropping it ends the input.
    pub fn input(&self, id: &str) -> Option<Sender<io::Result<Bytes>>> {
        self.inputs.lock().remove(id)
    }

    /// The output that a command offers under this number; it can be taken once. Dropping it ends
    /// the command.
    pub fn output(&self, id: &str) -> Option<Receiver<Bytes>> {
        self.outputs.lock().remove(id)
    }
}

impl Io {
    pub(crate) fn new(frames: Sender<CommandFrame>, questions: Arc<Questions>, peer: Peer) -> Self {
        Self { frames, questions, peer, cancelled: Arc::default() }
    }

    /// A writer for one of the client's streams.
    pub fn stream(&self, stream: Stream) -> StreamWriter {
        StreamWriter { frames: self.frames.clone(), stream, part: Vec::new() }
    }

    /// The calling user and process.
    pub fn peer(&self) -> Peer {
        self.peer.clone()
    }

    /// Whether the client disconnected, or the command was stopped: long operations then end early.
    pub fn is_cancelled(&self) -> bool {
        self.frames.is_closed() || self.cancelled.load(Ordering::Relaxed)
    }

    /// Flag that stops the command.
    pub fn canceller(&self) -> &Arc<AtomicBool> {
        &self.cancelled
    }

    /// Requests the client's standard input.
    pub fn input(&self) -> io::Result<Input> {
        let (to, from) = channel(PIECES);
        let transfer = self.about();
        self.questions.inputs.lock().insert(transfer.id.clone(), to);
        transfer.ask(Wanted::Input)?;
        Ok(Input { from, piece: Bytes::new(), transfer })
    }

    /// Requests the client to write bytes to its standard output.
    pub fn output(&self) -> io::Result<Output> {
        let (to, from) = channel(PIECES);
        let transfer = self.about();
        self.questions.outputs.lock().insert(transfer.id.clone(), from);
        transfer.ask(Wanted::Output)?;
        Ok(Output { to, piece: Vec::with_capacity(PIECE_BYTES), transfer })
    }

    fn about(&self) -> Transfer {
        let (frames, cancelled, questions) = (self.frames.clone(), self.cancelled.clone(), self.questions.clone());
        Transfer { id: number(), frames, cancelled, questions }
    }

    /// Asks the client a question and waits for the answer.
    pub fn ask(&self, wanted: Wanted) -> io::Result<Vec<u8>> {
        let id = number();
        let (to, from) = sync_channel(1);
        let waiting = &self.questions.waiting;
        waiting.lock().insert(id.clone(), to);
        let sent = self
            .frames
            .blocking_send(CommandFrame::Ask(CommandQuestion { id: id.clone(), wanted }))
            .map_err(|_| gone());
        let answer = sent.and_then(|()| {
            loop {
                match from.recv_timeout(POLL) {
                    Ok(answer) => return Ok(answer),
                    Err(RecvTimeoutError::Timeout) if !self.is_cancelled() => {}
                    Err(_) => return Err(gone()),
                }
            }
        });
        waiting.lock().remove(&id);
        let answer = answer?;
        let no_prompt = || io::Error::other(answer.error.unwrap_or_else(|| "cannot prompt for input".to_owned()));
        answer.bytes.ok_or_else(no_prompt)
    }
}

fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the client disconnected")
}

/// Number of a question; it cannot be guessed.
fn number() -> String {
    let random = host::random::u64;
    format!("{:016x}{:016x}", random(), random())
}

impl Transfer {
    fn ask(&self, wanted: Wanted) -> io::Result<()> {
        let question = CommandQuestion { id: self.id.clone(), wanted };
        self.frames.blocking_send(CommandFrame::Ask(question)).map_err(|_| gone())
    }

    /// Fails if the client has disconnected or the command was stopped.
    fn check(&self) -> io::Result<()> {
        match () {
            () if self.cancelled.load(Ordering::Relaxed) => Err(io::Error::other("it was stopped")),
            () if self.frames.is_closed() => Err(gone()),
            () => Ok(()),
        }
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        // They may not have been taken.
        self.questions.inputs.lock().remove(&self.id);
        self.questions.outputs.lock().remove(&self.id);
    }
}

impl Read for Input {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() && !buf.is_empty() {
            let came = match Handle::try_current() {
                Ok(runtime) => runtime.block_on(async { tokio::time::timeout(POLL, self.from.recv()).await }),
                Err(_) => Ok(self.from.blocking_recv()),
            };
            match came {
                Ok(Some(piece)) => self.piece = piece?,
                Ok(None) => return Ok(0),
                Err(_) => self.transfer.check()?,
            }
        }
        let taken = self.piece.split_to(self.piece.len().min(buf.len()));
        buf[..taken.len()].copy_from_slice(&taken);
        Ok(taken.len())
    }
}

impl Output {
    fn pass(&mut self, mut piece: Bytes) -> io::Result<()> {
        while !piece.is_empty() {
            let sent = match Handle::try_current() {
                Ok(runtime) => runtime.block_on(self.to.send_timeout(piece, POLL)),
                Err(_) => self.to.blocking_send(piece).map_err(|e| SendTimeoutError::Closed(e.0)),
            };
            piece = match sent {
                Ok(()) => break,
                Err(SendTimeoutError::Timeout(piece)) => {
                    self.transfer.check()?;
                    piece
                }
                Err(SendTimeoutError::Closed(_)) => return Err(gone()),
            };
        }
        Ok(())
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(PIECE_BYTES - self.piece.len());
        self.piece.extend_from_slice(&bytes[..taken]);
        if self.piece.len() == PIECE_BYTES {
            self.flush()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE_BYTES));
        self.pass(piece.into())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // A short stream may end before its client has requested it.
        let is_waiting = || self.transfer.questions.outputs.lock().contains_key(&self.transfer.id);
        while is_waiting() && !self.transfer.frames.is_closed() {
            std::thread::sleep(FETCHED_POLL);
        }
    }
}

impl StreamWriter {
    fn send(&mut self, text: String) -> io::Result<()> {
        let frame = match self.stream {
            Stream::Out => CommandFrame::Stdout(text),
            Stream::Err => CommandFrame::Stderr(text),
        };
        self.frames.blocking_send(frame).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Write for StreamWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(FRAME_BYTES);
        self.part.extend_from_slice(&bytes[..taken]);
        let whole = match std::str::from_utf8(&self.part) {
            Ok(_) => self.part.len(),
            // The text is cut within a character: the rest comes with the next write. Invalid bytes
            // are replaced.
            Err(e) if e.error_len().is_none() => e.valid_up_to(),
            Err(_) => self.part.len(),
        };
        let rest = self.part.split_off(whole);
        let text = String::from_utf8_lossy(&std::mem::replace(&mut self.part, rest)).into_owned();
        if !text.is_empty() {
            self.send(text)?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for StreamWriter {
    fn drop(&mut self) {
        if !self.part.is_empty() {
            let text = String::from_utf8_lossy(&std::mem::take(&mut self.part)).into_owned();
            let _ = self.send(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_come_in_two_pieces_arrive_whole() {
        let (frames, mut got) = tokio::sync::mpsc::channel(8);
        let mut out = StreamWriter { frames, stream: Stream::Out, part: Vec::new() };
        let text = "aé".as_bytes();
        out.write_all(&text[..2]).expect("sent");
        out.write_all(&text[2..]).expect("sent");
        out.write_all(b"\xff!").expect("sent");
        out.write_all(&text[1..2]).expect("sent");
        drop(out);
        let mut all = Vec::new();
        while let Some(frame) = got.blocking_recv() {
            all.push(frame);
        }
        let expected = ["a", "é", "\u{fffd}!", "\u{fffd}"].map(|t| CommandFrame::Stdout(t.to_owned()));
        assert_eq!(all, expected);
    }
}
