//! The facade as an embedding program calls it, on threads that block.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod backup_chains;
mod backup_deletions;
mod backup_schedules;
mod backups;
mod bulk_insert;
mod bulk_operations;
mod cluster_transactions;
mod configuration;
mod content_upload;
mod etl;
mod hooked_disk;
mod index_definitions;
mod index_wait;
mod replicated_contents;
mod server_wide_backups;
mod snapshot_backups;
mod subscriptions;

use std::sync::mpsc;

use database::{Access, DatabaseLease, NewDatabase};
use engine::Engine;
use model::DatabaseName;
use platform::Platform;
use settings::{Inputs, Settings, Start};

fn settings() -> Settings {
    settings_with(&[])
}

fn settings_with(arguments: &[&str]) -> Settings {
    let inputs = Inputs {
        arguments: ["--DataDir=/data"].iter().chain(arguments).map(Into::into).collect(),
        environment: Vec::new(),
        read_file: &|_| Err(std::io::ErrorKind::NotFound.into()),
    };
    match settings::load(inputs).unwrap() {
        Start::Serve(loaded) => loaded.settings,
        other => panic!("{other:?}"),
    }
}

/// An engine in memory, with a database.
fn with_database() -> (Engine, DatabaseLease) {
    with_database_on(Platform::memory())
}

fn with_database_on(platform: Platform) -> (Engine, DatabaseLease) {
    with_database_of(settings(), platform)
}

fn with_database_of(settings: Settings, platform: Platform) -> (Engine, DatabaseLease) {
    let engine = Engine::open(settings, platform).unwrap();
    let new = NewDatabase {
        topology: None,
        name: DatabaseName::new("db").unwrap(),
        disabled: false,
        body: br#"{"DatabaseName":"db"}"#.to_vec(),
        request_id: None,
    };
    engine.create_database(new).unwrap();
    let database = open(&engine);
    (engine, database)
}

fn open(engine: &Engine) -> DatabaseLease {
    loop {
        match engine.access("db").unwrap() {
            Access::Ready(lease) => return lease,
            Access::Wait(ticket) => {
                let (sender, receiver) = mpsc::channel();
                ticket.on_arrival(move |arrival| drop(sender.send(arrival))).unwrap();
                receiver.recv().unwrap().unwrap();
            }
        }
    }
}
