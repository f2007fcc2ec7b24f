//! `POST /v1/commands`: a command line, run by the process that owns the pool.
//!
//! The response is a stream of [`CommandFrame`]s, one JSON document per line
//! (`application/x-ndjson`), that ends with [`CommandFrame::Exit`]. A command that needs input from
//! the user (a passphrase) sends [`CommandFrame::Ask`], and waits until the client posts a
//! [`CommandAnswer`] to `/v1/commands/input`. A command that produces bytes instead of text (`zfs
//! send`) asks for [`Wanted::Output`]; the client reads them from `/v1/commands/output`. A command
//! that consumes bytes (`zfs receive`) asks for [`Wanted::Input`]; the client sends them to
//! `/v1/commands/bytes`. Closing the connection cancels the command.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Where commands are posted.
pub const COMMANDS_PATH: &str = "/v1/commands";
/// Where answers are posted.
pub const COMMAND_INPUT_PATH: &str = "/v1/commands/input";
/// Where bytes of standard input are posted.
pub const COMMAND_BYTES_PATH: &str = "/v1/commands/bytes";
/// Where bytes for standard output are read.
pub const COMMAND_OUTPUT_PATH: &str = "/v1/commands/output";
/// Variables of the client's environment that commands look at.
pub const COMMAND_ENVIRONMENT: &[&str] =
    &["ZPOOL_IMPORT_PATH", "TZ", "SSL_CA_CERT_FILE", "SSL_CA_CERT_PATH", "SSL_CLIENT_CERT_FILE", "SSL_CLIENT_KEY_FILE"];

/// A command as on the command line: runs with the same code, options, text and exit code.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandRequest {
    /// `zpool`, `zfs`, or `weir` for Weir's own verbs.
    pub program: String,
    /// Its arguments, the verb first.
    pub args: Vec<String>,
    /// The folder that paths are relative to.
    #[serde(default)]
    pub cwd: Option<String>,
    /// Those of [`COMMAND_ENVIRONMENT`] that are set.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Which of the client's standard streams are a terminal.
    #[serde(default)]
    pub terminal: Terminal,
}

/// Which streams are a terminal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Terminal {
    /// Whether standard input is a terminal.
    pub input: bool,
    /// Whether standard output is a terminal.
    pub output: bool,
    /// Whether standard error is a terminal.
    pub error: bool,
}

/// One line of the answer to a command (`application/x-ndjson`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CommandFrame {
    /// Text to write to standard output.
    Stdout(String),
    /// Text to write to standard error.
    Stderr(String),
    /// The command waits for an answer.
    Ask(CommandQuestion),
    /// It ended, with this exit code. The last frame.
    Exit(u8),
}

/// Question of a running command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CommandQuestion {
    /// Secret to return with the answer.
    pub id: String,
    /// What the client is to supply.
    pub wanted: Wanted,
}

/// What a command asks its client for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Wanted {
    /// Something that a person types after this text and that is not shown.
    Secret(String),
    /// The next line of standard input, without its end.
    Line,
    /// So many bytes of standard input, or fewer if it ends before.
    Bytes(u32),
    /// What scripts of the client's search path print for devices, run by the client: a JSON array
    /// with an array for each device, and in it a string for each script that was found.
    Scripts(Scripts),
    /// All of standard input, as the body of a request to `/v1/commands/bytes?id=` with the number
    /// of this question. No answer is posted.
    Input,
    /// To copy the bytes of `/v1/commands/output?id=`, with the number of this question, to
    /// standard output. No answer is posted.
    Output,
}

/// Scripts to run (`zpool status -c`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Scripts {
    /// Names without a folder.
    pub names: Vec<String>,
    /// The devices to run each script for. None: to list the available scripts, in one array.
    pub devices: Vec<ScriptDevice>,
}

/// A device of a pool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScriptDevice {
    pub pool: String,
    pub path: String,
}

/// What a client says to a [`CommandQuestion`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandAnswer {
    /// ID of the question.
    pub id: String,
    /// The bytes; missing if no user can be asked.
    pub bytes: Option<Vec<u8>>,
    /// Why there are none.
    #[serde(default)]
    pub error: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_match_their_documentation() {
        let text = |frame: &CommandFrame| serde_json::to_string(frame).expect("they are plain");
        assert_eq!(text(&CommandFrame::Stdout("a\n".into())), r#"{"stdout":"a\n"}"#);
        assert_eq!(text(&CommandFrame::Exit(2)), r#"{"exit":2}"#);
        let ask = CommandFrame::Ask(CommandQuestion { id: "7".into(), wanted: Wanted::Bytes(33) });
        assert_eq!(text(&ask), r#"{"ask":{"id":"7","wanted":{"bytes":33}}}"#);
        let request: CommandRequest =
            serde_json::from_str(r#"{"program":"zpool","args":["list"]}"#).expect("the rest may be left out");
        assert_eq!(request.terminal, Terminal::default());
    }
}
