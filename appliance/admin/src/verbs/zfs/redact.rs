//! `zfs redact`: creates a redaction bookmark, which lists what a redacted stream leaves out.
//!
//! Facts: `zfs_do_redact` in cmd/zfs/zfs_main.c, `zfs_ioc_redact` in module/zfs/zfs_ioctl.c.

use crate::verbs::line::line;
use crate::verbs::lookup::Lookup;
use crate::verbs::{Invocation, Kind, Reason, Refusal};
use dataset::redact::{NotRedacted, redact};
use errors::{Error, Refusal as Denied};

/// Which redaction bookmark to create.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RedactRequest {
    /// The snapshot to redact.
    pub snapshot: String,
    /// Name of the bookmark, without dataset and `#`.
    pub bookmark: String,
    /// What all of these have changed is redacted: snapshots of clones of the snapshot, at least
    /// one.
    pub redaction_snapshots: Vec<String>,
}

impl RedactRequest {
    /// The request as a command line, for histories and logs.
    pub fn command_line(&self) -> String {
        let names = [&self.snapshot, &self.bookmark].into_iter().chain(&self.redaction_snapshots);
        line("zfs redact", &[], &[], names.map(String::as_str).collect::<Vec<_>>())
    }

    fn invalid(&self) -> Refusal {
        let message = match self.bookmark.contains('#') {
            true => "redaction bookmark name must not contain '#'",
            false => "redaction snapshot must be descendent of snapshot being redacted",
        };
        Refusal::new(Kind::Invalid, message).with_code(EINVAL)
    }
}

// OpenZFS exits with the number of the error.
const ENOENT: u8 = 2;
const ESRCH: u8 = 3;
const E2BIG: u8 = 7;
const EBUSY: u8 = 16;
const EEXIST: u8 = 17;
const EXDEV: u8 = 18;
const EINVAL: u8 = 22;
const ENAMETOOLONG: u8 = 36;
const ENOTSUP: u8 = 95;
const EALREADY: u8 = 114;

/// Creates the bookmark, or continues a redaction that was interrupted.
pub fn run(invocation: &Invocation<'_>, request: &RedactRequest) -> Result<(), Refusal> {
    let RedactRequest { snapshot, bookmark, redaction_snapshots } = request;
    if snapshot.contains('#') {
        return Err(request.invalid());
    }
    let pool = crate::verbs::pool_of(snapshot);
    let Some(record) = invocation.state.pool(pool).map_err(|e| Refusal::new(Kind::Failed, format!("{e:#}")))? else {
        return Err(missing(invocation, request));
    };
    let mut refused = None;
    let changed = invocation.change(&record, |pool| {
        // What is confirmed and not yet synced counts too.
        pool.writer().sync()?;
        let done = redact(&pool.live, snapshot, bookmark, redaction_snapshots, &*invocation.is_gone);
        done.map_err(|why| {
            let reason = Reason::new(Kind::Failed, "not redacted");
            refused = Some(why);
            reason
        })
    });
    let Err(reason) = changed else { return Ok(()) };
    Err(match refused {
        None => reason.refuse(&format!("cannot redact '{snapshot}'")),
        Some(NotRedacted::Missing) => missing(invocation, request),
        Some(why) => refusal(request, why),
    })
}

fn refusal(request: &RedactRequest, why: NotRedacted) -> Refusal {
    let (kind, message, code) = match why {
        NotRedacted::NotDescendant => return request.invalid(),
        NotRedacted::Exists => {
            let message = format!("specified redaction bookmark ({}) provided already exists", request.bookmark);
            (Kind::Conflict, message, EEXIST)
        }
        NotRedacted::NameTooLong => {
            let message = "provided bookmark name cannot be used, final name would be too long";
            (Kind::Invalid, message.to_owned(), ENAMETOOLONG)
        }
        NotRedacted::TooMany => (Kind::Invalid, "too many redaction snapshots specified".to_owned(), E2BIG),
        NotRedacted::Redacted => {
            let message = "attempted to redact redacted dataset or with respect to redacted dataset";
            (Kind::Conflict, message.to_owned(), EALREADY)
        }
        NotRedacted::Disabled => (Kind::Unsupported, "redaction bookmarks feature not enabled".to_owned(), ENOTSUP),
        NotRedacted::OtherPool => {
            let message = "potentially invalid redaction snapshot; full dataset names required";
            (Kind::Invalid, message.to_owned(), EXDEV)
        }
        NotRedacted::OtherSnapshots => {
            let message = "attempted to resume redaction  with a mismatched redaction list";
            (Kind::Conflict, message.to_owned(), ESRCH)
        }
        NotRedacted::Missing => (Kind::NotFound, String::new(), ENOENT),
        NotRedacted::Failed(error) => {
            let code = if matches!(error, Error::Refused { why: Denied::Busy, .. }) { EBUSY } else { 1 };
            let refusal = Reason::from(&error).refuse(&format!("cannot redact '{}'", request.snapshot));
            return refusal.with_code(code);
        }
    };
    Refusal::new(kind, message).with_code(code)
}

/// The names that do not exist, each with both of OpenZFS's lines.
fn missing(invocation: &Invocation<'_>, request: &RedactRequest) -> Refusal {
    let mut lookup = Lookup::new(invocation);
    let mut lines = Vec::new();
    for name in [&request.snapshot].into_iter().chain(&request.redaction_snapshots) {
        if let Ok(Ok(_)) = lookup.find(name) {
            continue;
        }
        if let Err(refusal) = lookup.entry(name) {
            lines.push(refusal.message);
        }
        lines.push(format!("provided snapshot {name} does not exist"));
    }
    Refusal::new(Kind::NotFound, lines.join("\n")).with_code(ENOENT)
}
