//! `weir zpool plan`: proposes layouts of a pool for the given devices, and what each one offers.
//! This verb is Weir's own.

use crate::context::{Context, Failure, Outcome};
use crate::getopt::{ArgKind, Parsed, value};
use crate::number::nice_number;
use crate::shared_options::JSON;
use crate::verb::{Call, Verb, for_owner};
use admin::layout::{Leaf, leaf};
use admin::plan::{BLOCKS, Candidate, Goal, Proposal, Wish, plan, read_shelves};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// The row of `zpool plan`.
pub static VERB: Verb = for_owner("plan", "Recommend a pool layout for devices, with its space and rates", run)
    .usage(&[
        "[-j] [--enclosures file] [--for balance|space|speed] [--spares n] [--random n --stream megabytes] [--pool name] device ...",
    ])
    .options(&[
        JSON,
        value('p', "name", ArgKind::Text, "Name the pool so in the printed command; the default is tank.").long("pool"),
        value('e', "file", ArgKind::File, "Read which device is in which enclosure, and spread groups over enclosures.").long("enclosures"),
        value('f', "goal", ArgKind::Words(&["balance", "space", "speed"]), "Prefer space or speed; the default is balance.").only_long("for"),
        value('s', "n", ArgKind::Text, "Keep this number of hot spares.").only_long("spares"),
        value('r', "n", ArgKind::Text, "Random operations per second that one device performs.").only_long("random"),
        value('b', "megabytes", ArgKind::Text, "Megabytes per second that one device reads or writes in sequence.").only_long("stream"),
    ])
    .operands(&[ArgKind::File])
    .examples(&[("zpool plan --for space sda sdb sdc sdd sde sdf", "Compare layouts for six disks.")]);

/// `zpool plan`.
pub fn run(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let wish = wish(parsed)?;
    let name = parsed.last('p').unwrap_or("tank");
    admin::create::check_name(name).map_err(|why| Failure::failed(format!("cannot use '{name}': {why}")))?;
    if parsed.operands.is_empty() {
        return Err(Failure::usage("missing devices"));
    }
    let shelves = match parsed.last('e') {
        None => BTreeMap::new(),
        Some(file) => {
            let failed = |why: String| Failure::failed(format!("cannot read '{file}': {why}"));
            let path = cx.client.absolute(Path::new(file)).map_err(|e| failed(e.to_string()))?;
            let text = std::fs::read_to_string(path).map_err(|e| failed(host::os_text(&e)))?;
            read_shelves(&text).map_err(failed)?
        }
    };
    let mut candidates = Vec::new();
    for word in &parsed.operands {
        candidates.push(candidate(cx, word, &shelves)?);
    }
    let named = |device: &str| candidates.iter().any(|c| is_called(&c.leaf, device));
    if let Some(unknown) = shelves.keys().find(|device| !named(device)) {
        cx.complain(&format!("weir: {unknown} is listed in an enclosure but is not among the devices"));
    }
    let mut paths: Vec<_> = candidates.iter().map(|c| &c.leaf.path).collect();
    paths.sort();
    if paths.windows(2).any(|two| two[0] == two[1]) {
        return Err(Failure::failed("a device is given twice"));
    }
    let (proposals, others) = plan(&candidates, &wish);
    let Some(first) = proposals.first() else {
        return Err(Failure::failed(
            "these devices cannot form a redundant pool: at least two of the same size are required",
        ));
    };
    if parsed.has('j') {
        let document = document(name, &proposals, &others);
        cx.print(&crate::json::line(document));
        return Ok(0);
    }
    let text = report(name, first, &proposals, &others, candidates.len());
    cx.print(&text);
    Ok(0)
}

fn wish(parsed: &Parsed) -> Result<Wish, Failure> {
    let wrong = |option: &str, value: &str| Failure::usage(format!("invalid value '{value}' for '--{option}'"));
    let number = |letter: char, option: &str| -> Result<Option<f64>, Failure> {
        let Some(text) = parsed.last(letter) else { return Ok(None) };
        let number = text.parse::<f64>().ok().filter(|n| n.is_finite() && *n > 0.0);
        number.map(Some).ok_or_else(|| wrong(option, text))
    };
    let goal = match parsed.last('f') {
        None | Some("balance") => Goal::Balance,
        Some("space") => Goal::Space,
        Some("speed") => Goal::Speed,
        Some(other) => return Err(wrong("for", other)),
    };
    let spares = parsed.last('s').map(|n| n.parse::<usize>().map_err(|_| wrong("spares", n))).transpose()?;
    let rates = match (number('r', "random")?, number('b', "stream")?) {
        (None, None) => None,
        (Some(random), Some(stream)) => Some((random, stream * 1e6)),
        _ => return Err(Failure::usage("'--random' and '--stream' must be given together")),
    };
    Ok(Wish { goal, spares, rates })
}

/// Whether `name` is the device's path or the last component of it.
fn is_called(leaf: &Leaf, name: &str) -> bool {
    leaf.path == Path::new(name) || leaf.path.file_name().is_some_and(|last| last == name)
}

fn candidate(cx: &Context<'_>, word: &str, shelves: &BTreeMap<String, String>) -> Result<Candidate, Failure> {
    // A relative path names a file in the caller's directory, a bare name a disk.
    let word = match word.contains('/') && !word.starts_with('/') {
        true => cx.client.absolute(Path::new(word)).map_or_else(|_| word.to_owned(), |p| p.display().to_string()),
        false => word.to_owned(),
    };
    let leaf = leaf(&word).map_err(Failure::failed)?;
    let failed = |why: String| Failure::failed(format!("cannot look at '{}': {why}", leaf.name()));
    let device = host::device::FileDevice::open(&leaf.path).map_err(|e| failed(host::os_text(&e)))?;
    let size_bytes = host::device::Device::size_bytes(&device);
    if pool::devices::is_too_small(size_bytes) {
        return Err(failed("the device is smaller than 64 MiB".to_owned()));
    }
    let shelf = shelves.iter().find(|(device, _)| is_called(&leaf, device)).map(|(_, shelf)| shelf.clone());
    let (ashift, is_rotating) = (pool::devices::ashift(&leaf.path), pool::devices::is_rotating(&leaf.path));
    Ok(Candidate { leaf, size_bytes, ashift, is_rotating, shelf })
}

/// Formats a rate, e.g. `12.3K`.
fn rate(number: f64) -> String {
    nice_number(number as u64)
}

fn failures(p: &Proposal) -> String {
    let mut text = match p.survives_any {
        1 => "any one device".to_owned(),
        n => format!("any {n} devices"),
    };
    if p.layout.tops.len() > 1 {
        let _ = write!(text, ", up to {} if no {} loses more", p.survives_best, group(p));
    }
    text += match p.survives_shelves {
        (_, 1) => "",
        (some, all) if some == all => "; any one shelf",
        (0, _) => "; no shelf",
        _ => "; some shelves, not all",
    };
    text
}

fn group(p: &Proposal) -> &'static str {
    if p.name.starts_with("raidz") { "raidz" } else { "mirror" }
}

fn report(pool: &str, first: &Proposal, all: &[Proposal], others: &[Leaf], count: usize) -> String {
    let mut out = format!(
        "{:17} {:>7} {:>7} {:>5} {:>5} {:>5} {:>5} {:>7} {:>7} {:>8} {:>8}\n",
        "LAYOUT", "GROUPS", "USABLE", "4K", "16K", "128K", "1M", "READS/s", "WRITES/s", "READ/s", "WRITE/s"
    );
    for p in all {
        let [a, b, c, d] = p.data_percent.map(|percent| format!("{percent:.0}%"));
        let _ = writeln!(
            out,
            "{:17} {:>7} {:>7} {a:>5} {b:>5} {c:>5} {d:>5} {:>7} {:>7} {:>8} {:>8}{}",
            p.name,
            p.layout.tops.len(),
            nice_number(p.usable_bytes),
            rate(p.rates.random_reads),
            rate(p.rates.random_writes),
            rate(p.rates.stream_read),
            rate(p.rates.stream_write),
            if p.is_advised { "  *" } else { "" },
        );
    }
    out += "\nUSABLE: space for datasets with blocks of 128 KiB.  4K to 1M: share of the raw space that holds data, by block size.\n\
            READS, WRITES: small random operations.  READ, WRITE: sequential bytes.  All are limits of the devices, without caches.\n\n";
    let _ = writeln!(out, "Of {count} devices, {} ({} in use):", first.name, first.layout.leaves().count());
    let _ = writeln!(out, "  may fail:    {}", failures(first));
    let _ = writeln!(out, "  a failure:   {} are read to replace a full device", nice_number(first.rebuild_bytes));
    if !first.layout.spares.is_empty() {
        let _ = writeln!(out, "  hot spares:  {}", first.layout.spares.len());
    }
    for (leaves, why) in [(&first.unused[..], "left over"), (others, "other size")] {
        if !leaves.is_empty() {
            let names: Vec<String> = leaves.iter().map(Leaf::name).collect();
            let _ = writeln!(out, "  {:12} {}", format!("{why}:"), names.join(" "));
        }
    }
    let _ = writeln!(out, "\n{}", first.command(pool));
    out
}

fn document(pool: &str, all: &[Proposal], others: &[Leaf]) -> serde_json::Map<String, Value> {
    let names = |leaves: &[Leaf]| leaves.iter().map(Leaf::name).collect::<Vec<_>>();
    let one = |p: &Proposal| {
        let groups: Vec<Value> =
            p.layout.tops.iter().map(|top| json!({"type": top.name(), "devices": names(&top.leaves)})).collect();
        let parts: serde_json::Map<String, Value> =
            BLOCKS.iter().zip(p.data_percent).map(|(bytes, percent)| (bytes.to_string(), json!(percent))).collect();
        json!({
            "name": p.name, "advised": p.is_advised, "groups": groups, "spares": names(&p.layout.spares), "unused": names(&p.unused),
            "usable_bytes": p.usable_bytes, "data_percent_by_block_bytes": parts,
            "random_reads_per_second": p.rates.random_reads, "random_writes_per_second": p.rates.random_writes,
            "stream_read_bytes_per_second": p.rates.stream_read, "stream_write_bytes_per_second": p.rates.stream_write,
            "survives_any_devices": p.survives_any, "survives_devices_at_best": p.survives_best,
            "survives_any_shelf": p.survives_all_shelves(), "rebuild_bytes": p.rebuild_bytes, "command": p.command(pool),
        })
    };
    let mut document = crate::json::document("zpool plan");
    document.insert("other_sizes".into(), json!(names(others)));
    document.insert("proposals".into(), all.iter().map(one).collect());
    document
}
