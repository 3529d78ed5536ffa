//! How sockets are made and set up; no runtime here.
//!
//! 1. Every socket is nonblocking and close-on-exec.
//! 2. Options that connections inherit from their listener (TCP_NODELAY, SO_KEEPALIVE, buffer sizes) are set on the
//!    listener once, not with a system call per accepted connection.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use crate::net::SocketOptions;

/// Connections that may wait to be accepted, per listening socket; the kernel caps it at `net.core.somaxconn`.
const LISTEN_BACKLOG: i32 = 1024;

/// How often a taken port is tried again: the kernel ends a killed process's ring, and with it the listener that an
/// accept held, some milliseconds (measured: up to 12, idle) after the process is gone.
const PROBE_ATTEMPTS_MAX: u32 = 20;
const PROBE_PAUSE: Duration = Duration::from_millis(25);

/// Tells whether `address` is free, before the shards share it with SO_REUSEPORT: without that option the kernel
/// refuses a port that anyone listens on, ourselves included. Port 0 is always free. A port that stays taken is tried for
/// half a second. Blocks: to be called before the shards run.
///
/// # Errors
/// `AddrInUse` when someone listens there; otherwise what `bind` says (no such address, no right).
#[expect(
    clippy::disallowed_methods,
    reason = "no shard runs yet that could be kept waiting"
)]
pub fn probe_bind(address: SocketAddr) -> io::Result<()> {
    for _ in 1..PROBE_ATTEMPTS_MAX {
        match try_bind(address) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                std::thread::sleep(PROBE_PAUSE);
            }
            result => return result,
        }
    }
    try_bind(address)
}

fn try_bind(address: SocketAddr) -> io::Result<()> {
    let socket = stream_socket(address)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())
}

/// A bound, listening socket that every shard can have on the same address.
pub(crate) fn listening(address: SocketAddr, options: SocketOptions) -> io::Result<Socket> {
    let socket = stream_socket(address)?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_keepalive(true)?;
    if let Some(size) = options.send_buffer_bytes {
        socket.set_send_buffer_size(size)?;
    }
    if let Some(size) = options.receive_buffer_bytes {
        socket.set_recv_buffer_size(size)?;
    }
    socket.bind(&address.into())?;
    socket.listen(LISTEN_BACKLOG)?;
    Ok(socket)
}

/// A socket about to connect to `address`.
pub(crate) fn connecting(address: SocketAddr) -> io::Result<Socket> {
    let socket = stream_socket(address)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_keepalive(true)?;
    Ok(socket)
}

fn stream_socket(address: SocketAddr) -> io::Result<Socket> {
    let kind = Type::STREAM.nonblocking().cloexec();
    let socket = Socket::new(Domain::for_address(address), kind, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        // The wildcard address serves both families, as in Java, whatever `net.ipv6.bindv6only` says.
        socket.set_only_v6(false)?;
    }
    Ok(socket)
}
