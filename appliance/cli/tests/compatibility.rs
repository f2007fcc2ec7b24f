//! The table of commands in COMPATIBILITY.md, compared with the rows of verbs.

use cli::verb::Verb;

/// The rows below a heading: the names in the first cell, and the second cell.
fn rows(heading: &str) -> Vec<(Vec<String>, String)> {
    let text = include_str!("../../../COMPATIBILITY.md");
    let part = text.split(&format!("\n{heading}\n")).nth(1).expect(heading);
    let lines = part.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let row = |line: &str| {
        let mut cells = line.trim_matches('|').split(" | ");
        let (first, state) = (cells.next().unwrap_or_default(), cells.next().unwrap_or_default());
        let name = |part: &str| part.split(" (").next().unwrap_or_default().trim().to_owned();
        (first.split(',').map(name).collect(), state.trim().to_owned())
    };
    lines.skip(2).map(row).collect()
}

/// Whether the state says that an option is not supported.
fn says_no(state: &str, option: &cli::getopt::Opt) -> bool {
    let Some((_, missing)) = state.split_once("Not supported:") else { return false };
    let long = option.long.map(|long| format!("--{long}"));
    let letter = option.is_letter.then(|| format!("-{}", option.key));
    letter.into_iter().chain(long).any(|form| {
        let mut words = missing.split([' ', '`', ',', '.', ';', '(', ')']);
        words.any(|word| word == form)
    })
}

fn check(program: &str, heading: &str, verbs: &[&Verb]) {
    let rows = rows(heading);
    for verb in verbs.iter().filter(|verb| verb.alias_of.is_none()) {
        let row = rows.iter().find(|(names, _)| names.iter().any(|name| name == verb.name));
        let (_, state) = row.unwrap_or_else(|| panic!("{program} {} has no row in COMPATIBILITY.md", verb.name));
        assert_eq!(state == "not supported", verb.run.is_none(), "{program} {}: {state}", verb.name);
        for option in verb.options.iter().filter(|option| option.refused.is_some()) {
            assert!(
                says_no(state, option),
                "{program} {} {} is refused; its row is: {state}",
                verb.name,
                option.forms()
            );
        }
    }
    // Names of properties are in backticks, and other subjects have several words.
    for name in rows.iter().flat_map(|(names, _)| names).filter(|name| !name.contains([' ', '`'])) {
        assert!(verbs.iter().any(|verb| verb.name == name), "COMPATIBILITY.md names {program} {name}: no such verb");
    }
}

#[test]
fn the_table_of_zpool_is_that_of_its_verbs() {
    check("zpool", "### zpool", cli::zpool::VERBS);
}

#[test]
fn the_table_of_zfs_is_that_of_its_verbs() {
    check("zfs", "### zfs", cli::zfs::VERBS);
}

#[test]
fn the_row_of_beadm_and_bectl_names_their_verbs() {
    let rows = rows("### Other tools");
    let row = rows.iter().find(|(names, _)| names.iter().any(|name| name == "beadm"));
    let (_, state) = row.expect("a row of beadm");
    for verb in cli::beadm::VERBS.iter().chain(cli::beadm::BECTL).filter(|verb| verb.alias_of.is_none()) {
        let (yes, no) = state.split_once("Not supported:").expect("both");
        let part = if verb.run.is_some() { yes } else { no };
        let is_named = part.split('`').any(|word| word.split(' ').any(|word| word == verb.name));
        assert!(is_named, "{}: {part}", verb.name);
        for option in verb.options.iter().filter(|option| option.refused.is_some()) {
            assert!(says_no(state, option), "{} {}: {state}", verb.name, option.forms());
        }
    }
}
