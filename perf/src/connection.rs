//! A non-blocking connection with a buffer on either side.
//!
//! Invariants:
//! 1. Registered edge-triggered: reading goes on until the kernel has no more, which a read that comes back short tells
//!    without another call; writing goes on until everything is gone or the socket is full.
//! 2. A frame is at most [`FRAME_BYTES_MAX`]; the input buffer grows to the frame it holds.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::time::Duration;

use rustix::net::sockopt::set_socket_recv_buffer_size;

use crate::error::{PerfError, io_error};
use crate::frame::FRAME_BYTES_MAX;

/// What the kernel is asked for; it may grant less.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;
const CONNECT: Duration = Duration::from_secs(30);
/// Room that a read is offered, at least.
const READ_BYTES_MIN: usize = 64 << 10;

/// What a read found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filled {
    /// Nothing, or all there was.
    Drained,
    /// Perhaps not all there is.
    More,
    /// The end, or a broken connection.
    Closed,
}

/// A connection to a broker.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    input: Vec<u8>,
    /// What was read and not taken is `input[taken..filled]`.
    taken: usize,
    filled: usize,
    output: Vec<u8>,
    sent: usize,
}

/// A blocking connection, as it is before the load begins.
pub(crate) fn dial(address: SocketAddr) -> Result<TcpStream, PerfError> {
    let failed = || io_error("connecting to", address.to_string());
    let stream = TcpStream::connect_timeout(&address, CONNECT).map_err(failed())?;
    stream.set_nodelay(true).map_err(failed())?;
    Ok(stream)
}

impl Connection {
    /// Connects; `answer_bytes` is what one answer takes, about.
    pub(crate) fn open(address: SocketAddr, answer_bytes: usize) -> Result<Self, PerfError> {
        let stream = dial(address)?;
        let what = "preparing the connection to";
        set_socket_recv_buffer_size(&stream, RECEIVE_BUFFER_BYTES)
            .map_err(io_error(what, address.to_string()))?;
        let room = answer_bytes.saturating_add(READ_BYTES_MIN).min(FRAME_BYTES_MAX);
        Self::adopt(stream, room).map_err(io_error(what, address.to_string()))
    }

    /// Takes over a socket, with room for so many bytes of input.
    pub(crate) fn adopt(stream: TcpStream, room: usize) -> std::io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let input = vec![0; room];
        Ok(Self { stream, input, taken: 0, filled: 0, output: Vec::new(), sent: 0 })
    }

    /// The socket.
    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Reads once.
    pub(crate) fn fill(&mut self) -> Filled {
        self.make_room();
        let room = self.input.len() - self.filled;
        match self.stream.read(&mut self.input[self.filled..]) {
            Ok(0) => Filled::Closed,
            Ok(count) => {
                self.filled += count;
                if count < room { Filled::Drained } else { Filled::More }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Filled::Drained,
            Err(error) if error.kind() == ErrorKind::Interrupted => Filled::More,
            Err(_) => Filled::Closed,
        }
    }

    /// Where the next whole frame is in [`Connection::input`], without its length.
    pub(crate) fn frame(&mut self) -> Result<Option<Range<usize>>, PerfError> {
        let rest = &self.input[self.taken..self.filled];
        let Some(length) = rest.first_chunk::<4>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*length) as usize;
        if FRAME_BYTES_MAX < length {
            return Err(PerfError::Answer { request: "a request", what: "it is too large" });
        }
        let start = self.taken + 4;
        if self.filled - start < length {
            return Ok(None);
        }
        self.taken = start + length;
        Ok(Some(start..start + length))
    }

    /// What was read.
    pub(crate) fn input(&self) -> &[u8] {
        &self.input
    }

    /// What was read, to be changed in place.
    pub(crate) fn input_mut(&mut self) -> &mut [u8] {
        &mut self.input
    }

    /// Puts a request behind those that wait to be sent.
    pub(crate) fn queue(&mut self, request: &[u8]) {
        if self.sent == self.output.len() {
            self.output.clear();
            self.sent = 0;
        }
        self.output.extend_from_slice(request);
    }

    /// Sends what waits, as far as the socket takes it; false when the connection is broken.
    pub(crate) fn flush(&mut self) -> bool {
        while self.sent < self.output.len() {
            match self.stream.write(&self.output[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// Whether the socket was full at the last flush.
    pub(crate) fn is_blocked(&self) -> bool {
        self.sent < self.output.len()
    }

    /// Moves what is left to the front and grows the buffer to the frame that is under way.
    fn make_room(&mut self) {
        if self.taken == self.filled {
            (self.taken, self.filled) = (0, 0);
            return;
        }
        let claimed = self.input[self.taken..self.filled]
            .first_chunk::<4>()
            .map_or(4, |length| u32::from_be_bytes(*length) as usize + 4);
        let wanted = claimed.min(FRAME_BYTES_MAX) + READ_BYTES_MIN;
        if self.input.len() - self.taken < wanted {
            self.input.copy_within(self.taken..self.filled, 0);
            self.filled -= self.taken;
            self.taken = 0;
        }
        if self.input.len() < wanted {
            self.input.resize(wanted, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Goal: frames come out whole however they come in, and large ones find room. Method: frames written in pieces of odd
    /// sizes by a peer of our own.
    #[test]
    fn frames() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut connection =
            Connection::open(listener.local_addr().expect("an address"), 10).expect("it listens");
        let (mut peer, _) = listener.accept().expect("a connection");
        let sizes = [0_usize, 1, 70_000, 5, 300_000, 3];
        let mut bytes = Vec::new();
        for (index, &size) in sizes.iter().enumerate() {
            bytes.extend_from_slice(&u32::try_from(size).expect("small").to_be_bytes());
            bytes.extend(std::iter::repeat_n(index as u8, size));
        }
        let writer = std::thread::spawn(move || {
            for piece in bytes.chunks(7_777) {
                peer.write_all(piece).expect("the reader reads");
            }
            peer
        });
        let mut found = Vec::new();
        while found.len() < sizes.len() {
            assert_ne!(connection.fill(), Filled::Closed);
            while let Some(range) = connection.frame().expect("frames") {
                let frame = &connection.input()[range];
                assert!(frame.iter().all(|&byte| usize::from(byte) == found.len()));
                found.push(frame.len());
            }
        }
        assert_eq!(found, sizes);
        drop(writer.join().expect("the writer wrote"));
        while connection.fill() != Filled::Closed {}
    }
}
