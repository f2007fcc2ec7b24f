//! Converts lines to flows: defaults, loops, scale.

use super::parse::{Item, Line, full, range};
use super::run::{Changes, Run};
use crate::flow::{Access, Fileset, Flow, Format, Group, Mix, Order, Step};
use crate::number::{size, time};
use crate::pace::Arrivals;
use crate::watch::What;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::time::Duration;

const FSD: [&str; 16] = [
    "fsd",
    "anchor",
    "width",
    "depth",
    "files",
    "sizes",
    "shared",
    "wss",
    "workingsetsize",
    "totalsize",
    "distribution",
    "openflags",
    "journal",
    "cleanup",
    "log",
    "count",
];
const FWD: [&str; 13] = [
    "fwd",
    "fsd",
    "rdpct",
    "stopafter",
    "operation",
    "fileselect",
    "fileio",
    "xfersizes",
    "skew",
    "threads",
    "openflags",
    "host",
    "target",
];
const RD: [&str; 26] = [
    "rd",
    "fwd",
    "fwdrate",
    "elapsed",
    "interval",
    "format",
    "operations",
    "warmup",
    "pause",
    "distribution",
    "openflags",
    "forthreads",
    "forxfersizes",
    "fordepth",
    "forwidth",
    "forfiles",
    "forsizes",
    "foroperations",
    "iorate",
    "curve",
    "stopcurve",
    "maxdata",
    "startcmd",
    "endcmd",
    "replay",
    "abort_failed_skew",
];
/// Default number of random reads or writes in a file before the next file is selected.
const RANDOM_STOPS_AFTER: u64 = 100;
const ELAPSED: Duration = Duration::from_secs(30);

type Values = BTreeMap<&'static str, Vec<String>>;
/// A keyword that begins with `for`, and its values.
type Loop = (&'static str, Vec<String>);

/// The definitions of a file, by name and in order.
#[derive(Default)]
struct Defined {
    fsd: Vec<(String, Values)>,
    fwd: Vec<(String, Values)>,
    rd: Vec<(String, Values, Vec<Loop>)>,
}

pub(super) fn runs(lines: &[Line], changes: &Changes) -> Result<Vec<Run>> {
    let defined = define(lines)?;
    let mut runs = Vec::new();
    for (name, values, loops) in &defined.rd {
        let rd = Rd { defined: &defined, changes, name, values };
        rd.looped(loops, &mut Vec::new(), &mut runs).with_context(|| format!("rd={name}"))?;
    }
    ensure!(!runs.is_empty(), "no rd found, so nothing to run");
    Ok(runs)
}

fn define(lines: &[Line]) -> Result<Defined> {
    let mut defined = Defined::default();
    let mut defaults: BTreeMap<&str, Values> = BTreeMap::new();
    for line in lines {
        let at = || format!("line {}", line.number);
        let Some(Item { keyword, values }) = line.items.first() else { continue };
        let (kind, known): (&str, &[&'static str]) = match keyword.as_str() {
            "fsd" => ("fsd", &FSD),
            "fwd" => ("fwd", &FWD),
            "rd" => ("rd", &RD),
            "hd" => {
                for item in &line.items[1..] {
                    let here = |v: &String| ["localhost", "127.0.0.1"].contains(&v.as_str());
                    let is_remote = "system".starts_with(&item.keyword) && !item.values.iter().all(here);
                    ensure!(!is_remote, "{}: Unsupported: hd on other machines; use 'weir load clients'", at());
                }
                continue;
            }
            "sd" | "wd" => {
                bail!("{}: Unsupported: {keyword}; use 'weir load randread …' for raw devices", at())
            }
            "messagescan" | "report" | "create_anchors" | "monitor" => continue,
            other => bail!("{}: unknown keyword '{other}' at the start of a line, expected fsd, fwd, rd or hd", at()),
        };
        let name = values.first().filter(|n| !n.is_empty()).with_context(|| format!("{}: {kind} has no name", at()))?;
        let mut all = defaults.get(kind).cloned().unwrap_or_default();
        let mut loops = Vec::new();
        for item in &line.items[1..] {
            let word = full(&item.keyword, known)
                .with_context(|| format!("{}: '{}' is not a keyword of {kind}", at(), item.keyword))?;
            if word.starts_with("for") && word != "format" {
                loops.push((word, range(&item.values).with_context(at)?));
            } else {
                all.insert(word, item.values.clone());
            }
        }
        if name == "default" {
            defaults.insert(kind, all);
            continue;
        }
        match kind {
            "fsd" => defined.fsd.push((name.clone(), all)),
            "fwd" => defined.fwd.push((name.clone(), all)),
            _ => defined.rd.push((name.clone(), all, loops)),
        }
    }
    Ok(defined)
}

fn one<'a>(values: &'a Values, word: &str) -> Option<&'a str> {
    values.get(word).and_then(|v| v.first()).map(String::as_str)
}

fn number(values: &Values, word: &str) -> Result<Option<u64>> {
    one(values, word).map(|v| size(v).with_context(|| format!("{word}={v} is not a number"))).transpose()
}

fn duration(values: &Values, word: &str) -> Result<Option<Duration>> {
    one(values, word).map(|v| time(v).with_context(|| format!("{word}={v} is not a time"))).transpose()
}

/// `8k`, or `8k,60,32k,40`: sizes and their percentages, which add up to 100.
fn mix(word: &str, values: &[String]) -> Result<Mix> {
    let number = |v: &String| size(v).with_context(|| format!("{word}={v} is not a size"));
    if let [only] = values {
        return Ok(Mix::one(number(only)?));
    }
    ensure!(values.len().is_multiple_of(2), "{word}: sizes and percentages must come in pairs");
    let pairs = values.chunks(2).map(|pair| {
        let percent: f64 = pair[1].parse().with_context(|| format!("{word}: '{}' is not a percentage", pair[1]))?;
        Ok((number(&pair[0])?, percent))
    });
    let pairs = pairs.collect::<Result<Vec<_>>>()?;
    let sum: f64 = pairs.iter().map(|(_, p)| p).sum();
    ensure!((sum - 100.0).abs() < 0.01, "{word}: the percentages add up to {sum}, not to 100");
    Mix::of(pairs).with_context(|| format!("{word}: no percentage is greater than 0"))
}

/// Whether a name matches one of the patterns, in which a final `*` matches anything.
fn matching(wanted: &[String], name: &str) -> bool {
    wanted.iter().any(|w| match w.strip_suffix('*') {
        Some(front) => name.starts_with(front),
        None => w == name,
    })
}

struct Rd<'a> {
    defined: &'a Defined,
    changes: &'a Changes,
    name: &'a str,
    values: &'a Values,
}

impl Rd<'_> {
    /// A run for each combination of loop values, the first loop outermost.
    fn looped(&self, loops: &[Loop], chosen: &mut Vec<(&'static str, String)>, runs: &mut Vec<Run>) -> Result<()> {
        let Some(((word, values), rest)) = loops.split_first() else {
            let rates = match self.values.get("fwdrate") {
                Some(rates) => range(rates)?,
                None => vec!["max".to_owned()],
            };
            for rate in &rates {
                runs.push(self.run(chosen, rate, rates.len() > 1)?);
            }
            return Ok(());
        };
        for value in values {
            chosen.push((word, value.clone()));
            let done = self.looped(rest, chosen, runs);
            chosen.pop();
            done?;
        }
        Ok(())
    }

    fn run(&self, chosen: &[(&'static str, String)], rate: &str, with_rate: bool) -> Result<Run> {
        for word in ["iorate", "curve", "stopcurve", "maxdata", "startcmd", "endcmd", "replay"] {
            ensure!(!self.values.contains_key(word), "Unsupported: {word}");
        }
        let of = |word: &str| chosen.iter().find(|(w, _)| *w == word).map(|(_, v)| v.clone());
        let scale = self.changes.scale.unwrap_or(1.0);
        ensure!(scale > 0.0 && scale.is_finite(), "the scale must be greater than 0");
        let all = vec!["*".to_owned()];
        let wanted = self.values.get("fwd").unwrap_or(&all);
        let fwds: Vec<_> = self.defined.fwd.iter().filter(|(name, _)| matching(wanted, name)).collect();
        ensure!(!fwds.is_empty(), "no fwd is named {}", wanted.join(", "));
        let (mut filesets, mut groups, mut access) = (Vec::<Fileset>::new(), Vec::new(), Access::default());
        let operations = match of("foroperations") {
            Some(operation) => Some(vec![operation]),
            None => self.values.get("operations").cloned(),
        };
        for (name, fwd) in fwds {
            let wanted = fwd.get("fsd").unwrap_or(&all);
            let fsds: Vec<_> = self.defined.fsd.iter().filter(|(name, _)| matching(wanted, name)).collect();
            ensure!(!fsds.is_empty(), "fwd={name}: no fsd is named {}", wanted.join(", "));
            let own = fwd.get("operation").cloned().unwrap_or_else(|| vec!["read".to_owned()]);
            let operations = operations.clone().unwrap_or(own);
            let parts = fsds.len() * operations.len();
            for (fsd_name, fsd) in fsds {
                let set = self.fileset(fsd_name, fsd, &of, scale).with_context(|| format!("fsd={fsd_name}"))?;
                flags(fsd, &mut access).with_context(|| format!("fsd={fsd_name}"))?;
                let which = filesets.iter().position(|s| *s == set).unwrap_or_else(|| {
                    filesets.push(set);
                    filesets.len() - 1
                });
                for operation in &operations {
                    let mut group = group(name, fwd, operation, &of).with_context(|| format!("fwd={name}"))?;
                    group.fileset = which;
                    group.skew = group.skew.map(|s| s / parts as f64);
                    group.threads = group.threads.div_ceil(parts);
                    groups.push(group);
                }
            }
            flags(fwd, &mut access).with_context(|| format!("fwd={name}"))?;
        }
        flags(self.values, &mut access)?;
        let rate = match (self.changes.rate, rate) {
            (Some(rate), _) => Some(rate),
            (None, "max") => None,
            (None, text) => Some(size(text).with_context(|| format!("fwdrate={text}"))? as f64 * scale),
        };
        let arrivals = match (rate, one(self.values, "distribution").unwrap_or("exponential")) {
            (None, _) => Arrivals::Closed,
            (Some(rate), d) if "exponential".starts_with(d) => Arrivals::Poisson(rate),
            (Some(rate), d) if "deterministic".starts_with(d) || "uniform".starts_with(d) => Arrivals::Even(rate),
            (_, other) => bail!("distribution={other} is none of exponential, uniform, deterministic"),
        };
        let elapsed = duration(self.values, "elapsed")?.unwrap_or(ELAPSED);
        let elapsed = self.changes.elapsed.unwrap_or_else(|| elapsed.mul_f64(scale).max(Duration::from_secs(1)));
        let ramp = duration(self.values, "warmup")?.unwrap_or_default();
        let (format, only_format) = self.format()?;
        let mut values: Vec<(String, String)> = chosen.iter().map(|(w, v)| (w[3..].to_owned(), v.clone())).collect();
        if with_rate {
            values.push(("fwdrate".to_owned(), rate.map_or_else(|| "max".to_owned(), |r| r.to_string())));
        }
        let flow = Flow {
            name: self.name.to_owned(),
            filesets,
            groups,
            arrivals,
            time: Some(elapsed + ramp),
            ramp,
            format,
            access,
            seed: self.changes.seed,
        };
        // Reports ignore the interval of the file, but it must be a valid time.
        duration(self.values, "interval")?;
        Ok(Run {
            name: self.name.to_owned(),
            chosen: values,
            flow,
            only_format,
            pause: duration(self.values, "pause")?.unwrap_or_default(),
        })
    }

    fn format(&self) -> Result<(Format, bool)> {
        let words = self.values.get("format").cloned().unwrap_or_else(|| vec!["no".to_owned()]);
        let words = self.changes.format.clone().map_or(words, |f| vec![f]);
        let (mut format, mut only) = (Format::Keep, false);
        for word in &words {
            match word.as_str() {
                "no" | "n" => {}
                "yes" | "y" => format = Format::Fresh,
                "restart" | "r" | "dir" | "directories" | "once" => format = Format::Fill,
                "only" | "o" => (format, only) = (if format == Format::Keep { Format::Fresh } else { format }, true),
                other => bail!("Unsupported: format={other}"),
            }
        }
        Ok((format, only))
    }

    fn fileset(&self, name: &str, fsd: &Values, of: &dyn Fn(&str) -> Option<String>, scale: f64) -> Result<Fileset> {
        for word in ["journal", "cleanup", "log", "count"] {
            ensure!(!fsd.contains_key(word), "Unsupported: {word}");
        }
        let chosen = |word: &str, own: &str| -> Result<Option<u64>> {
            match of(word) {
                Some(text) => size(&text).with_context(|| format!("{word}={text}")).map(Some),
                None => number(fsd, own),
            }
        };
        let anchor = match self.changes.anchors.get(name) {
            Some(target) => target.clone(),
            None => one(fsd, "anchor").context("no anchor")?.parse()?,
        };
        let sizes = match of("forsizes") {
            Some(text) => Mix::one(size(&text).with_context(|| format!("forsizes={text}"))?),
            None => mix("sizes", fsd.get("sizes").context("no sizes")?)?,
        };
        let depth = chosen("fordepth", "depth")?.unwrap_or(1);
        let width = chosen("forwidth", "width")?.unwrap_or(1);
        let files = chosen("forfiles", "files")?.unwrap_or(1);
        let mut files = ((files as f64 * scale).round() as u64).max(1);
        let everywhere = match one(fsd, "distribution").unwrap_or("bottom") {
            d if "bottom".starts_with(d) => false,
            d if "all".starts_with(d) => true,
            other => bail!("distribution={other} is none of bottom, all"),
        };
        let mut set = Fileset {
            name: name.to_owned(),
            anchor,
            depth: u32::try_from(depth).context("depth")?,
            width: u32::try_from(width).context("width")?,
            files,
            everywhere,
            sizes,
            there: 100,
            shared: one(fsd, "shared").is_some_and(|s| s.starts_with('y')),
        };
        // Limits the total size by reducing the number of files in each directory.
        for word in ["totalsize", "wss", "workingsetsize"] {
            if let Some(most) = number(fsd, word)? {
                let one_more = set.bytes() / files as f64;
                files = files.min((most as f64 * scale / one_more) as u64).max(1);
                set.files = files;
            }
        }
        Ok(set)
    }
}

fn flags(values: &Values, access: &mut Access) -> Result<()> {
    for flag in values.get("openflags").into_iter().flatten() {
        match flag.to_ascii_lowercase().as_str() {
            "o_direct" | "directio" => access.direct = true,
            "o_sync" | "o_dsync" | "o_rsync" => access.sync = true,
            "fsync" | "none" => {}
            other => bail!("Unsupported: openflags={other}"),
        }
    }
    Ok(())
}

fn group(name: &str, fwd: &Values, operation: &str, of: &dyn Fn(&str) -> Option<String>) -> Result<Group> {
    for word in ["target", "host"] {
        let here = one(fwd, word).is_none_or(|v| v == "localhost" || v == "*");
        ensure!(here, "Unsupported: {word}");
    }
    let transfer = match of("forxfersizes") {
        Some(text) => Mix::one(size(&text).with_context(|| format!("forxfersizes={text}"))?),
        None => fwd.get("xfersizes").map_or_else(|| Ok(Mix::one(4096)), |v| mix("xfersizes", v))?,
    };
    let threads = match of("forthreads") {
        Some(text) => size(&text).with_context(|| format!("forthreads={text}"))?,
        None => number(fwd, "threads")?.unwrap_or(1),
    };
    let fileio = fwd.get("fileio").map_or("sequential", |v| v.first().map_or("", String::as_str));
    let random = match fileio {
        io if !io.is_empty() && "random".starts_with(io) => true,
        io if !io.is_empty() && "sequential".starts_with(io) => false,
        other => bail!("Unsupported: fileio={other}"),
    };
    let order = match fwd.get("fileselect").and_then(|v| v.first()).map_or("sequential", String::as_str) {
        "once" => Order::Once,
        o if !o.is_empty() && "random".starts_with(o) => Order::Random,
        o if !o.is_empty() && "sequential".starts_with(o) => Order::Sequential,
        other => bail!("Unsupported: fileselect={other}"),
    };
    let count = match number(fwd, "stopafter")? {
        Some(count) => Some(count),
        None => random.then_some(RANDOM_STOPS_AFTER),
    };
    let parts = |reads| Step::Parts { reads, random, transfer: transfer.clone(), count };
    let rdpct = number(fwd, "rdpct")?.map(|p| u8::try_from(p.min(100)).unwrap_or(100));
    let (steps, counted) = match (operation, rdpct) {
        ("read" | "write", Some(reads)) => {
            (vec![Step::Open(true), parts(reads), Step::Close], vec![What::Read, What::Write])
        }
        ("read", None) => (vec![Step::Open(false), parts(100), Step::Close], vec![What::Read]),
        ("write", None) => (vec![Step::Open(true), parts(0), Step::Close], vec![What::Write]),
        ("create", _) => (vec![Step::Create, Step::WriteAll(transfer.clone()), Step::Close], vec![What::Create]),
        ("open", _) => (vec![Step::Open(false), Step::Close], vec![What::Open]),
        ("close", _) => (vec![Step::Open(false), Step::Close], vec![What::Close]),
        ("delete", _) => (vec![Step::Delete], vec![What::Remove]),
        ("getattr" | "access", _) => (vec![Step::Look], vec![What::Look]),
        ("setattr", _) => (vec![Step::Change], vec![What::Change]),
        ("mkdir", _) => (vec![Step::MakeDirectory], vec![What::MakeDirectory]),
        ("rmdir", _) => (vec![Step::RemoveDirectory], vec![What::RemoveDirectory]),
        (other, _) => bail!("Unsupported: operation={other}"),
    };
    let skew = one(fwd, "skew").map(|s| s.parse::<f64>().with_context(|| format!("skew={s}"))).transpose()?;
    Ok(Group {
        name: name.to_owned(),
        fileset: 0,
        threads: usize::try_from(threads).context("threads")?,
        skew: skew.filter(|s| *s > 0.0),
        order,
        steps,
        counted,
    })
}
