//! driver: loads Corvus and RavenDB in one run, and prints their figures side by side.
//!
//! Processor time that the driver uses is not available to the server, so the load comes from one
//! thread with prepared requests, and its cost is measured and printed too.
//!
//! Reading order: works, trials (what is done) → contest (rounds, interleaved) → server, process
//! (what is measured) → load, users, bulk_insert, stream_read (how) → connection, answer (HTTP) →
//! limits (targets).

#![forbid(unsafe_code)]

mod answer;
mod bulk_insert;
mod connection;
mod contest;
mod data_files;
mod error;
mod generated;
mod limits;
mod load;
mod memory_watch;
mod node_client;
mod options;
mod outcome;
mod points;
mod process;
mod server;
mod stream_read;
mod trials;
mod users;
mod works;

use std::process::ExitCode;

use tokio::{
    signal::unix::{SignalKind, signal},
    task::LocalSet,
};

use crate::options::{HELP, Options, Request};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let options = match Options::from_arguments() {
        Ok(Request::Run(options)) => options,
        Ok(Request::Help) => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("driver: {error}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    let tasks = LocalSet::new();
    tokio::select! {
        // Dropping the run kills the servers and removes their data.
        () = stop_signal() => ExitCode::from(130),
        all_measured = tasks.run_until(contest::run(&options)) => match all_measured {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(error) => {
                eprintln!("driver: {error}");
                ExitCode::FAILURE
            }
        },
    }
}

async fn stop_signal() {
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}
