//! Outcomes of `zfs send` and `zfs receive`: the last success of each dataset, and a failure after
//! it. They survive a restart in `streams.json` of the state directory.

use super::inputs::StreamRecord;
use api::JobKind;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Limit for datasets. Above it, those without a success for the longest time are dropped.
const DATASETS: usize = 2000;

/// The outcomes.
pub struct Streams {
    path: PathBuf,
    kept: Mutex<BTreeMap<String, StreamRecord>>,
}

impl Streams {
    /// Reads the outcomes of earlier processes. A damaged file is ignored: it only informs.
    pub fn open(state: &Path) -> Self {
        let path = state.join("streams.json");
        let kept = fs::read(&path).ok().and_then(|text| {
            let read = serde_json::from_slice(&text);
            read.map_err(|error| tracing::warn!(file = %path.display(), %error, "ignored")).ok()
        });
        Self { path, kept: Mutex::new(kept.unwrap_or_default()) }
    }

    /// Records how a stream of a dataset or snapshot ended, at `now` in seconds since 1970.
    pub fn record(&self, kind: JobKind, target: &str, outcome: Result<(), String>, now: u64) {
        let dataset = target.split(['@', '#']).next().unwrap_or(target);
        let mut kept = self.kept.lock();
        let key = format!("{dataset}\0{kind:?}");
        let new = || StreamRecord { kind, dataset: dataset.to_owned(), last_success: None, failure: None };
        let record = kept.entry(key).or_insert_with(new);
        match outcome {
            Ok(()) => (record.last_success, record.failure) = (Some(now), None),
            Err(why) => record.failure = Some((now, first_line(&why))),
        }
        if kept.len() > DATASETS {
            let age = |record: &StreamRecord| record.last_success.max(record.failure.as_ref().map(|(time, _)| *time));
            let oldest = kept.iter().min_by_key(|(_, record)| age(record)).map(|(key, _)| key.clone());
            oldest.and_then(|key| kept.remove(&key));
        }
        if let Err(error) = crate::secret_file::replace(&self.path, &*kept) {
            tracing::warn!(file = %self.path.display(), %error, "the outcome of a stream is lost at a restart");
        }
    }

    pub fn list(&self) -> Vec<StreamRecord> {
        self.kept.lock().values().cloned().collect()
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim_end_matches('.').chars().take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_success_and_a_later_failure_survive_a_restart() {
        let folder = tempfile::tempdir().expect("a folder");
        let streams = Streams::open(folder.path());
        streams.record(JobKind::Send, "tank/a@s", Ok(()), 10);
        streams.record(JobKind::Send, "tank/a@t", Err("broken pipe.\nmore".to_owned()), 20);
        streams.record(JobKind::Receive, "tank/a", Err("no space".to_owned()), 30);
        let list = Streams::open(folder.path()).list();
        let [receive, send] = list.as_slice() else { panic!("{list:?}") };
        assert_eq!((send.last_success, send.failure.clone()), (Some(10), Some((20, "broken pipe".to_owned()))));
        assert_eq!((receive.kind, receive.last_success), (JobKind::Receive, None));
        streams.record(JobKind::Send, "tank/a@u", Ok(()), 40);
        assert_eq!(Streams::open(folder.path()).list()[1].failure, None);
        fs::write(folder.path().join("streams.json"), "[").expect("written");
        assert_eq!(Streams::open(folder.path()).list(), []);
    }
}
