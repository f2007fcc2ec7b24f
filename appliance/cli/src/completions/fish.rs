//! The script for fish.

use super::bash::properties;
use super::tree::{Node, Offer};
use std::fmt::Write;

const FUNCTIONS: &str = r#"
# Whether the words before the cursor begin with the command $argv[1]. With a second argument: and
# nothing but options follows.
function __weir_at
    set -l words (string match -v -- '-*' (commandline -opc))
    set words[1] (path basename -- $words[1])
    set -l wanted (string split ' ' -- $argv[1])
    set -l count (count $wanted)
    if test (count $words) -lt $count; or test "$words[1..$count]" != "$argv[1]"
        return 1
    end
    test (count $argv) -eq 1; or test (count $words) -eq $count
end

function __weir_pools
    weir zpool list -H -o name 2>/dev/null
end

function __weir_datasets
    weir zfs list -H -o name -t $argv[1] 2>/dev/null
end

# The words, as parts of a list with commas.
function __weir_list
    set -l token (commandline -ct)
    set -l begin (string match -r '^.*,' -- $token)
    # An empty list would make the product empty.
    printf '%s\n' "$begin"$argv
end
"#;

pub(super) fn script(programs: &[Node]) -> String {
    let mut text = "# Completions for fish of weir and of the commands that it is called as.\n\
                    # Made by \"weir completions fish\".\n\n"
        .to_owned();
    let mut variables = String::new();
    properties(&mut variables, "");
    for line in variables.lines() {
        let (name, words) = line.split_once('=').unwrap_or((line, "''"));
        let _ = writeln!(text, "set -g __weir_{name} {}", words.trim_matches('\''));
    }
    text.push_str(FUNCTIONS);
    for program in programs {
        let name = &program.name;
        let _ = writeln!(text, "\ncomplete -c {name} -f");
        for (path, node) in program.walk() {
            for child in &node.children {
                let about = quoted(&child.about);
                let _ =
                    writeln!(text, "complete -c {name} -n '__weir_at \"{path}\" only' -a {} -d {about}", child.name);
            }
            for option in &node.options {
                let mut line = format!("complete -c {name} -n '__weir_at \"{path}\"'");
                if let Some(letter) = option.letter {
                    let _ = write!(line, " -s {letter}");
                }
                if let Some(long) = &option.long {
                    let _ = write!(line, " -l {long}");
                }
                match &option.argument {
                    None => {}
                    Some(Offer::Files) => line.push_str(" -r -F"),
                    Some(argument) => {
                        let _ = write!(line, " -x -a {}", offer(argument));
                    }
                }
                let _ = writeln!(text, "{line} -d {}", quoted(&option.about));
            }
            let mut seen: Vec<String> = Vec::new();
            for operand in &node.operands {
                let line = match operand {
                    Offer::Nothing => continue,
                    Offer::Files => format!("complete -c {name} -n '__weir_at \"{path}\"' -F"),
                    operand => format!("complete -c {name} -n '__weir_at \"{path}\"' -a {}", offer(operand)),
                };
                if !seen.contains(&line) {
                    let _ = writeln!(text, "{line}");
                    seen.push(line);
                }
            }
        }
    }
    text
}

fn offer(offer: &Offer) -> String {
    match offer {
        Offer::Nothing | Offer::Files => "''".to_owned(),
        Offer::Pools => "'(__weir_pools)'".to_owned(),
        Offer::Datasets => "'(__weir_datasets filesystem,volume)'".to_owned(),
        Offer::Snapshots => "'(__weir_datasets snapshot,bookmark)'".to_owned(),
        Offer::AnyDatasets => "'(__weir_datasets all)'".to_owned(),
        Offer::Words(words) => format!("'(__weir_list {})'", words.join(" ")),
        Offer::PoolProperties => "'(__weir_list $__weir_zpool_properties)'".to_owned(),
        Offer::AllPoolProperties => "'(__weir_list all $__weir_zpool_properties)'".to_owned(),
        Offer::DatasetProperties => "'(__weir_list $__weir_zfs_properties)'".to_owned(),
        Offer::AllDatasetProperties => "'(__weir_list all $__weir_zfs_properties)'".to_owned(),
        Offer::PoolAssignments => "'$__weir_zpool_settable='".to_owned(),
        Offer::DatasetAssignments => "'$__weir_zfs_settable='".to_owned(),
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}
