//! Commands that a newcomer types, and their output.

use std::{fs, net::TcpListener};

use crate::process::{Server, corvus, directory, run, text};

#[test]
fn version_and_help_are_requested_in_every_usual_way() {
    let place = directory("version_and_help");
    let version = format!("corvus {}\n", env!("CARGO_PKG_VERSION"));
    for words in [&["-V"], &["--version"], &["version"], &["-v"]] {
        let output = run(&place, words);
        assert!(output.status.success() && text(&output.stdout) == version, "{words:?}");
    }
    for words in [&["--help"][..], &["-h"], &["help"], &["help", "serve"], &["serve", "--help"]] {
        let output = run(&place, words);
        let help = text(&output.stdout);
        assert!(output.status.success(), "{words:?}");
        for part in ["corvus offline <command>", "offline check", "--ServerUrl=", "-V", "Logs"] {
            assert!(help.contains(part), "{words:?} lacks {part}");
        }
    }
    for words in [&["offline", "--help"][..], &["offline", "help"], &["help", "offline"]] {
        let output = run(&place, words);
        let help = text(&output.stdout);
        assert!(output.status.success() && help.contains("corvus offline salvage"), "{words:?}");
    }
}

#[test]
fn what_is_not_understood_ends_with_advice() {
    let place = directory("not_understood");
    fs::write(place.join("forged.json"), r#"{"x\n\u001b[31mFORGED": 1}"#).unwrap();
    let table: [(&[&str], i32, &str); 8] = [
        (&["servr"], 2, "Unexpected argument 'servr'"),
        (&["servr"], 2, "`corvus help` lists them, and the commands."),
        (&["--DataDirectory=/x"], 78, "Unknown setting 'DataDirectory'. Did you mean 'DataDir'?"),
        (&["--ServerUrl"], 2, "Write '--ServerUrl=VALUE'."),
        (&["--ServerUrl=http://0.0.0.0:0"], 78, "Security.UnsecuredAccessAllowed"),
        (&["--config-path=nothing.json"], 78, "does not exist. Correct the path"),
        (&["--config-path=/dev/zero"], 78, "longer than"),
        (&["--config-path=forged.json"], 78, r"'x\n\u{1b}[31mFORGED'"),
    ];
    for (words, code, part) in table {
        let output = run(&place, words);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {errors}");
        assert!(errors.contains(part), "{words:?}: {errors}");
        assert!(!errors.chars().any(|it| it.is_control() && it != '\n'), "{words:?}");
        assert!(output.stdout.is_empty(), "{words:?}");
    }
    let nothing = run(&place, &["offline", "repair"]);
    assert_eq!(nothing.status.code(), Some(2));
}

#[test]
fn a_port_that_is_taken_comes_with_what_to_do() {
    let place = directory("taken_port");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let output = run(&place, &[&format!("--ServerUrl=http://127.0.0.1:{port}")]);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    let advice = format!("take another port: --ServerUrl=http://127.0.0.1:{}", port + 1);
    assert!(errors.contains(&format!("cannot listen on 127.0.0.1:{port}")), "{errors}");
    assert!(errors.contains(&advice), "{errors}");
    let tcp = format!("--ServerUrl.Tcp=tcp://127.0.0.1:{port}");
    let output = run(&place, &["--ServerUrl=http://127.0.0.1:0", &tcp]);
    let advice = format!("take another port: --ServerUrl.Tcp=tcp://127.0.0.1:{}", port + 1);
    assert!(text(&output.stderr).contains(&advice), "{}", text(&output.stderr));
}

#[test]
fn a_settings_file_is_read_as_ravendb_reads_it() {
    let place = directory("settings_file");
    let settings = "// ours\n{ \"DataDir\": \"there\", /* none */ \"Http\": {\"MaxRequestLineSizeInKb\": 7,},\n}\n";
    fs::write(place.join("settings.json"), settings).unwrap();
    let output = run(&place, &["--print-config"]);
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(shown.contains("DataDir = there (file settings.json"), "{shown}");
    assert!(shown.contains("Http.MaxRequestLineSizeInKb = 7 (file settings.json"), "{shown}");
    fs::write(place.join("settings.json"), "{ \"DataDir\": \"there\",, }").unwrap();
    let output = run(&place, &["--check-config"]);
    assert_eq!(output.status.code(), Some(78));
    assert!(text(&output.stderr).contains("line 1, column 22"), "{}", text(&output.stderr));
}

#[test]
fn what_has_no_effect_is_warned_of_at_the_start() {
    let place = directory("without_effect");
    let words = ["--Query.MaxClauseCount=5", "--License.Eula.Accepted=true", "--browser", "-n"];
    let log = Server::start(&place, &words).stop();
    assert!(log.contains("have no effect in Corvus: Query.MaxClauseCount."), "{log}");
    assert!(log.contains("These options are RavenDB's and have no effect in Corvus: --browser."));
    assert!(!log.contains("License"), "{log}");
    let misspelt = Server::of(
        corvus(&place, &["--ServerUrl=http://127.0.0.1:0"]).env("RAVEN_DataDri", "elsewhere"),
    );
    assert!(misspelt.stop().contains("Did you mean RAVEN_DataDir?"));
}
