//! One server of the drill: a process on a machine of its own, with a small file system in memory and a clock that may
//! be wrong.

use std::{
    fs::File,
    io::Write,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use serde_json::Value;

use crate::{
    Failure,
    cluster_faults::network::{Network, run},
    http_client::HttpClient,
    server_process::ServerProcess,
};

const PORT: u16 = 8080;
const DISK_BYTES: &str = "size=512m";
/// Where Debian has the library that changes what a process reads from the clock.
const FAKE_TIME: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";
const BALLAST_PIECE: usize = 1 << 20;
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);

/// See the module.
pub(crate) struct Node {
    pub(crate) machine: usize,
    pub(crate) url: String,
    executable: PathBuf,
    disk: PathBuf,
    log: PathBuf,
    /// `None` while it is killed.
    process: Option<ServerProcess>,
    /// What its clock is ahead of this machine's, in seconds.
    clock: i64,
}

/// Whether clocks can be made wrong on this machine.
pub(crate) fn has_clocks() -> bool {
    Path::new(FAKE_TIME).is_file()
}

impl Node {
    /// Mounts its file system; the process is started separately.
    pub(crate) fn create(
        network: &Network,
        machine: usize,
        executable: &Path,
        folder: &Path,
    ) -> Result<Node, Failure> {
        let disk = folder.join(format!("disk-{machine}"));
        std::fs::create_dir_all(&disk)?;
        let shown = disk.display().to_string();
        run("mount", &["-t", "tmpfs", "-o", DISK_BYTES, "tmpfs", &shown])?;
        Ok(Node {
            machine,
            url: format!("http://{}:{PORT}", network.machine(machine)),
            executable: executable.to_path_buf(),
            disk,
            log: folder.join(format!("node-{machine}.log")),
            process: None,
            clock: 0,
        })
    }

    /// Starts the process, unless it runs.
    pub(crate) fn start(&mut self, network: &Network) -> Result<(), Failure> {
        if self.process.is_some() {
            return Ok(());
        }
        let mut command = network.command_on(self.machine);
        command.arg("env");
        if self.clock != 0 {
            command.arg(format!("LD_PRELOAD={FAKE_TIME}"));
            command.arg(format!("FAKETIME={:+}s", self.clock));
            command.arg("FAKETIME_DONT_FAKE_MONOTONIC=1");
        }
        command.arg(&self.executable);
        let options = [
            format!("--ServerUrl={}", self.url),
            "--Security.UnsecuredAccessAllowed=PrivateNetwork".to_owned(),
        ];
        let data = self.disk.join("data");
        let started =
            ServerProcess::start_command(command, &self.executable, &data, &self.log, &options);
        self.process = Some(started?);
        Ok(())
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) -> Result<(), Failure> {
        self.process.take().map_or(Ok(()), ServerProcess::kill)
    }

    /// SIGSTOP, SIGCONT.
    pub(crate) fn signal(&self, signal: &str) -> Result<(), Failure> {
        let Some(process) = &self.process else { return Ok(()) };
        run("kill", &[&format!("-{signal}"), &process.id().to_string()])
    }

    /// From its next start on, its clock is ahead by so many seconds.
    pub(crate) fn set_clock(&mut self, seconds: i64) {
        self.clock = seconds;
    }

    /// Fills its file system.
    pub(crate) fn fill_disk(&self) -> Result<(), Failure> {
        let mut ballast = File::options().create(true).append(true).open(self.ballast())?;
        let piece = vec![1; BALLAST_PIECE];
        while ballast.write(&piece).is_ok_and(|written| 0 < written) {}
        Ok(())
    }

    /// Makes room again.
    pub(crate) fn free_disk(&self) -> Result<(), Failure> {
        match self.ballast().exists() {
            true => Ok(std::fs::remove_file(self.ballast())?),
            false => Ok(()),
        }
    }

    fn ballast(&self) -> PathBuf {
        self.disk.join("ballast")
    }

    /// The answer in JSON to a request that succeeds.
    pub(crate) fn send(&self, method: &str, path: &str, body: &Value) -> Result<Value, Failure> {
        let mut client = HttpClient::connect_within(&self.url, ANSWER_TIME_MAX)?;
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let answer = client.send(method, path, &body)?;
        match answer.status {
            200..=299 if answer.body.is_empty() => Ok(Value::Null),
            200..=299 => Ok(serde_json::from_slice(&answer.body)?),
            404 => Ok(Value::Null),
            _ => Err(format!("{method} {}{path}: {}", self.url, answer.described()).into()),
        }
    }

    /// `GET`.
    pub(crate) fn get(&self, path: &str) -> Result<Value, Failure> {
        self.send("GET", path, &Value::Null)
    }

    /// Ends the process with all that it holds of the disk, and removes that.
    pub(crate) fn remove(&mut self) {
        // It may be paused, or not be there.
        drop(self.signal("CONT"));
        drop(self.kill());
        if let Err(error) = Command::new("umount").arg(&self.disk).status() {
            eprintln!("cluster-faults: {} is still mounted: {error}", self.disk.display());
        }
    }
}
