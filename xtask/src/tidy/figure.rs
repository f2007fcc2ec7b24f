//! What a check returns: places, and their number in each crate.

use std::fmt;

#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub path: String,
    /// 0: the whole file.
    pub line: u32,
    pub what: String,
}

/// What a check counted in one crate.
pub struct Figure {
    pub krate: String,
    pub value: usize,
    pub places: Vec<Place>,
}

impl Figure {
    pub fn of(krate: &str, places: Vec<Place>) -> Figure {
        Figure { krate: krate.to_string(), value: places.len(), places }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.line {
            0 => write!(f, "{} {}", self.path, self.what),
            line => write!(f, "{}:{line}: {}", self.path, self.what),
        }
    }
}
