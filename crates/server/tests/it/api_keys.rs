//! Clients that identify themselves by API keys, at a server without a certificate.

use std::sync::{Mutex, mpsc};

use platform::Platform;
use security::NewApiKey;
use serde_json::{Value, json};

use crate::{http_client::Reply, tcp_client::TcpClient, test_server::TestServer};

/// A server that accepts keys only, and the key of its administrator.
struct Keyed {
    server: TestServer,
    admin: String,
}

fn new_admin() -> (String, Vec<String>) {
    let platform = Platform::memory();
    let admin = NewApiKey::generate(|bytes| platform.entropy.fill(bytes));
    let entry = format!("--Security.ApiKeys.Admin={}.{}", admin.id(), admin.hash());
    (admin.text().to_string(), vec!["--Security.ApiKeys.Enabled=true".to_owned(), entry])
}

fn keyed() -> Keyed {
    keyed_with(Platform::memory(), None)
}

fn keyed_with(platform: Platform, audit: Option<server::AuditSink>) -> Keyed {
    let (admin, arguments) = new_admin();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let server = TestServer::try_start_audited(platform, &arguments, audit).unwrap();
    Keyed { server, admin }
}

impl Keyed {
    fn send(&self, key: Option<&str>, method: &str, target: &str, body: &str) -> Reply {
        let value = key.map(|key| format!("Bearer {key}"));
        let headers: Vec<_> = value.iter().map(|value| ("Authorization", value.as_str())).collect();
        self.server.send_with(method, target, &headers, body.as_bytes())
    }

    fn status(&self, key: &str, method: &str, target: &str) -> u16 {
        self.send(Some(key), method, target, "").status
    }

    fn create(&self, name: &str) {
        let (target, body) =
            (format!("/admin/databases?name={name}"), json!({"DatabaseName": name}));
        let created = self.send(Some(&self.admin), "PUT", &target, &body.to_string());
        assert_eq!(created.status, 201, "{}", created.text());
    }

    fn make(&self, by: &str, clearance: &str, permissions: Value) -> Reply {
        let body =
            json!({"Name": "app", "SecurityClearance": clearance, "Permissions": permissions});
        self.send(Some(by), "POST", "/admin/api-keys", &body.to_string())
    }

    /// The id and the text of a new key.
    fn made(&self, clearance: &str, permissions: Value) -> (String, String) {
        let reply = self.make(&self.admin, clearance, permissions);
        assert_eq!(reply.status, 201, "{}", reply.text());
        let text = |name: &str| reply.json()[name].as_str().unwrap().to_owned();
        (text("Id"), text("Key"))
    }
}

#[test]
fn without_a_key_nothing_is_shown_but_that_one_is_needed() {
    let keyed = keyed();
    keyed.create("db");
    for target in ["/databases", "/databases/db/stats", "/admin/databases", "/no/such/route"] {
        let reply = keyed.send(None, "GET", target, "");
        assert_eq!(reply.status, 403, "{target}");
        assert_eq!(reply.json()["Type"], "InvalidAuth");
        let message = reply.json()["Message"].to_string();
        assert!(message.contains("requires an API key"), "{message}");
    }
    assert_eq!(keyed.send(None, "GET", "/setup/alive", "").status, 204);
    let (_, other) = keyed.made("Operator", json!({}));
    let wrong = format!("{}.{}", &keyed.admin[..16], &other[17..]);
    for key in [&wrong, "x", "0123456789abcdef", ""] {
        let reply = keyed.send(Some(key), "GET", "/databases", "");
        assert_eq!(reply.status, 403);
        let message = reply.json()["Message"].to_string();
        assert!(message.contains("API key"), "{key}: {message}");
        assert!(!message.contains(&other[17..]), "{message}");
    }
    let value = format!("Bearer {}", keyed.admin);
    let twice = [("Authorization", value.as_str()); 2];
    assert_eq!(keyed.server.send_with("GET", "/databases", &twice, b"").status, 403);
    let in_query = format!("/databases?api-key={}", keyed.admin);
    assert_eq!(keyed.send(None, "GET", &in_query, "").status, 403);
}

#[test]
fn a_key_is_shown_once_and_may_do_what_it_is_registered_for() {
    let keyed = keyed();
    keyed.create("db");
    keyed.create("other");
    let made = keyed.make(&keyed.admin, "ValidUser", json!({"DB": "ReadWrite"}));
    assert_eq!(made.header("cache-control"), Some("no-store"));
    let (id, key) = (made.json()["Id"].clone(), made.json()["Key"].clone());
    let (id, key) = (id.as_str().unwrap(), key.as_str().unwrap());
    assert_eq!(made.json()["SecretHash"], Value::Null);
    let listed = keyed.send(Some(&keyed.admin), "GET", "/admin/api-keys", "");
    assert_eq!(listed.json()["Results"][0]["Permissions"], json!({"DB": "ReadWrite"}));
    assert_eq!(listed.json()["TotalResults"], 1);
    for secret in [&key[17..], "SecretHash"] {
        assert!(!listed.text().contains(secret), "{}", listed.text());
    }
    let who = keyed.send(Some(key), "GET", "/certificates/whoami", "").json();
    assert_eq!((&who["Id"], &who["SecurityClearance"]), (&json!(id), &json!("ValidUser")));
    let put = |target: &str| keyed.send(Some(key), "PUT", target, "{}").status;
    assert_eq!(put("/databases/db/docs?id=a"), 201);
    assert_eq!(put("/databases/other/docs?id=a"), 403);
    assert_eq!(keyed.status(key, "GET", "/databases/other/stats"), 403);
    assert_eq!(keyed.status(key, "GET", "/databases/missing/stats"), 403);
    assert_eq!(keyed.status(key, "GET", "/admin/api-keys"), 403);
    let names = keyed.send(Some(key), "GET", "/databases?namesOnly=true", "").json();
    assert_eq!(names["Databases"], json!(["db"]));

    let body = json!({"Id": id, "Name": "b", "SecurityClearance": "ValidUser", "Permissions": {"db": "Read"}});
    let edit = |body: &Value| {
        keyed.send(Some(&keyed.admin), "POST", "/admin/api-keys/edit", &body.to_string()).status
    };
    assert_eq!(edit(&body), 201);
    assert_eq!(put("/databases/db/docs?id=a"), 403);
    let mut unknown = body.clone();
    unknown["Disabled"] = json!(true);
    assert_eq!(edit(&unknown), 500, "nobody would disable it");
    assert_eq!(keyed.status(key, "GET", "/databases/db/docs?id=a"), 200);
    let part = |method: &str| {
        json!({"Url": "/databases/db/docs", "Method": method, "Query": "?id=a", "Content": "{}",
        "Headers": {"Authorization": format!("Bearer {}", keyed.admin)}})
    };
    let body = json!({"Requests": [part("GET"), part("PUT")]}).to_string();
    let parts = keyed.send(Some(key), "POST", "/databases/db/multi_get", &body).json();
    assert_eq!(parts["Results"][0]["StatusCode"], 200);
    assert_eq!(parts["Results"][1]["StatusCode"], 403, "a part has no key of its own");

    let delete = format!("/admin/api-keys?id={}", id.to_uppercase());
    assert_eq!(keyed.status(&keyed.admin, "DELETE", &delete), 204);
    assert_eq!(keyed.status(key, "GET", "/databases/db/docs?id=a"), 403);
    assert_eq!(edit(&json!({"Id": id, "Name": "b", "SecurityClearance": "Operator"})), 500);
}

#[test]
fn nobody_grants_or_revokes_more_than_they_hold() {
    let keyed = keyed();
    let (operator_id, operator) = keyed.made("Operator", json!({}));
    let (admin_id, _) = keyed.made("ClusterAdmin", json!({}));
    assert_eq!(keyed.make(&operator, "ValidUser", json!({})).status, 201);
    let refused = keyed.make(&operator, "ClusterAdmin", json!({}));
    assert_eq!(refused.status, 500);
    assert!(refused.text().contains("lower clearance: Operator"), "{}", refused.text());
    let delete =
        |by: &str, id: &str| keyed.status(by, "DELETE", &format!("/admin/api-keys?id={id}"));
    assert_eq!(delete(&operator, &admin_id), 500);
    assert_eq!(delete(&operator, &operator_id), 500, "its own");
    assert_eq!(delete(&keyed.admin, &keyed.admin[..16]), 500, "its own, in the configuration");
    let configured =
        json!({"Id": &keyed.admin[..16], "Name": "a", "SecurityClearance": "ValidUser"});
    let edited =
        keyed.send(Some(&keyed.admin), "POST", "/admin/api-keys/edit", &configured.to_string());
    assert!(edited.text().contains("Security.ApiKeys.Admin"), "{}", edited.text());
    assert_eq!(delete(&keyed.admin, &admin_id), 204);
    for (body, expected) in [
        (json!({"SecurityClearance": "Operator"}), "Name is a required"),
        (json!({"Name": "x".repeat(600), "SecurityClearance": "Operator"}), "longer than 512"),
        (json!({"Name": "a", "SecurityClearance": "Bogus"}), "Bogus"),
        (json!({"Name": "a", "SecurityClearance": "ClusterNode"}), "by certificates"),
        (json!({"Name": "a", "SecurityClearance": "UnauthenticatedClients"}), "without any"),
        (
            json!({"Name": "a", "SecurityClearance": "Operator", "NotAfter": "2000-01-01T00:00:00Z"}),
            "in the past",
        ),
        (json!({"Name": "a", "SecurityClearance": "Operator", "NotAfter": 5}), "to a date"),
    ] {
        let reply = keyed.send(Some(&keyed.admin), "POST", "/admin/api-keys", &body.to_string());
        assert!(reply.status >= 400 && reply.text().contains(expected), "{}", reply.text());
    }
}

#[test]
fn keys_survive_a_restart_and_only_the_hash_of_their_secret_is_on_the_disk() {
    let simulation = Platform::simulated(3);
    let (admin, arguments) = new_admin();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let clock = Platform::real().clock;
    let platform = Platform { clock, ..simulation.platform.clone() };
    let start = || {
        let server = TestServer::start(platform.clone(), &arguments);
        Keyed { server, admin: admin.clone() }
    };
    let keyed = start();
    let (_, key) = keyed.made("Operator", json!({}));
    keyed.server.stop();
    let keyed = start();
    assert_eq!(keyed.status(&key, "GET", "/admin/api-keys"), 200);
    keyed.server.stop();
    let secret = &key[17..];
    let bytes: Vec<u8> =
        (0..32).map(|at| u8::from_str_radix(&secret[2 * at..2 * at + 2], 16).unwrap()).collect();
    let mut pending = vec![std::path::PathBuf::from("/data")];
    let mut has_id = false;
    while let Some(path) = pending.pop() {
        if let Ok(names) = simulation.platform.disk.list(&path) {
            pending.extend(names.iter().map(|name| path.join(name)));
            continue;
        }
        let content = simulation.disk.file_bytes(&path).unwrap();
        let contains = |marker: &[u8]| content.windows(marker.len()).any(|part| part == marker);
        assert!(!contains(secret.as_bytes()) && !contains(&bytes), "{}", path.display());
        has_id |= contains(&key.as_bytes()[..16]);
    }
    assert!(has_id, "what is stored of a key is there");
}

#[test]
fn sessions_of_web_sockets_and_workers_need_a_key_with_access() {
    let keyed = keyed();
    keyed.create("db");
    let (_, reader) = keyed.made("ValidUser", json!({"db": "Read"}));
    let (_, stranger) = keyed.made("ValidUser", json!({"other": "Admin"}));
    let open = |key: Option<&str>, target: &str| {
        let authorization = key.map(|key| format!("Authorization: Bearer {key}\r\n"));
        let mut connection = keyed.server.open();
        let request = format!(
            "GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{}\r\n",
            authorization.unwrap_or_default()
        );
        connection.send(request.as_bytes());
        connection.status()
    };
    assert_eq!(open(None, "/databases/db/changes"), 403);
    assert_eq!(open(Some(&stranger), "/databases/db/changes"), 403);
    assert_eq!(open(Some(&reader), "/databases/db/changes"), 101);
    assert_eq!(open(Some(&reader), "/admin/traffic-watch"), 403);
    let begin = |key: Option<&str>| {
        let mut client = TcpClient::connect(keyed.server.address);
        client.send(&json!({
            "DatabaseName": "db", "Operation": "Subscription", "OperationVersion": 53000, "ApiKey": key,
        }));
        client.receive().unwrap()["Status"].clone()
    };
    assert_eq!(begin(None), "AuthorizationFailed");
    assert_eq!(begin(Some("x")), "AuthorizationFailed");
    assert_eq!(begin(Some(&stranger)), "AuthorizationFailed");
    assert_eq!(begin(Some(&reader)), "Ok");
}

/// A header that a proxy adds for something else must not lock anybody out.
#[test]
fn where_keys_are_not_enabled_they_mean_nothing() {
    let server = TestServer::with_database();
    let header = [("Authorization", "Bearer 0123456789abcdef.00")];
    assert_eq!(server.send_with("GET", "/databases/db/stats", &header, b"").status, 200);
    for (method, target) in [
        ("GET", "/admin/api-keys"),
        ("POST", "/admin/api-keys"),
        ("DELETE", "/admin/api-keys?id=a"),
    ] {
        let reply = server.send(method, target, b"{}");
        assert_eq!(reply.status, 500);
        assert!(reply.text().contains("Security.ApiKeys.Enabled"), "{}", reply.text());
    }
}

#[test]
fn the_audit_log_names_the_key_and_not_its_secret() {
    let (sender, entries) = mpsc::channel();
    let sender = Mutex::new(sender);
    let sink = move |entry: &[u8]| sender.lock().unwrap().send(entry.to_vec()).unwrap();
    let keyed = keyed_with(Platform::memory(), Some(Box::new(sink)));
    let (id, key) = keyed.made("ValidUser", json!({}));
    assert_eq!(keyed.status(&key, "GET", "/admin/api-keys"), 403);
    let unknown = format!("{}.{}", &id, &keyed.admin[17..]);
    assert_eq!(keyed.status(&unknown, "GET", "/databases"), 403);
    let seen: Vec<String> =
        entries.iter().take(3).map(|entry| String::from_utf8(entry).unwrap()).collect();
    let named = |entry: &String| {
        let entry: Value = serde_json::from_str(entry).unwrap();
        entry["ApiKey"].as_str().unwrap().to_owned()
    };
    let admin = format!("Administrator in Security.ApiKeys.Admin ({})", &keyed.admin[..16]);
    let expected = [admin, format!("app ({id})"), format!("unknown ({id})")];
    assert_eq!(seen.iter().map(named).collect::<Vec<_>>(), expected);
    for secret in [&key[17..], &keyed.admin[17..]] {
        assert!(seen.iter().all(|entry| !entry.contains(secret)), "{seen:?}");
    }
}

/// What ends TLS may be reached under any name, and clients are told an address that is encrypted.
#[test]
fn behind_a_proxy_that_ends_tls_clients_are_told_its_address() {
    let (admin, mut arguments) = new_admin();
    arguments.push("--Security.TlsTerminatedByProxy=true".to_owned());
    arguments.push("--ServerUrl=http://0.0.0.0:0".to_owned());
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let server = TestServer::start(Platform::memory(), &arguments);
    let value = format!("Bearer {admin}");
    let header = [("Authorization", value.as_str())];
    let body = br#"{"DatabaseName":"db"}"#;
    assert_eq!(server.send_with("PUT", "/admin/databases?name=db", &header, body).status, 201);
    let host = "db.example.org";
    let topology = server.send_from(host, "GET", "/topology?name=db", &header, b"").json();
    let url = topology["Nodes"][0]["Url"].as_str().unwrap();
    assert!(url.starts_with("https://db.example.org"), "{url}");
    assert_eq!(server.send_from(host, "GET", "/topology?name=db", &[], b"").status, 403);
}
