//! Why a verb does nothing, or not all: the kind for programs, OpenZFS's words for people.

use crate::layout::{Flaw, Wrong};
use crate::mounts::{MountReport, NotPrepared, NotUnmounted, cannot_unmount};
use crate::write::NotWritable;
use errors::{Error, Refusal as Denied};
use std::io::ErrorKind;

/// Why a verb refuses, for programs. The API maps each kind to an error code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A named object does not exist.
    NotFound,
    /// It cannot be done as things are now: something exists, is in use, is held, has dependents.
    Conflict,
    /// The process or its caller lacks a permission.
    Forbidden,
    /// This version, this pool or these devices do not support it.
    Unsupported,
    /// The request makes no sense, whatever the state of the pool is.
    Invalid,
    /// It was tried and failed.
    Failed,
}

/// A verb that was refused. Some of it may have been done, if the request names several objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub kind: Kind,
    /// OpenZFS's messages, without the last line feed. They are for standard error.
    pub message: String,
    /// Exit code of OpenZFS's command. After code 2, OpenZFS prints how the command is used.
    pub code: u8,
}

/// Why something cannot be done, in OpenZFS's words where it has some, without saying what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    pub kind: Kind,
    pub text: String,
}

impl Refusal {
    /// A refusal with exit code 1.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), code: 1 }
    }

    /// A refusal after which OpenZFS prints how the command is used.
    pub fn usage(kind: Kind, message: impl Into<String>) -> Self {
        Self::new(kind, message).with_code(2)
    }

    /// The same with another exit code.
    pub fn with_code(self, code: u8) -> Self {
        Self { code, ..self }
    }

    /// For a caller that takes a change as failed if a file system is not mounted after it.
    pub fn unless_mounted(report: MountReport) -> Result<(), Self> {
        match report.failed {
            true => Err(Self::new(Kind::Failed, report.lines.join("\n"))),
            false => Ok(()),
        }
    }

    /// The same after other messages.
    pub fn after(self, lines: Vec<String>) -> Self {
        let message = lines.into_iter().chain([self.message]).collect::<Vec<_>>().join("\n");
        Self { message, ..self }
    }

    /// All refusals of a verb on several objects as one: the kind and the code of the first.
    /// `None`: there are none.
    pub fn all(refusals: impl IntoIterator<Item = Self>) -> Option<Self> {
        refusals.into_iter().reduce(|mut all, next| {
            all.message.push('\n');
            all.message.push_str(&next.message);
            all
        })
    }
}

impl From<NotUnmounted> for Refusal {
    fn from(error: NotUnmounted) -> Self {
        let kind = match error.1.kind() {
            ErrorKind::ResourceBusy => Kind::Conflict,
            ErrorKind::PermissionDenied => Kind::Forbidden,
            _ => Kind::Failed,
        };
        Self::new(kind, cannot_unmount(&error))
    }
}

impl From<NotPrepared> for Refusal {
    fn from(error: NotPrepared) -> Self {
        match error {
            NotPrepared::Mounted(error) => error.into(),
            NotPrepared::Broken(error) => Self::new(Reason::from(&error).kind, format!("{error:#}")),
        }
    }
}

impl Reason {
    pub fn new(kind: Kind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }

    /// The refusal that is the reason and nothing else.
    pub fn alone(self) -> Refusal {
        Refusal::new(self.kind, self.text)
    }

    /// The refusal `cannot: reason`, such as `cannot destroy 'tank/a': out of space`.
    pub fn refuse(self, cannot: &str) -> Refusal {
        Refusal::new(self.kind, format!("{cannot}: {}", self.text))
    }
}

impl Kind {
    /// The kind of an error of the engine.
    pub fn of(error: &Error) -> Self {
        match error {
            Error::NotFound { .. } => Self::NotFound,
            Error::Invalid { .. } => Self::Invalid,
            Error::Unsupported { .. } => Self::Unsupported,
            Error::KeyUnavailable { .. } => Self::Conflict,
            Error::Io { error, .. } if error.kind() == ErrorKind::PermissionDenied => Self::Forbidden,
            Error::Refused { why: Denied::Exists | Denied::NotEmpty | Denied::Busy, .. } => Self::Conflict,
            Error::Refused { why: Denied::NameTooLong | Denied::CrossDevice, .. } => Self::Invalid,
            Error::Refused { .. }
            | Error::Corrupt { .. }
            | Error::Io { .. }
            | Error::Missing { .. }
            | Error::Redacted { .. } => Self::Failed,
        }
    }
}

impl From<&Error> for Reason {
    fn from(error: &Error) -> Self {
        let text = match error {
            Error::Refused { why: Denied::NoSpace | Denied::QuotaExceeded, .. } => "out of space".to_owned(),
            Error::Refused { why: Denied::Exists, .. } => "dataset already exists".to_owned(),
            Error::Refused { why: Denied::Busy, .. } => "pool or dataset is busy".to_owned(),
            Error::Refused { why: Denied::ReadOnly, .. } => "pool is read-only".to_owned(),
            Error::Refused { why: Denied::NameTooLong, .. } => "name is too long".to_owned(),
            Error::Refused { why: Denied::CrossDevice, .. } => "datasets must be within same pool".to_owned(),
            Error::Refused { why: Denied::Suspended, place } => format!("pool I/O is currently suspended ({place})"),
            Error::NotFound { what, .. } if what == "the parent dataset" => "parent does not exist".to_owned(),
            Error::NotFound { .. } => "dataset does not exist".to_owned(),
            Error::Invalid { what, .. } => what.clone(),
            Error::Unsupported { what, .. } => format!("unsupported: {what}"),
            Error::KeyUnavailable { .. } => "encryption key not loaded".to_owned(),
            error => error.to_string(),
        };
        Self { kind: Kind::of(error), text }
    }
}

impl From<Error> for Reason {
    fn from(error: Error) -> Self {
        Self::from(&error)
    }
}

impl From<&anyhow::Error> for Reason {
    fn from(error: &anyhow::Error) -> Self {
        if let Some(error) = error.downcast_ref::<Error>() {
            return error.into();
        }
        if let Some(wrong) = error.downcast_ref::<Wrong>() {
            return wrong.into();
        }
        let kind = match error.downcast_ref::<NotWritable>() {
            Some(NotWritable::InUse(_)) => Kind::Conflict,
            Some(NotWritable::Unsupported(_)) => Kind::Unsupported,
            None => Kind::Failed,
        };
        Self { kind, text: format!("{error:#}") }
    }
}

impl From<&Wrong> for Reason {
    fn from(wrong: &Wrong) -> Self {
        let kind = match wrong.flaw {
            Flaw::Absent => Kind::NotFound,
            Flaw::InUse => Kind::Conflict,
            Flaw::Invalid => Kind::Invalid,
        };
        Self::new(kind, wrong.text.clone())
    }
}

impl From<Wrong> for Refusal {
    fn from(wrong: Wrong) -> Self {
        Self::new(Reason::from(&wrong).kind, wrong.text)
    }
}

impl From<anyhow::Error> for Reason {
    fn from(error: anyhow::Error) -> Self {
        Self::from(&error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_come_from_the_types_of_errors() {
        let refused = |why: Denied| Reason::from(why.at("tank/a"));
        for (reason, kind, text) in [
            (refused(Denied::Exists), Kind::Conflict, "dataset already exists"),
            (refused(Denied::Busy), Kind::Conflict, "pool or dataset is busy"),
            (refused(Denied::NameTooLong), Kind::Invalid, "name is too long"),
            (refused(Denied::NoSpace), Kind::Failed, "out of space"),
            (
                Error::invalid("tank/a", "it already exists, says the text").into(),
                Kind::Invalid,
                "it already exists, says the text",
            ),
            (anyhow::Error::from(Denied::Busy.at("x")).into(), Kind::Conflict, "pool or dataset is busy"),
            (NotWritable::InUse(None).into_reason(), Kind::Conflict, "pool is in use by another process"),
            (anyhow::anyhow!("it does not exist").into(), Kind::Failed, "it does not exist"),
        ] {
            assert_eq!((reason.kind, reason.text.as_str()), (kind, text));
        }
    }

    impl NotWritable {
        fn into_reason(self) -> Reason {
            anyhow::Error::from(self).into()
        }
    }

    #[test]
    fn several_refusals_have_the_kind_of_the_first() {
        let all = [Refusal::usage(Kind::NotFound, "a"), Refusal::new(Kind::Conflict, "b")];
        assert_eq!(Refusal::all(all), Some(Refusal { kind: Kind::NotFound, message: "a\nb".to_owned(), code: 2 }));
        assert_eq!(Refusal::all([]), None);
    }
}
