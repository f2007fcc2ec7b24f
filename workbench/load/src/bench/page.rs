//! The report: one self-contained page with verdict, result, charts and configuration.

use super::measure::write as write_to;
use crate::drive::Report;
use crate::watch::Second;
use anyhow::Result;
use judge::{Facts, Judgement, UNVERIFIED, Verdict, stamped};
use std::path::Path;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 200.0;
/// Rows of a heat map: four for each doubling, from a microsecond to a minute.
const ROWS: usize = 104;

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The result: in full, stamped, or a refusal.
fn result(facts: &Facts, judgement: &Judgement, force: bool) -> String {
    match (judgement.verdict, force) {
        (Verdict::Refuse, false) => "refused: see the checks\n".to_owned(),
        (Verdict::Refuse, true) => stamped(&facts.text()),
        _ => facts.text(),
    }
}

/// Writes verdict.json, the charts and report.html.
pub(super) fn write(folder: &Path, facts: &Facts, judgement: &Judgement, force: bool) -> Result<()> {
    write_file(folder, "verdict.json", &serde_json::to_string_pretty(judgement)?)?;
    let is_unverified = judgement.verdict == Verdict::Refuse;
    let mut pictures = String::new();
    for n in 1.. {
        let Ok(text) = std::fs::read_to_string(folder.join(format!("report-{n}.json"))) else { break };
        let Some(report) = serde_json::from_str(&text).ok().and_then(|v| Report::from_json(&v)) else { break };
        if is_unverified && !force {
            break;
        }
        let lines = rates(&report.series, is_unverified);
        let heat = heat(&report.series, is_unverified);
        write_file(folder, &format!("rate-{n}.svg"), &lines)?;
        write_file(folder, &format!("latency-{n}.svg"), &heat)?;
        pictures += &format!("<h3>Repetition {n}</h3>\n{lines}\n{heat}\n");
    }
    let rows: String = judgement
        .findings
        .iter()
        .enumerate()
        .map(|(n, f)| {
            let (verdict, name) = (f.verdict.name(), f.check.name());
            let arithmetic = escaped(&f.arithmetic.join("\n")).replace('\n', "<br>");
            let reason = escaped(&f.reason);
            format!(
                "<tr class={verdict}><td>{}<td>{name}<td>{verdict}<td>{reason}<br><small>{arithmetic}</small>\n",
                n + 1
            )
        })
        .collect();
    let html = format!(
        "<!doctype html><meta charset=utf-8><title>{title}</title>\n<style>body{{font:15px sans-serif;max-width:60em;margin:2em auto}}\
         td{{padding:.3em .6em;vertical-align:top}}.REFUSE{{background:#fdd}}.WARN{{background:#ffd}}pre{{background:#f4f4f4;padding:1em;overflow:auto}}\
         </style>\n<h1>{title}: {verdict}</h1>\n<p>{labels}</p>\n<pre>{result}</pre>\n<table>\n{rows}</table>\n{pictures}<h2>The systems</h2>\n<pre>{configuration}</pre>\n",
        title = escaped(&facts.load.name),
        verdict = judgement.verdict.name(),
        labels = escaped(&judgement.labels.join(", ")),
        result = escaped(&result(facts, judgement, force)),
        configuration = escaped(&serde_json::to_string_pretty(&facts.configuration)?),
    );
    write_file(folder, "report.html", &html)
}

fn write_file(folder: &Path, name: &str, text: &str) -> Result<()> {
    write_to(&folder.join(name), text)
}

/// A frame with a title, a time axis and two labels on the left.
fn framed(title: &str, inner: &str, (top, bottom): (&str, &str), seconds: f64, is_unverified: bool) -> String {
    let stamp = if is_unverified {
        format!(
            "<text x=\"{}\" y=\"{}\" font-size=\"60\" fill=\"#c00\" opacity=\"0.5\">{UNVERIFIED}</text>",
            WIDTH / 4.0,
            HEIGHT / 2.0 + 20.0
        )
    } else {
        String::new()
    };
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" font-size=\"12\">\
         <text x=\"70\" y=\"14\">{}</text><g transform=\"translate(70,20)\"><rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fafafa\" stroke=\"#999\"/>\
         {inner}{stamp}</g><text x=\"66\" y=\"30\" text-anchor=\"end\">{top}</text><text x=\"66\" y=\"{}\" text-anchor=\"end\">{bottom}</text>\
         <text x=\"{}\" y=\"{}\" text-anchor=\"end\">{seconds:.0} s</text></svg>",
        WIDTH + 80.0,
        HEIGHT + 40.0,
        escaped(title),
        HEIGHT + 20.0,
        WIDTH + 70.0,
        HEIGHT + 36.0,
    )
}

fn end(series: &[Second]) -> f64 {
    series.last().map_or(1.0, |s| s.at)
}

/// Operations per second over time, from zero.
fn rates(series: &[Second], is_unverified: bool) -> String {
    let (end, rate) = (end(series), |s: &Second| s.ops as f64 / s.took.max(1e-9));
    let top = series.iter().map(rate).fold(1.0, f64::max);
    let points: String =
        series.iter().map(|s| format!("{:.1},{:.1} ", s.at / end * WIDTH, HEIGHT - rate(s) / top * HEIGHT)).collect();
    let line = format!("<polyline points=\"{points}\" fill=\"none\" stroke=\"#0072b2\" stroke-width=\"1.5\"/>");
    framed("operations a second", &line, (&format!("{top:.0}"), "0"), end, is_unverified)
}

/// Latencies over time: darker cells have more operations. The axis is logarithmic.
fn heat(series: &[Second], is_unverified: bool) -> String {
    let row = |ns: u64| ((ns.max(1000) as f64 / 1000.0).log2() * 4.0) as usize;
    let mut cells: Vec<Vec<u64>> = Vec::new();
    for second in series {
        let mut column = vec![0; ROWS];
        for (ns, count) in &second.latency.classes {
            column[row(*ns).min(ROWS - 1)] += count;
        }
        cells.push(column);
    }
    let used: Vec<usize> = (0..ROWS).filter(|r| cells.iter().any(|c| c[*r] > 0)).collect();
    let (Some(low), Some(high)) = (used.first(), used.last()) else { return String::new() };
    let rows = (high - low + 1) as f64;
    let most = cells.iter().flatten().copied().max().unwrap_or(1) as f64;
    let (end, mut inner) = (end(series), String::new());
    for (second, column) in series.iter().zip(&cells) {
        for (r, count) in column.iter().enumerate().filter(|(_, c)| **c > 0) {
            let (x, w) = ((second.at - second.took) / end * WIDTH, second.took / end * WIDTH);
            let h = HEIGHT / rows;
            let y = HEIGHT - (r - low + 1) as f64 * h;
            let opacity = (1.0 + *count as f64).ln() / (1.0 + most).ln();
            inner += &format!(
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{w:.1}\" height=\"{h:.1}\" fill=\"#d55e00\" opacity=\"{opacity:.2}\"/>"
            );
        }
    }
    let label = |r: usize| {
        let us = 2f64.powf(r as f64 / 4.0);
        if us >= 1000.0 { format!("{:.0} ms", us / 1000.0) } else { format!("{us:.0} us") }
    };
    framed("latency of operations", &inner, (&label(high + 1), &label(*low)), end, is_unverified)
}
