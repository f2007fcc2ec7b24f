//! `zfs allow` and `zfs unallow`: what [`admin::verbs::zfs::allow`] does, in OpenZFS's words.
//!
//! Facts: `zfs_do_allow_unallow_impl`, `parse_allow_args`, `print_fs_perms` in cmd/zfs/zfs_main.c.

use crate::context::{Context, Failure, Outcome};
use crate::getopt::{ArgKind, Opt, Parsed, flag};
use crate::verb::{Call, Verb, for_delegates};
use admin::principals;
use admin::verbs::zfs::allow::{self, AllowRequest, Grantee};
use dataset::delegation::{PERMISSIONS, Permissions};
use dataset::property::CATALOGUE;
use std::collections::BTreeMap;

const LOCAL: Opt = flag('l', "Only for the dataset itself; without -l and -d, for it and its descendants.");
const DESCENDANTS: Opt = flag('d', "Only for the descendants of the dataset.");
const USERS: Opt = flag('u', "The names are those of users.");
const GROUPS: Opt = flag('g', "The names are those of groups.");
const EVERYONE: Opt = flag('e', "For everyone.");
const CREATOR: Opt = flag('c', "For users who create a descendant, on what they create.");
const SET: Opt = flag('s', "Define a set of permissions, which can be used like a permission.");
const HELP: Opt = flag('h', "List the permissions that can be delegated.");

/// The row of `zfs allow`.
pub static ALLOW: Verb = for_delegates("allow", "Delegate permissions, or show what is delegated", allow)
    .usage(ALLOW_USAGE)
    .options(&[LOCAL, DESCENDANTS, USERS, GROUPS, EVERYONE, CREATOR, SET, HELP])
    .operands(&[ArgKind::Text, ArgKind::Text, ArgKind::Dataset])
    .history("zfs allow")
    .exits(&[(255, "The dataset does not exist.")])
    .examples(&[
        ("zfs allow ann create,mount,snapshot tank/home/ann", "Let a user create and snapshot file systems there."),
        ("zfs allow tank/home", "Show what is delegated on a file system and above it."),
    ]);

/// The row of `zfs unallow`.
pub static UNALLOW: Verb = for_delegates("unallow", "Withdraw delegated permissions", unallow)
    .usage(UNALLOW_USAGE)
    .options(&[
        LOCAL,
        DESCENDANTS,
        USERS,
        GROUPS,
        EVERYONE,
        CREATOR,
        SET,
        flag('r', "Also from all descendants."),
        HELP,
    ])
    .operands(&[ArgKind::Text, ArgKind::Text, ArgKind::Dataset])
    .history("zfs unallow")
    .exits(&[(255, "The dataset does not exist.")])
    .examples(&[("zfs unallow ann tank/home/ann", "Withdraw everything that was delegated to a user there.")]);

const ALLOW_USAGE: &[&str] = &[
    "<filesystem|volume>",
    "[-ldug] <\"everyone\"|user|group>[,...] <perm|@setname>[,...] <filesystem|volume>",
    "[-ld] -e <perm|@setname>[,...] <filesystem|volume>",
    "-c <perm|@setname>[,...] <filesystem|volume>",
    "-s @setname <perm|@setname>[,...] <filesystem|volume>",
];
const UNALLOW_USAGE: &[&str] = &[
    "[-rldug] <\"everyone\"|user|group>[,...] [<perm|@setname>[,...]] <filesystem|volume>",
    "[-rld] -e [<perm|@setname>[,...]] <filesystem|volume>",
    "[-r] -c [<perm|@setname>[,...]] <filesystem|volume>",
    "[-r] -s @setname [<perm|@setname>[,...]] <filesystem|volume>",
];

/// Length in columns of the line above the permissions of a dataset.
const RULE_COLUMNS: usize = 70;
/// Exit code when the dataset does not exist: -1 of a C function.
const NOT_OPENED: u8 = 255;

/// `zfs allow`.
pub fn allow(cx: &mut Context<'_>, call: &Call) -> Outcome {
    run(cx, call, false)
}

/// `zfs unallow`.
pub fn unallow(cx: &mut Context<'_>, call: &Call) -> Outcome {
    run(cx, call, true)
}

fn run(cx: &mut Context<'_>, call: &Call, removes: bool) -> Outcome {
    let parsed = &call.parsed;
    check(parsed)?;
    if parsed.has('h') {
        cx.print(&help(if removes { ("unallow", UNALLOW_USAGE) } else { ("allow", ALLOW_USAGE) }));
        return Ok(0);
    }
    let is_typed = "uge".chars().any(|letter| parsed.has(letter));
    let shows = !removes && parsed.operands.len() == 1 && !is_typed && !parsed.has('c') && !parsed.has('s');
    let request = if shows { None } else { Some(request(parsed, removes, is_typed)?) };
    let name = request.as_ref().map_or(&parsed.operands[0], |request| &request.dataset).clone();
    let invocation = cx.invocation(call.history());
    if let Err(refusal) = invocation.entry(&name) {
        let message = format!("{}\nFailed to open dataset: {name}", refusal.message);
        return Err(Failure::Refused { message, code: NOT_OPENED });
    }
    match request {
        Some(request) => allow::run(&invocation, &request)?,
        None => {
            let all = allow::delegations(&invocation, &name)?;
            all.iter().for_each(|(name, permissions)| cx.print(&shown(name, permissions)));
        }
    }
    Ok(0)
}

/// Refuses combinations of options that contradict each other.
fn check(parsed: &Parsed) -> Result<(), Failure> {
    let count = |letters: &str| letters.chars().filter(|letter| parsed.has(*letter)).count();
    let wrong = |what: &str| Err(Failure::usage(format!("zfs: error: {what}")));
    match () {
        () if count("uge") > 1 => wrong("-u, -g, and -e are mutually exclusive"),
        () if parsed.has('h') && (!parsed.operands.is_empty() || count("csugeldr") > 0) => Err(Failure::usage("")),
        () if parsed.has('s') && count("csuge") > 1 => wrong("invalid options combined with -s"),
        () if parsed.has('c') && count("csugeld") > 1 => wrong("invalid options combined with -c"),
        () if parsed.has('e') && count("csuge") > 1 => wrong("invalid options combined with -e"),
        () => Ok(()),
    }
}

fn request(parsed: &Parsed, removes: bool, is_typed: bool) -> Result<AllowRequest, Failure> {
    let wrong = |what: String| Failure::usage(format!("zfs: error: {what}"));
    let mut operands = parsed.operands.as_slice();
    let mut everyone = parsed.has('e');
    let has_who = match operands {
        _ if parsed.has('c') || everyone => false,
        [first, rest @ ..] if !parsed.has('s') && !is_typed && first == "everyone" => {
            (everyone, operands) = (true, rest);
            false
        }
        _ => true,
    };
    let (who, rest) = match operands {
        [who, rest @ ..] if has_who => (who.as_str(), rest),
        rest => ("", rest),
    };
    let (permissions, dataset) = match rest {
        [permissions, dataset] => (Some(permissions), dataset),
        [dataset] if removes && (!has_who || !who.is_empty()) => (None, dataset),
        _ => return Err(wrong("wrong number of parameters".to_owned())),
    };
    let grantees = match () {
        () if parsed.has('s') && !who.starts_with('@') => {
            return Err(wrong("invalid set name: missing '@' prefix".to_owned()));
        }
        () if parsed.has('s') => vec![Grantee::Set(who.to_owned())],
        () if parsed.has('c') => vec![Grantee::Creator],
        () if everyone => vec![Grantee::Everyone],
        () => who.split(',').map(|name| grantee(parsed, name).map_err(wrong)).collect::<Result<_, _>>()?,
    };
    let permissions: Vec<String> =
        permissions.map_or_else(Vec::new, |list| list.split(',').map(str::to_owned).collect());
    let (local, descendants) = (parsed.has('l'), parsed.has('d'));
    Ok(AllowRequest {
        dataset: dataset.clone(),
        grantees,
        permissions,
        local: local || !descendants,
        descendants: descendants || !local,
        removes,
        recursive: parsed.has('r'),
    })
}

/// The user or group that `name` names, or the id that it is.
fn grantee(parsed: &Parsed, name: &str) -> Result<Grantee, String> {
    let is_number = !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit());
    let user = || principals::user(name).filter(|id| !is_number || principals::user_name(&id.to_string()).is_some());
    let group = || principals::group(name).filter(|id| !is_number || principals::group_name(&id.to_string()).is_some());
    match () {
        () if parsed.has('u') => {
            principals::user(name).map(Grantee::User).ok_or_else(|| format!("invalid user {name}"))
        }
        () if parsed.has('g') => {
            principals::group(name).map(Grantee::Group).ok_or_else(|| format!("invalid group {name}"))
        }
        () => user()
            .map(Grantee::User)
            .or_else(|| group().map(Grantee::Group))
            .ok_or_else(|| format!("invalid user/group {name}")),
    }
}

/// The permissions of those that have some, by whether they apply to the dataset and to its
/// descendants.
type Rows = BTreeMap<(usize, String), BTreeMap<String, (bool, bool)>>;

/// What is delegated on one dataset, as OpenZFS prints it.
fn shown(name: &str, permissions: &Permissions) -> String {
    let head = format!("---- Permissions on {name} ");
    let mut text = format!("{head}{}\n", "-".repeat(RULE_COLUMNS.saturating_sub(head.len())));
    // The case of a key's first letter only says whether it holds sets.
    let mut rows = Rows::new();
    for (key, names) in permissions {
        let (Some(kind), Some(place), Some(id)) = (key.chars().next(), key.chars().nth(1), key.get(3..)) else {
            continue;
        };
        let Some(order) = "scuge".find(kind.to_ascii_lowercase()) else { continue };
        let row = rows.entry((order, id.to_owned())).or_default();
        for name in names {
            let applies = row.entry(name.clone()).or_default();
            (applies.0, applies.1) = (applies.0 || place == 'l', applies.1 || place == 'd');
        }
    }
    for (order, title) in ["Permission sets:\n", "Create time permissions:\n"].into_iter().enumerate() {
        let of_kind = rows.iter().filter(|((kind, _), _)| *kind == order);
        for (at, ((_, id), names)) in of_kind.enumerate() {
            let separator = if id.is_empty() { "" } else { " " };
            let names: Vec<&str> = names.keys().map(String::as_str).collect();
            text += if at == 0 { title } else { "" };
            text += &format!("\t{id}{separator}{}\n", names.join(","));
        }
    }
    for (title, place) in [
        ("Local permissions:\n", (true, false)),
        ("Descendent permissions:\n", (false, true)),
        ("Local+Descendent permissions:\n", (true, true)),
    ] {
        let mut title = Some(title);
        for ((kind, id), names) in rows.iter().filter(|((kind, _), _)| *kind > 1) {
            let names: Vec<&str> =
                names.iter().filter(|(_, at)| **at == place).map(|(name, _)| name.as_str()).collect();
            if names.is_empty() {
                continue;
            }
            let unknown = || format!("(unknown: {id})");
            let who = match kind {
                2 => format!("user {}", principals::user_name(id).unwrap_or_else(unknown)),
                3 => format!("group {}", principals::group_name(id).unwrap_or_else(unknown)),
                _ => "everyone".to_owned(),
            };
            text += title.take().unwrap_or_default();
            text += &format!("\t{who} {}\n", names.join(","));
        }
    }
    text
}

/// How the verb is used, and the permissions that there are.
fn help((verb, usage): (&str, &[&str])) -> String {
    let mut text = "Usage:\n".to_owned();
    usage.iter().for_each(|line| text += &format!("\t{verb} {line}\n"));
    text += "\nThe following permissions are supported:\n\n";
    let mut row = |name: &str, kind: &str| text += &format!("{name:<16} {kind}\n");
    row("NAME", "TYPE");
    let is_other = |name: &str| ["quota", "used", "userprop", ":"].iter().any(|part| name.contains(part));
    let (others, verbs): (Vec<&str>, Vec<&str>) = PERMISSIONS.iter().partition(|name| is_other(name));
    verbs.iter().for_each(|name| row(name, "subcommand"));
    others.iter().for_each(|name| row(name, "other"));
    let mut properties: Vec<&str> = CATALOGUE
        .iter()
        .filter(|def| def.listed() && !def.readonly() && def.name != "mlslabel")
        .map(|def| def.name)
        .collect();
    properties.sort_unstable();
    properties.iter().for_each(|name| row(name, "property"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_printed_as_openzfs_prints_them() {
        let all = [
            ("ul$0", "create,mount"),
            ("ud$0", "create,snapshot"),
            ("Ul$0", "@b"),
            ("gd$4000000000", "send"),
            ("el$", "hold"),
            ("ed$", "hold"),
            ("c-$", "destroy"),
            ("C-$", "@b"),
            ("s-$@b", "rollback,clone"),
            ("S-$@a", "@b"),
        ];
        let permissions: Permissions = all
            .into_iter()
            .map(|(key, names)| (key.to_owned(), names.split(',').map(str::to_owned).collect()))
            .collect();
        let expected = format!(
            "---- Permissions on tank/a {}\nPermission sets:\n\t@a @b\n\t@b clone,rollback\nCreate time \
             permissions:\n\t@b,destroy\nLocal permissions:\n\tuser root @b,mount\nDescendent permissions:\n\tuser root \
             snapshot\n\tgroup (unknown: 4000000000) send\nLocal+Descendent permissions:\n\tuser root create\n\teveryone \
             hold\n",
            "-".repeat(43)
        );
        assert_eq!(shown("tank/a", &permissions), expected);
    }

    fn parse(line: &str) -> Result<AllowRequest, Failure> {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let removes = args[0] == "unallow";
        let parsed = UNALLOW.parse(&args[1..]).map_err(Failure::usage)?;
        check(&parsed)?;
        request(&parsed, removes, "uge".chars().any(|letter| parsed.has(letter)))
    }

    #[test]
    fn all_forms_of_the_command_line() {
        let of = |line: &str| {
            let r = parse(line).expect(line);
            (r.grantees, r.permissions.join(","), r.dataset, r.local, r.descendants)
        };
        let tank = || "tank".to_owned();
        let user = vec![Grantee::User(0)];
        assert_eq!(of("allow root create,mount tank"), (user.clone(), "create,mount".to_owned(), tank(), true, true));
        assert_eq!(of("allow -l -u 7 create tank").0, [Grantee::User(7)]);
        assert_eq!(
            of("allow -d -g root,7 create tank"),
            (vec![Grantee::Group(0), Grantee::Group(7)], "create".to_owned(), tank(), false, true)
        );
        assert_eq!(of("allow everyone create tank").0, [Grantee::Everyone]);
        assert_eq!(of("allow -e create tank").0, [Grantee::Everyone]);
        assert_eq!(of("allow -c create tank").0, [Grantee::Creator]);
        assert_eq!(of("allow -s @a create tank").0, [Grantee::Set("@a".to_owned())]);
        assert_eq!(of("unallow root tank"), (user, String::new(), tank(), true, true));
        assert_eq!(of("unallow -s @a tank").0, [Grantee::Set("@a".to_owned())]);
        assert_eq!(of("unallow -r -e tank").0, [Grantee::Everyone]);
        for line in [
            "allow",
            "allow root tank",
            "allow -e tank",
            "allow -c tank",
            "allow -s a create tank",
            "allow -u -g root create tank",
            "allow -c -l create tank",
            "allow -s -e @a create tank",
            "allow nosuch create tank",
            "allow , create tank",
            "allow root create tank more",
            "unallow root",
            "unallow -r",
        ] {
            assert!(matches!(parse(line), Err(Failure::Usage(_))), "{line}");
        }
    }
}
