//! Other processes of the machine.

use std::{io, os::fd::OwnedFd};

use rustix::{
    event::{PollFd, PollFlags, poll},
    process::{Pid, PidfdFlags, pidfd_open},
};

/// Waits until one of the processes has ended. A process that does not exist has ended already;
/// when a process ends during the wait, its id is never mistaken for that of a later process.
///
/// # Errors
/// The system's error when a process cannot be watched.
pub fn wait_for_end_of_any(ids: &[u32]) -> io::Result<()> {
    let mut processes = Vec::with_capacity(ids.len());
    for &id in ids {
        match open(id)? {
            Some(process) => processes.push(process),
            None => return Ok(()),
        }
    }
    let mut waits: Vec<_> =
        processes.iter().map(|process| PollFd::new(process, PollFlags::IN)).collect();
    loop {
        match poll(&mut waits, None) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// `None` when there is no such process.
fn open(id: u32) -> io::Result<Option<OwnedFd>> {
    let id = i32::try_from(id).ok().and_then(Pid::from_raw);
    let Some(id) = id else { return Ok(None) };
    match pidfd_open(id, PidfdFlags::empty()) {
        Ok(process) => Ok(Some(process)),
        Err(rustix::io::Errno::SRCH) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        process::{Command, Stdio},
        sync::mpsc,
        time::Duration,
    };

    use super::*;

    #[test]
    fn the_wait_lasts_exactly_until_one_has_ended() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("it starts");
        let ids = [std::process::id(), child.id()];
        let (sender, ended) = mpsc::channel();
        let waiting = std::thread::spawn(move || sender.send(wait_for_end_of_any(&ids).is_ok()));
        assert!(ended.recv_timeout(Duration::from_millis(50)).is_err(), "both live");
        drop(child.stdin.take());
        assert_eq!(ended.recv(), Ok(true));
        waiting.join().expect("it ends").expect("there is a receiver");
        child.wait().expect("it has ended");
        wait_for_end_of_any(&ids[1..]).expect("a missing process has ended");
    }
}
