//! Secrets that the server handles: they are in no log, no error and no view of the settings.

use std::{fs, path::Path};

use crate::process::{Server, directory, run, text};

const ADMIN_ID: &str = "0011223344556677";
/// The SHA-256 of 32 bytes 0xA5, computed with `sha256sum`.
const ADMIN_HASH: &str = "fc8b64001c5fdd0f2f40fb67dae4a865a2c5bd17836676d6d5b58b7917e33717";
/// In base64, 32 bytes of which each is 0x42.
const MASTER_KEY: &str = "QkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkI=";
/// The keys of two databases, in base64.
const KEYS: [&str; 2] = [
    "c2VjcmV0IGtleSBvZiBkYXRhYmFzZSBudW1iZXIgMSE=",
    "c2VjcmV0IGtleSBvZiBkYXRhYmFzZSBudW1iZXIgMiE=",
];
/// Sent where a key is expected.
const NO_KEY: &str = "this-is-my-passphrase-4711";
/// Never end, or are long.
const ENDLESS: [&str; 6] =
    ["/tail", "/changes", "/watch", "/live", "/traffic-watch", "/logs/download"];

fn arguments() -> Vec<String> {
    [
        "--DataDir=here",
        "--Security.AllowEncryptedDatabasesOverHttp=true",
        "--Security.ApiKeys.Enabled=true",
        &format!("--Security.ApiKeys.Admin={ADMIN_ID}.{ADMIN_HASH}"),
        "--Security.MasterKey.Exec=/bin/echo",
        &format!("--Security.MasterKey.Exec.Arguments={MASTER_KEY}"),
        "--Security.AuditLog.FolderPath=audit",
        "--Logs.Path=logs",
        "--Logs.Mode=Information",
        "--Logs.MinLevel=Trace",
        "--License=licence-secret-4712",
    ]
    .map(str::to_owned)
    .to_vec()
}

/// The text of a file in or below a directory, one after the other.
fn texts_below(directory: &Path, all: &mut String) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => texts_below(&path, all),
            false => all.push_str(&String::from_utf8_lossy(&fs::read(&path).unwrap())),
        }
    }
}

struct Secrets(Vec<String>);

impl Secrets {
    fn check(&self, place: &str, text: &str) {
        for secret in &self.0 {
            assert!(!text.contains(secret.as_str()), "{place} shows {secret}: {text}");
        }
    }
}

#[test]
fn no_secret_is_in_a_log_an_error_or_a_view() {
    let place = directory("secrets");
    let owned = arguments();
    let arguments: Vec<&str> = owned.iter().map(String::as_str).collect();
    let server = Server::start(&place, &arguments);
    let admin = format!("{ADMIN_ID}.{}", "a5".repeat(32));
    let as_admin = format!("Authorization: Bearer {admin}\r\n");
    let ask = |method: &str, target: &str, body: &str| server.ask(method, target, &as_admin, body);
    let created = |answer: &str| assert!(answer.starts_with("HTTP/1.1 20"), "{answer}");

    for (name, key) in ["one", "two"].iter().zip(KEYS) {
        created(&ask("POST", &format!("/admin/secrets?name={name}"), key));
        let record = format!(r#"{{"DatabaseName":"{name}","Encrypted":true}}"#);
        created(&ask("PUT", &format!("/admin/databases?name={name}"), &record));
        created(&ask("PUT", &format!("/databases/{name}/docs?id=a"), "{}"));
    }
    let body = r#"{"Name":"app","SecurityClearance":"ValidUser","Permissions":{"one":"Read"}}"#;
    let made = ask("POST", "/admin/api-keys", body);
    created(&made);
    let key = made.split(r#""Key":""#).nth(1).unwrap().split('"').next().unwrap().to_owned();
    assert_eq!(key.len(), 81, "{made}");

    let secret = |text: &str| text.trim_end_matches('=').to_owned();
    let secrets = Secrets(vec![
        "a5".repeat(32),
        key[17..].to_owned(),
        secret(MASTER_KEY),
        secret(KEYS[0]),
        secret(KEYS[1]),
        "secret key of database".to_owned(),
        NO_KEY.to_owned(),
        "licence-secret-4712".to_owned(),
    ]);

    // Errors about secrets.
    for (method, target, body) in [
        ("POST", "/admin/secrets?name=one", KEYS[1]),
        ("POST", "/admin/secrets?name=one&overwrite=true", KEYS[1]),
        ("POST", "/admin/secrets?name=three", NO_KEY),
        ("POST", "/admin/secrets/rotate?name=one", NO_KEY),
        ("POST", "/admin/secrets/rotate?name=missing", KEYS[1]),
        ("POST", "/admin/secrets/distribute?name=three&node=B", KEYS[0]),
    ] {
        let answer = ask(method, target, body);
        assert!(!answer.starts_with("HTTP/1.1 2"), "{answer}");
        secrets.check(target, &answer);
    }
    let wrong = format!("{}.{}", &key[..16], "a5".repeat(32));
    for key in [&wrong, &format!("{admin}0"), "x"] {
        let headers = format!("Authorization: Bearer {key}\r\n");
        secrets.check("a refusal", &server.ask("GET", "/databases", &headers, ""));
    }

    // Everything that can be looked at.
    let routes = ask("GET", "/debug/routes", "");
    let paths: Vec<&str> =
        routes.split('"').filter(|text| text.starts_with('/') && !text.contains(' ')).collect();
    assert!(paths.len() > 100, "{routes}");
    let mut looked = 0;
    for path in paths {
        let is_endless = ENDLESS.iter().any(|end| path.contains(end));
        if is_endless || path.contains("/secrets/generate") || path.contains("/test/delay") {
            continue;
        }
        let target = path.replace("/databases/*", "/databases/one");
        secrets.check(&target, &ask("GET", &target, ""));
        secrets.check(&target, &server.ask("GET", &target, "", ""));
        looked += 1;
    }
    assert!(looked > 50, "{looked}");
    secrets.check("a record", &ask("GET", "/admin/databases?name=one", ""));

    secrets.check("standard error", &server.stop());
    for logs in ["logs", "audit"] {
        let mut all = String::new();
        texts_below(&place.join(logs), &mut all);
        assert!(all.len() > 500, "{logs}: {all}");
        secrets.check(logs, &all);
    }
    let printed = run(&place, &[&arguments[..], &["--print-config"]].concat());
    secrets.check("--print-config", text(&printed.stdout));
    assert!(text(&printed.stdout).contains("(hidden)"));
    let failed = run(&place, &[&arguments[..], &["--Security.MasterKey.Path=/x"]].concat());
    assert_eq!(failed.status.code(), Some(78));
    secrets.check("refused settings", text(&failed.stderr));
}

#[test]
fn the_first_api_key_is_made_with_the_settings_that_trust_it() {
    let place = directory("first_api_key");
    let made = run(&place, &["setup", "api-key"]);
    assert!(made.status.success());
    let out = text(&made.stdout);
    let key = out.lines().map(str::trim).find(|line| line.len() == 81).unwrap();
    let settings = &out[out.find('{').unwrap()..=out.find('}').unwrap()];
    assert!(!settings.contains(&key[17..]), "{settings}");
    fs::write(place.join("settings.json"), settings).unwrap();
    let server = Server::start(&place, &["--DataDir=here"]);
    let as_admin = format!("Authorization: Bearer {key}\r\n");
    assert!(server.ask("GET", "/admin/stats", &as_admin, "").starts_with("HTTP/1.1 200"));
    assert!(server.ask("GET", "/admin/stats", "", "").starts_with("HTTP/1.1 403"));
    server.stop();
    for (further, is_fine) in [(&[][..], false), (&["--Security.TlsTerminatedByProxy=true"], true)]
    {
        let beyond = ["--check-config", "--ServerUrl=http://0.0.0.0:8080"];
        let checked = run(&place, &[&beyond[..], further].concat());
        assert_eq!(checked.status.success(), is_fine, "{}", text(&checked.stderr));
        assert!(is_fine || text(&checked.stderr).contains("without encryption"));
    }
}
