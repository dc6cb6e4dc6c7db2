//! Aggregates of many values.

/// Of the values of one position, in their order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// How many.
    pub count: u64,
    /// The first.
    pub first: f64,
    /// The last.
    pub last: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// All of them added.
    pub sum: f64,
}

impl Summary {
    /// Of one value.
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
