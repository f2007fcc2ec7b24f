//! `zfs snapshot`: takes snapshots, all of them in one txg or none.

use crate::verbs::line::{assignments, line};
use crate::verbs::lookup::Lookup;
use crate::verbs::{Invocation, Kind, Reason, Refusal, heads, pool_of};
use dataset::write;
use errors::{Error, Refusal as Denied};

/// OpenZFS's message for two snapshots that cannot be taken in one command.
const TWICE: &str = "multiple snapshots of same fs not allowed";
const NONE: &str = "no snapshots were created";

/// Which snapshots to take.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SnapshotRequest {
    /// Full names, `dataset@name`, all in one pool.
    pub names: Vec<String>,
    /// Of all datasets below too (`-r`).
    pub recursive: bool,
    /// User properties of the snapshots (`-o`).
    pub properties: Vec<(String, String)>,
}

impl SnapshotRequest {
    /// The request as a command line, for histories and logs.
    pub fn command_line(&self) -> String {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        line("zfs snapshot", &[(self.recursive, "-r")], &assignments("-o", &self.properties), names)
    }
}

/// Takes all of the snapshots, or none if one is refused.
pub fn run(invocation: &Invocation<'_>, request: &SnapshotRequest) -> Result<(), Refusal> {
    let (mut names, mut lookup) = (Vec::new(), Lookup::new(invocation));
    for name in &request.names {
        // OpenZFS answers with the usage alone.
        let Some((of, short)) = name.split_once('@') else { return Err(Refusal::usage(Kind::Invalid, "")) };
        let found = lookup.find(of)?.map_err(|refusal| refusal.with_code(2))?;
        for head in heads(&found.pool.datasets, of, request.recursive)? {
            let name = format!("{}@{short}", head.name());
            if !head.is_inconsistent() && !names.contains(&name) {
                names.push(name);
            }
        }
    }
    let Some(first) = names.first() else { return Err(Refusal::new(Kind::Conflict, NONE)) };
    let pool = pool_of(first).to_owned();
    drop(lookup);
    let taken = match names.iter().any(|name| pool_of(name) != pool) {
        true => Err(Reason::new(Kind::Invalid, TWICE).refuse(WHOLE)),
        false => take(invocation, request, &names, &pool),
    };
    taken.map_err(|mut refusal| {
        if request.recursive || request.names.len() > 1 {
            refusal.message += &format!("\n{NONE}");
        }
        refusal
    })
}

/// OpenZFS's message for an error that concerns no single snapshot begins with this.
const WHOLE: &str = "cannot create snapshots ";

fn take(invocation: &Invocation<'_>, request: &SnapshotRequest, names: &[String], pool: &str) -> Result<(), Refusal> {
    let record = invocation.record("create snapshots in", pool)?;
    let permissions: &[&str] = if request.properties.is_empty() { &["snapshot"] } else { &["snapshot", "userprop"] };
    let permitted = invocation.permit(&record, |caller, tree| {
        let mut of = names.iter().filter_map(|name| name.split('@').next());
        of.try_for_each(|of| caller.require(tree, of, permissions))
    });
    permitted.map_err(|reason| reason.refuse(WHOLE))?;
    let each = |name: &str, error: &Error| Reason::from(error).refuse(&format!("cannot create snapshot '{name}'"));
    invocation.change_each(&record, WHOLE, &each, |pool| {
        write::snapshot_for(&pool.live, invocation.caller.other(), names, &request.properties).map_err(|mut all| {
            for (name, error) in &mut all {
                if name.is_empty() && matches!(error, Error::Refused { why: Denied::CrossDevice, .. }) {
                    *error = Error::invalid("", TWICE);
                }
            }
            all
        })
    })
}
