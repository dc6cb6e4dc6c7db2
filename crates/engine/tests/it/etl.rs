//! ETL tasks while their database is closed, opened, replaced, and while their definition changes.

use std::{
    path::Path,
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};

use database::TombstoneNeed;
use engine::{
    Cancel, Outbound, OutboundAnswer, OutboundError, OutboundRequest, OutboundStream, StillWanted,
};
use serde_json::{Value, json};
use wire::ConnectionString;

use crate::backup_chains::{Bench, FILES, adopt, copy, object};

/// No answer of the engine takes longer, and no pause of a task in these tests.
const TIME_MAX: Duration = Duration::from_secs(30);

/// A destination whose answers the test decides, one request after another.
struct Destination {
    arrived: mpsc::Receiver<String>,
    statuses: mpsc::Sender<u16>,
}

struct Link {
    arrived: Mutex<mpsc::Sender<String>>,
    statuses: Mutex<mpsc::Receiver<u16>>,
}

impl Outbound for Link {
    fn send(
        &self,
        request: OutboundRequest,
        cancel: &Cancel,
    ) -> Result<OutboundAnswer, OutboundError> {
        if request.method == "GET" {
            return Ok(OutboundAnswer { status: 200, body: b"{}".to_vec() });
        }
        let body = String::from_utf8_lossy(&request.body).into_owned();
        drop(self.arrived.lock().unwrap().send(body));
        let statuses = self.statuses.lock().unwrap();
        while !cancel.is_canceled() {
            match statuses.recv_timeout(Duration::from_millis(20)) {
                Ok(status) => return Ok(OutboundAnswer { status, body: b"{}".to_vec() }),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
        }
        Err(OutboundError::Canceled)
    }

    fn open(&self, _: OutboundRequest, _: StillWanted) -> Result<OutboundStream, OutboundError> {
        Err(OutboundError::Failed { message: "tasks open nothing".to_owned() })
    }
}

impl Destination {
    fn of(bench: &Bench) -> Destination {
        let ((arrived, receiver), (sender, statuses)) = (mpsc::channel(), mpsc::channel());
        let link = Link { arrived: Mutex::new(arrived), statuses: Mutex::new(statuses) };
        bench.engine.set_outbound(Arc::new(link));
        bench.engine.follow_etl();
        Destination { arrived: receiver, statuses: sender }
    }

    /// Waits for a request that has this text.
    fn expect(&self, text: &str) {
        let body = self.arrived.recv_timeout(TIME_MAX).unwrap_or_else(|_| panic!("no {text}"));
        assert!(body.contains(text), "{body}");
    }

    fn answer(&self, status: u16) {
        self.statuses.send(status).unwrap();
    }
}

fn bench() -> Bench {
    let bench = Bench::new(json!({"Disabled": true}));
    let string = json!({
        "Type": "Raven", "Name": "to", "Database": "d", "TopologyDiscoveryUrls": ["http://d:1"]
    });
    let string = ConnectionString::read(&object(string)).unwrap();
    bench.engine.put_connection_string("db", &string).unwrap();
    bench
}

/// Defines the task with transformations of these collections, each of which has the name of its own.
fn define(bench: &Bench, collections: &[&str], replaced: Option<u64>) -> u64 {
    let transforms: Vec<Value> =
        collections.iter().map(|name| json!({"Name": name, "Collections": [name]})).collect();
    let task = json!({
        "EtlType": "Raven", "Name": "t", "ConnectionStringName": "to", "Transforms": transforms
    });
    bench.engine.put_etl_task("db", &object(task), replaced, &[]).unwrap().id
}

fn put(bench: &Bench, id: &str) {
    bench.put(id, r#"{"@metadata":{"@collection":"Users"}}"#);
}

/// Closes the database, as after some idle time.
fn close(bench: &Bench) {
    while bench.engine.if_open("db").is_some() {
        bench.engine.maintain(0);
        std::thread::yield_now();
    }
}

fn wait_until(is_so: impl Fn() -> bool) {
    for _ in 0..10_000_000 {
        if is_so() {
            return;
        }
        std::thread::yield_now();
    }
    panic!("it does not come about");
}

#[test]
fn a_transformation_that_failed_is_tried_again_although_the_others_are_done_and_the_database_is_closed()
 {
    let bench = bench();
    define(&bench, &["Nothing", "Users"], None);
    let destination = Destination::of(&bench);
    put(&bench, "u/1");
    destination.expect("u/1");
    destination.answer(503);
    close(&bench);
    bench.clock.advance(Duration::from_secs(1));
    destination.expect("u/1");
    destination.answer(201);
}

#[test]
fn what_is_written_while_a_batch_is_sent_is_sent_although_the_database_was_closed() {
    let bench = bench();
    define(&bench, &["Users"], None);
    let destination = Destination::of(&bench);
    put(&bench, "u/1");
    destination.expect("u/1");
    put(&bench, "u/2");
    close(&bench);
    destination.answer(201);
    destination.expect("u/2");
    // Others have opened it meanwhile, and it is closed again.
    close(&bench);
    put(&bench, "u/3");
    close(&bench);
    destination.answer(201);
    destination.expect("u/3");
    destination.answer(201);
    // It is done with the database, leaves it closed, and follows what others do with it.
    let stays_closed = || {
        close(&bench);
        let nothing_arrives = destination.arrived.recv_timeout(Duration::from_millis(300)).is_err();
        nothing_arrives && bench.engine.if_open("db").is_none()
    };
    assert!((0..10).any(|_| stays_closed()), "it is opened again and again");
    close(&bench);
    put(&bench, "u/4");
    close(&bench);
    bench.engine.follow_etl();
    destination.expect("u/4");
    destination.answer(201);
}

#[test]
fn a_failure_after_which_there_is_nothing_to_send_is_over() {
    let mut bench = bench();
    let id = define(&bench, &["Users"], None);
    let destination = Destination::of(&bench);
    put(&bench, "u/1");
    destination.expect("u/1");
    destination.answer(201);
    let statistics = |bench: &Bench| {
        let record = bench.engine.record("db").unwrap();
        bench.engine.etl_statistics(&record, id).unwrap().transforms[0].1.clone()
    };
    wait_until(|| statistics(&bench).loaded == 1);
    let aside = Path::new("/aside");
    bench.while_stopped(|platform| platform.disk.rename(Path::new(FILES), aside).unwrap());
    // A file is where the directory of the database should be.
    let blocked = bench.platform.disk.create(Path::new(FILES), platform::Access::Buffered);
    drop(blocked.unwrap());
    let _destination = Destination::of(&bench);
    wait_until(|| statistics(&bench).is_failing);
    bench.platform.disk.remove_file(Path::new(FILES)).unwrap();
    bench.platform.disk.rename(aside, Path::new(FILES)).unwrap();
    bench.clock.advance(Duration::from_secs(3600));
    wait_until(|| !statistics(&bench).is_failing);
    assert_eq!(statistics(&bench).retry_ticks, None);
}

/// Up to where transformations have sent deletions of documents, by their names.
fn known(bench: &Bench) -> Vec<(String, u64)> {
    let needs = bench.database("db").tombstone_needs();
    let is_it = |need: &&TombstoneNeed| {
        need.process == "RavenEtl" && need.kind == documents::TombstoneKind::Documents
    };
    needs.iter().filter(is_it).map(|need| (need.holder.clone(), need.known.0)).collect()
}

#[test]
fn after_older_files_were_adopted_a_task_needs_all_deletions_before_it_has_run() {
    let mut bench = bench();
    define(&bench, &["Users"], None);
    put(&bench, "u/1");
    bench.while_stopped(|platform| copy(&*platform.disk, Path::new(FILES), Path::new("/copy")));
    let destination = Destination::of(&bench);
    destination.expect("u/1");
    destination.answer(201);
    put(&bench, "u/2");
    destination.expect("u/2");
    destination.answer(201);
    wait_until(|| known(&bench) != [("t/Users".to_owned(), 0)]);
    wait_until(|| known(&bench)[0].1 == 2);
    bench.while_stopped(|platform| {
        platform.disk.remove_dir_all(Path::new(FILES)).unwrap();
        copy(&*platform.disk, Path::new("/copy"), Path::new(FILES));
        adopt(platform);
    });
    put(&bench, "u/3");
    assert_eq!(known(&bench), [("t/Users".to_owned(), 0)], "nothing was sent of these files");
}

#[test]
fn a_transformation_that_is_added_again_begins_with_the_first_change() {
    let bench = bench();
    let both = define(&bench, &["Users", "Others"], None);
    let destination = Destination::of(&bench);
    put(&bench, "u/1");
    destination.expect("u/1");
    destination.answer(201);
    wait_until(|| known(&bench)[0].1 == 1);
    let one = define(&bench, &["Others"], Some(both));
    let again = define(&bench, &["Users", "Others"], Some(one));
    // It begins once the process of the former definition has ended.
    wait_until(|| {
        bench.engine.follow_etl();
        let record = bench.engine.record("db").unwrap();
        bench.engine.etl_statistics(&record, again).is_some()
    });
    destination.expect("u/1");
    destination.answer(201);
}
