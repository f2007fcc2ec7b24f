//! Access to file names in statistics: an administrator can hide them from viewers.
//!
//! Invariant: for callers without access, no answer depends on a file's name, so that names cannot
//! be found by guessing.

use analytics::catalogue;
use analytics::column::{Column, UNRECORDED};
use analytics::engine::Answer;
use analytics::name::{Field, Name, Wanted};
use api::{Alert, Counted, ExplainedValue, StatisticExplanation, Worksheet};

/// Text in place of a file name.
pub const HIDDEN: &str = "<hidden>";

/// Access of one caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sight {
    /// Whether file names are visible.
    pub files: bool,
}

impl Sight {
    /// Whether a statistic may be requested.
    pub fn may(self, name: &Name) -> bool {
        self.files || !name.predicates.iter().any(|p| p.field == Field::File)
    }

    /// A file name, or its replacement.
    pub fn file(self, name: String) -> String {
        if self.files || name.is_empty() { name } else { HIDDEN.to_owned() }
    }

    /// An answer in which all files are merged into one.
    pub fn answer(self, mut data: Answer) -> Answer {
        if !self.files && data.name.breakdown == Some(Field::File) {
            data.columns.values_mut().for_each(hide);
            data.words.retain(|key, _| *key >= UNRECORDED);
            data.words.insert(0, HIDDEN.into());
        }
        data
    }

    /// A statistic's name and title without file names; `None` if it needs no change.
    pub fn name(self, text: &str) -> Option<(String, String)> {
        let mut name: Name = text.parse().ok()?;
        let files = name.predicates.iter_mut().filter(|p| p.field == Field::File);
        let hidden = files.map(|p| p.wanted = Wanted::Is(HIDDEN.to_owned())).count();
        (hidden > 0 && !self.files).then(|| (name.to_string(), catalogue::title(&name)))
    }

    /// A recorded statistic without file names.
    pub fn counted(self, mut counted: Counted) -> Counted {
        if let Some(hidden) = self.name(&counted.name) {
            (counted.name, counted.title) = hidden;
        }
        counted
    }

    /// An alert without file names.
    pub fn alert(self, mut alert: Alert) -> Alert {
        if let Some((name, _)) = self.name(&alert.rule.statistic) {
            alert.rule.statistic = name;
        }
        alert
    }

    /// A worksheet without file names. The view of graphs by file may contain some and is removed.
    pub fn worksheet(self, mut sheet: Worksheet) -> Worksheet {
        for graph in sheet.graphs.iter_mut().filter(|_| !self.files) {
            let parsed: Option<Name> = graph.name.parse().ok();
            if parsed.is_none_or(|n| n.breakdown == Some(Field::File)) {
                graph.view.clear();
            }
            if let Some((name, _)) = self.name(&graph.name) {
                graph.name = name;
                graph.view.clear();
            }
        }
        sheet
    }

    /// An explanation without file names: it shows that files matter, but not which.
    pub fn explanation(self, mut found: StatisticExplanation) -> StatisticExplanation {
        let (inside, outside) = (found.inside, found.outside);
        for field in found.fields.iter_mut().filter(|f| !self.files && f.field == Field::File.name()) {
            (field.more, field.score) = (0, 0.0);
            field.values = vec![ExplainedValue { value: HIDDEN.to_owned(), inside, outside, score: 0.0 }];
        }
        found
    }
}

fn hide(column: &mut Column) {
    let (special, files): (Vec<_>, Vec<_>) = column.cells.iter().copied().partition(|(key, _)| *key == UNRECORDED);
    let sum: u64 = files.iter().map(|(_, n)| n).sum();
    column.cells = Some((0, sum)).filter(|(_, n)| *n > 0).into_iter().chain(special).collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_become_one_and_sums_stay() {
        let mut column =
            Column { total: 18, cells: vec![(0, 3), (7, 4), (UNRECORDED, 5), (u32::MAX, 6)], ..Column::default() };
        hide(&mut column);
        assert_eq!(column.cells, [(0, 13), (UNRECORDED, 5)]);
    }

    #[test]
    fn names_are_hidden_only_from_unauthorized_users() {
        let (all, none) = (Sight { files: true }, Sight { files: false });
        let name: Name = "nfs3.ops[file=tank/secret][latency]".parse().expect("a name");
        assert!(all.may(&name) && !none.may(&name));
        assert!(none.may(&"nfs3.ops[file]".parse().expect("a name")));
        assert_eq!(all.name(&name.to_string()), None);
        let (hidden, title) = none.name(&name.to_string()).expect("hidden");
        assert_eq!(hidden, "nfs3.ops[file=<hidden>][latency]");
        assert!(!title.contains("secret"), "{title}");
        assert_eq!(
            (all.file("a".to_owned()), none.file("a".to_owned()), none.file(String::new())),
            ("a".to_owned(), HIDDEN.to_owned(), String::new())
        );
    }
}
