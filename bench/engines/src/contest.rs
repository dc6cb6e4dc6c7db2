//! One run: the engines in turns, the report.

use std::{error::Error, fs};

use report::{Better, Cell, Machine, Report, Row, UtcTime, percentile};

use crate::{
    engine::{CONTESTANTS, Contestant, EngineError},
    limits::{BARE_DISK, COMMITS, ENTRIES, LIMITS},
    options::Options,
    works::{self, LOAD, LOAD_IN_ORDER, MANY_WRITERS, ONE_WRITER, READ, Round},
};

/// The rounds of one column, or why there are none.
type Rounds = Result<Vec<Round>, String>;

/// Runs everything. `false` when something that should have been measured was not.
pub(crate) fn run(options: &Options) -> Result<bool, Box<dyn Error>> {
    fs::create_dir_all(&options.data)?;
    let mut run = Run { options, notes: Vec::new(), rows: Vec::new() };
    let (when, machine) = (UtcTime::now(), Machine::look(&options.data));
    run.commits();
    run.loads();
    let Run { notes, rows, .. } = run;
    let mut columns: Vec<String> = CONTESTANTS.iter().map(|one| one.name.to_owned()).collect();
    columns.push(BARE_DISK.to_owned());
    let all_measured = notes.is_empty();
    let report = Report {
        name: "engines",
        mode: options.mode,
        conditions: conditions(options),
        columns,
        rows,
        limits: LIMITS,
        notes,
        machine,
        when,
    };
    println!("{report}");
    for path in report.write_files(&options.results)? {
        println!("written to {}", path.display());
    }
    Ok(all_measured)
}

fn conditions(options: &Options) -> String {
    let Options { rounds, round, load_rounds, entries, .. } = options;
    format!(
        "medians of {rounds} interleaved rounds of {round:?}; load and read: {load_rounds} of \
         {entries} entries; ±: half the distance of the extremes"
    )
}

struct Run<'o> {
    options: &'o Options,
    notes: Vec<String>,
    rows: Vec<Row>,
}

impl Run<'_> {
    /// The columns before the first round; those of engines that were not selected are absent.
    fn columns(&self) -> Vec<Rounds> {
        let engines = CONTESTANTS.iter().map(|contestant| self.no_rounds_yet(contestant));
        engines.chain([Ok(Vec::new())]).collect()
    }

    fn no_rounds_yet<T>(&self, contestant: &Contestant) -> Result<Vec<T>, String> {
        let wanted = self.options.wants_engine(contestant.name);
        if wanted { Ok(Vec::new()) } else { Err("–".to_owned()) }
    }

    fn commits(&mut self) {
        let (mut one, mut many) = (self.columns(), self.columns());
        many[CONTESTANTS.len()] = Err("–".to_owned());
        let (wants_one, wants_many) =
            (self.options.wants(ONE_WRITER), self.options.wants(MANY_WRITERS));
        for _ in 0..self.options.rounds {
            for (index, contestant) in CONTESTANTS.iter().enumerate() {
                if wants_one {
                    self.turn(ONE_WRITER, contestant, works::one_writer, &mut one[index]);
                }
                if wants_many {
                    self.turn(MANY_WRITERS, contestant, works::many_writers, &mut many[index]);
                }
            }
            if wants_one {
                self.bare_disk_turn(&mut one[CONTESTANTS.len()]);
            }
        }
        if wants_one {
            self.push_rows(ONE_WRITER, COMMITS, &one);
        }
        if wants_many {
            self.push_rows(MANY_WRITERS, COMMITS, &many);
        }
    }

    fn loads(&mut self) {
        if self.options.wants(LOAD_IN_ORDER) {
            self.loads_in_order();
        }
        if self.options.wants(LOAD) || self.options.wants(READ) {
            self.random_loads();
        }
    }

    fn loads_in_order(&mut self) {
        let mut rounds = self.columns();
        rounds[CONTESTANTS.len()] = Err("–".to_owned());
        for _ in 0..self.options.load_rounds {
            for (contestant, rounds) in CONTESTANTS.iter().zip(&mut rounds) {
                self.turn(LOAD_IN_ORDER, contestant, works::load_in_order, rounds);
            }
        }
        self.push_rows(LOAD_IN_ORDER, ENTRIES, &rounds);
    }

    fn random_loads(&mut self) {
        let mut both: Vec<Result<Vec<[Round; 2]>, String>> =
            CONTESTANTS.iter().map(|contestant| self.no_rounds_yet(contestant)).collect();
        for _ in 0..self.options.load_rounds {
            for (contestant, rounds) in CONTESTANTS.iter().zip(&mut both) {
                self.turn(LOAD, contestant, works::load_and_read, rounds);
            }
        }
        for (index, work) in [LOAD, READ].into_iter().enumerate() {
            let of = |rounds: &Result<Vec<[Round; 2]>, String>| match rounds {
                Ok(rounds) => Ok(rounds.iter().map(|pair| pair[index].clone()).collect()),
                Err(reason) => Err(reason.clone()),
            };
            let mut rounds: Vec<Rounds> = both.iter().map(of).collect();
            rounds.push(Err("–".to_owned()));
            self.push_rows(work, ENTRIES, &rounds);
        }
    }

    /// One round of one engine in a directory of its own. After a failure it has no further turn.
    fn turn<T>(
        &mut self,
        work: &str,
        contestant: &Contestant,
        run: fn(&Contestant, &std::path::Path, &Options) -> Result<T, EngineError>,
        rounds: &mut Result<Vec<T>, String>,
    ) {
        let Ok(done) = rounds else { return };
        eprintln!("  {}: {work}", contestant.name);
        let outcome = tempfile::Builder::new()
            .prefix(&format!("{}-", contestant.name))
            .tempdir_in(&self.options.data)
            .map_err(EngineError::from)
            .and_then(|directory| run(contestant, directory.path(), self.options));
        match outcome {
            Ok(round) => done.push(round),
            Err(error) => {
                self.notes.push(format!("{}: {work} failed: {error}", contestant.name));
                *rounds = Err("failed".to_owned());
            }
        }
    }

    fn bare_disk_turn(&mut self, rounds: &mut Rounds) {
        let contestant = Contestant { name: BARE_DISK, open: |_| Err("not an engine".into()) };
        let run = |_: &Contestant, directory: &std::path::Path, options: &Options| {
            works::bare_disk(directory, options)
        };
        self.turn(ONE_WRITER, &contestant, run, rounds);
    }

    fn push_rows(&mut self, work: &str, figure: &str, rounds: &[Rounds]) {
        let row = |figure: &str, better, of: &dyn Fn(&Round) -> f64| Row {
            work: work.to_owned(),
            figure: figure.to_owned(),
            better,
            cells: rounds
                .iter()
                .map(|rounds| match rounds {
                    Ok(rounds) => Cell::Rounds(rounds.iter().map(of).collect()),
                    Err(reason) => Cell::Absent(reason.clone()),
                })
                .collect(),
        };
        let latency = |round: &Round, percent| {
            f64::from(percentile(&round.latencies, percent).unwrap_or(0)) / 1e6
        };
        self.rows.push(row(figure, Better::More, &Round::rate));
        let has_latencies =
            |rounds: &Rounds| rounds.iter().flatten().any(|round| !round.latencies.is_empty());
        if rounds.iter().any(has_latencies) {
            self.rows.push(row("p50 ms", Better::Less, &|round| latency(round, 50.0)));
            self.rows.push(row("p99 ms", Better::Less, &|round| latency(round, 99.0)));
        }
    }
}
