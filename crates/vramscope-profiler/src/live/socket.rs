//! Local sockets that only their user may connect to, and that never wait forever.

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketType};

use super::LiveError;

/// Maximum number of connections that wait to be accepted.
const WAITING: i32 = 16;

/// Listens at `path`, for its own user only.
pub(super) fn listen(path: &Path) -> Result<UnixListener, LiveError> {
    match bind(path) {
        // The socket was left by a killed program.
        Err(e) if e.kind() == io::ErrorKind::AddrInUse && is_dead(path) => {
            fs::remove_file(path).map_err(LiveError::io(path))?;
            bind(path)
        }
        bound => bound,
    }
    .map_err(|e| match e.kind() {
        io::ErrorKind::AddrInUse => LiveError::Taken(path.to_owned()),
        _ => LiveError::io(path)(e),
    })
}

fn bind(path: &Path) -> io::Result<UnixListener> {
    let socket = new()?;
    net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    let listen = || {
        // Set the permissions before the socket listens, so that no other user can connect before.
        fs::set_permissions(path, Permissions::from_mode(0o600))?;
        net::listen(&socket, WAITING)?;
        let listener = UnixListener::from(socket);
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    listen().inspect_err(|_| {
        // This call created the file, and no process can have connected yet.
        fs::remove_file(path).ok();
    })
}

/// Connects to `path` with the timeout `within`, which also applies to reads and writes.
pub(super) fn connect(path: &Path, within: Duration) -> io::Result<UnixStream> {
    let stream = UnixStream::from(new()?);
    stream.set_read_timeout(Some(within))?;
    // On Unix sockets this also limits the time to connect to a program that accepts no connection.
    stream.set_write_timeout(Some(within))?;
    net::connect(&stream, &SocketAddrUnix::new(path)?)?;
    Ok(stream)
}

/// Creates a socket that programs started by another thread at this moment do not inherit.
#[cfg(not(target_vendor = "apple"))]
fn new() -> io::Result<OwnedFd> {
    let flags = net::SocketFlags::CLOEXEC;
    Ok(net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}

/// Creates a socket and disables its inheritance in a second step: Apple's systems cannot do both at once.
#[cfg(target_vendor = "apple")]
fn new() -> io::Result<OwnedFd> {
    let socket = net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    Ok(socket)
}

/// Whether the path names a socket without a listener. A new socket may not listen yet, so this connects twice, 10 ms apart.
pub(super) fn is_dead(path: &Path) -> bool {
    let refuses = || {
        connect(path, Duration::from_millis(100)).is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused)
    };
    let is_socket = fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket());
    is_socket && refuses() && {
        std::thread::sleep(Duration::from_millis(10));
        refuses()
    }
}
