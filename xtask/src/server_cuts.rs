//! The task `server-cuts`: power cuts under a whole server in one process, see
//! `crates/server/tests/it/power_cuts.rs`. Runs more histories of the same test.

use std::process::Command;

use crate::{Failure, checks::Checks};

/// Runs `histories` histories of each kind, the first one from `seed`.
pub(crate) fn run(histories: u64, seed: Option<u64>) -> Result<Checks, Failure> {
    let seed = seed.unwrap_or(1);
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["test", "--release", "--package", "server", "--test", "it", "--", "power_cuts"])
        .env("SERVER_POWER_CUTS", histories.to_string())
        .env("SERVER_POWER_CUTS_SEED", seed.to_string())
        .status()?;
    let mut checks = Checks::default();
    match status.success() {
        true => checks.passed += usize::try_from(histories).unwrap_or(usize::MAX),
        false => checks.failures.push(format!("histories from seed {seed}: {status}")),
    }
    Ok(checks)
}
