//! Two servers with their data directories, and what each database has acknowledged.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::{
    judgement::{self, Verdict},
    model::Model,
    tampering::{Blind, Tampering, copy, remove},
};
use crate::{
    Failure,
    http_client::{Answer, HttpClient},
    random::Random,
    server_process::ServerProcess,
};

/// The databases of each server.
pub(crate) const DATABASES: [&str; 2] = ["one", "two"];
/// Ids of documents, and numbers in them.
const DOCUMENTS: u64 = 12;
pub(crate) const NUMBERS: u64 = 4;
const KEYS: u64 = 3;
const WITH_GUARDS: (&str, &str) = ("Raven-Client-Version", "5.4.0");

/// The directory of journals that are not next to their data file.
const JOURNALS: &str = "Journals";
/// The prefix of the error of a request that was rejected because of the server's state.
const REFUSED: &str = "refused ";

/// Both servers. Only the first one is tampered with; the other one is a source of foreign files.
pub(crate) struct Stage {
    executable: PathBuf,
    place: PathBuf,
    servers: [Option<ServerProcess>; 2],
    pub(crate) models: [Vec<Model>; 2],
    /// The state of the first server when it was copied.
    pub(crate) earlier: Vec<Model>,
    steps: Vec<String>,
    journals: Journals,
    /// Which databases of the first server were deleted and created again since it was copied.
    pub(crate) is_new_since_copy: Vec<bool>,
    tampering: String,
}

/// Where the journals of the databases are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Journals {
    /// Next to the data file.
    Inside,
    /// Each record names a directory of its own.
    Apart,
    /// All records name the same directory.
    Shared,
}

impl Stage {
    pub(crate) fn new(executable: &Path, place: &Path) -> Result<Self, Failure> {
        fs::create_dir_all(place)?;
        let models = [0, 1].map(|_| vec![Model::default(); DATABASES.len()]);
        let mut stage = Self {
            executable: executable.to_owned(),
            place: place.to_owned(),
            servers: [None, None],
            models,
            earlier: Vec::new(),
            steps: Vec::new(),
            journals: Journals::Inside,
            is_new_since_copy: vec![false; DATABASES.len()],
            tampering: String::new(),
        };
        stage.start()?;
        Ok(stage)
    }

    pub(crate) fn data(&self, server: usize) -> PathBuf {
        self.place.join(format!("server-{server}"))
    }

    pub(crate) fn remembered(&self, server: usize) -> PathBuf {
        self.place.join(format!("earlier-{server}"))
    }

    pub(crate) fn away(&self) -> PathBuf {
        self.place.join("away")
    }

    pub(crate) fn note(&mut self, step: String) {
        self.steps.push(step);
    }

    pub(crate) fn note_tampering(&mut self, tampering: &Tampering) {
        self.tampering = tampering.to_string();
        self.note(format!("tampering: {tampering}"));
    }

    /// The changes made to the files.
    pub(crate) fn tampering(&self) -> String {
        self.tampering.clone()
    }

    pub(crate) fn take_steps(&mut self) -> Vec<String> {
        std::mem::take(&mut self.steps)
    }

    /// Starts both servers, neither of which may be rejected.
    pub(crate) fn start(&mut self) -> Result<(), Failure> {
        for server in [0, 1] {
            self.try_start(server)?;
        }
        Ok(())
    }

    pub(super) fn try_start(&mut self, server: usize) -> Result<(), Failure> {
        let (data, log) = (self.data(server), self.log(server));
        self.servers[server] = Some(ServerProcess::start(&self.executable, &data, &log)?);
        Ok(())
    }

    fn log(&self, server: usize) -> PathBuf {
        self.place.join(format!("server-{server}.log"))
    }

    /// Stops or kills both servers. A server that did not start is skipped.
    pub(crate) fn end(&mut self, random: &mut Random) -> Result<(), Failure> {
        for server in [0, 1] {
            let is_killed = random.below(2) == 0;
            let Some(process) = self.servers[server].take() else { continue };
            self.note(format!("server {server}: {}", if is_killed { "kill -9" } else { "stop" }));
            if is_killed { process.kill() } else { process.stop() }?;
        }
        Ok(())
    }

    /// Copies the current files of the servers.
    pub(crate) fn remember(&mut self) -> Result<(), Failure> {
        for server in [0, 1] {
            let remembered = self.remembered(server);
            remove(&remembered)?;
            copy(&self.data(server), &remembered)?;
        }
        self.earlier = self.models[0].clone();
        self.is_new_since_copy = vec![false; DATABASES.len()];
        Ok(())
    }

    /// Kills a server.
    pub(super) fn kill(&mut self, server: usize) -> Result<(), Failure> {
        self.servers[server].take().ok_or("the server does not run")?.kill()
    }

    /// Where a server listens.
    pub(super) fn url(&self, server: usize) -> Result<String, Failure> {
        let process = self.servers[server].as_ref().ok_or("the server does not run")?;
        Ok(process.url.clone())
    }

    fn client(&self, server: usize) -> Result<HttpClient, Failure> {
        Ok(HttpClient::connect(&self.url(server)?)?)
    }

    pub(crate) fn ask(
        &self,
        server: usize,
        (method, path): (&str, &str),
        body: &Value,
    ) -> Result<Answer, Failure> {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let mut client = self.client(server)?;
        Ok(client.send_with(method, path, &[WITH_GUARDS], &body)?)
    }

    /// Sends a request that must succeed. Returns its response.
    fn do_request(
        &self,
        server: usize,
        request: (&str, &str),
        body: &Value,
    ) -> Result<Value, Failure> {
        let answer = self.ask(server, request, body)?;
        if !(200..300).contains(&answer.status) {
            let kind = if answer.status < 500 { "" } else { REFUSED };
            return Err(format!("{kind}{request:?}: {}", answer.described()).into());
        }
        Ok(serde_json::from_slice(&answer.body).unwrap_or(Value::Null))
    }

    /// In some histories journals are in another directory than their data file.
    pub(crate) fn create_databases(&mut self, random: &mut Random) -> Result<(), Failure> {
        self.journals = match random.below(8) {
            0..=1 => Journals::Apart,
            2 => Journals::Shared,
            _ => Journals::Inside,
        };
        self.note(format!("journals: {:?}", self.journals));
        for server in [0, 1] {
            for name in DATABASES {
                let created = self.create_database(server, name)?;
                if created != 201 {
                    return Err(format!("the creation of '{name}' returned {created}").into());
                }
            }
            self.write_to(server, random, 5)?;
        }
        Ok(())
    }

    /// Creates a database with its indexes. Returns the status of the response, 409 if it exists.
    pub(super) fn create_database(&mut self, server: usize, name: &str) -> Result<u16, Failure> {
        let all = self.data(server).join(JOURNALS);
        let settings = match self.journals {
            Journals::Inside => json!({}),
            Journals::Apart => json!({"Storage.JournalsPath": all.join(name)}),
            Journals::Shared => json!({"Storage.JournalsPath": all}),
        };
        let record = json!({"DatabaseName": name, "Settings": settings});
        let path = format!("/admin/databases?name={name}&replicationFactor=1");
        let answer = self.ask(server, ("PUT", &path), &record)?;
        match answer.status {
            409 => return Ok(409),
            201 => {}
            _ => return Err(format!("'{name}' cannot be created: {}", answer.described()).into()),
        }
        let indexes = json!({"Indexes": judgement::indexes()});
        let path = format!("/databases/{name}/admin/indexes");
        self.do_request(server, ("PUT", &path), &indexes)?;
        Ok(201)
    }

    /// Writes to both servers.
    pub(crate) fn write(&mut self, random: &mut Random, writes_max: u64) -> Result<(), Failure> {
        for server in [0, 1] {
            let writes = random.below(writes_max);
            self.write_to(server, random, writes)?;
            if random.below(2) == 0 {
                self.note(format!("server {server}: indexes catch up"));
                for name in DATABASES {
                    let query =
                        json!({"Query": "from index 'ByN'", "WaitForNonStaleResults": true});
                    self.do_request(
                        server,
                        ("POST", &format!("/databases/{name}/queries")),
                        &query,
                    )?;
                }
            }
        }
        Ok(())
    }

    fn write_to(&mut self, server: usize, random: &mut Random, writes: u64) -> Result<(), Failure> {
        if self.servers[server].is_none() {
            return Ok(());
        }
        for _ in 0..writes {
            let database = random.below(DATABASES.len() as u64) as usize;
            self.write_one(server, database, random)?;
        }
        self.note(format!("server {server}: {writes} writes"));
        Ok(())
    }

    fn write_one(
        &mut self,
        server: usize,
        database: usize,
        random: &mut Random,
    ) -> Result<(), Failure> {
        let base = format!("/databases/{}", DATABASES[database]);
        let mut model = self.models[server][database].clone();
        let (id, number) = (format!("docs/{}", random.below(DOCUMENTS)), random.below(NUMBERS));
        let key = format!("key/{}", random.below(KEYS));
        let document = json!({"N": number, "@metadata": {"@collection": "Docs"}});
        match random.below(12) {
            0..=5 => {
                self.do_request(server, ("PUT", &format!("{base}/docs?id={id}")), &document)?;
                model.documents.insert(id, number);
            }
            6..=7 => {
                self.do_request(server, ("DELETE", &format!("{base}/docs?id={id}")), &Value::Null)?;
                model.documents.remove(&id);
            }
            8 => {
                let index = model.values.get(&key).map_or(0, |(_, index)| *index);
                let path = format!("{base}/cmpxchg?key={key}&index={index}");
                let answer = self.do_request(server, ("PUT", &path), &json!({"Object": number}))?;
                let index = answer["Index"].as_u64().ok_or("no index")?;
                model.values.insert(key, (number, index));
            }
            9 => {
                let path = format!("{base}/identity/next?name=numbers");
                let answer = self.do_request(server, ("POST", &path), &Value::Null)?;
                let value = answer["NewIdentityValue"].as_u64().ok_or("no identity")?;
                let last = model.identities.insert("numbers".to_owned(), value).unwrap_or(0);
                if value <= last {
                    return Err(format!("identity {value} after {last}").into());
                }
            }
            10 => {
                let path = format!("{base}/admin/tombstones/cleanup");
                self.do_request(server, ("POST", &path), &Value::Null)?;
            }
            _ => {
                // Each transaction has its own document: atomic guards are not tested here.
                model.transactions += 1;
                let id = format!("agreed/{}-{}", model.transactions, random.below(1 << 30));
                let index = model.values.get(&key).map_or(0, |(_, index)| *index);
                let commands = json!([
                    {"Type": "PUT", "Id": id, "ChangeVector": null, "Document": document},
                    {"Type": "CompareExchangePUT", "Id": key, "Index": index,
                     "Document": {"Object": number}}
                ]);
                let body = json!({"Commands": commands, "TransactionMode": "ClusterWide"});
                let answer =
                    self.do_request(server, ("POST", &format!("{base}/bulk_docs")), &body)?;
                let index = answer["TransactionIndex"].as_u64().ok_or("no transaction")?;
                model.documents.insert(id, number);
                model.values.insert(key, (number, index));
            }
        }
        self.models[server][database] = model;
        Ok(())
    }

    /// Writes to the first server, which was correct so far.
    pub(crate) fn write_on(
        &mut self,
        random: &mut Random,
        writes: u64,
    ) -> Result<Verdict, Failure> {
        Ok(match self.write_to(0, random, writes) {
            Ok(()) => Verdict::Right,
            Err(error) => match error.to_string() {
                refused if refused.starts_with(REFUSED) => Verdict::Refused(refused),
                error => Verdict::Violation(error),
            },
        })
    }

    /// Whether a cluster-wide transaction of a database was acknowledged since the copy was made.
    fn has_transactions_since(&self, database: usize) -> bool {
        self.models[0][database].transactions != self.earlier[database].transactions
    }

    /// The other correct state of a database of the first server, when no server could detect the
    /// tampering.
    pub(crate) fn alternative(
        &self,
        tampering: &Tampering,
        database: usize,
    ) -> Option<(Blind, Model)> {
        let is_referred = self.has_transactions_since(database);
        let blind = tampering.blind(DATABASES[database], is_referred)?;
        let is_partial = match blind {
            Blind::DataDirectory => false,
            // Its journals are from another moment, or all of it is from another database.
            Blind::Database => {
                self.journals != Journals::Inside || self.is_new_since_copy[database]
            }
            Blind::System => self.is_new_since_copy[database],
        };
        if is_partial {
            return None;
        }
        let (now, then) = (self.models[0][database].clone(), self.earlier[database].clone());
        let model = match blind {
            Blind::DataDirectory => then,
            Blind::Database => Model { documents: then.documents, ..now },
            Blind::System => Model { documents: now.documents, ..then },
        };
        Some((blind, model))
    }

    /// Starts the first server and judges it; the other one stays stopped.
    pub(crate) fn judge(&mut self, tampering: Option<&Tampering>) -> Result<Verdict, Failure> {
        if self.servers[0].is_none()
            && let Err(error) = self.try_start(0)
        {
            self.note("server 0: does not start".to_owned());
            return Ok(self.reason_of(&error));
        }
        let verdict = judgement::judge(self, tampering).unwrap_or_else(|error| {
            Verdict::Violation(format!("the server does not respond any more: {error}"))
        });
        self.note(format!("server 0: {verdict}"));
        Ok(verdict)
    }

    /// The last message of a server that does not start.
    fn reason_of(&self, error: &Failure) -> Verdict {
        let log = fs::read_to_string(self.log(0)).unwrap_or_default();
        let reason = log.lines().rev().find(|line| !line.trim().is_empty());
        match reason {
            Some(reason) if !reason.contains("panicked") => Verdict::Refused(reason.to_owned()),
            _ => Verdict::Violation(format!("it does not start and reports no reason: {error}")),
        }
    }
}
