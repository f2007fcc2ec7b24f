//! `bectl`: boot environments with the command line of FreeBSD's bectl(8).

use super::change::{Destroy, environment, rename_to, snapshots, start};
use super::create::{Wanted, here, snapshot, source};
use super::face::{Face, operand};
use super::list::{Line, Now, table};
use super::lookup::{Found, all, one, snapshot_of};
use super::mount;
use crate::context::{Context, Failure, Outcome};
use crate::getopt::{ArgKind, Opt, flag, value};
use crate::number::date_short;
use crate::shared_options::SCRIPTED;
use crate::verb::{Call, Verb, for_anyone, for_owner, not_yet};
use admin::environments::Part;

static ACTIVATE: Verb = for_owner("activate", "Set the environment to boot", activate)
    .usage(&["[-t | -T] beName"])
    .options(&[
        flag('t', "Boot the environment once.").refused(ONCE),
        flag('T', "Undo what -t did.").refused(ONCE),
        ROOT,
    ])
    .operands(&[ArgKind::Text])
    .history("bectl activate")
    .examples(&[("bectl activate new", "Boot the environment new from now on.")]);

const ONCE: &str = "unsupported: -t and -T (an environment for the next boot only)";

static CHECK: Verb = for_anyone("check", "Exit with 0 if there are environments", check)
    .usage(&[""])
    .options(&[ROOT])
    .examples(&[("bectl check", "Find out whether a machine has boot environments.")]);

static CREATE: Verb = for_owner("create", "Create an environment from another one, or from a snapshot", create)
    .usage(&["[-r] [-e {nonActiveBe | beName@snapshot}] newBeName", "[-r] beName@snapshot"])
    .options(&[
        flag('r', "Copy the datasets below the root too."),
        value('e', "beName", ArgKind::Text, "Copy this environment or snapshot instead of the running one."),
        ROOT,
    ])
    .operands(&[ArgKind::Text])
    .history("bectl create")
    .examples(&[("bectl create -r new", "Copy the running environment with all of its datasets.")]);

static DESTROY: Verb = for_owner("destroy", "Destroy an environment, or a snapshot of one", destroy)
    .usage(&["[-Fo] {beName | beName@snapshot}"])
    .options(&[
        flag('F', "Unmount the environment if it is mounted."),
        flag('o', "Destroy the snapshot from which it was created too."),
        ROOT,
    ])
    .operands(&[ArgKind::Text])
    .history("bectl destroy")
    .examples(&[("bectl destroy -o old", "Destroy an environment and its origin.")]);

static LIST: Verb = for_anyone("list", "Show environments", list)
    .usage(&["[-aDHs] [{-c property | -C property}]"])
    .options(&[
        flag('a', "Show datasets."),
        flag('D', "Count the space of the origin too, as if the environment were the only one."),
        SCRIPTED,
        flag('s', "Show snapshots."),
        value('c', "property", ArgKind::Words(SORT_KEYS), "Sort by this property, ascending."),
        value('C', "property", ArgKind::Words(SORT_KEYS), "Sort by this property, descending."),
        ROOT,
    ])
    .examples(&[("bectl list -s", "Show environments with their snapshots.")]);

const SORT_KEYS: &[&str] = &["name", "creation", "origin", "used", "usedds", "usedsnap"];

static MOUNT: Verb = for_owner("mount", "Mount all parts of an environment", mount_at)
    .usage(&["beName [mountpoint]"])
    .options(&[ROOT])
    .operands(&[ArgKind::Text, ArgKind::File])
    .history("bectl mount")
    .examples(&[("bectl mount new /mnt", "Mount an environment to look at it or to change it.")]);

static RENAME: Verb = for_owner("rename", "Rename an environment", rename)
    .usage(&["origBeName newBeName"])
    .options(&[ROOT])
    .operands(&[ArgKind::Text])
    .history("bectl rename")
    .examples(&[("bectl rename new old", "Give an environment another name.")]);

static UNMOUNT: Verb = UNMOUNT_ROW;
static UMOUNT: Verb = UNMOUNT_ROW.called("umount");

const UNMOUNT_ROW: Verb = for_owner("unmount", "Unmount an environment", unmount)
    .usage(&["[-f] beName"])
    .options(&[flag('f', "Unmount the environment even if it is in use."), ROOT])
    .operands(&[ArgKind::Text])
    .history("bectl unmount")
    .examples(&[("bectl unmount new", "Unmount an environment.")]);

/// Represents `-r beroot`, which comes before the verb.
const ROOT: Opt = value(
    'B',
    "dataset",
    ArgKind::Dataset,
    "Look for environments below this dataset; the same as -r before the verb.",
)
.only_long("beroot");

/// The verbs of bectl(8).
pub static VERBS: &[&Verb] = &[
    &ACTIVATE,
    &CHECK,
    &CREATE,
    &DESTROY,
    &not_yet("export", "Write an environment as a stream"),
    &not_yet("import", "Create an environment from a stream"),
    &not_yet("jail", "Run a jail in an environment"),
    &not_yet("ujail", "Destroy a jail"),
    &not_yet("unjail", "Destroy a jail"),
    &LIST,
    &MOUNT,
    &RENAME,
    &UMOUNT,
    &UNMOUNT,
];

/// Moves `-r beroot`, which comes before the verb, after it.
pub fn split_root(args: &[String]) -> Vec<String> {
    match args {
        [option, root, verb, rest @ ..] if option == "-r" => {
            let mut line = vec![verb.clone(), format!("--beroot={root}")];
            line.extend(rest.iter().cloned());
            line
        }
        _ => args.to_vec(),
    }
}

fn activate(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let name = operand(parsed)?.to_owned();
    let root = parsed.last('B').map(str::to_owned);
    let found = one(cx, &name, root.as_deref())?;
    match start(cx, &found, &call.history(), false, root.as_deref()) {
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

fn check(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    if !parsed.operands.is_empty() {
        return Err(Failure::usage("bectl check: wrong number of arguments"));
    }
    let root = parsed.last('B').map(str::to_owned);
    Ok(u8::from(all(cx, root.as_deref())?.is_empty()))
}

fn create(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let name = operand(parsed)?.to_owned();
    let root = parsed.last('B').map(str::to_owned);
    let command = call.history();
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

fn destroy(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let name = operand(parsed)?.to_owned();
    let root = parsed.last('B').map(str::to_owned);
    let command = call.history();
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

fn mount_at(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
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

fn unmount(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let name = operand(parsed)?.to_owned();
    let root = parsed.last('B').map(str::to_owned);
    mount::from(cx, &name, parsed.has('f'), root.as_deref())?;
    Ok(0)
}

fn rename(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
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

fn list(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
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
