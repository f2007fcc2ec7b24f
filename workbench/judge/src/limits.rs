//! Searches for the highest rate at which latency stays within a limit.

/// A search: doubles the rate until it is too high, then bisects.
#[derive(Debug, Clone, PartialEq)]
pub struct Search {
    good: f64,
    bad: Option<f64>,
    first: f64,
    exact: f64,
}

impl Search {
    /// Starts at rate `first`; ends when the highest good rate is known to the fraction `exact`
    /// (0.03: to 3 %).
    pub fn new(first: f64, exact: f64) -> Self {
        Self { good: 0.0, bad: None, first, exact }
    }

    /// The next rate to try. `None`: the search is finished, or not even a thousandth of the first
    /// rate is good.
    pub fn next_rate(&self) -> Option<f64> {
        match self.bad {
            None if self.good == 0.0 => Some(self.first),
            None => Some(self.good * 2.0),
            Some(bad) if bad - self.good <= bad * self.exact || bad < self.first / 1000.0 => None,
            Some(bad) => Some((self.good + bad) / 2.0),
        }
    }

    /// Records the outcome of a rate.
    pub fn record(&mut self, rate: f64, is_good: bool) {
        if is_good {
            self.good = self.good.max(rate);
        } else {
            self.bad = Some(self.bad.map_or(rate, |bad| bad.min(rate)));
        }
    }

    /// The highest good rate; 0 if there is none.
    pub fn found(&self) -> f64 {
        self.good
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_rate_is_found_to_three_percent_in_few_runs() {
        for limit in [7.0, 950.0, 12_345.0] {
            let (mut search, mut runs) = (Search::new(100.0, 0.03), 0);
            while let Some(rate) = search.next_rate() {
                search.record(rate, rate <= limit);
                runs += 1;
                assert!(runs < 30, "{limit}");
            }
            assert!(search.found() <= limit && search.found() > limit * 0.95, "{limit}: {}", search.found());
        }
        let mut none = Search::new(100.0, 0.03);
        while let Some(rate) = none.next_rate() {
            none.record(rate, false);
        }
        assert_eq!(none.found(), 0.0);
    }
}
