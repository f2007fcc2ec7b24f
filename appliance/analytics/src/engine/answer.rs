//! Answers queries from memory, the archive and the recorder.

use super::error::Error;
use super::state::{CELLS, Describer, Inner, SECOND};
use crate::archive::Tier;
use crate::catalogue::{self, Shown};
use crate::column::Column;
use crate::fold::{Rows, Scale};
use crate::name::Name;
use crate::scheme::Scheme;
use crate::tally::Tally;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of columns in an answer.
const COLUMNS: u64 = 20_000;

/// Columns by start, in seconds since 1970; missing ones were not recorded.
pub type Columns = BTreeMap<u64, Column>;

/// The answer to a query.
#[derive(Debug, Clone)]
pub struct Answer {
    pub name: Name,
    /// Title derived from the name.
    pub title: String,
    pub unit: &'static str,
    pub shown: Shown,
    /// The scheme of the heat map, if it is one.
    pub scheme: Option<Scheme>,
    /// The rows that the keys of cells refer to, if classes were merged into rows.
    pub rows: Option<Rows>,
    /// Length of a column in seconds.
    pub step: u64,
    /// All seconds before this one (since 1970) are closed.
    pub closed: u64,
    /// Columns of `step` seconds in the requested span.
    pub columns: Columns,
    /// The words that the keys of cells refer to, unless they are classes.
    pub words: BTreeMap<u32, Arc<str>>,
}

impl Answer {
    /// Merges the classes of a heat map into at most `count` rows, as described at [`Rows::new`].
    /// No effect on other statistics.
    pub fn fold(&mut self, count: u32, scale: Scale, top: Option<u64>) {
        let Some(scheme) = self.scheme else { return };
        let classes = || self.columns.values().flat_map(|c| c.cells.iter().map(|(class, _)| *class));
        let used = classes().min().zip(classes().max()).unwrap_or((0, 0));
        let rows = Rows::new(scheme, count, scale, top, used);
        self.columns.values_mut().for_each(|column| rows.fold(column));
        self.rows = Some(rows);
    }
}

pub fn query(inner: &Inner, name: &Name, from: u64, to: u64, step: u64) -> Result<Answer, Error> {
    catalogue::find(name)?;
    let step = step.max(1);
    let from = from - from % step;
    let count = to.saturating_sub(from).div_ceil(step);
    if count > COLUMNS {
        return Err(Error::TooMany(count, COLUMNS));
    }
    // The open second is omitted, since it is incomplete.
    let to = to.min(inner.state.lock().second / SECOND);
    let scheme = name.breakdown.and_then(|f| f.scheme());
    let mut columns = Columns::new();
    let mut add = |start: u64, column: &Column| columns.entry(start - start % step).or_default().merge(column);
    // Columns in memory or waiting to be archived: complete seconds from `fresh` on.
    let mut fresh = to;
    let mut archived = None;
    {
        let state = inner.state.lock();
        if let Some(live) = state.live.iter().find(|l| l.name == *name) {
            archived = live.archived.then_some(live.definition.id);
            fresh = live.window.front().map_or(to, |(second, _)| *second).min(to);
            let wanted = live.window.iter().filter(|(second, _)| from <= *second && *second < to);
            wanted.for_each(|(second, column)| add(*second, column));
        }
    }
    // The oldest second answered so far.
    let mut known = fresh.max(from);
    if let Some(id) = archived.filter(|_| from < fresh) {
        let tier = Tier::ALL.into_iter().rfind(|t| step.is_multiple_of(t.span())).unwrap_or(Tier::Second);
        let oldest_seconds = (inner.state.lock().second / SECOND).saturating_sub(inner.retention.second);
        if tier != Tier::Second {
            // Whole minutes or hours before the columns in memory, then the seconds in between.
            let whole = fresh - fresh % tier.span();
            for (start, column) in inner.archive.read(id, tier, scheme, from, whole)? {
                add(start, &column);
                known = known.min(start);
            }
            // The open hour, and minutes missing from the tier, are available as seconds.
            for (start, column) in inner.archive.read(id, Tier::Second, scheme, whole.max(from), fresh)? {
                add(start, &column);
                known = known.min(start);
            }
        } else {
            for (start, column) in inner.archive.read(id, tier, scheme, from, fresh)? {
                add(start, &column);
                known = known.min(start);
            }
            if from < oldest_seconds {
                for (start, column) in inner.archive.read(id, Tier::Minute, scheme, from, oldest_seconds.min(known))? {
                    add(start, &column);
                    known = known.min(start);
                }
            }
        }
    }
    if from < known {
        for (second, column) in recorded(inner, name, from, known)? {
            add(second, &column);
        }
    }
    answer(inner, name, step, columns)
}

/// Builds an answer from columns, with words and title.
pub fn answer(inner: &Inner, name: &Name, step: u64, mut columns: Columns) -> Result<Answer, Error> {
    let statistic = catalogue::find(name)?;
    let scheme = name.breakdown.and_then(|f| f.scheme());
    let mut words = BTreeMap::new();
    if scheme.is_none() {
        for column in columns.values_mut() {
            column.keep(CELLS);
            for (word, _) in &column.cells {
                words.entry(*word).or_insert_with(|| inner.archive.text(*word));
            }
        }
    }
    let title = catalogue::title(name);
    let closed = inner.state.lock().second / SECOND;
    let (unit, shown) = (statistic.unit, statistic.shown);
    Ok(Answer { name: name.clone(), title, unit, shown, scheme, rows: None, step, closed, columns, words })
}

/// Counts the events in the recorder, second by second.
pub fn recorded(inner: &Inner, name: &Name, from: u64, to: u64) -> Result<Columns, Error> {
    let (Some(ring), Some(mut tally)) = (&inner.ring, Tally::new(name)?) else { return Ok(Columns::new()) };
    let extent = ring.extent();
    // Partially recorded seconds are omitted.
    let (first, last) = (extent.first.div_ceil(SECOND), extent.last / SECOND + 1);
    let (from, to) = (from.max(first), to.min(last));
    if extent.events == 0 || from >= to {
        return Ok(Columns::new());
    }
    let names = Describer(inner);
    // Events are approximately sorted by completion: a second is closed when an event well after it
    // arrives.
    const OPEN: u64 = 3;
    let mut waiting: BTreeMap<u64, Vec<observe::Event>> = BTreeMap::new();
    let mut out: Columns = (from..to).map(|second| (second, Column { seconds: 1, ..Column::default() })).collect();
    let mut close = |second: u64, events: Vec<observe::Event>| {
        events.iter().for_each(|e| tally.add(e, &names));
        let column = tally.close(&names);
        if let Some(old) = out.get_mut(&second) {
            let seconds = old.seconds;
            old.merge(&column);
            old.seconds = seconds;
        }
    };
    ring.read(from * SECOND, to * SECOND, |event| {
        let second = event.done / SECOND;
        waiting.entry(second).or_default().push(*event);
        while waiting.first_key_value().is_some_and(|(first, _)| first + OPEN < second) {
            if let Some((second, events)) = waiting.pop_first() {
                close(second, events);
            }
        }
    })?;
    waiting.into_iter().for_each(|(second, events)| close(second, events));
    Ok(out)
}
