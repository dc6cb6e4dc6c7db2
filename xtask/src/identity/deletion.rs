//! Deletes a database of the first server with its files, and kills the server meanwhile.
//!
//! After a restart the server has the whole database or none of it, and none of it if the deletion
//! was acknowledged. A new database of the same name is empty and remains so.

use std::{thread, time::Duration};

use serde_json::json;

use super::{
    judgement::Verdict,
    model::Model,
    stage::{DATABASES, Stage},
};
use crate::{Failure, http_client::HttpClient, random::Random};

/// The maximum time between the request and the kill. A deletion takes part of it.
const KILLED_AFTER_MICROSECONDS_MAX: u64 = 40_000;
/// The status of a request to create a database that exists.
const CONFLICT: u16 = 409;

impl Stage {
    /// Runs the deletion described in the module. Nothing else is written meanwhile.
    pub(crate) fn delete_and_create_again(
        &mut self,
        random: &mut Random,
    ) -> Result<Verdict, Failure> {
        let at = random.below(DATABASES.len() as u64) as usize;
        let name = DATABASES[at];
        let pause = Duration::from_micros(random.below(KILLED_AFTER_MICROSECONDS_MAX));
        let url = self.url(0)?;
        let deleting = thread::spawn(move || -> std::io::Result<u16> {
            let body = json!({"DatabaseNames": [name], "HardDelete": true}).to_string();
            let mut client = HttpClient::connect(&url)?;
            Ok(client.send("DELETE", "/admin/databases", body.as_bytes())?.status)
        });
        thread::sleep(pause);
        self.kill(0)?;
        let answered = deleting.join().map_err(|_| "the client of a deletion panicked")?;
        // Without a response, either outcome is valid.
        let is_acknowledged = match answered {
            Ok(200) => true,
            Ok(other) => {
                return Ok(Verdict::Violation(format!("a deletion returned {other}")));
            }
            Err(_) => false,
        };
        self.note(format!(
            "server 0: killed {pause:?} after '{name}' was to be deleted, acknowledged: {is_acknowledged}"
        ));
        self.try_start(0)?;
        let created = match self.create_database(0, name) {
            Ok(created) => created,
            Err(error) => return Ok(Verdict::Violation(error.to_string())),
        };
        match created {
            CONFLICT if is_acknowledged => {
                return Ok(Verdict::Violation(format!("'{name}' was deleted and still exists")));
            }
            CONFLICT => self.note(format!("server 0: '{name}' still exists")),
            _ => {
                self.models[0][at] = Model::default();
                self.is_new_since_copy[at] = true;
                self.note(format!("server 0: '{name}' is created again"));
            }
        }
        self.judge(None)
    }
}
