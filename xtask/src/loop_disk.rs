//! A file system that can lose power: ext4 in a file in memory, on a loop device.
//!
//! Shutting it down drops everything that was not synced, as a power cut does, and leaves the
//! running process with nothing but errors. It requires root, loop devices and a few tools; if one
//! is missing, [`LoopDisk::create`] says so. Mount, device and file are removed when the value is
//! dropped.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::Failure;

const IMAGE_BYTES: u64 = 1 << 30;
const MEMORY: &str = "/dev/shm";
/// A program that calls EXT4_IOC_SHUTDOWN without flushing the log of the file system, because this
/// program has no unsafe code and cannot call ioctl.
const SHUTDOWN: &str = "import fcntl, os, struct, sys\n\
    fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587d, struct.pack('I', 2))";

pub(crate) struct LoopDisk {
    image: PathBuf,
    /// `None` until it is attached.
    device: Option<String>,
    mount: PathBuf,
    is_mounted: bool,
}

impl LoopDisk {
    /// Creates an empty one and mounts it at `mount`, an existing directory.
    pub(crate) fn create(mount: &Path) -> Result<Self, Failure> {
        let image = Path::new(MEMORY).join(format!("corvus-powercut-{}", std::process::id()));
        std::fs::File::create(&image)?.set_len(IMAGE_BYTES)?;
        let mut disk = Self { image, device: None, mount: mount.to_path_buf(), is_mounted: false };
        let image = disk.image.display().to_string();
        run("mkfs.ext4", &["-q", "-F", &image])?;
        disk.device = Some(run("losetup", &["--find", "--show", &image])?);
        disk.mount()?;
        Ok(disk)
    }

    fn mount(&mut self) -> Result<(), Failure> {
        let device = self.device.as_deref().ok_or("no loop device is attached")?;
        run("mount", &["-t", "ext4", device, &self.mount.display().to_string()])?;
        self.is_mounted = true;
        Ok(())
    }

    /// Cuts the power: the file system returns errors, and everything that was not synced is lost.
    pub(crate) fn cut_power(&self) -> Result<(), Failure> {
        run("python3", &["-c", SHUTDOWN, &self.mount.display().to_string()]).map(drop)
    }

    /// Mounts it again after a power cut, when it is no longer used.
    pub(crate) fn restore_power(&mut self) -> Result<(), Failure> {
        run("umount", &[&self.mount.display().to_string()])?;
        self.is_mounted = false;
        self.mount()
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        let report = |result: Result<String, Failure>| {
            if let Err(error) = result {
                eprintln!("powercut: cleaning up: {error}");
            }
        };
        if self.is_mounted {
            report(run("umount", &[&self.mount.display().to_string()]));
        }
        if let Some(device) = &self.device {
            report(run("losetup", &["--detach", device]));
        }
        report(std::fs::remove_file(&self.image).map(|()| String::new()).map_err(Failure::from));
    }
}

/// Returns the output of the program.
fn run(program: &str, arguments: &[&str]) -> Result<String, Failure> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| format!("cannot run {program}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(format!("{program} failed with {}: {said}", output.status).into())
}
