//! The load of the soak: requests of all kinds, each thread at a fixed rate.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    Failure,
    drill_database::create_database,
    http_client::{Answer, HttpClient},
    random::Random,
};

pub(super) const THREADS: u64 = 4;
/// The time between the starts of two requests of a thread.
const INTERVAL: Duration = Duration::from_millis(40);
/// Ids of documents; each thread has its own.
const DOCUMENTS: u64 = 2_000;
const TEXT_BYTES: usize = 400;
const ATTACHMENTS: u64 = 50;
const ATTACHMENT_BYTES: usize = 20_000;
/// Every so many requests of a thread.
const INDEX_CHANGE_EVERY: u64 = 500;
const DATABASE_EVERY: u64 = 250;
/// Documents in a database that is soon deleted.
const PASSING_DOCUMENTS: u64 = 50;

const DATABASE: &str = "soak";

/// The load on one server.
pub(super) struct Load {
    url: String,
}

impl Load {
    pub(super) fn prepare(url: &str) -> Result<Load, Failure> {
        create_database(url, DATABASE)?;
        let load = Load { url: url.to_owned() };
        let mut client = HttpClient::connect(url)?;
        load.define_index(&mut client, 0)?;
        Ok(load)
    }

    /// Runs one thread of it.
    pub(super) fn run(
        &self,
        thread: u64,
        is_over: &AtomicBool,
        requests: &AtomicU64,
    ) -> Result<(), Failure> {
        let mut client = HttpClient::connect(&self.url)?;
        let mut random = Random::new(thread + 1);
        let mut next = Instant::now();
        for number in 0.. {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
            next = (next + INTERVAL).max(Instant::now());
            self.request(&mut client, &mut random, thread, number)?;
            requests.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn request(
        &self,
        client: &mut HttpClient,
        random: &mut Random,
        thread: u64,
        number: u64,
    ) -> Result<(), Failure> {
        if number % INDEX_CHANGE_EVERY == INDEX_CHANGE_EVERY - 1 && thread == 0 {
            return self.define_index(client, number / INDEX_CHANGE_EVERY);
        }
        if number % DATABASE_EVERY == DATABASE_EVERY - 1 {
            return self.passing_database(client, random, thread);
        }
        let id = format!("users/{}", random.below(DOCUMENTS / THREADS) * THREADS + thread);
        let (method, path, body) = match random.below(20) {
            0..=6 => ("PUT", format!("docs?id={id}"), document(random).to_string().into_bytes()),
            7..=9 => ("PATCH", format!("docs?id={id}"), patch().to_string().into_bytes()),
            10..=11 => ("DELETE", format!("docs?id={id}"), Vec::new()),
            12..=13 => {
                let query = format!(
                    "from%20index%20'ByNumber'%20where%20Number%20%3C%20{}",
                    random.below(1000)
                );
                ("GET", format!("queries?query={query}&pageSize=100"), Vec::new())
            }
            14 => (
                "GET",
                "queries?query=from%20Users%20where%20Name%20%3D%20'a'".to_owned(),
                Vec::new(),
            ),
            15 => ("GET", "streams/docs?startsWith=users/1".to_owned(), Vec::new()),
            16 => ("GET", "streams/queries?query=from%20Users".to_owned(), Vec::new()),
            17 => {
                let holder =
                    format!("holders/{}", random.below(ATTACHMENTS / THREADS) * THREADS + thread);
                self.send(client, "PUT", &format!("docs?id={holder}"), b"{}")?;
                let content: Vec<u8> =
                    (0..ATTACHMENT_BYTES).map(|_| random.below(256) as u8).collect();
                ("PUT", format!("attachments?id={holder}&name=a.bin"), content)
            }
            18 => ("DELETE", format!("docs?id=holders/{}", thread), Vec::new()),
            _ => ("GET", format!("docs?id={id}"), Vec::new()),
        };
        self.send(client, method, &path, &body)
    }

    /// Sends a request to the database; missing data and conflicts are not errors of the load.
    fn send(
        &self,
        client: &mut HttpClient,
        method: &str,
        path: &str,
        body: &[u8],
    ) -> Result<(), Failure> {
        let Answer { status, body } =
            client.send(method, &format!("/databases/{DATABASE}/{path}"), body)?;
        match status {
            200..=299 | 404 | 503 => Ok(()),
            status => {
                let text = String::from_utf8_lossy(&body).into_owned();
                Err(format!("{method} {path}: {status} {text}").into())
            }
        }
    }

    /// Each definition has a different field than the previous one, so that the index is rebuilt.
    fn define_index(&self, client: &mut HttpClient, version: u64) -> Result<(), Failure> {
        let map =
            format!("from u in docs.Users select new {{ u.Number, V{} = u.Name }}", version % 2);
        let definition = json!({"Indexes": [{"Name": "ByNumber", "Maps": [map], "Type": "Map"}]});
        self.send(client, "PUT", "admin/indexes", definition.to_string().as_bytes())
    }

    fn passing_database(
        &self,
        client: &mut HttpClient,
        random: &mut Random,
        thread: u64,
    ) -> Result<(), Failure> {
        let name = format!("passing{thread}");
        create_database(&self.url, &name)?;
        for number in 0..PASSING_DOCUMENTS {
            let path = format!("/databases/{name}/docs?id=users/{number}");
            let answer = client.send("PUT", &path, document(random).to_string().as_bytes())?;
            if !matches!(answer.status, 201 | 503) {
                return Err(format!("{name}: {}", answer.described()).into());
            }
        }
        let body = json!({"DatabaseNames": [name], "HardDelete": true}).to_string();
        let answer = client.send("DELETE", "/admin/databases", body.as_bytes())?;
        match answer.status {
            200..=299 => Ok(()),
            _ => Err(format!("{name} was not deleted: {}", answer.described()).into()),
        }
    }
}

fn document(random: &mut Random) -> Value {
    let letter = |random: &mut Random| char::from(b'a' + random.below(26) as u8);
    let text: String = (0..TEXT_BYTES).map(|_| letter(random)).collect();
    json!({
        "Number": random.below(1000), "Name": letter(random).to_string(), "Text": text,
        "@metadata": {"@collection": "Users"},
    })
}

fn patch() -> Value {
    json!({"Patch": {"Script": "this.Number = (this.Number + 1) % 1000;", "Values": {}}})
}
