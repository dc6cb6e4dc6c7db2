//! engines: Corvus's storage compared with other embedded engines and the bare disk, in one
//! process.
//!
//! Reading order: works (what is done) → contest (rounds, in turns) → engine (who does it) → group
//! (64 writers made into one) → limits (what is wanted).

mod contest;
mod engine;
mod entries;
mod group;
mod limits;
mod options;
mod works;

use std::process::ExitCode;

use crate::options::{HELP, Options, Request};

fn main() -> ExitCode {
    let options = match Options::from_arguments() {
        Ok(Request::Run(options)) => options,
        Ok(Request::Help) => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("engines: {error}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match contest::run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("engines: {error}");
            ExitCode::FAILURE
        }
    }
}
