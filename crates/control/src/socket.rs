//! The file that a unix socket is reached by.

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen as listen_on,
    socket_with,
};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Why nothing can be served there. Each says which setting has the path.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Another process serves there.
    #[error("another process listens on {}; stop it, or set another {setting}", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
        /// Which has the path.
        setting: &'static str,
    },
    /// There is a file which is no socket.
    #[error("{} is there and is no socket; remove it, or set another {setting}", path.display())]
    NoSocket {
        /// The file.
        path: PathBuf,
        /// Which has the path.
        setting: &'static str,
    },
    /// The system refuses.
    #[error("cannot listen on {}: {source}; {hint}", path.display())]
    System {
        /// The file.
        path: PathBuf,
        /// What it says.
        source: io::Error,
        /// What to do.
        hint: String,
    },
}

/// The file of a socket that is listened on; removed with this value, unless another has its
/// place by then.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Device and number of the file.
    id: (u64, u64),
}

/// Listens on a socket file of this `mode`, by which so many connections may wait to be accepted.
/// One that nobody listens on any more is replaced. `setting` is what has the path.
///
/// # Errors
/// A file that another process listens on, or that is no socket; what the system says.
pub fn listen(
    path: &Path,
    mode: u32,
    backlog: i32,
    setting: &'static str,
) -> Result<(OwnedFd, SocketFile), SocketError> {
    let system = |source: io::Error| system_error(path, source, setting);
    make_room(path, setting)?;
    let socket = open().map_err(system)?;
    let address = SocketAddrUnix::new(path).map_err(|error| system(error.into()))?;
    bind(&socket, &address).map_err(|error| system(error.into()))?;
    // Nobody can connect before it is listened on.
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).map_err(system)?;
    let file = SocketFile { path: path.into(), id: id_of(path).map_err(system)? };
    listen_on(&socket, backlog).map_err(|error| system(error.into()))?;
    Ok((socket, file))
}

fn open() -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}

/// Removes an old socket file that nobody listens on.
fn make_room(path: &Path, setting: &'static str) -> Result<(), SocketError> {
    let system = |source: io::Error| system_error(path, source, setting);
    let found = match std::fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(system(error)),
    };
    if !found.file_type().is_socket() {
        return Err(SocketError::NoSocket { path: path.into(), setting });
    }
    let address = SocketAddrUnix::new(path).map_err(|error| system(error.into()))?;
    match connect(open().map_err(system)?, &address) {
        Err(Errno::CONNREFUSED) => std::fs::remove_file(path).map_err(system),
        Err(error @ (Errno::ACCESS | Errno::PERM)) => Err(system(error.into())),
        // One whose queue is full is there, too.
        Ok(()) | Err(_) => Err(SocketError::InUse { path: path.into(), setting }),
    }
}

fn id_of(path: &Path) -> io::Result<(u64, u64)> {
    let found = std::fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

fn system_error(path: &Path, source: io::Error, setting: &str) -> SocketError {
    let hint = match source.kind() {
        io::ErrorKind::NotFound => "its folder must be there before".into(),
        io::ErrorKind::PermissionDenied => {
            "this process must be allowed to write to its folder".into()
        }
        io::ErrorKind::AddrInUse => "another process was faster".into(),
        _ => format!("set another {setting}"),
    };
    SocketError::System { path: path.into(), source, hint }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if id_of(&self.path).is_ok_and(|id| id == self.id) {
            // What cannot be removed is replaced at the next start.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
