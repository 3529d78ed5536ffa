//! A listening socket on the ring.
//!
//! Not here: limits on the number of connections and what to do about accept errors; the caller backs off.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use rustix::io::Errno;
use rustix::net::SocketFlags;

use super::connection::RingConnection;
use super::driver::Driver;
use super::readiness::Polled;
use crate::net::{Listener, SocketOptions};
use crate::socket;

/// Connections taken without a pause before other tasks and other sockets get their turn.
const ACCEPT_RUN_MAX: u32 = 16;

/// [`Listener`] on the shard it was bound on.
#[derive(Debug)]
pub struct RingListener {
    driver: Rc<Driver>,
    socket: Polled,
    local: SocketAddr,
    run: Cell<u32>,
}

impl RingListener {
    pub(super) fn bind(
        driver: &Rc<Driver>,
        address: SocketAddr,
        options: SocketOptions,
    ) -> io::Result<Self> {
        let socket = OwnedFd::from(socket::listening(address, options)?);
        let local = rustix::net::getsockname(&socket)?.try_into()?;
        Ok(Self {
            driver: Rc::clone(driver),
            socket: Polled::new(driver, socket),
            local,
            run: Cell::new(0),
        })
    }
}

impl Listener for RingListener {
    type Connection = RingConnection;

    async fn accept(&self) -> io::Result<RingConnection> {
        if self.run.get() >= ACCEPT_RUN_MAX {
            self.run.set(0);
            futures_lite::future::yield_now().await;
        }
        self.run.set(self.run.get() + 1);
        loop {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            match rustix::net::acceptfrom_with(self.socket.get(), flags) {
                Ok((socket, peer)) => {
                    let peer = peer.ok_or(io::ErrorKind::ConnectionAborted)?.try_into()?;
                    return Ok(RingConnection::new(&self.driver, socket, peer, self.local));
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.run.set(0);
                    self.socket.on_nothing_to_read();
                    self.socket.readable().await;
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
    use crate::net::{Connection, Net};

    // Goal: accepted sockets have the options that only their listener was given. Method: ask the kernel.
    #[test]
    fn options_are_inherited() {
        block_on(|net| async move {
            let options = SocketOptions {
                send_buffer_bytes: Some(100 * 1024),
                receive_buffer_bytes: Some(50 * 1024),
            };
            let listener = net.listen("[::1]:0".parse().unwrap(), options).unwrap();
            let client = net.connect(listener.local).await.unwrap();
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
