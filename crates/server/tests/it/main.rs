//! The server in this process, over real sockets on loopback, with its data on a disk in memory.

mod batches;
mod bulk_insert;
mod databases;
mod documents;
mod hostile;
mod http_client;
mod lifecycle;
mod queries;
mod test_server;
