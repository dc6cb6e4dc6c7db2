//! The two servers, with a database of the same name on each.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{
    answers::{Shown, comparable, is_counted, where_they_differ},
    case::{Case, Exchange},
};
use crate::{
    Failure,
    drill_database::create_database,
    http_client::{Answer, HttpClient},
};

/// How long an index may take to count its failures, and how often it is polled.
const COUNTING_TIME_MAX: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(20);

/// Both servers, with the connections to them.
pub(super) struct Pair {
    ours: Server,
    theirs: Server,
    database: String,
    databases: u64,
    last: (String, String),
}

struct Server {
    url: String,
    client: Option<HttpClient>,
}

impl Server {
    fn new(url: &str) -> Server {
        Server { url: url.to_owned(), client: None }
    }

    /// The compared part of its response.
    fn ask(&mut self, database: &str, exchange: &Exchange) -> Result<String, Failure> {
        let began = Instant::now();
        loop {
            let answer = self.send(database, exchange)?;
            let is_ready = exchange.shown != Shown::Counted || is_counted(&answer);
            // An index that never counts its failures is compared in its current state.
            if is_ready || COUNTING_TIME_MAX < began.elapsed() {
                return Ok(comparable(&answer, exchange.shown));
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn send(&mut self, database: &str, exchange: &Exchange) -> Result<Answer, Failure> {
        let path = format!("/databases/{database}{}", exchange.path);
        let body = exchange.body.as_ref().map(Value::to_string).unwrap_or_default();
        // If the server closed the connection after its last response, retries on a new one.
        for is_last in [false, true] {
            let mut client = match self.client.take() {
                Some(client) => client,
                None => HttpClient::connect(&self.url)?,
            };
            match client.send(exchange.method, &path, body.as_bytes()) {
                Ok(answer) => {
                    self.client = Some(client);
                    return Ok(answer);
                }
                Err(error) if is_last => {
                    return Err(format!("{}: {path}: {error}", self.url).into());
                }
                Err(_) => {}
            }
        }
        unreachable!("the second try returns")
    }

    fn remove(&mut self, database: &str) -> Result<(), Failure> {
        let body = json!({"DatabaseNames": [database], "HardDelete": true}).to_string();
        HttpClient::connect(&self.url)?.send("DELETE", "/admin/databases", body.as_bytes())?;
        Ok(())
    }
}

impl Pair {
    pub(super) fn new(ours: &str, theirs: &str) -> Pair {
        let (database, databases, last) = Default::default();
        Pair { ours: Server::new(ours), theirs: Server::new(theirs), database, databases, last }
    }

    /// Creates a new database with these documents on both servers.
    pub(super) fn begin(&mut self, documents: &[(String, Value)]) -> Result<(), Failure> {
        self.remove_database();
        self.database = format!("compare-{}-{}", std::process::id(), self.databases);
        self.databases += 1;
        let put = |(id, document): &(String, Value)| json!({"Id": id, "Type": "PUT", "ChangeVector": null, "Document": document});
        let commands: Vec<_> = documents.iter().map(put).collect();
        let body = json!({"Commands": commands}).to_string();
        for server in [&mut self.ours, &mut self.theirs] {
            create_database(&server.url, &self.database)?;
            let path = format!("/databases/{}/bulk_docs", self.database);
            let answer = HttpClient::connect(&server.url)?.send("POST", &path, body.as_bytes())?;
            if answer.status != 201 {
                return Err(format!("{}: {}", server.url, answer.described()).into());
            }
        }
        Ok(())
    }

    /// Removes the database of the last start. If that fails, it is left for the user.
    pub(super) fn remove_database(&mut self) {
        if !self.database.is_empty() {
            drop(self.ours.remove(&self.database));
            drop(self.theirs.remove(&self.database));
        }
    }

    /// Sends the case to both servers; returns whether the responses differ.
    pub(super) fn answers_differ(&mut self, case: &dyn Case) -> Result<bool, Failure> {
        let mut different = None;
        // All requests, also after a difference: both databases must have the same state
        // afterwards.
        for exchange in case.exchanges() {
            let ours = self.ours.ask(&self.database, &exchange)?;
            let theirs = self.theirs.ask(&self.database, &exchange)?;
            if ours != theirs && different.is_none() {
                different = Some(where_they_differ(&ours, &theirs));
            }
        }
        let differ = different.is_some();
        self.last = different.unwrap_or_else(|| std::mem::take(&mut self.last));
        Ok(differ)
    }

    /// The last two responses that differed, from their first difference.
    pub(super) fn last_difference(&self) -> (String, String) {
        self.last.clone()
    }
}
