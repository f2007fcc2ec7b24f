//! `beadm list` and `bectl list`.

use super::face::Face;
use super::lookup::{Found, all, one, running};
use crate::context::{Context, Failure, Outcome};
use crate::getopt::{ArgKind, flag, value};
use crate::json::{self, Object};
use crate::number::{date_short, nice_bytes};
use crate::shared_options::JSON;
use crate::verb::{Call, Verb, for_anyone};
use admin::environments::{DESCRIPTION, POLICY, UUID, property};
use serde_json::{Value, json};

/// The row of `beadm list`.
pub static VERB: Verb = for_anyone("list", "Show environments", run)
    .usage(&["[-a | -ds] [-H] [-j] [-k date|name|space | -K date|name|space] [-v] [beName]"])
    .options(&[
        flag('a', "Show datasets and snapshots."),
        flag('d', "Show datasets."),
        flag('s', "Show snapshots."),
        flag('H', "For scripts: no headings, semicolons between fields."),
        JSON,
        flag('v', "Accepted as by beadm(8); the list is the same."),
        value('k', "key", ArgKind::Words(&["date", "name", "space"]), "Sort by this key, ascending."),
        value('K', "key", ArgKind::Words(&["date", "name", "space"]), "Sort by this key, descending."),
    ])
    .operands(&[ArgKind::Text])
    .examples(&[("beadm list -a", "Show all environments with their datasets and snapshots.")]);

/// A line of a table.
pub struct Line {
    /// Number of spaces before the first field.
    pub indent: usize,
    /// The fields, in the order of the columns.
    pub fields: Vec<String>,
}

/// The running environment and the mounts, read once for a list.
pub struct Now {
    runs: Option<String>,
    mounted: Vec<(String, String)>,
}

impl Now {
    /// Reads the current state.
    pub fn look(cx: &Context<'_>) -> Self {
        Self { runs: running(), mounted: crate::mounts::mounted(cx) }
    }

    /// Whether an environment is running (`N`) and will be booted (`R`).
    pub fn active(&self, found: &Found, dataset: &str) -> String {
        let root = found.environment.root();
        let mut text = String::new();
        if dataset == root && self.runs.as_deref() == Some(root) {
            text.push('N');
        }
        if dataset == root && found.environment.on_boot {
            text.push('R');
        }
        text
    }

    /// Mount point of a dataset; empty if it is not mounted.
    pub fn place(&self, dataset: &str) -> String {
        if self.runs.as_deref() == Some(dataset) {
            return "/".to_owned();
        }
        self.mounted.iter().find(|(name, _)| name == dataset).map(|(_, place)| place.clone()).unwrap_or_default()
    }
}

fn text(found: &Found, name: &str) -> Option<String> {
    property(&found.pool.datasets, found.environment.root(), name).ok().flatten().filter(|v| v != "-" && !v.is_empty())
}

/// `beadm list`.
pub fn run(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    for other in ['d', 's'] {
        if parsed.has('a') && parsed.has(other) {
            return Err(Failure::usage(format!("Invalid options: -a and -{other} are mutually exclusive.")));
        }
    }
    let wanted = match parsed.operands.as_slice() {
        [] => None,
        [one] => Some(one.as_str()),
        _ => return Err(Failure::usage("")),
    };
    let (datasets, snapshots) = (parsed.has('d') || parsed.has('a'), parsed.has('s') || parsed.has('a'));
    let mut found = all(cx, None)?;
    if let Some(wanted) = wanted {
        found = vec![one(cx, wanted, None)?];
    }
    if found.is_empty() {
        return Err(Failure::failed("No boot environments found on this system."));
    }
    // As beadm(8): by date unless an option says otherwise.
    let (key, descends) = match (parsed.last('k'), parsed.last('K')) {
        (Some(key), _) => (key, false),
        (None, Some(key)) => (key, true),
        (None, None) => ("date", false),
    };
    let head = |f: &Found| f.environment.head().map_or((0, 0), |p| (p.created, p.used));
    match key {
        "date" => found.sort_by_key(|f| head(f).0),
        "name" => found.sort_by(|a, b| a.name().cmp(b.name())),
        "space" => found.sort_by_key(|f| head(f).1),
        other => return Err(Failure::usage(format!("Invalid sort key '{other}': date, name or space"))),
    }
    if descends {
        found.reverse();
    }
    let now = Now::look(cx);
    if parsed.has('j') {
        return document(cx, &found, &now);
    }
    if parsed.has('H') {
        return for_scripts(cx, &found, &now, datasets, snapshots);
    }
    let title = match (datasets, snapshots) {
        (true, true) => "BE/Dataset/Snapshot",
        (true, false) => "BE/Dataset",
        (false, true) => "BE/Snapshot",
        (false, false) => "BE",
    };
    let is_narrow = snapshots && !datasets;
    let mut lines = Vec::new();
    let mut titles = vec![title.to_owned()];
    if !is_narrow {
        titles.extend(["Active", "Mountpoint"].map(str::to_owned));
    }
    titles.extend(["Space", "Policy", "Created"].map(str::to_owned));
    lines.push(Line { indent: 0, fields: titles });
    let dash = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    for f in &found {
        let policy = text(f, POLICY).unwrap_or_else(|| "static".to_owned());
        let line = |indent: usize, name: &str, marks: String, place: String, used: u64, created: u64| {
            let mut fields = vec![name.to_owned()];
            if !is_narrow {
                fields.extend([dash(marks), dash(place)]);
            }
            fields.extend([nice_bytes(used), policy.clone(), date_short(created)]);
            Line { indent, fields }
        };
        if !datasets && !snapshots {
            let Some(head) = f.environment.head() else { continue };
            let marks = now.active(f, &head.name);
            lines.push(line(0, f.name(), marks, now.place(&head.name), head.used, head.created));
            continue;
        }
        lines.push(Line { indent: 0, fields: vec![f.name().to_owned()] });
        for part in &f.environment.parts {
            if datasets {
                let marks = now.active(f, &part.name);
                lines.push(line(3, &part.name, marks, now.place(&part.name), part.used, part.created));
            }
            for snapshot in part.snapshots.iter().filter(|_| snapshots) {
                let name = match datasets {
                    true => &snapshot.name,
                    // Without the name of the environment, which is printed above.
                    false => snapshot.name.strip_prefix(f.environment.root()).unwrap_or(&snapshot.name),
                };
                let name = name.strip_prefix('@').unwrap_or(name);
                lines.push(line(3, name, String::new(), String::new(), snapshot.used, snapshot.created));
            }
        }
    }
    cx.print(&table(&lines));
    Ok(0)
}

/// A table with columns as wide as their contents, separated by one space.
pub fn table(lines: &[Line]) -> String {
    let columns = lines.iter().map(|line| line.fields.len()).max().unwrap_or(0);
    let width = |at: usize| {
        let of =
            |line: &Line| line.fields.get(at).map_or(0, |f| f.chars().count() + if at == 0 { line.indent } else { 0 });
        lines.iter().filter(|line| line.fields.len() > 1).map(of).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for line in lines {
        let mut text = " ".repeat(line.indent);
        for (at, field) in line.fields.iter().enumerate() {
            let room = if at == 0 { widths[at].saturating_sub(line.indent) } else { widths[at] };
            text.push_str(&format!("{field:room$} "));
        }
        out.push_str(text.trim_end());
        out.push('\n');
    }
    out
}

fn for_scripts(cx: &mut Context<'_>, found: &[Found], now: &Now, datasets: bool, snapshots: bool) -> Outcome {
    let mut out = String::new();
    for f in found {
        let policy = text(f, POLICY).unwrap_or_else(|| "static".to_owned());
        let uuid = text(f, UUID).unwrap_or_default();
        for part in f.environment.parts.iter().take(if datasets || snapshots { usize::MAX } else { 1 }) {
            let (marks, place) = (now.active(f, &part.name), now.place(&part.name));
            if datasets || !snapshots {
                let second = if datasets { &part.name } else { &uuid };
                out += &format!("{};{second};{marks};{place};{};{policy};{}\n", f.name(), part.used, part.created);
            }
            for s in part.snapshots.iter().filter(|_| snapshots) {
                let blank = if datasets { ";;" } else { "" };
                out += &format!("{};{};{blank}{};{policy};{}\n", f.name(), s.short(), s.used, s.created);
            }
        }
    }
    cx.print(&out);
    Ok(0)
}

fn document(cx: &mut Context<'_>, found: &[Found], now: &Now) -> Outcome {
    let mut environments = Object::new();
    for f in found {
        let mut parts = Object::new();
        for part in &f.environment.parts {
            let snapshots: Vec<Value> = part
                .snapshots
                .iter()
                .map(|s| json!({"name": s.short(), "used": s.used, "created": s.created}))
                .collect();
            let value = json!({
                "used": part.used, "referenced": part.referenced, "created": part.created, "mountpoint": now.place(&part.name),
                "origin": part.origin.as_ref().map(|o| o.name.clone()), "snapshots": snapshots,
            });
            parts.insert(part.name.clone(), value);
        }
        let marks = now.active(f, f.environment.root());
        let value = json!({
            "name": f.name(), "pool": f.record().name, "dataset": f.environment.root(), "active_now": marks.contains('N'), "active_on_boot": marks.contains('R'),
            "uuid": text(f, UUID), "policy": text(f, POLICY), "description": text(f, DESCRIPTION), "datasets": parts,
        });
        environments.insert(f.environment.root().to_owned(), value);
    }
    let mut document = json::document(&format!("{} list", Face::Beadm.name()));
    document.insert("boot_environments".into(), Value::Object(environments));
    cx.print(&json::line(document));
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_contents() {
        let line = |indent, fields: &[&str]| Line { indent, fields: fields.iter().map(|f| (*f).to_owned()).collect() };
        let lines = [
            line(0, &["BE/Dataset", "Active"]),
            line(0, &["a-very-long-name-alone"]),
            line(3, &["rpool/ROOT/a", "NR"]),
        ];
        assert_eq!(table(&lines), "BE/Dataset      Active\na-very-long-name-alone\n   rpool/ROOT/a NR\n");
    }
}
