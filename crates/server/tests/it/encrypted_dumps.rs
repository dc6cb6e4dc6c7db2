//! Dumps that are encrypted with a key of the client.

use platform::simulated::Random;
use serde_json::{Value, json};

use crate::{
    smuggler::{
        ask_peer, assert_same, assert_same_hash, content, export, fill, form, import, try_import,
        two_databases,
    },
    test_server::TestServer,
};

const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const OTHER_KEY: &str = "AQECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

fn with_key() -> Value {
    json!({"EncryptionKey": KEY})
}

#[test]
fn an_encrypted_dump_comes_back_with_its_key() {
    for compression in ["Zstd", "Gzip"] {
        let server = two_databases();
        fill(&server, &mut Random::new(31));
        let options = json!({"EncryptionKey": KEY, "CompressionAlgorithm": compression});
        let (one, two) = (export(&server, "db", &options), export(&server, "db", &options));
        assert_ne!(one[..24], two[..24], "a header must not repeat");
        import(&server, "other", Some(&with_key()), &one);
        assert_same(&content(&server, "db"), &content(&server, "other"));
        assert_same_hash(&server, "db", "other");
    }
}

#[test]
fn without_the_key_and_with_damage_nothing_is_imported_silently() {
    let server = two_databases();
    for n in 0..200 {
        let body = format!(r#"{{"S":"{}"}}"#, n * 7919);
        server.put(&format!("a/{n}"), &body);
    }
    let dump = export(&server, "db", &with_key());
    assert!(!dump.windows(3).any(|part| part == b"a/1"));
    let target = "/databases/other/smuggler/import";
    let wrong = json!({"EncryptionKey": OTHER_KEY});
    let no_key = json!({"EncryptionKey": "no key"});
    let damaged = |at: usize| {
        let mut damaged = dump.clone();
        damaged[at] ^= 1;
        damaged
    };
    let not_that = "the key is not that of the file, or the file is damaged";
    let plain = export(&server, "db", &json!({}));
    for (options, file, part) in [
        (Some(&wrong), dump.clone(), not_that),
        (Some(&no_key), dump.clone(), "The key must be 32 bytes, in base64."),
        (Some(&with_key()), plain, not_that),
        (Some(&with_key()), damaged(dump.len() - 1), not_that),
        (Some(&with_key()), damaged(30), not_that),
        (Some(&with_key()), dump[..20].to_vec(), not_that),
        (None, dump.clone(), "The dump is damaged"),
    ] {
        let reply = try_import(&server, target, options, &file);
        assert!(500 <= reply.status && reply.text().contains(part), "{part}: {}", reply.text());
        assert!(!reply.text().contains(KEY) && !reply.text().contains(OTHER_KEY));
    }
    assert_eq!(server.get("/databases/other/stats").json()["CountOfDocuments"], 0);
}

#[test]
fn ravendb_reads_encrypted_dumps() {
    let Ok(peer) = std::env::var("RAVEN_PEER_URL") else {
        eprintln!("skipped: RAVEN_PEER_URL does not name a RavenDB");
        return;
    };
    let server = TestServer::with_database();
    for n in 0..300 {
        server.put(&format!("a/{n}"), &format!(r#"{{"S":"{}"}}"#, "x".repeat(n)));
    }
    let name = format!("corvus-encrypted-{}", std::process::id());
    let record = json!({"DatabaseName": name}).to_string();
    let create = format!("/admin/databases?name={name}&replicationFactor=1");
    let created = ask_peer(&peer, "PUT", &create, "application/json", record.as_bytes());
    assert_eq!(created.status, 201, "{}", created.text());
    let dump = export(&server, "db", &with_key());
    let target = format!("/databases/{name}/smuggler/import");
    let kind = "multipart/form-data; boundary=bound";
    let imported = ask_peer(&peer, "POST", &target, kind, &form(Some(&with_key()), &dump));
    assert_eq!(imported.status, 200, "{}", imported.text());
    assert_eq!(imported.json()["Documents"]["ReadCount"], 300);
    let delete = json!({"DatabaseNames": [name], "HardDelete": true}).to_string();
    ask_peer(&peer, "DELETE", "/admin/databases", "application/json", delete.as_bytes());
}
