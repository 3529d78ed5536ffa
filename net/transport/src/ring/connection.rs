//! A connected stream socket: inline nonblocking calls, the ring only to wait.
//!
//! 1. One `recv` call per turn in the common case: a read that did not fill its space has emptied the socket, so the
//!    next one waits first instead of asking for EAGAIN (`readiness.rs`: nothing is missed by that).
//! 2. One vectored write per run of in-memory slices; `sendfile` in chunks small enough to be fair.
//! 3. A connection that is always ready still yields to the rest of the shard.
//! 4. `shutdown` is the kernel's: it ends the polls of both directions, so no wake-up of our own can be lost.
//!
//! Not here: warming file ranges that are not in the page cache (a cold `sendfile` blocks the shard), TLS.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use bytes::{Buf, BytesMut};
use pelton_model::limits::RECV_BYTES_MAX;
use pelton_model::slice::{FileRange, Slice};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown};

use super::driver::Driver;
use super::readiness::Polled;
use crate::net::{Connection, Detached};
use crate::socket;

/// Slices of one vectored write; longer answers take several.
const VECTORS_MAX: usize = 64;
/// The file bytes of one `sendfile` call.
const SENDFILE_BYTES_MAX: usize = 1024 * 1024;
/// Bytes sent without a pause before the rest of the shard gets its turn.
const SEND_RUN_BYTES_MAX: usize = 1024 * 1024;
/// Bytes received without a pause before the rest of the shard gets its turn.
const RECV_RUN_BYTES_MAX: usize = 1024 * 1024;

/// [`Connection`] of the shard it was accepted or connected on.
#[derive(Debug)]
pub struct RingConnection {
    socket: Polled,
    peer: SocketAddr,
    listener: SocketAddr,
    received_run_bytes: Cell<usize>,
    sent_bytes: Cell<u64>,
    closed: Cell<bool>,
}

/// A connection between two shards.
struct Moving {
    socket: OwnedFd,
    peer: SocketAddr,
    listener: SocketAddr,
}

impl RingConnection {
    /// Takes a connection that another shard has given up.
    pub(super) fn attach(driver: &Rc<Driver>, moving: Detached) -> io::Result<Self> {
        let Moving {
            socket,
            peer,
            listener,
        } = moving.into_inner()?;
        Ok(Self::new(driver, socket, peer, listener))
    }

    /// Takes a connected, nonblocking socket.
    pub(super) fn new(
        driver: &Rc<Driver>,
        socket: OwnedFd,
        peer: SocketAddr,
        listener: SocketAddr,
    ) -> Self {
        Self::of(Polled::new(driver, socket), peer, listener)
    }

    fn of(socket: Polled, peer: SocketAddr, listener: SocketAddr) -> Self {
        Self {
            socket,
            peer,
            listener,
            received_run_bytes: Cell::new(0),
            sent_bytes: Cell::new(0),
            closed: Cell::new(false),
        }
    }

    pub(super) async fn connect(driver: &Rc<Driver>, address: SocketAddr) -> io::Result<Self> {
        let socket = socket::connecting(address)?;
        let connected = socket.connect(&address.into());
        let socket = Polled::new(driver, OwnedFd::from(socket));
        match connected {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(Errno::INPROGRESS.raw_os_error()) => {
                socket.writable().await;
                rustix::net::sockopt::socket_error(socket.get())??;
            }
            Err(error) => return Err(error),
        }
        let local = rustix::net::getsockname(socket.get())?.try_into()?;
        Ok(Self::of(socket, address, local))
    }

    #[cfg(test)]
    pub(crate) fn socket(&self) -> &OwnedFd {
        self.socket.get()
    }

    async fn send_all(&self, slices: &mut [Slice]) -> io::Result<()> {
        let mut first = 0;
        let mut run_bytes = 0;
        while first < slices.len() {
            if self.closed.get() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            if run_bytes >= SEND_RUN_BYTES_MAX {
                run_bytes = 0;
                futures_lite::future::yield_now().await;
            }
            match send_some(self.socket.get(), &slices[first..]) {
                Ok(Sent { bytes, asked }) => {
                    run_bytes += bytes;
                    self.sent_bytes.set(self.sent_bytes.get() + bytes as u64);
                    first += advance(&mut slices[first..], bytes);
                    if bytes < asked {
                        // The socket took what it has room for.
                        run_bytes = 0;
                        self.socket.writable().await;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    run_bytes = 0;
                    self.socket.writable().await;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

impl Connection for RingConnection {
    async fn recv(&self, buffer: &mut BytesMut) -> io::Result<usize> {
        assert!(buffer.len() < buffer.capacity(), "recv needs room");
        if self.received_run_bytes.get() >= RECV_RUN_BYTES_MAX {
            self.received_run_bytes.set(0);
            futures_lite::future::yield_now().await;
        }
        loop {
            if self.closed.get() {
                return Ok(0);
            }
            if !self.socket.may_be_readable() {
                self.received_run_bytes.set(0);
                self.socket.readable().await;
                continue;
            }
            match recv_some(self.socket.get(), buffer) {
                Ok(Received { bytes, asked }) => {
                    if bytes < asked {
                        self.socket.on_short_read();
                    }
                    self.received_run_bytes
                        .set(self.received_run_bytes.get() + bytes);
                    return Ok(bytes);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.socket.on_nothing_to_read(),
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn send(&self, slices: &mut Vec<Slice>) -> io::Result<()> {
        let sent = self.send_all(slices).await;
        slices.clear();
        sent
    }

    fn sent_bytes(&self) -> u64 {
        self.sent_bytes.get()
    }

    fn detach(&self) -> io::Result<Detached> {
        Ok(Detached::new(Moving {
            // The old descriptor closes with `self`; the connection lives on in its double.
            socket: self.socket.get().try_clone()?,
            peer: self.peer,
            listener: self.listener,
        }))
    }

    fn shutdown(&self) {
        self.closed.set(true);
        // ENOTCONN: the peer has reset it already; its polls have ended by that.
        rustix::net::shutdown(self.socket.get(), Shutdown::Both).unwrap_or(());
    }

    fn peer_addr(&self) -> SocketAddr {
        self.peer
    }

    fn local_addr(&self) -> SocketAddr {
        // A listener on the wildcard address does not know which address the peer came in by; ask only when asked.
        rustix::net::getsockname(self.socket.get())
            .ok()
            .and_then(|address| address.try_into().ok())
            .unwrap_or(self.listener)
    }
}

struct Received {
    bytes: usize,
    asked: usize,
}

/// One nonblocking read into the spare capacity of `buffer`.
fn recv_some(socket: &OwnedFd, buffer: &mut BytesMut) -> Result<Received, Errno> {
    let spare = buffer.spare_capacity_mut();
    let asked = spare.len().min(RECV_BYTES_MAX);
    let ((filled, _), _) = rustix::net::recv(socket, &mut spare[..asked], RecvFlags::DONTWAIT)?;
    let bytes = filled.len();
    let end = buffer.len() + bytes;
    assert!(end <= buffer.capacity());
    #[expect(
        unsafe_code,
        reason = "the read initialised bytes of the spare capacity"
    )]
    // SAFETY: `end` is within the capacity (asserted above), and the bytes from the old length to `end` were just
    // initialised: `recv` returned them as the initialised part of the slice that starts at the old length.
    unsafe {
        buffer.set_len(end);
    }
    Ok(Received { bytes, asked })
}

struct Sent {
    bytes: usize,
    asked: usize,
}

/// One nonblocking write of the start of `slices`, which is not empty.
fn send_some(socket: &OwnedFd, slices: &[Slice]) -> Result<Sent, Errno> {
    match &slices[0] {
        Slice::Bytes(only) if slices.len() == 1 => {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            let bytes = if only.is_empty() {
                0
            } else {
                rustix::net::send(socket, only, flags)?
            };
            Ok(Sent {
                bytes,
                asked: only.len(),
            })
        }
        Slice::Bytes(_) => send_vectored(socket, slices),
        Slice::File(range) => send_file(socket, range),
    }
}

fn send_vectored(socket: &OwnedFd, slices: &[Slice]) -> Result<Sent, Errno> {
    let mut vectors = [IoSlice::new(&[]); VECTORS_MAX];
    let mut count = 0;
    let mut asked = 0;
    for slice in slices.iter().take(VECTORS_MAX) {
        let Slice::Bytes(bytes) = slice else { break };
        vectors[count] = IoSlice::new(bytes);
        asked += bytes.len();
        count += 1;
    }
    if asked == 0 {
        return Ok(Sent { bytes: 0, asked });
    }
    let mut flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    if count < slices.len() {
        // The next call follows at once: let the kernel fill whole segments across it.
        flags |= SendFlags::MORE;
    }
    let mut control = SendAncillaryBuffer::default();
    let bytes = rustix::net::sendmsg(socket, &vectors[..count], &mut control, flags)?;
    Ok(Sent { bytes, asked })
}

fn send_file(socket: &OwnedFd, range: &FileRange) -> Result<Sent, Errno> {
    let asked = range.size_bytes.min(SENDFILE_BYTES_MAX);
    if asked == 0 {
        return Ok(Sent { bytes: 0, asked });
    }
    let mut position = range.position;
    let bytes = rustix::fs::sendfile(socket, &*range.file, Some(&mut position), asked)?;
    if bytes == 0 {
        // The file is shorter than the range promised; the frame's length is already on the wire.
        return Err(Errno::IO);
    }
    Ok(Sent { bytes, asked })
}

/// Cuts `bytes` off the front of `slices`; returns how many slices are done.
fn advance(slices: &mut [Slice], mut bytes: usize) -> usize {
    for (index, slice) in slices.iter_mut().enumerate() {
        let size_bytes = slice.size_bytes();
        if bytes < size_bytes {
            match slice {
                Slice::Bytes(memory) => memory.advance(bytes),
                Slice::File(range) => {
                    range.position += u64::try_from(bytes).expect("usize fits in 64 bits");
                    range.size_bytes -= bytes;
                }
            }
            return index;
        }
        bytes -= size_bytes;
    }
    assert!(bytes == 0, "the kernel takes no more than it was given");
    slices.len()
}
