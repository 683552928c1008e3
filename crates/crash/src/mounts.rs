//! Which file systems of this host are mounted from a file.

use std::io;
use std::path::{Path, PathBuf};

/// Whether a loop device has this file. It lets go of it when the last user of its file system is
/// gone, which may be some time after it was unmounted.
pub(crate) fn is_attached(image: &Path) -> bool {
    let devices = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let mut files = devices.filter_map(|of| file_of(&of.file_name().to_string_lossy()));
    files.any(|file| file == image)
}

/// The file that a loop device has.
fn file_of(device: &str) -> Option<PathBuf> {
    let file = std::fs::read_to_string(format!("/sys/block/{device}/loop/backing_file")).ok()?;
    Some(file.trim_end().trim_end_matches(" (deleted)").into())
}

/// Mount points and files of all file systems that are on a loop device whose file is called
/// `name`.
pub(crate) fn of_image(name: &str) -> io::Result<Vec<(PathBuf, PathBuf)>> {
    let table = std::fs::read_to_string("/proc/self/mountinfo")?;
    let file = |device: &str| {
        let file = file_of(device.strip_prefix("/dev/")?)?;
        (file.file_name()? == name).then_some(file)
    };
    let mounted = table.lines().filter_map(from_loop);
    Ok(mounted.filter_map(|(point, device)| Some((point, file(&device)?))).collect())
}

/// Mount point and device of a line, if the device is a loop device.
fn from_loop(line: &str) -> Option<(PathBuf, String)> {
    let (head, tail) = line.split_once(" - ")?;
    let point = head.split(' ').nth(4)?;
    let device = tail.split(' ').nth(1).filter(|device| device.starts_with("/dev/loop"))?;
    Some((Path::new(&plain(point)).into(), device.into()))
}

/// A path of the table: what would end a column stands there in octal.
fn plain(text: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(text.to_owned(), |text, (octal, plain)| text.replace(octal, plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_on_a_loop_device_is_found_by_its_line() {
        let line = "48 25 7:0 / /runs/of\\040today/data rw,relatime - ext4 /dev/loop0 rw,shutdown";
        let (point, device) = from_loop(line).unwrap();
        assert_eq!(point, Path::new("/runs/of today/data"));
        assert_eq!(device, "/dev/loop0");
        // Fields before the dash may be more.
        let line = "36 35 98:0 / /mnt rw shared:1 master:2 - xfs /dev/loop12 rw";
        assert_eq!(from_loop(line).unwrap().1, "/dev/loop12");
        assert_eq!(from_loop("25 1 254:0 / / rw,relatime - ext4 /dev/vda rw"), None);
        assert_eq!(from_loop("26 25 0:24 / /proc rw - proc proc rw"), None);
        assert_eq!(from_loop(""), None);
    }
}
