//! The task `identity`: files of a stopped server are swapped, removed, truncated, or replaced by
//! those of an earlier moment, another database or another server. After a restart, the server
//! rejects them with a reason, or its data is correct.
//!
//! A history is one seed: two servers with two databases each, whose journals are next to their
//! data files or elsewhere, are written to by one client. In some of them a database is deleted
//! with its files while its server is killed, and created again. Then the servers are stopped
//! (cleanly, or with `kill -9`), tampered with, started and judged against what they acknowledged;
//! then they are written to once more, stopped, started and judged again. Nothing may be wrong or
//! silently missing. Tampering that no server could detect is listed in [`tampering::Blind`], and
//! is counted by its name.

mod deletion;
mod judgement;
mod model;
mod stage;
mod tampering;

use std::collections::BTreeMap;

use self::{judgement::Verdict, stage::Stage, tampering::Tampering};
use crate::{Failure, checks::Checks, random::Random, server_process::executable};

/// Writes of each phase, at most.
const WRITES_MAX: u64 = 30;

/// Runs the given number of histories, the first with this seed.
pub(crate) fn run(count: u64, seed: Option<u64>) -> Result<Checks, Failure> {
    let executable = executable()?;
    let first = seed.unwrap_or_else(|| Random::fresh_seed() >> 32);
    let directory = std::env::temp_dir().join(format!("corvus-identity-{}", std::process::id()));
    println!("identity: {count} histories, seed {first}");
    let mut checks = Checks::default();
    let mut verdicts: BTreeMap<String, u64> = BTreeMap::new();
    for seed in first..first + count {
        let place = directory.join(seed.to_string());
        let mut stage = Stage::new(&executable, &place)?;
        let verdict = play(&mut stage, &mut Random::new(seed));
        let changed = stage.tampering();
        let steps = stage.take_steps();
        drop(stage);
        let verdict = verdict.map_err(|error| {
            format!("seed {seed} could not be run: {error}\n  {}", steps.join("\n  "))
        })?;
        *verdicts.entry(verdict.name()).or_default() += 1;
        checks.that(!verdict.is_violation(), || {
            format!("seed {seed}: {verdict}\n  {}", steps.join("\n  "))
        });
        match verdict.is_violation() {
            true => println!("identity: seed {seed}: {changed}: {verdict}"),
            false => std::fs::remove_dir_all(&place)?,
        }
    }
    for (name, count) in &verdicts {
        println!("identity: {count} times {name}");
    }
    match checks.failures.is_empty() {
        true => std::fs::remove_dir_all(&directory)?,
        false => println!("identity: the files are kept in {}", directory.display()),
    }
    Ok(checks)
}

/// One history.
fn play(stage: &mut Stage, random: &mut Random) -> Result<Verdict, Failure> {
    stage.create_databases(random)?;
    stage.write(random, WRITES_MAX)?;
    stage.end(random)?;
    stage.remember()?;
    stage.start()?;
    stage.write(random, WRITES_MAX)?;
    if random.below(3) == 0 {
        let verdict = stage.delete_and_create_again(random)?;
        if verdict.is_violation() {
            return Ok(verdict);
        }
        stage.write(random, WRITES_MAX / 3)?;
    }
    stage.end(random)?;
    let tampering = Tampering::draw(stage, random)?;
    stage.note_tampering(&tampering);
    tampering.perform(stage)?;
    let mut verdict = stage.judge(Some(&tampering))?;
    // Rejected files are not changed, and correct data remains correct after further writes.
    if verdict.is_right() {
        verdict = verdict.and(stage.write_on(random, WRITES_MAX / 3)?);
    }
    if verdict.is_violation() || !(verdict.is_right() || tampering.is_absence()) {
        return Ok(verdict);
    }
    stage.end(random)?;
    if tampering.is_absence() {
        stage.note("what was taken away is back".to_owned());
        tampering.undo(stage)?;
    }
    Ok(verdict.and(stage.judge(Some(&tampering))?))
}
