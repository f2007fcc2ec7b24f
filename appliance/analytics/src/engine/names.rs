//! Resolves the numbers in events to names.

use observe::event::Events;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Resolves names that the engine does not know: files of datasets, users of the machine.
pub trait Resolver: Send + Sync {
    /// The path of a file in its dataset, starting with `/`.
    fn file(&self, dataset: &str, object: u64) -> Option<String>;
    /// The name of a user.
    fn user(&self, id: u32) -> Option<String>;
}

/// Resolves nothing: files and users are shown by their numbers.
impl Resolver for () {
    fn file(&self, _: &str, _: u64) -> Option<String> {
        None
    }
    fn user(&self, _: u32) -> Option<String> {
        None
    }
}

/// Number of cached file names, which avoids resolving them every second.
const FILES: usize = 65_536;

type File = (u32, u64);

/// Names, with a cache for those that are slow to resolve.
pub struct Words {
    events: Arc<Events>,
    resolver: Arc<dyn Resolver>,
    files: Mutex<FxHashMap<File, String>>,
}

impl Words {
    pub fn new(events: Arc<Events>, resolver: Arc<dyn Resolver>) -> Self {
        Self { events, resolver, files: Mutex::default() }
    }

    pub fn client(&self, number: u32) -> String {
        self.events.clients.name(number).map_or_else(String::new, |name| name.to_string())
    }

    pub fn user(&self, number: u32) -> String {
        self.resolver.user(number).unwrap_or_else(|| number.to_string())
    }

    pub fn place(&self, number: u32) -> String {
        self.events.places.name(number).map_or_else(String::new, |name| name.to_string())
    }

    /// `DATASET/PATH`, so that the files of several datasets form one hierarchy.
    pub fn file(&self, place: u32, object: u64) -> String {
        if object == 0 {
            // In file handles the root of a file system has no number; without a dataset, the name
            // is unknown.
            return self.events.places.name(place).map_or_else(String::new, |dataset| format!("{dataset}/"));
        }
        if let Some(name) = self.files.lock().get(&(place, object)) {
            return name.clone();
        }
        let Some(dataset) = self.events.places.name(place) else { return String::new() };
        let Some(path) = self.resolver.file(&dataset, object) else {
            // Not cached: it may have a name soon. A deleted file keeps its cached name.
            return format!("{dataset}:<object {object}>");
        };
        let name = format!("{dataset}{path}");
        let mut files = self.files.lock();
        if files.len() >= FILES {
            files.clear();
        }
        files.insert((place, object), name.clone());
        name
    }
}
