//! Runs a verb of zpool(8), zfs(8), beadm(8) or bectl(8), and prints why it failed.

use crate::context::{Context, Failure, Outcome};
use crate::getopt::{self, Wrong};
use crate::help;
use crate::suggest;
use crate::verb::{Callers, Verb};

/// The words that request help in place of a verb.
const HELP: [&str; 4] = ["-?", "-h", "--help", "help"];

/// Runs the verb with which `args` begins.
pub fn dispatch(cx: &mut Context<'_>, program: &str, verbs: &[&'static Verb], args: &[String]) -> u8 {
    let code = run(cx, program, verbs, args);
    let _ = cx.out.flush();
    code
}

/// The verb of that name.
pub fn find(verbs: &[&'static Verb], name: &str) -> Option<&'static Verb> {
    verbs.iter().find(|verb| verb.name == name).copied()
}

/// Whether the arguments request help, which needs no pool.
pub fn is_help(verbs: &[&'static Verb], args: &[String]) -> bool {
    let [name, rest @ ..] = args else { return false };
    HELP.contains(&name.as_str()) || find(verbs, name).is_some_and(|verb| verb.parse(rest) == Err(Wrong::Help))
}

/// Whether the verb with which the arguments begin runs in the process of its caller, whichever
/// process owns the pools.
pub fn runs_here(verbs: &[&'static Verb], args: &[String]) -> bool {
    args.first().and_then(|name| find(verbs, name)).is_some_and(|verb| matches!(verb.callers, Callers::Here))
}

/// The arguments as they are parsed if the environment variable `POSIXLY_CORRECT` is set, as by
/// the C library: the first operand ends the options.
pub fn in_posix_order(verbs: &[&'static Verb], args: Vec<String>) -> Vec<String> {
    let Some(verb) = args.first().and_then(|name| find(verbs, name)) else { return args };
    let at = 1 + getopt::first_operand(verb.options, &args[1..]);
    match args.get(at) {
        Some(operand) if operand != "--" => [&args[..at], &["--".to_owned()], &args[at..]].concat(),
        _ => args,
    }
}

fn run(cx: &mut Context<'_>, program: &str, verbs: &[&'static Verb], args: &[String]) -> u8 {
    let Some(name) = args.first() else {
        cx.complain("missing command");
        let text = help::overview(program, verbs);
        cx.complain(text.trim_end());
        return 2;
    };
    let name = match name.as_str() {
        name if HELP.contains(&name) => return help(cx, program, verbs, args.get(1)),
        "-V" | "--version" => "version",
        name => name,
    };
    let Some(verb) = find(verbs, name) else { return unrecognized(cx, program, verbs, name) };
    let Some(run) = verb.run else {
        cx.complain(&format!("unsupported: '{program} {name}' is not in this version of weir"));
        return 1;
    };
    let args = &args[1..];
    let parsed = match verb.parse(args) {
        Ok(parsed) => parsed,
        Err(Wrong::Help) => {
            cx.print(&help::of_verb(program, verb));
            return 0;
        }
        Err(wrong) => {
            let hint = suggest::of_option(verb, &wrong);
            return report(cx, program, verb, Err(Failure::usage(wrong)), |_| Vec::from_iter(hint));
        }
    };
    let call = match verb.accept(args, parsed) {
        Ok(call) => call,
        Err(failure) => return report(cx, program, verb, Err(failure), |_| Vec::new()),
    };
    let outcome = run(cx, &call);
    report(cx, program, verb, outcome, |cx| suggest::of_call(cx, verb, &call.parsed))
}

fn help(cx: &mut Context<'_>, program: &str, verbs: &[&'static Verb], name: Option<&String>) -> u8 {
    let Some(name) = name else {
        cx.print(&help::overview(program, verbs));
        return 0;
    };
    match find(verbs, name) {
        Some(verb) => {
            cx.print(&help::of_verb(program, verb));
            0
        }
        None => unrecognized(cx, program, verbs, name),
    }
}

fn unrecognized(cx: &mut Context<'_>, program: &str, verbs: &[&'static Verb], name: &str) -> u8 {
    cx.complain(&format!("unrecognized command '{name}'"));
    if let Some(line) = suggest::line(name, verbs.iter().map(|verb| verb.name)) {
        cx.complain(&line);
    }
    let text = help::overview(program, verbs);
    cx.complain(text.trim_end());
    2
}

/// Prints why a verb failed, then the hints. Returns the exit code.
fn report(
    cx: &mut Context<'_>,
    program: &str,
    verb: &Verb,
    outcome: Outcome,
    hints: impl FnOnce(&mut Context<'_>) -> Vec<String>,
) -> u8 {
    let is_usage = matches!(outcome, Err(Failure::Usage(_)));
    let (message, code) = match outcome {
        Ok(code) | Err(Failure::Code(code)) => (String::new(), code),
        Err(Failure::Failed(message)) => (message, 1),
        Err(Failure::Refused { message, code }) => (message, code),
        Err(Failure::Usage(message)) => (message, 2),
    };
    if !message.is_empty() {
        cx.complain(&message);
    }
    if code != 0 {
        hints(cx).iter().for_each(|line| cx.complain(line));
    }
    if is_usage {
        let text = help::usage(program, verb);
        cx.complain(text.trim_end());
    }
    code
}
