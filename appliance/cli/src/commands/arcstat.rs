//! `weir arcstat`: cache statistics with the field names of OpenZFS's arcstat.

use super::counters::{OfDaemon, percent, show_as, with_args};
use super::statistic::cells;
use crate::daemon_client::DaemonClient;
use crate::report::{self, Column, Form, Kind, Options, Value, column, separator_arg};
use anyhow::{Result, bail};
use api::CellKey;
use clap::{Arg, ArgAction, ArgMatches, Command};
use host::proc::memory_bytes;
use observe::scrape::Metrics;
use std::collections::BTreeMap;
use std::process::ExitCode;

const fn rate(name: &'static str, help: &'static str) -> Column {
    column(name, Kind::Number(0), 5, help)
}

const fn share(name: &'static str, help: &'static str) -> Column {
    column(name, Kind::Number(1), 5, help)
}

const fn size(name: &'static str, help: &'static str) -> Column {
    column(name, Kind::Bytes, 10, help)
}

/// A column of OpenZFS for something that Weir does not count.
const fn absent(name: &'static str, why: &'static str) -> Column {
    column(name, Kind::Number(0), 5, why)
}

/// Why such columns have no values.
const NO_STREAMS: &str = "- : prefetches of blocks that are already cached are not counted.";
const NO_IO_HITS: &str = "- : waiting for a read that is already in progress counts as a hit.";

const NO_KINDS: &str = "- : prefetches are not counted by data and metadata.";
const NO_PARTS: &str = "- : cache memory is not counted by type of content.";
const NO_LISTS: &str = "- : cache lists are not counted by data and metadata, or by evictability.";
const NO_L2_KINDS: &str = "- : blocks on cache devices are not counted by type.";
const NO_L2_PUT_OUT: &str = "- : evictions are not counted by whether a cache device holds the block.";
const NO_ZFETCH: &str = "- : prefetch streams are not counted; 'used' and pread show the benefit.";

/// All fields, in the order of `-a`.
const COLUMNS: &[Column] = &[
    rate("hits", "Cache reads per second that hit."),
    rate("iohs", NO_IO_HITS),
    rate("miss", "Cache reads per second that missed, including prefetch."),
    rate("read", "All cache reads per second, including prefetch."),
    share("hit%", "Hits as a share of all reads."),
    share("ioh%", NO_IO_HITS),
    share("miss%", "Misses as a share of all reads."),
    rate("dhit", "Demand hits per second: an operation waits for the block."),
    rate("dmis", "Demand misses per second."),
    rate("dread", "Demand reads per second."),
    share("dh%", "Hits as a share of demand reads."),
    share("dm%", "Misses as a share of demand reads."),
    rate("ddhit", "Demand data hits per second, by operations of clients."),
    rate("ddmis", "Demand data misses per second, by operations of clients."),
    rate("ddread", "Demand data reads per second, by operations of clients."),
    share("ddh%", "Hits as a share of demand data reads."),
    share("ddm%", "Misses as a share of demand data reads."),
    rate("dmhit", "Demand metadata hits per second, by operations of clients."),
    rate("dmmis", "Demand metadata misses per second, by operations of clients."),
    rate("dmread", "Demand metadata reads per second, by operations of clients."),
    share("dmh%", "Hits as a share of demand metadata reads."),
    share("dmm%", "Misses as a share of demand metadata reads."),
    rate("phit", NO_STREAMS),
    rate("pmis", "Blocks prefetched per second."),
    rate("pread", "Prefetches per second that went to a device."),
    share("ph%", NO_STREAMS),
    share("pm%", NO_STREAMS),
    rate("used", "Prefetched blocks that were used for the first time, per second: useful prefetches."),
    rate("evict", "Blocks evicted per second."),
    rate("mrug", "Misses per second of recently evicted blocks that had been used once (MRU ghost hits)."),
    rate("mfug", "Misses per second of recently evicted blocks that had been used repeatedly (MFU ghost hits)."),
    rate("mru", "- : cache lists do not count their hits."),
    rate("mfu", "- : cache lists do not count their hits."),
    rate("unc", "- : no reads bypass the cache."),
    rate("eskip", "- : eviction skips no blocks."),
    rate("mtxmis", "- : eviction does not use try-locks."),
    rate("l2hits", "ARC misses per second that a cache device served."),
    rate("l2miss", "ARC misses per second that no cache device could serve."),
    rate("l2read", "The sum of both."),
    share("l2hit%", "Share of them that a cache device served."),
    share("l2miss%", "Share of them that no cache device served."),
    size("l2size", "Uncompressed size of the blocks on cache devices."),
    size("l2asize", "Their size on the cache devices."),
    rate("l2bytes", "Bytes read from cache devices per second."),
    rate("l2wbytes", "Bytes written to cache devices per second."),
    size("size", "Memory used by cached blocks."),
    size("c", "Limit of that memory."),
    size("avail", "Available memory of the machine."),
    size("free", "Free memory of the machine."),
    size("need", "- : the cache has a fixed limit and no memory pressure."),
    absent("dioh", NO_IO_HITS),
    absent("di%", NO_IO_HITS),
    absent("ddioh", NO_IO_HITS),
    absent("ddi%", NO_IO_HITS),
    absent("dmioh", NO_IO_HITS),
    absent("dmi%", NO_IO_HITS),
    absent("pioh", NO_IO_HITS),
    absent("pi%", NO_IO_HITS),
    absent("mioh", NO_IO_HITS),
    absent("mi%", NO_IO_HITS),
    absent("pdhit", NO_KINDS),
    absent("pdioh", NO_KINDS),
    absent("pdmis", NO_KINDS),
    absent("pdread", NO_KINDS),
    absent("pdh%", NO_KINDS),
    absent("pdi%", NO_KINDS),
    absent("pdm%", NO_KINDS),
    absent("pmhit", NO_KINDS),
    absent("pmioh", NO_KINDS),
    absent("pmmis", NO_KINDS),
    absent("pmread", NO_KINDS),
    absent("pmh%", NO_KINDS),
    absent("pmi%", NO_KINDS),
    absent("pmm%", NO_KINDS),
    rate("mhit", "Metadata hits per second, by operations of clients."),
    rate("mmis", "Metadata misses per second, by operations of clients."),
    rate("mread", "Metadata reads per second, by operations of clients."),
    share("mh%", "Hits as a share of metadata reads."),
    share("mm%", "Misses as a share of metadata reads."),
    size("arcsz", "Memory used by cached blocks: size."),
    size("mrutg", "Target size for blocks used once (MRU)."),
    size("mfutg", "Target size for blocks used repeatedly (MFU)."),
    absent("el2skip", NO_L2_PUT_OUT),
    absent("el2cach", NO_L2_PUT_OUT),
    absent("el2el", NO_L2_PUT_OUT),
    absent("el2mfu", NO_L2_PUT_OUT),
    absent("el2mru", NO_L2_PUT_OUT),
    absent("el2inel", NO_L2_PUT_OUT),
    absent("l2pref", NO_L2_KINDS),
    absent("l2pref%", NO_L2_KINDS),
    absent("l2mfu", NO_L2_KINDS),
    absent("l2mfu%", NO_L2_KINDS),
    absent("l2mru", NO_L2_KINDS),
    absent("l2mru%", NO_L2_KINDS),
    absent("l2data", NO_L2_KINDS),
    absent("l2data%", NO_L2_KINDS),
    absent("l2meta", NO_L2_KINDS),
    absent("l2meta%", NO_L2_KINDS),
    absent("grow", "- : the cache has a fixed limit and no memory pressure."),
    absent("waste", "- : unused parts of pages are not counted."),
    absent("ztotal", NO_ZFETCH),
    absent("zhits", NO_ZFETCH),
    absent("zahead", NO_ZFETCH),
    absent("zpast", NO_ZFETCH),
    absent("zmisses", NO_ZFETCH),
    absent("zmax", NO_ZFETCH),
    absent("zfuture", NO_ZFETCH),
    absent("zstride", NO_ZFETCH),
    absent("zissued", NO_ZFETCH),
    absent("zactive", NO_ZFETCH),
    absent("cmpsz", NO_PARTS),
    absent("cmpsz%", NO_PARTS),
    absent("ovhsz", NO_PARTS),
    absent("ovhsz%", NO_PARTS),
    absent("bonsz", NO_PARTS),
    absent("bonsz%", NO_PARTS),
    absent("dnosz", NO_PARTS),
    absent("dnosz%", NO_PARTS),
    absent("dbusz", NO_PARTS),
    absent("dbusz%", NO_PARTS),
    absent("hdrsz", NO_PARTS),
    absent("hdrsz%", NO_PARTS),
    absent("l2hsz", NO_PARTS),
    absent("l2hsz%", NO_PARTS),
    absent("abdsz", NO_PARTS),
    absent("abdsz%", NO_PARTS),
    absent("datatg", NO_LISTS),
    absent("datatg%", NO_LISTS),
    absent("datasz", NO_LISTS),
    absent("datasz%", NO_LISTS),
    absent("metatg", NO_LISTS),
    absent("metatg%", NO_LISTS),
    absent("metasz", NO_LISTS),
    absent("metasz%", NO_LISTS),
    absent("anosz", NO_LISTS),
    absent("anosz%", NO_LISTS),
    absent("anoda", NO_LISTS),
    absent("anoda%", NO_LISTS),
    absent("anome", NO_LISTS),
    absent("anome%", NO_LISTS),
    absent("anoed", NO_LISTS),
    absent("anoed%", NO_LISTS),
    absent("anoem", NO_LISTS),
    absent("anoem%", NO_LISTS),
    absent("mfusz", NO_LISTS),
    absent("mfusz%", NO_LISTS),
    absent("mfuda", NO_LISTS),
    absent("mfuda%", NO_LISTS),
    absent("mfume", NO_LISTS),
    absent("mfume%", NO_LISTS),
    absent("mfued", NO_LISTS),
    absent("mfued%", NO_LISTS),
    absent("mfuem", NO_LISTS),
    absent("mfuem%", NO_LISTS),
    absent("mrusz", NO_LISTS),
    absent("mrusz%", NO_LISTS),
    absent("mruda", NO_LISTS),
    absent("mruda%", NO_LISTS),
    absent("mrume", NO_LISTS),
    absent("mrume%", NO_LISTS),
    absent("mrued", NO_LISTS),
    absent("mrued%", NO_LISTS),
    absent("mruem", NO_LISTS),
    absent("mruem%", NO_LISTS),
    absent("uncsz", NO_LISTS),
    absent("uncsz%", NO_LISTS),
    absent("uncda", NO_LISTS),
    absent("uncda%", NO_LISTS),
    absent("uncme", NO_LISTS),
    absent("uncme%", NO_LISTS),
    absent("unced", NO_LISTS),
    absent("unced%", NO_LISTS),
    absent("uncem", NO_LISTS),
    absent("uncem%", NO_LISTS),
    absent("mfudt", NO_LISTS),
    absent("mfudt%", NO_LISTS),
    absent("mfumt", NO_LISTS),
    absent("mfumt%", NO_LISTS),
    absent("mfugsz", NO_LISTS),
    absent("mfugsz%", NO_LISTS),
    absent("mfugd", NO_LISTS),
    absent("mfugd%", NO_LISTS),
    absent("mfugm", NO_LISTS),
    absent("mfugm%", NO_LISTS),
    absent("mrudt", NO_LISTS),
    absent("mrudt%", NO_LISTS),
    absent("mrumt", NO_LISTS),
    absent("mrumt%", NO_LISTS),
    absent("mrugsz", NO_LISTS),
    absent("mrugsz%", NO_LISTS),
    absent("mrugd", NO_LISTS),
    absent("mrugd%", NO_LISTS),
    absent("mrugm", NO_LISTS),
    absent("mrugm%", NO_LISTS),
    share("mrutg%", "Share of the cache for blocks used once (MRU)."),
    share("mfutg%", "Share of the cache for blocks used repeatedly (MFU)."),
];

const DEFAULT: &str = "read,ddread,ddh%,dmread,dmh%,pread,ph%,size,c,avail";
/// Field sets of OpenZFS's arcstat: those of its -z (here -z hides idle rows) and of -x.
const ZFETCH: &str = "ztotal,zhits,zahead,zpast,zmisses,zmax,zfuture,zstride,zissued,zactive";
const EXTENDED: &str = "mfu,mru,mfug,mrug,unc,eskip,mtxmis,dread,pread,read";

/// Options of `weir arcstat`.
pub fn command() -> Command {
    with_args(
        Command::new("arcstat")
            .about("Show cache statistics, like OpenZFS's arcstat")
            .long_about(
                "Prints a report each INTERVAL, with the field names of OpenZFS's arcstat; -v describes each and why some are \
                 '-', -f selects some. The first report is the average since the daemon started. Covers the caches of all \
                 pools of the daemon, or that of --pool.",
            )
            .arg(Arg::new("all").short('a').action(ArgAction::SetTrue).help("All fields"))
            .arg(Arg::new("extended").short('x').action(ArgAction::SetTrue).help("The fields of arcstat -x"))
            .arg(Arg::new("zfetch").long("zfetch").action(ArgAction::SetTrue).help("The fields of OpenZFS's arcstat -z"))
            .arg(Arg::new("pool").long("pool").value_name("POOL").help("Only the cache of this pool"))
            .arg(separator_arg()),
    )
}

pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let mut options = Options::of(matches)?;
    let named = |names: &str| Some(names.split(',').map(str::to_owned).collect());
    if options.fields.is_none()
        && !options.glossary
        && !options.schema
        && !matches.get_flag("all")
        && options.form != Form::Json
    {
        options.fields = match (matches.get_flag("extended"), matches.get_flag("zfetch")) {
            (true, _) => named(EXTENDED),
            (_, true) => named(ZFETCH),
            _ => named(DEFAULT),
        };
    }
    // As in arcstat, the time may be named like a field; it always comes first.
    if let Some(fields) = &mut options.fields {
        fields.retain(|f| f != "time");
    }
    let pool = matches.get_one::<String>("pool").cloned();
    let rows = move |daemon: &DaemonClient, before: Option<&Metrics>, now: &Metrics| {
        if let Some(pool) = &pool
            && !now.labels("weir_cache_size_bytes", "pool").contains(pool)
        {
            bail!("the daemon does not have the pool '{pool}'");
        }
        let clients = if pool.is_none() { accesses(daemon, before, now) } else { BTreeMap::new() };
        Ok(vec![row(before, now, pool.as_deref(), &clients)])
    };
    report::quiet(show_as(&options, COLUMNS, |_| OfDaemon::new(rows))).map(|()| ExitCode::SUCCESS)
}

/// Cache results of client operations per second, from Analytics, for whole closed seconds.
fn accesses(daemon: &DaemonClient, before: Option<&Metrics>, now: &Metrics) -> BTreeMap<String, f64> {
    // A second is closed a little after its end, so the span is two seconds in the past.
    let start = now.at.as_secs_f64() - now.seconds(before);
    let (from, to) = (start as u64, now.at.as_secs());
    let (from, to) = if before.is_some() { (from.saturating_sub(2), to.saturating_sub(2)) } else { (from, to) };
    let mut out = BTreeMap::new();
    if from >= to {
        return out;
    }
    // Without the recorder or the statistic these fields are absent; the others are available.
    let Ok(data) = daemon.query("arc.accesses[hit/miss]", from, to, to - from) else { return out };
    let seconds: u32 = data.columns.iter().map(|c| c.seconds).sum();
    if seconds == 0 {
        return out;
    }
    out.insert(String::new(), 0.0);
    for (key, count) in data.columns.iter().flat_map(cells) {
        if let Some(CellKey::Name(name)) = data.keys.get(&key.to_string()) {
            *out.entry(name.clone()).or_default() += count as f64 / f64::from(seconds);
        }
    }
    out
}

fn row(before: Option<&Metrics>, now: &Metrics, pool: Option<&str>, clients: &BTreeMap<String, f64>) -> Vec<Value> {
    let labels: Vec<(&str, &str)> = pool.map(|pool| ("pool", pool)).into_iter().collect();
    let seconds = now.seconds(before);
    let rate = |name: &str| now.grown(before, name, &labels).map(|n| n / seconds);
    let ghosts = |list: &str| {
        let labels: Vec<(&str, &str)> = labels.iter().copied().chain([("list", list)]).collect();
        now.grown(before, "weir_cache_ghost_hits_total", &labels).map(|n| n / seconds)
    };
    let add = |a: Option<f64>, b: Option<f64>| Some(a? + b?);
    let (hits, misses) = (rate("weir_cache_hits_total"), rate("weir_cache_misses_total"));
    let ahead = rate("weir_cache_prefetches_total");
    let (demand, all_misses) = (add(hits, misses), add(misses, ahead));
    let all = add(demand, ahead);
    // `None` without any data from Analytics; 0 if there is data, but none of this kind.
    let met =
        |names: &[&str]| (!clients.is_empty()).then(|| names.iter().filter_map(|name| clients.get(*name)).sum::<f64>());
    let (data_hits, data_misses) = (met(&["data hits", "prefetched data hits", "L2ARC hits"]), met(&["data misses"]));
    let (meta_hits, meta_misses) = (met(&["metadata hits"]), met(&["metadata misses"]));
    let (data, meta) = (add(data_hits, data_misses), add(meta_hits, meta_misses));
    let (second_hits, second_misses) = (rate("weir_l2_hits_total"), rate("weir_l2_misses_total"));
    let second = add(second_hits, second_misses);
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let of_machine = |field: &str| memory_bytes(&memory, field);
    let (cap, recent) = (now.sum("weir_cache_cap_bytes", &labels), now.sum("weir_cache_recent_target_bytes", &labels));
    let value = |name: &str| -> Option<f64> {
        match name {
            "hits" | "dhit" => hits,
            "miss" => all_misses,
            "dmis" => misses,
            "read" => all,
            "dread" => demand,
            "hit%" => percent(hits, all),
            "miss%" => percent(all_misses, all),
            "dh%" => percent(hits, demand),
            "dm%" => percent(misses, demand),
            "ddhit" => data_hits,
            "ddmis" => data_misses,
            "ddread" => data,
            "ddh%" => percent(data_hits, data),
            "ddm%" => percent(data_misses, data),
            "dmhit" => meta_hits,
            "dmmis" => meta_misses,
            "dmread" => meta,
            "dmh%" => percent(meta_hits, meta),
            "dmm%" => percent(meta_misses, meta),
            "pmis" | "pread" => ahead,
            "used" => rate("weir_cache_prefetched_hits_total"),
            "evict" => rate("weir_cache_evictions_total"),
            "mrug" => ghosts("recent"),
            "mfug" => ghosts("frequent"),
            "l2hits" => second_hits,
            "l2miss" => second_misses,
            "l2read" => second,
            "l2hit%" => percent(second_hits, second),
            "l2miss%" => percent(second_misses, second),
            "l2size" => now.sum("weir_l2_size_bytes", &labels),
            "l2asize" => now.sum("weir_l2_stored_bytes", &labels),
            "l2bytes" => rate("weir_l2_read_bytes_total"),
            "l2wbytes" => rate("weir_l2_written_bytes_total"),
            "size" => now.sum("weir_cache_size_bytes", &labels),
            "c" => cap,
            "arcsz" => now.sum("weir_cache_size_bytes", &labels),
            "mrutg" => recent,
            "mfutg" => cap.zip(recent).map(|(cap, recent)| (cap - recent).max(0.0)),
            "mrutg%" => percent(recent, cap),
            "mfutg%" => percent(cap.zip(recent).map(|(cap, recent)| (cap - recent).max(0.0)), cap),
            "mhit" => meta_hits,
            "mmis" => meta_misses,
            "mread" => meta,
            "mh%" => percent(meta_hits, meta),
            "mm%" => percent(meta_misses, meta),
            "avail" => of_machine("MemAvailable:"),
            "free" => of_machine("MemFree:"),
            _ => None,
        }
    };
    COLUMNS.iter().map(|c| value(c.name).into()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Report, Stamp, exact};
    use std::time::Duration;

    fn metrics(at: u64, hits: u64, misses: u64) -> Metrics {
        let text = format!(
            "weir_cache_hits_total{{pool=\"tank\"}} {hits}\nweir_cache_misses_total{{pool=\"tank\"}} {misses}\n\
             weir_cache_prefetches_total{{pool=\"tank\"}} 0\nweir_cache_size_bytes{{pool=\"tank\"}} 1048576\n\
             weir_cache_cap_bytes{{pool=\"tank\"}} 268435456\nweir_process_start_time 90\n"
        );
        Metrics::parse(&text, Duration::from_secs(at))
    }

    fn of<'a>(row: &'a [Value], name: &str) -> &'a Value {
        let at = COLUMNS.iter().position(|c| c.name == name).expect(name);
        &row[at]
    }

    #[test]
    fn the_fields_that_are_shown_exist() {
        for name in DEFAULT.split(',').chain(EXTENDED.split(',')).chain(ZFETCH.split(',')) {
            assert!(COLUMNS.iter().any(|c| c.name == name), "{name}");
        }
    }

    /// Scripts select among OpenZFS's fields: each exists here once, if only as '-'.
    #[test]
    fn every_field_of_openzfs_is_here_once() {
        let mut names: Vec<&str> = COLUMNS.iter().map(|c| c.name).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all, "a duplicate field");
        let openzfs = "hits iohs miss read hit% ioh% miss% dhit dioh dmis dh% di% dm% ddhit ddioh ddmis ddh% ddi% ddm% dmhit dmioh \
            dmmis dmh% dmi% dmm% phit pioh pmis ph% pi% pm% pdhit pdioh pdmis pdh% pdi% pdm% pmhit pmioh pmmis pmh% pmi% pmm% mhit mioh mmis \
            mread mh% mi% mm% arcsz size c mfu mru mfug mrug unc eskip el2skip el2cach el2el el2mfu el2mru el2inel mtxmis dread ddread dmread \
            pread pdread pmread l2hits l2miss l2read l2hit% l2miss% l2pref l2mfu l2mru l2data l2meta l2pref% l2mfu% l2mru% l2data% l2meta% \
            l2asize l2size l2bytes l2wbytes grow need free avail waste ztotal zhits zahead zpast zmisses zmax zfuture zstride zissued zactive \
            cmpsz cmpsz% abdsz l2hsz datatg datasz% metasz anosz mfusz mruem uncda% mfutg mrutg% mfudt mrumt% mrugsz mfugd mrugm%";
        for name in openzfs.split_ascii_whitespace() {
            assert!(names.binary_search(&name).is_ok(), "{name}");
        }
    }

    /// OpenZFS computes misses as the rest to 100 %: for one hit and no miss it prints -1.4e-14.
    #[test]
    fn shares_of_nothing_have_no_residue() {
        for hits in 0..3000u64 {
            let row = row(Some(&metrics(100, 0, 0)), &metrics(107, hits, 0), None, &BTreeMap::new());
            let Value::Number(misses) = of(&row, "miss%") else { panic!("a number") };
            assert_eq!((exact(*misses).as_str(), of(&row, "dm%")), ("0", &Value::Number(0.0)), "{hits}");
        }
        let row = row(Some(&metrics(100, 0, 0)), &metrics(101, 1, 2), None, &BTreeMap::new());
        let Value::Number(hits) = of(&row, "hit%") else { panic!("a number") };
        assert_eq!(exact(*hits), "33.333");
    }

    #[test]
    fn uncounted_values_are_absent_and_the_first_row_is_since_the_start() {
        let options =
            Options { fields: Some(DEFAULT.split(',').map(str::to_owned).collect()), ..Options::plain(Form::Table) };
        let mut report = Report::new(Vec::new(), COLUMNS, &options).expect("columns");
        let clients: BTreeMap<String, f64> = [("data hits".to_owned(), 9.0), ("data misses".to_owned(), 1.0)].into();
        let mut first = row(None, &metrics(100, 40, 10), None, &BTreeMap::new());
        let mut second = row(Some(&metrics(100, 40, 10)), &metrics(102, 60, 10), None, &clients);
        let avail = COLUMNS.iter().position(|c| c.name == "avail").expect("avail");
        (first[avail], second[avail]) = (Value::from(1u64 << 30), Value::from(1u64 << 30));
        report.row(Stamp { at: 100, boot: true }, &first).expect("written");
        report.row(Stamp { at: 102, boot: false }, &second).expect("written");
        assert_eq!(
            String::from_utf8(report.into_inner()).expect("text"),
            "      time   read  ddread   ddh%  dmread   dmh%  pread    ph%      size_B         c_B     avail_B\n\
             \x20     boot      5       -      -       -      -      0      -     1048576   268435456  1073741824\n\
             \x20      102     10      10   90.0       0      0      0      -     1048576   268435456  1073741824\n"
        );
    }
}
