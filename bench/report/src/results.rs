//! The figures of one run: one row per figure, one column per contestant.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::{
    UtcTime,
    limit::{Limit, Verdict},
    machine::Machine,
    rounds::median,
};

/// The results of one contestant for one figure.
#[derive(Clone, Debug)]
pub enum Cell {
    /// The value of each round.
    Rounds(Vec<f64>),
    /// The reason why it is missing: `not installed`, `failed`, …
    Absent(String),
}

impl Cell {
    /// The median of the rounds.
    pub fn median(&self) -> Option<f64> {
        match self {
            Self::Rounds(values) => median(values),
            Self::Absent(_) => None,
        }
    }
}

/// Which of two values of a figure is the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// The higher one: rates.
    More,
    /// The lower one: times and other costs.
    Less,
    /// Neither: a circumstance of the measurement.
    Neither,
}

/// One figure.
#[derive(Clone, Debug)]
pub struct Row {
    /// What was done, for example `PUT new documents, 64 connections`.
    pub work: String,
    /// What is counted, with its unit, for example `documents/s`.
    pub figure: String,
    /// Which direction is better.
    pub better: Better,
    /// One cell per column.
    pub cells: Vec<Cell>,
}

/// One run.
pub struct Report {
    /// The prefix of the file name: `http`, `engines`.
    pub name: &'static str,
    /// Where the data was: `disk`, `tmpfs`.
    pub mode: &'static str,
    /// One line about rounds and lengths.
    pub conditions: String,
    /// The contestants. The first is ours, and the ratio column compares it with the second.
    pub columns: Vec<String>,
    /// The figures; rows of one work are adjacent.
    pub rows: Vec<Row>,
    /// The targets; limits of works that were not run are ignored.
    pub limits: &'static [Limit],
    /// Failures and other remarks, printed below the table.
    pub notes: Vec<String>,
    /// The machine.
    pub machine: Machine,
    /// The start of the run.
    pub when: UtcTime,
}

impl Report {
    /// Our figure divided by the second column's, where both were measured.
    pub(crate) fn ratio(&self, row: &Row) -> Option<f64> {
        let (ours, theirs) = (row.cells.first()?.median()?, row.cells.get(1)?.median()?);
        (theirs > 0.0).then_some(ours / theirs)
    }

    pub(crate) fn limits_of<'r>(
        &'r self,
        row: &'r Row,
    ) -> impl Iterator<Item = &'static Limit> + 'r {
        self.limits.iter().filter(|limit| limit.concerns(row, self.mode))
    }

    /// Whether a limit of the figure was missed.
    pub(crate) fn misses(&self, row: &Row) -> bool {
        let verdict = |limit: &Limit| limit.verdict(&self.columns, row);
        self.limits_of(row).any(|limit| matches!(verdict(limit), Verdict::Missed(_)))
    }

    /// Writes `<directory>/<name>-<mode>-<time>.json` and the chart `….svg` next to it; returns
    /// their paths.
    pub fn write_files(&self, directory: &Path) -> io::Result<[PathBuf; 2]> {
        fs::create_dir_all(directory)?;
        let stem = format!("{}-{}-{}", self.name, self.mode, self.when.compact());
        let paths = ["json", "svg"].map(|kind| directory.join(format!("{stem}.{kind}")));
        fs::write(&paths[0], format!("{:#}\n", self.to_json()))?;
        fs::write(&paths[1], self.to_svg())?;
        Ok(paths)
    }

    fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "mode": self.mode,
            "when": self.when.readable(),
            "conditions": self.conditions,
            "machine": self.machine.to_json(),
            "columns": self.columns,
            "rows": self.rows.iter().map(|row| self.row_to_json(row)).collect::<Vec<_>>(),
            "notes": self.notes,
        })
    }

    fn row_to_json(&self, row: &Row) -> Value {
        let cells: serde_json::Map<String, Value> = self
            .columns
            .iter()
            .zip(&row.cells)
            .map(|(column, cell)| (column.clone(), cell_to_json(cell)))
            .collect();
        let limits: Vec<Value> = self
            .limits_of(row)
            .map(|limit| {
                let verdict = limit.verdict(&self.columns, row).word();
                json!({ "wanted": limit.wanted(), "verdict": verdict })
            })
            .collect();
        json!({
            "work": row.work,
            "figure": row.figure,
            "cells": cells,
            "ratio": self.ratio(row),
            "limits": limits,
        })
    }
}

fn cell_to_json(cell: &Cell) -> Value {
    match cell {
        Cell::Rounds(values) => json!({ "median": median(values), "rounds": values }),
        Cell::Absent(reason) => json!({ "absent": reason }),
    }
}
