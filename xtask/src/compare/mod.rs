//! The task `compare`: sends the same random requests to Corvus and to a running RavenDB, and
//! reports differences.
//!
//! Both get a database with the same documents ([`documents`]). Then come cases of four kinds:
//! queries ([`query`]), patches ([`patch`]), definitions of indexes with the terms that they make
//! ([`index`]), and commands and reads of documents ([`commands`]). A case that is answered
//! differently is shrunk as long as it still is, and printed once for all that look alike; intended
//! differences are left out ([`listed`]). After a number of cases both start with a new database,
//! so that one difference does not cause others.
//!
//! Numbers are compared as JSON numbers of 64 bits: trailing zeros, and decimals beyond their precision, are
//! not seen here.

mod answers;
mod case;
mod commands;
mod documents;
mod index;
mod listed;
mod patch;
mod query;
mod servers;

use std::collections::BTreeMap;

use self::{
    case::{Case, Dice},
    servers::Pair,
};
use crate::{Failure, checks::Checks, server_process::ServerProcess, server_process::executable};

/// The number of cases after which both start with a new database.
const CASES_PER_DATABASE: u64 = 400;
/// The maximum number of attempts to shrink a case.
const SMALLER_MAX: usize = 300;
/// Maximum number of printed differences; of further ones, only the count is reported.
const PRINTED_MAX: usize = 100;

/// Sends `count` cases to the built server and to the RavenDB at `peer`.
pub(crate) fn run(peer: &str, seed: u64, count: u64) -> Result<Checks, Failure> {
    let directory = std::env::temp_dir().join(format!("corvus-compare-{}", std::process::id()));
    std::fs::create_dir_all(directory.join("data"))?;
    let (data, log) = (directory.join("data"), directory.join("server.log"));
    let server = ServerProcess::start(&executable()?, &data, &log)?;
    let mut comparison = Comparison::new(Pair::new(&server.url, peer), seed);
    let outcome = comparison.run(count);
    comparison.pair.remove_database();
    let checks = comparison.report();
    server.stop()?;
    outcome?;
    std::fs::remove_dir_all(&directory)?;
    Ok(checks)
}

/// A case and its difference.
struct Difference {
    case: String,
    ours: String,
    theirs: String,
    times: u64,
}

struct Comparison {
    pair: Pair,
    dice: Dice,
    equal: BTreeMap<&'static str, u64>,
    listed: BTreeMap<&'static str, u64>,
    /// By the common form of similar cases.
    found: BTreeMap<String, Difference>,
}

impl Comparison {
    fn new(pair: Pair, seed: u64) -> Comparison {
        let (equal, listed, found) = Default::default();
        Comparison { pair, dice: Dice::new(seed), equal, listed, found }
    }

    fn run(&mut self, count: u64) -> Result<(), Failure> {
        let mut is_changed = true;
        for number in 0..count {
            if number % CASES_PER_DATABASE == 0 || is_changed {
                self.pair.begin(&documents::all(&mut self.dice))?;
            }
            let case = self.any_case();
            is_changed = self.judge(case)? && number + 1 < count;
        }
        Ok(())
    }

    fn any_case(&mut self) -> Box<dyn Case> {
        match self.dice.below(20) {
            0..=10 => Box::new(query::any(&mut self.dice)),
            11..=14 => Box::new(patch::any(&mut self.dice)),
            15..=16 => Box::new(index::any(&mut self.dice)),
            _ => Box::new(commands::any(&mut self.dice)),
        }
    }

    /// `true` when the databases may differ from now on.
    fn judge(&mut self, case: Box<dyn Case>) -> Result<bool, Failure> {
        let kind = case.kind();
        if !self.pair.answers_differ(&*case)? {
            *self.equal.entry(kind).or_default() += 1;
            return Ok(false);
        }
        // Repeating a case that changes documents would not be the same case.
        let is_changed = case.changes_documents();
        let smallest = if is_changed { case } else { self.smallest(case)? };
        let (ours, theirs) = self.pair.last_difference();
        match listed::reason(&smallest.text(), &ours, &theirs) {
            Some(reason) => *self.listed.entry(reason).or_default() += 1,
            None => self.note(&*smallest, ours, theirs),
        }
        Ok(is_changed)
    }

    /// Shrinks a case while the responses still differ.
    fn smallest(&mut self, case: Box<dyn Case>) -> Result<Box<dyn Case>, Failure> {
        let mut smallest = case;
        let mut tries = 0;
        'again: loop {
            for smaller in smallest.smaller() {
                tries += 1;
                if SMALLER_MAX < tries {
                    return Ok(smallest);
                }
                if self.pair.answers_differ(&*smaller)? {
                    smallest = smaller;
                    continue 'again;
                }
            }
            return Ok(smallest);
        }
    }

    fn note(&mut self, case: &dyn Case, ours: String, theirs: String) {
        let text = case.text();
        let found = self.found.entry(alike(&text)).or_insert_with(|| {
            println!("compare: {text}\n  Corvus:  {ours}\n  RavenDB: {theirs}\n");
            Difference { case: text, ours, theirs, times: 0 }
        });
        found.times += 1;
    }

    fn report(&self) -> Checks {
        let mut checks = Checks::default();
        for (kind, count) in &self.equal {
            println!("compare: {kind}: {count} answered alike");
            checks.passed += usize::try_from(*count).unwrap_or(usize::MAX);
        }
        for (reason, count) in &self.listed {
            println!("compare: {count} intentional differences: {reason}");
        }
        for difference in self.found.values().take(PRINTED_MAX) {
            let Difference { case, ours, theirs, times } = difference;
            checks.failures.push(format!("{times} like {case}: {ours} and not {theirs}"));
        }
        let more = self.found.len().saturating_sub(PRINTED_MAX);
        if 0 < more {
            checks.failures.push(format!("and {more} more kinds of difference"));
        }
        checks
    }
}

/// A text without its numbers, and with one word for all texts in quotes.
fn alike(text: &str) -> String {
    let mut alike = String::new();
    let mut quote = None;
    for letter in text.chars() {
        match (quote, letter) {
            (Some(open), _) if open == letter => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => {
                quote = Some(letter);
                alike.push('\'');
            }
            (None, '0'..='9' | '.' | '-') => {}
            (None, _) => alike.push(letter),
        }
    }
    alike
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_with_other_values_look_alike() {
        assert_eq!(alike("where N = -1.5 and S = 'a\"b'"), alike("where N = 20 and S = 'c'"));
        assert_ne!(alike("where N = 1"), alike("where F = 1"));
    }

    #[test]
    fn the_same_seed_makes_the_same_cases() {
        let texts = |seed| {
            let mut comparison = Comparison::new(Pair::new("http://a", "http://b"), seed);
            (0..200).map(|_| comparison.any_case().text()).collect::<Vec<_>>()
        };
        assert_eq!(texts(7), texts(7));
        assert_ne!(texts(7), texts(8));
    }

    #[test]
    fn making_a_case_smaller_comes_to_an_end() {
        let mut comparison = Comparison::new(Pair::new("http://a", "http://b"), 3);
        for _ in 0..500 {
            let mut case = comparison.any_case();
            let mut steps = 0;
            while let Some(smaller) = case.smaller().pop() {
                case = smaller;
                steps += 1;
                assert!(steps < 1000, "{}", case.text());
            }
        }
    }
}
