//! Invalid messages of the TCP protocol: the server disconnects their senders,
//! and other clients notice nothing.

use std::{
    io::{ErrorKind, Read, Write},
    net::{Shutdown, TcpStream},
    time::Duration,
};

use platform::{Platform, simulated::Random};
use serde_json::{Value, json};

use crate::{tcp_client::TcpClient, test_server::TestServer};

/// Number of clients in a normal run. `HOSTILE_MESSAGES_SECONDS` sets a duration instead.
const CLIENTS: u64 = 200;
const MESSAGES_MAX: u64 = 12;

/// The messages of a well-behaved worker, in order.
fn conversation() -> Vec<String> {
    let header =
        json!({"DatabaseName": "db", "Operation": "Subscription", "OperationVersion": 53000});
    let options = json!({"SubscriptionName": "s", "Strategy": "Concurrent", "MaxDocsPerBatch": 2});
    let acknowledge = json!({"Type": "Acknowledge", "ChangeVector": "x"});
    [header, options, acknowledge.clone(), acknowledge].map(|message| message.to_string()).to_vec()
}

/// A message, a part of one, one with a byte changed or removed, or random bytes.
fn garbled(message: &str, random: &mut Random) -> Vec<u8> {
    let bytes = message.as_bytes();
    let place = random.below(bytes.len() as u64) as usize;
    let mut changed = bytes.to_vec();
    match random.below(7) {
        0 => changed[place] = random.next_u64() as u8,
        1 => drop(changed.drain(place..)),
        2 => drop(changed.remove(place)),
        3 => changed.splice(place..place, b"{\"a\":[".repeat(300)).for_each(drop),
        4 => changed = vec![b' '; 70_000],
        5 => changed = (0..random.below(300)).map(|_| random.next_u64() as u8).collect(),
        _ => changed.extend_from_slice(bytes),
    }
    changed
}

/// Sends random messages in chunks of random lengths until the server disconnects it; then reads
/// the rest, or disconnects without reading.
fn attack(server: &TestServer, seed: u64) {
    let mut random = Random::new(seed);
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let conversation = conversation();
    for number in 0..random.below(MESSAGES_MAX) as usize {
        let message = &conversation[number.min(conversation.len() - 1)];
        let bytes = match random.below(3) {
            0 => garbled(message, &mut random),
            _ => message.clone().into_bytes(),
        };
        let piece = 1 + random.below(bytes.len().max(1) as u64) as usize;
        if bytes.chunks(piece).any(|piece| stream.write_all(piece).is_err()) {
            break;
        }
    }
    if random.below(2) == 0 {
        drop(stream.shutdown(Shutdown::Write));
        if let Err(error) = stream.read_to_end(&mut Vec::new()) {
            assert_ne!(error.kind(), ErrorKind::WouldBlock, "seed {seed}: it is still connected");
        }
    }
}

fn workers(server: &TestServer) -> usize {
    let listed = server.get("/databases/db/subscriptions").json();
    let of_one = |one: &Value| one["Connections"].as_array().unwrap().len();
    listed["Results"].as_array().unwrap().iter().map(of_one).sum()
}

#[test]
fn invalid_messages_do_not_affect_other_clients() {
    let server = TestServer::with_database();
    for name in ["s", "mine"] {
        let body = json!({"Name": name, "Query": "from Users"}).to_string();
        server.send("PUT", "/databases/db/subscriptions", body.as_bytes());
    }
    let mut worker = TcpClient::accepted(&server, &json!({"SubscriptionName": "mine"}));
    let clock = Platform::memory().clock;
    let requested = std::env::var("HOSTILE_MESSAGES_SECONDS").ok();
    let seconds: Option<u64> = requested.and_then(|text| text.parse().ok());
    let ends = seconds.map(|seconds| clock.monotonic() + Duration::from_secs(seconds));
    let mut seed = 0;
    while ends.map_or(seed < CLIENTS, |ends| clock.monotonic() < ends) {
        attack(&server, seed);
        seed += 1;
        if seed.is_multiple_of(20) {
            let document = json!({"Seed": seed, "@metadata": {"@collection": "Users"}});
            server.put("users/1", &document.to_string());
            assert_eq!(worker.batch().items[0]["Data"]["Seed"], seed);
            worker.acknowledge();
        }
    }
    println!("{seed} clients");
    // The server has noticed all disconnects.
    assert!((0..1000).any(|_| workers(&server) == 1), "{} workers", workers(&server));
}
