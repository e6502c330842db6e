//! Local sockets that only their own user may connect to, and that never wait for ever.

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketType};

use super::LiveError;

/// The most connections that may wait to be accepted.
const WAITING: i32 = 16;

/// Listens at `path`, for its own user alone.
pub(super) fn listen(path: &Path) -> Result<UnixListener, LiveError> {
    match bind(path) {
        // The socket was left behind by a program that was killed.
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
        // The permissions are set before the socket listens, so that nobody else can connect before.
        fs::set_permissions(path, Permissions::from_mode(0o600))?;
        net::listen(&socket, WAITING)?;
        let listener = UnixListener::from(socket);
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    listen().inspect_err(|_| {
        // The file is this call's own: nobody else could connect to it yet.
        fs::remove_file(path).ok();
    })
}

/// Connects to `path`, and gives up after `within`; so do reads and writes.
pub(super) fn connect(path: &Path, within: Duration) -> io::Result<UnixStream> {
    let stream = UnixStream::from(new()?);
    stream.set_read_timeout(Some(within))?;
    // On Unix sockets this bounds the time to connect too, to a program that accepts nobody.
    stream.set_write_timeout(Some(within))?;
    net::connect(&stream, &SocketAddrUnix::new(path)?)?;
    Ok(stream)
}

/// A new socket, which is not inherited by programs that another thread starts at this moment.
#[cfg(not(target_vendor = "apple"))]
fn new() -> io::Result<OwnedFd> {
    let flags = net::SocketFlags::CLOEXEC;
    Ok(net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}

/// A new socket, made not to be inherited in a second step: Apple's systems have no way to do both at once.
#[cfg(target_vendor = "apple")]
fn new() -> io::Result<OwnedFd> {
    let socket = net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    Ok(socket)
}

/// Whether the path is that of a socket on which nobody listens any more. A socket that was just made may not listen yet, so
/// this connects twice, 10 ms apart.
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
