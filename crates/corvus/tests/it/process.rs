//! The executable as a child process, in an empty directory of its own.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

const AVAILABLE: &str = "Server available on: ";

/// An empty directory for one test; `name` is that of the test.
pub(crate) fn directory(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    // The last run of the test left it.
    drop(fs::remove_dir_all(&directory));
    fs::create_dir_all(&directory).unwrap();
    directory
}

/// The executable in that directory, without the settings of the environment of the tests.
pub(crate) fn corvus(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_corvus"));
    command.current_dir(directory).args(arguments).stdin(Stdio::null());
    let foreign = |name: &str| name.starts_with("RAVEN_") || name == "CORVUS_LOG";
    for (name, _) in std::env::vars().filter(|(name, _)| foreign(name)) {
        command.env_remove(name);
    }
    command
}

/// Runs it to its end.
pub(crate) fn run(directory: &Path, arguments: &[&str]) -> Output {
    corvus(directory, arguments).output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// A server that listens. Dropped, it is killed.
pub(crate) struct Server {
    child: Child,
}

impl Server {
    /// Starts one in the directory, on a free port, and waits until it says where it can be reached.
    pub(crate) fn start(directory: &Path, arguments: &[&str]) -> Server {
        let mut command = corvus(directory, &["--ServerUrl=http://127.0.0.1:0"]);
        Server::of(command.args(arguments))
    }

    pub(crate) fn of(command: &mut Command) -> Server {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.next().expect("the server says where it is").unwrap();
        assert!(line.starts_with(AVAILABLE), "{line}");
        Server { child }
    }

    /// Stops it in order; what it wrote to standard error.
    pub(crate) fn stop(mut self) -> String {
        self.child.stdin.take().unwrap().write_all(b"shutdown no-confirmation").unwrap();
        let mut log = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        assert!(self.child.wait().unwrap().success(), "{log}");
        log
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
