//! What operators configure, and what comes of it.

use database::{NewDatabase, Replacement};
use engine::{Engine, EngineError, ServerConfiguration};
use model::{CollectionName, DatabaseLockMode, DatabaseName, RetentionKind};
use wire::{
    RecordBody, SectionKind, StoredSection, StudioOf, TimeSeriesSectionChange,
    read_client_configuration, read_retention_configuration, read_revisions_configuration,
    read_settings_section, read_studio_configuration,
};

use crate::{open, with_database};

fn sent(json: &str) -> RecordBody {
    RecordBody::read(json.as_bytes())
}

fn expiration(json: &str) -> StoredSection {
    read_retention_configuration(RetentionKind::Expiration, sent(json).properties(), "db").unwrap()
}

fn client(json: &str) -> StoredSection {
    read_client_configuration(json.as_bytes()).unwrap()
}

fn settings(json: &str) -> StoredSection {
    read_settings_section(sent(json).properties().clone())
}

fn body(engine: &Engine) -> RecordBody {
    RecordBody::of_record(&engine.record("db").unwrap())
}

#[test]
fn sections_are_replaced_in_one_change_and_the_open_database_follows() {
    let (engine, database) = with_database();
    let revisions = r#"{"Default":{"MinimumRevisionsToKeep":2}}"#;
    let revisions = read_revisions_configuration(sent(revisions).properties()).unwrap();
    let expiration = expiration(r#"{"DeleteFrequencyInSec":5}"#);
    let written = engine.configure("DB", &[revisions.clone(), expiration.clone()]).unwrap();
    assert_eq!(written.record.etag, written.index);
    assert_eq!(body(&engine).section(SectionKind::Revisions), Some(revisions.json()));
    let kind = SectionKind::Retention(RetentionKind::Expiration);
    assert_eq!(body(&engine).section(kind), Some(expiration.json()));
    assert_eq!(body(&engine).properties()["DatabaseName"], "db");
    let record = database.record();
    assert_eq!(record.etag, written.index);
    let users = CollectionName::new("Users").unwrap();
    let followed = wire::sections_of(&record.configuration).revisions.clone().unwrap();
    assert_eq!(followed.rule_of(&users).unwrap().count_to_keep, Some(2));
    let missing = engine.configure("none", &[expiration]).unwrap_err();
    assert!(matches!(missing, EngineError::DatabaseMissing { .. }), "{missing}");
}

#[test]
fn settings_are_checked_before_they_are_stored() {
    let (engine, _database) = with_database();
    for refused in [
        r#"{"Indexing.MapBatchSize":"many"}"#,
        r#"{"DataDir":"/elsewhere"}"#,
        r#"{"ServerUrl":"http://x"}"#,
    ] {
        let error = engine.configure("db", &[settings(refused)]);
        assert!(error.is_err(), "{refused}");
        assert_eq!(body(&engine).section(SectionKind::Settings), None);
    }
    let unknown = settings(r#"{"Unknown.Key":"1"}"#);
    engine.configure("db", std::slice::from_ref(&unknown)).unwrap();
    assert_eq!(body(&engine).section(SectionKind::Settings), Some(unknown.json()));
}

#[test]
fn clients_get_the_configuration_of_their_database_or_that_of_the_server() {
    let (engine, _database) = with_database();
    let effective = || engine.client_configuration(&engine.record("db").unwrap()).unwrap();
    assert_eq!(effective(), None);
    let of_server = client(r#"{"MaxNumberOfRequestsPerSession":7}"#);
    let server_index = engine.configure_server(ServerConfiguration::Clients, &of_server).unwrap();
    let found = effective().unwrap();
    assert_eq!(
        (found.index, &found.json["MaxNumberOfRequestsPerSession"]),
        (server_index, &7.into())
    );
    let own = client(r#"{"MaxNumberOfRequestsPerSession":9}"#);
    let own_index = engine.configure("db", &[own]).unwrap().index;
    assert!(server_index < own_index);
    assert_eq!(engine.newest_client_configuration(), own_index);
    assert_eq!(effective().unwrap().json["MaxNumberOfRequestsPerSession"], 9);
    // A change of something else does not make it newer.
    engine.configure("db", &[expiration("{}")]).unwrap();
    assert_eq!(effective().unwrap().index, own_index);
    assert_eq!(engine.newest_client_configuration(), own_index);
    // Clients keep what they have until they get something newer.
    let index = engine.configure("db", &[client(r#"{"Disabled":true}"#)]).unwrap().index;
    let found = effective().unwrap();
    assert_eq!((found.index, &found.json["MaxNumberOfRequestsPerSession"]), (index, &7.into()));
}

#[test]
fn a_record_without_the_client_configuration_of_the_one_before_is_a_change_of_it() {
    let (engine, _database) = with_database();
    let own = engine.configure("db", &[client(r#"{"MaxNumberOfRequestsPerSession":9}"#)]).unwrap();
    let replacement = |expected| Replacement {
        name: DatabaseName::new("db").unwrap(),
        expected,
        disabled: false,
        body: br#"{"DatabaseName":"db"}"#.to_vec(),
        request_id: None,
    };
    assert!(engine.replace_record(replacement(own.index - 1)).is_err());
    let replaced = engine.replace_record(replacement(own.index)).unwrap();
    assert_eq!(engine.newest_client_configuration(), replaced.index);
    let found = engine.client_configuration(&replaced.record).unwrap().unwrap();
    assert!(found.is_disabled());
    let again = engine.replace_record(replacement(replaced.index)).unwrap();
    assert!(replaced.index < again.index);
    assert_eq!(engine.newest_client_configuration(), replaced.index);
}

#[test]
fn a_change_of_time_series_is_decided_on_what_is_stored() {
    let (engine, _database) = with_database();
    let names = |names: &str, is_update: bool| {
        let json = format!(
            r#"{{"Collection":"Cos","TimeSeries":"HR","ValueNames":["{names}"],"Update":{is_update}}}"#
        );
        TimeSeriesSectionChange::NameValues(sent(&json).properties().clone())
    };
    assert!(engine.change_time_series("db", &names("Bpm", false)).unwrap().is_some());
    let before = engine.record("db").unwrap().etag;
    assert!(engine.change_time_series("db", &names("Bpm", false)).unwrap().is_none());
    let refused = engine.change_time_series("db", &names("X", false)).unwrap_err();
    assert!(matches!(refused, EngineError::Section(_)), "{refused}");
    let remove =
        TimeSeriesSectionChange::RemovePolicy { collection: "Cos".into(), name: "p".into() };
    assert!(engine.change_time_series("db", &remove).unwrap().is_none());
    assert_eq!(engine.record("db").unwrap().etag, before);
    assert!(engine.change_time_series("db", &names("X", true)).unwrap().is_some());
    let stored = body(&engine);
    let stored = stored.section(SectionKind::TimeSeries).unwrap();
    assert_eq!(stored["NamedValues"]["Cos"]["HR"][0], "X");
}

#[test]
fn a_lock_mode_keeps_a_database() {
    let (engine, database) = with_database();
    drop(database);
    let names = ["db".to_owned()];
    let with_missing = ["db".to_owned(), "none".to_owned()];
    assert!(engine.set_lock_mode(&with_missing, DatabaseLockMode::PreventDeletesError).is_err());
    assert_eq!(body(&engine).lock_mode(), DatabaseLockMode::Unlock);
    engine.set_lock_mode(&names, DatabaseLockMode::PreventDeletesError).unwrap();
    let error = engine.delete_databases(&names, true).unwrap_err();
    assert!(error.to_string().contains("('PreventDeletesError')"), "{error}");
    engine.set_lock_mode(&names, DatabaseLockMode::PreventDeletesIgnore).unwrap();
    assert!(engine.delete_databases(&names, true).unwrap().is_empty());
    assert!(engine.record("db").is_some());
    engine.set_lock_mode(&names, DatabaseLockMode::Unlock).unwrap();
    assert_eq!(engine.delete_databases(&names, true).unwrap().len(), 1);
    assert!(engine.record("db").is_none());
}

#[test]
fn a_locked_database_keeps_the_others_of_the_request() {
    let (engine, database) = with_database();
    drop(database);
    let new = NewDatabase {
        topology: None,
        name: DatabaseName::new("locked").unwrap(),
        disabled: false,
        body: br#"{"DatabaseName":"locked","LockMode":"PreventDeletesError"}"#.to_vec(),
        request_id: None,
    };
    engine.create_database(new).unwrap();
    assert!(engine.delete_databases(&["db".to_owned(), "locked".to_owned()], true).is_err());
    assert!(engine.record("db").is_some());
}

#[test]
fn a_database_is_disabled_and_enabled() {
    let (engine, database) = with_database();
    drop(database);
    let refused = engine.set_disabled("none", true);
    assert!(matches!(refused, Err(EngineError::DatabaseMissing { name }) if name == "none"));
    let disabled = engine.set_disabled("db", true).unwrap();
    assert!(disabled.record.disabled && engine.access("db").is_err());
    // Nothing changes.
    assert_eq!(engine.set_disabled("db", true).unwrap().index, disabled.index);
    engine.set_disabled("db", false).unwrap();
    drop(open(&engine));
}

#[test]
fn only_the_nodes_of_a_database_are_put_in_order() {
    let (engine, database) = with_database();
    let before = database.record().topology_index;
    let nodes = [engine.node_tag().as_str().to_owned()];
    for wrong in [vec![], vec!["Z".to_owned()], vec![nodes[0].clone(), "Z".to_owned()]] {
        let error = engine.reorder_nodes("db", &wrong, true).unwrap_err();
        assert!(matches!(error, EngineError::OtherNodes), "{wrong:?}: {error}");
    }
    engine.reorder_nodes("db", &nodes, true).unwrap();
    assert!(body(&engine).has_node_order(&[&nodes[0]]));
    assert!(before < database.record().topology_index);
    engine.reorder_nodes("db", &nodes, false).unwrap();
    assert!(body(&engine).has_node_order(&[]));
    let promoted = engine.promote_node("db", "A").unwrap();
    assert_eq!(database.record().etag, promoted.index);
}

#[test]
fn the_studio_configuration_of_the_server_is_stored_as_it_is_shown() {
    let (engine, _database) = with_database();
    let of_clients = engine.newest_client_configuration();
    assert!(engine.server_configuration(ServerConfiguration::Studio).unwrap().is_none());
    let section = r#"{"Environment":"Testing"}"#;
    let section = read_studio_configuration(sent(section).properties(), StudioOf::Server).unwrap();
    let index = engine.configure_server(ServerConfiguration::Studio, &section).unwrap();
    let stored = engine.server_configuration(ServerConfiguration::Studio).unwrap().unwrap();
    assert_eq!((stored.bytes, stored.index), (section.to_json(), index));
    // Clients do not load it.
    assert_eq!(engine.newest_client_configuration(), of_clients);
}
