//! `zfs load-key` and `unload-key`: what [`admin::verbs::zfs::keys`] does, in OpenZFS's words.

use crate::context::{Context, Failure, Outcome};
use crate::getopt::{Options, Parsed};
use crate::zpool::writing::command_line;
use admin::verbs::Found;
use admin::verbs::zfs::keys::{self, KeysOutcome, KeysRequest, LoadKeyRequest};

const LOAD: Options = Options { short: "anrL:", long: &[] };
const UNLOAD: Options = Options { short: "ar", long: &[] };

/// `zfs load-key`.
pub fn load(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = LOAD.parse(args).map_err(Failure::usage)?;
    let request = LoadKeyRequest {
        keys: request(&parsed)?,
        location: parsed.last('L').map(str::to_owned),
        check_only: parsed.has('n'),
    };
    let client = cx.client;
    let invocation = cx.invocation(command_line("zfs load-key", args));
    let outcome = keys::load(&invocation, &request, &|question| client.key(question))?;
    let done = if request.check_only { "verified" } else { "loaded" };
    report(cx, outcome, done, request.check_only)
}

/// `zfs unload-key`.
pub fn unload(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = UNLOAD.parse(args).map_err(Failure::usage)?;
    let request = request(&parsed)?;
    let outcome = keys::unload(&cx.invocation(command_line("zfs unload-key", args)), &request)?;
    report(cx, outcome, "unloaded", false)
}

/// The encryption root of a dataset whose key is not loaded.
pub fn locked(found: &Found) -> Option<String> {
    let dataset = found.entry.dataset().filter(|dataset| !found.pool.keys.is_available(dataset).unwrap_or(true))?;
    let root = dataset.encryption_root().ok().flatten();
    Some(root.map_or_else(|| dataset.name().to_owned(), |root| root.name().to_owned()))
}

/// Loads the key of an encryption root, as the option `-l` of other verbs does. `false`: it was not
/// loaded, and the error has been printed.
pub fn load_root(cx: &mut Context<'_>, root: String) -> Result<bool, Failure> {
    match load(cx, &[root]) {
        Ok(code) => Ok(code == 0),
        Err(Failure::Failed(message) | Failure::Refused { message, .. }) => {
            cx.complain(&message);
            Ok(false)
        }
        Err(failure) => Err(failure),
    }
}

fn request(parsed: &Parsed) -> Result<KeysRequest, Failure> {
    match (parsed.has('a'), parsed.operands.as_slice()) {
        (true, []) | (false, [_]) => {}
        (true, _) => return Err(Failure::usage("cannot specify dataset with '-a' option")),
        (false, []) => return Err(Failure::usage("Missing dataset argument or -a option")),
        (false, _) => return Err(Failure::usage("too many arguments")),
    }
    Ok(KeysRequest { datasets: parsed.operands.clone(), recursive: parsed.has('r') })
}

/// Prints which keys were loaded or unloaded. Returns the exit code.
pub fn report(cx: &mut Context<'_>, outcome: KeysOutcome, done: &str, always: bool) -> Outcome {
    let KeysOutcome { tried, done: count, several, refused } = outcome;
    let code = refused.map_or(0, |refusal| {
        cx.complain(&refusal.message);
        refusal.code
    });
    if always || (several && tried != 0) {
        cx.print(&format!("{count} / {tried} key(s) successfully {done}\n"));
    }
    Ok(code)
}
