//! The value that is set for a property: on the dataset, or on the nearest ancestor that has one.

use super::def::PropertyDef;
use super::find;
use super::set::SetBy;
use super::value::{Source, Value};
use crate::dataset::Dataset;
use errors::Result;

/// A value that is set, and where.
pub(super) struct Set {
    pub value: Value,
    pub source: Source,
}

/// The value set for `name`, on the dataset or an ancestor.
pub(super) fn set_value(d: &Dataset, name: &str, inheritable: bool) -> Result<Option<Set>> {
    let take = |by: SetBy<'_>, local: Source| match by {
        SetBy::Local(value) => Set { value: value.clone(), source: local },
        SetBy::Received(value) => {
            Set { value: value.clone(), source: if local == Source::Local { Source::Received } else { local } }
        }
    };
    let mos = d.mos();
    if let Some(by) = d.own_props()?.get(name) {
        return Ok(Some(take(by, Source::Local)));
    }
    let mut at = Some(d.dir());
    let mut own = !d.is_snapshot();
    while let Some(dir) = at {
        if !own && !inheritable {
            break;
        }
        if let Some(by) = dir.props(mos)?.get(name) {
            let source = if own { Source::Local } else { Source::Inherited(dir.name().to_owned()) };
            return Ok(Some(take(by, source)));
        }
        own = false;
        at = dir.parent();
    }
    Ok(None)
}

/// The number set for a property, ignoring computed values.
pub(crate) fn number(d: &Dataset, name: &str) -> Result<Option<u64>> {
    let inheritable = find(name).is_none_or(PropertyDef::inheritable);
    Ok(set_value(d, name, inheritable)?.and_then(|set| match set.value {
        Value::Number(n) => Some(n),
        Value::Text(_) => None,
    }))
}
