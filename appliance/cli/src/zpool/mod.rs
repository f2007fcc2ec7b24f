//! `weir zpool`: the verbs of zpool(8), one file each. The output matches OpenZFS to the letter.

pub mod add;
pub mod attach;
pub mod checkpoint;
pub mod clear;
pub mod create;
mod dedup;
pub mod destroy;
pub mod events;
pub mod export;
pub mod get;
pub mod history;
pub mod import;
mod info_json;
pub mod iostat;
mod iostat_counts;
pub mod list;
pub mod plan;
pub mod pools;
mod prefetch;
pub mod remove;
#[cfg(test)]
mod samples;
mod script_columns;
pub mod scrub;
pub mod set;
pub mod split;
pub mod states;
pub mod status;
mod status_json;
mod status_options;
pub mod sweep;
pub mod values;
mod vdev_properties;
mod vdev_words;
pub mod wait;
pub mod writing;

use crate::verb::{Verb, not_yet};
use crate::version;

/// All verbs of `weir zpool`, in the order of the help.
pub static VERBS: &[&Verb] = &[
    &version::ZPOOL,
    &create::VERB,
    &add::VERB,
    &import::VERB,
    &export::VERB,
    &destroy::DESTROY,
    &set::SET,
    &clear::VERB,
    &attach::ATTACH,
    &attach::REPLACE,
    &attach::DETACH,
    &remove::VERB,
    &states::OFFLINE,
    &states::ONLINE,
    &states::REOPEN,
    &set::UPGRADE,
    &destroy::SYNC,
    &destroy::FREEZE,
    &destroy::REGUID,
    &destroy::LABELCLEAR,
    &list::VERB,
    &iostat::VERB,
    &status::VERB,
    &get::VERB,
    &wait::VERB,
    &history::VERB,
    &plan::VERB,
    &events::VERB,
    &checkpoint::VERB,
    &prefetch::VERB,
    &split::VERB,
    &sweep::INITIALIZE,
    &scrub::RESILVER,
    &scrub::SCRUB,
    &sweep::TRIM,
    &not_yet("ddtprune", "Remove old entries from the dedup table"),
];
