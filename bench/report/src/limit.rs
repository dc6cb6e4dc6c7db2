//! Target figures, as data, and whether they were reached.

use crate::{
    number::readable,
    results::{Cell, Row},
};

/// The bound with which our column is compared.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    /// At least this much.
    AtLeast(f64),
    /// At most this much.
    AtMost(f64),
    /// At least this many times the highest of the columns named.
    AtLeastTimes(f64, &'static [&'static str]),
    /// At most this many times the lowest of the columns named.
    AtMostTimes(f64, &'static [&'static str]),
}

/// One target figure.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// The work, as in [`Row::work`].
    pub work: &'static str,
    /// The figure, as in [`Row::figure`].
    pub figure: &'static str,
    /// The mode it applies to (`disk`, `tmpfs`); `None` for all.
    pub mode: Option<&'static str>,
    /// The target.
    pub bound: Bound,
}

/// The verdict on a limit.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Reached, with the value that was compared.
    Reached(f64),
    /// Missed, with the value that was compared.
    Missed(f64),
    /// Something that it needs was not measured in this run.
    Unknown,
}

impl Verdict {
    /// The word for the table and for the JSON file.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Reached(_) => "reached",
            Self::Missed(_) => "MISSED",
            Self::Unknown => "not compared",
        }
    }
}

impl Limit {
    pub(crate) fn concerns(&self, row: &Row, mode: &str) -> bool {
        self.work == row.work
            && self.figure == row.figure
            && self.mode.is_none_or(|wanted| wanted == mode)
    }

    /// Compares the first column with the bound.
    pub(crate) fn verdict(&self, columns: &[String], row: &Row) -> Verdict {
        let Some(ours) = row.cells.first().and_then(Cell::median) else { return Verdict::Unknown };
        let of = |names| columns_measured(columns, row, names);
        match self.bound {
            Bound::AtLeast(least) => judge(ours, ours >= least),
            Bound::AtMost(most) => judge(ours, ours <= most),
            Bound::AtLeastTimes(times, names) => match of(names) {
                Some(values) => {
                    let ratio = ours / values.into_iter().fold(f64::MIN, f64::max);
                    judge(ratio, ratio >= times)
                }
                None => Verdict::Unknown,
            },
            Bound::AtMostTimes(times, names) => match of(names) {
                Some(values) => {
                    let ratio = ours / values.into_iter().fold(f64::MAX, f64::min);
                    judge(ratio, ratio <= times)
                }
                None => Verdict::Unknown,
            },
        }
    }

    /// `≥ 5 × ravendb`.
    pub(crate) fn wanted(&self) -> String {
        match self.bound {
            Bound::AtLeast(least) => format!("≥ {}", readable(least)),
            Bound::AtMost(most) => format!("≤ {}", readable(most)),
            Bound::AtLeastTimes(times, names) => format!("≥ {times:.2} × {}", names.join(", ")),
            Bound::AtMostTimes(times, names) => format!("≤ {times:.2} × {}", names.join(", ")),
        }
    }

    /// The line for the table: target, actual figure and verdict.
    pub(crate) fn describe(&self, verdict: &Verdict) -> String {
        let times = match self.bound {
            Bound::AtLeast(_) | Bound::AtMost(_) => "",
            Bound::AtLeastTimes(..) | Bound::AtMostTimes(..) => " ×",
        };
        match verdict {
            Verdict::Reached(value) | Verdict::Missed(value) => {
                let value = readable(*value);
                format!("{}: {value}{times}, {}", self.wanted(), verdict.word())
            }
            Verdict::Unknown => format!("{}: {}", self.wanted(), verdict.word()),
        }
    }
}

fn judge(value: f64, reached: bool) -> Verdict {
    if reached { Verdict::Reached(value) } else { Verdict::Missed(value) }
}

/// The values of all the columns named, `None` when one of them was not measured.
fn columns_measured(columns: &[String], row: &Row, names: &[&str]) -> Option<Vec<f64>> {
    names
        .iter()
        .map(|name| {
            let index = columns.iter().position(|column| column == name)?;
            row.cells.get(index)?.median()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Better;

    fn verdict(bound: Bound, cells: [Option<f64>; 3]) -> Verdict {
        let columns = ["ours", "a", "b"].map(String::from);
        let cells = cells.map(|value| match value {
            Some(value) => Cell::Rounds(vec![value]),
            None => Cell::Absent("not installed".to_owned()),
        });
        let (work, figure) = ("w".to_owned(), "f/s".to_owned());
        let row = Row { work, figure, better: Better::More, cells: cells.to_vec() };
        Limit { work: "w", figure: "f/s", mode: None, bound }.verdict(&columns, &row)
    }

    #[test]
    fn rates_are_compared_with_the_best_of_the_others() {
        let bound = Bound::AtLeastTimes(1.5, &["a", "b"]);
        assert_eq!(verdict(bound, [Some(30.0), Some(10.0), Some(20.0)]), Verdict::Reached(1.5));
        assert_eq!(verdict(bound, [Some(20.0), Some(10.0), Some(20.0)]), Verdict::Missed(1.0));
    }

    #[test]
    fn costs_are_compared_with_the_cheapest_of_the_others() {
        let bound = Bound::AtMostTimes(1.25, &["a", "b"]);
        assert_eq!(verdict(bound, [Some(20.0), Some(10.0), Some(20.0)]), Verdict::Missed(2.0));
        assert_eq!(verdict(bound, [Some(10.0), Some(10.0), Some(20.0)]), Verdict::Reached(1.0));
    }

    #[test]
    fn without_a_measurement_there_is_no_verdict() {
        let bound = Bound::AtLeastTimes(1.5, &["a", "b"]);
        assert_eq!(verdict(bound, [Some(30.0), Some(10.0), None]), Verdict::Unknown);
        assert_eq!(verdict(bound, [None, Some(10.0), Some(10.0)]), Verdict::Unknown);
        assert_eq!(
            verdict(Bound::AtLeastTimes(1.0, &["c"]), [Some(1.0), None, None]),
            Verdict::Unknown
        );
    }

    #[test]
    fn plain_bounds_include_their_ends() {
        assert_eq!(verdict(Bound::AtLeast(5.0), [Some(5.0), None, None]), Verdict::Reached(5.0));
        assert_eq!(verdict(Bound::AtMost(5.0), [Some(5.1), None, None]), Verdict::Missed(5.1));
    }
}
