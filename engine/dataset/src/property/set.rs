//! The properties set in one place: the ZAP of a directory or snapshot, split by suffix.
//!
//! | entry          | meaning                                                                   |
//! |----------------|---------------------------------------------------------------------------|
//! | `NAME`         | set locally                                                               |
//! | `NAME$recvd`   | received with a stream; effective unless set locally or `$inherit`ed      |
//! | `NAME$inherit` | the received value is overridden: inherit                                 |
//! | `NAME$iuv`     | a word that versions older than the writer would not know                 |
//! | `$hasrecvd`    | a stream with properties was received                                     |
//!
//! Source: module/zfs/dsl_prop.c.

use super::value::Value;
use crate::zap::open_zap;
use errors::Result;
use object::ObjectSet;
use ondisk::zap::Value as ZapValue;
use std::collections::HashMap;
use std::sync::Arc;

/// The properties set in one place.
#[derive(Debug, Default)]
pub struct PropertySet {
    local: HashMap<String, Value>,
    received: HashMap<String, Value>,
    explicitly_inherited: std::collections::HashSet<String>,
    /// Names without suffix, without duplicates, in ZAP order.
    order: Vec<String>,
    has_received: bool,
}

/// An effective value, by who set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetBy<'a> {
    Local(&'a Value),
    /// Received with a stream.
    Received(&'a Value),
}

impl PropertySet {
    /// Reads the ZAP in object `id`; 0 is an empty set.
    pub fn load(mos: &Arc<ObjectSet>, id: u64) -> Result<Self> {
        let mut set = Self::default();
        if id == 0 {
            return Ok(set);
        }
        let mut iuv = Vec::new();
        for step in open_zap(mos, id)?.cursor(0) {
            let (entry, _) = step?;
            let full = String::from_utf8_lossy(&entry.name).into_owned();
            let value = value_of(&entry.value);
            let (name, suffix) = match full.find('$') {
                Some(at) => (&full[..at], &full[at..]),
                None => (full.as_str(), ""),
            };
            match suffix {
                "" => drop(set.local.insert(name.to_owned(), value)),
                "$recvd" => drop(set.received.insert(name.to_owned(), value)),
                "$inherit" => drop(set.explicitly_inherited.insert(name.to_owned())),
                "$iuv" => iuv.push((name.to_owned(), value)),
                "$hasrecvd" => set.has_received = true,
                _ => continue,
            }
            if !name.is_empty() && !set.order.iter().any(|n| n == name) {
                set.order.push(name.to_owned());
            }
        }
        for (name, value) in iuv {
            // Use the word if this version knows it; otherwise the value without suffix stays in
            // effect.
            let known = match (super::find(&name), &value) {
                (Some(def), Value::Number(n)) => def.word(*n).is_some(),
                _ => false,
            };
            if known {
                set.local.insert(name, value);
            }
        }
        Ok(set)
    }

    /// The value that is effective here for `name`, if any.
    pub fn get(&self, name: &str) -> Option<SetBy<'_>> {
        match self.local.get(name) {
            Some(value) => Some(SetBy::Local(value)),
            None if self.explicitly_inherited.contains(name) => None,
            None => self.received.get(name).map(SetBy::Received),
        }
    }

    /// The received value, effective or not.
    pub fn received(&self, name: &str) -> Option<&Value> {
        self.received.get(name)
    }

    /// Whether a stream with properties was ever received.
    pub fn has_received(&self) -> bool {
        self.has_received
    }

    /// Names in this set, in ZAP order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.order.iter().map(String::as_str)
    }
}

fn value_of(value: &ZapValue) -> Value {
    if value.int_bytes == 1 {
        let bytes: Vec<u8> = value.ints.iter().map(|b| *b as u8).take_while(|b| *b != 0).collect();
        Value::Text(String::from_utf8_lossy(&bytes).into_owned())
    } else {
        Value::Number(value.ints.first().copied().unwrap_or(0))
    }
}
