//! One run: the contestants, the interleaved works (A B A B …), the report.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    rc::Rc,
    time::Duration,
};

use report::{Better, Cell, Machine, Report, Row, UtcTime};
use tokio::time::sleep;

use crate::{
    error::DriverError,
    limits::{LIMITS, MEMORY},
    options::{Mode, Options, Set, Size},
    outcome::Outcome,
    process::Memory,
    server::{BARE_FILES, Program, RunningServer},
    trials::TrialFacts,
    works::{Equipment, Target, WorkFacts},
};

/// How long a server may settle before its idle memory is read, and between rounds.
const REST: Duration = Duration::from_millis(300);
const DISK_MEASURED_FOR: Duration = Duration::from_millis(700);
const TMPFS: &str = "/dev/shm";
/// The column of an earlier version of Corvus.
const BEFORE: &str = "before";

/// The rows under [`MEMORY`].
pub(crate) const MEMORY_FIGURES: [&str; 4] = [
    "MB idle",
    "MB after 100k documents",
    "MB after 100k documents, without mapped files",
    "MB at its highest",
];

/// One column.
struct Contestant {
    name: &'static str,
    program: Option<Program>,
    /// The server as the works see it.
    server: Result<Started, String>,
}

struct Started {
    running: RunningServer,
    target: Target,
    is_bare: bool,
    idle: Option<Memory>,
    filled: Option<Memory>,
}

/// Runs everything. `false` when something that should have been measured was not.
pub(crate) async fn run(options: &Options) -> Result<bool, DriverError> {
    let mut all_measured = true;
    for mode in &options.modes {
        let report = run_mode(options, *mode).await?;
        println!("{report}");
        let paths =
            report.write_files(&options.results).map_err(DriverError::file(&options.results))?;
        for path in paths {
            println!("written to {}", path.display());
        }
        println!();
        all_measured &= report.notes.is_empty();
    }
    Ok(all_measured)
}

async fn run_mode(options: &Options, mode: Mode) -> Result<Report, DriverError> {
    let parent = match mode {
        Mode::Disk => options.data.clone(),
        Mode::Tmpfs => PathBuf::from(TMPFS),
    };
    fs::create_dir_all(&parent).map_err(DriverError::file(&parent))?;
    let when = UtcTime::now();
    let machine = Machine::look(&parent);
    let disk_before = disk_rate(&parent);
    let mut notes = Vec::new();
    let mut house = House {
        parent: &parent,
        equipment: Rc::new(Equipment::new(options.node_client.clone())),
        notes: &mut notes,
    };
    let mut contestants = start_all(options, &mut house).await;
    if !options.works.is_empty() {
        fill_all(options.set, &mut contestants, house.notes).await;
        add_bare(options, &mut contestants, &mut house).await;
    }

    let mut work_rows = Vec::new();
    for facts in &options.works {
        let measured = run_work(facts, &options.size, &contestants).await;
        work_rows.extend(rows_of(facts, &contestants, measured, &mut notes));
    }
    let mut rows = match options.set {
        Set::Documents => memory_rows(&contestants),
        Set::Indexes => Vec::new(),
    };
    rows.extend(work_rows);
    let columns = contestants.iter().map(|contestant| contestant.name.to_owned()).collect();
    let mut programs = Vec::new();
    for Contestant { name, program, server } in contestants {
        if let Ok(started) = server {
            started.running.stop().await;
        }
        programs.push((name, program));
    }
    for facts in &options.trials {
        rows.extend(trial_rows(facts, &programs, &parent, &mut notes).await);
    }
    let disk_after = disk_rate(&parent);
    let conditions = format!(
        "{}\nbare disk, 4 KB durable writes/s: {disk_before} before, {disk_after} after",
        conditions(options)
    );
    let (name, mode) = (options.set.name(), mode.name());
    Ok(Report { name, mode, conditions, columns, rows, limits: LIMITS, notes, machine, when })
}

fn conditions(options: &Options) -> String {
    let Size { rounds, round, sustained_rounds, sustained, .. } = options.size;
    format!(
        "medians of {rounds} interleaved rounds of {round:?} (sustained: {sustained_rounds} of \
         {sustained:?}), ±: half the distance of the extremes; RavenDB {}",
        options.raven_version
    )
}

/// Durable writes of the bare disk per second, now.
fn disk_rate(parent: &Path) -> String {
    match disk::durable_writes(parent, DISK_MEASURED_FOR) {
        Ok(writes) => format!("{:.0}", writes.rate()),
        Err(error) => format!("not measured ({error})"),
    }
}

/// The settings with which every server is started.
struct House<'h> {
    parent: &'h Path,
    equipment: Rc<Equipment>,
    notes: &'h mut Vec<String>,
}

async fn start_all(options: &Options, house: &mut House<'_>) -> Vec<Contestant> {
    let corvus = |name, binary: &Option<PathBuf>| {
        binary.clone().map(|binary| Program::Corvus { name, binary })
    };
    let this = corvus("corvus", &options.corvus);
    let mut contestants = vec![start_or(this, "corvus", "not built", house).await];
    if options.with_raven {
        let raven = Program::installed_raven(&options.raven_home, &options.raven_version);
        contestants.push(start_or(raven, "ravendb", "not installed", house).await);
    }
    if options.before.is_some() {
        let before = corvus(BEFORE, &options.before);
        contestants.push(start_or(before, BEFORE, "", house).await);
    }
    contestants
}

async fn start_or(
    program: Option<Program>,
    name: &'static str,
    absent: &str,
    house: &mut House<'_>,
) -> Contestant {
    let Some(program) = program else {
        return Contestant { name, program, server: Err(absent.to_owned()) };
    };
    progress(format_args!("starting {name}"));
    let is_bare = matches!(program, Program::Bare { .. });
    let server = match RunningServer::start(&program, house.parent).await {
        Ok(running) => Ok(rest_and_look(running, is_bare, house.equipment.clone()).await),
        Err(error) => {
            house.notes.push(error.to_string());
            Err("not started".to_owned())
        }
    };
    Contestant { name, program: Some(program), server }
}

async fn rest_and_look(running: RunningServer, is_bare: bool, equipment: Rc<Equipment>) -> Started {
    sleep(REST).await;
    let idle = running.process.memory();
    let target = Target::new(running.address, running.process, equipment);
    Started { running, target, is_bare, idle, filled: None }
}

/// A server that cannot be filled does not take part.
async fn fill_all(set: Set, contestants: &mut [Contestant], notes: &mut Vec<String>) {
    for contestant in contestants {
        let Ok(started) = &mut contestant.server else { continue };
        progress(format_args!("filling {}", contestant.name));
        let filled = match set {
            Set::Documents => started.target.fill().await,
            Set::Indexes => started.target.fill_notes().await,
        };
        match filled {
            Ok(()) => started.filled = started.running.process.memory(),
            Err(error) => {
                notes.push(format!("{}: filling the database failed: {error}", contestant.name));
                contestant.server = Err("failed".to_owned());
            }
        }
    }
}

/// The bare server responds with the bytes of the first contestant's responses.
async fn add_bare(options: &Options, contestants: &mut Vec<Contestant>, house: &mut House<'_>) {
    let Some(binary) = options.bare.clone() else { return };
    let Some(first) = contestants.iter().find_map(|one| one.server.as_ref().ok()) else { return };
    let written = match first.target.answer_bodies().await {
        Ok(bodies) => write_bodies(&bodies),
        Err(error) => Err(error),
    };
    match written {
        Ok(bodies) => {
            let program = Program::Bare { binary, bodies: bodies.path().to_owned() };
            contestants.push(start_or(Some(program), "bare", "", house).await);
        }
        Err(error) => house.notes.push(format!("bare: {error}")),
    }
}

/// One file for each of [`BARE_FILES`], in a directory of their own.
fn write_bodies(bodies: &[Vec<u8>; 2]) -> Result<tempfile::TempDir, DriverError> {
    let directory = tempfile::tempdir()?;
    for (name, body) in BARE_FILES.into_iter().zip(bodies) {
        let path = directory.path().join(name);
        fs::write(&path, body).map_err(DriverError::file(&path))?;
    }
    Ok(directory)
}

/// The rounds of each contestant, or the reason why they are missing.
async fn run_work(
    facts: &WorkFacts,
    size: &Size,
    contestants: &[Contestant],
) -> Vec<Result<Vec<Outcome>, Absence>> {
    let mut measured: Vec<_> = contestants.iter().map(|one| one.takes_part(facts)).collect();
    for (contestant, outcomes) in contestants.iter().zip(&mut measured) {
        let (Ok(started), Ok(_)) = (&contestant.server, &*outcomes) else { continue };
        if let Err(error) = started.target.prepare(facts.work).await {
            *outcomes = Err(Absence::Failed(error));
        }
    }
    // Round 0 is the warm-up.
    for round in 0..=facts.work.rounds(size) {
        for (contestant, outcomes) in contestants.iter().zip(&mut measured) {
            let (Ok(started), Ok(done)) = (&contestant.server, &mut *outcomes) else { continue };
            match started.target.round(facts.work, size, round > 0).await {
                Ok(outcome) => {
                    progress(format_args!(
                        "{} {round} {}: {}",
                        facts.key,
                        contestant.name,
                        facts.figures.first().map_or(0.0, |figure| figure.of(&outcome)).round()
                    ));
                    if round > 0 {
                        done.push(outcome);
                    }
                }
                Err(error) => *outcomes = Err(Absence::Failed(error)),
            }
            sleep(REST).await;
        }
    }
    for (contestant, outcomes) in contestants.iter().zip(&mut measured) {
        let (Ok(started), Ok(_)) = (&contestant.server, &*outcomes) else { continue };
        if let Err(error) = started.target.tidy(facts.work).await {
            *outcomes = Err(Absence::Failed(error));
        }
    }
    measured
}

enum Absence {
    /// The server does not take part.
    Reason(String),
    /// The work failed.
    Failed(DriverError),
}

impl Contestant {
    fn takes_part(&self, facts: &WorkFacts) -> Result<Vec<Outcome>, Absence> {
        match &self.server {
            Err(reason) => Err(Absence::Reason(reason.clone())),
            Ok(started) if started.is_bare && !facts.work.needs_no_database() => {
                Err(Absence::Reason("–".to_owned()))
            }
            Ok(started) if !started.target.is_equipped_for(facts.work) => {
                Err(Absence::Reason("not installed".to_owned()))
            }
            Ok(_) => Ok(Vec::new()),
        }
    }
}

fn rows_of(
    facts: &WorkFacts,
    contestants: &[Contestant],
    measured: Vec<Result<Vec<Outcome>, Absence>>,
    notes: &mut Vec<String>,
) -> Vec<Row> {
    for (contestant, outcomes) in contestants.iter().zip(&measured) {
        if let Err(Absence::Failed(error)) = outcomes {
            notes.push(format!("{}: {} failed: {error}", contestant.name, facts.key));
        }
    }
    let row = |figure: &crate::outcome::Figure| Row {
        work: facts.title.to_owned(),
        figure: figure.name(),
        better: figure.better(),
        cells: measured
            .iter()
            .map(|outcomes| match outcomes {
                Ok(outcomes) => Cell::Rounds(outcomes.iter().map(|one| figure.of(one)).collect()),
                Err(Absence::Reason(reason)) => Cell::Absent(reason.clone()),
                Err(Absence::Failed(_)) => Cell::Absent("failed".to_owned()),
            })
            .collect(),
    };
    facts.figures.iter().map(row).collect()
}

/// The rows of one trial, one program after the other.
async fn trial_rows(
    facts: &TrialFacts,
    programs: &[(&'static str, Option<Program>)],
    parent: &Path,
    notes: &mut Vec<String>,
) -> Vec<Row> {
    let mut measured = Vec::new();
    for (name, program) in programs {
        measured.push(match program {
            None => Err("not there".to_owned()),
            Some(Program::Bare { .. }) => Err("–".to_owned()),
            Some(Program::Raven { .. }) if facts.needs_licence => Err("licence".to_owned()),
            Some(program) => {
                progress(format_args!("{} {name}", facts.key));
                facts.trial.run(program, parent).await.map_err(|error| {
                    notes.push(format!("{name}: {} failed: {error}", facts.key));
                    "failed".to_owned()
                })
            }
        });
    }
    let row = |(index, (figure, better)): (usize, &(&str, Better))| Row {
        work: facts.title.to_owned(),
        figure: (*figure).to_owned(),
        better: *better,
        cells: measured
            .iter()
            .map(|rounds| match rounds {
                Ok(rounds) => Cell::Rounds(rounds.iter().map(|one| one[index]).collect()),
                Err(reason) => Cell::Absent(reason.clone()),
            })
            .collect(),
    };
    facts.figures.iter().enumerate().map(row).collect()
}

fn memory_rows(contestants: &[Contestant]) -> Vec<Row> {
    let row = |work: &str, figure: &str, of: &dyn Fn(&Started) -> Option<f64>| {
        let cell = |contestant: &Contestant| match &contestant.server {
            Ok(started) => of(started)
                .map_or(Cell::Absent("–".to_owned()), |value| Cell::Rounds(vec![value])),
            Err(reason) => Cell::Absent(reason.clone()),
        };
        let cells = contestants.iter().map(cell).collect();
        Row { work: work.to_owned(), figure: figure.to_owned(), better: Better::Less, cells }
    };
    let [idle, filled, anonymous, peak] = MEMORY_FIGURES;
    vec![
        row(MEMORY, idle, &|started| Some(started.idle?.resident)),
        row(MEMORY, filled, &|started| Some(started.filled?.resident)),
        row(MEMORY, anonymous, &|started| Some(started.filled?.anonymous)),
        row(MEMORY, peak, &|started| Some(started.running.process.memory()?.peak)),
    ]
}

fn progress(message: fmt::Arguments<'_>) {
    eprintln!("  {message}");
}
