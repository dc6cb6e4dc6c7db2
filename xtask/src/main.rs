//! xtask: checks and drills of this repository, run as `cargo xtask <task>`.
//!
//! Not part of the server: it reads the sources and drives the built executable from outside. Each
//! task ends with a line `<task>: N passed, N failed` and fails when anything failed.

#![forbid(unsafe_code)]
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a development tool: it reads the sources, starts processes and talks to a terminal"
)]

mod architecture;
mod checks;
mod cluster;
mod cluster_faults;
mod compare;
mod consistency;
mod content_hash;
mod control_group;
mod crash;
mod descriptors;
mod drill_database;
mod golden;
mod http_client;
mod identity;
mod import_cycles;
mod insert_oracle;
mod io_sweep;
mod kill;
mod layers;
mod loop_disk;
mod memory;
mod pages;
mod panics;
mod patience;
mod random;
mod record;
mod reliability;
mod rot;
mod server_cuts;
mod server_process;
mod soak;
mod sources;
mod writer_oracle;

use std::{path::PathBuf, process::ExitCode};

use testkit::database::AtRest;

use crate::checks::Checks;

const USAGE: &str = "\
cargo xtask layers                  compare the crates with docs/layers.toml, and check the rules for sources
cargo xtask docs                    check links, the summary, the dependency list and the README
cargo xtask reliability             write docs/reliability.md from docs/reliability.toml
cargo xtask crash <n> [seed]        n simulated power cuts over random histories; 1 <seed> repeats one
cargo xtask server-cuts <n> [seed]  n histories with power cuts under a whole server: subscriptions' positions,
                                    cluster-wide transactions
cargo xtask cluster <n> [seed]      n clusters of several nodes in virtual time, with faults of disks, networks and
                                    machines; 1 <seed> repeats one, and cluster show <seed> prints what happens
cargo xtask io-sweep                every single I/O operation of six scenarios fails
cargo xtask rot <n> [seed]          n single bits flip in data and journal files
                                    crash, io-sweep and rot: with --encrypted on an encrypted database
cargo xtask kill <n> [seed]         kill -9 the built server n times under concurrent writes;
                                    CORVUS_TEST_SERVER names the executable
cargo xtask identity <n> [--seed n] n histories in which files of stopped servers are swapped, removed, truncated or
                                    restored; the server rejects them with a reason, or its data is correct
cargo xtask powercut <n> [seed]     the same with power cuts of a file system, where supported
cargo xtask consistency <n> [seed]  n operations of many clients, with kill -9; their history is
                                    checked: isolation, lost updates, linearizability
cargo xtask cluster-faults <time> [seed]  three servers in network namespaces (needs root): partitions, loss, slow links,
                                    resets, kill -9, pauses, full disks, wrong clocks; the histories of clients of all
                                    nodes are checked. <time> is 10m or 90s
cargo xtask memory [minutes [step…]] every memory-intensive load at once, against the built server with 256 MB,
                                    where a control group can be created; other databases must remain responsive
cargo xtask compare <url> <seed> <n> n random queries, patches, definitions of indexes and commands to the built
                                    server and to the RavenDB at url; prints the differences, shrunk
cargo xtask descriptors             the built server with few file descriptors
cargo xtask soak <minutes>          a mixed load at a modest rate against the built server, whose memory, descriptors,
                                    threads, disk, journals and tombstones must be flat after a warm-up
cargo xtask content-hash <file>…    hashes of the content of dumps and backups; fails if they differ
cargo xtask golden <name>           store data directories of the built server as text, for a new format";

/// The option of drills that also run on encrypted databases.
const ENCRYPTED: &str = "--encrypted";

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // Options may be anywhere.
    let (options, arguments): (Vec<&str>, Vec<&str>) =
        arguments.iter().map(String::as_str).partition(|word| *word == ENCRYPTED);
    let at_rest = if options.is_empty() { AtRest::Plain } else { AtRest::Encrypted };
    let checks = match arguments.as_slice() {
        ["layers"] => architecture::check(&root()),
        ["docs"] => pages::check(&root()),
        ["reliability"] => reliability::write(&root()),
        ["crash", cuts] => parse(cuts).and_then(|cuts| crash::run(at_rest, cuts, None)),
        ["crash", cuts, seed] => {
            parse(cuts).and_then(|cuts| crash::run(at_rest, cuts, Some(parse(seed)?)))
        }
        ["server-cuts", count] => parse(count).and_then(|count| server_cuts::run(count, None)),
        ["server-cuts", count, seed] => {
            parse(count).and_then(|count| server_cuts::run(count, Some(parse(seed)?)))
        }
        ["cluster", "show", seed] => parse(seed).and_then(cluster::show),
        ["cluster", count] => parse(count).and_then(|count| cluster::simulate(count, 1)),
        ["cluster", count, seed] => {
            parse(count).and_then(|count| cluster::simulate(count, parse(seed)?))
        }
        ["io-sweep"] => io_sweep::run(at_rest),
        ["rot", flips] => parse(flips).and_then(|flips| rot::run(at_rest, flips, 1)),
        ["rot", flips, seed] => {
            parse(flips).and_then(|flips| rot::run(at_rest, flips, parse(seed)?))
        }
        ["consistency", count] => parse(count).and_then(|count| consistency::run(count, None)),
        ["consistency", count, seed] => {
            parse(count).and_then(|count| consistency::run(count, Some(parse(seed)?)))
        }
        ["cluster-faults", time] => {
            cluster_faults::parse_time(time).and_then(|time| cluster_faults::run(time, None))
        }
        ["cluster-faults", time, seed] => cluster_faults::parse_time(time)
            .and_then(|time| cluster_faults::run(time, Some(parse(seed)?))),
        ["memory"] => memory::run(None, &[]),
        ["memory", minutes, steps @ ..] => {
            parse(minutes).and_then(|minutes| memory::run(Some(minutes), steps))
        }
        ["compare", peer, seed, count] => parse(seed)
            .and_then(|seed| parse(count).and_then(|count| compare::run(peer, seed, count))),
        ["identity", count] => parse(count).and_then(|count| identity::run(count, None)),
        ["identity", count, "--seed", seed] => {
            parse(count).and_then(|count| identity::run(count, Some(parse(seed)?)))
        }
        ["descriptors"] => descriptors::run(),
        ["soak", minutes] => parse(minutes).and_then(soak::run),
        ["content-hash", files @ ..] if !files.is_empty() => content_hash::run(files),
        ["golden", name] => golden::write(&root(), name),
        ["record", topics @ ..] => record::run(&root(), topics),
        ["kill", times] => parse(times).and_then(|times| kill::run(times, None)),
        ["kill", times, seed] => {
            parse(times).and_then(|times| kill::run(times, Some(parse(seed)?)))
        }
        ["powercut", times] => parse(times).and_then(|times| kill::run_power_cuts(times, None)),
        ["powercut", times, seed] => {
            parse(times).and_then(|times| kill::run_power_cuts(times, Some(parse(seed)?)))
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match checks {
        Ok(checks) => report(arguments[0], &checks),
        Err(error) => {
            eprintln!("{}: {error}", arguments[0]);
            ExitCode::from(2)
        }
    }
}

fn parse(number: &str) -> Result<u64, Failure> {
    number.parse().map_err(|error| format!("'{number}' is not a number: {error}").into())
}

/// The folder of the workspace in which `cargo xtask` was called: a build folder may be shared between
/// clones, so the path at compile time is not meaningful.
fn root() -> PathBuf {
    let compiled_in = env!("CARGO_MANIFEST_DIR").into();
    let mut root = std::env::var_os("CARGO_MANIFEST_DIR").map_or(compiled_in, PathBuf::from);
    root.pop();
    root
}

fn report(task: &str, checks: &Checks) -> ExitCode {
    for failure in &checks.failures {
        println!("FAILED: {failure}");
    }
    println!("{task}: {} passed, {} failed", checks.passed, checks.failures.len());
    if checks.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
