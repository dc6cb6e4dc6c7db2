//! The works that patch documents.

use std::time::Duration;

use serde_json::Value;

use super::{DATABASE, FILLED_DOCUMENTS, Target, create_database, delete_database, random_numbers};
use crate::{
    bulk_insert::Amount,
    connection::{Connection, request, write_request},
    error::DriverError,
    generated::write_small,
    load::Stopwatch,
    outcome::{Outcome, no_latencies},
};

/// How often the state of an operation is polled.
const STATE_PAUSE: Duration = Duration::from_millis(5);

/// Patches of random documents, each of which changes something.
pub(super) fn next_patch() -> impl FnMut(&mut Vec<u8>) {
    const BODY: &[u8] = br#"{"Patch":{"Script":"this.Count = (this.Count || 0) + args.by;","Values":{"by":1}},"PatchIfMissing":null}"#;
    let mut next = random_numbers();
    move |out| {
        let number = next();
        write_request(
            out,
            "PATCH",
            format_args!("/databases/{DATABASE}/docs?id=smalls/{number}"),
            BODY,
        );
    }
}

impl Target {
    /// Patches all documents of a separate database, from the request to the end of the operation.
    pub(super) async fn patch_by_query(&self) -> Result<Outcome, DriverError> {
        const BODY: &[u8] =
            br#"{"Query":{"Query":"from Smalls update { this.Number += 1; this.Changed = true; }"}}"#;
        let name = self.new_name();
        let mut connection = Connection::open(self.address).await?;
        create_database(&mut connection, &name).await?;
        let amount = Amount::Documents(FILLED_DOCUMENTS);
        self.stream(&name, "smalls/", amount, write_small).await?;
        let stopwatch = Stopwatch::start(self.process)?;
        let patch = request("PATCH", &format!("/databases/{name}/queries"), BODY);
        connection.succeed(&patch).await?;
        let id = answered(&connection)["OperationId"].clone();
        let state = request("GET", &format!("/databases/{name}/operations/state?id={id}"), b"");
        let ended = loop {
            connection.succeed(&state).await?;
            let answer = answered(&connection);
            if answer["Status"] != "InProgress" {
                break answer;
            }
            tokio::time::sleep(STATE_PAUSE).await;
        };
        let outcome = stopwatch.stop(FILLED_DOCUMENTS, no_latencies())?;
        if ended["Status"] != "Completed" || ended["Result"]["Total"] != FILLED_DOCUMENTS {
            return Err(connection.unexpected(&state));
        }
        delete_database(&mut connection, &name).await?;
        Ok(outcome)
    }
}

/// The last response; null when it is not JSON.
fn answered(connection: &Connection) -> Value {
    serde_json::from_slice(connection.body()).unwrap_or_default()
}
