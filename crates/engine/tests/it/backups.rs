//! Backups and restores on disks that fail, fill up and lose power.

use std::{path::Path, sync::Arc};

use blittable::{Builder, ParseLimits};
use commands::{Batch, Command};
use database::{Access, AccessError, DatabaseLease, NewDatabase, Operations};
use documents::{ExpectedVersion, PutDocument, RequestedId};
use engine::{Engine, EngineError, SequentialFile, verify_backup};
use model::{DatabaseLockMode, DatabaseName, DocumentId};
use platform::{
    Disk, Platform,
    simulated::{FaultKind, FaultSpan, OperationFilter, Simulation, Survival},
};
use serde_json::json;
use wire::{
    BackupConfiguration, RecordBody, RestoreConfiguration,
    operation_state::{OperationFailure, OperationStatus},
};

use crate::settings;

const DOCUMENTS: u64 = 40;
const ROOT: &str = "/data/Backups/b";

pub(crate) fn show_failure(error: EngineError) -> OperationStatus {
    OperationStatus::Faulted(OperationFailure {
        type_name: String::new(),
        message: error.to_string(),
        error: String::new(),
        status_code: 500,
    })
}

pub(crate) fn new_database(name: &str, body: &str) -> NewDatabase {
    NewDatabase {
        topology: None,
        name: DatabaseName::new(name).unwrap(),
        disabled: false,
        body: body.as_bytes().to_vec(),
        request_id: None,
    }
}

/// Deletes a document.
pub(crate) fn deletion(id: &str) -> Batch {
    let id = DocumentId::new(id).unwrap();
    Batch::one(Command::Delete { id, expected: ExpectedVersion::Any })
}

pub(crate) fn opened(engine: &Engine, name: &str) -> Option<DatabaseLease> {
    for _ in 0..1_000_000 {
        match engine.access(name) {
            Ok(Access::Ready(lease)) => return Some(lease),
            Ok(Access::Wait(_)) => std::thread::yield_now(),
            Err(_) => return None,
        }
    }
    None
}

/// Locked against deletion, which must not keep a restore from removing what it has begun.
const RECORD: &str = r#"{"DatabaseName":"db","LockMode":"PreventDeletesError"}"#;

/// An engine with a database of some documents.
fn filled(platform: &Platform) -> Arc<Engine> {
    let engine = Arc::new(Engine::open(settings(), platform.clone()).unwrap());
    engine.create_database(new_database("db", RECORD)).unwrap();
    let database = opened(&engine, "db").unwrap();
    let mut builder = Builder::new(ParseLimits::default());
    let mut batch = Batch::default();
    for number in 0..DOCUMENTS {
        let json = format!("{{\"N\":{number},\"T\":\"{}\"}}", "t".repeat(2000));
        let id = RequestedId::Exactly(DocumentId::new(format!("d/{number}").as_str()).unwrap());
        let body = builder.parse_document(json.as_bytes()).unwrap();
        batch.commands.push(Command::Put(PutDocument { id, expected: ExpectedVersion::Any, body }));
    }
    engine.execute(&database, batch).unwrap();
    engine
}

pub(crate) fn ended(operations: &Operations, id: i64) -> OperationStatus {
    loop {
        let status = operations.get(id).unwrap().state().status;
        if status != OperationStatus::InProgress {
            return status;
        }
        std::thread::yield_now();
    }
}

/// The forms of backups.
const FORMS: [&str; 2] = ["Backup", "Snapshot"];

fn back_up(engine: &Arc<Engine>, form: &str) -> Option<OperationStatus> {
    let database = opened(engine, "db")?;
    let sent = json!({"BackupType": form, "LocalSettings": {"FolderPath": "b"}});
    let configuration = BackupConfiguration::read(sent.as_object().unwrap()).unwrap();
    let id = engine.begin_backup(&database, &configuration, 54_000, show_failure).ok()?;
    Some(ended(database.operations(), id))
}

/// The folder of the only backup.
fn folder(disk: &dyn Disk) -> String {
    let names = disk.list(Path::new(ROOT)).unwrap();
    assert_eq!(names.len(), 1);
    format!("b/{}", names[0])
}

fn restore(engine: &Arc<Engine>, folder: &str) -> Option<OperationStatus> {
    let sent = json!({"DatabaseName": "copy", "BackupLocation": folder});
    let configuration = RestoreConfiguration::read(sent.as_object().unwrap()).unwrap();
    let id = engine.begin_restore(configuration, show_failure).ok()?;
    Some(ended(engine.operations(), id))
}

/// How many files have the names of backups. Each of them must be one.
fn good_backups(disk: &dyn Disk, context: &str) -> usize {
    let root = Path::new(ROOT);
    let folders = if disk.exists(root).unwrap() { disk.list(root).unwrap() } else { Vec::new() };
    let mut count = 0;
    for folder in folders {
        for name in disk.list(&root.join(&folder)).unwrap() {
            if name.ends_with(".in-progress") {
                continue;
            }
            let file = SequentialFile::open(disk, &root.join(&folder).join(&name)).unwrap();
            let verified = verify_backup(file, &name, None, &mut |_| true);
            let verified = verified.unwrap_or_else(|error| panic!("{context}: {error}"));
            let has = |(section, count): &(String, u64)| match section.as_str() {
                "Docs" => *count == DOCUMENTS,
                "Pages" => 4 < *count,
                _ => false,
            };
            assert!(verified.sections.iter().any(has), "{context}: {verified:?}");
            count += 1;
        }
    }
    count
}

/// The database is there with everything, or not at all.
fn is_restored(engine: &Engine, context: &str) -> bool {
    let Some(record) = engine.record("copy") else { return false };
    let lock_mode = RecordBody::of_record(&record).lock_mode();
    assert_eq!(lock_mode, DatabaseLockMode::PreventDeletesError, "{context}");
    let database = opened(engine, "copy").unwrap_or_else(|| panic!("{context}: it is not usable"));
    let count = documents::progress(&database.read()).unwrap().documents;
    assert_eq!(count, DOCUMENTS, "{context}");
    true
}

#[test]
fn a_disk_that_fails_once_leaves_a_good_backup_or_none() {
    FORMS.into_iter().for_each(fail_backups_once);
}

fn fail_backups_once(form: &str) {
    let (mut failed, mut nth) = (0, 1);
    loop {
        let Simulation { platform, disk, .. } = Platform::simulated(nth);
        let engine = filled(&platform);
        let kind = if nth % 2 == 0 { FaultKind::InputOutput } else { FaultKind::StorageFull };
        disk.fail_operation(nth, OperationFilter::Any, kind, FaultSpan::Once);
        let status = back_up(&engine, form);
        disk.clear_faults();
        let is_made = matches!(status, Some(OperationStatus::BackedUp(_)));
        let context = format!("{form}, operation {nth}: {status:?}");
        let count = good_backups(&*disk, &context);
        // The last step is to sync the folder: if that fails, the file is good, and may be lost.
        assert!(!is_made || count == 1, "{context}");
        failed += usize::from(!is_made);
        engine.close();
        if is_made && 40 < nth {
            break;
        }
        nth += 1;
    }
    assert!(5 < failed, "the faults hit only {failed} backups");
}

#[test]
fn a_power_cut_leaves_a_good_backup_or_none() {
    FORMS.into_iter().for_each(cut_backups);
}

fn cut_backups(form: &str) {
    let mut cuts = 0;
    for nth in 1..40 {
        let Simulation { platform, disk, .. } = Platform::simulated(nth);
        let engine = filled(&platform);
        disk.cut_power_at_operation(nth, Survival::Random);
        let status = back_up(&engine, form);
        cuts += usize::from(disk.is_power_lost());
        drop(engine);
        disk.restart().unwrap();
        let context = format!("{form}, operation {nth}: {status:?}");
        let count = good_backups(&*disk, &context);
        let is_made = matches!(status, Some(OperationStatus::BackedUp(_)));
        assert!(!is_made || count == 1, "{context}");
    }
    assert!(5 < cuts, "only {cuts} cuts hit a backup");
}

#[test]
fn a_restore_on_a_disk_that_fills_up_leaves_everything_or_nothing() {
    FORMS.into_iter().for_each(fill_up_restores);
}

fn fill_up_restores(form: &str) {
    let mut failed = 0;
    for nth in (1..120).step_by(3) {
        let Simulation { platform, disk, .. } = Platform::simulated(nth);
        let engine = filled(&platform);
        assert!(matches!(back_up(&engine, form), Some(OperationStatus::BackedUp(_))));
        let folder = folder(&*disk);
        let kind = FaultKind::StorageFull;
        disk.fail_operation(nth, OperationFilter::Mutating, kind, FaultSpan::UntilCleared);
        let status = restore(&engine, &folder);
        disk.clear_faults();
        let context = format!("{form}, operation {nth}: {status:?}");
        failed += usize::from(!matches!(status, Some(OperationStatus::Restored(_))));
        engine.close();
        drop(engine);
        let engine = Engine::open(settings(), platform).unwrap();
        let is_done = matches!(status, Some(OperationStatus::Restored(_)));
        assert!(!is_done || is_restored(&engine, &context), "{context}");
        is_restored(&engine, &context);
        engine.close();
    }
    assert!(5 < failed, "the faults hit only {failed} restores");
}

#[test]
fn a_restore_does_not_touch_what_was_kept_of_a_deleted_database() {
    let Simulation { platform, disk, .. } = Platform::simulated(1);
    let engine = filled(&platform);
    assert!(matches!(back_up(&engine, "Backup"), Some(OperationStatus::BackedUp(_))));
    engine.create_database(new_database("copy", r#"{"DatabaseName":"copy"}"#)).unwrap();
    let database = opened(&engine, "copy").unwrap();
    let directory = database.environment().options().directory.clone();
    drop(database);
    engine.delete_databases(&["copy".to_owned()], false).unwrap();
    let data_file = || disk.file_bytes(&directory.join("corvus.data")).unwrap();
    let kept = data_file();
    let status = restore(&engine, &folder(&*disk));
    let Some(OperationStatus::Faulted(failure)) = status else { panic!("{status:?}") };
    assert!(failure.message.contains("'copy' were kept in"), "{}", failure.message);
    assert!(engine.record("copy").is_none());
    assert_eq!(data_file(), kept);
    engine.close();
}

#[test]
fn nothing_is_kept_of_a_restore_that_is_deleted_before_its_end() {
    let engine = Engine::open(settings(), Platform::memory()).unwrap();
    let half = r#"{"DatabaseName":"half","DatabaseState":"RestoreInProgress"}"#;
    engine.create_database(new_database("half", half)).unwrap();
    engine.delete_databases(&["half".to_owned()], false).unwrap();
    engine.create_database(new_database("half", r#"{"DatabaseName":"half"}"#)).unwrap();
    let database = opened(&engine, "half").unwrap();
    assert_eq!(documents::progress(&database.read()).unwrap().documents, 0);
    engine.close();
}

#[test]
fn a_power_cut_during_a_restore_leaves_everything_or_nothing() {
    FORMS.into_iter().for_each(cut_restores);
}

fn cut_restores(form: &str) {
    let (mut cuts, mut nth, mut restored) = (0, 1, 0);
    while nth < 400 && restored < 3 {
        let Simulation { platform, disk, .. } = Platform::simulated(nth);
        let engine = filled(&platform);
        assert!(matches!(back_up(&engine, form), Some(OperationStatus::BackedUp(_))));
        let folder = folder(&*disk);
        disk.cut_power_at_operation(nth, Survival::Random);
        let status = restore(&engine, &folder);
        cuts += usize::from(disk.is_power_lost());
        drop(engine);
        disk.restart().unwrap();
        let context = format!("{form}, operation {nth}: {status:?}");
        let engine = Engine::open(settings(), platform).unwrap();
        let is_done = matches!(status, Some(OperationStatus::Restored(_)));
        let is_there = is_restored(&engine, &context);
        assert!(!is_done || is_there, "{context}");
        restored += usize::from(is_done);
        engine.close();
        nth += 1;
    }
    assert!(5 < cuts, "only {cuts} cuts hit a restore");
}

#[test]
fn a_database_that_is_being_restored_is_not_used_and_is_removed_at_the_next_start() {
    let platform = Platform::memory();
    let engine = Engine::open(settings(), platform.clone()).unwrap();
    // As a restore begins. The process ends before it is complete.
    let half =
        || new_database("half", r#"{"DatabaseName":"half","DatabaseState":"RestoreInProgress"}"#);
    engine.create_database(half()).unwrap();
    let refused = loop {
        match engine.access("half") {
            Ok(_) => std::thread::yield_now(),
            Err(error) => break error,
        }
    };
    assert!(
        matches!(refused, AccessError::Locked { reason: "it is being restored" }),
        "{refused:?}"
    );
    assert!(engine.if_open("half").is_none());
    engine.close();
    drop(engine);
    let engine = Engine::open(settings(), platform).unwrap();
    assert!(engine.records().is_empty());
    engine.create_database(half()).unwrap();
}
