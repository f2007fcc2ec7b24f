//! Worksheets, stored in `analytics/worksheets.json` of the state directory.
//!
//! Invariants:
//!   * the file is replaced as a whole: a crash leaves the old one or the new one
//!   * number and size of worksheets are bounded
//!   * numbers are not reused

use crate::access::now;
use analytics::name::Name;
use anyhow::{Context as _, Result};
use api::{SaveWorksheet, Worksheet, WorksheetGraph, WorksheetSpan};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Limit for the number of worksheets.
const WORKSHEETS: usize = 500;
/// Limit for the graphs of one worksheet.
const GRAPHS: usize = 64;
/// Maximum length of a title.
const TITLE_BYTES: usize = 200;
/// Maximum length of a comment.
const COMMENT_BYTES: usize = 4096;
/// Limit for the data that the page may store with each graph.
const VIEW_BYTES: usize = 4096;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Stored {
    last: u32,
    worksheets: Vec<Worksheet>,
}

pub struct Worksheets {
    path: PathBuf,
    kept: Mutex<Stored>,
}

/// Why a worksheet is refused.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// A field is invalid: its name, what was found, what was expected.
    #[error("{0} is {1}, expected {2}")]
    Invalid(String, String, String),
    /// The limit is reached.
    #[error("there are {WORKSHEETS} worksheets: remove some first")]
    Full,
    /// There is no worksheet with this number.
    #[error("no such worksheet: {0}")]
    Missing(u32),
    /// The file cannot be written.
    #[error("cannot save worksheets: {0}")]
    Io(#[from] std::io::Error),
}

fn bytes(place: &str, text: &str, least: usize, most: usize) -> Result<(), Refused> {
    match text.len() {
        n if n < least || n > most => {
            Err(Refused::Invalid(place.to_owned(), format!("{n} bytes long"), format!("{least} to {most}")))
        }
        _ => Ok(()),
    }
}

fn graph(place: &str, graph: &WorksheetGraph) -> Result<Name, Refused> {
    let wrong = |error: analytics::name::BadName| {
        Refused::Invalid(format!("{place}.name"), format!("'{}': {error}", graph.name), "a statistic".to_owned())
    };
    let name: Name = graph.name.parse().map_err(wrong)?;
    analytics::catalogue::find(&name).map_err(wrong)?;
    let view = serde_json::to_string(&graph.view).unwrap_or_default();
    bytes(&format!("{place}.view"), &view, 0, VIEW_BYTES)?;
    Ok(name)
}

fn span(span: WorksheetSpan) -> Result<(), Refused> {
    match (span.seconds, span.from, span.to) {
        (Some(1..), None, None) => Ok(()),
        (None, Some(from), Some(to)) if from < to => Ok(()),
        _ => {
            let found = serde_json::to_string(&span).unwrap_or_default();
            let expected = "'seconds' from 1, or 'from' and 'to' with from before to";
            Err(Refused::Invalid("span".to_owned(), found, expected.to_owned()))
        }
    }
}

/// Validates a worksheet. Returns its statistics.
pub fn statistics(wanted: &SaveWorksheet) -> Result<Vec<Name>, Refused> {
    bytes("title", &wanted.title, 1, TITLE_BYTES)?;
    bytes("comment", &wanted.comment, 0, COMMENT_BYTES)?;
    span(wanted.span)?;
    if wanted.graphs.len() > GRAPHS {
        let found = format!("{} graphs", wanted.graphs.len());
        return Err(Refused::Invalid("graphs".to_owned(), found, format!("at most {GRAPHS}")));
    }
    wanted.graphs.iter().enumerate().map(|(n, g)| graph(&format!("graphs[{n}]"), g)).collect()
}

impl Worksheets {
    /// Opens the worksheets of the state directory. A damaged file is moved aside, and does not
    /// prevent the start.
    pub fn open(state: &Path) -> Result<Self> {
        let path = state.join("analytics/worksheets.json");
        let kept = match std::fs::read(&path) {
            Ok(bytes) => match serde_json::from_slice(&bytes) {
                Ok(kept) => kept,
                Err(error) => {
                    let aside = path.with_extension("damaged");
                    let (file, moved) = (path.display(), aside.display());
                    tracing::warn!(%file, %error, moved_to = %moved, "cannot read worksheets; starting with none");
                    std::fs::rename(&path, &aside).with_context(|| path.display().to_string())?;
                    Stored::default()
                }
            },
            Err(e) if e.kind() == ErrorKind::NotFound => Stored::default(),
            Err(e) => return Err(e).with_context(|| path.display().to_string()),
        };
        Ok(Self { path, kept: Mutex::new(kept) })
    }

    /// All worksheets, by title.
    pub fn list(&self) -> Vec<Worksheet> {
        let mut all = self.kept.lock().worksheets.clone();
        all.sort_by(|a, b| a.title.cmp(&b.title).then(a.id.cmp(&b.id)));
        all
    }

    pub fn get(&self, id: u32) -> Result<Worksheet, Refused> {
        self.kept.lock().worksheets.iter().find(|w| w.id == id).cloned().ok_or(Refused::Missing(id))
    }

    pub fn add(&self, wanted: SaveWorksheet, owner: String) -> Result<Worksheet, Refused> {
        self.change(|kept| {
            if kept.worksheets.len() >= WORKSHEETS {
                return Err(Refused::Full);
            }
            kept.last += 1;
            let SaveWorksheet { title, comment, graphs, span } = wanted;
            let (id, created) = (kept.last, now());
            let made = Worksheet { id, title, comment, owner, created, changed: created, graphs, span };
            kept.worksheets.push(made.clone());
            Ok(made)
        })
    }

    /// Replaces the contents of a worksheet.
    pub fn set(&self, id: u32, wanted: SaveWorksheet) -> Result<Worksheet, Refused> {
        self.change(|kept| {
            let found = kept.worksheets.iter_mut().find(|w| w.id == id).ok_or(Refused::Missing(id))?;
            let SaveWorksheet { title, comment, graphs, span } = wanted;
            *found = Worksheet { title, comment, graphs, span, changed: now(), ..found.clone() };
            Ok(found.clone())
        })
    }

    /// Removes a worksheet. Its statistics continue to be recorded.
    pub fn remove(&self, id: u32) -> Result<(), Refused> {
        self.change(|kept| {
            let before = kept.worksheets.len();
            kept.worksheets.retain(|w| w.id != id);
            if kept.worksheets.len() == before { Err(Refused::Missing(id)) } else { Ok(()) }
        })
    }

    fn change<T>(&self, change: impl FnOnce(&mut Stored) -> Result<T, Refused>) -> Result<T, Refused> {
        let mut kept = self.kept.lock();
        let mut changed = kept.clone();
        let result = change(&mut changed)?;
        self.write(&changed)?;
        *kept = changed;
        Ok(result)
    }

    fn write(&self, kept: &Stored) -> std::io::Result<()> {
        crate::secret_file::replace(&self.path, kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(title: &str) -> SaveWorksheet {
        let view = serde_json::json!({"palette": "cividis", "nested": {"a": [1, 2]}}).as_object().cloned();
        let graphs = vec![WorksheetGraph { name: "nfs3.ops[latency]".to_owned(), view: view.unwrap_or_default() }];
        let span = WorksheetSpan { seconds: Some(60), ..WorksheetSpan::default() };
        SaveWorksheet { title: title.to_owned(), comment: String::new(), graphs, span }
    }

    #[test]
    fn they_are_there_after_a_restart_and_numbers_are_not_given_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let sheets = Worksheets::open(folder.path()).expect("opened");
        let first = sheets.add(wanted("b"), "root".to_owned()).expect("kept");
        let second = sheets.add(wanted("a"), "eve".to_owned()).expect("kept");
        sheets.remove(second.id).expect("removed");
        let sheets = Worksheets::open(folder.path()).expect("opened again");
        assert_eq!(sheets.list(), std::slice::from_ref(&first));
        let third = sheets.add(wanted("a"), "eve".to_owned()).expect("kept");
        assert_eq!((third.id, sheets.list()[0].title.as_str()), (3, "a"));
        let changed = sheets.set(first.id, wanted("c")).expect("changed");
        assert_eq!((changed.owner.as_str(), changed.title.as_str(), changed.created), ("root", "c", first.created));
        assert!(matches!(sheets.set(second.id, wanted("d")), Err(Refused::Missing(2))));
        assert!(matches!(sheets.remove(9), Err(Refused::Missing(9))));
        std::fs::write(folder.path().join("analytics/worksheets.json"), "{\"last\": 7, \"work").expect("written");
        assert!(Worksheets::open(folder.path()).expect("opened, without them").list().is_empty());
        assert!(folder.path().join("analytics/worksheets.damaged").exists());
    }

    #[test]
    fn oversized_or_invalid_worksheets_are_refused_with_the_expected_values() {
        let refused = |change: &dyn Fn(&mut SaveWorksheet)| {
            let mut wanted = wanted("x");
            change(&mut wanted);
            statistics(&wanted).err().map(|e| e.to_string()).unwrap_or_default()
        };
        assert_eq!(refused(&|_| {}), "");
        assert_eq!(refused(&|w| w.title.clear()), "title is 0 bytes long, expected 1 to 200");
        assert!(refused(&|w| w.comment = "x".repeat(5000)).contains("comment is 5000 bytes long"));
        assert!(refused(&|w| w.graphs = vec![w.graphs[0].clone(); 65]).contains("65 graphs, expected at most 64"));
        assert!(refused(&|w| w.graphs[0].name = "nfs3.ops[colour]".to_owned()).starts_with("graphs[0].name is"));
        assert!(refused(&|w| w.graphs[0].name = "nfs3.ops[disk]".to_owned()).contains("has no 'disk'"));
        let large = |w: &mut SaveWorksheet| {
            w.graphs[0].view.insert("x".to_owned(), "y".repeat(5000).into());
        };
        assert!(refused(&large).starts_with("graphs[0].view is"));
        assert!(refused(&|w| w.span.from = Some(5)).starts_with("span is"));
        assert!(
            refused(&|w| w.span = WorksheetSpan { seconds: None, from: Some(9), to: Some(9) }).starts_with("span is")
        );
    }
}
