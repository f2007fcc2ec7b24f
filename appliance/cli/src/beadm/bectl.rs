//! `bectl`: boot environments with the command line of FreeBSD's bectl(8).

use super::change::{Destroy, environment, rename_to, snapshots, start};
use super::create::{Wanted, here, snapshot, source};
use super::face::{Face, operand};
use super::list::{Line, Now, table};
use super::lookup::{Found, all, one, snapshot_of};
use super::mount;
use crate::context::{Context, Failure, Outcome, Verb, for_anyone, for_owner, not_yet};
use crate::getopt::Options;
use crate::number::date_short;
use crate::zpool::writing::command_line;
use admin::environments::Part;

/// Represents `-r beroot`, which comes before the verb.
const ROOT: (&str, bool, char) = ("beroot", true, 'B');
const NONE: Options = Options { short: "", long: &[ROOT] };
const ACTIVATE: Options = Options { short: "tT", long: &[ROOT] };
const CREATE: Options = Options { short: "re:", long: &[ROOT] };
const DESTROY: Options = Options { short: "Fo", long: &[ROOT] };
const LIST: Options = Options { short: "aDHsc:C:", long: &[ROOT] };
const UNMOUNT: Options = Options { short: "f", long: &[ROOT] };

/// The verbs of bectl(8).
pub static VERBS: &[Verb] = &[
    for_owner("activate", &["[-t | -T] beName"], "Set the environment to boot", activate),
    for_anyone("check", &[""], "Exit with 0 if there are environments", check),
    for_owner(
        "create",
        &["[-r] [-e {nonActiveBe | beName@snapshot}] newBeName", "[-r] beName@snapshot"],
        "Create an environment from another one, or from a snapshot",
        create,
    ),
    for_owner(
        "destroy",
        &["[-Fo] {beName | beName@snapshot}"],
        "Destroy an environment, or a snapshot of one",
        destroy,
    ),
    not_yet("export"),
    not_yet("import"),
    not_yet("jail"),
    not_yet("ujail"),
    not_yet("unjail"),
    for_anyone("list", &["[-aDHs] [{-c property | -C property}]"], "Show environments", list),
    for_owner("mount", &["beName [mountpoint]"], "Mount all parts of an environment", mount_at),
    for_owner("rename", &["origBeName newBeName"], "Rename an environment", rename),
    for_owner("umount", &["[-f] beName"], "Unmount an environment", unmount),
    for_owner("unmount", &["[-f] beName"], "Unmount an environment", unmount),
];

/// Moves `-r beroot`, which comes before the verb, after it.
pub fn split_root(args: &[String]) -> Vec<String> {
    match args {
        [option, root, verb, rest @ ..] if option == "-r" => {
            let mut line = vec![verb.clone(), format!("--{}={root}", ROOT.0)];
            line.extend(rest.iter().cloned());
            line
        }
        _ => args.to_vec(),
    }
}

fn activate(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = ACTIVATE.parse(args).map_err(Failure::usage)?;
    if parsed.has('t') || parsed.has('T') {
        return Err(Failure::failed("unsupported: -t and -T (an environment for the next boot only)"));
    }
    let name = operand(&parsed)?.to_owned();
    let root = parsed.last('B').map(str::to_owned);
    let found = one(cx, &name, root.as_deref())?;
    match start(cx, &found, &command_line("bectl activate", args), false, root.as_deref()) {
        Ok(()) => {
            cx.print(&format!("Successfully activated boot environment {name}\n"));
            Ok(0)
        }
        Err(why) => {
            cx.complain(&format!("Did not successfully activate boot environment {name}: {why}"));
            Ok(1)
        }
    }
}

fn check(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = NONE.parse(args).map_err(Failure::usage)?;
    if !parsed.operands.is_empty() {
        return Err(Failure::usage("bectl check: wrong number of arguments"));
    }
    let root = parsed.last('B').map(str::to_owned);
    Ok(u8::from(all(cx, root.as_deref())?.is_empty()))
}

fn create(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = CREATE.parse(args).map_err(Failure::usage)?;
    let name = operand(&parsed)?.to_owned();
    let root = parsed.last('B').map(str::to_owned);
    let command = command_line("bectl create", args);
    if name.contains('@') {
        snapshot(cx, &name, &command, root.as_deref())?;
        return Ok(0);
    }
    let (mut found, given) = source(cx, parsed.last('e'), root.as_deref())?;
    // Without -r, datasets below the root are not included.
    if !parsed.has('r') {
        found.environment.parts.truncate(1);
    }
    let wanted = Wanted {
        name: &name,
        found: &found,
        given: given.as_deref(),
        properties: &[],
        description: None,
        activate: false,
        verbose: false,
        container: root.as_deref(),
        shallow: !parsed.has('r'),
    };
    here(cx, &wanted, &command, Face::Bectl)?;
    Ok(0)
}

fn destroy(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = DESTROY.parse(args).map_err(Failure::usage)?;
    let name = operand(&parsed)?.to_owned();
    let root = parsed.last('B').map(str::to_owned);
    let command = command_line("bectl destroy", args);
    if name.contains('@') {
        let (found, short) = snapshot_of(cx, &name, root.as_deref())?;
        snapshots(cx, &found, &short, &command)?;
        return Ok(0);
    }
    let found = one(cx, &name, root.as_deref())?;
    let origin = found.environment.head().and_then(|part| part.origin.clone());
    if let Some(origin) = origin.filter(|o| !parsed.has('o') && !admin::environments::is_automatic(o.short())) {
        cx.complain(&format!("bectl destroy: leaving origin '{}' intact", origin.name));
    }
    let how = Destroy {
        force: parsed.has('F'),
        snapshots: true,
        origins: parsed.has('o'),
        root: root.as_deref(),
        verbose: false,
    };
    environment(cx, &found, &command, &how)?;
    Ok(0)
}

fn mount_at(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = NONE.parse(args).map_err(Failure::usage)?;
    let (name, place) = match parsed.operands.as_slice() {
        [name] => (name.clone(), None),
        [name, place] => (name.clone(), Some(place.clone())),
        [] => return Err(Failure::usage("bectl mount: missing argument(s)")),
        _ => return Err(Failure::usage("bectl mount: too many arguments")),
    };
    let root = parsed.last('B').map(str::to_owned);
    let found = one(cx, &name, root.as_deref())?;
    let place = place.map(|place| cx.client.absolute(place.as_ref()).map(|p| p.display().to_string()));
    let place = place.transpose().map_err(|e| Failure::failed(e.to_string()))?;
    let place = mount::at(cx, &found, place.as_deref())
        .map_err(|why| Failure::failed(format!("Failed to mount bootenv {name}: {why}")))?;
    cx.print(&format!("{}\n", place.display()));
    Ok(0)
}

fn unmount(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = UNMOUNT.parse(args).map_err(Failure::usage)?;
    let name = operand(&parsed)?.to_owned();
    let root = parsed.last('B').map(str::to_owned);
    mount::from(cx, &name, parsed.has('f'), root.as_deref())?;
    Ok(0)
}

fn rename(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = NONE.parse(args).map_err(Failure::usage)?;
    let [from, to] = parsed.operands.as_slice() else {
        let what = if parsed.operands.len() > 2 { "too many arguments" } else { "missing argument" };
        return Err(Failure::usage(format!("bectl rename: {what}")));
    };
    let root = parsed.last('B').map(str::to_owned);
    let found = one(cx, from, root.as_deref())?;
    rename_to(cx, &found, to, false, root.as_deref(), Face::Bectl)?;
    Ok(0)
}

/// Sizes in at most five characters, as humanize_number(3) prints them: `8K`, `1.2G`.
fn human(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["", "K", "M", "G", "T", "P", "E"];
    let mut scale = 0;
    let mut value = bytes as f64;
    while scale + 1 < UNITS.len() && value >= 999.5 {
        value /= 1024.0;
        scale += 1;
    }
    let unit = UNITS.get(scale).unwrap_or(&"");
    if scale > 0 && value < 9.95 { format!("{value:.1}{unit}") } else { format!("{value:.0}{unit}") }
}

fn list(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = LIST.parse(args).map_err(Failure::usage)?;
    if !parsed.operands.is_empty() {
        return Err(Failure::usage("bectl list: extra argument provided"));
    }
    let root = parsed.last('B').map(str::to_owned);
    let mut found = all(cx, root.as_deref())?;
    let (key, descends) = match (parsed.last('c'), parsed.last('C')) {
        (_, Some(key)) => (key, true),
        (Some(key), None) => (key, false),
        (None, None) => ("name", false),
    };
    let head = |f: &Found| f.environment.head().cloned();
    let origin = |p: Option<Part>| p.and_then(|p| p.origin).map(|o| o.name).unwrap_or_default();
    let of_snapshots = |p: Part| p.snapshots.iter().map(|s| s.used).sum::<u64>();
    match key {
        "name" => found.sort_by(|a, b| a.name().cmp(b.name())),
        "creation" => found.sort_by_key(|f| head(f).map_or(0, |p| p.created)),
        "origin" => found.sort_by_key(|f| origin(head(f))),
        "used" => found.sort_by_key(|f| head(f).map_or(0, |p| p.used)),
        "usedds" | "usedbydataset" => found.sort_by_key(|f| head(f).map_or(0, |p| p.referenced)),
        "usedsnap" | "usedbysnapshots" => found.sort_by_key(|f| head(f).map_or(0, of_snapshots)),
        other => return Err(Failure::usage(format!("bectl list: cannot sort by '{other}'"))),
    }
    if descends {
        found.reverse();
    }
    let (datasets, snapshots) = (parsed.has('a'), parsed.has('s'));
    let is_deep = datasets || snapshots;
    let now = Now::look(cx);
    let dash = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    let titles = [if is_deep { "BE/Dataset/Snapshot" } else { "BE" }, "Active", "Mountpoint", "Space", "Created"];
    let mut lines = vec![Line { indent: 0, fields: titles.map(str::to_owned).to_vec() }];
    for f in &found {
        let Some(part) = f.environment.head() else { continue };
        let marks = dash(now.active(f, &part.name));
        let mut space = part.used;
        if !is_deep {
            space += part.origin.as_ref().map_or(0, |o| o.used);
            if parsed.has('D') {
                let origin = part.origin.as_ref().and_then(|o| o.name.split('@').next());
                let other = found.iter().flat_map(|o| &o.environment.parts).find(|p| Some(p.name.as_str()) == origin);
                space += other.map_or(0, |p| p.used);
            }
            let fields =
                vec![f.name().to_owned(), marks, dash(now.place(&part.name)), human(space), date_short(part.created)];
            lines.push(Line { indent: 0, fields });
            continue;
        }
        lines.push(Line { indent: 0, fields: vec![String::new()] });
        lines.push(Line { indent: 0, fields: vec![f.name().to_owned()] });
        for (at, part) in f.environment.parts.iter().enumerate().filter(|(at, _)| *at == 0 || datasets) {
            let marks = if at == 0 { marks.clone() } else { "-".to_owned() };
            let own =
                vec![part.name.clone(), marks, dash(now.place(&part.name)), human(part.used), date_short(part.created)];
            lines.push(Line { indent: 2, fields: own });
            let mut line = |indent: usize, s: &admin::environments::Snapshot| {
                let fields = vec![s.name.clone(), "-".into(), "-".into(), human(s.used), date_short(s.created)];
                lines.push(Line { indent, fields });
            };
            part.origin.iter().for_each(|s| line(4, s));
            part.snapshots.iter().filter(|_| snapshots).for_each(|s| line(2, s));
        }
    }
    let text = match parsed.has('H') {
        true => lines.iter().skip(1).map(|l| format!("{}{}\n", " ".repeat(l.indent), l.fields.join("\t"))).collect(),
        false => table(&lines),
    };
    cx.print(&text);
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_humanize_number() {
        for (bytes, text) in [(0, "0"), (8192, "8.0K"), (1 << 20, "1.0M"), (1_288_490_188, "1.2G"), (100 << 20, "100M")]
        {
            assert_eq!(human(bytes), text, "{bytes}");
        }
    }

    #[test]
    fn the_root_option_follows_the_verb() {
        let line = |words: &str| words.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(split_root(&line("-r tank/BE list -H")), line("list --beroot=tank/BE -H"));
        assert_eq!(split_root(&line("create -r x")), line("create -r x"));
    }
}
