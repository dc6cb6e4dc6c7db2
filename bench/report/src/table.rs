//! The report as plain text with aligned columns.

use std::fmt;

use crate::{
    number::readable,
    results::{Cell, Report, Row},
    rounds::spread,
};

/// Below this many rounds a spread is meaningless.
const ROUNDS_FOR_SPREAD_MIN: usize = 3;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} · {} · {}", self.name, self.mode, self.when.readable())?;
        writeln!(f, "{}", self.machine)?;
        writeln!(f, "{}\n", self.conditions)?;
        let lines = self.lines();
        let widths = widths(&lines);
        for line in &lines {
            line.write(f, &widths)?;
        }
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        Ok(())
    }
}

enum Line {
    /// The name of a work, over its figures.
    Work(String),
    /// The cells, and the text after them, which is not aligned.
    Cells(Vec<String>, String),
}

impl Report {
    fn lines(&self) -> Vec<Line> {
        let mut lines = vec![self.head()];
        let mut work = "";
        for row in &self.rows {
            if row.work != work {
                work = &row.work;
                lines.push(Line::Work(work.to_owned()));
            }
            self.push_row(row, &mut lines);
        }
        lines
    }

    fn head(&self) -> Line {
        let mut cells = vec![String::new()];
        cells.extend(self.columns.iter().cloned());
        if let [ours, theirs, ..] = &self.columns[..] {
            cells.push(format!("{ours}/{theirs}"));
        }
        Line::Cells(cells, "wanted: is".to_owned())
    }

    fn push_row(&self, row: &Row, lines: &mut Vec<Line>) {
        let mut cells = vec![format!("  {}", row.figure)];
        cells.extend(row.cells.iter().map(cell_text));
        if self.columns.len() > 1 {
            cells.push(self.ratio(row).map_or(String::new(), readable));
        }
        let columns = cells.len();
        let mut verdicts =
            self.limits_of(row).map(|limit| limit.describe(&limit.verdict(&self.columns, row)));
        lines.push(Line::Cells(cells, verdicts.next().unwrap_or_default()));
        lines.extend(verdicts.map(|text| Line::Cells(vec![String::new(); columns], text)));
    }
}

fn cell_text(cell: &Cell) -> String {
    match cell {
        Cell::Absent(reason) => reason.clone(),
        Cell::Rounds(values) => {
            let middle = cell.median().map_or(String::new(), readable);
            match spread(values) {
                Some(spread) if values.len() >= ROUNDS_FOR_SPREAD_MIN => {
                    format!("{middle} ±{:>2.0}%", spread * 100.0)
                }
                Some(_) | None => middle,
            }
        }
    }
}

fn widths(lines: &[Line]) -> Vec<usize> {
    let mut widths = Vec::new();
    for line in lines {
        let Line::Cells(cells, _) = line else { continue };
        widths.resize(widths.len().max(cells.len()), 0);
        for (width, cell) in widths.iter_mut().zip(cells) {
            *width = (*width).max(cell.chars().count());
        }
    }
    widths
}

impl Line {
    fn write(&self, f: &mut fmt::Formatter<'_>, widths: &[usize]) -> fmt::Result {
        let (cells, behind) = match self {
            Self::Work(name) => return writeln!(f, "{name}"),
            Self::Cells(cells, behind) => (cells, behind),
        };
        let mut text = String::new();
        for (index, (cell, &width)) in cells.iter().zip(widths).enumerate() {
            let padded =
                if index == 0 { format!("{cell:<width$}") } else { format!("  {cell:>width$}") };
            text.push_str(&padded);
        }
        text.push_str("   ");
        text.push_str(behind);
        writeln!(f, "{}", text.trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Better, Bound, Limit, Machine, UtcTime};

    static LIMITS: &[Limit] = &[
        Limit { work: "GET", figure: "requests/s", mode: None, bound: Bound::AtLeast(5_000.0) },
        Limit {
            work: "GET",
            figure: "requests/s",
            mode: Some("disk"),
            bound: Bound::AtLeastTimes(2.0, &["other"]),
        },
        Limit {
            work: "GET",
            figure: "requests/s",
            mode: Some("tmpfs"),
            bound: Bound::AtLeast(1e9),
        },
    ];

    #[test]
    fn the_table_is_aligned_and_names_what_was_missed() {
        let row = |figure: &str, cells: Vec<Cell>| Row {
            work: "GET".to_owned(),
            figure: figure.to_owned(),
            better: Better::Neither,
            cells,
        };
        let report = Report {
            name: "http",
            mode: "disk",
            conditions: "3 rounds".to_owned(),
            columns: vec!["ours".to_owned(), "other".to_owned()],
            rows: vec![
                row(
                    "requests/s",
                    vec![Cell::Rounds(vec![9e3, 1e4, 1.1e4]), Cell::Rounds(vec![8e3])],
                ),
                row("p99 ms", vec![Cell::Rounds(vec![1.5]), Cell::Absent("failed".to_owned())]),
            ],
            limits: LIMITS,
            notes: vec!["it rained".to_owned()],
            machine: Machine::default(),
            when: UtcTime::from_seconds(0),
        };
        let text = report.to_string();
        let table: Vec<&str> = text.lines().skip(4).collect();
        assert_eq!(
            table,
            [
                "                     ours   other  ours/other   wanted: is",
                "GET",
                "  requests/s  10,000 ±10%   8,000        1.25   ≥ 5,000: 10,000, reached",
                "                                                ≥ 2.00 × other: 1.25 ×, MISSED",
                "  p99 ms             1.50  failed",
                "note: it rained",
            ]
        );
    }
}
