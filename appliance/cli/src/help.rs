//! Help texts of verbs, from their rows.

use crate::getopt::Opt;
use crate::verb::{Callers, Verb};
use dataset::property::{Attr, CATALOGUE, Visibility};
use std::fmt::Write;

/// Columns of a help text.
const WIDTH: usize = 80;
/// The column where descriptions of options begin.
const INDENT: usize = 24;

/// The usage lines, which follow a usage error.
pub fn usage(program: &str, verb: &Verb) -> String {
    let mut text = "usage:\n".to_owned();
    for line in verb.usage {
        text.push_str(format!("\t{} {line}", verb.name).trim_end());
        text.push('\n');
    }
    if program == "zfs" && matches!(verb.name, "set" | "get" | "inherit" | "list") {
        text.push_str(&properties());
    }
    text.push_str(&format!("\nFor more, run: weir {program} help\n"));
    text
}

/// A table of the properties of datasets, as OpenZFS prints it after usage errors of verbs with
/// properties. Scripts read it: name, whether it can be set, whether it is inherited.
fn properties() -> String {
    let mut text = format!("\nproperties:\n\n\t{:<21} {}  {}   {}\n\n", "PROPERTY", "EDIT", "INHERIT", "VALUES");
    let yes = |yes: bool| if yes { "YES" } else { " NO" };
    let mut row = |name: &str, can_edit: bool, is_inherited: bool, values: &str| {
        let values = if values.is_empty() { "-" } else { values };
        let _ = writeln!(text, "\t{name:<22} {}      {}   {values}", yes(can_edit), yes(is_inherited));
    };
    for def in CATALOGUE.iter().filter(|def| def.visibility == Visibility::Listed) {
        let can_edit = matches!(def.attr, Attr::Default | Attr::Inherit);
        let is_inherited = matches!(def.attr, Attr::Inherit | Attr::OneTime);
        row(def.name, can_edit, is_inherited, def.values);
    }
    for what in ["used", "objused"] {
        ["user", "group", "project"].iter().for_each(|who| row(&format!("{who}{what}@..."), false, false, "<size>"));
    }
    for what in ["quota", "objquota"] {
        let quota = |who: &&str| row(&format!("{who}{what}@..."), true, false, "<size> | none");
        ["user", "group", "project"].iter().for_each(quota);
    }
    row("written@<snap>", false, false, "<size>");
    row("written#<bookmark>", false, false, "<size>");
    text
}

/// All verbs of a program.
pub fn overview(program: &str, verbs: &[&Verb]) -> String {
    let width = verbs.iter().filter(|v| v.run.is_some()).map(|v| v.name.len()).max().unwrap_or(0);
    let mut text = format!("usage: {program} command args ...\nwhere 'command' is one of the following:\n\n");
    for verb in verbs.iter().filter(|v| v.run.is_some()) {
        text.push_str(&format!("\t{:width$}  {}\n", verb.name, verb.about));
    }
    let missing: Vec<&str> = verbs.iter().filter(|v| v.run.is_none()).map(|v| v.name).collect();
    if !missing.is_empty() {
        text.push_str(&format!("\nNot in this version of weir: {}\n", missing.join(", ")));
    }
    text.push_str(&format!("\nFor help with a command, run: {program} help COMMAND\n"));
    text
}

/// Everything about a verb.
pub fn of_verb(program: &str, verb: &Verb) -> String {
    let mut text = format!("{program} {}: {}\n", verb.name, verb.about);
    if let Some(name) = verb.alias_of {
        let _ = writeln!(text, "Another name of {program} {name}.");
    }
    if verb.run.is_none() {
        let _ = writeln!(text, "\nNot in this version of weir.");
        return text;
    }
    text.push_str("\nusage:\n");
    for line in verb.usage {
        let _ = writeln!(text, "  {}", format!("{program} {} {line}", verb.name).trim_end());
    }
    if !verb.options.is_empty() {
        text.push_str("\noptions:\n");
        verb.options.iter().for_each(|option| describe(&mut text, option));
    }
    let _ = writeln!(text, "\nexit status:");
    for (code, meaning) in exits(verb) {
        let _ = writeln!(text, "  {code:<INDENT$}{meaning}", INDENT = INDENT - 2);
    }
    if !verb.examples.is_empty() {
        text.push_str("\nexamples:\n");
        for (line, what) in verb.examples {
            let _ = writeln!(text, "  {what}\n    {line}");
        }
    }
    let _ = writeln!(text, "\n{}", callers(verb));
    text
}

/// The exit codes of all verbs.
pub const COMMON_EXITS: [(u8, &str); 3] =
    [(0, "Success."), (1, "An error occurred."), (2, "The command line is wrong.")];

/// The exit codes of a verb.
pub fn exits(verb: &Verb) -> impl Iterator<Item = (u8, &'static str)> {
    COMMON_EXITS.into_iter().chain(verb.exits.iter().copied())
}

/// A sentence about who may run a verb.
pub fn callers(verb: &Verb) -> &'static str {
    match verb.callers {
        Callers::Anyone => "Any user may run it if weir serve has the pools.",
        Callers::AnyoneUnless(_) => {
            "Any user may run it if weir serve has the pools, and its owner may change what it shows."
        }
        Callers::Delegates => {
            "The owner of the pools may run it, and if weir serve has them, users to whom zfs allow delegated it."
        }
        Callers::Here => "Any user may run it. The permissions of files apply.",
        Callers::Owner => "Only the owner of the pools may run it.",
    }
}

/// The sentences about an option.
pub fn sentences(option: &Opt) -> String {
    let mut text = option.help.to_owned();
    if option.is_repeated {
        text.push_str(" May be repeated.");
    }
    if option.refused.is_some() {
        text.push_str(" Not supported.");
    }
    text
}

fn describe(text: &mut String, option: &Opt) {
    let forms = option.forms();
    let mut line = format!("  {forms}");
    // A long form gets a line of its own.
    if line.len() + 2 > INDENT {
        let _ = writeln!(text, "{line}");
        line.clear();
    }
    for word in sentences(option).split(' ') {
        if line.len() > INDENT && line.len() + 1 + word.len() > WIDTH {
            let _ = writeln!(text, "{line}");
            line.clear();
        }
        match line.len() {
            0..INDENT => {
                line = format!("{line:INDENT$}{word}");
            }
            _ => {
                line.push(' ');
                line.push_str(word);
            }
        }
    }
    let _ = writeln!(text, "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{beadm, zfs, zpool};

    fn all() -> Vec<(&'static str, &'static Verb)> {
        let programs = [("zpool", zpool::VERBS), ("zfs", zfs::VERBS), ("beadm", beadm::VERBS), ("bectl", beadm::BECTL)];
        programs.iter().flat_map(|(program, verbs)| verbs.iter().map(|verb| (*program, *verb))).collect()
    }

    #[test]
    fn help_names_every_option_with_a_sentence() {
        for (program, verb) in all().into_iter().filter(|(_, verb)| verb.run.is_some()) {
            let text = of_verb(program, verb);
            for option in verb.options {
                assert!(text.contains(&option.forms()), "{program} {}: {}\n{text}", verb.name, option.forms());
                assert!(option.help.ends_with('.') && option.help.len() > 8, "{program} {}: {option:?}", verb.name);
            }
            assert!(!verb.usage.is_empty() && !verb.examples.is_empty(), "{program} {}", verb.name);
            assert!(text.lines().all(|line| line == line.trim_end()), "{text}");
        }
    }

    /// OpenZFS's test suite requires it.
    #[test]
    fn the_lists_of_verbs_fit_into_80_columns() {
        for (program, verbs) in
            [("zpool", zpool::VERBS), ("zfs", zfs::VERBS), ("beadm", beadm::VERBS), ("bectl", beadm::BECTL)]
        {
            for line in overview(program, verbs).lines() {
                assert!(line.chars().count() <= WIDTH, "{line}");
            }
        }
    }

    /// The parser finds the first option with a letter: a second one would be dead.
    #[test]
    fn no_two_options_of_a_verb_have_the_same_key_or_long_form() {
        for (program, verb) in all() {
            for (i, a) in verb.options.iter().enumerate() {
                for b in &verb.options[..i] {
                    assert!(a.key != b.key, "{program} {}: {}", verb.name, a.key);
                    assert!(a.long.is_none() || a.long != b.long, "{program} {}: {:?}", verb.name, a.long);
                }
                assert!(a.is_letter || a.long.is_some(), "{program} {}: {}", verb.name, a.key);
            }
        }
    }

    /// Usage lines are written by hand, as scripts search some of them.
    #[test]
    fn usage_lines_name_every_supported_option() {
        let mut unnamed = Vec::new();
        for (program, verb) in all().into_iter().filter(|(_, verb)| verb.alias_of.is_none()) {
            let usage = verb.usage.join(" ");
            for option in verb.options.iter().filter(|option| option.refused.is_none() && option.key != 'B') {
                let is_named = |word: &str| {
                    let letters = word.trim_start_matches(['[', '<', '|', '(', '{']).strip_prefix('-');
                    let mut parts =
                        letters.into_iter().flat_map(|rest| rest.split(|c: char| !c.is_ascii_alphanumeric()));
                    parts.next().is_some_and(|letters| letters.contains(option.key))
                };
                let by_letter = option.is_letter && usage.split([' ', '|', '[']).any(is_named);
                let by_name = option.long.is_some_and(|long| usage.contains(&format!("--{long}")));
                if !by_letter && !by_name {
                    unnamed.push(format!("{program} {} {}", verb.name, option.forms()));
                }
            }
        }
        assert_eq!(unnamed, UNNAMED);
    }

    /// Options that the usage lines of OpenZFS and of beadm(8) do not name either.
    const UNNAMED: &[&str] = &["zpool sync -f", "zpool wait -n", "zfs allow -h", "zfs unallow -h", "beadm menu -v"];

    #[test]
    fn examples_are_accepted() {
        for (program, verb) in all() {
            for (line, what) in verb.examples {
                let line = line.split(['|', '<', '>']).next().unwrap_or_default();
                let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
                let name = verb.alias_of.unwrap_or(verb.name);
                assert_eq!((words[0].as_str(), words[1].as_str()), (program, name), "{line}");
                assert!(verb.parse(&words[2..]).is_ok(), "{line}");
                assert!(what.ends_with('.'), "{line}");
            }
        }
    }

    #[test]
    fn options_are_described_in_two_columns() {
        let mut text = String::new();
        describe(
            &mut text,
            &crate::getopt::flag('f', "Use devices that appear to be in use, and groups with different redundancy."),
        );
        describe(&mut text, &crate::shared_options::KEY_GUID);
        describe(&mut text, &crate::getopt::long_flag('1', "allow-replication-mismatch", "Add groups."));
        let expected = "  -f                    Use devices that appear to be in use, and groups with\n                        \
                        different redundancy.\n  --json-pool-key-guid  With -j, use the GUIDs of pools as keys instead of \
                        their\n                        names.\n  --allow-replication-mismatch\n                        \
                        Add groups.\n";
        assert_eq!(text, expected);
    }
}
