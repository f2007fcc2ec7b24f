//! `zfs bookmark`: creates bookmarks, from which incremental streams can start.

use crate::verbs::line::line;
use crate::verbs::lookup::Lookup;
use crate::verbs::{Invocation, Kind, Reason, Refusal, heads, pool_of};
use dataset::Entry;
use dataset::write;
use errors::{Error, Refusal as Denied};

/// Which bookmark to create.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BookmarkRequest {
    /// A snapshot or a bookmark. One of the two names may omit the dataset.
    pub source: String,
    /// The name of the bookmark.
    pub name: String,
    /// Of the snapshots of the same name below too (`-r`).
    pub recursive: bool,
}

impl BookmarkRequest {
    /// The request as a command line, for histories and logs.
    pub fn command_line(&self) -> String {
        line("zfs bookmark", &[(self.recursive, "-r")], &[], [&*self.source, &*self.name])
    }

    /// The full names of source and bookmark.
    fn names(&self) -> Result<(String, String), Refusal> {
        let Self { source, name, .. } = self;
        let invalid = |message: String| Err(Refusal::usage(Kind::Invalid, message));
        let Some(source_at) = source.find(['@', '#']) else {
            return invalid(format!("invalid source name '{source}': must contain a '@' or '#'"));
        };
        let Some(name_at) = name.find('#') else {
            return invalid(format!("invalid bookmark name '{name}': must contain a '#'"));
        };
        match (source_at, name_at) {
            (0, 0) => invalid("either source or bookmark must be specified as full dataset paths".to_owned()),
            (0, _) => Ok((format!("{}{source}", &name[..name_at]), name.clone())),
            (_, 0) => Ok((source.clone(), format!("{}{name}", &source[..source_at]))),
            _ => Ok((source.clone(), name.clone())),
        }
    }
}

/// Creates the bookmarks, all of them or none.
pub fn run(invocation: &Invocation<'_>, request: &BookmarkRequest) -> Result<(), Refusal> {
    let (source, name) = request.names()?;
    if request.recursive && source.contains('#') {
        let message = "recursive bookmarks (-r) can only be created from a snapshot source";
        return Err(Refusal::usage(Kind::Invalid, message));
    }
    let found = Lookup::new(invocation).find(&source)?.map_err(|refusal| refusal.with_code(2))?;
    let mut pairs = Vec::new();
    match (&found.entry, request.recursive) {
        (Entry::Dataset(snapshot), true) => {
            let (short, of) = (snapshot.snapshot_name().unwrap_or_default(), snapshot.dir().name());
            let mark = &name[name.find('#').unwrap_or(0)..];
            for head in heads(&found.pool.datasets, of, true)? {
                if head.snapshot(short).is_ok() {
                    pairs.push((format!("{}@{short}", head.name()), format!("{}{mark}", head.name())));
                }
            }
        }
        _ => pairs.push((source.clone(), name.clone())),
    }
    let record = found.pool.record.clone();
    drop(found);
    if pool_of(&source) != pool_of(&name) {
        let reason = Reason::new(Kind::Invalid, "bookmark is in a different pool");
        return Err(reason.refuse(&format!("cannot create bookmark '{name}'")));
    }
    for (_, mark) in &pairs {
        let permitted = invocation.permit(&record, |caller, tree| caller.require(tree, mark, &["bookmark"]));
        permitted.map_err(|reason| reason.refuse(&format!("cannot create bookmark '{mark}'")))?;
    }
    let each = |name: &str, error: &Error| reason(error).refuse(&format!("cannot create bookmark '{name}'"));
    invocation.change_each(&record, "cannot create bookmark", &each, |pool| write::bookmark(&pool.live, &pairs))
}

fn reason(error: &Error) -> Reason {
    let text = match error {
        Error::Refused { why: Denied::Exists, .. } => "bookmark exists",
        Error::Unsupported { .. } => "bookmark feature not enabled",
        error => return error.into(),
    };
    Reason::new(Kind::of(error), text)
}
