//! The caller of a command: its directory, its environment, and its answers to questions.
//!
//! The caller of a command that runs alone is this process ([`Here`]). The caller of a command that
//! runs in a process that owns pools is another process ([`There`]), which is reached through its
//! connection.

use crate::vdev_scripts;
use admin::keys::Question;
use api::{CommandRequest, Wanted};
use daemon::{Io, Peer};
use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The caller of one command, in this process or at the other end of a connection.
pub trait Client {
    /// The directory to which paths are relative.
    fn folder(&self) -> io::Result<PathBuf>;
    /// An environment variable, one of [`api::COMMAND_ENVIRONMENT`].
    fn variable(&self, name: &str) -> Option<String>;
    /// Whether standard input is a terminal.
    fn input_is_terminal(&self) -> bool;
    /// Whether standard output is a terminal.
    fn output_is_terminal(&self) -> bool;
    /// Asks for bytes of standard input, or for text that a person types.
    fn ask(&self, wanted: Wanted) -> io::Result<Vec<u8>>;
    /// Its standard input, for reading as far as needed.
    fn input(&self) -> io::Result<Box<dyn Read + '_>>;
    /// A writer for bytes to its standard output, if text takes a different path; all bytes are
    /// written when it is dropped. `None`: both take the same path.
    fn output(&self) -> io::Result<Option<Box<dyn Write + '_>>> {
        Ok(None)
    }
    /// The calling process, if it is another one, and the flag that stops the command.
    fn caller(&self) -> Option<(Peer, Arc<AtomicBool>)> {
        None
    }
    /// Whether the caller has disconnected.
    fn is_gone(&self) -> bool {
        false
    }

    /// Prompts for a secret, which is not echoed.
    fn secret(&self, prompt: &str) -> io::Result<String> {
        let typed = self.ask(Wanted::Secret(prompt.to_owned()))?;
        String::from_utf8(typed).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "the input is not valid text"))
    }

    /// Asks for a key: at a terminal a person, otherwise standard input, of which a line is read,
    /// or for a raw key up to 33 bytes, so that one that is too long is noticed. Facts:
    /// get_key_material in lib/libzfs/libzfs_crypto.c.
    fn key(&self, question: &Question<'_>) -> io::Result<Vec<u8>> {
        match (self.input_is_terminal(), question.is_raw) {
            (true, true) => {
                Err(io::Error::other("a raw key cannot be entered at a terminal: use keylocation=file:///path"))
            }
            (true, false) => self.ask(Wanted::Secret(question.prompt.to_owned())),
            (false, true) => self.ask(Wanted::Bytes(33)),
            (false, false) => self.ask(Wanted::Line),
        }
    }

    /// The path as an absolute path.
    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        if path.as_os_str().is_empty() {
            std::path::absolute(path)
        } else {
            std::path::absolute(self.folder()?.join(path))
        }
    }
}

/// The client is this process: a command run without a daemon.
#[derive(Debug, Clone, Copy, Default)]
pub struct Here;

impl Client for Here {
    fn folder(&self) -> io::Result<PathBuf> {
        std::env::current_dir()
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn input_is_terminal(&self) -> bool {
        io::stdin().is_terminal()
    }

    fn output_is_terminal(&self) -> bool {
        io::stdout().is_terminal()
    }

    fn ask(&self, wanted: Wanted) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        match wanted {
            Wanted::Secret(prompt) => return Ok(rpassword::prompt_password(prompt)?.into_bytes()),
            Wanted::Line => {
                io::stdin().lock().read_until(b'\n', &mut bytes)?;
                bytes.pop_if(|last| *last == b'\n');
            }
            Wanted::Scripts(scripts) => return Ok(serde_json::to_vec(&vdev_scripts::run(&scripts)?)?),
            // Handled by the process that forwards commands, not requested here.
            Wanted::Input | Wanted::Output => return Err(io::ErrorKind::Unsupported.into()),
            Wanted::Bytes(most) => {
                io::stdin().lock().take(u64::from(most)).read_to_end(&mut bytes)?;
            }
        }
        Ok(bytes)
    }

    fn input(&self) -> io::Result<Box<dyn Read + '_>> {
        // Bypasses the buffer of the standard library: unread bytes are left to the next program
        // that reads.
        Ok(Box::new(std::fs::File::from(io::stdin().as_fd().try_clone_to_owned()?)))
    }
}

/// Another process, connected to this one.
pub struct There<'a> {
    pub request: &'a CommandRequest,
    pub io: &'a Io,
}

impl Client for There<'_> {
    fn folder(&self) -> io::Result<PathBuf> {
        Ok(PathBuf::from(self.request.cwd.as_deref().unwrap_or("/")))
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.request.environment.get(name).cloned()
    }

    fn input_is_terminal(&self) -> bool {
        self.request.terminal.input
    }

    fn output_is_terminal(&self) -> bool {
        self.request.terminal.output
    }

    fn ask(&self, wanted: Wanted) -> io::Result<Vec<u8>> {
        self.io.ask(wanted)
    }

    fn input(&self) -> io::Result<Box<dyn Read + '_>> {
        Ok(Box::new(self.io.input()?))
    }

    fn output(&self) -> io::Result<Option<Box<dyn Write + '_>>> {
        Ok(Some(Box::new(self.io.output()?)))
    }

    fn caller(&self) -> Option<(Peer, Arc<AtomicBool>)> {
        Some((self.io.peer(), self.io.canceller().clone()))
    }

    fn is_gone(&self) -> bool {
        self.io.is_cancelled()
    }
}
