//! Loading as a whole: precedence, reports, overlays. Each reader has its own tests.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::accepted_keys::ACCEPTED;
use crate::active_keys::ACTIVE;
use crate::key::ValueType;
use crate::value::parse_value;
use crate::{
    CompressionLevel, DatabaseSettings, Inputs, Loaded, SettingsError, Source, Start,
    UnsecuredAccess, Warning, effective_text, load,
};

#[derive(Default)]
struct Case<'a> {
    arguments: &'a [&'a str],
    environment: &'a [(&'a str, &'a str)],
    files: &'a [(&'a str, &'a str)],
}

impl Case<'_> {
    fn load(&self) -> Result<Start, SettingsError> {
        let read_file =
            |path: &Path| match self.files.iter().find(|(name, _)| Path::new(name) == path) {
                Some((_, "(forbidden)")) => Err(io::Error::from(io::ErrorKind::PermissionDenied)),
                Some((_, text)) => Ok(text.as_bytes().to_vec()),
                None => Err(io::Error::from(io::ErrorKind::NotFound)),
            };
        load(Inputs {
            arguments: self.arguments.iter().map(Into::into).collect(),
            environment: self.environment.iter().map(|(k, v)| (k.into(), v.into())).collect(),
            read_file: &read_file,
        })
    }

    fn serve(&self) -> Loaded {
        match self.load() {
            Ok(Start::Serve(loaded)) => loaded,
            other => panic!("{other:?}"),
        }
    }

    fn problems(&self) -> Vec<String> {
        match self.load() {
            Ok(start) => panic!("{start:?}"),
            Err(error) => error.problems.iter().map(ToString::to_string).collect(),
        }
    }
}

fn arguments<'a>(arguments: &'a [&'a str]) -> Case<'a> {
    Case { arguments, ..Case::default() }
}

fn overrides(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

#[test]
fn without_settings_the_defaults_apply() {
    let Loaded { settings, warnings } = Case::default().serve();
    assert!(warnings.is_empty());
    assert_eq!(settings.server_urls[0].to_string(), "http://127.0.0.1:8080");
    assert!(settings.tcp_urls.is_empty());
    assert_eq!(settings.public_server_url, None);
    assert_eq!(settings.data_dir, PathBuf::from("data"));
    assert_eq!(settings.journals_path, None);
    assert_eq!(settings.unsecured_access_allowed, UnsecuredAccess::Local);
    assert_eq!(settings.protocol_version.as_str(), "5.4.207.54178");
    assert_eq!(settings.server.connections_max, 10_000);
    assert_eq!(settings.server.database_load_wait_max, Duration::from_secs(30));
    assert_eq!(settings.http.request_body_bytes_max, 256 << 20);
    assert_eq!(settings.http.request_head_bytes_max, 64 << 10);
    assert_eq!(settings.http.gzip_level, CompressionLevel::Fastest);
    assert!(settings.http.use_response_compression);
    assert_eq!(settings.databases.concurrent_loads_max, 8);
    assert_eq!(settings.databases.concurrent_load_timeout, Duration::from_secs(60));
    assert_eq!(settings.documents.document_bytes_max, 64 << 20);
    assert_eq!(settings.documents.nesting_depth_max, 128);
    assert!(!settings.database.run_in_memory);
    assert_eq!(settings.database.unflushed_bytes_max, None);
    assert_eq!(settings.database.free_space_alert_bytes, 1 << 30);
    assert_eq!(settings.database.free_space_alert_percent, 15);
    assert_eq!(settings.database.free_space_write_bytes, 128 << 20);
    assert_eq!(settings.database.slow_io_min, Duration::from_millis(500));
    assert_eq!((settings.memory.limit_bytes, settings.memory.low_bytes), (None, None));
    assert_eq!(settings.database.journal_bytes_max, 64 << 20);
    assert_eq!(settings.database.idle_time_max, Duration::from_secs(900));
}

#[test]
fn each_source_wins_over_the_ones_before_it() {
    let files = [("settings.json", r#"{"DataDir": "file"}"#)];
    let environment = [
        ("RAVEN_SETTINGS", r#"{"DataDir": "json"}"#),
        ("RAVEN_DataDir", "variable"),
        ("RAVEN_ARGS", "--DataDir=extra"),
    ];
    for (files, environment, arguments, winner) in [
        (&files[..0], &environment[..0], &[][..], "data"),
        (&files, &environment[..0], &[], "file"),
        (&files, &environment[..1], &[], "json"),
        (&files, &environment[..2], &[], "variable"),
        (&files, &environment, &[], "extra"),
        (&files, &environment, &["--DataDir=line"], "line"),
        (&files, &environment, &["--DataDir=line", "--datadir=last"], "last"),
        (&files, &environment[..0], &["--DataDir="], "file"),
    ] {
        let settings = Case { arguments, environment, files }.serve().settings;
        assert_eq!(settings.data_dir, PathBuf::from(winner));
    }
}

#[test]
fn the_effective_settings_show_winners_and_losers() {
    let loaded = Case {
        arguments: &["--DataDir=line", "--Indexing.MapBatchSize=128"],
        environment: &[("RAVEN_DataDir", "variable")],
        files: &[("settings.json", r#"{"DataDir": "file"}"#)],
    }
    .serve();
    let text = effective_text(loaded.settings.effective());
    for expected in [
        "DataDir = line (command line; overrides variable (environment variable RAVEN_DataDir), \
         file (file settings.json), data (default))\n",
        "ServerUrl = http://127.0.0.1:8080 (default)\n",
        "PublicServerUrl = (unset) (default)\n",
        "Indexing.MapBatchSize = 128 (command line; accepted, has no effect)\n",
    ] {
        assert!(text.contains(expected), "{expected}in\n{text}");
    }
    assert_eq!(loaded.settings.effective().len(), ACTIVE.len() + 1);
}

#[test]
fn the_arguments_of_the_clients_test_drivers_are_taken() {
    let loaded = Case {
        arguments: &[
            "--RunInMemory=true",
            "--License.Eula.Accepted=true",
            "--Setup.Mode=None",
            "--Testing.ParentProcessId=4711",
            "--Logs.Mode=None",
            "--config-path",
            "driver.json",
            "--ServerUrl=http://127.0.0.1:0",
            "--ServerUrl.Tcp=tcp://127.0.0.1:38884",
            "--Features.Availability=Experimental",
            "--Cluster.ElectionTimeoutInMs=3000",
            "--non-interactive",
        ],
        environment: &[("RAVEN_License", "{\"Id\":\"x\"}"), ("RAVENDB_SERVER_VERSION", "5.4")],
        files: &[("driver.json", r#"{"Http": {"UseResponseCompression": false}}"#)],
    }
    .serve();
    let names = ["Cluster.ElectionTimeoutInMs", "Features.Availability"];
    let names = names.map(ToOwned::to_owned).to_vec();
    assert_eq!(loaded.warnings, [Warning::WithoutEffect { names }]);
    assert_eq!(loaded.settings.parent_process_ids, [4711]);
    assert!(loaded.settings.database.run_in_memory);
    assert!(!loaded.settings.http.use_response_compression);
    assert_eq!(loaded.settings.server_urls[0].port, 0);
    assert_eq!(loaded.settings.tcp_urls[0].to_string(), "tcp://127.0.0.1:38884");
}

#[test]
fn the_environment_of_the_container_image_is_taken() {
    let loaded = Case {
        environment: &[
            ("RAVEN_ARGS", ""),
            ("RAVEN_SETTINGS", ""),
            ("RAVEN_Setup_Mode", "None"),
            ("RAVEN_DataDir", "/var/lib/ravendb/data"),
            ("RAVEN_ServerUrl", "http://0.0.0.0:8080"),
            ("RAVEN_ServerUrl_Tcp", "38888"),
            ("RAVEN_Security_UnsecuredAccessAllowed", "PublicNetwork"),
            ("RAVEN_Logs_Path", "/var/log/ravendb/logs"),
        ],
        ..Case::default()
    }
    .serve();
    assert_eq!(loaded.settings.tcp_urls[0].to_string(), "tcp://0.0.0.0:38888");
    let warnings: Vec<String> = loaded.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(loaded.settings.logs.directory, Some(PathBuf::from("/var/log/ravendb/logs")));
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("'http://0.0.0.0:8080' is served without certificates"));
}

#[test]
fn unknown_settings_are_refused_with_the_nearest_name() {
    for (argument, message) in [
        (
            "--Storage.JournalPath=/j",
            "Unknown setting 'Storage.JournalPath'. Did you mean 'Storage.JournalsPath'? \
             (command line)",
        ),
        (
            "--Qwertyuiop=1",
            "Unknown setting 'Qwertyuiop'. Remove it, or look its name up in \
             docs/configuration.md. (command line)",
        ),
    ] {
        assert_eq!(arguments(&[argument]).problems(), [message]);
    }
}

#[test]
fn an_unlisted_name_of_an_ignored_family_is_only_warned_about() {
    let loaded = arguments(&["--Indexing.MapBatchsSize=secret"]).serve();
    assert!(loaded.warnings[0].to_string().contains("Did you mean 'Indexing.MapBatchSize'?"));
    assert!(
        effective_text(loaded.settings.effective())
            .contains("Indexing.MapBatchsSize = (hidden) (command line; accepted, has no effect)")
    );
}

#[test]
fn values_without_effect_are_checked_and_what_would_be_missed_is_refused() {
    for (argument, message) in [
        (
            "--Indexing.MapTimeoutInSec=x",
            "Setting 'Indexing.MapTimeoutInSec' cannot be 'x'. Write a whole number. (command line)",
        ),
        (
            "--Backup.Compression.Level=Hardest",
            "Setting 'Backup.Compression.Level' cannot be 'Hardest'. Write Optimal or Fastest or \
             NoCompression or SmallestSize. (command line)",
        ),
        (
            "--Patching.StrictMode=false",
            "Setting 'Patching.StrictMode' cannot be 'false'. Scripts are always strict. Remove the \
             setting. (command line)",
        ),
    ] {
        assert_eq!(arguments(&[argument]).problems(), [message]);
    }
    let loaded =
        arguments(&["--Indexing.MapTimeoutInSec=-1", "--Patching.StrictMode=True"]).serve();
    let names = ["Indexing.MapTimeoutInSec", "Patching.StrictMode"].map(ToOwned::to_owned).to_vec();
    assert_eq!(loaded.warnings, [Warning::WithoutEffect { names }]);
    let server = arguments(&[]).serve().settings;
    for (name, text) in [
        ("Indexing.MapTimeoutInSec", "x"),
        ("ETL.MaxBatchSizeInMb", "x"),
        ("Indexing.RunInMemory", "perhaps"),
        ("ThrowIfAnyIndexCannotBeOpened", "true"),
        ("Storage.OnCreateDirectory.Exec", "/bin/true"),
    ] {
        let raw = BTreeMap::from([(name.to_owned(), text.to_owned())]);
        assert!(DatabaseSettings::from_overrides(&server, &raw).is_err(), "{name}");
    }
}

#[test]
fn the_only_value_of_a_key_fits_its_type() {
    for key in ACCEPTED {
        let Some(only) = key.only else { continue };
        assert!(parse_value(key.value_type, only.value).is_ok(), "{}", key.name);
    }
}

#[test]
fn all_problems_are_reported_at_once() {
    let case = Case {
        arguments: &["stray", "--Bogus.Key=1", "--Databases.MaxConcurrentLoads=0"],
        environment: &[("RAVEN_RunInMemory", "maybe")],
        files: &[(
            "settings.json",
            r#"{"Setup.Mode": "Initial", "Security": {"MasterKey.Exec": "k"}, "Storage.OnCreateDirectory.Exec": "k"}"#,
        )],
    };
    let problems = case.problems();
    for expected in [
        "Unexpected argument 'stray'.",
        "Unknown setting 'Bogus.Key'.",
        "Setting 'Databases.MaxConcurrentLoads' cannot be '0'. Write a whole number from 1 to 1024.",
        "Setting 'RunInMemory' cannot be 'maybe'. Write true or false. (environment variable \
         RAVEN_RunInMemory)",
        "Setting 'Setup.Mode' cannot be 'Initial'. Corvus has no setup wizard.",
        "Setting 'Storage.OnCreateDirectory.Exec' cannot be obeyed. Corvus runs no program",
    ] {
        let found = problems.iter().any(|problem| problem.starts_with(expected));
        assert!(found, "{expected}\n{problems:#?}");
    }
    assert_eq!(problems.len(), 6);
    let error = case.load().unwrap_err();
    assert_eq!(error.exit_code(), 78);
    assert_eq!(error.to_string().lines().count(), 7);
    assert_eq!(arguments(&["stray"]).load().unwrap_err().exit_code(), 2);
}

#[test]
fn an_override_mends_an_invalid_value_below_it() {
    let files = [("settings.json", r#"{"Databases.MaxConcurrentLoads": "many"}"#)];
    let case = |arguments| Case { arguments, files: &files, ..Case::default() };
    assert_eq!(case(&[]).problems().len(), 1);
    let settings = case(&["--Databases.MaxConcurrentLoads=3"]).serve().settings;
    assert_eq!(settings.databases.concurrent_loads_max, 3);
}

#[test]
fn a_settings_file_must_exist_only_if_it_was_named() {
    assert!(arguments(&["-c", "settings.json"]).problems()[0].contains("does not exist"));
    assert!(arguments(&["--config-path=other.json"]).problems()[0].contains("'other.json'"));
    let files = [("settings.json", "(forbidden)"), ("bad.json", "{\n  \"DataDir\" \"x\"\n}")];
    let case = |arguments| Case { arguments, files: &files, ..Case::default() };
    assert!(
        case(&[]).problems()[0].contains("'settings.json' could not be read: permission denied")
    );
    let problems = case(&["-c=bad.json"]).problems();
    assert!(problems[0].contains("not valid JSON at line 2, column 13"), "{problems:?}");
    assert!(problems[0].ends_with("(file bad.json)"), "{problems:?}");
}

#[test]
fn help_and_version_are_answered_whatever_else_is_wrong() {
    assert!(matches!(arguments(&["--bogus=1", "stray", "--help"]).load(), Ok(Start::Help)));
    assert!(matches!(arguments(&["-c", "missing.json", "-v"]).load(), Ok(Start::Version)));
    assert!(matches!(arguments(&["--check-config"]).load(), Ok(Start::CheckConfig(_))));
    assert!(matches!(arguments(&["--print-config"]).load(), Ok(Start::PrintConfig(_))));
    assert!(arguments(&["--check-config", "--DataDri=x"]).load().is_err());
}

#[test]
fn addresses_wider_than_allowed_are_refused() {
    for (url, access, allowed) in [
        ("http://127.0.0.1:8080", "Local", true),
        ("http://localhost:8080", "Local", true),
        ("http://[::1]:8080", "Local", true),
        ("http://127.0.0.1:8080", "None", false),
        ("http://localhost:8080", "None", false),
        ("http://10.0.0.1:8080", "Local", false),
        ("http://10.0.0.1:8080", "PrivateNetwork", true),
        ("http://10.0.0.1:8080", "Local, PrivateNetwork", true),
        ("http://0.0.0.0:8080", "PrivateNetwork", false),
        ("http://[::]:8080", "PrivateNetwork", false),
        ("http://0.0.0.0:8080", "PublicNetwork", true),
        ("http://8.8.8.8:8080", "PrivateNetwork", false),
        // A name is checked when the listener resolves it.
        ("http://db.example.org:8080", "Local", true),
    ] {
        let (url, access) =
            (format!("--ServerUrl={url}"), format!("--Security.UnsecuredAccessAllowed={access}"));
        let outcome = arguments(&[&url, &access]).load();
        assert_eq!(outcome.is_ok(), allowed, "{url} {access}");
        if let Err(error) = outcome {
            assert_eq!(error.problems.len(), 1, "{error}");
            assert!(error.to_string().contains("could be reached without a certificate"));
        }
    }
    let tcp = arguments(&["--ServerUrl.Tcp=tcp://0.0.0.0:38888"]).problems();
    assert!(tcp[0].contains("Security.UnsecuredAccessAllowed=PublicNetwork"), "{tcp:?}");
}

#[test]
fn addresses_that_contradict_each_other_are_refused() {
    for (line, expected) in [
        (&["--ServerUrl=http://127.0.0.1:1;http://127.0.0.1:2"][..], "Set PublicServerUrl"),
        (
            &["--ServerUrl=http://127.0.0.1:1", "--ServerUrl.Tcp=1"],
            "'tcp://127.0.0.1:1' has the same host and port",
        ),
        (&["--ServerUrl=https://127.0.0.1:1"], "'https://127.0.0.1:1' needs a certificate"),
        (&["--Security.Certificate.Path=/x.pfx"], "would be served without encryption"),
        (
            &["--Security.Certificate.Key.Path=/x.key"],
            "'Security.Certificate.Key.Path' is set, but not 'Security.Certificate.Path'",
        ),
        (&["--Security.Certificate.Password=x"], "no client needs a certificate"),
        (
            &[
                "--ServerUrl=https://127.0.0.1:1",
                "--Security.Certificate.Path=/x.pfx",
                "--Security.Certificate.Load.Exec=/x",
            ],
            "are both set, but only one can count",
        ),
        (
            &["--Security.Certificate.Load.Exec.Arguments=x"],
            "but not 'Security.Certificate.Load.Exec'",
        ),
        (&["--Security.MasterKey.Exec.Arguments=x"], "but not 'Security.MasterKey.Exec'"),
        (
            &["--Security.MasterKey.Path=/x", "--Security.MasterKey.Exec=/x"],
            "'Security.MasterKey.Path' and 'Security.MasterKey.Exec' are both set",
        ),
        (
            &[
                "--ServerUrl=https://127.0.0.1:1",
                "--Security.Certificate.Path=/x.pfx",
                "--PublicServerUrl=http://db.example.org",
            ],
            "'http://db.example.org:80' would be served without encryption",
        ),
        (&["--Security.WellKnownCertificates.Admin=ab:cd"], "thumbprints of 40 hexadecimal digits"),
        (&["--PublicServerUrl=http://0.0.0.0:8080"], "real host and port"),
    ] {
        let problems = arguments(line).problems();
        assert_eq!(problems.len(), 1, "{line:?} {problems:?}");
        assert!(problems[0].contains(expected), "{line:?} {problems:?}");
    }
    let several = "--ServerUrl=http://127.0.0.1:1;http://[::1]:1";
    let settings =
        arguments(&[several, "--PublicServerUrl=https://db.example.org", "--ServerUrl.Tcp=2"])
            .serve()
            .settings;
    assert_eq!(settings.tcp_urls.len(), 2);
}

#[test]
fn api_keys_are_never_sent_in_the_clear_and_somebody_can_register_them() {
    let admin = format!("--Security.ApiKeys.Admin=0123456789abcdef.{}", "0f".repeat(32));
    let (enabled, beyond) = ("--Security.ApiKeys.Enabled=true", "--ServerUrl=http://0.0.0.0:1");
    let proxy = "--Security.TlsTerminatedByProxy=true";
    let everybody = "--Security.UnsecuredAccessAllowed=PublicNetwork";
    for (line, expected) in [
        (&[enabled, &admin][..], None),
        (&[enabled, &admin, "--Security.UnsecuredAccessAllowed=None"], None),
        (&[enabled, &admin, beyond], Some("sent to 'http://0.0.0.0:1' without encryption")),
        (&[enabled, &admin, beyond, everybody], Some("sent to 'http://0.0.0.0:1'")),
        (
            &[enabled, &admin, "--ServerUrl.Tcp=tcp://10.0.0.1:1"],
            Some("sent to 'tcp://10.0.0.1:1'"),
        ),
        (&[enabled, &admin, beyond, proxy], None),
        (&[enabled], Some("nobody could register the first API key")),
        (&[&admin], Some("not Security.ApiKeys.Enabled=true")),
        (&[proxy], Some("not Security.ApiKeys.Enabled=true")),
        (
            &[
                enabled,
                proxy,
                "--ServerUrl=https://127.0.0.1:1",
                "--Security.Certificate.Path=/x.pfx",
            ],
            Some("although the server ends TLS itself"),
        ),
        (&[enabled, "--ServerUrl=https://0.0.0.0:1", "--Security.Certificate.Path=/x.pfx"], None),
    ] {
        let outcome = arguments(line).load();
        match (outcome, expected) {
            (Ok(_), None) => {}
            (Err(error), Some(expected)) => {
                assert_eq!(error.problems.len(), 1, "{line:?} {error}");
                assert!(error.to_string().contains(expected), "{line:?} {error}");
            }
            (outcome, _) => panic!("{line:?} {outcome:?}"),
        }
    }
}

#[test]
fn secrets_are_never_shown() {
    let files =
        [("settings.json", r#"{"License": {"Id": "hush"}, "Monitoring.Snmp.Community": "hush"}"#)];
    let case = Case {
        arguments: &[
            "--ServerUrl=https://127.0.0.1:1",
            "--Security.Certificate.Path=/x.pfx",
            "--Security.Certificate.Password=hush",
            "--Security.MasterKey.Exec=/x",
            "--Security.MasterKey.Exec.Arguments=--secret hush",
        ],
        environment: &[("RAVEN_License", "hush")],
        files: &files,
    };
    let loaded = case.serve();
    let text = effective_text(loaded.settings.effective());
    assert_eq!(text.matches("(hidden)").count(), 5, "{text}");
    assert_eq!(loaded.warnings.len(), 1);
    assert!(!text.contains("hush") && !format!("{:?}", loaded.warnings).contains("hush"), "{text}");
    let security = format!("{:?}", loaded.settings.security);
    assert!(!security.contains("hush"), "{security}");
}

#[test]
fn a_database_overrides_the_server() {
    let server = arguments(&[
        "--Storage.JournalsPath=/journals",
        "--Storage.MaxUnflushedInMb=10",
        "--DataDir=/data",
    ])
    .serve()
    .settings;
    let unchanged = DatabaseSettings::from_overrides(&server, &overrides(&[])).unwrap();
    assert_eq!(unchanged, server.database);
    assert_eq!((unchanged.data_dir, unchanged.journals_path), (None, None));

    let changed = overrides(&[
        ("runinmemory", "TRUE"),
        ("Storage.JournalsPath", "/own"),
        ("DataDir", "/elsewhere"),
        ("Databases.MaxIdleTimeInSec", "5"),
        ("Indexing.MapBatchSize", "128"),
        ("Indexing.Unheard", "1"),
        ("Storage.JournalSizeMaxInMb", ""),
    ]);
    let database = DatabaseSettings::from_overrides(&server, &changed).unwrap();
    assert!(database.run_in_memory);
    assert_eq!(database.data_dir, Some(PathBuf::from("/elsewhere")));
    assert_eq!(database.journals_path, Some(PathBuf::from("/own")));
    assert_eq!(database.idle_time_max, Duration::from_secs(5));
    assert_eq!(database.unflushed_bytes_max, Some(10 << 20));
    assert_eq!(database.journal_bytes_max, 64 << 20);
}

#[test]
fn faulty_overrides_are_refused_when_set_and_left_out_when_stored() {
    let server = Case::default().serve().settings;
    let faulty = overrides(&[
        ("ServerUrl", "http://127.0.0.1:1"),
        ("Cluster.ElectionTimeoutInMs", "1"),
        ("Storage.JournalPath", "/j"),
        ("Storage.OnCreateDirectory.Exec", "/k"),
        ("Databases.MaxIdleTimeInSec", "soon"),
        ("RunInMemory", "true"),
        ("RUNINMEMORY", "false"),
        ("Storage.MaxUnflushedInMb", "7"),
    ]);
    let error = DatabaseSettings::from_overrides(&server, &faulty).unwrap_err();
    assert_eq!(error.problems.len(), 6, "{error}");
    let text = error.to_string();
    for expected in [
        "The settings of the database were not changed:",
        "'ServerUrl' holds for the whole server",
        "'Cluster.ElectionTimeoutInMs' holds for the whole server",
        "Did you mean 'Storage.JournalsPath'? (database record)",
        "'Storage.OnCreateDirectory.Exec' cannot be obeyed",
        "'Databases.MaxIdleTimeInSec' cannot be 'soon'",
        "is set twice",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    let (database, warnings) = DatabaseSettings::from_stored(&server, &faulty);
    assert_eq!(warnings.len(), 6);
    assert_eq!(database.unflushed_bytes_max, Some(7 << 20));
    assert_eq!(database.idle_time_max, server.database.idle_time_max);
}

#[test]
fn every_compression_level_in_the_table_exists() {
    for coding in ["Gzip", "Deflate", "Zstd"] {
        let key = crate::find_key(&format!("Http.{coding}ResponseCompressionLevel")).unwrap();
        let ValueType::Choice(choices) = key.value_type else { panic!("{key:?}") };
        for choice in choices {
            assert!(CompressionLevel::from_name(choice.name).is_some(), "{}", choice.name);
        }
    }
}

#[test]
fn sources_are_ordered_by_precedence() {
    let sources = [
        Source::Default,
        Source::File(PathBuf::new()),
        Source::EnvironmentJson,
        Source::Environment(String::new()),
        Source::EnvironmentArguments,
        Source::CommandLine,
        Source::DatabaseRecord,
    ];
    assert!(sources.is_sorted());
}
