//! The task `golden`: writes the golden data directories of a new format version.
//!
//! A real server is written to; the expected content is recorded from the requests, not read back.
//! One directory is that of a stopped server; the other one is that of the same server after it was
//! restarted, written to and killed. Existing files are never overwritten.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::{Value, json};
use testkit::{database::Content, golden::Golden};

use crate::{
    Failure,
    checks::Checks,
    http_client::HttpClient,
    server_process::{ServerProcess, executable},
};

const GOLDENS: &str = "crates/testkit/golden";
const DATABASE: &str = "golden";
const TEXT_BYTES_MAX: usize = 200 * 1024;
const FIRST_DOCUMENTS: u64 = 60;
const MORE_DOCUMENTS: u64 = 30;

/// Writes `<name>-closed.txt` and `<name>-killed.txt`.
pub(crate) fn write(root: &Path, name: &str) -> Result<Checks, Failure> {
    let paths =
        ["closed", "killed"].map(|end| (end, root.join(GOLDENS).join(format!("{name}-{end}.txt"))));
    if let Some((_, path)) = paths.iter().find(|(_, path)| path.exists()) {
        return Err(format!("{} exists and is not overwritten", path.display()).into());
    }
    let directory = std::env::temp_dir().join(format!("corvus-golden-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let mut checks = Checks::default();
    let mut author = Author::new(directory.clone())?;
    for (end, path) in paths {
        let golden = author.write(name, end)?;
        let text = golden.to_text();
        checks.that(text.len() <= TEXT_BYTES_MAX, || format!("{end} has {} bytes", text.len()));
        std::fs::write(path, text)?;
    }
    std::fs::remove_dir_all(&directory)?;
    Ok(checks)
}

/// Writes to the server and records what it wrote.
struct Author {
    executable: PathBuf,
    directory: PathBuf,
    last_etag: u64,
    /// By id: the etag, the body (`None` for a tombstone) and the collection.
    documents: BTreeMap<String, (u64, Option<Arc<str>>, String)>,
    /// In creation order.
    collections: Vec<String>,
    identities: BTreeMap<String, i64>,
}

impl Author {
    fn new(directory: PathBuf) -> Result<Self, Failure> {
        Ok(Self {
            executable: executable()?,
            directory,
            last_etag: 0,
            documents: BTreeMap::new(),
            collections: Vec::new(),
            identities: BTreeMap::new(),
        })
    }

    fn write(&mut self, name: &str, end: &str) -> Result<Golden, Failure> {
        let data = self.directory.join("data");
        let log = self.directory.join("server.log");
        let server = ServerProcess::start(&self.executable, &data, &log)?;
        let mut client = HttpClient::connect(&server.url)?;
        if end == "closed" {
            self.first_session(&mut client)?;
            server.stop()?;
        } else {
            self.second_session(&mut client)?;
            server.kill()?;
        }
        let (directories, files) = everything_below(&data)?;
        let golden = Golden {
            about: format!("{name}: a server that was {end}, corvus {}", env!("CARGO_PKG_VERSION")),
            database: Path::new("Databases").join(DATABASE),
            content: self.content(),
            cluster_identities: self.identities.clone().into_iter().collect(),
            directories,
            files,
        };
        golden.verify()?;
        Ok(golden)
    }

    fn first_session(&mut self, client: &mut HttpClient) -> Result<(), Failure> {
        send(
            client,
            "PUT",
            "/admin/databases?name=golden&replicationFactor=1",
            &json!({"DatabaseName": DATABASE, "Settings": {}, "Disabled": false}),
        )?;
        let mut batch = Vec::new();
        for number in 0..FIRST_DOCUMENTS {
            let collection = if number % 4 == 0 { "Orders" } else { "Users" };
            let id = format!("{}/{number}-A", collection.to_lowercase());
            batch.push(self.put(
                &id,
                collection,
                json!({"Number": number, "Name": name_of(number)}),
            ));
        }
        batch.push(self.put(
            "Straße/Ünï 1",
            "Straßen",
            json!({"Text": "ä\u{1F600}\n\"\\", "Float": 1.5}),
        ));
        batch.push(self.put("long/1", "Users", json!({"Long": "lengthy ".repeat(1500)})));
        batch
            .push(self.put_identity("invoices", json!({"Total": -7, "Lines": [1, [2, {}], null]})));
        for number in (0..FIRST_DOCUMENTS).step_by(7) {
            let collection = if number % 4 == 0 { "orders" } else { "users" };
            batch.push(self.delete(&format!("{collection}/{number}-A")));
        }
        self.send_batch(client, &batch)?;
        let untold = json!({"NoCollection": true});
        self.note("plain", "@empty", &untold);
        send(client, "PUT", &database_path("/docs?id=plain"), &untold)?;
        // Its position names a point in the history of the database.
        let subscription =
            json!({"Name": "followers", "Query": "from Users", "ChangeVector": "LastDocument"});
        send(client, "PUT", &database_path("/subscriptions"), &subscription)?;
        let hilo =
            "/hilo/next?tag=users&lastBatchSize=0&lastRangeAt=&identityPartsSeparator=/&lastMax=0";
        let hilo_document = json!({"Max": 32, "@metadata": {"@collection": "@hilo"}});
        self.note("Raven/Hilo/users", "@hilo", &hilo_document);
        expect_success(client.send("GET", &database_path(hilo), b"")?)
    }

    fn second_session(&mut self, client: &mut HttpClient) -> Result<(), Failure> {
        let mut batch = Vec::new();
        for number in (1..FIRST_DOCUMENTS).step_by(5) {
            let body = json!({"Number": number, "Name": "written again"});
            batch.push(if number % 4 == 0 {
                self.put(&format!("orders/{number}-A"), "Orders", body)
            } else {
                self.put(&format!("users/{number}-A"), "Users", body)
            });
        }
        batch.push(self.put_identity("invoices", json!({"Total": 0})));
        batch.push(self.delete("long/1"));
        self.send_batch(client, &batch)?;
        let mut elements = Vec::new();
        for number in 0..MORE_DOCUMENTS {
            let body = json!({"Number": number, "Bulk": name_of(number)});
            let mut element = self.put(&format!("bulk/{number}"), "Bulk", body);
            if let Some(fields) = element.as_object_mut() {
                fields.remove("ChangeVector");
            }
            elements.push(element);
        }
        send(client, "POST", &database_path("/bulk_insert?id=1"), &Value::Array(elements))?;
        let batch = [self.delete("bulk/3"), self.put("last", "Users", json!({"Last": true}))];
        self.send_batch(client, &batch)
    }

    fn send_batch(&self, client: &mut HttpClient, batch: &[Value]) -> Result<(), Failure> {
        send(client, "POST", &database_path("/bulk_docs"), &json!({ "Commands": batch }))
    }

    /// The command, which is recorded as executed.
    fn put(&mut self, id: &str, collection: &str, mut body: Value) -> Value {
        body["@metadata"] = json!({"@collection": collection});
        self.note(id, collection, &body);
        json!({"Id": id, "ChangeVector": null, "Document": body, "Type": "PUT"})
    }

    fn put_identity(&mut self, name: &str, body: Value) -> Value {
        let value = self.identities.entry(format!("{name}|")).or_default();
        *value += 1;
        let id = format!("{name}/{value}");
        let mut command = self.put(&id, "Invoices", body);
        command["Id"] = format!("{name}|").into();
        command
    }

    fn delete(&mut self, id: &str) -> Value {
        self.last_etag += 1;
        if let Some(document) = self.documents.get_mut(id) {
            (document.0, document.1) = (self.last_etag, None);
        }
        json!({"Id": id, "ChangeVector": null, "Type": "DELETE"})
    }

    fn note(&mut self, id: &str, collection: &str, body: &Value) {
        self.last_etag += 1;
        if !self.collections.iter().any(|known| known == collection) {
            self.collections.push(collection.to_owned());
        }
        let body: Arc<str> = body.to_string().into();
        let document = (self.last_etag, Some(body), collection.to_owned());
        self.documents.insert(id.to_owned(), document);
    }

    fn content(&self) -> Content {
        let documents = self.documents.iter();
        let mut log: Vec<_> =
            documents.map(|(id, (etag, body, _))| (*etag, id.clone(), body.clone())).collect();
        log.sort();
        let count = |name: &str, is_live: bool| {
            let mine = self.documents.values().filter(|(_, _, collection)| collection == name);
            mine.filter(|(_, body, _)| body.is_some() == is_live).count() as u64
        };
        let collections = self.collections.iter();
        let collections =
            collections.map(|name| (name.clone(), count(name, true), count(name, false)));
        Content {
            last_etag: self.last_etag,
            log,
            collections: collections.collect(),
            // They are the cluster's.
            identities: Vec::new(),
            attachments: Vec::new(),
            counters: Vec::new(),
            time_series: Vec::new(),
        }
    }
}

fn name_of(number: u64) -> String {
    ["Ada", "Grace", "Edsger", "Barbara", "Tony"][number as usize % 5]
        .repeat(1 + number as usize % 3)
}

fn database_path(path: &str) -> String {
    format!("/databases/{DATABASE}{path}")
}

fn send(client: &mut HttpClient, method: &str, path: &str, body: &Value) -> Result<(), Failure> {
    expect_success(client.send(method, path, body.to_string().as_bytes())?)
}

fn expect_success(answer: crate::http_client::Answer) -> Result<(), Failure> {
    match answer.status {
        200..=299 => Ok(()),
        status => Err(format!("{status} {}", String::from_utf8_lossy(&answer.body)).into()),
    }
}

type Files = Vec<(PathBuf, Vec<u8>)>;

/// Directories and files.
fn everything_below(data: &Path) -> Result<(Vec<PathBuf>, Files), Failure> {
    let mut waiting = vec![data.to_path_buf()];
    let (mut directories, mut files) = (Vec::new(), Files::new());
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(directory)? {
            let path = entry?.path();
            let inside = path.strip_prefix(data)?.to_path_buf();
            if path.is_dir() {
                directories.push(inside);
                waiting.push(path);
            } else {
                files.push((inside, std::fs::read(&path)?));
            }
        }
    }
    directories.sort();
    files.sort();
    Ok((directories, files))
}
