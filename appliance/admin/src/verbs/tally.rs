//! What a verb on several objects reports: it continues after the first that is refused.

use super::refusal::{Kind, Refusal};
use crate::mounts::MountReport;

/// Messages in their order, and whether any of them is a failure.
#[derive(Default)]
pub struct Tally {
    lines: Vec<String>,
    /// Kind and exit code of the first refusal.
    refused: Option<(Kind, u8)>,
    /// A file system is not mounted that must be.
    unmounted: bool,
}

impl Tally {
    /// Adds the refusal of one object.
    pub fn refuse(&mut self, refusal: Refusal) {
        self.refused.get_or_insert((refusal.kind, refusal.code));
        self.lines.push(refusal.message);
    }

    /// Whether anything was refused.
    pub fn is_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// Adds a line that is no refusal.
    pub fn note(&mut self, line: String) {
        self.lines.push(line);
    }

    /// Adds what mounting reports.
    pub fn report(&mut self, report: MountReport) {
        self.lines.extend(report.lines);
        self.unmounted |= report.failed;
    }

    /// Ends the verb with this refusal, preceded by all earlier messages.
    pub fn abort(self, refusal: Refusal) -> Refusal {
        let code = refusal.code;
        let kind = self.refused.map_or(refusal.kind, |(kind, _)| kind);
        Refusal { kind, code, ..refusal.after(self.lines) }
    }

    /// The outcome of the verb.
    pub fn finish(self) -> Result<MountReport, Refusal> {
        match self.refused {
            Some((kind, code)) => Err(Refusal { kind, message: self.lines.join("\n"), code }),
            None => Ok(MountReport { lines: self.lines, failed: self.unmounted }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_keep_their_order_and_the_first_refusal_gives_the_kind() {
        let mut tally = Tally::default();
        tally.report(MountReport { lines: vec!["a".to_owned()], failed: true });
        tally.refuse(Refusal::new(Kind::NotFound, "b").with_code(255));
        tally.refuse(Refusal::new(Kind::Conflict, "c"));
        let all = tally.finish().expect_err("refused");
        assert_eq!(all, Refusal { kind: Kind::NotFound, message: "a\nb\nc".to_owned(), code: 255 });
        let mut tally = Tally::default();
        tally.report(MountReport { lines: vec!["a".to_owned()], failed: true });
        assert_eq!(tally.finish(), Ok(MountReport { lines: vec!["a".to_owned()], failed: true }));
    }
}
