//! Invalid WebSocket frames: the server disconnects their senders, and other
//! clients notice nothing.

use std::{
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    time::Duration,
};

use platform::{Platform, simulated::Random};

use crate::{change_listener::ChangeListener, test_server::TestServer};

/// Number of clients in a normal run. `HOSTILE_FRAMES_SECONDS` sets a duration instead.
const CLIENTS: u64 = 200;
const FRAMES_MAX: u64 = 40;
const COMMANDS: [&str; 6] = [
    r#"{"CommandId":1,"Command":"watch-docs"}"#,
    r#"{"CommandId":2,"Command":"watch-doc","Param":"a"}"#,
    r#"{"Command":"unwatch-doc","Param":"a"}"#,
    r#"{"CommandId":3,"Command":"watch-prefix","Param":""}"#,
    r#"{"CommandId":4,"Command":"watch-document-counter","Params":["a","b"]}"#,
    r#"{"CommandId":5,"Command":"watch-aggressive-caching"}"#,
];

fn pick(random: &mut Random, below: u64) -> u64 {
    random.next_u64() % below
}

/// A client that has completed its handshake.
fn connect(server: &TestServer) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let head = "GET /databases/db/changes HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n\
                Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        answer.extend(byte);
    }
    stream
}

/// The content of a frame: a command, a part of one, or random bytes.
fn payload(random: &mut Random) -> Vec<u8> {
    let command = COMMANDS[pick(random, COMMANDS.len() as u64) as usize].as_bytes();
    match pick(random, 4) {
        0 => command.to_vec(),
        1 => command[..pick(random, command.len() as u64) as usize].to_vec(),
        2 => {
            let mut changed = command.to_vec();
            let place = pick(random, changed.len() as u64) as usize;
            changed[place] = random.next_u64() as u8;
            changed
        }
        _ => (0..pick(random, 300)).map(|_| random.next_u64() as u8).collect(),
    }
}

/// A frame that is usually valid.
fn frame(random: &mut Random) -> Vec<u8> {
    let payload = payload(random);
    // Mostly text; occasionally a fragment, a control frame or an unknown frame.
    let first = match pick(random, 8) {
        0..=3 => 0x81,
        4 => [0x01, 0x00, 0x80, 0x82][pick(random, 4) as usize],
        5 => [0x88, 0x89, 0x8a][pick(random, 3) as usize],
        _ => random.next_u64() as u8,
    };
    let is_masked = pick(random, 16) != 0;
    let length = match pick(random, 12) {
        0 => random.next_u64(),
        1 => u64::MAX,
        _ => payload.len() as u64,
    };
    let mask_bit = if is_masked { 0x80 } else { 0 };
    let mut frame = vec![first];
    match length {
        0..=125 => frame.push(mask_bit | length as u8),
        126..=0xffff => {
            frame.push(mask_bit | 126);
            frame.extend((length as u16).to_be_bytes());
        }
        _ => {
            frame.push(mask_bit | 127);
            frame.extend(length.to_be_bytes());
        }
    }
    let mask = if is_masked { random.next_u64().to_be_bytes() } else { [0; 8] };
    if is_masked {
        frame.extend(&mask[..4]);
    }
    frame.extend(payload.iter().zip(mask[..4].iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

/// Sends random frames in chunks of random lengths until the server disconnects it; then reads the
/// rest, or disconnects without reading.
fn attack(server: &TestServer, seed: u64) {
    let mut random = Random::new(seed);
    let mut stream = connect(server);
    for _ in 0..pick(&mut random, FRAMES_MAX) {
        let frame = frame(&mut random);
        let piece = 1 + pick(&mut random, frame.len() as u64) as usize;
        if frame.chunks(piece).any(|piece| stream.write_all(piece).is_err()) {
            break;
        }
    }
    if pick(&mut random, 2) == 0 {
        drop(stream.shutdown(std::net::Shutdown::Write));
        let mut left = Vec::new();
        if let Err(error) = stream.read_to_end(&mut left) {
            assert_ne!(error.kind(), ErrorKind::WouldBlock, "seed {seed}: it is still connected");
        }
    }
}

#[test]
fn invalid_frames_do_not_affect_other_clients() {
    let server = TestServer::with_database();
    let mut listener = ChangeListener::watching(&server, &[("watch-doc", "a")]);
    let clock = Platform::memory().clock;
    let seconds = std::env::var("HOSTILE_FRAMES_SECONDS").ok().and_then(|text| text.parse().ok());
    let ends = seconds.map(|seconds| clock.monotonic() + Duration::from_secs(seconds));
    let mut seed = 0;
    while ends.map_or(seed < CLIENTS, |ends| clock.monotonic() < ends) {
        attack(&server, seed);
        seed += 1;
        if seed.is_multiple_of(20) {
            server.put("a", "{}");
            assert_eq!(listener.changes(1), ["Put a @empty"], "seed {seed}");
        }
    }
    println!("{seed} clients");
    // The server has noticed all disconnects.
    let connections =
        || server.get("/databases/db/changes/debug").json()["NumberOfConnections"].clone();
    let gone = (0..200).any(|_| {
        server.put("a", "{}");
        connections() == 1
    });
    assert!(gone, "{} connections", connections());
}
