//! A listening socket on the reactor.
//!
//! Not here: limits on the number of connections and what to do about accept errors; the caller backs off.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use glommio::io::PollableFd;
use rustix::io::Errno;
use rustix::net::SocketFlags;

use super::connection::GlommioConnection;
use crate::net::{Listener, SocketOptions};
use crate::socket;

/// Connections taken without a pause before other tasks and other sockets get their turn.
const ACCEPT_RUN_MAX: u32 = 16;

/// [`Listener`] on the shard it was bound on.
#[derive(Debug)]
pub struct GlommioListener {
    socket: PollableFd<OwnedFd>,
    local: SocketAddr,
    run: Cell<u32>,
}

impl GlommioListener {
    pub(crate) fn bind(address: SocketAddr, options: SocketOptions) -> io::Result<Self> {
        let socket = OwnedFd::from(socket::listening(address, options)?);
        let local = rustix::net::getsockname(&socket)?.try_into()?;
        Ok(Self {
            socket: PollableFd::new(socket)?,
            local,
            run: Cell::new(0),
        })
    }
}

impl Listener for GlommioListener {
    type Connection = GlommioConnection;

    async fn accept(&self) -> io::Result<GlommioConnection> {
        if self.run.get() >= ACCEPT_RUN_MAX {
            self.run.set(0);
            // Through the ring: the reactor looks at everything else on the way.
            self.socket.readable().await?;
        }
        self.run.set(self.run.get() + 1);
        loop {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            match rustix::net::acceptfrom_with(self.socket.get_ref(), flags) {
                Ok((socket, peer)) => {
                    let peer = peer.ok_or(io::ErrorKind::ConnectionAborted)?.try_into()?;
                    return GlommioConnection::new(socket, peer, self.local);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.run.set(0);
                    self.socket.readable().await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.local)
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::sockopt;

    use super::*;
    use crate::boot::block_on;
    use crate::net::Connection;

    // Goal: accepted sockets have the options that only their listener was given. Method: ask the kernel.
    #[test]
    fn options_are_inherited() {
        block_on(|_| async {
            let options = SocketOptions {
                send_buffer_bytes: Some(100 * 1024),
                receive_buffer_bytes: Some(50 * 1024),
            };
            let listener = GlommioListener::bind("[::1]:0".parse().unwrap(), options).unwrap();
            let client = GlommioConnection::connect(listener.local).await.unwrap();
            let server = listener.accept().await.unwrap();
            assert_eq!(server.peer_addr(), client.local_addr());
            let socket = server.socket();
            assert!(sockopt::tcp_nodelay(socket).unwrap());
            assert!(sockopt::socket_keepalive(socket).unwrap());
            // The kernel doubles what it is asked, for its own bookkeeping.
            assert_eq!(
                sockopt::socket_send_buffer_size(socket).unwrap(),
                200 * 1024
            );
            assert_eq!(
                sockopt::socket_recv_buffer_size(socket).unwrap(),
                100 * 1024
            );
            let socket = client.socket();
            assert!(sockopt::tcp_nodelay(socket).unwrap());
            assert!(sockopt::socket_keepalive(socket).unwrap());
        })
        .unwrap();
    }
}
