//! `zfs holds`: lists the holds that keep snapshots from being destroyed.

use super::datasets::Pools;
use crate::context::{Context, Failure, Outcome};
use crate::getopt::{ArgKind, flag};
use crate::number::date_minutes;
use crate::shared_options::SCRIPTED;
use crate::verb::{Call, Verb, for_anyone};
use dataset::{Entry, Hold, ListOptions};

/// The row of `zfs holds`.
pub static VERB: Verb = for_anyone("holds", "List the holds on snapshots", run)
    .usage(&["[-rHp] snapshot ..."])
    .options(&[
        flag('r', "Show the snapshots of that name of all descendants too."),
        SCRIPTED,
        flag('p', "Print times as seconds since 1970."),
    ])
    .operands(&[ArgKind::Snapshot])
    .examples(&[("zfs holds tank/home@monday", "Show what keeps a snapshot from being destroyed.")]);

/// `zfs holds`.
pub fn run(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    if parsed.operands.is_empty() {
        return Err(Failure::usage(""));
    }
    let (mut pools, mut code) = (Pools::new(cx), 0);
    let mut found: Vec<(String, Vec<Hold>)> = Vec::new();
    for name in &parsed.operands {
        let Some((dataset, snapshot)) = name.split_once('@') else {
            cx.complain(&format!("'{name}' is not a snapshot"));
            code = 1;
            continue;
        };
        let of = if parsed.has('r') { dataset } else { name };
        let Some(root) = pools.entry(cx, of)? else {
            code = 1;
            continue;
        };
        let entries = if parsed.has('r') {
            let options = ListOptions { filesystems: false, volumes: false, bookmarks: false, ..ListOptions::all() };
            let listing = root.pool.datasets.list(&[dataset], &options);
            let listing = listing.map_err(|e| Failure::failed(super::datasets::cannot_open(dataset, &e)))?;
            listing.entries.into_iter().filter(|e| e.name().split_once('@').is_some_and(|n| n.1 == snapshot)).collect()
        } else {
            vec![root.entry]
        };
        for entry in entries {
            let Entry::Dataset(d) = &entry else { continue };
            match d.holds() {
                Ok(_) if found.iter().any(|(n, _)| n == entry.name()) => {}
                Ok(holds) => found.push((entry.name().to_owned(), holds)),
                Err(error) => {
                    cx.complain(&format!("cannot get holds of '{}': {error}", entry.name()));
                    code = 1;
                }
            }
        }
    }
    cx.print(&render(&found, parsed.has('H'), parsed.has('p')));
    Ok(code)
}

fn render(found: &[(String, Vec<Hold>)], scripted: bool, literal: bool) -> String {
    let name_width = found.iter().map(|(n, _)| n.len()).max().unwrap_or(0);
    let tag_width = found.iter().flat_map(|(_, h)| h).map(|h| h.tag.len()).max().unwrap_or(0);
    let mut out = String::new();
    if !scripted {
        out.push_str(&format!("{:name_width$}  {:tag_width$}  TIMESTAMP\n", "NAME", "TAG"));
    }
    for (name, holds) in found {
        for hold in holds {
            let time = if literal { hold.time.to_string() } else { date_minutes(hold.time) };
            out.push_str(&match scripted {
                true => format!("{name}\t{}\t{time}\n", hold.tag),
                false => format!("{name:name_width$}  {:tag_width$}  {time}\n", hold.tag),
            });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_are_listed_as_openzfs_does() {
        let found = [("tank/q@s2".to_owned(), vec![Hold { tag: "keep".into(), time: 7 }])];
        let when = date_minutes(7);
        assert_eq!(render(&found, false, false), format!("NAME       TAG   TIMESTAMP\ntank/q@s2  keep  {when}\n"));
        assert_eq!(render(&found, true, true), "tank/q@s2\tkeep\t7\n");
    }
}
