//! The file that a unix socket is reached by.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::{UnixListener, UnixSocket, UnixStream};

/// Connections that wait to be accepted.
const BACKLOG: u32 = 64;

/// How long whoever listens on an old file has to show that it is there.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// Why nothing can be served there.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Another process serves there.
    #[error(
        "another process listens on {}; stop it, or set another [control] socket",
        .0.display()
    )]
    InUse(PathBuf),
    /// There is a file which is no socket.
    #[error(
        "{} is there and is no socket; remove it, or set another [control] socket",
        .0.display()
    )]
    NoSocket(PathBuf),
    /// The system refuses.
    #[error("cannot listen on {}: {source}; {hint}", path.display())]
    System {
        /// The file.
        path: PathBuf,
        /// What it says.
        source: io::Error,
        /// What to do.
        hint: &'static str,
    },
}

/// The file of a socket that is listened on; removed with this value, unless another has its
/// place by then.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Device and number of the file.
    id: (u64, u64),
}

/// Listens on a socket file that only the owner of this process may use. One that nobody listens
/// on any more is replaced.
pub(crate) async fn listen(path: &Path) -> Result<(UnixListener, SocketFile), SocketError> {
    make_room(path).await?;
    let system = |source| system_error(path, source);
    let socket = UnixSocket::new_stream().map_err(system)?;
    socket.bind(path).map_err(system)?;
    // Nobody can connect before it is listened on.
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600)).map_err(system)?;
    let id = id_of(path).map_err(system)?;
    let file = SocketFile { path: path.into(), id };
    Ok((socket.listen(BACKLOG).map_err(system)?, file))
}

/// Removes an old socket file that nobody listens on.
async fn make_room(path: &Path) -> Result<(), SocketError> {
    let found = match std::fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(system_error(path, error)),
    };
    if !found.file_type().is_socket() {
        return Err(SocketError::NoSocket(path.into()));
    }
    match tokio::time::timeout(ANSWER_MAX, UnixStream::connect(path)).await {
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(|error| system_error(path, error))
        }
        Ok(Err(error)) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(system_error(path, error))
        }
        // One that does not accept in time is there, too.
        Ok(_) | Err(_) => Err(SocketError::InUse(path.into())),
    }
}

fn id_of(path: &Path) -> io::Result<(u64, u64)> {
    let found = std::fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

fn system_error(path: &Path, source: io::Error) -> SocketError {
    let hint = match source.kind() {
        io::ErrorKind::NotFound => "its folder must be there before",
        io::ErrorKind::PermissionDenied => "this process must be allowed to write to its folder",
        io::ErrorKind::AddrInUse => "another process was faster",
        _ => "set another [control] socket",
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
