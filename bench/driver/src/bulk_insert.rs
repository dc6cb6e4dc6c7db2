//! A bulk insert: one request whose body streams documents, many in each chunk.

use std::{
    io::Write as _,
    net::SocketAddr,
    time::{Duration, Instant},
};

use crate::{
    connection::{Connection, request},
    error::DriverError,
    load::Stopwatch,
    outcome::{Outcome, no_latencies},
    process::Process,
};

const CHUNK_BYTES: usize = 64 << 10;

/// When the stream ends.
#[derive(Clone, Copy)]
pub(crate) enum Amount {
    /// After this many documents.
    Documents(u64),
    /// After this time, or after `documents_max` documents, whichever is first.
    Time { duration: Duration, documents_max: u64 },
}

impl Amount {
    fn is_reached(self, documents: u64, began: Instant) -> bool {
        match self {
            Self::Documents(wanted) => documents >= wanted,
            Self::Time { duration, documents_max } => {
                documents >= documents_max || began.elapsed() >= duration
            }
        }
    }
}

/// Streams documents `id_prefix + 1`, `id_prefix + 2`, … until the amount is reached, and waits for
/// the server's response that all are stored.
pub(crate) async fn bulk_insert(
    address: SocketAddr,
    server: Process,
    database: &str,
    id_prefix: &str,
    amount: Amount,
    mut write_document: impl FnMut(&mut Vec<u8>, u64),
) -> Result<Outcome, DriverError> {
    let write_element = |out: &mut Vec<u8>, number: u64| {
        write!(out, "{{\"Id\":\"{id_prefix}{number}\",\"Type\":\"PUT\",\"Document\":")
            .expect("writing to a Vec cannot fail");
        write_document(out, number);
        out.push(b'}');
    };
    bulk_insert_elements(address, server, database, amount, write_element).await
}

/// Streams elements of any kind; they count as documents.
pub(crate) async fn bulk_insert_elements(
    address: SocketAddr,
    server: Process,
    database: &str,
    amount: Amount,
    mut write_element: impl FnMut(&mut Vec<u8>, u64),
) -> Result<Outcome, DriverError> {
    let mut connection = Connection::open(address).await?;
    let operation = next_operation(&mut connection, database).await?;
    let head = format!(
        "POST /databases/{database}/bulk_insert?id={operation} HTTP/1.1\r\nHost: 127.0.0.1\r\n\
         Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    let stopwatch = Stopwatch::start(server)?;
    let began = Instant::now();
    connection.send(head.as_bytes()).await?;
    let (mut elements, mut chunk) = (Vec::with_capacity(2 * CHUNK_BYTES), Vec::new());
    let mut documents = 0;
    elements.push(b'[');
    while !amount.is_reached(documents, began) {
        while elements.len() < CHUNK_BYTES && !amount_is_counted_out(amount, documents) {
            documents += 1;
            if documents > 1 {
                elements.push(b',');
            }
            write_element(&mut elements, documents);
        }
        send_chunk(&mut connection, &mut elements, &mut chunk, head.as_bytes()).await?;
    }
    elements.push(b']');
    send_chunk(&mut connection, &mut elements, &mut chunk, head.as_bytes()).await?;
    connection.send(b"0\r\n\r\n").await?;
    let status = connection.receive().await?;
    connection.check_success(status, head.as_bytes())?;
    stopwatch.stop(documents, no_latencies())
}

fn amount_is_counted_out(amount: Amount, documents: u64) -> bool {
    let (Amount::Documents(most) | Amount::Time { documents_max: most, .. }) = amount;
    documents >= most
}

/// A server that stops reading has responded: its response is more informative than the broken
/// pipe.
async fn send_chunk(
    connection: &mut Connection,
    elements: &mut Vec<u8>,
    chunk: &mut Vec<u8>,
    head: &[u8],
) -> Result<(), DriverError> {
    chunk.clear();
    write!(chunk, "{:x}\r\n", elements.len()).expect("writing to a Vec cannot fail");
    chunk.append(elements);
    chunk.extend_from_slice(b"\r\n");
    if let Err(broken) = connection.send(chunk).await {
        let status = connection.receive().await.map_err(|_| broken)?;
        return connection.check_success(status, head);
    }
    Ok(())
}

async fn next_operation(connection: &mut Connection, database: &str) -> Result<u64, DriverError> {
    let path = format!("/databases/{database}/operations/next-operation-id");
    let request = request("GET", &path, b"");
    connection.succeed(&request).await?;
    serde_json::from_slice::<serde_json::Value>(connection.body())
        .ok()
        .and_then(|answer| answer["Id"].as_u64())
        .ok_or_else(|| connection.unexpected(&request))
}
