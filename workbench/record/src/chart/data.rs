//! The runs that charts are made of: recorded files, output of other tools, or directories of
//! either.

use super::{Error, Mark, derive};
use crate::folder;
use crate::format::{MAGIC, Run};
use crate::import::{self, Clock, Imported};
use crate::series::Series;
use std::path::{Path, PathBuf};

/// A run: recorded files, or what other tools printed.
#[derive(Debug)]
pub struct Data {
    pub name: String,
    /// Its start on its clock, in seconds; `None` if it has no clock.
    pub clock: Option<f64>,
    pub marks: Vec<Mark>,
    /// What was omitted or filled in while reading.
    pub notes: Vec<String>,
    recorded: Vec<(f64, Run)>,
    imported: Vec<(f64, Imported)>,
}

impl Data {
    /// Reads a file or a directory: its recorded runs or, if there are none, the texts in a known
    /// format.
    pub fn load(path: &Path, options: &import::Options) -> Result<Self, Error> {
        let io = |path: &Path| {
            let path = path.display().to_string();
            move |error| Error::Io(path, error)
        };
        let name = path.canonicalize().ok().and_then(|p| p.file_name().map(|n| n.to_string_lossy().into_owned()));
        let name = name.unwrap_or_else(|| path.display().to_string());
        let mut files = folder::files(path).map_err(io(path))?;
        let mut texts_only = false;
        if files.is_empty() {
            texts_only = true;
            files = std::fs::read_dir(path)
                .map_err(io(path))?
                .flatten()
                .map(|e| e.path())
                .filter(|p| p.is_file())
                .collect();
            files.sort();
        }
        let (mut runs, mut texts) = (Vec::new(), Vec::new());
        for file in files {
            let bytes = std::fs::read(&file).map_err(io(&file))?;
            if bytes.starts_with(MAGIC) {
                runs.push(Run::of(&file, bytes)?);
                continue;
            }
            let Ok(text) = String::from_utf8(bytes) else {
                if texts_only {
                    continue;
                }
                return Err(import::Error::Unknown(file.display().to_string()).into());
            };
            let named = file.file_name().map_or(file.clone(), PathBuf::from);
            match import::read(&named, &text, options) {
                Ok(imported) => texts.push(imported),
                // A directory may contain other files, too.
                Err(import::Error::Unknown(_) | import::Error::Empty(_)) if texts_only => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mut data = Self::of(name, runs, texts);
        data.notes.extend(refused(path));
        Ok(data)
    }

    /// Combines parts into one run. Parts with a clock are aligned by it.
    pub fn of(name: String, runs: Vec<Run>, texts: Vec<Imported>) -> Self {
        let begin = |run: &Run| run.meta.started.utc_ns as f64 / 1e9;
        let dated = texts.iter().filter(|t| t.clock == Clock::Utc).map(|t| t.start);
        let first = runs.iter().map(begin).chain(dated).reduce(f64::min);
        let of_day = texts.iter().filter(|t| t.clock == Clock::Day).map(|t| t.start).reduce(f64::min);
        let clock = first.or(of_day);
        let shift = |text: &Imported| match text.clock {
            Clock::Utc => text.start - first.unwrap_or(text.start),
            Clock::Day => text.start - of_day.unwrap_or(text.start),
            Clock::Counted => 0.0,
        };
        let recorded: Vec<(f64, Run)> = runs.into_iter().map(|run| (begin(&run) - first.unwrap_or(0.0), run)).collect();
        let mark = |shift: f64, run: &Run| -> Vec<Mark> {
            let start = run.meta.started.mono_ns;
            let at = |note: &crate::format::Note| Mark {
                at: (note.at.mono_ns - start) as f64 / 1e9 + shift,
                text: note.text.clone(),
            };
            run.notes.iter().map(at).collect()
        };
        let marks = recorded.iter().flat_map(|(shift, run)| mark(*shift, run)).collect();
        let mut notes: Vec<String> = texts.iter().flat_map(|t| t.notes.clone()).collect();
        for (_, run) in &recorded {
            notes.extend(run.torn.map(|at| format!("{}: truncated at byte {at}", run.path.display())));
        }
        notes.sort();
        notes.dedup();
        let imported = texts.into_iter().map(|text| (shift(&text), text)).collect();
        Self { name, clock, marks, notes, recorded, imported }
    }

    /// The series whose names begin with `prefix`: columns of the run, or derived from them.
    pub fn series(&self, prefix: &str) -> Vec<Series> {
        let mut out = Vec::new();
        let wants = |name: &str| name.starts_with(prefix);
        for (shift, run) in &self.recorded {
            out.extend(derive::all(run, &wants).into_iter().map(|s| shifted(s, *shift)));
        }
        for (shift, text) in &self.imported {
            out.extend(text.series.iter().cloned().map(|s| shifted(s, *shift)));
        }
        out.retain(|s| s.name.starts_with(prefix) && !s.spans.is_empty());
        out
    }

    /// The series called `name`.
    pub fn named(&self, name: &str) -> Vec<Series> {
        let mut out = self.series(name);
        out.retain(|s| s.name == name);
        out
    }

    /// The sum of all series called `name`.
    pub fn sum(&self, name: &str) -> Option<Series> {
        let parts = self.named(name);
        derive::sum(name, &[], &parts.iter().collect::<Vec<_>>())
    }

    /// The recorded files, each with its start in seconds after the first one.
    pub(super) fn recorded(&self) -> impl Iterator<Item = (f64, &Run)> {
        self.recorded.iter().map(|(shift, run)| (*shift, run))
    }

    pub(super) fn texts(&self) -> impl Iterator<Item = &Imported> {
        self.imported.iter().map(|(_, text)| text)
    }

    /// Time of the last value in seconds since the start; 0 if there are none.
    pub fn length(&self) -> f64 {
        let recorded = self.recorded.iter().filter_map(|(shift, run)| {
            Some((run.rows.last()?.mono_ns - run.meta.started.mono_ns) as f64 / 1e9 + shift)
        });
        let texts = self.imported.iter().map(|(shift, text)| {
            let spans = text.series.iter().filter_map(|s| Some(s.spans.last()?.to));
            let all = spans.chain(text.latencies.iter().map(|b| b.time.1)).chain(text.operations.iter().map(|o| o.at));
            all.fold(0.0, f64::max) + shift
        });
        recorded.chain(texts).fold(0.0, f64::max)
    }

    /// The names of the available series, for error messages.
    pub fn has(&self) -> String {
        let mut names: Vec<String> = self.series("").into_iter().map(|s| s.name).collect();
        names.sort();
        names.dedup();
        if names.is_empty() { "nothing".to_owned() } else { names.join(" ") }
    }
}

/// A warning for a run that `weir bench` refused, to be shown on the chart as well.
fn refused(folder: &Path) -> Option<String> {
    let text = std::fs::read_to_string(folder.join("verdict.json")).ok()?;
    let verdict: serde_json::Value = serde_json::from_str(&text).ok()?;
    (verdict["verdict"] == "REFUSE").then(|| "UNVERIFIED: weir bench refused this run".to_owned())
}

fn shifted(mut series: Series, by: f64) -> Series {
    if by != 0.0 {
        for span in &mut series.spans {
            (span.from, span.to) = (span.from + by, span.to + by);
        }
    }
    series
}
