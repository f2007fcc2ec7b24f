//! Changes: run the same commands that people type, so that results and messages are the same.
//!
//! Invariants:
//!   * text from a request is an operand or the argument of an option, never an option itself:
//!     names are validated, and operands come after `--`
//!   * questions of a command are answered from the request, or not at all

use super::Service;
use super::caller::Caller;
use super::reply::{Answer, Problem};
use crate::command::{Io, in_thread};
use crate::events::Happening;
use admin::verbs::pool_of;
use api::{CommandAnswer, CommandFrame, CommandRequest, Wanted};
use api::{ErrorCode, EventKind, LiveMessage};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::mpsc::channel;

/// Limit for the text of a command that is kept.
const TEXT_BYTES: usize = 64 << 10;
/// Limit for frames that wait to be read.
const FRAMES: usize = 16;

/// A command line under construction.
pub struct Verb {
    verb: &'static str,
    options: Vec<String>,
    operands: Vec<String>,
}

impl Verb {
    /// `zpool VERB`.
    pub fn zpool(verb: &'static str) -> Self {
        Self { verb, options: Vec::new(), operands: Vec::new() }
    }

    /// An option without argument, if `wanted`.
    pub fn flag(mut self, letter: &str, wanted: bool) -> Self {
        if wanted {
            self.options.push(letter.to_owned());
        }
        self
    }

    /// An option with its argument, as one word.
    pub fn option(mut self, letter: &str, argument: &str) -> Self {
        self.options.push(format!("{letter}{argument}"));
        self
    }

    /// `-o name=value` for each property.
    pub fn properties(mut self, letter: &str, properties: &BTreeMap<String, String>) -> Answer<Self> {
        for (name, value) in properties {
            property_name(name)?;
            property_value(name, value)?;
            self.options.extend([letter.to_owned(), format!("{name}={value}")]);
        }
        Ok(self)
    }

    /// Adds an operand.
    pub fn on(mut self, operand: impl Into<String>) -> Self {
        self.operands.push(operand.into());
        self
    }

    /// The line for the audit log.
    fn line(&self) -> String {
        let words = ["zpool", self.verb].into_iter().map(str::to_owned);
        words.chain(self.options.iter().cloned()).chain(self.operands.iter().cloned()).collect::<Vec<_>>().join(" ")
    }

    /// Runs the command. Returns its line for the audit log.
    pub async fn run(self, service: &Arc<Service>, caller: &Caller) -> Answer<String> {
        let line = self.line();
        let pool = self.operands.first().map(|name| pool_of(name).to_owned()).unwrap_or_default();
        let mut out = String::new();
        let done = self.spoken(service, caller, |text| keep(&mut out, &text)).await;
        service.changed(&pool);
        let err = done?;
        service.reschedule(&line);
        if err.code == 0 {
            service.events.tell(Happening::info(EventKind::Pool, line.clone()).about(pool).by(caller.name()));
            return Ok(line);
        }
        Err(err.problem(&out))
    }

    /// Runs the command and passes its output on as it comes.
    async fn spoken(self, service: &Arc<Service>, caller: &Caller, mut take: impl FnMut(String)) -> Answer<Ended> {
        let mut args = vec![self.verb.to_owned()];
        args.extend(self.options);
        args.push("--".to_owned());
        args.extend(self.operands);
        let request = CommandRequest {
            program: "zpool".to_owned(),
            args,
            cwd: Some("/".to_owned()),
            ..CommandRequest::default()
        };
        let (frames, mut got) = channel(FRAMES);
        let (owner, peer) = (service.owner.clone(), caller.peer());
        let (ended, running) = tokio::sync::oneshot::channel();
        let begun = in_thread(move || {
            let code = owner.begin().map(|_running| {
                let io = Io::new(frames, owner.clone(), peer);
                owner.commands.run(&owner, &request, &io)
            });
            // The request may have been dropped.
            let _ = ended.send(code);
        });
        begun.map_err(|error| {
            Problem::new(ErrorCode::Unavailable, format!("cannot start a thread for the command: {error}"))
        })?;
        let mut said = String::new();
        while let Some(frame) = got.recv().await {
            match frame {
                CommandFrame::Stdout(text) => take(text),
                CommandFrame::Stderr(text) => keep(&mut said, &text),
                // Dropped: the interface neither supplies nor takes bytes.
                CommandFrame::Ask(question) if question.wanted == Wanted::Output => {
                    drop(service.owner.questions.output(&question.id));
                }
                CommandFrame::Ask(question) if question.wanted == Wanted::Input => {
                    drop(service.owner.questions.input(&question.id));
                }
                CommandFrame::Ask(question) => {
                    let error = Some("a passphrase is required".to_owned());
                    service.owner.questions.answer(CommandAnswer { id: question.id, bytes: None, error });
                }
                CommandFrame::Exit(_) => {}
            }
        }
        match running.await {
            Ok(Some(code)) => Ok(Ended { code, said }),
            Ok(None) => Err(Problem::new(ErrorCode::Unavailable, "the daemon is starting or stopping")),
            Err(_) => Err(Problem::new(ErrorCode::Internal, "internal error; see the log")),
        }
    }
}

/// Result of a command.
struct Ended {
    code: u8,
    /// Text on standard error.
    said: String,
}

impl Ended {
    /// Why it failed. A command without an error message may have printed the reason.
    fn problem(&self, printed: &str) -> Problem {
        let said = self.said.trim();
        explain(if said.is_empty() { printed.trim() } else { said }, self.code)
    }
}

/// Adds text up to the limit.
fn keep(to: &mut String, text: &str) {
    if to.len() + text.len() <= TEXT_BYTES {
        to.push_str(text);
    }
}

impl Service {
    /// Notifies subscribers that pools and datasets may have changed.
    pub fn changed(&self, pool: &str) {
        self.exports.changed();
        self.watch.wake();
        if !pool.is_empty() {
            self.events.pass(LiveMessage::Datasets { pool: pool.to_owned() });
        }
    }
}

/// Kind of a failure, from the command's message: the messages are OpenZFS's, which scripts parse
/// too.
fn explain(said: &str, code: u8) -> Problem {
    let has = |words: &[&str]| words.iter().any(|w| said.contains(w));
    let kind = match () {
        () if has(&["does not exist", "no such pool", "no such device", "no such tag", "could not find"]) => {
            ErrorCode::NotFound
        }
        () if has(&["already exists", "busy", "in use", "has children", "already", "is part of"])
            || has(&["being held", "has dependent clones", "is cloned", "clones of previous", "more recent snap"]) =>
        {
            ErrorCode::Conflict
        }
        () if has(&["permission denied"]) => ErrorCode::Forbidden,
        () if has(&["unsupported", "is not in this version"]) => ErrorCode::Unsupported,
        () if code == 2 || has(&["invalid", "must be", "bad property", "readonly property", "missing"]) => {
            ErrorCode::InvalidRequest
        }
        () => ErrorCode::Failed,
    };
    // A usage error is followed by the usage text, which is useless here.
    let said = said.split("\nusage:").next().unwrap_or(said).trim();
    Problem::new(kind, if said.is_empty() { format!("the command exited with {code}") } else { said.to_owned() })
}

/// Properties of a request, if their names and values are possible.
pub fn assignments(properties: BTreeMap<String, String>) -> Answer<Vec<(String, String)>> {
    for (name, value) in &properties {
        property_name(name)?;
        property_value(name, value)?;
    }
    Ok(properties.into_iter().collect())
}

/// Refuses invalid names of pools, datasets, snapshots and bookmarks.
pub fn dataset_name<'a>(place: &str, name: &'a str) -> Answer<&'a str> {
    let first = name.chars().next().is_some_and(char::is_alphanumeric);
    let rest = name.chars().all(|c| c.is_alphanumeric() || "-_.: /@#%".contains(c));
    match first && rest && name.len() < 256 {
        true => Ok(name),
        false => Err(Problem::invalid(
            place,
            format!("'{name}'"),
            "a name that begins with a letter or digit, of letters, digits, '-', '_', '.', ':' and '/'",
        )),
    }
}

/// Refuses invalid property names.
pub fn property_name(name: &str) -> Answer<&str> {
    let first = name.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
    let rest = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.:@#".contains(c));
    match first && rest && name.len() < 256 {
        true => Ok(name),
        false => Err(Problem::invalid("property", format!("'{name}'"), "the name of a property")),
    }
}

fn property_value(name: &str, value: &str) -> Answer<()> {
    match value.contains('\0') || value.len() > 8192 {
        true => Err(Problem::invalid(name, "too long, or has a zero byte", "at most 8192 bytes of text")),
        false => Ok(()),
    }
}

/// Refuses paths that are not absolute.
pub fn absolute_path<'a>(place: &str, path: &'a str) -> Answer<&'a str> {
    match path.starts_with('/') && !path.contains('\0') && path.len() < 4096 {
        true => Ok(path),
        false => Err(Problem::invalid(place, format!("'{path}'"), "an absolute path")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_from_a_request_is_never_an_option() {
        for name in ["-f", "", "--help", "a\nb", "tank/$(x)", &"x".repeat(256)] {
            assert!(dataset_name("name", name).is_err(), "{name}");
        }
        for name in ["tank", "tank/a b", "tank/a@s:1", "tank#b", "9lives", "tank/ü"] {
            assert!(dataset_name("name", name).is_ok(), "{name}");
        }
        assert!(property_name("-o").is_err() && property_name("a=b").is_err() && property_name("org.x:y").is_ok());
        assert!(absolute_path("path", "-x").is_err() && absolute_path("path", "/dev/sda").is_ok());
        let properties = BTreeMap::from([("compression".to_owned(), "-rf".to_owned())]);
        let verb = Verb::zpool("create").flag("-f", true).properties("-O", &properties).expect("names").on("tank");
        assert_eq!(verb.line(), "zpool create -f -O compression=-rf tank");
    }

    #[test]
    fn failures_have_the_kind_that_their_sentence_says() {
        for (said, code, kind) in [
            ("cannot open 'tank/x': dataset does not exist", 1, ErrorCode::NotFound),
            ("cannot create 'tank/x': dataset already exists", 1, ErrorCode::Conflict),
            ("cannot export 'tank': pool is busy", 1, ErrorCode::Conflict),
            ("cannot destroy snapshot tank@a: it's being held.", 1, ErrorCode::Conflict),
            ("cannot rollback to 'tank@a': more recent snapshots or bookmarks exist", 1, ErrorCode::Conflict),
            ("could not find any snapshots to destroy; check snapshot names.", 1, ErrorCode::NotFound),
            ("unsupported: 'zfs snapshot' is not in this version of weir", 1, ErrorCode::Unsupported),
            ("missing pool argument\nusage:\n\tclear pool", 2, ErrorCode::InvalidRequest),
            ("cannot receive: out of space", 1, ErrorCode::Failed),
        ] {
            let problem = explain(said, code);
            assert_eq!(problem.body.code, kind, "{said}");
            assert!(!problem.body.message.contains("usage"));
        }
    }
}
