//! The resource use of a server, sampled periodically, and whether it is flat.

use std::{path::Path, time::Duration};

use crate::{Failure, checks::Checks, http_client::HttpClient, server_process::ServerProcess};

/// By how many percent a quantity may be larger at the end than in the middle.
const PLAY_PERCENT: f64 = 15.0;

/// One quantity over time.
struct Quantity {
    name: &'static str,
    unit: &'static str,
    /// The unit, in sampled units.
    scale: f64,
    /// Growth up to this amount is ignored, in units.
    play: f64,
    values: Vec<f64>,
}

/// All quantities over time.
pub(super) struct Samples {
    times: Vec<f64>,
    quantities: Vec<Quantity>,
}

impl Default for Samples {
    fn default() -> Samples {
        let quantity =
            |name, unit, scale, play| Quantity { name, unit, scale, play, values: Vec::new() };
        const MB: f64 = 1_048_576.0;
        Samples {
            times: Vec::new(),
            quantities: vec![
                quantity("memory", "MB", MB, 16.0),
                quantity("descriptors", "", 1.0, 24.0),
                quantity("threads", "", 1.0, 12.0),
                quantity("disk", "MB", MB, 24.0),
                quantity("journals", "MB", MB, 24.0),
                quantity("tombstones", "", 1.0, 2_500.0),
            ],
        }
    }
}

impl Samples {
    /// Takes one sample of each quantity.
    pub(super) fn take(
        &mut self,
        server: &ServerProcess,
        data: &Path,
        time: Duration,
    ) -> Result<(), Failure> {
        let process = Path::new("/proc").join(server.id().to_string());
        let status = std::fs::read_to_string(process.join("status"))?;
        let field = |name: &str| -> Result<f64, Failure> {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|line| line.split_whitespace().next());
            Ok(number.ok_or_else(|| format!("no {name}"))?.parse()?)
        };
        let descriptors = std::fs::read_dir(process.join("fd"))?.count();
        let (mut disk, mut journals) = (0, 0);
        add_files(data, &mut disk, &mut journals);
        let answer = HttpClient::connect(&server.url)?.send("GET", "/databases/soak/stats", b"")?;
        let statistics: serde_json::Value = serde_json::from_slice(&answer.body)?;
        let tombstones = statistics["CountOfTombstones"].as_f64().ok_or("no CountOfTombstones")?;
        let values = [
            field("VmRSS:")? * 1024.0,
            descriptors as f64,
            field("Threads:")?,
            disk as f64,
            journals as f64,
            tombstones,
        ];
        self.times.push(time.as_secs_f64());
        for (quantity, value) in self.quantities.iter_mut().zip(values) {
            quantity.values.push(value / quantity.scale);
        }
        Ok(())
    }

    /// Prints a table, and judges each quantity.
    pub(super) fn judge(&self, checks: &mut Checks) {
        println!("{:<14}{:>10}{:>10}{:>10}{:>14}", "", "warm", "middle", "end", "per hour");
        let third = self.times.len() / 3;
        if third == 0 {
            checks.failures.push("too few samples to judge".to_owned());
            return;
        }
        for quantity in &self.quantities {
            let values = &quantity.values;
            let most = |part: &[f64]| part.iter().copied().fold(0.0, f64::max);
            let (warm, middle) = (most(&values[..third]), most(&values[third..2 * third]));
            let end = most(&values[2 * third..]);
            let slope = slope(&self.times[third..], &values[third..]) * 3600.0;
            println!(
                "{:<14}{warm:>10.1}{middle:>10.1}{end:>10.1}{slope:>14.1} {}",
                quantity.name, quantity.unit
            );
            let allowed = middle * (1.0 + PLAY_PERCENT / 100.0) + quantity.play;
            checks.that(end <= allowed, || {
                format!(
                    "{} grows: at most {middle:.1} {unit} in the middle, {end:.1} {unit} at the end",
                    quantity.name,
                    unit = quantity.unit
                )
            });
        }
    }
}

/// The slope of the best-fitting straight line.
fn slope(times: &[f64], values: &[f64]) -> f64 {
    let count = times.len() as f64;
    let mean = |numbers: &[f64]| numbers.iter().sum::<f64>() / count;
    let (time, value) = (mean(times), mean(values));
    let (mut both, mut squares) = (0.0, 0.0);
    for (at, found) in times.iter().zip(values) {
        both += (at - time) * (found - value);
        squares += (at - time) * (at - time);
    }
    if squares == 0.0 { 0.0 } else { both / squares }
}

/// Adds the disk space of the files below. Files may be created and removed meanwhile.
fn add_files(directory: &Path, disk: &mut u64, journals: &mut u64) {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_dir() {
            add_files(&entry.path(), disk, journals);
            continue;
        }
        let bytes = metadata.blocks() * 512;
        *disk += bytes;
        if entry.path().extension().is_some_and(|extension| extension == "journal") {
            *journals += bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(of: impl Fn(usize) -> f64) -> usize {
        let times = (0..90).map(|time| time as f64).collect();
        let mut samples = Samples { times, ..Samples::default() };
        for quantity in &mut samples.quantities {
            quantity.play = 0.0;
            quantity.values = (0..90).map(&of).collect();
        }
        let mut checks = Checks::default();
        samples.judge(&mut checks);
        checks.failures.len()
    }

    #[test]
    fn what_grows_is_found_and_a_saw_is_flat() {
        assert_eq!(judged(|time| 100.0 + (time % 20) as f64), 0);
        assert_eq!(judged(|time| 100.0 + 2.0 * time as f64), 6);
        // Growth during the warm-up is ignored.
        assert_eq!(judged(|time| (time.min(40) * 10) as f64), 0);
    }

    #[test]
    fn the_slope_is_that_of_a_line() {
        let times = [0.0, 1.0, 2.0, 3.0];
        assert!((slope(&times, &[1.0, 3.0, 5.0, 7.0]) - 2.0).abs() < 1e-9);
        assert!(slope(&times, &[4.0; 4]).abs() < 1e-9);
    }
}
