//! `weir arcsummary`: cache, cache devices, prefetch and intent logs since the daemon started, like
//! OpenZFS's arc_summary.

use super::counters::percent;
use crate::daemon_client::DaemonClient;
use crate::number::nice_bytes;
use crate::report::TimeForm;
use crate::report::{self, decimal, moment};
use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Command};
use host::proc::memory_bytes;
use observe::scrape::Metrics;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

/// The sections, with arc_summary's names.
const SECTIONS: [(&str, &str); 7] = [
    ("arc", "The cache: size, limit, evictions."),
    ("archits", "Hits and misses."),
    ("dmu", "Reading ahead."),
    ("l2arc", "Cache devices."),
    ("spl", "The kernel module, which Weir does not have."),
    ("tunables", "Settings."),
    ("zil", "Intent logs."),
];

/// Numbers of sections, which arc_summary deprecates. Its page 5 is a cache that OpenZFS removed.
const PAGES: [(&str, &str); 5] = [("1", "arc"), ("2", "archits"), ("3", "l2arc"), ("4", "dmu"), ("6", "tunables")];

/// A line: depth, name, value.
struct Line {
    depth: usize,
    name: &'static str,
    value: Figure,
    help: &'static str,
}

enum Figure {
    Bytes(Option<f64>),
    Count(Option<f64>),
    /// A number, and its share of another.
    Of(Option<f64>, Option<f64>),
    /// The same for bytes.
    BytesOf(Option<f64>, Option<f64>),
    Milliseconds(Option<f64>),
    Words(String),
}

/// Options of `weir arcsummary`.
pub fn command() -> Command {
    let flag = |id: &'static str, short: char, help: &'static str| {
        Arg::new(id).short(short).action(ArgAction::SetTrue).help(help)
    };
    Command::new("arcsummary")
        .about("Summarise the cache, cache devices, prefetch and intent logs, like OpenZFS's arc_summary")
        .long_about(format!(
            "Counters of the running 'weir serve' since it started; '-' where nothing is counted. Sections:\n{}",
            SECTIONS.map(|(name, help)| format!("{name}: {help}")).join("\n")
        ))
        .arg(flag("all", 'a', "All sections; the same as no option"))
        .arg(flag("describe", 'd', "Describe each line"))
        .arg(flag("graph", 'g', "Only the cache's size, as a bar"))
        .arg(flag("raw", 'r', "All counters, unformatted"))
        .arg(flag("json", 'j', "As one JSON document").long("json"))
        .arg(
            Arg::new("section")
                .short('s')
                .long("section")
                .value_name("SECTION")
                .value_parser(SECTIONS.map(|(name, _)| name))
                .help("Only this section"),
        )
        .arg(
            Arg::new("page")
                .short('p')
                .long("page")
                .value_name("PAGE")
                .value_parser(PAGES.map(|(page, _)| page))
                .conflicts_with("section")
                .help("Only the section of this number, as in old scripts; use -s"),
        )
        .arg(Arg::new("pool").long("pool").value_name("POOL").help("Only this pool"))
}

pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let daemon = DaemonClient::find()?;
    let now = daemon.metrics()?;
    let pool = matches.get_one::<String>("pool").map(String::as_str);
    let labels: Vec<(&str, &str)> = pool.map(|pool| ("pool", pool)).into_iter().collect();
    if let Some(pool) = pool.filter(|pool| !now.labels("weir_cache_size_bytes", "pool").iter().any(|p| p == pool)) {
        anyhow::bail!("the daemon does not have the pool '{pool}'");
    }
    let page = matches.get_one::<String>("page");
    let paged = page.and_then(|page| PAGES.iter().find(|(number, _)| page == number)).map(|(_, section)| *section);
    let section = matches.get_one::<String>("section").map(String::as_str).or(paged);
    let chosen: Vec<&str> =
        SECTIONS.iter().map(|(name, _)| *name).filter(|n| section.is_none_or(|s| s == *n)).collect();
    let text = if matches.get_flag("graph") {
        graph(&now, &labels)
    } else if matches.get_flag("raw") {
        raw(&now, &labels)
    } else if matches.get_flag("json") {
        let sections = chosen.iter().map(|s| ((*s).to_owned(), as_json(&lines(s, &now, &labels))));
        format!("{}\n", Value::Object(sections.collect()))
    } else {
        let mut text = format!("Weir {}, {}\n", env!("CARGO_PKG_VERSION"), moment(now.at.as_secs(), TimeForm::Date));
        for section in chosen {
            text.push_str(&as_text(section, &lines(section, &now, &labels), matches.get_flag("describe")));
        }
        text
    };
    report::quiet(std::io::stdout().lock().write_all(text.as_bytes()).map_err(Into::into)).map(|()| ExitCode::SUCCESS)
}

fn lines(section: &str, now: &Metrics, labels: &[(&str, &str)]) -> Vec<Line> {
    let sum = |name: &str| now.sum(name, labels);
    let line = |depth: usize, name: &'static str, value: Figure, help: &'static str| Line { depth, name, value, help };
    let add = |a: Option<f64>, b: Option<f64>| Some(a? + b?);
    let (size, cap) = (sum("weir_cache_size_bytes"), sum("weir_cache_cap_bytes"));
    let (hits, misses) = (sum("weir_cache_hits_total"), sum("weir_cache_misses_total"));
    let ahead = sum("weir_cache_prefetches_total");
    let all = add(hits, misses);
    match section {
        "arc" => {
            let recent = sum("weir_cache_recent_target_bytes");
            let frequent = cap.zip(recent).map(|(cap, recent)| (cap - recent).max(0.0));
            let file = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
            let memory = |field: &str| memory_bytes(&file, field);
            vec![
                line(0, "Total memory size", Figure::Bytes(memory("MemTotal:")), "Memory of the machine."),
                line(0, "Free memory size", Figure::Bytes(memory("MemFree:")), "Free memory."),
                line(
                    0,
                    "Available memory size",
                    Figure::Bytes(memory("MemAvailable:")),
                    "Memory available to programs.",
                ),
                line(
                    0,
                    "ARC size (current)",
                    Figure::BytesOf(size, cap),
                    "Memory used by cached blocks, and their limit.",
                ),
                line(1, "Max size (high water)", Figure::Bytes(cap), "Limit of the cache: arc_max."),
                line(1, "MRU target size", Figure::BytesOf(recent, cap), "Part for blocks used once."),
                line(1, "MFU target size", Figure::BytesOf(frequent, cap), "Part for blocks used repeatedly."),
                line(0, "Evictions", Figure::Count(sum("weir_cache_evictions_total")), "Blocks evicted."),
                line(1, "Mutex misses", Figure::Count(None), "Eviction does not use try-locks."),
                line(1, "Eviction skips", Figure::Count(None), "Eviction skips no blocks."),
            ]
        }
        "archits" => {
            let ghosts = |list: &str| {
                let labels: Vec<(&str, &str)> = labels.iter().copied().chain([("list", list)]).collect();
                now.sum("weir_cache_ghost_hits_total", &labels)
            };
            vec![
                line(0, "ARC total accesses", Figure::Count(all), "Demand reads of the cache."),
                line(1, "Total hits", Figure::Of(hits, all), "Reads that found the block."),
                line(
                    1,
                    "Total I/O hits",
                    Figure::Of(None, all),
                    "Waiting for a read already in progress counts as a hit.",
                ),
                line(1, "Total misses", Figure::Of(misses, all), "Reads that did not find it."),
                line(
                    0,
                    "Cache misses that would have been hits",
                    Figure::Count(add(ghosts("recent"), ghosts("frequent"))),
                    "Blocks that had been evicted recently.",
                ),
                line(
                    1,
                    "Most recently used (MRU) ghost",
                    Figure::Of(ghosts("recent"), misses),
                    "Misses of blocks used once before.",
                ),
                line(
                    1,
                    "Most frequently used (MFU) ghost",
                    Figure::Of(ghosts("frequent"), misses),
                    "Misses of blocks used repeatedly before.",
                ),
            ]
        }
        "dmu" => vec![
            line(0, "Blocks read ahead", Figure::Count(ahead), "Blocks prefetched before they were needed."),
            line(
                1,
                "Of these, used later",
                Figure::Of(sum("weir_cache_prefetched_hits_total"), ahead),
                "Useful prefetches.",
            ),
            line(1, "Stream hits", Figure::Count(None), "Prefetch streams are not counted."),
        ],
        "l2arc" => {
            let (hits, misses) = (sum("weir_l2_hits_total"), sum("weir_l2_misses_total"));
            let all = add(hits, misses);
            let (size, stored) = (sum("weir_l2_size_bytes"), sum("weir_l2_stored_bytes"));
            let state = if size.is_some() { "(HEALTHY)" } else { "no cache devices" };
            let errors = add(sum("weir_l2_checksum_errors_total"), sum("weir_l2_read_errors_total"));
            let state = if errors.is_some_and(|n| n > 0.0) { "(DEGRADED)" } else { state };
            vec![
                line(
                    0,
                    "L2ARC status",
                    Figure::Words(state.to_owned()),
                    "Degraded: some blocks could not be read back.",
                ),
                line(
                    1,
                    "Checksum errors",
                    Figure::Count(sum("weir_l2_checksum_errors_total")),
                    "Blocks with a wrong checksum.",
                ),
                line(1, "I/O errors", Figure::Count(sum("weir_l2_read_errors_total")), "Reads that failed."),
                line(1, "Write errors", Figure::Count(sum("weir_l2_write_errors_total")), "Writes that failed."),
                line(
                    0,
                    "L2ARC size (adaptive)",
                    Figure::Bytes(size),
                    "Uncompressed size of the blocks on cache devices.",
                ),
                line(1, "Compressed", Figure::BytesOf(stored, size), "Their size on the cache devices."),
                line(
                    1,
                    "Header size",
                    Figure::Bytes(sum("weir_l2_index_bytes")),
                    "Memory used by the index of cache devices.",
                ),
                line(0, "L2ARC accesses", Figure::Count(all), "ARC misses that were looked up there."),
                line(1, "Hits", Figure::Of(hits, all), "Lookups that a cache device served."),
                line(1, "Misses", Figure::Of(misses, all), "Lookups that no cache device served."),
                line(0, "L2ARC read", Figure::Bytes(sum("weir_l2_read_bytes_total")), "Bytes read from them."),
                line(0, "L2ARC written", Figure::Bytes(sum("weir_l2_written_bytes_total")), "Bytes written to them."),
            ]
        }
        "spl" => {
            vec![line(0, "Solaris porting layer", Figure::Words("none: there is no kernel module".to_owned()), "")]
        }
        "tunables" => vec![line(
            0,
            "arc_max",
            Figure::Bytes(sum("weir_cache_cap_bytes")),
            "'weir config show' lists all settings and their sources.",
        )],
        _ => {
            let commits = sum("weir_intent_log_commit_time_seconds_count");
            let batches = sum("weir_intent_log_batches_total");
            let time = sum("weir_intent_log_commit_time_seconds_sum");
            let each = time.zip(commits).filter(|(_, n)| *n > 0.0).map(|(time, n)| 1000.0 * time / n);
            vec![
                line(0, "ZIL committed transactions", Figure::Count(commits), "Commits, such as fsync."),
                line(1, "Writes of logs", Figure::Of(batches, commits), "Log writes; one can serve several commits."),
                line(
                    1,
                    "Waits for the txg",
                    Figure::Of(sum("weir_intent_log_waits_total"), commits),
                    "Commits that waited for a txg instead of the log.",
                ),
                line(1, "Average time", Figure::Milliseconds(each), "Average time of a commit."),
                line(0, "Blocks written", Figure::Count(sum("weir_intent_log_blocks_total")), "Log blocks written."),
                line(
                    1,
                    "Bytes written",
                    Figure::Bytes(sum("weir_intent_log_written_bytes_total")),
                    "Bytes of log records written.",
                ),
                line(1, "Errors", Figure::Count(sum("weir_intent_log_errors_total")), "Log writes that failed."),
            ]
        }
    }
}

/// A count as arc_summary prints it: in units of 1000, with one decimal.
fn hits(n: f64) -> String {
    let units = ["", "k", "M", "G", "T", "P"];
    let (mut n, mut unit) = (n, 0);
    while n >= 1000.0 && unit + 1 < units.len() {
        n /= 1000.0;
        unit += 1;
    }
    if unit == 0 { decimal(n, 0) } else { format!("{}{}", decimal(n, 1), units[unit]) }
}

fn bytes(n: f64) -> String {
    nice_bytes(n.max(0.0) as u64)
}

fn formatted(value: &Figure) -> (String, String) {
    let or = |n: &Option<f64>, f: &dyn Fn(f64) -> String| n.map_or_else(|| "-".to_owned(), f);
    match value {
        Figure::Bytes(n) => (or(n, &bytes), String::new()),
        Figure::Count(n) => (or(n, &hits), String::new()),
        Figure::Milliseconds(n) => (or(n, &|n| format!("{} ms", decimal(n, 3))), String::new()),
        Figure::Words(text) => (text.clone(), String::new()),
        Figure::Of(part, all) | Figure::BytesOf(part, all) => {
            let share = percent(*part, *all).map_or_else(|| "-".to_owned(), |n| format!("{} %", decimal(n, 1)));
            (if matches!(value, Figure::Of(..)) { or(part, &hits) } else { or(part, &bytes) }, share)
        }
    }
}

fn as_text(section: &str, lines: &[Line], describe: bool) -> String {
    let title = SECTIONS.iter().find(|(name, _)| *name == section).map_or("", |(_, help)| help);
    let mut out = format!("\n{section}: {title}\n");
    for line in lines {
        let (value, share) = formatted(&line.value);
        let name = format!("{:indent$}{}:", "", line.name, indent = 4 + 4 * line.depth);
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{}", format!("{name:<52}{share:>9} {value:>12}").trim_end());
        if describe && !line.help.is_empty() {
            let _ = writeln!(out, "{:indent$}# {}", "", line.help, indent = 8 + 4 * line.depth);
        }
    }
    out
}

fn as_json(lines: &[Line]) -> Value {
    let value = |line: &Line| match &line.value {
        Figure::Bytes(n) | Figure::Count(n) | Figure::Of(n, _) | Figure::BytesOf(n, _) => json!(n),
        Figure::Milliseconds(n) => json!(n.map(|n| n / 1000.0)),
        Figure::Words(text) => json!(text),
    };
    Value::Object(lines.iter().map(|line| (line.name.to_owned(), value(line))).collect::<Map<_, _>>())
}

/// The cache's size relative to its limit, as a bar.
fn graph(now: &Metrics, labels: &[(&str, &str)]) -> String {
    let (size, cap) = (now.sum("weir_cache_size_bytes", labels), now.sum("weir_cache_cap_bytes", labels));
    let share = percent(size, cap).unwrap_or(0.0);
    let full = ((share / 2.0).round() as usize).min(50);
    format!(
        "ARC: {} of {} ({} %)\n[{}{}]\n",
        bytes(size.unwrap_or(0.0)),
        bytes(cap.unwrap_or(0.0)),
        decimal(share, 1),
        "=".repeat(full),
        " ".repeat(50 - full)
    )
}

/// All statistics of these parts, as raw counters.
fn raw(now: &Metrics, labels: &[(&str, &str)]) -> String {
    let mut out = String::new();
    for (name, _) in now.iter() {
        let ours = ["weir_cache_", "weir_l2_", "weir_intent_log_"].iter().any(|front| name.starts_with(front));
        if let Some(n) = now.sum(name, labels).filter(|_| ours && !name.ends_with("_bucket")) {
            let _ = writeln!(out, "{name:<52}{n}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn metrics() -> Metrics {
        let text = "weir_cache_hits_total{pool=\"tank\"} 30000\nweir_cache_misses_total{pool=\"tank\"} 10000\n\
                    weir_cache_size_bytes{pool=\"tank\"} 1048576\nweir_cache_cap_bytes{pool=\"tank\"} 4194304\n\
                    weir_cache_recent_target_bytes{pool=\"tank\"} 1048576\nweir_cache_prefetches_total{pool=\"tank\"} 0\n";
        Metrics::parse(text, Duration::from_secs(1))
    }

    #[test]
    fn shares_have_the_right_base_and_absent_ones_are_reported_once() {
        let text = as_text("archits", &lines("archits", &metrics(), &[]), false);
        let hits = text.lines().find(|l| l.contains("Total hits")).expect("a line");
        assert_eq!(hits.split_ascii_whitespace().collect::<Vec<_>>(), ["Total", "hits:", "75.0", "%", "30.0k"]);
        let io: Vec<&str> = text.lines().filter(|l| l.contains("I/O hits")).collect();
        assert_eq!(io.iter().map(|l| l.matches(" -").count()).sum::<usize>(), 2, "{io:?}");
        for (section, _) in SECTIONS {
            assert!(!lines(section, &metrics(), &[]).is_empty(), "{section}");
        }
        assert!(as_text("arc", &lines("arc", &metrics(), &[]), true).contains("# Limit of the cache: arc_max."));
    }

    #[test]
    fn the_bar_shows_how_full_the_cache_is() {
        let text = graph(&metrics(), &[("pool", "tank")]);
        assert!(text.contains("(25.0 %)") && text.contains("[============= "), "{text}");
        assert!(raw(&metrics(), &[]).starts_with("weir_cache_cap_bytes"));
    }
}
