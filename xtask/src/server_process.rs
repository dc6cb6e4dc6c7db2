//! The built server as a child process on a free port, killed or dropped by its own process id.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    time::Duration,
};

use crate::Failure;

const START_TIMEOUT: Duration = Duration::from_secs(60);
const AVAILABLE: &str = "Server available on: ";

pub(crate) struct ServerProcess {
    child: Child,
    pub(crate) url: String,
}

impl ServerProcess {
    /// Starts `executable` on `data` and waits until it prints its address. Its errors are appended
    /// to `log`.
    pub(crate) fn start(executable: &Path, data: &Path, log: &Path) -> Result<Self, Failure> {
        Self::start_with(Command::new(executable), executable, data, log)
    }

    /// The same inside the control group with this `cgroup.procs` file.
    pub(crate) fn start_in(
        executable: &Path,
        data: &Path,
        log: &Path,
        processes: &Path,
    ) -> Result<Self, Failure> {
        // The shell joins the group and then becomes the server, so that its memory counts from the
        // start.
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(processes).arg(executable);
        Self::start_with(shell, executable, data, log)
    }

    /// The same with a soft and a hard limit of open files.
    pub(crate) fn start_limited(
        executable: &Path,
        data: &Path,
        log: &Path,
        (soft, hard): (u64, u64),
    ) -> Result<Self, Failure> {
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -S -n \"$0\" && ulimit -H -n \"$1\" && shift && exec \"$@\""]);
        shell.args([soft.to_string(), hard.to_string()]).arg(executable);
        Self::start_with(shell, executable, data, log)
    }

    fn start_with(
        command: Command,
        executable: &Path,
        data: &Path,
        log: &Path,
    ) -> Result<Self, Failure> {
        let options = ["--ServerUrl=http://127.0.0.1:0".to_owned()];
        Self::start_command(command, executable, data, log, &options)
    }

    /// The same by a command that ends with the name of the executable, and with these options of the server, of which
    /// one is its address.
    pub(crate) fn start_command(
        mut command: Command,
        executable: &Path,
        data: &Path,
        log: &Path,
        options: &[String],
    ) -> Result<Self, Failure> {
        let log_file = File::options().create(true).append(true).open(log)?;
        let mut child = command
            .args(options)
            .arg(format!("--DataDir={}", data.display()))
            .args(["--Setup.Mode=None", "--License.Eula.Accepted=true"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log_file)
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", executable.display()))?;
        let output = child.stdout.take().ok_or("the server has no standard output")?;
        let (sender, receiver) = mpsc::channel();
        // Keeps reading after the awaited line, so that the server never finds its pipe full.
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if let Some(url) = line.strip_prefix(AVAILABLE) {
                    // The receiver was dropped if the start timed out.
                    drop(sender.send(url.trim().to_owned()));
                }
            }
        });
        let mut server = Self { child, url: String::new() };
        server.url = receiver.recv_timeout(START_TIMEOUT).map_err(|error| {
            format!("the server did not become available ({error}); see {}", log.display())
        })?;
        Ok(server)
    }

    /// The id of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// SIGTERM, and waits until the process has ended well.
    pub(crate) fn stop(mut self) -> Result<(), Failure> {
        let signalled = Command::new("kill").arg(self.child.id().to_string()).status()?;
        let ended = self.child.wait()?;
        if signalled.success() && ended.success() {
            return Ok(());
        }
        Err(format!("the server was stopped and exited with {ended}").into())
    }

    /// SIGKILL, and waits until the process is gone.
    pub(crate) fn kill(mut self) -> Result<(), Failure> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // Both fail only if the process has already ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The executable to drive: `CORVUS_TEST_SERVER`, or the release build of this workspace.
pub(crate) fn executable() -> Result<PathBuf, Failure> {
    let path = match std::env::var_os("CORVUS_TEST_SERVER") {
        Some(path) => PathBuf::from(path),
        None => {
            let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
            target.unwrap_or_else(|| crate::root().join("target")).join("release/corvus")
        }
    };
    if path.is_file() {
        return Ok(path);
    }
    Err(format!(
        "{} does not exist: build it with cargo build --release -p corvus, or name another \
         executable in CORVUS_TEST_SERVER",
        path.display()
    )
    .into())
}
