//! The dataset tree of a pool: its directories, then the datasets in them (`dataset`), then lists.

mod datasets;
mod list;

pub use datasets::Datasets;
pub(crate) use datasets::{CHAIN_MAX, DatasetState};
pub use list::{Entry, ListOptions, Listing};
