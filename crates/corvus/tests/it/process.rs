//! The executable as a child process, in a new empty directory.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::{Arc, Condvar, Mutex},
    thread::JoinHandle,
    time::Duration,
};

/// Longer than anything that is waited for takes.
const WAIT_MAX: Duration = Duration::from_secs(60);
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
    address: String,
    log: Arc<(Mutex<String>, Condvar)>,
    reader: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts one in the directory, on a free port, and waits until it prints its address.
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
        let url = line.strip_prefix(AVAILABLE).unwrap();
        let (_, address) = url.split_once("://").unwrap();
        let log = Arc::<(Mutex<String>, Condvar)>::default();
        let errors = BufReader::new(child.stderr.take().unwrap());
        let reader = {
            let log = Arc::clone(&log);
            std::thread::spawn(move || {
                for line in errors.lines().map_while(Result::ok) {
                    log.0.lock().unwrap().push_str(&(line + "\n"));
                    log.1.notify_all();
                }
            })
        };
        Server { address: address.to_owned(), child, log, reader: Some(reader) }
    }

    /// Its host and port.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The number of the process.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// The whole answer to a request, with its head.
    pub(crate) fn ask(&self, method: &str, target: &str, headers: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let (address, length) = (&self.address, body.len());
        write!(
            stream,
            "{method} {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
             Content-Length: {length}\r\n{headers}\r\n{body}"
        )
        .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Waits until this is in the log.
    pub(crate) fn wait_for_log(&self, part: &str) {
        let log = self.log.0.lock().unwrap();
        let waited =
            self.log.1.wait_timeout_while(log, WAIT_MAX, |log| !log.contains(part)).unwrap();
        assert!(!waited.1.timed_out(), "{part} is not in the log:\n{}", *waited.0);
    }

    /// Stops it gracefully; returns what it wrote to standard error.
    pub(crate) fn stop(mut self) -> String {
        self.child.stdin.take().unwrap().write_all(b"shutdown no-confirmation").unwrap();
        let ended = self.child.wait().unwrap();
        self.reader.take().unwrap().join().unwrap();
        let log = self.log.0.lock().unwrap().clone();
        assert!(ended.success(), "{log}");
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
