//! A verb of zpool(8), zfs(8), beadm(8) or bectl(8): one row states everything about it.
//!
//! Each verb's file begins with its row. The parser, usage messages, help, man pages, completions,
//! the check of callers and the lines of the history all read the row, and a test compares
//! COMPATIBILITY.md with it.

use crate::context::{Context, Failure, Outcome};
use crate::getopt::{self, ArgKind, Opt, Parsed, Wrong};

/// Runs a verb.
pub type Run = fn(&mut Context<'_>, &Call) -> Outcome;

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
    /// It works on files by their paths, in the process of its caller and with the permissions of
    /// that user: any user, and never for another process.
    Here,
}

impl Callers {
    /// Whether any user may run the verb with these arguments.
    pub fn include_anyone(self, args: &[String]) -> bool {
        match self {
            Self::Anyone => true,
            Self::AnyoneUnless(is_change) => !is_change(args),
            Self::Delegates | Self::Owner | Self::Here => false,
        }
    }
}

/// The row of a verb.
#[derive(Debug, Clone, Copy)]
pub struct Verb {
    pub name: &'static str,
    /// The verb of which it is another name.
    pub alias_of: Option<&'static str>,
    pub callers: Callers,
    /// What it does, in a few words.
    pub about: &'static str,
    /// Usage lines, without program and verb.
    pub usage: &'static [&'static str],
    pub options: &'static [Opt],
    /// What the operands are. The last one stands for all further ones.
    pub operands: &'static [ArgKind],
    /// How its lines in the history of a pool begin; `None`: it leaves none.
    pub history: Option<&'static str>,
    /// Exit codes besides 0, 1 and 2, with their meaning.
    pub exits: &'static [(u8, &'static str)],
    /// Command lines, and what each does.
    pub examples: &'static [(&'static str, &'static str)],
    /// Runs it; `None`: OpenZFS has it, Weir does not yet.
    pub run: Option<Run>,
}

/// A call of a verb: its arguments, which its row has accepted.
#[derive(Debug)]
pub struct Call {
    verb: &'static Verb,
    args: Vec<String>,
    pub parsed: Parsed,
}

impl Call {
    /// The line that the call leaves in the history of a pool.
    pub fn history(&self) -> String {
        debug_assert!(self.verb.history.is_some(), "the row of {} does not say that it leaves a line", self.verb.name);
        let words = self.verb.history.into_iter().chain(self.args.iter().map(String::as_str));
        words.collect::<Vec<_>>().join(" ")
    }
}

/// A verb for any user.
pub const fn for_anyone(name: &'static str, about: &'static str, run: Run) -> Verb {
    Verb { callers: Callers::Anyone, ..for_owner(name, about, run) }
}

/// A verb for the owner of the pools.
pub const fn for_owner(name: &'static str, about: &'static str, run: Run) -> Verb {
    Verb { run: Some(run), ..not_yet(name, about) }
}

/// A verb for the owner of the pools, and for those to whom it was delegated.
pub const fn for_delegates(name: &'static str, about: &'static str, run: Run) -> Verb {
    Verb { callers: Callers::Delegates, ..for_owner(name, about, run) }
}

/// A verb that any user runs in a process of their own.
pub const fn for_caller(name: &'static str, about: &'static str, run: Run) -> Verb {
    Verb { callers: Callers::Here, ..for_owner(name, about, run) }
}

/// A verb of OpenZFS that Weir does not have yet.
pub const fn not_yet(name: &'static str, about: &'static str) -> Verb {
    Verb {
        name,
        alias_of: None,
        callers: Callers::Owner,
        about,
        usage: &[],
        options: &[],
        operands: &[],
        history: None,
        exits: &[],
        examples: &[],
        run: None,
    }
}

impl Verb {
    /// The verb with its usage lines.
    pub const fn usage(self, usage: &'static [&'static str]) -> Self {
        Self { usage, ..self }
    }

    /// The verb with its options.
    pub const fn options(self, options: &'static [Opt]) -> Self {
        Self { options, ..self }
    }

    /// The verb with its operands.
    pub const fn operands(self, operands: &'static [ArgKind]) -> Self {
        Self { operands, ..self }
    }

    /// The verb, which leaves lines in the history that begin so.
    pub const fn history(self, begin: &'static str) -> Self {
        Self { history: Some(begin), ..self }
    }

    /// The verb with exit codes of its own.
    pub const fn exits(self, exits: &'static [(u8, &'static str)]) -> Self {
        Self { exits, ..self }
    }

    /// The verb with examples.
    pub const fn examples(self, examples: &'static [(&'static str, &'static str)]) -> Self {
        Self { examples, ..self }
    }

    /// The verb under another name.
    pub const fn called(self, name: &'static str) -> Self {
        Self { name, alias_of: Some(self.name), ..self }
    }

    /// Parses the arguments of a call.
    pub fn parse(&self, args: &[String]) -> Result<Parsed, Wrong> {
        getopt::parse(self.options, args)
    }

    /// A call with these arguments. Options that Weir does not support are refused.
    pub fn call(&'static self, args: &[String]) -> Result<Call, Failure> {
        let parsed = self.parse(args).map_err(Failure::usage)?;
        self.accept(args, parsed)
    }

    /// A call with these arguments, which were parsed. Options that Weir does not support are
    /// refused.
    pub fn accept(&'static self, args: &[String], parsed: Parsed) -> Result<Call, Failure> {
        let refused = self.options.iter().filter(|option| parsed.has(option.key)).find_map(|option| option.refused);
        match refused {
            Some(message) => Err(Failure::failed(message)),
            None => Ok(Call { verb: self, args: args.to_vec(), parsed }),
        }
    }
}
