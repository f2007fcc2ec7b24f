//! `zfs destroy`: what [`admin::verbs::zfs::destroy`] does, in OpenZFS's words.

use crate::context::{Context, Failure, Outcome};
use crate::getopt::{Options, Parsed};
use crate::number::nice_bytes;
use crate::zpool::writing::command_line;
use admin::verbs::zfs::destroy::{DestroyRequest, Preview, plan};

const OPTIONS: Options = Options { short: "rRfnpvd", long: &[] };

pub fn destroy(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = OPTIONS.parse(args).map_err(Failure::usage)?;
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
    let invocation = cx.invocation(command_line("zfs destroy", args));
    // Bookmarks are destroyed without a word.
    let verb = announcement(&parsed).filter(|_| !is_bookmark);
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
