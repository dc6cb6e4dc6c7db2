//! Aggregates of many values.

/// Of the values of one position, in their order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The number of values.
    pub count: u64,
    /// The value of the first entry.
    pub first: f64,
    /// The value of the last entry.
    pub last: f64,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
    /// All of them added.
    pub sum: f64,
}

impl Summary {
    /// The summary of a single value.
    pub fn of(value: f64) -> Self {
        Self { count: 1, first: value, last: value, min: value, max: value, sum: value }
    }

    /// Adds a value after the others.
    pub fn add(&mut self, value: f64) {
        self.count += 1;
        self.last = value;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.sum += value;
    }

    /// Adds the values of `later`, after the others.
    pub fn merge(&mut self, later: &Self) {
        self.count += later.count;
        self.last = later.last;
        self.min = self.min.min(later.min);
        self.max = self.max.max(later.max);
        self.sum += later.sum;
    }
}
