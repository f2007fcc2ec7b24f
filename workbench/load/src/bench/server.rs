//! Describes the server of this machine by means of its own commands: pool, dataset under load,
//! background activity.

use crate::target::{Place, Target};
use serde_json::{Map, Value, json};
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

/// The description of the server.
#[derive(Debug, Default, Clone)]
pub(super) struct Known {
    pub pool: String,
    pub dataset: String,
    pub properties: Map<String, Value>,
    pub of_pool: Map<String, Value>,
    pub layout: Option<String>,
    pub has_log: bool,
    pub jobs: Vec<String>,
    /// Status of the last scrub or resilver.
    scan: String,
}

impl Known {
    /// Activity between `before` and this description, including what ended in the meantime.
    pub fn since(mut self, before: &Self) -> Self {
        self.jobs.extend(before.jobs.iter().cloned());
        if self.scan != before.scan && self.jobs.is_empty() {
            self.jobs.push(format!("{}, of {}", self.scan, self.pool));
        }
        self.jobs.dedup();
        self
    }
}

/// Properties that determine the performance of a dataset.
const PROPERTIES: &str = "recordsize,volblocksize,compression,checksum,sync,logbias,atime,primarycache,secondarycache,copies,dedup,encryption";
const OF_POOL: &str = "size,capacity,fragmentation,ashift,health";

fn ask(weir: &Path, words: &[&str]) -> Option<String> {
    let done = Command::new(weir).args(words).output().ok()?;
    done.status.success().then(|| String::from_utf8_lossy(&done.stdout).into_owned())
}

/// Whether a target is served by this machine.
pub(super) fn is_here(target: &Target) -> bool {
    let own = |ip: IpAddr| ip.is_loopback() || std::net::UdpSocket::bind((ip, 0)).is_ok();
    match target {
        Target::Path(_) => true,
        Target::Nfs(nfs) => own(nfs.server.ip()),
        Target::Nbd(nbd) => match &nbd.server {
            Place::Tcp(address) => own(address.ip()),
            Place::Unix(_) => true,
        },
    }
}

/// Parses a table of names and values.
fn pairs(text: &str) -> Map<String, Value> {
    let pair = |line: &str| {
        let (name, value) = line.split_once('\t')?;
        (value != "-").then(|| (name.to_owned(), json!(value)))
    };
    text.lines().filter_map(pair).collect()
}

/// The dataset that contains a share's path or an export.
fn dataset(list: &str, target: &Target) -> Option<String> {
    let rows = list.lines().filter_map(|l| l.split_once('\t'));
    match target {
        Target::Nbd(nbd) => rows.map(|(name, _)| name).find(|name| *name == nbd.export).map(str::to_owned),
        Target::Path(_) => None,
        Target::Nfs(nfs) => {
            let inside = |mount: &str| {
                nfs.path
                    .strip_prefix(mount)
                    .is_some_and(|rest| mount == "/" || rest.is_empty() || rest.starts_with('/'))
            };
            rows.filter(|(_, mount)| inside(mount))
                .max_by_key(|(_, mount)| mount.len())
                .map(|(name, _)| name.to_owned())
        }
    }
}

/// Parses `zpool status`: the layout of the pool by types of top-level vdevs, whether there are log
/// devices, and background activity.
fn status(text: &str, pool: &str) -> (Option<String>, bool, Vec<String>) {
    let mut kinds: Vec<(String, usize, usize)> = Vec::new();
    let (mut section, mut has_log) = ("", false);
    let mut jobs = Vec::new();
    let mut in_config = false;
    for line in text.lines() {
        let lower = line.trim();
        if lower.contains("in progress") || lower.contains("% initialized") || lower.contains("% trimmed") {
            let what = lower.trim_start_matches("scan:").trim_start_matches("remove:").trim();
            jobs.push(format!("{} of {pool}", what.split(" since").next().unwrap_or(what)));
        }
        in_config |= lower == "config:";
        if lower.starts_with("errors:") {
            in_config = false;
        }
        let Some(rest) = line.strip_prefix('\t').filter(|_| in_config) else { continue };
        let depth = (rest.len() - rest.trim_start().len()) / 2;
        let Some(name) = rest.split_whitespace().next() else { continue };
        match (depth, name) {
            (0, "logs" | "cache" | "spares" | "special" | "dedup") => {
                has_log |= name == "logs";
                section = "other";
            }
            (0, _) => section = "",
            (1, name) if section.is_empty() => {
                let kind = match name.split_once('-') {
                    Some((kind, _)) if kind == "mirror" || kind.starts_with("raidz") || kind.starts_with("draid") => {
                        kind
                    }
                    _ => "single",
                };
                kinds.push((kind.to_owned(), 1, usize::from(kind == "single")));
            }
            (2, _) if section.is_empty() => {
                if let Some(last) = kinds.last_mut() {
                    last.2 += 1;
                }
            }
            _ => {}
        }
    }
    let mut grouped: Vec<(String, usize, usize)> = Vec::new();
    for (kind, count, width) in kinds {
        match grouped.last_mut().filter(|(k, _, w)| *k == kind && *w == width) {
            Some((_, n, _)) => *n += count,
            None => grouped.push((kind, count, width)),
        }
    }
    let word = |(kind, count, width): &(String, usize, usize)| match kind.as_str() {
        "single" => format!("{count} single"),
        kind => format!("{count} {kind} of {width}"),
    };
    let layout = grouped.iter().map(word).collect::<Vec<_>>().join(", ");
    (Some(layout).filter(|l| !l.is_empty()), has_log, jobs)
}

/// Queries the server; `None` if the target is not a share or volume of a local pool.
pub(super) fn known(weir: &Path, target: &Target) -> Option<Known> {
    let list = ask(weir, &["zfs", "list", "-Hp", "-t", "filesystem,volume", "-o", "name,mountpoint"])?;
    let dataset = dataset(&list, target)?;
    let pool = dataset.split('/').next().unwrap_or_default().to_owned();
    let properties = ask(weir, &["zfs", "get", "-Hp", "-o", "property,value", PROPERTIES, &dataset]);
    let of_pool = ask(weir, &["zpool", "get", "-Hp", "-o", "property,value", OF_POOL, &pool]);
    let text = ask(weir, &["zpool", "status", &pool]).unwrap_or_default();
    let scan = text.lines().find_map(|l| l.trim().strip_prefix("scan:")).unwrap_or_default().trim().to_owned();
    let (layout, has_log, jobs) = status(&text, &pool);
    let map = |text: Option<String>| text.map(|t| pairs(&t)).unwrap_or_default();
    Some(Known { pool, dataset, properties: map(properties), of_pool: map(of_pool), layout, has_log, jobs, scan })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_and_background_activity_are_read_from_status() {
        let text = "  pool: tank\n state: ONLINE\n  scan: scrub in progress since Mon Nov 23 07:00:00 2026\n\t0B / 1G scanned\nconfig:\n\n\
                    \tNAME        STATE     READ WRITE CKSUM\n\ttank        ONLINE       0     0     0\n\t  mirror-0  ONLINE       0     0     0\n\
                    \t    a       ONLINE       0     0     0\n\t    b       ONLINE       0     0     0\n\t  mirror-1  ONLINE       0     0     0\n\
                    \t    c       ONLINE       0     0     0\n\t    d       ONLINE       0     0     0\n\tlogs\n\t  e         ONLINE       0     0     0\n\n\
                    errors: No known data errors\n";
        let (layout, has_log, jobs) = status(text, "tank");
        assert_eq!((layout.as_deref(), has_log), (Some("2 mirror of 2"), true));
        assert_eq!(jobs, ["scrub in progress of tank"]);
        let text = "config:\n\n\tNAME\n\ttank\n\t  raidz2-0\n\t    a\n\t    b\n\t    c\n\t    d\n";
        assert_eq!(status(text, "tank").0.as_deref(), Some("1 raidz2 of 4"));
        assert_eq!(status("config:\n\n\tNAME\n\ttank\n\t  /x/disk  ONLINE\n", "tank").0.as_deref(), Some("1 single"));
    }

    #[test]
    fn a_scrub_that_ended_meanwhile_was_at_work() {
        let known = |scan: &str| Known { pool: "tank".to_owned(), scan: scan.to_owned(), ..Known::default() };
        assert!(known("none").since(&known("none")).jobs.is_empty());
        assert_eq!(known("scrub repaired 0B").since(&known("none")).jobs, ["scrub repaired 0B, of tank"]);
    }

    #[test]
    fn the_dataset_is_the_one_with_the_longest_mountpoint_above() {
        let list = "tank\t/tank\ntank/home\t/tank/home\ntank/homes\t/tank/homes\ntank/v\t-\n";
        let of = |text: &str| dataset(list, &text.parse().expect("a target"));
        assert_eq!(of("nfs://127.0.0.1/tank/home/a/b").as_deref(), Some("tank/home"));
        assert_eq!(of("nfs://127.0.0.1/tank/homely").as_deref(), Some("tank"));
        assert_eq!(of("nbd://127.0.0.1/tank/v").as_deref(), Some("tank/v"));
        assert_eq!(of("nfs://127.0.0.1/other"), None);
    }
}
