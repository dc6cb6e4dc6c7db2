//! The command line.

use std::{path::PathBuf, time::Duration};

/// What `--help` prints.
pub(crate) const HELP: &str = "\
engines: Corvus's storage, LMDB, redb, fjall, SQLite and the bare disk, in one process

  --data DIR        data directories are made in here (default: the working directory)
  --tmpfs           data in /dev/shm instead
  --results DIR     where the JSON file goes (default: results)
  --rounds N        rounds of each work
  --seconds S       length of a round
  --entries N       entries of the bulk load (default 1,000,000)
  --only TEXT       only works whose name contains the text
  --engines A,B     only these engines
  --quick           short rounds, few of them, 100,000 entries";

/// What to run.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) data: PathBuf,
    pub(crate) mode: &'static str,
    pub(crate) results: PathBuf,
    pub(crate) rounds: usize,
    /// Rounds of load and read, which take longest.
    pub(crate) load_rounds: usize,
    pub(crate) round: Duration,
    pub(crate) entries: u64,
    /// Works that are run have this in their name.
    pub(crate) only: String,
    /// Names of the engines that run; all when empty.
    pub(crate) engines: Vec<String>,
}

/// The parsed command line.
pub(crate) enum Request {
    Run(Options),
    Help,
}

impl Options {
    pub(crate) fn from_arguments() -> Result<Request, lexopt::Error> {
        Self::parse(lexopt::Parser::from_env())
    }

    fn parse(mut parser: lexopt::Parser) -> Result<Request, lexopt::Error> {
        use lexopt::prelude::{Long, Short, ValueExt};
        let (mut data, mut results) = (PathBuf::from("."), PathBuf::from("results"));
        let (mut quick, mut tmpfs) = (false, false);
        let (mut rounds, mut seconds, mut entries) = (None, None, None);
        let (mut only, mut engines) = (String::new(), Vec::new());
        while let Some(argument) = parser.next()? {
            match argument {
                Long("help") | Short('h') => return Ok(Request::Help),
                Long("data") => data = parser.value()?.into(),
                Long("results") => results = parser.value()?.into(),
                Long("tmpfs") => tmpfs = true,
                Long("quick") => quick = true,
                Long("rounds") => rounds = Some(parser.value()?.parse::<usize>()?.max(1)),
                Long("seconds") => seconds = Some(parser.value()?.parse::<f64>()?),
                Long("entries") => entries = Some(parser.value()?.parse::<u64>()?.max(1)),
                Long("only") => only = parser.value()?.string()?,
                Long("engines") => {
                    engines = parser.value()?.string()?.split(',').map(str::to_owned).collect();
                }
                _ => return Err(argument.unexpected()),
            }
        }
        let seconds = seconds.unwrap_or(if quick { 0.7 } else { 2.0 });
        Ok(Request::Run(Self {
            data: if tmpfs { PathBuf::from("/dev/shm") } else { data },
            mode: if tmpfs { "tmpfs" } else { "disk" },
            results,
            rounds: rounds.unwrap_or(if quick { 3 } else { 5 }),
            load_rounds: rounds.unwrap_or(if quick { 1 } else { 3 }),
            round: Duration::try_from_secs_f64(seconds)
                .map_err(|error| lexopt::Error::Custom(error.into()))?,
            entries: entries.unwrap_or(if quick { 100_000 } else { 1_000_000 }),
            only,
            engines,
        }))
    }

    /// Whether this work is selected.
    pub(crate) fn wants(&self, work: &str) -> bool {
        work.contains(&self.only)
    }

    /// Whether this engine is selected.
    pub(crate) fn wants_engine(&self, name: &str) -> bool {
        self.engines.is_empty() || self.engines.iter().any(|wanted| wanted == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_given_win_over_quick() {
        let parser = lexopt::Parser::from_args(["--entries=5", "--quick", "--rounds", "9"]);
        let Ok(Request::Run(options)) = Options::parse(parser) else { panic!("runs") };
        assert_eq!((options.entries, options.rounds, options.load_rounds), (5, 9, 9));
        assert_eq!(options.round, Duration::from_millis(700));
    }
}
