//! `corvus export` and `corvus import`, and the commands that the documentation shows.

use std::{fs, path::Path};

use crate::process::{Server, directory, run, text};

const DOCUMENTED: &str = include_str!("../../../../docs/import-export.md");

fn create(server: &Server, name: &str) {
    let body = format!(r#"{{"DatabaseName":"{name}"}}"#);
    let answer = server.ask("PUT", &format!("/admin/databases?name={name}"), "", &body);
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
}

fn put(server: &Server, id: &str, body: &str) {
    let answer = server.ask("PUT", &format!("/databases/Shop/docs?id={id}"), "", body);
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
}

fn shop(name: &str) -> (std::path::PathBuf, Server) {
    let place = directory(name);
    let server = Server::start(&place, &["--RunInMemory=true"]);
    create(&server, "Shop");
    create(&server, "Copy");
    for n in 1..=3 {
        let body = format!(
            r#"{{"Total":{n}.50,"Address":{{"City":"a,b"}},"@metadata":{{"@collection":"Orders"}}}}"#
        );
        put(&server, &format!("orders/{n}"), &body);
    }
    put(&server, "users/1", r#"{"Name":"é","@metadata":{"@collection":"Users"}}"#);
    (place, server)
}

fn count(server: &Server, database: &str) -> String {
    let answer = server.ask("GET", &format!("/databases/{database}/stats"), "", "");
    let (_, rest) = answer.split_once("\"CountOfDocuments\":").unwrap();
    rest.split(',').next().unwrap().to_owned()
}

/// Runs a command line; its exit code, and what it wrote.
fn corvus(place: &Path, server: &Server, line: &str) -> (i32, String) {
    let url = format!("http://{}", server.address());
    let words = shlex::split(line).unwrap().into_iter();
    let words: Vec<String> =
        words.map(|word| word.replace("http://127.0.0.1:8080", &url)).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let output = run(place, &words[1..]);
    let wrote = format!("{}{}", text(&output.stdout), text(&output.stderr));
    (output.status.code().unwrap(), wrote)
}

#[test]
fn the_commands_of_the_documentation_work_in_their_order() {
    let (place, server) = shop("documented_transfers");
    fs::write(place.join("key.txt"), "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n").unwrap();
    let commands = DOCUMENTED.lines().filter(|line| line.starts_with("corvus "));
    let commands: Vec<&str> = commands.collect();
    assert!(7 <= commands.len(), "{commands:?}");
    for command in commands {
        let (code, wrote) = corvus(&place, &server, command);
        assert_eq!(code, 0, "{command}: {wrote}");
    }
    assert_eq!(count(&server, "Copy"), "4");
}

#[test]
fn every_format_comes_back() {
    let (place, server) = shop("transfer_formats");
    for (file, options, documents) in [
        ("all.ravendbdump", "", 4),
        ("all.jsonl", "", 4),
        ("orders.csv", "--collection=Orders", 3),
        ("orders.jsonl", "--query='from Orders where Total > 1.9'", 2),
    ] {
        let line = format!("corvus export http://127.0.0.1:8080 Shop {file} {options}");
        let (code, wrote) = corvus(&place, &server, &line);
        assert!(code == 0 && wrote.contains(&format!("{file} has ")), "{wrote}");
        create(&server, &format!("db-{file}"));
        let line = format!("corvus import http://127.0.0.1:8080 db-{file} {file}");
        let (code, wrote) = corvus(&place, &server, &line);
        assert_eq!(code, 0, "{wrote}");
        assert!(wrote.contains(&format!("{documents} Documents, 0 of them")), "{file}: {wrote}");
        assert_eq!(count(&server, &format!("db-{file}")), documents.to_string(), "{file}");
    }
    assert!(
        !fs::read_dir(&place)
            .unwrap()
            .any(|entry| { entry.unwrap().file_name().to_string_lossy().ends_with(".unfinished") })
    );
}

#[test]
fn failures_end_with_their_exit_code_and_the_reason() {
    let (place, server) = shop("transfer_failures");
    fs::write(place.join("bad.csv"), "@id,a\nx/1,1\nx/2\nx/3,3\n").unwrap();
    let whole = r#"{"BuildVersion":54000,"Docs":[{"a":1,"@metadata":{"@id":"x/9"}}"#;
    fs::write(place.join("cut.ravendbdump"), whole).unwrap();
    for (line, code, part) in [
        ("import http://127.0.0.1:8080 Copy bad.csv --collection=Xs", 1, "Row 3 could not be"),
        ("import http://127.0.0.1:8080 Copy cut.ravendbdump", 1, "Imported before that: "),
        ("import http://127.0.0.1:8080 Nope bad.csv", 1, "'Nope' does not exist"),
        ("import http://127.0.0.1:8080 Copy missing.csv", 1, "Cannot read missing.csv"),
        ("import http://127.0.0.1:1 Copy bad.csv", 1, "http://127.0.0.1:1: "),
        ("import ftp://a Copy bad.csv", 1, "'ftp://a' is no address"),
        ("export http://127.0.0.1:8080 Nope x.ravendbdump", 1, "'Nope' does not exist"),
        ("export http://127.0.0.1:8080 Shop x.csv --query=nothing", 1, "corvus: "),
        ("export http://127.0.0.1:8080 Shop no/x.csv", 1, "no/x.csv was not written"),
        ("export http://127.0.0.1:8080 Shop", 2, "Usage: corvus export"),
        ("import x --nothing", 2, "invalid option '--nothing'"),
        ("export --help", 0, "--api-key-file"),
        ("help import", 0, "Usage: corvus import"),
    ] {
        let (found, wrote) = corvus(&place, &server, &format!("corvus {line}"));
        assert!(found == code && wrote.contains(part), "{line}: {found} {wrote}");
    }
    assert_eq!(count(&server, "Copy"), "3");
    assert!(!place.join("x.ravendbdump").exists() && !place.join("x.csv").exists());
}

#[test]
fn a_server_with_certificates_is_used_with_one() {
    let place = directory("transfer_certificates");
    let server = Server::start(&place, &["--DataDir=data"]);
    create(&server, "Shop");
    put(&server, "users/1", "{}");
    server.stop();
    let set_up = run(&place, &["setup", "secure", "s", "--password=pw"]);
    assert!(set_up.status.success(), "{}", text(&set_up.stderr));
    fs::write(place.join("pw.txt"), "pw\n").unwrap();
    let data = format!("--DataDir={}", place.join("data").display());
    let mut command = crate::process::corvus(
        &place,
        &["--config-path=s/settings.json", "--ServerUrl=https://127.0.0.1:0", &data],
    );
    let server = Server::of(&mut command);
    let (_, port) = server.address().rsplit_once(':').unwrap();
    for (options, code, part) in [
        ("--certificate=s/admin.crt --certificate-key=s/admin.key", 0, "x.jsonl has "),
        ("--certificate=s/admin.pfx --password-file=pw.txt", 0, "x.jsonl has "),
        ("--trust=s/authority.crt", 1, "corvus: "),
        ("", 1, "UnknownIssuer"),
        ("--certificate=s/admin.pfx", 1, "s/admin.pfx: "),
        ("--certificate-key=s/admin.key", 1, "belong to --certificate"),
        ("--trust=pw.txt", 1, "pw.txt has no certificate in PEM"),
    ] {
        let line = format!("corvus export https://localhost:{port} Shop x.jsonl {options}");
        let (found, wrote) = corvus(&place, &server, &line);
        assert!(found == code && wrote.contains(part), "{options}: {found} {wrote}");
    }
    let line = format!(
        "corvus import https://localhost:{port} Shop x.jsonl --certificate=s/admin.crt --certificate-key=s/admin.key"
    );
    let (code, wrote) = corvus(&place, &server, &line);
    assert!(code == 0 && wrote.contains("1 Documents, 0"), "{wrote}");
}
