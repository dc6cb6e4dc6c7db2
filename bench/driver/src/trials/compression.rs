//! Documents in a compressed collection, compared with the same documents in an uncompressed one.

use std::path::Path;

use report::Better;

use super::{Figures, database::DATABASE};
use crate::{
    bulk_insert::{Amount, bulk_insert},
    connection::{Connection, request},
    data_files::DataFiles,
    error::DriverError,
    generated::write_person,
    server::{Program, RunningServer},
    works::create_database,
};

pub(crate) const FIGURES: &[(&str, Better)] = &[
    ("documents/s written, plain", Better::More),
    ("documents/s written, compressed", Better::More),
    ("of the plain rate", Better::More),
    ("MB plain", Better::Less),
    ("MB compressed", Better::Less),
];

const DOCUMENTS: u64 = 100_000;
const ROUNDS: usize = 3;

/// In turn, each on its own server.
pub(super) async fn run(program: &Program, parent: &Path) -> Result<Vec<Figures>, DriverError> {
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let plain = write_all(program, parent, false).await?;
        let compressed = write_all(program, parent, true).await?;
        rounds.push(vec![
            plain.rate,
            compressed.rate,
            compressed.rate / plain.rate,
            plain.megabytes,
            compressed.megabytes,
        ]);
    }
    Ok(rounds)
}

struct Written {
    rate: f64,
    megabytes: f64,
}

async fn write_all(
    program: &Program,
    parent: &Path,
    is_compressed: bool,
) -> Result<Written, DriverError> {
    let server = RunningServer::start(program, parent).await?;
    let mut connection = Connection::open(server.address).await?;
    create_database(&mut connection, DATABASE).await?;
    let body = format!(
        "{{\"Collections\":[],\"CompressAllCollections\":{is_compressed},\"CompressRevisions\":true}}"
    );
    let path = format!("/databases/{DATABASE}/admin/documents-compression/config");
    connection.succeed(&request("POST", &path, body.as_bytes())).await?;
    let (address, process, amount) = (server.address, server.process, Amount::Documents(DOCUMENTS));
    let outcome = bulk_insert(address, process, DATABASE, "people/", amount, write_person).await?;
    let data = server.stop().await;
    let megabytes = DataFiles::below(data.path())?.within("Databases").bytes() as f64 / 1e6;
    Ok(Written { rate: outcome.operations as f64 / outcome.elapsed.as_secs_f64(), megabytes })
}
