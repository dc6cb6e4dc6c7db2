//! Backups with the pages of a database: what follows them, what they are encrypted with, and what damage does.

use std::path::{Path, PathBuf};

use engine::{SequentialFile, verify_backup};
use platform::{Access, simulated::Random};
use security::SecretKey;
use serde_json::json;

use crate::{
    backup_chains::{Bench, ROOT},
    backups::{deletion, new_database},
    settings_with,
};

fn bench() -> Bench {
    let bench = Bench::new(json!({"BackupType": "Snapshot"}));
    for number in 0..200 {
        bench.put(
            &format!("d/{number}"),
            &format!("{{\"N\":{number},\"T\":\"{}\"}}", "t".repeat(900)),
        );
    }
    bench
}

fn snapshot_path(bench: &Bench, file: &str) -> PathBuf {
    Path::new(ROOT).join(&bench.folders()[0]).join(file)
}

/// The id of a database, and the texts of documents.
fn identity(bench: &Bench, database: &str) -> [u8; 16] {
    documents::database_identity(&bench.database(database).read()).unwrap().database_id.0
}

#[test]
fn a_snapshot_is_restored_with_the_incremental_backups_that_follow_it() {
    let bench = bench();
    let (snapshot, messages) = bench.run(true);
    assert!(snapshot.ends_with(".ravendb-snapshot"), "{snapshot}");
    assert!(messages.contains("Wrote and verified"), "{messages}");
    assert!(bench.folders()[0].ends_with(".ravendb-db-A-snapshot"));
    bench.put("d/1", r#"{"N":"changed"}"#);
    bench.engine.execute(&bench.database("db"), deletion("d/2")).unwrap();
    let (incremental, _) = bench.run(false);
    assert!(incremental.ends_with(".ravendb-incremental-backup"), "{incremental}");
    bench.put("late", "{}");
    bench.run(false);
    let folder = &bench.folders()[0];
    bench.restore("copy", folder, json!({})).unwrap();
    for id in ["d/0", "d/1", "d/2", "d/199", "late"] {
        assert_eq!(bench.document("copy", id), bench.document("db", id), "{id}");
    }
    assert_ne!(identity(&bench, "copy"), identity(&bench, "db"));
    let environment = |name: &str| bench.database(name).environment().id();
    assert_ne!(environment("copy"), environment("db"));
    // As it was at the time of the snapshot.
    bench.restore("early", folder, json!({"LastFileNameToRestore": snapshot})).unwrap();
    assert!(bench.document("early", "d/2").is_some() && bench.document("early", "late").is_none());
    // It goes on like any other, also after a restart.
    let mut bench = bench;
    bench.while_stopped(|_| {});
    assert!(bench.document("early", "d/1").unwrap().contains("\"N\":1,"));
    let count = documents::progress(&bench.database("copy").read()).unwrap().documents;
    assert_eq!(count, 200);
    bench.database("copy").read().check().unwrap();
}

#[test]
fn a_snapshot_without_what_is_between_is_not_continued() {
    let bench = bench();
    bench.run(true);
    bench.put("a", "{}");
    let (first, _) = bench.run(false);
    bench.put("b", "{}");
    bench.run(false);
    bench.platform.disk.remove_file(&snapshot_path(&bench, &first)).unwrap();
    let error = bench.restore("copy", &bench.folders()[0], json!({})).unwrap_err();
    assert!(error.contains("that file is missing"), "{error}");
    assert!(bench.engine.record("copy").is_none());
}

#[test]
fn a_damaged_snapshot_is_refused_and_nothing_remains() {
    let bench = bench();
    let (file, _) = bench.run(true);
    let (path, disk) = (snapshot_path(&bench, &file), &*bench.platform.disk);
    let good = disk.read_file(&path).unwrap();
    let mut random = Random::new(1);
    for round in 0..60 {
        let mut bytes = good.clone();
        let at = random.below(good.len() as u64) as usize;
        match round % 3 {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..(at + 100).min(good.len()))),
            _ => bytes[at] ^= 1 << random.below(8),
        }
        disk.remove_file(&path).unwrap();
        disk.create(&path, Access::Buffered).unwrap().write_all_at(&bytes, 0).unwrap();
        let opened = SequentialFile::open(disk, &path).unwrap();
        verify_backup(opened, &file, None, &mut |_| true).expect_err("it is damaged");
        let error = bench.restore("copy", &bench.folders()[0], json!({})).unwrap_err();
        assert!(bench.engine.record("copy").is_none(), "round {round}: {error}");
        let directory = Path::new("/data/Databases/copy");
        assert!(!disk.exists(directory).unwrap(), "round {round}: {error}");
    }
}

#[test]
fn a_snapshot_of_ravendb_is_refused_with_the_reason() {
    let bench = bench();
    let (file, _) = bench.run(true);
    let (path, disk) = (snapshot_path(&bench, &file), &*bench.platform.disk);
    disk.remove_file(&path).unwrap();
    let zip = [b"PK\x03\x04".as_slice(), &[0; 100]].concat();
    disk.create(&path, Access::Buffered).unwrap().write_all_at(&zip, 0).unwrap();
    let error = bench.restore("copy", &bench.folders()[0], json!({})).unwrap_err();
    assert!(error.contains("it is a snapshot of RavenDB"), "{error}");
}

#[test]
fn a_snapshot_of_an_encrypted_database_is_encrypted_and_restored_with_any_key_or_none() {
    let settings = settings_with(&["--Security.AllowEncryptedDatabasesOverHttp=true"]);
    let mut bench = Bench::new(json!({"BackupType": "Snapshot"}));
    bench.engine.close();
    let engine = engine::Engine::open(settings, bench.platform.clone()).unwrap();
    bench.engine = std::sync::Arc::new(engine);
    let key = |byte: u8| SecretKey::read(&mut [byte; 32]).unwrap();
    bench.engine.store_encryption_key("db2", &key(7), false).unwrap();
    let record = r#"{"DatabaseName":"db2","Encrypted":true}"#;
    bench.engine.create_database(new_database("db2", record)).unwrap();
    let database = bench.database("db2");
    let text = "nobody may read this";
    bench.put_into("db2", "secret", &format!("{{\"T\":\"{text}\"}}"));
    let sent = json!({"BackupType": "Snapshot", "LocalSettings": {"FolderPath": "b"},
        "BackupEncryptionSettings": {"EncryptionMode": "UseDatabaseKey"}});
    let file = bench.back_up_once(&database, &sent);
    assert!(file.ends_with(".ravendb-encrypted-snapshot"), "{file}");
    let folder = &bench.folders()[0];
    let bytes = bench.platform.disk.read_file(&snapshot_path(&bench, &file)).unwrap();
    assert!(!bytes.windows(text.len()).any(|window| window == text.as_bytes()));
    let error = bench.restore("none", folder, json!({})).unwrap_err();
    assert!(error.contains("its key is missing"), "{error}");
    let base64 = |byte: u8| model::base64_text(&[byte; 32]);
    let given = |byte: u8| json!({"EncryptionMode": "UseProvidedKey", "Key": base64(byte)});
    bench.restore("wrong", folder, json!({"BackupEncryptionSettings": given(8)})).unwrap_err();
    let plain = json!({"BackupEncryptionSettings": given(7)});
    bench.restore("plain", folder, plain).unwrap();
    let other = json!({"BackupEncryptionSettings": given(7), "EncryptionKey": base64(9)});
    bench.restore("other", folder, other).unwrap();
    for (name, is_encrypted) in [("plain", false), ("other", true)] {
        assert_eq!(bench.database(name).environment().is_encrypted(), is_encrypted);
        assert!(bench.document(name, "secret").unwrap().contains(text));
        bench.database(name).read().check().unwrap();
    }
    let data_file = Path::new("/data/Databases/other/corvus.data");
    let bytes = bench.platform.disk.read_file(data_file).unwrap();
    assert!(!bytes.windows(text.len()).any(|window| window == text.as_bytes()));
}
