//! `zfs load-key` and `unload-key`: what [`admin::verbs::zfs::keys`] does, in OpenZFS's words.

use crate::context::{Context, Failure, Outcome};
use crate::getopt::{ArgKind, Parsed, flag, value};
use crate::verb::{Call, Verb, for_delegates};
use admin::verbs::Found;
use admin::verbs::zfs::keys::{self, KeysOutcome, KeysRequest, LoadKeyRequest};

/// The row of `zfs load-key`.
pub static LOAD: Verb = for_delegates("load-key", "Load keys", load)
    .usage(&["[-rn] [-L keylocation] -a|filesystem|volume"])
    .options(&[
        flag('a', "Load the keys of all encryption roots of all pools."),
        flag('n', "Check the key, and do not load it."),
        flag('r', "Load the keys of all encryption roots below the dataset too."),
        value('L', "keylocation", ArgKind::Text, "Read the key from here instead of from where keylocation says."),
    ])
    .operands(&[ArgKind::Dataset])
    .history("zfs load-key")
    .exits(&[(255, "A key was wrong or could not be read.")])
    .examples(&[("zfs load-key -r tank", "Ask for the keys of all encrypted datasets of a pool.")]);

/// The row of `zfs unload-key`.
pub static UNLOAD: Verb = for_delegates("unload-key", "Unload keys", unload)
    .usage(&["[-r] -a|filesystem|volume"])
    .options(&[
        flag('a', "Unload the keys of all encryption roots of all pools."),
        flag('r', "Unload the keys of all encryption roots below the dataset too."),
    ])
    .operands(&[ArgKind::Dataset])
    .history("zfs unload-key")
    .exits(&[(255, "A key could not be unloaded.")])
    .examples(&[("zfs unload-key tank/secret", "Forget the key of a dataset that is not mounted.")]);

/// `zfs load-key`.
pub fn load(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let request = LoadKeyRequest {
        keys: request(parsed)?,
        location: parsed.last('L').map(str::to_owned),
        check_only: parsed.has('n'),
    };
    let client = cx.client;
    let invocation = cx.invocation(call.history());
    let outcome = keys::load(&invocation, &request, &|question| client.key(question))?;
    let done = if request.check_only { "verified" } else { "loaded" };
    report(cx, outcome, done, request.check_only)
}

/// `zfs unload-key`.
pub fn unload(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let request = request(parsed)?;
    let outcome = keys::unload(&cx.invocation(call.history()), &request)?;
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
    match LOAD.call(&[root]).and_then(|call| load(cx, &call)) {
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
