//! The database of a drill: created over HTTP, and polled while it loads.

use std::time::{Duration, Instant};

use crate::{
    Failure,
    http_client::{Answer, HttpClient},
};

/// How long a database may take to load after a crash.
const LOADING_TIMEOUT: Duration = Duration::from_secs(60);
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// Creates a database of that name.
pub(crate) fn create_database(url: &str, name: &str) -> Result<(), Failure> {
    let answer = HttpClient::connect(url)?.send(
        "PUT",
        &format!("/admin/databases?name={name}&replicationFactor=1"),
        format!(r#"{{"DatabaseName":"{name}","Settings":{{}},"Disabled":false}}"#).as_bytes(),
    )?;
    match answer.status {
        200..=299 => Ok(()),
        _ => Err(format!("the database {name} was not created: {}", answer.described()).into()),
    }
}

/// Repeats the request until it succeeds: a database that is still loading returns 503.
pub(crate) fn get_while_loading(client: &mut HttpClient, path: &str) -> Result<Answer, Failure> {
    let began = Instant::now();
    loop {
        let answer = client.send("GET", path, b"")?;
        match answer.status {
            200 => return Ok(answer),
            503 if began.elapsed() < LOADING_TIMEOUT => std::thread::sleep(RETRY_PAUSE),
            _ => return Err(format!("GET {path}: {}", answer.described()).into()),
        }
    }
}
