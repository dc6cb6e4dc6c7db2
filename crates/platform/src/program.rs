//! Programs of the operator whose output is a secret: a key, or a certificate with its key.
//!
//! A program is started directly, without a shell, so nothing in its arguments is interpreted. Whatever it does, the
//! caller gets its output or an error in bounded time and memory, and nothing of it is left running: it has a process
//! group of its own, which is killed at the end.

use std::{
    fmt,
    io::{self, Read},
    os::{fd::AsFd, unix::process::CommandExt},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
    process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open},
};
use zeroize::Zeroizing;

/// The end of what a program writes to its standard error is kept up to this length.
const COMPLAINT_BYTES_MAX: usize = 2000;
const PIECE_BYTES: usize = 16 << 10;

/// A program with its arguments.
#[derive(Clone, PartialEq, Eq)]
pub struct Program {
    /// The file that is executed. A name without a slash is looked for in the directories of `PATH`.
    pub path: PathBuf,
    /// Its arguments, which may contain secrets: they are in no error.
    pub arguments: Vec<String>,
    /// How long it may take.
    pub time_max: Duration,
}

impl fmt::Debug for Program {
    /// Without the arguments.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Program({})", self.path.display())
    }
}

/// Why there is no output of a program.
#[derive(Debug)]
pub struct ProgramError {
    path: PathBuf,
    failure: Failure,
    /// What it wrote to its standard error.
    complaint: String,
}

#[derive(Debug)]
enum Failure {
    Unstartable(io::Error),
    Unreadable(io::Error),
    TooSlow(Duration),
    TooMuchOutput(usize),
    Ended(ExitStatus),
}

impl Program {
    /// Runs it to its end, with nothing on its standard input, and returns what it writes to its standard output, at
    /// most `bytes_max`. Blocks.
    ///
    /// # Errors
    /// It cannot be started, ends with a code other than 0 or by a signal, takes too long, or writes more. What it wrote
    /// to its standard error is part of the error's text.
    pub fn output(&self, bytes_max: usize) -> Result<Zeroizing<Vec<u8>>, ProgramError> {
        let mut complaint = Vec::new();
        let outcome = self.run(bytes_max, &mut complaint);
        outcome.map_err(|failure| {
            let path = self.path.clone();
            ProgramError { path, failure, complaint: printable(&complaint) }
        })
    }

    fn run(
        &self,
        bytes_max: usize,
        complaint: &mut Vec<u8>,
    ) -> Result<Zeroizing<Vec<u8>>, Failure> {
        let mut command = Command::new(&self.path);
        command
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let child = command.spawn().map_err(Failure::Unstartable)?;
        Running { child, is_over: false }.output(bytes_max, self.time_max, complaint)
    }
}

/// A program that has been started; dropping it kills its process group.
struct Running {
    child: Child,
    is_over: bool,
}

impl Running {
    fn output(
        mut self,
        bytes_max: usize,
        time_max: Duration,
        complaint: &mut Vec<u8>,
    ) -> Result<Zeroizing<Vec<u8>>, Failure> {
        let began = now();
        let (stdout, stderr) = (self.child.stdout.take(), self.child.stderr.take());
        let missing = || Failure::Unreadable(io::ErrorKind::BrokenPipe.into());
        let (mut stdout, mut stderr) = (stdout.ok_or_else(missing)?, stderr.ok_or_else(missing)?);
        without_blocking(&stdout).and(without_blocking(&stderr)).map_err(Failure::Unreadable)?;
        let process = pidfd_open(self.id(), PidfdFlags::empty());
        let process = process.map_err(|error| Failure::Unreadable(error.into()))?;
        // Of its full size from the beginning: what it grew out of would not be zeroed.
        let mut output = Zeroizing::new(Vec::with_capacity(bytes_max + PIECE_BYTES));
        let mut is_closed = [false; 2];
        loop {
            let left = time_max.checked_sub(now().saturating_duration_since(began));
            let left = left.ok_or(Failure::TooSlow(time_max))?;
            // A pipe that is closed would end every wait at once.
            let mut awaited = vec![PollFd::new(&process, PollFlags::IN)];
            if !is_closed[0] {
                awaited.push(PollFd::new(&stdout, PollFlags::IN));
            }
            if !is_closed[1] {
                awaited.push(PollFd::new(&stderr, PollFlags::IN));
            }
            let timeout = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
            match poll(&mut awaited, Some(&timeout)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(Failure::Unreadable(error.into())),
            }
            let has_ended = !awaited[0].revents().is_empty();
            // Once it has ended, what it has written is there; what others still write does not count.
            is_closed[0] = read_now(&mut stdout, |piece| {
                output.extend_from_slice(piece);
                if output.len() <= bytes_max {
                    Ok(())
                } else {
                    Err(Failure::TooMuchOutput(bytes_max))
                }
            })?;
            is_closed[1] = read_now(&mut stderr, |piece| {
                complaint.extend_from_slice(piece);
                let excess = complaint.len().saturating_sub(COMPLAINT_BYTES_MAX);
                drop(complaint.drain(..excess));
                Ok(())
            })?;
            if has_ended {
                let status = self.end().map_err(Failure::Unreadable)?;
                return if status.success() { Ok(output) } else { Err(Failure::Ended(status)) };
            }
        }
    }

    fn id(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Ends it and everything that it has started, which lives on in its group even if it has ended itself. Until its end
    /// is asked for, no other group has this number.
    fn end(&mut self) -> io::Result<ExitStatus> {
        self.is_over = true;
        // A group of which nothing lives is an error that does not matter.
        let _ = kill_process_group(self.id(), Signal::KILL);
        self.child.wait()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_over {
            drop(self.end());
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the time of another process is real time")]
fn now() -> Instant {
    Instant::now()
}

fn without_blocking(pipe: impl AsFd) -> io::Result<()> {
    let flags = fcntl_getfl(&pipe)?;
    Ok(fcntl_setfl(&pipe, flags | OFlags::NONBLOCK)?)
}

/// Passes on what can be read at this moment, at most a piece more than `take` accepts. Returns whether that was all, for
/// good.
fn read_now(
    pipe: &mut impl Read,
    mut take: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<bool, Failure> {
    let mut piece = Zeroizing::new([0; PIECE_BYTES]);
    // A program that writes as fast as this reads must not keep its time from being looked at.
    for _ in 0..PIECES_AT_ONCE {
        match pipe.read(&mut *piece) {
            Ok(0) => return Ok(true),
            Ok(bytes) => take(&piece[..bytes])?,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Failure::Unreadable(error)),
        }
    }
    Ok(false)
}

/// More than what a pipe holds.
const PIECES_AT_ONCE: usize = 64;

/// The text on one line, without what a terminal might obey.
fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    words.chars().filter(|character| !character.is_control()).collect()
}

impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the program '{}' ", self.path.display())?;
        match &self.failure {
            Failure::Unstartable(error) => write!(f, "cannot be started: {error}")?,
            Failure::Unreadable(error) => write!(f, "cannot be read from: {error}")?,
            Failure::TooSlow(time_max) => {
                write!(f, "took longer than {} seconds and was ended", time_max.as_secs_f64())?;
            }
            Failure::TooMuchOutput(bytes_max) => {
                write!(f, "wrote more than {bytes_max} bytes and was ended")?;
            }
            Failure::Ended(status) => write!(f, "failed ({status})")?,
        }
        match self.complaint.is_empty() {
            true => Ok(()),
            false => write!(f, ": {}", self.complaint),
        }
    }
}

impl std::error::Error for ProgramError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.failure {
            Failure::Unstartable(error) | Failure::Unreadable(error) => Some(error),
            Failure::TooSlow(_) | Failure::TooMuchOutput(_) | Failure::Ended(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Program {
        let arguments = ["-c", script].map(str::to_owned).to_vec();
        Program { path: "/bin/sh".into(), arguments, time_max: Duration::from_secs(20) }
    }

    fn failed(program: &Program, bytes_max: usize) -> String {
        program.output(bytes_max).expect_err("it fails").to_string()
    }

    #[test]
    fn the_output_of_a_program_is_what_it_writes() {
        let output = shell("printf 'a\\000b'; echo note >&2").output(3).expect("it runs");
        assert_eq!(**output, *b"a\0b");
        assert!(shell("exit 0").output(0).expect("it runs").is_empty());
        let large = shell("head -c 300000 /dev/zero").output(300_000).expect("it runs");
        assert_eq!(large.len(), 300_000);
    }

    #[test]
    fn arguments_reach_the_program_as_they_are() {
        let arguments = ["%s|", "$(id) `id`", "a b", "\"'", ""].map(str::to_owned).to_vec();
        let program =
            Program { path: "printf".into(), arguments, time_max: Duration::from_secs(20) };
        let output = program.output(100).expect("it runs");
        assert_eq!(**output, *b"$(id) `id`|a b|\"'||");
    }

    #[test]
    fn a_program_that_fails_is_reported_with_its_complaint_and_without_its_arguments() {
        let mut program = shell("echo 'no \x1b[31mkey' >&2; echo partial; exit 3");
        program.arguments.push("a-secret".to_owned());
        let error = failed(&program, 100);
        assert!(error.contains("'/bin/sh' failed (exit status: 3): no [31mkey"), "{error}");
        assert!(!error.contains("a-secret") && !format!("{program:?}").contains("a-secret"));
        let error = failed(&shell("kill -TERM $$"), 100);
        assert!(error.contains("signal: 15"), "{error}");
        let error = failed(&shell("head -c 100000 /dev/zero | tr '\\0' x >&2; exit 1"), 100);
        assert!(error.len() < COMPLAINT_BYTES_MAX + 100, "{}", error.len());
        let missing = Program { path: "/no/such".into(), ..shell("") };
        assert!(failed(&missing, 100).contains("'/no/such' cannot be started"));
    }

    #[test]
    fn a_program_that_hangs_is_ended_with_everything_it_has_started() {
        let mut program = shell("sleep 1000 & echo $!; wait");
        program.time_max = Duration::from_millis(200);
        let error = failed(&program, 100);
        assert!(error.contains("took longer than 0.2 seconds"), "{error}");
        // One that ends, but leaves something behind that has its output open.
        let output = shell("sleep 1000 & echo $!").output(100).expect("it runs");
        let child: i32 = String::from_utf8_lossy(&output).trim().parse().expect("a number");
        let child = Pid::from_raw(child).expect("a process");
        let began = now();
        // It is gone, or nobody has asked for its end yet.
        while rustix::process::test_kill_process(child).is_ok() && !is_zombie(child) {
            assert!(now().duration_since(began) < Duration::from_secs(20), "it lives");
        }
    }

    #[expect(clippy::disallowed_methods, reason = "what the kernel says of a process")]
    fn is_zombie(process: Pid) -> bool {
        let path = format!("/proc/{}/stat", process.as_raw_nonzero());
        let stat = std::fs::read(path).unwrap_or_default();
        String::from_utf8_lossy(&stat).contains(") Z ")
    }

    #[test]
    fn a_program_that_writes_without_end_is_ended() {
        let error = failed(&shell("cat /dev/zero"), 1000);
        assert!(error.contains("wrote more than 1000 bytes"), "{error}");
        let error = failed(&shell("head -c 1000000000 /dev/zero; exit 0"), 64 << 10);
        assert!(error.contains("wrote more than 65536 bytes"), "{error}");
        let mut program = shell("cat /dev/zero >&2");
        program.time_max = Duration::from_millis(300);
        let error = failed(&program, 1000);
        assert!(error.contains("took longer"), "{error}");
    }
}
