//! A server under test: started on loopback with its own data, ended by its process id.
//!
//! Invariant: when a [`RunningServer`] is dropped, its process has ended, also after an error. Its
//! data is removed with it, unless the caller that stopped it took the data over.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::{
    process::{Child, Command},
    time::{sleep, timeout},
};

use crate::{
    connection::{Connection, request},
    error::DriverError,
    process::Process,
};

const START_TIME_MAX: Duration = Duration::from_secs(60);
const STOP_TIME_MAX: Duration = Duration::from_secs(60);
/// The resolution of the time to readiness.
const READINESS_INTERVAL: Duration = Duration::from_millis(1);
const AVAILABLE: &str = "Server available on: ";
/// RavenDB's own launcher adds this to the port for its second listener.
const RAVEN_TCP_OFFSET: u16 = 30_000;
/// The files with the bare server's responses to GET and PUT.
pub(crate) const BARE_FILES: [&str; 2] = ["get.json", "put.json"];
const RAVEN_PORTS: std::ops::Range<u16> = 8_300..8_400;

/// How a server is started.
pub(crate) enum Program {
    Corvus {
        /// The name of its column: this version's, or that of an earlier one.
        name: &'static str,
        binary: PathBuf,
    },
    Raven {
        home: PathBuf,
        version: String,
    },
    /// Responds with the bytes of the [`BARE_FILES`] in a directory; stores attachments in files.
    Bare {
        binary: PathBuf,
        bodies: PathBuf,
    },
}

/// A server that responds.
pub(crate) struct RunningServer {
    pub(crate) address: SocketAddr,
    pub(crate) process: Process,
    /// The time from the start of the process to its first response.
    pub(crate) ready_after: Duration,
    /// When the process was started.
    pub(crate) began: Instant,
    child: Child,
    /// A folder outside of the data that the start created.
    _log_folder: Option<LogFolder>,
    data: TempDir,
}

/// Removed with the server.
struct LogFolder(PathBuf);

impl Program {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Corvus { name, .. } => name,
            Self::Raven { .. } => "ravendb",
            Self::Bare { .. } => "bare",
        }
    }

    /// The installed RavenDB, if it is there.
    pub(crate) fn installed_raven(home: &Path, version: &str) -> Option<Self> {
        let is_there = home.join("run-ravendb.sh").is_file()
            && ["w", "s"].iter().any(|kind| home.join(format!("{kind}-{version}")).is_dir());
        is_there.then(|| Self::Raven { home: home.to_owned(), version: version.to_owned() })
    }

    /// The command, and the folder that it will create outside of `data`.
    fn command(&self, data: &Path) -> Result<(Command, Option<PathBuf>), DriverError> {
        match self {
            Self::Corvus { binary, .. } => {
                let mut command = Command::new(binary);
                command.arg("--ServerUrl=http://127.0.0.1:0").arg("--Setup.Mode=None");
                command.arg("--License.Eula.Accepted=true");
                command.arg(format!("--DataDir={}", data.display()));
                Ok((command, None))
            }
            Self::Raven { home, version } => {
                let port = free_raven_port()?;
                let mut command = Command::new(home.join("run-ravendb.sh"));
                command.env("RAVEN_HOME", home).arg(version).arg(port.to_string()).arg(data);
                let folder = home.join(format!("log-{port}"));
                Ok((command, (!folder.exists()).then_some(folder)))
            }
            Self::Bare { binary, bodies } => {
                let mut command = Command::new(binary);
                command.args(BARE_FILES.map(|name| bodies.join(name))).arg(data);
                Ok((command, None))
            }
        }
    }
}

fn free_raven_port() -> Result<u16, DriverError> {
    let is_free = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    RAVEN_PORTS
        .into_iter()
        .find(|port| is_free(*port) && is_free(port + RAVEN_TCP_OFFSET))
        .ok_or(DriverError::NotStarted { server: "ravendb", printed: "no port is free".to_owned() })
}

impl RunningServer {
    /// Starts the server with empty data in a new directory inside of `parent`.
    pub(crate) async fn start(program: &Program, parent: &Path) -> Result<Self, DriverError> {
        Self::start_with(program, new_data(program, parent)?, &[]).await
    }

    /// Starts the server with data of an earlier run, and settings in addition to the usual ones.
    pub(crate) async fn start_with(
        program: &Program,
        data: TempDir,
        settings: &[&str],
    ) -> Result<Self, DriverError> {
        let folder = data.path().canonicalize().map_err(DriverError::file(data.path()))?;
        let printed = folder.join("printed.log");
        let output = fs::File::create(&printed).map_err(DriverError::file(&printed))?;
        let errors = output.try_clone().map_err(DriverError::file(&printed))?;
        let (mut command, log_folder) = program.command(&folder.join("data"))?;
        let began = Instant::now();
        let child = command
            .args(settings)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .kill_on_drop(true)
            .spawn()
            .map_err(|source| DriverError::NotStarted {
                server: program.name(),
                printed: source.to_string(),
            })?;
        // From here on, dropping it ends the process if anything fails.
        let mut server = Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            process: Process { id: child.id().unwrap_or_default() },
            ready_after: Duration::ZERO,
            began,
            child,
            _log_folder: log_folder.map(LogFolder),
            data,
        };
        server.wait_until_ready(program.name(), &printed).await?;
        server.ready_after = began.elapsed();
        Ok(server)
    }

    async fn wait_until_ready(
        &mut self,
        name: &'static str,
        printed: &Path,
    ) -> Result<(), DriverError> {
        let outcome = timeout(START_TIME_MAX, async {
            loop {
                let has_ended = !matches!(self.child.try_wait(), Ok(None));
                let text = fs::read_to_string(printed).unwrap_or_default();
                if let Some(address) = address_in(&text) {
                    self.address = address;
                    break first_answer(address).await.is_ok();
                }
                if has_ended {
                    break false;
                }
                sleep(READINESS_INTERVAL).await;
            }
        });
        if outcome.await.unwrap_or(false) {
            return Ok(());
        }
        let printed = fs::read_to_string(printed).unwrap_or_default();
        Err(DriverError::NotStarted { server: name, printed })
    }

    /// Stops the process gracefully, kills it if that fails, and returns its data.
    pub(crate) async fn stop(mut self) -> TempDir {
        if let Some(id) = self.child.id().and_then(|id| Pid::from_raw(id as i32)) {
            // It may have ended by itself; then there is nothing to stop.
            let _ended_before = kill_process(id, Signal::TERM);
        }
        if timeout(STOP_TIME_MAX, self.child.wait()).await.is_err() {
            eprintln!("process {} did not stop gracefully", self.process.id);
            drop(self.child.kill().await);
        }
        self.data
    }

    /// Kills the process (SIGKILL), and returns its data.
    pub(crate) async fn kill(mut self) -> Result<TempDir, DriverError> {
        self.child.kill().await?;
        Ok(self.data)
    }
}

/// An empty directory for data inside of `parent`.
pub(crate) fn new_data(program: &Program, parent: &Path) -> Result<TempDir, DriverError> {
    tempfile::Builder::new()
        .prefix(&format!("{}-", program.name()))
        .tempdir_in(parent)
        .map_err(DriverError::file(parent))
}

impl Drop for LogFolder {
    fn drop(&mut self) {
        // Kept if it cannot be removed: it is not data.
        drop(fs::remove_dir_all(&self.0));
    }
}

/// The address in the line that both servers print when they are ready.
fn address_in(printed: &str) -> Option<SocketAddr> {
    let (_, rest) = printed.split_once(AVAILABLE)?;
    let (line, _) = rest.split_once('\n')?;
    line.trim().trim_end_matches('/').strip_prefix("http://")?.parse().ok()
}

async fn first_answer(address: SocketAddr) -> Result<(), DriverError> {
    Connection::open(address).await?.succeed(&request("GET", "/build/version", b"")).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_read_once_its_line_is_complete() {
        let address = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 8300)));
        assert_eq!(address_in("x\nServer available on: http://127.0.0.1:8300\ny"), address);
        assert_eq!(address_in("Server available on: http://127.0.0.1:8300/\n"), address);
        assert_eq!(address_in("Server available on: http://127.0.0.1:83"), None);
        assert_eq!(address_in("starting\n"), None);
    }

    #[test]
    fn a_folder_without_the_version_is_not_an_installation() {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("w-7.1.5")).unwrap();
        assert!(Program::installed_raven(home.path(), "7.1.5").is_none());
        fs::write(home.path().join("run-ravendb.sh"), "").unwrap();
        assert!(Program::installed_raven(home.path(), "7.1.5").is_some());
        assert!(Program::installed_raven(home.path(), "5.4.0").is_none());
    }
}
