//! `zfs hold` and `zfs release`: holds keep snapshots from being destroyed.

use crate::verbs::line::line;
use crate::verbs::lookup::Lookup;
use crate::verbs::tally::Tally;
use crate::verbs::{Invocation, Kind, Reason, Refusal, heads};
use dataset::Dataset;
use dataset::write;
use errors::{Error, Refusal as Denied};

/// Which holds to place or to release.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HoldRequest {
    pub tag: String,
    pub snapshots: Vec<String>,
    /// Of the snapshots of the same name below too (`-r`).
    pub recursive: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Hold,
    Release,
}

impl HoldRequest {
    /// The request as a command line, for histories and logs. `verb` is `hold` or `release`.
    pub fn command_line(&self, verb: &str) -> String {
        let operands: Vec<&str> = std::iter::once(&self.tag).chain(&self.snapshots).map(String::as_str).collect();
        line(&format!("zfs {verb}"), &[(self.recursive, "-r")], &[], operands)
    }
}

/// Places holds. Refused for tags that begin with `.`. A refused snapshot does not stop the others.
pub fn hold(invocation: &Invocation<'_>, request: &HoldRequest) -> Result<(), Refusal> {
    if request.tag.starts_with('.') {
        return Err(Refusal::usage(Kind::Invalid, "tag may not start with '.'"));
    }
    each(invocation, request, Change::Hold)
}

/// Releases holds. A refused snapshot does not stop the others.
pub fn release(invocation: &Invocation<'_>, request: &HoldRequest) -> Result<(), Refusal> {
    each(invocation, request, Change::Release)
}

fn each(invocation: &Invocation<'_>, request: &HoldRequest, change: Change) -> Result<(), Refusal> {
    let mut tally = Tally::default();
    for snapshot in &request.snapshots {
        match one(invocation, request, snapshot, change) {
            Ok(Ok(())) => {}
            Ok(Err(refusal)) => tally.refuse(refusal),
            Err(refusal) => return Err(tally.abort(refusal)),
        }
    }
    tally.finish().map(drop)
}

/// Changes the holds that one operand selects. The outer error ends the verb.
fn one(
    invocation: &Invocation<'_>,
    request: &HoldRequest,
    operand: &str,
    change: Change,
) -> Result<Result<(), Refusal>, Refusal> {
    let HoldRequest { tag, recursive, .. } = request;
    let Some((of, short)) = operand.split_once('@') else {
        return Ok(Err(Refusal::new(Kind::Invalid, format!("'{operand}' is not a snapshot"))));
    };
    let found = match Lookup::new(invocation).find(of)? {
        Ok(found) => found,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let heads = heads(&found.pool.datasets, of, *recursive)?;
    let found: Vec<Dataset> = heads.iter().filter_map(|head| head.snapshot(short).ok()).collect();
    let is_held = |d: &Dataset| d.holds().is_ok_and(|all| all.iter().any(|hold| hold.tag == *tag));
    let concerned = found.iter().filter(|d| change == Change::Hold || is_held(d));
    let names: Vec<String> = concerned.map(|d| d.name().to_owned()).collect();
    let (whole, what) = match change {
        Change::Hold => ("cannot hold", "cannot hold snapshot"),
        Change::Release => ("cannot release", "cannot release hold from snapshot"),
    };
    if names.is_empty() {
        let why = if found.is_empty() { "dataset does not exist" } else { NO_TAG };
        return Ok(Err(Reason::new(Kind::NotFound, why).refuse(&format!("{what} '{operand}'"))));
    }
    drop((heads, found));
    let record = invocation.record("hold", operand)?;
    let permission = if change == Change::Hold { "hold" } else { "release" };
    let permitted = invocation.permit(&record, |caller, tree| {
        let mut of = names.iter().filter_map(|name| name.split('@').next());
        of.try_for_each(|of| caller.require(tree, of, &[permission]))
    });
    if let Err(reason) = permitted {
        return Ok(Err(reason.refuse(whole)));
    }
    let each = |name: &str, error: &Error| reason(error).refuse(&format!("{what} '{name}'"));
    Ok(invocation.change_each(&record, whole, &each, |pool| match change {
        Change::Hold => write::hold(&pool.live, &names, tag),
        Change::Release => write::release(&pool.live, &names, tag),
    }))
}

const NO_TAG: &str = "no such tag on this dataset";

fn reason(error: &Error) -> Reason {
    let text = match error {
        Error::Refused { why: Denied::Exists, .. } => "tag already exists on this dataset",
        Error::Refused { why: Denied::NameTooLong, .. } => "tag too long",
        Error::NotFound { what, .. } if what == "the tag" => NO_TAG,
        error => return error.into(),
    };
    Reason::new(Kind::of(error), text)
}
