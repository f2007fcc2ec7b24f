//! `zfs destroy`: what [`admin::verbs::zfs::destroy`] does, in OpenZFS's words.

use crate::context::{Context, Failure, Outcome};
use crate::getopt::{ArgKind, Parsed, flag};
use crate::number::nice_bytes;
use crate::verb::{Call, Verb, for_delegates};
use admin::verbs::zfs::destroy::{DestroyRequest, Preview, plan};

/// The row of `zfs destroy`.
pub static VERB: Verb = for_delegates("destroy", "Destroy datasets, snapshots and bookmarks", destroy)
    .usage(&[
        "[-fnpRrv] <filesystem|volume>",
        // zrepl looks for this spelling before it destroys several snapshots in one command.
        "[-dnpRrv] <filesystem|volume>@<snap>[%<snap>][,...]",
        "<filesystem|volume>#<bookmark>",
    ])
    .options(&[
        flag('r', "Destroy all descendants too, or the snapshots of that name of all descendants."),
        flag('R', "Destroy all dependents too, clones included."),
        flag('f', "No effect, as with OpenZFS on Linux: file systems in use stay mounted."),
        flag('n', "Destroy nothing; with -v, print what would be destroyed."),
        flag('p', "Print exact numbers with tabs between fields."),
        flag('v', "Print what is destroyed, and the space that this frees."),
        flag('d', "Destroy held or cloned snapshots later, when nothing needs them."),
    ])
    .operands(&[ArgKind::AnyDataset])
    .history("zfs destroy")
    .exits(&[(255, "-n was used with a bookmark.")])
    .examples(&[
        ("zfs destroy -nv tank/home@monday%friday", "Show what destroying a range of snapshots would free."),
        ("zfs destroy -r tank/old", "Destroy a file system with all descendants and snapshots."),
    ]);

/// `zfs destroy`.
pub fn destroy(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let name = match parsed.operands.as_slice() {
        [] => return Err(Failure::usage("missing dataset argument")),
        [name] => name.clone(),
        _ => return Err(Failure::usage("too many arguments")),
    };
    let is_bookmark = name.find(['@', '#']).is_some_and(|at| name[at..].starts_with('#'));
    if is_bookmark && parsed.has('n') {
        return Err(Failure::Refused { message: "dryrun is not supported with bookmark".to_owned(), code: 255 });
    }
    let request = DestroyRequest {
        name,
        recursive: parsed.has('r'),
        clones: parsed.has('R'),
        deferred: parsed.has('d'),
        force: parsed.has('f'),
    };
    let invocation = cx.invocation(call.history());
    // Bookmarks are destroyed without a word.
    let verb = announcement(parsed).filter(|_| !is_bookmark);
    let plan = plan(&invocation, &request, &mut Announcer { cx, verb })?;
    if let Some(bytes) = plan.reclaimed_bytes {
        cx.print(&match (parsed.has('p'), parsed.has('n')) {
            (true, _) => format!("reclaim\t{bytes}\n"),
            (_, true) => format!("would reclaim {}\n", nice_bytes(bytes)),
            _ => format!("will reclaim {}\n", nice_bytes(bytes)),
        });
    }
    if !parsed.has('n') {
        plan.run(&invocation)?;
    }
    Ok(0)
}

/// The text that `-v` and `-p` print before each name.
fn announcement(parsed: &Parsed) -> Option<&'static str> {
    match (parsed.has('p'), parsed.has('v'), parsed.has('n')) {
        (true, ..) => Some("destroy\t"),
        (_, false, _) => None,
        (_, _, true) => Some("would destroy "),
        _ => Some("will destroy "),
    }
}

/// Prints what a plan would destroy, if `-v` or `-p` is given.
struct Announcer<'a, 'b> {
    cx: &'a mut Context<'b>,
    verb: Option<&'static str>,
}

impl Preview for Announcer<'_, '_> {
    fn name(&mut self, name: &str) {
        if let Some(verb) = self.verb {
            self.cx.print(&format!("{verb}{name}\n"));
        }
    }

    fn wants_space(&self) -> bool {
        self.verb.is_some()
    }
}
