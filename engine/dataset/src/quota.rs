//! Space and objects by user, group and project.

use crate::Result;
use crate::dataset::Dataset;
use crate::property::{PropertyValue, View};

/// placeholder
pub(crate) fn property(_d: &Dataset, _name: &str, _view: &View<'_>) -> Result<Option<PropertyValue>> {
    Ok(None)
}
