//! Limits how many of something exist at once: in total and per caller, so that no caller uses up
//! the share of the others.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Slots for callers with keys of type `K`.
pub struct Places<K: Ord + Clone> {
    most: usize,
    of_one: usize,
    taken: Mutex<Taken<K>>,
}

struct Taken<K> {
    all: usize,
    by: BTreeMap<K, usize>,
}

/// A slot in use.
pub struct Place<K: Ord + Clone> {
    places: Arc<Places<K>>,
    by: K,
}

/// Why there is no free slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// The total limit is reached; its value.
    All(usize),
    /// The limit of this caller is reached; its value.
    One(usize),
}

impl<K: Ord + Clone> Places<K> {
    /// Creates slots with a total limit and a limit per caller.
    pub fn new(most: usize, of_one: usize) -> Arc<Self> {
        Arc::new(Self { most, of_one, taken: Mutex::new(Taken { all: 0, by: BTreeMap::new() }) })
    }

    /// Takes a slot, if there is a free one.
    pub fn take(self: &Arc<Self>, by: K) -> Result<Place<K>, Full> {
        let mut taken = self.taken.lock();
        if taken.by.get(&by).is_some_and(|n| *n >= self.of_one) {
            return Err(Full::One(self.of_one));
        }
        if taken.all >= self.most {
            return Err(Full::All(self.most));
        }
        taken.all += 1;
        *taken.by.entry(by.clone()).or_default() += 1;
        Ok(Place { places: self.clone(), by })
    }
}

impl<K: Ord + Clone> Drop for Place<K> {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock();
        taken.all -= 1;
        if let Some(count) = taken.by.get_mut(&self.by) {
            *count -= 1;
            if *count == 0 {
                taken.by.remove(&self.by);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_caller_takes_the_places_of_the_others() {
        let places = Places::new(5, 3);
        let mut of_a: Vec<_> = (0..3).map(|_| places.take("a").expect("free")).collect();
        assert_eq!(places.take("a").err(), Some(Full::One(3)));
        let of_b: Vec<_> = (0..2).map(|_| places.take("b").expect("free")).collect();
        assert_eq!(places.take("b").err(), Some(Full::All(5)));
        of_a.pop();
        assert!(places.take("b").is_ok());
        drop((of_a, of_b));
        assert!(places.taken.lock().by.is_empty() && places.taken.lock().all == 0);
    }
}
