//! arcstat and zarcstat of OpenZFS, and `weir arcstat`: shares and rates of the cache.

use super::reports::{Key, Reports};
use super::text::{Source, moment, scaled};
use super::{Error, Imported};
use crate::format::Unit;

/// Heading, our name, unit, whether it is a rate.
type Meaning = (&'static str, &'static str, Unit, bool);

/// All columns that are read. Counts are scaled by 1000, sizes by 1024.
const COLUMNS: &[Meaning] = &[
    ("hits", "arc.hits", Unit::Count, true),
    ("iohs", "arc.io_hits", Unit::Count, true),
    ("miss", "arc.misses", Unit::Count, true),
    ("read", "arc.reads", Unit::Count, true),
    ("hit%", "arc.hit_share", Unit::Percent, false),
    ("miss%", "arc.miss_share", Unit::Percent, false),
    ("dhit", "arc.demand_hits", Unit::Count, true),
    ("dmis", "arc.demand_misses", Unit::Count, true),
    ("dread", "arc.demand_reads", Unit::Count, true),
    ("dh%", "arc.demand_hit_share", Unit::Percent, false),
    ("ddhit", "arc.demand_data_hits", Unit::Count, true),
    ("ddmis", "arc.demand_data_misses", Unit::Count, true),
    ("ddread", "arc.demand_data_reads", Unit::Count, true),
    ("ddh%", "arc.demand_data_hit_share", Unit::Percent, false),
    ("dmhit", "arc.demand_metadata_hits", Unit::Count, true),
    ("dmmis", "arc.demand_metadata_misses", Unit::Count, true),
    ("dmread", "arc.demand_metadata_reads", Unit::Count, true),
    ("dmh%", "arc.demand_metadata_hit_share", Unit::Percent, false),
    ("phit", "arc.prefetch_hits", Unit::Count, true),
    ("pmis", "arc.prefetch_misses", Unit::Count, true),
    ("pread", "arc.prefetch_reads", Unit::Count, true),
    ("ph%", "arc.prefetch_hit_share", Unit::Percent, false),
    ("mh%", "arc.metadata_hit_share", Unit::Percent, false),
    ("mfug", "arc.frequent_ghost_hits", Unit::Count, true),
    ("mrug", "arc.recent_ghost_hits", Unit::Count, true),
    ("size", "arc.size", Unit::Bytes, false),
    ("arcsz", "arc.size", Unit::Bytes, false),
    ("c", "arc.target", Unit::Bytes, false),
    ("avail", "memory.available", Unit::Bytes, false),
    ("free", "memory.free", Unit::Bytes, false),
    ("l2hits", "l2arc.hits", Unit::Count, true),
    ("l2miss", "l2arc.misses", Unit::Count, true),
    ("l2read", "l2arc.reads", Unit::Count, true),
    ("l2hit%", "l2arc.hit_share", Unit::Percent, false),
    ("l2size", "l2arc.size", Unit::Bytes, false),
    ("l2asize", "l2arc.stored", Unit::Bytes, false),
    ("l2bytes", "l2arc.read_bytes", Unit::Bytes, true),
    ("l2wbytes", "l2arc.written_bytes", Unit::Bytes, true),
];

/// Headings of `weir arcstat` include the unit, for example `size_MiB` and `avail_GiB`.
fn column(heading: &str) -> Option<(&'static Meaning, f64)> {
    let (name, unit) = heading.split_once('_').unwrap_or((heading, ""));
    let factor = if unit.is_empty() { 1.0 } else { scaled(&format!("1{}", unit.trim_end_matches("/s")), 1024.0)? };
    COLUMNS.iter().find(|(n, ..)| n.eq_ignore_ascii_case(name)).map(|found| (found, factor))
}

/// Whether the words are headings of arcstat.
pub(super) fn is_heading(words: &[&str]) -> bool {
    let known = words.iter().filter(|w| column(w).is_some()).count();
    words.first().is_some_and(|w| w.eq_ignore_ascii_case("time"))
        && known >= 3
        && words.iter().any(|w| w.ends_with('%') || *w == "miss")
}

pub(super) fn read(source: &Source<'_>) -> Result<Imported, Error> {
    let mut reports = Reports::new(true, false);
    let mut heading: Vec<&str> = Vec::new();
    for (n, line) in source.text.lines().enumerate() {
        let words: Vec<&str> = line.split([' ', ',', '\t']).filter(|w| !w.is_empty()).collect();
        if is_heading(&words) {
            heading = words;
            continue;
        }
        if heading.is_empty() || words.is_empty() {
            continue;
        }
        if words.len() != heading.len() {
            return Err(source.wrong(n, format!("{} words, expected {} columns", words.len(), heading.len())));
        }
        reports.begin(moment(words[0]));
        if words[0] == "boot" {
            reports.is_boot();
        }
        for (heading, word) in heading.iter().zip(&words).skip(1) {
            let Some(((_, name, unit, per_second), factor)) = column(heading) else { continue };
            let base = if *unit == Unit::Count { 1000.0 } else { 1024.0 };
            let value = scaled(word, base)
                .ok_or_else(|| source.wrong(n, format!("{heading} is '{word}', expected a number")))?;
            reports.put(Key::new(name, *unit, *per_second), value * factor);
        }
    }
    reports.finish(source)
}
