//! The command line.

use std::{env, path::PathBuf, time::Duration};

use crate::{
    trials::{INDEX_TRIALS, TRIALS, TrialFacts},
    works::{INDEX_WORKS, WORKS, WorkFacts},
};

/// What `--help` prints.
pub(crate) const HELP: &str = "\
driver: loads Corvus and RavenDB in one run and compares them

  --corvus FILE         the server's binary; without it the column says `not built`
  --before FILE         an earlier version of the server, in a column of its own
  --bare FILE           the bare HTTP server that GET and PUT are compared with
  --node-client FILE    the program for bulk-insert-node; without it the row says `not installed`
  --raven-home DIR      where RavenDB is installed (default: RAVEN_HOME, then ~/.cache/ravendb-peer)
  --raven-version V     its version (default 7.1.5)
  --without-raven       omit its column
  --data DIR            data directories are created here, on a disk (default: the working directory)
  --tmpfs               data in /dev/shm; with --disk, too, both are run
  --disk                data on a disk (the default)
  --results DIR         where the JSON file is written (default: results)
  --indexes             the works and trials on indexes instead of those on documents
  --only A,B            only these works and trials; see below
  --rounds N            counted rounds of each work
  --seconds S           length of a round
  --quick               fewer and shorter rounds, and long trials only if named

Works: new-database, bulk-insert-small, bulk-insert-node, bulk-insert-sustained, put-64, put-1,
bulk-docs, patch-64, patch-query, counters-64, timeseries-append, timeseries-bulk,
timeseries-hours, timeseries-days, timeseries-whole, compare-exchange, subscription-read,
subscription-latency, attachment-up, attachment-down, get-one, get-random.
Trials, each with a separate server: start-empty, compression; long ones: timeseries-size,
changes-1000, changes-idle, start-killed, many-databases, start-large.
Trials, each with three servers: cluster-setup, cluster-visible, cluster-exchange; long ones:
cluster-bulk, cluster-catch-up, cluster-idle.

With --indexes: index-small, index-large, index-long-text, write-visible, query-term, query-range,
query-text, query-prefix, query-collection, query-facet, query-nearest, stream-collection,
stream-index, map-reduce. Trials: index-size;
long ones: packages, reduce-days, reduce-change, reduce-replace.";

/// Where the data is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Disk,
    Tmpfs,
}

impl Mode {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Tmpfs => "tmpfs",
        }
    }
}

/// Which works are run and compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Set {
    Documents,
    Indexes,
}

impl Set {
    /// The prefix of the names of its result files.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Documents => "http",
            Self::Indexes => "indexes",
        }
    }

    fn works(self) -> &'static [WorkFacts] {
        match self {
            Self::Documents => WORKS,
            Self::Indexes => INDEX_WORKS,
        }
    }

    fn trials(self) -> &'static [TrialFacts] {
        match self {
            Self::Documents => TRIALS,
            Self::Indexes => INDEX_TRIALS,
        }
    }
}

/// The duration and the number of rounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) rounds: usize,
    pub(crate) round: Duration,
    pub(crate) warm_up: Duration,
    /// The sustained bulk insert: few rounds, but long ones.
    pub(crate) sustained_rounds: usize,
    pub(crate) sustained: Duration,
}

impl Size {
    const FULL: Self = Self {
        rounds: 5,
        round: Duration::from_secs(3),
        warm_up: Duration::from_secs(2),
        sustained_rounds: 1,
        sustained: Duration::from_secs(30),
    };
    const QUICK: Self = Self {
        rounds: 3,
        round: Duration::from_secs(1),
        warm_up: Duration::from_secs(1),
        sustained_rounds: 1,
        sustained: Duration::from_secs(3),
    };
}

/// What to run.
pub(crate) struct Options {
    pub(crate) corvus: Option<PathBuf>,
    /// An earlier version.
    pub(crate) before: Option<PathBuf>,
    pub(crate) bare: Option<PathBuf>,
    pub(crate) raven_home: PathBuf,
    pub(crate) raven_version: String,
    pub(crate) with_raven: bool,
    pub(crate) data: PathBuf,
    pub(crate) results: PathBuf,
    pub(crate) modes: Vec<Mode>,
    pub(crate) set: Set,
    pub(crate) works: Vec<&'static WorkFacts>,
    pub(crate) trials: Vec<&'static TrialFacts>,
    pub(crate) node_client: Option<PathBuf>,
    pub(crate) size: Size,
}

/// The parsed command line.
pub(crate) enum Request {
    Run(Box<Options>),
    Help,
}

impl Options {
    fn with_defaults() -> Self {
        let home = || PathBuf::from(env::var_os("HOME").unwrap_or_default());
        Self {
            corvus: None,
            before: None,
            bare: None,
            raven_home: env::var_os("RAVEN_HOME")
                .map_or_else(|| home().join(".cache/ravendb-peer"), PathBuf::from),
            raven_version: "7.1.5".to_owned(),
            with_raven: true,
            data: PathBuf::from("."),
            results: PathBuf::from("results"),
            modes: Vec::new(),
            set: Set::Documents,
            works: Vec::new(),
            trials: Vec::new(),
            node_client: None,
            size: Size::FULL,
        }
    }

    pub(crate) fn from_arguments() -> Result<Request, lexopt::Error> {
        Self::parse(lexopt::Parser::from_env())
    }

    fn parse(mut parser: lexopt::Parser) -> Result<Request, lexopt::Error> {
        use lexopt::prelude::{Long, Short, ValueExt};
        let mut options = Self::with_defaults();
        let (mut rounds, mut seconds, mut only) = (None, None, None);
        let mut is_quick = false;
        while let Some(argument) = parser.next()? {
            match argument {
                Long("help") | Short('h') => return Ok(Request::Help),
                Long("corvus") => options.corvus = Some(parser.value()?.into()),
                Long("before") => options.before = Some(parser.value()?.into()),
                Long("bare") => options.bare = Some(parser.value()?.into()),
                Long("raven-home") => options.raven_home = parser.value()?.into(),
                Long("raven-version") => options.raven_version = parser.value()?.string()?,
                Long("without-raven") => options.with_raven = false,
                Long("data") => options.data = parser.value()?.into(),
                Long("results") => options.results = parser.value()?.into(),
                Long("disk") => options.modes.push(Mode::Disk),
                Long("tmpfs") => options.modes.push(Mode::Tmpfs),
                Long("indexes") => options.set = Set::Indexes,
                Long("only") => only = Some(parser.value()?.string()?),
                Long("node-client") => options.node_client = Some(parser.value()?.into()),
                Long("rounds") => rounds = Some(parser.value()?.parse::<usize>()?.max(1)),
                Long("seconds") => seconds = Some(parser.value()?.parse::<f64>()?),
                Long("quick") => {
                    options.size = Size::QUICK;
                    is_quick = true;
                }
                _ => return Err(argument.unexpected()),
            }
        }
        (options.works, options.trials) = match only {
            Some(only) => named(options.set, &only)?,
            None => {
                let trials = options.set.trials().iter();
                let trials = trials.filter(|facts| !(is_quick && facts.is_long));
                (options.set.works().iter().collect(), trials.collect())
            }
        };
        options.size.rounds = rounds.unwrap_or(options.size.rounds);
        if let Some(seconds) = seconds {
            options.size.round = Duration::try_from_secs_f64(seconds)
                .map_err(|error| lexopt::Error::Custom(error.into()))?;
        }
        if options.modes.is_empty() {
            options.modes.push(Mode::Disk);
        }
        Ok(Request::Run(Box::new(options)))
    }
}

type Named = (Vec<&'static WorkFacts>, Vec<&'static TrialFacts>);

/// In the order of the table, which is the order in which they are run.
fn named(set: Set, text: &str) -> Result<Named, lexopt::Error> {
    let names: Vec<&str> = text.split(',').collect();
    let works: Vec<_> = set.works().iter().filter(|facts| names.contains(&facts.key)).collect();
    let trials: Vec<_> = set.trials().iter().filter(|facts| names.contains(&facts.key)).collect();
    let is_known = |name: &str| {
        works.iter().any(|facts| facts.key == name) || trials.iter().any(|facts| facts.key == name)
    };
    match names.iter().find(|name| !is_known(name)) {
        Some(name) => Err(lexopt::Error::from(format!("no work or trial is named {name}"))),
        None => Ok((works, trials)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Options, String> {
        match Options::parse(lexopt::Parser::from_args(arguments)) {
            Ok(Request::Run(options)) => Ok(*options),
            Ok(Request::Help) => Err("help".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn lengths_given_win_over_quick_wherever_they_stand() {
        for arguments in [["--rounds=7", "--quick"], ["--quick", "--rounds=7"]] {
            let options = parse(&arguments).unwrap();
            assert_eq!(options.size.rounds, 7);
            assert_eq!(options.size.round, Size::QUICK.round);
        }
        assert!(parse(&["--seconds=-1"]).is_err());
    }

    #[test]
    fn works_keep_the_order_of_the_table() {
        let options = parse(&["--only", "get-one,new-database"]).unwrap();
        let keys: Vec<_> = options.works.iter().map(|facts| facts.key).collect();
        assert_eq!(keys, ["new-database", "get-one"]);
        assert_eq!(
            parse(&["--only", "get-two"]).err().unwrap(),
            "no work or trial is named get-two"
        );
    }

    #[test]
    fn a_set_has_works_of_its_own() {
        let options = parse(&["--only=query-term", "--indexes"]).unwrap();
        assert_eq!(options.works.len(), 1);
        assert!(options.trials.is_empty());
        assert!(parse(&["--only=query-term"]).is_err());
        assert_eq!(parse(&["--indexes"]).unwrap().works.len(), INDEX_WORKS.len());
    }

    #[test]
    fn quick_runs_leave_long_trials_out_unless_they_are_named() {
        let keys = |arguments: &[&str]| -> Vec<_> {
            parse(arguments).unwrap().trials.iter().map(|facts| facts.key).collect()
        };
        assert_eq!(
            keys(&["--quick"]),
            ["start-empty", "compression", "cluster-setup", "cluster-visible", "cluster-exchange"]
        );
        assert_eq!(keys(&["--only=start-large", "--quick"]), ["start-large"]);
        assert_eq!(keys(&[]).len(), TRIALS.len());
    }

    #[test]
    fn the_help_names_every_work_and_trial() {
        for set in [Set::Documents, Set::Indexes] {
            let works = set.works().iter().map(|facts| facts.key);
            for key in works.chain(set.trials().iter().map(|facts| facts.key)) {
                assert!(HELP.contains(key), "{key}");
            }
        }
    }

    #[test]
    fn without_a_mode_it_is_the_disk() {
        assert_eq!(parse(&[]).unwrap().modes, [Mode::Disk]);
        assert_eq!(parse(&["--tmpfs"]).unwrap().modes, [Mode::Tmpfs]);
        assert_eq!(parse(&["--disk", "--tmpfs"]).unwrap().modes, [Mode::Disk, Mode::Tmpfs]);
    }
}
