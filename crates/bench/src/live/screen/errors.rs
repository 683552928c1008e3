//! Standard error while the screen is drawn: kept in a file, and said once the screen is gone.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;

/// Bytes from the end that are looked through for the last line.
const TAIL_BYTES: u64 = 4_096;

/// Most bytes said when the screen is gone; what was said before these is left out.
const SAID_BYTES_MAX: u64 = 256 * 1024;

/// Standard error goes into a file until this is dropped.
pub(super) struct Errors {
    file: File,
    before: OwnedFd,
}

impl Errors {
    /// Begins to keep it.
    pub(super) fn catch() -> std::io::Result<Self> {
        let file = tempfile::tempfile()?;
        let before = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 3)?;
        rustix::stdio::dup2_stderr(&file)?;
        Ok(Self { file, before })
    }

    /// The last line said, empty where nothing was.
    pub(super) fn last_line(&self) -> String {
        let tail = tail(&self.file, TAIL_BYTES).unwrap_or_default();
        tail.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().to_owned()
    }
}

impl Drop for Errors {
    fn drop(&mut self) {
        // Without its old place there is nowhere to say anything.
        if rustix::stdio::dup2_stderr(&self.before).is_ok() {
            let text = tail(&self.file, SAID_BYTES_MAX).unwrap_or_default();
            let _ = std::io::stderr().write_all(text.as_bytes());
        }
    }
}

/// The end of what was written. Writers share the file's position: it is put back to the end.
fn tail(mut file: &File, bytes: u64) -> std::io::Result<String> {
    use std::os::unix::fs::FileExt;
    let length = file.seek(SeekFrom::End(0))?;
    let bytes = bytes.min(length);
    let mut text = vec![0; bytes as usize];
    file.read_exact_at(&mut text, length - bytes)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_of_a_file_leaves_its_writer_at_the_end() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"one\ntwo\n").unwrap();
        assert_eq!(tail(&file, 5).unwrap(), "\ntwo\n");
        file.write_all(b"three").unwrap();
        assert_eq!(tail(&file, 100).unwrap(), "one\ntwo\nthree");
        assert_eq!(tail(&tempfile::tempfile().unwrap(), 9).unwrap(), "");
    }
}
