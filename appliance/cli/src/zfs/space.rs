//! `zfs userspace`, `groupspace` and `projectspace`: the space, objects and quotas of each user,
//! group or project.

use super::datasets::Pools;
use crate::context::{Context, Failure, Outcome};
use crate::getopt::{ArgKind, Opt, flag, value};
use crate::number::{nice_bytes, nice_number};
use crate::shared_options::{EXACT, SCRIPTED};
use crate::table::{Column, list_header, list_line};
use crate::verb::{Call, Verb, for_anyone};
use dataset::quota::{Accounts, Principal, Usage};
use std::collections::HashMap;

/// The row of `zfs userspace`.
pub static USER: Verb = for_anyone("userspace", "Show space by user", |cx, call| run(cx, call, Principal::User))
    .usage(USAGE)
    .options(OPTIONS)
    .operands(&[ArgKind::AnyDataset])
    .examples(&[(
        "zfs userspace -S used tank/home",
        "Show the users of a file system, those with the most data first.",
    )]);

/// The row of `zfs groupspace`.
pub static GROUP: Verb = for_anyone("groupspace", "Show space by group", |cx, call| run(cx, call, Principal::Group))
    .usage(USAGE)
    .options(OPTIONS)
    .operands(&[ArgKind::AnyDataset])
    .examples(&[("zfs groupspace tank/home", "Show the space and quota of each group.")]);

/// The row of `zfs projectspace`.
pub static PROJECT: Verb =
    for_anyone("projectspace", "Show space by project", |cx, call| run(cx, call, Principal::Project))
        .usage(&["[-Hp] [-o field,...] [-s field]... [-S field]... filesystem|snapshot"])
        .options(&[SCRIPTED, EXACT, OUTPUT, SORT, SORT_DESCENDING])
        .operands(&[ArgKind::AnyDataset])
        .examples(&[("zfs projectspace tank/home", "Show the space and quota of each project.")]);

const USAGE: &[&str] = &["[-Hinp] [-o field,...] [-s field]... [-S field]... [-t type,...] filesystem|snapshot"];
const OPTIONS: &[Opt] = &[
    flag('n', "Print numbers instead of names."),
    SCRIPTED,
    EXACT,
    OUTPUT,
    SORT,
    SORT_DESCENDING,
    value(
        't',
        "type,...",
        ArgKind::Words(&["all", "posixuser", "smbuser", "posixgroup", "smbgroup"]),
        "Show only identities of these types.",
    ),
    flag('i', "Translate SIDs to POSIX ids, which needs an identity map that Linux does not have."),
];
const OUTPUT: Opt = value('o', "field,...", ArgKind::Words(FIELD_NAMES), "Print these fields, in this order.");
const SORT: Opt = value('s', "field", ArgKind::Words(FIELD_NAMES), "Sort by this field, ascending.").repeated();
const SORT_DESCENDING: Opt =
    value('S', "field", ArgKind::Words(FIELD_NAMES), "Sort by this field, descending.").repeated();
const FIELD_NAMES: &[&str] = &["type", "name", "used", "quota", "objused", "objquota"];

const FIELDS: [(&str, &str); 6] = [
    ("type", "TYPE"),
    ("name", "NAME"),
    ("used", "USED"),
    ("quota", "QUOTA"),
    ("objused", "OBJUSED"),
    ("objquota", "OBJQUOTA"),
];

/// A line before formatting.
struct Row {
    usage: Usage,
    kind: &'static str,
    name: Option<String>,
}

/// The names by id in a file such as /etc/passwd.
fn names(path: &str) -> HashMap<u64, String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let entry = |line: &str| {
        let mut parts = line.split(':');
        let name = parts.next()?.to_owned();
        Some((parts.nth(1)?.parse().ok()?, name))
    };
    text.lines().filter_map(entry).fold(HashMap::new(), |mut names, (id, name)| {
        names.entry(id).or_insert(name);
        names
    })
}

/// Runs one of the three verbs.
fn run(cx: &mut Context<'_>, call: &Call, principal: Principal) -> Outcome {
    let parsed = &call.parsed;
    let [name] = parsed.operands.as_slice() else {
        let message = if parsed.operands.is_empty() { "missing dataset name" } else { "too many arguments" };
        return Err(Failure::usage(message));
    };
    let fields = fields(parsed.last('o').unwrap_or("type,name,used,quota,objused,objquota"))?;
    let mut sort: Vec<(usize, bool)> = Vec::new();
    for (letter, field) in parsed.given.iter().filter(|(l, _)| matches!(l, 's' | 'S')) {
        let column = field_index(field).ok_or_else(|| Failure::usage(format!("invalid field '{field}'")))?;
        sort.push((column, *letter == 'S'));
    }
    // These two columns break ties.
    sort.extend([(0, false), (1, false)]);
    let kinds = kinds(parsed.last('t'), principal)?;
    let mut pools = Pools::new(cx);
    let Some(name) = pools.name(cx, name) else { return Ok(1) };
    let name = name.as_str();
    let Some(found) = pools.entry(cx, name)? else { return Ok(1) };
    let Some(dataset) = found.entry.dataset() else {
        return Err(Failure::failed(format!(
            "cannot open '{name}': operation not applicable to datasets of this type"
        )));
    };
    let accounts = Accounts::open(dataset, &found.pool.keys).map_err(|e| cannot(name, &e))?;
    let users = match principal {
        _ if parsed.has('n') => HashMap::new(),
        Principal::User => names("/etc/passwd"),
        Principal::Group => names("/etc/group"),
        Principal::Project => HashMap::new(),
    };
    let mut rows: Vec<Row> = accounts
        .all(principal)
        .map_err(|e| cannot(name, &e))?
        .into_iter()
        .map(|usage| Row {
            kind: match (principal, &usage.domain) {
                (Principal::User, None) => "POSIX User",
                (Principal::User, Some(_)) => "SMB User",
                (Principal::Group, None) => "POSIX Group",
                (Principal::Group, Some(_)) => "SMB Group",
                (Principal::Project, _) => "Project",
            },
            name: match &usage.domain {
                Some(domain) => Some(format!("{domain}-{}", usage.id)),
                None => users.get(&usage.id).cloned(),
            },
            usage,
        })
        .filter(|row| kinds.contains(&row.kind))
        .collect();
    rows.sort_by(|a, b| {
        let by = |(column, reverse): &(usize, bool)| {
            let order = compare(a, b, *column);
            if *reverse { order.reverse() } else { order }
        };
        sort.iter().map(by).find(|o| o.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
    });
    cx.print(&render(&rows, &fields, parsed.has('H'), parsed.has('p')));
    Ok(0)
}

fn cannot(name: &str, error: &errors::Error) -> Failure {
    Failure::failed(match error {
        errors::Error::KeyUnavailable { .. } => {
            format!("cannot get used/quota for '{name}': encryption key not loaded")
        }
        error => format!("cannot get used/quota for {name}: {error}"),
    })
}

fn field_index(name: &str) -> Option<usize> {
    FIELDS.iter().position(|(n, _)| *n == name)
}

fn fields(list: &str) -> Result<Vec<usize>, Failure> {
    let one =
        |name: &str| field_index(name).ok_or_else(|| Failure::usage(format!("invalid type '{name}' for -o option")));
    list.split(',').map(one).collect()
}

fn kinds(list: Option<&str>, principal: Principal) -> Result<Vec<&'static str>, Failure> {
    let Some(list) = list.filter(|_| principal != Principal::Project) else {
        return Ok(vec!["POSIX User", "SMB User", "POSIX Group", "SMB Group", "Project"]);
    };
    let mut found = Vec::new();
    for name in list.split(',') {
        found.extend_from_slice(match name {
            "posixuser" => &["POSIX User"],
            "smbuser" => &["SMB User"],
            "posixgroup" => &["POSIX Group"],
            "smbgroup" => &["SMB Group"],
            "all" => &["POSIX User", "SMB User", "POSIX Group", "SMB Group"][..],
            other => return Err(Failure::usage(format!("invalid type '{other}' for -t option"))),
        });
    }
    Ok(found)
}

fn compare(a: &Row, b: &Row, column: usize) -> std::cmp::Ordering {
    match column {
        0 => a.kind.cmp(b.kind),
        1 => match (&a.name, &b.name) {
            (Some(x), Some(y)) => x.cmp(y),
            // As in OpenZFS, a name compared with a number counts as 0.
            (x, y) => {
                let number = |name: &Option<String>, id| if name.is_some() { 0 } else { id };
                number(x, a.usage.id).cmp(&number(y, b.usage.id))
            }
        },
        2 => a.usage.used_bytes.cmp(&b.usage.used_bytes),
        3 => a.usage.quota_bytes.cmp(&b.usage.quota_bytes),
        4 => a.usage.used_objects.cmp(&b.usage.used_objects),
        _ => a.usage.quota_objects.cmp(&b.usage.quota_objects),
    }
}

fn cell(row: &Row, field: usize, literal: bool) -> String {
    let shown = |number: Option<u64>, nice: fn(u64) -> String, is_quota: bool| match number {
        None => "-".to_owned(),
        Some(n) if literal => n.to_string(),
        Some(0) if is_quota => "none".to_owned(),
        Some(n) => nice(n),
    };
    let usage = &row.usage;
    match field {
        0 => row.kind.to_owned(),
        1 => row.name.clone().unwrap_or_else(|| usage.id.to_string()),
        2 => shown(usage.used_bytes, nice_bytes, false),
        3 => shown(usage.quota_bytes, nice_bytes, true),
        4 => shown(usage.used_objects, nice_number, false),
        _ => shown(usage.quota_objects, nice_number, true),
    }
}

fn render(rows: &[Row], fields: &[usize], scripted: bool, literal: bool) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let lines: Vec<Vec<String>> =
        rows.iter().map(|row| fields.iter().map(|f| cell(row, *f, literal)).collect()).collect();
    let columns: Vec<Column> = fields
        .iter()
        .enumerate()
        .map(|(i, field)| {
            let heading = FIELDS[*field].1;
            let widest = lines.iter().filter_map(|l| l.get(i)).map(String::len).max().unwrap_or(0);
            Column { heading: heading.into(), width: widest.max(heading.len()), right: *field > 1 }
        })
        .collect();
    let mut out = if scripted { String::new() } else { list_header(&columns) };
    for line in &lines {
        out.push_str(&list_line(&columns, line, scripted));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_is_listed_as_openzfs_does() {
        let usage = Usage {
            principal: Principal::User,
            domain: None,
            id: 0,
            used_bytes: Some(1536),
            quota_bytes: Some(0),
            used_objects: Some(3),
            quota_objects: Some(0),
        };
        let rows = [Row { usage, kind: "POSIX User", name: Some("root".into()) }];
        let all = fields("type,name,used,quota,objused,objquota").expect("known");
        let expected =
            "TYPE        NAME   USED  QUOTA  OBJUSED  OBJQUOTA\nPOSIX User  root  1.50K   none        3      none\n";
        assert_eq!(render(&rows, &all, false, false), expected);
        let some = fields("type,name,used,quota").expect("known");
        assert_eq!(render(&rows, &some, true, true), "POSIX User\troot\t1536\t0\n");
        assert!(fields("nosuch").is_err() && kinds(Some("nosuch"), Principal::User).is_err());
    }
}
