//! A disk whose power can be cut: a file system on a loop device, whose file lies in the folder of
//! the run. The cut is the ioctl by which file systems are tested (`FS_IOC_SHUTDOWN` without a
//! flush of the log): from then on nothing reaches the device, and what was not synced is gone.
//!
//! The cache of the drive below is not part of it, nor is a sector that is written half.

use crate::mounts;
use anyhow::{Context, bail, ensure};
use rustix::process::geteuid;
use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::time::{Duration, Instant};
use weir_bench::driver::program_of_host;

/// What the file is called that the file system is in.
pub(crate) const IMAGE: &str = "power-cut.img";

/// How large the file system is. The file is sparse: it takes what the broker writes.
const IMAGE_BYTES: u64 = 2 << 30;

/// How long the last process of a broker may take to let go of its files.
const UNMOUNT_MAX: Duration = Duration::from_secs(10);

const UNMOUNT_EVERY: Duration = Duration::from_millis(50);

/// What the file system is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    /// ext4, as `mkfs.ext4` makes it.
    Ext4,
    /// XFS, as `mkfs.xfs` makes it.
    Xfs,
}

impl FileSystem {
    /// The program that makes it, and the package that has it.
    const fn maker(self) -> (&'static str, &'static str) {
        match self {
            Self::Ext4 => ("mkfs.ext4", "e2fsprogs"),
            Self::Xfs => ("mkfs.xfs", "xfsprogs"),
        }
    }
}

impl FromStr for FileSystem {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "ext4" => Ok(Self::Ext4),
            "xfs" => Ok(Self::Xfs),
            _ => Err("a file system is ext4 or xfs".into()),
        }
    }
}

impl fmt::Display for FileSystem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
        })
    }
}

/// Says in one line what this host lacks, if it lacks something.
///
/// # Errors
/// Not root, no loop devices, or a program that is not installed.
pub fn can_be_cut(kind: FileSystem) -> anyhow::Result<()> {
    if !geteuid().is_root() {
        bail!("a power cut mounts a file system, which takes root; --step kill does not");
    }
    if !Path::new("/dev/loop-control").exists() {
        bail!("a power cut takes loop devices, and this host has no /dev/loop-control");
    }
    let needed = [kind.maker(), ("mount", "mount"), ("umount", "mount"), ("xfs_io", "xfsprogs")];
    for (program, package) in needed {
        if program_of_host(program).is_none() {
            bail!("a power cut takes {program}; to install it: apt-get install {package}");
        }
    }
    Ok(())
}

/// The disk. Dropping it unmounts it and removes its file.
#[derive(Debug)]
pub(crate) struct Disk {
    image: PathBuf,
    /// Where it is mounted.
    folder: PathBuf,
    is_mounted: bool,
    /// Locked as long as this process lives: who finds it unlocked may clear it away.
    _held: File,
}

impl Disk {
    /// Makes one in `run` and mounts it at `folder`. What a run that was killed has left is cleared
    /// away first.
    pub(crate) fn new(kind: FileSystem, run: &Path, folder: PathBuf) -> anyhow::Result<Self> {
        can_be_cut(kind)?;
        clear(run)?;
        let image = std::path::absolute(run.join(IMAGE))?;
        let held = File::create(&image)
            .and_then(|file| file.set_len(IMAGE_BYTES).map(|()| file))
            .with_context(|| format!("cannot make {}", image.display()))?;
        let mut disk = Self { image, folder, is_mounted: false, _held: held };
        disk._held.try_lock().context("cannot lock the file of the power cut")?;
        let options: &[&str] = match kind {
            FileSystem::Ext4 => &["-q", "-F", "-m", "0"],
            FileSystem::Xfs => &["-q", "-f"],
        };
        let words = options.iter().map(OsStr::new).chain([disk.image.as_os_str()]);
        host(kind.maker().0, words)?;
        std::fs::create_dir_all(&disk.folder)
            .with_context(|| format!("cannot make {}", disk.folder.display()))?;
        disk.mount()?;
        // A broker's folder is empty at its first start.
        let _ = std::fs::remove_dir(disk.folder.join("lost+found"));
        Ok(disk)
    }

    /// From now on nothing reaches the device.
    pub(crate) fn cut(&self) -> anyhow::Result<()> {
        let words = ["-x", "-c", "shutdown"].map(OsStr::new);
        host("xfs_io", words.into_iter().chain([self.folder.as_os_str()]))
            .context("the file system cannot be shut down")
    }

    /// Mounts it again, with what the device has. Nobody has a file open there any more.
    pub(crate) fn restore(&mut self) -> anyhow::Result<()> {
        self.unmount()?;
        self.mount()
    }

    fn mount(&mut self) -> anyhow::Result<()> {
        // The device goes when the file system is unmounted.
        let words = [OsStr::new("-o"), OsStr::new("loop"), self.image.as_os_str()];
        host("mount", words.into_iter().chain([self.folder.as_os_str()]))?;
        self.is_mounted = true;
        Ok(())
    }

    fn unmount(&mut self) -> anyhow::Result<()> {
        unmount(&self.folder)?;
        self.is_mounted = false;
        // What is mounted before that is the same file system once more, still shut down.
        let deadline = Instant::now() + UNMOUNT_MAX;
        while mounts::is_attached(&self.image) {
            ensure!(Instant::now() < deadline, "{} is still in use", self.folder.display());
            std::thread::sleep(UNMOUNT_EVERY);
        }
        Ok(())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.is_mounted
            && let Err(error) = self.unmount()
        {
            tracing::warn!("{error:#}");
        }
        // The folder stays where something is still mounted there.
        let _ = std::fs::remove_dir(&self.folder);
        if let Err(error) = std::fs::remove_file(&self.image) {
            tracing::warn!(%error, "{} could not be removed", self.image.display());
        }
    }
}

/// Clears away what runs have left that were killed: mounted file systems anywhere, and files
/// beside the folder of this run. Those of a run that lives are locked.
fn clear(run: &Path) -> anyhow::Result<()> {
    for (folder, image) in mounts::of_image(IMAGE)? {
        // One that was removed belongs to nobody.
        if !image.exists() || is_left(&image) {
            unmount(&folder)?;
            tracing::warn!("{} was left by a run that was killed: unmounted", folder.display());
            let _ = std::fs::remove_dir(&folder);
            let _ = std::fs::remove_file(&image);
        }
    }
    let beside = run.parent().and_then(|out| std::fs::read_dir(out).ok()).into_iter().flatten();
    for image in beside.flatten().map(|entry| entry.path().join(IMAGE)) {
        if is_left(&image) {
            let _ = std::fs::remove_file(&image);
        }
    }
    Ok(())
}

/// Whether an image is there and nobody holds it.
fn is_left(image: &Path) -> bool {
    File::open(image).is_ok_and(|file| file.try_lock().is_ok())
}

fn unmount(folder: &Path) -> anyhow::Result<()> {
    let deadline = Instant::now() + UNMOUNT_MAX;
    loop {
        // The kernel may still be closing the files of a process that has ended.
        match host("umount", [folder.as_os_str()]) {
            Err(error) if Instant::now() >= deadline => return Err(error),
            Err(_) => std::thread::sleep(UNMOUNT_EVERY),
            Ok(()) => return Ok(()),
        }
    }
}

/// Runs a program of the host; its error is what it says.
fn host<'a>(program: &str, words: impl IntoIterator<Item = &'a OsStr>) -> anyhow::Result<()> {
    let path = program_of_host(program).with_context(|| format!("there is no {program}"))?;
    let output = Command::new(path).args(words).output().context(program.to_owned())?;
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim();
    // xfs_io exits with 0 whatever happened.
    if !output.status.success() || (program == "xfs_io" && !said.is_empty()) {
        bail!("{program} failed ({}): {}", output.status, said.replace('\n', " / "));
    }
    Ok(())
}
