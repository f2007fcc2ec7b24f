//! `zpool create`: what [`admin::verbs::zpool::create`] does, in OpenZFS's words.

use super::writing::{self, command_line};
use crate::context::{Context, Failure, Outcome};
use crate::getopt::{Options, Parsed};
use admin::layout::Layout;
use admin::verbs::zpool::create::{CreateRequest, plan};

const OPTIONS: Options = Options { short: "fndR:m:o:O:t:", long: &[] };

pub fn run(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = OPTIONS.parse(args).map_err(Failure::usage)?;
    let [name, words @ ..] = parsed.operands.as_slice() else {
        return Err(Failure::usage("missing pool name argument"));
    };
    if words.is_empty() {
        return Err(Failure::usage("missing vdev specification"));
    }
    let request = CreateRequest {
        temporary_name: parsed.last('t').map(str::to_owned),
        properties: assigned(&parsed, 'o')?,
        altroot: parsed.last('R').map(str::to_owned),
        dataset_properties: datasets(&parsed)?,
        without_features: parsed.has('d'),
        force: parsed.has('f'),
        ..CreateRequest::new(name.clone(), Layout::parse(words))
    };
    let invocation = cx.invocation(command_line("zpool create", args));
    let plan = plan(&invocation, request)?;
    if parsed.has('n') {
        let layout = plan.layout.tree(name);
        cx.print(&format!("would create '{name}' with the following layout:\n\n{layout}"));
        return Ok(0);
    }
    let client = cx.client;
    let report = plan.run(&invocation, &|format| writing::ask(client, format))?;
    Ok(cx.report(report))
}

fn assigned(parsed: &Parsed, letter: char) -> Result<Vec<(String, String)>, Failure> {
    parsed.all(letter).map(|option| assignment(letter, option)).collect()
}

fn assignment(letter: char, option: &str) -> Result<(String, String), Failure> {
    let pair = option.split_once('=').ok_or_else(|| Failure::failed(format!("missing '=' for -{letter} option")))?;
    Ok((pair.0.to_owned(), pair.1.to_owned()))
}

/// The properties of `-O`, and of `-m`, which is `-O mountpoint=`: the last of both counts.
fn datasets(parsed: &Parsed) -> Result<Vec<(String, String)>, Failure> {
    let given = parsed.given.iter().filter(|(letter, _)| matches!(letter, 'O' | 'm'));
    let pair = |(letter, argument): &(char, String)| match letter {
        'm' => Ok(("mountpoint".to_owned(), argument.clone())),
        _ => assignment('O', argument),
    };
    given.map(pair).collect()
}
