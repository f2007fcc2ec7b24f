//! Commands that run in the process that owns the pools, with their output and input somewhere else.

use crate::owner::{Owner, Peer};
use api::{CommandAnswer, CommandFrame, CommandQuestion, CommandRequest, Wanted};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;
use tokio::sync::mpsc::Sender;

/// How often a command that waits for an answer looks whether its client is still there.
const POLL: Duration = Duration::from_millis(200);
/// Longest piece of output in one frame.
const FRAME_BYTES: usize = 64 << 10;

/// The program's commands.
pub trait Commands: Send + Sync {
    /// Runs one, and gives its exit code. Called in a thread that may wait.
    fn run(&self, owner: &Arc<Owner>, request: &CommandRequest, io: &Io) -> u8;

    /// Whether a command changes nothing, which is all that others than the pools' owner may do.
    fn only_looks(&self, request: &CommandRequest) -> bool;
}

/// Where a command's output goes and its input comes from.
pub struct Io {
    frames: Sender<CommandFrame>,
    owner: Arc<Owner>,
    peer: Peer,
}

/// Which of the standard streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// A standard stream of the client.
pub struct StreamWriter {
    frames: Sender<CommandFrame>,
    stream: Stream,
    /// The beginning of a character whose end is not written yet.
    part: Vec<u8>,
}

/// Questions that wait for an answer.
#[derive(Default)]
pub(crate) struct Questions(Mutex<HashMap<String, SyncSender<CommandAnswer>>>);

impl Questions {
    /// Passes an answer on; whether anybody waits for it.
    pub fn answer(&self, answer: CommandAnswer) -> bool {
        let waiting = self.0.lock().remove(&answer.id);
        waiting.is_some_and(|to| to.try_send(answer).is_ok())
    }
}

impl Io {
    pub(crate) fn new(frames: Sender<CommandFrame>, owner: Arc<Owner>, peer: Peer) -> Self {
        Self { frames, owner, peer }
    }

    /// One of the client's streams.
    pub fn stream(&self, stream: Stream) -> StreamWriter {
        StreamWriter { frames: self.frames.clone(), stream, part: Vec::new() }
    }

    /// Who asks.
    pub fn peer(&self) -> Peer {
        self.peer
    }

    /// Whether the client went away: what takes long ends early then.
    pub fn is_cancelled(&self) -> bool {
        self.frames.is_closed()
    }

    /// Asks the client.
    pub fn ask(&self, wanted: Wanted) -> io::Result<Vec<u8>> {
        let random = host::random::u64;
        let id = format!("{:016x}{:016x}", random(), random());
        let (to, from) = sync_channel(1);
        let waiting = &self.owner.questions.0;
        waiting.lock().insert(id.clone(), to);
        let gone = || io::Error::new(io::ErrorKind::BrokenPipe, "the client went away");
        let asked = self
            .frames
            .blocking_send(CommandFrame::Ask(CommandQuestion { id: id.clone(), wanted }))
            .map_err(|_| gone());
        let answer = asked.and_then(|()| {
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
        let nobody = || io::Error::other(answer.error.unwrap_or_else(|| "there is nobody to ask".to_owned()));
        answer.bytes.ok_or_else(nobody)
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
            // Cut within a character: its end comes with the next write. What is no text at all is shown as such.
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
