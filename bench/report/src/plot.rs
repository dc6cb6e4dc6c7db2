//! The report as a chart: for every figure with a direction, how many times better the first column
//! is than each of the others, on a logarithmic scale.
//!
//! The SVG is written directly: it consists of lines, dots and text.

use std::fmt::{self, Write as _};

use crate::results::{Better, Report, Row};

const LABEL_WIDTH: f64 = 400.0;
const PLOT_WIDTH: f64 = 520.0;
const MARGIN: f64 = 16.0;
/// Room for the values right of the plot.
const VALUE_WIDTH: f64 = 60.0;
const LINE_HEIGHT: f64 = 18.0;
/// Title, machine, legend and the scale.
const HEAD_LINES: f64 = 5.0;
/// From the baseline of a text to the middle of its letters.
const MIDDLE: f64 = 4.0;
const COLOURS: [&str; 6] = ["#c2410c", "#64748b", "#1d4ed8", "#15803d", "#a21caf", "#a16207"];
const MISSED: &str = "#b91c1c";
const STYLE: &str = "text{font:12px sans-serif}.work{font-weight:600}.end{text-anchor:end}\
                     .mid{text-anchor:middle}line{stroke:#e2e8f0}.one{stroke:#334155}";

/// How many times better the first column is, by the index of the other column.
type Advantages = Vec<(usize, f64)>;

/// The decades that are shown, as powers of ten.
struct Scale {
    lowest: i32,
    highest: i32,
}

impl Report {
    /// The chart as an SVG file.
    pub(crate) fn to_svg(&self) -> String {
        let mut svg = String::new();
        self.write_svg(&mut svg).expect("writing to a String cannot fail");
        svg
    }

    fn write_svg(&self, svg: &mut String) -> fmt::Result {
        let rows: Vec<(&Row, Advantages)> = self
            .rows
            .iter()
            .map(|row| (row, advantages(row)))
            .filter(|(_, advantages)| !advantages.is_empty())
            .collect();
        let scale = Scale::over(rows.iter().flat_map(|(_, advantages)| advantages));
        let works = rows.chunk_by(|(one, _), (next, _)| one.work == next.work);
        let lines = HEAD_LINES + (rows.len() + works.clone().count()) as f64;
        let (width, height) =
            (LABEL_WIDTH + PLOT_WIDTH + VALUE_WIDTH + 2.0 * MARGIN, (lines + 1.0) * LINE_HEIGHT);
        writeln!(
            svg,
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">
<style>{STYLE}</style>
<rect width="{width}" height="{height}" fill="white"/>"#
        )?;
        self.write_head(svg)?;
        scale.write(svg, height - LINE_HEIGHT)?;
        let mut y = (HEAD_LINES + 1.0) * LINE_HEIGHT;
        for work in works {
            let title = Escaped(&work[0].0.work);
            writeln!(svg, r#"<text class="work" x="{MARGIN}" y="{y}">{title}</text>"#)?;
            for (row, advantages) in work {
                y += LINE_HEIGHT;
                self.write_row(svg, row, advantages, &scale, y)?;
            }
            y += LINE_HEIGHT;
        }
        writeln!(svg, "</svg>")
    }

    fn write_head(&self, svg: &mut String) -> fmt::Result {
        let ours = self.columns.first().map_or("", String::as_str);
        let lines = [
            format!("{} · {} · {}", self.name, self.mode, self.when.readable()),
            self.machine.to_string(),
            format!("{ours} is this many times better than (left of 1 ×: worse):"),
        ];
        for (index, line) in lines.iter().enumerate() {
            let (y, line) = ((index as f64 + 1.2) * LINE_HEIGHT, Escaped(line));
            writeln!(svg, r#"<text x="{MARGIN}" y="{y}">{line}</text>"#)?;
        }
        let y = 3.2 * LINE_HEIGHT;
        for (index, column) in self.columns.iter().enumerate().skip(1) {
            let x = LABEL_WIDTH + (index - 1) as f64 * 90.0;
            let (colour, column) = (colour(index), Escaped(column));
            let (text_x, dot_y) = (x + 10.0, y - MIDDLE);
            writeln!(
                svg,
                r#"<circle cx="{x}" cy="{dot_y}" r="5" fill="{colour}"/><text x="{text_x}" y="{y}">{column}</text>"#
            )?;
        }
        Ok(())
    }

    fn write_row(
        &self,
        svg: &mut String,
        row: &Row,
        advantages: &Advantages,
        scale: &Scale,
        y: f64,
    ) -> fmt::Result {
        let (label_x, one, middle) = (LABEL_WIDTH - 8.0, scale.x(1.0), y - MIDDLE);
        let fill = if self.misses(row) { MISSED } else { "black" };
        let figure = Escaped(&row.figure);
        writeln!(svg, r#"<text class="end" x="{label_x}" y="{y}" fill="{fill}">{figure}</text>"#)?;
        for (column, advantage) in advantages {
            let (x, colour) = (scale.x(*advantage), colour(*column));
            writeln!(
                svg,
                r#"<line x1="{one:.1}" x2="{x:.1}" y1="{middle}" y2="{middle}" style="stroke:{colour}"/><circle cx="{x:.1}" cy="{middle}" r="5" fill="{colour}"><title>{advantage:.2} ×</title></circle>"#
            )?;
        }
        if let [(column, advantage), ..] = advantages[..] {
            let (x, colour) = (LABEL_WIDTH + PLOT_WIDTH + 12.0, colour(column));
            writeln!(svg, r#"<text x="{x}" y="{y}" fill="{colour}">{advantage:.2} ×</text>"#)?;
        }
        Ok(())
    }
}

impl Scale {
    /// Contains all of them and 1, with at least one decade on either side of it.
    fn over<'a>(advantages: impl Iterator<Item = &'a (usize, f64)>) -> Self {
        let mut scale = Self { lowest: -1, highest: 1 };
        for (_, advantage) in advantages {
            scale.lowest = scale.lowest.min(advantage.log10().floor() as i32);
            scale.highest = scale.highest.max(advantage.log10().ceil() as i32);
        }
        scale
    }

    fn x(&self, advantage: f64) -> f64 {
        let decades = f64::from(self.highest - self.lowest);
        LABEL_WIDTH + (advantage.log10() - f64::from(self.lowest)) / decades * PLOT_WIDTH
    }

    fn write(&self, svg: &mut String, bottom: f64) -> fmt::Result {
        let (top, label_y) = (4.7 * LINE_HEIGHT, 4.5 * LINE_HEIGHT);
        for decade in self.lowest..=self.highest {
            let x = self.x(10_f64.powi(decade));
            let power = 10_u64.pow(decade.unsigned_abs());
            let label = if decade < 0 { format!("1/{power}") } else { format!("{power} ×") };
            let class = if decade == 0 { "one" } else { "" };
            writeln!(
                svg,
                r#"<line class="{class}" x1="{x:.1}" x2="{x:.1}" y1="{top}" y2="{bottom}"/><text class="mid" x="{x:.1}" y="{label_y}">{label}</text>"#
            )?;
        }
        Ok(())
    }
}

/// Empty when the figure has no direction, or nothing to be compared with.
fn advantages(row: &Row) -> Advantages {
    let Some(ours) = row.cells.first().and_then(|cell| cell.median()) else { return Vec::new() };
    let advantage = |theirs: f64| match row.better {
        Better::More => Some(ours / theirs),
        Better::Less => Some(theirs / ours),
        Better::Neither => None,
    };
    row.cells
        .iter()
        .enumerate()
        .skip(1)
        .filter_map(|(column, cell)| Some((column, advantage(cell.median()?)?)))
        .filter(|(_, advantage)| advantage.is_normal())
        .collect()
}

/// The colour of the column with this index; ours has none.
fn colour(column: usize) -> &'static str {
    COLOURS[(column - 1) % COLOURS.len()]
}

/// Text between tags.
struct Escaped<'t>(&'t str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bound, Cell, Limit, Machine, UtcTime};

    static LIMITS: &[Limit] =
        &[Limit { work: "a < b", figure: "s", mode: None, bound: Bound::AtMost(0.5) }];

    fn row(figure: &str, better: Better, values: [f64; 3]) -> Row {
        let cells = values.map(|value| Cell::Rounds(vec![value])).to_vec();
        Row { work: "a < b".to_owned(), figure: figure.to_owned(), better, cells }
    }

    fn picture(rows: Vec<Row>) -> String {
        let report = Report {
            name: "http",
            mode: "disk",
            conditions: String::new(),
            columns: ["ours", "one", "two"].map(String::from).to_vec(),
            rows,
            limits: LIMITS,
            notes: Vec::new(),
            machine: Machine::default(),
            when: UtcTime::from_seconds(0),
        };
        report.to_svg()
    }

    #[test]
    fn better_is_to_the_right_for_rates_and_for_costs() {
        let scale = Scale { lowest: -1, highest: 1 };
        let (right, left) = (scale.x(10.0), scale.x(0.1));
        assert_eq!((left, right), (LABEL_WIDTH, LABEL_WIDTH + PLOT_WIDTH));
        let cases = [
            (row("requests/s", Better::More, [10.0, 1.0, 100.0]), [right, left]),
            (row("s", Better::Less, [1.0, 10.0, 0.1]), [right, left]),
        ];
        for (row, expected) in cases {
            let svg = picture(vec![row]);
            for x in expected {
                assert_eq!(svg.matches(&format!("<circle cx=\"{x:.1}\"")).count(), 1, "{svg}");
            }
        }
    }

    #[test]
    fn what_cannot_be_better_is_left_out() {
        let rows = vec![
            row("MB in journals", Better::Neither, [1.0, 2.0, 3.0]),
            row("p50 ms", Better::Less, [1.0, 0.0, 4.0]),
        ];
        let svg = picture(rows);
        assert!(!svg.contains("MB in journals"));
        assert_eq!(svg.matches("<title>").count(), 1);
        assert!(svg.contains("<title>4.00 ×</title>"));
    }

    #[test]
    fn text_is_escaped_and_missed_figures_are_red() {
        let svg = picture(vec![row("s", Better::Less, [1.0, 2.0, 3.0])]);
        assert!(svg.contains(">a &lt; b</text>"));
        assert!(svg.contains(&format!("fill=\"{MISSED}\">s</text>")));
    }
}
