//! `zfs.list.*`. A list is as the datasets were when its loop began: a loop may destroy what it
//! meets.

use super::library::{Library, Returned};
use super::properties::{applies, set_point};
use dataset::property::{CATALOGUE, user_properties};
use dataset::{Dataset, Entry};
use errors::{Error, Result};
use lua::{Complaint, Datum};

/// The lists, in the order of their numbers.
#[derive(Clone, Copy)]
enum List {
    Children,
    Snapshots,
    UserProperties,
    Clones,
    SystemProperties,
    Bookmarks,
    Holds,
}

const LISTS: [List; 8] = [
    List::Children,
    List::Snapshots,
    List::UserProperties,
    // `properties`: the older name.
    List::UserProperties,
    List::Clones,
    List::SystemProperties,
    List::Bookmarks,
    List::Holds,
];

impl Library<'_> {
    pub(super) fn list(&self, at: usize, name: &str) -> Returned {
        let list = *LISTS.get(at).ok_or_else(|| Complaint::Error("no such function".to_owned()))?;
        let dataset = self.hold(name)?;
        let wrong = match (list, dataset.is_snapshot()) {
            (List::Children | List::Snapshots, true) => Some(format!("argument {name} cannot be a snapshot")),
            (List::Bookmarks, true) => Some(format!("{name} is a snapshot")),
            (List::Clones | List::Holds, false) => Some(format!("{name} is not a snapshot")),
            _ => None,
        };
        if let Some(wrong) = wrong {
            return Err(Complaint::Argument(1, wrong));
        }
        let rows = rows(list, &dataset).map_err(|error| self.broken(name, &error))?;
        Ok(vec![match list {
            List::SystemProperties => Datum::array(rows.into_iter().flatten()),
            _ => Datum::Rows(rows),
        }])
    }

    fn broken(&self, name: &str, error: &Error) -> Complaint {
        self.cannot_hold(name, error)
    }
}

fn names<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<Vec<Datum>> {
    names.into_iter().map(|name| vec![Datum::text(name)]).collect()
}

fn rows(list: List, dataset: &Dataset) -> Result<Vec<Vec<Datum>>> {
    Ok(match list {
        List::Children => {
            let children = dataset.tree().children(dataset.dir())?;
            names(children.iter().map(|dir| dir.name()))
        }
        List::Snapshots => names(dataset.snapshots()?.iter().map(Dataset::name)),
        List::Clones => names(dataset.clones()?.iter().map(Dataset::name)),
        List::Bookmarks => names(dataset.bookmarks()?.iter().map(|mark| mark.name())),
        List::Holds => {
            let holds = dataset.holds()?.into_iter();
            holds.map(|hold| vec![Datum::text(hold.tag), Datum::Number(hold.time as i64)]).collect()
        }
        List::UserProperties => {
            let found = user_properties(&Entry::Dataset(dataset.clone()))?.into_iter();
            let row = |property: dataset::Property| {
                let source = set_point(&property.source, dataset.name());
                vec![Datum::text(property.name), Datum::text(property.value.raw), source]
            };
            found.map(row).collect()
        }
        List::SystemProperties => {
            let mut valid = Vec::new();
            for def in CATALOGUE.iter().filter(|def| def.listed()) {
                if applies(dataset, def)? {
                    valid.push(def.name);
                }
            }
            names(valid)
        }
    })
}
