//! A raw TCP client: sends any bytes, and says whether an answer, silence or the end of the connection followed.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::wire;

/// How long an answer may take before it counts as silence.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// The correlation id of a probe.
pub const PROBE_CORRELATION: i32 = 9;

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A whole frame, without its length.
    Frame(Vec<u8>),
    /// The peer closed or reset the connection.
    Closed,
    /// Nothing (or only part of a frame) came in time.
    Silence,
}

impl Reply {
    /// The frame's correlation id, if a frame came.
    #[must_use]
    pub fn correlation(&self) -> Option<i32> {
        match self {
            Self::Frame(bytes) => Some(i32::from_be_bytes(bytes.get(..4)?.try_into().ok()?)),
            Self::Closed | Self::Silence => None,
        }
    }
}

/// One connection.
#[derive(Debug)]
pub struct Raw {
    stream: TcpStream,
}

impl Raw {
    /// Connects.
    ///
    /// # Panics
    /// When nothing listens there.
    #[must_use]
    pub fn connect(address: SocketAddr) -> Self {
        Self::try_connect(address)
            .unwrap_or_else(|error| panic!("cannot connect to {address}: {error}"))
    }

    /// Connects.
    ///
    /// # Errors
    /// When nothing listens there.
    pub fn try_connect(address: SocketAddr) -> std::io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { stream })
    }

    /// Sends bytes; false when the peer has closed or does not read.
    pub fn send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// Pushes `count` blocks of zeros of `size` bytes as long as the peer takes them, without waiting for it.
    pub fn push(&self, size: usize, count: usize) {
        let block = vec![0; size];
        for _ in 0..count {
            let flags = rustix::net::SendFlags::DONTWAIT | rustix::net::SendFlags::NOSIGNAL;
            // A full socket or a closed one ends the pushing; both are the peer's right.
            if rustix::net::send(&self.stream, &block, flags).is_err() {
                break;
            }
        }
    }

    /// Hands over as many bytes as the socket takes at once; `None` when the connection is gone.
    #[must_use]
    pub fn push_bytes(&self, bytes: &[u8]) -> Option<usize> {
        let flags = rustix::net::SendFlags::DONTWAIT | rustix::net::SendFlags::NOSIGNAL;
        match rustix::net::send(&self.stream, bytes, flags) {
            Ok(sent) => Some(sent),
            Err(rustix::io::Errno::AGAIN) => Some(0),
            Err(_) => None,
        }
    }

    /// Whether something can be read, if only the end of the connection.
    #[must_use]
    pub fn has_arrived(&self) -> bool {
        let flags = rustix::net::RecvFlags::DONTWAIT | rustix::net::RecvFlags::PEEK;
        let mut byte = [0_u8; 1];
        let peeked = rustix::net::recv(&self.stream, &mut byte[..], flags);
        !matches!(peeked, Err(rustix::io::Errno::AGAIN))
    }

    /// Sends bytes in pieces of `size`, each in a segment of its own.
    pub fn send_in_pieces(&mut self, bytes: &[u8], size: usize) -> bool {
        bytes.chunks(size).all(|piece| {
            std::thread::sleep(Duration::from_millis(1));
            self.send(piece)
        })
    }

    /// Reads one frame.
    pub fn receive(&mut self, patience: Duration) -> Reply {
        let deadline = Instant::now() + patience;
        let mut size = [0; 4];
        match self.fill(&mut size, deadline) {
            Reply::Frame(_) => {}
            other => return other,
        }
        let mut payload = vec![0; u32::from_be_bytes(size) as usize];
        match self.fill(&mut payload, deadline) {
            Reply::Frame(_) => Reply::Frame(payload),
            other => other,
        }
    }

    /// Sends a request and reads its answer.
    pub fn ask(&mut self, frame: &[u8]) -> Reply {
        if self.send(frame) { self.receive(PATIENCE) } else { Reply::Closed }
    }

    /// Whether the connection still answers.
    pub fn is_alive(&mut self) -> bool {
        self.ask(&probe()).correlation() == Some(PROBE_CORRELATION)
    }

    /// Ends our sending half.
    pub fn half_close(&self) {
        // An error means that the peer was faster; what follows on the socket shows it.
        drop(self.stream.shutdown(std::net::Shutdown::Write));
    }

    /// Makes the coming drop a reset instead of an orderly close.
    pub fn reset_on_drop(&self) {
        rustix::net::sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO))
            .expect("SO_LINGER can be set on a TCP socket");
    }

    fn fill(&mut self, buffer: &mut [u8], deadline: Instant) -> Reply {
        let mut filled = 0;
        while filled < buffer.len() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Reply::Silence;
            }
            self.stream.set_read_timeout(Some(left)).expect("the timeout is not zero");
            match self.stream.read(&mut buffer[filled..]) {
                Ok(0) => return Reply::Closed,
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    return Reply::Silence;
                }
                Err(_) => return Reply::Closed,
            }
        }
        Reply::Frame(Vec::new())
    }
}

/// The cheapest request there is, with a correlation id of its own: ApiVersions v0.
#[must_use]
pub fn probe() -> Vec<u8> {
    let body = wire::Body::new(false).i16(18).i16(0).i32(PROBE_CORRELATION).i16(-1);
    wire::frame(&body.into_bytes())
}
