//! Splits a stream into frames (a 4-byte length, then that many bytes) and governs the receive buffer.
//!
//! Invariants:
//! 1. The frames do not depend on how the bytes were cut on their way.
//! 2. The buffer never grows by a claimed length alone. A connection holds two reads of [`RECV_BYTES_MIN`] without asking,
//!    and up to [`RECV_BYTES_MAX`] once it fills its reads and the shard has room for that. A frame that is larger than its
//!    connection's reads reserves what it has up to [`FRAME_FREE_BYTES_MAX`]; then what it has up to
//!    [`FRAME_GROW_BYTES_MAX`], and the room at most doubles what has arrived (or is what an earlier frame of this
//!    connection proved); then the rest. The memory of a frame that had reserved more than the first part goes with it: it is
//!    never received into again.
//! 3. A reservation beyond the first part that receives less than [`RESERVATION_PROGRESS_BYTES_MIN`] in
//!    [`RESERVATION_STALL_MS_MAX`] closes its connection, so that a trickle cannot hold memory others wait for. A first part
//!    is small enough for slow but honest peers to need long for it: it counts only while others wait for such memory.
//! 4. After a refusal the stream is lost: close.
//!
//! Source: Kafka's `NetworkReceive`; DESIGN for the budget.

use bytes::{Buf, BytesMut};
use pelton_model::Monotonic;
use pelton_model::limits::{
    FRAME_BYTES_MIN, FRAME_FREE_BYTES_MAX, FRAME_GROW_BYTES_MAX, RECV_BYTES_MAX, RECV_BYTES_MIN,
    RESERVATION_PROGRESS_BYTES_MIN, RESERVATION_STALL_MS_MAX,
};

use super::budget::{Pool, Reserved};

const LENGTH_BYTES: usize = 4;
/// Reads in a row that fill less than a quarter of the room before the room is halved.
const QUIET_READS_MAX: u8 = 16;

const _: () = assert!(RECV_BYTES_MIN <= RECV_BYTES_MAX);
const _: () = assert!(FRAME_FREE_BYTES_MAX <= FRAME_GROW_BYTES_MAX);

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// A whole frame.
    Frame(Frame),
    /// Receive into the buffer, which has room, then call [`FrameReader::on_read`]. At the end of the stream the
    /// connection is over once its requests are answered; a part of a frame is dropped.
    Read,
    /// Reserve `bytes` from the shard's budget, call [`FrameReader::on_reserved`] when granted, then
    /// [`FrameReader::next`] again. Receive nothing meanwhile.
    Reserve {
        /// Where from.
        pool: Pool,
        /// How much.
        bytes: usize,
    },
}

/// One request, without its length prefix.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame {
    /// Header and body; shares the receive buffer's memory.
    pub bytes: BytesMut,
    /// What to release when it is answered.
    pub reserved: Reserved,
}

/// Why the connection must be closed without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameRefused {
    /// A negative length.
    Negative(i32),
    /// More than the limit; also what HTTP and TLS on this port look like.
    TooLarge(i32),
    /// Too short for a request header.
    TooShort(i32),
}

/// When a frame that does not arrive ends its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// When.
    pub deadline: Monotonic,
    /// Only if others wait for first parts of frames.
    pub only_if_wanted: bool,
}

/// What a read says about the room for the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// It stays as it is.
    Keep,
    /// So many bytes more would be filled: call [`FrameReader::on_room`] if the shard has them.
    Grow(usize),
    /// So many bytes are given back.
    GiveBack(usize),
}

/// The reading side of one connection.
#[derive(Debug)]
pub struct FrameReader {
    frame_bytes_max: usize,
    /// Room to offer to the next read.
    recv_bytes: usize,
    quiet_reads: u8,
    /// The size of the last whole frame: what the peer has proved to send.
    proved_bytes: usize,
    reserved: Reserved,
    /// The buffer's memory was paid for by the reservation of a frame that is gone.
    is_outgrown: bool,
    /// Bytes that have arrived since `window_start`.
    window_bytes: usize,
    window_start: Monotonic,
}

impl FrameReader {
    /// A connection that has received nothing yet. `frame_bytes_max` is `socket.request.max.bytes`.
    #[must_use]
    pub fn new(frame_bytes_max: u32) -> Self {
        Self {
            frame_bytes_max: usize::try_from(frame_bytes_max).unwrap_or(usize::MAX),
            recv_bytes: RECV_BYTES_MIN,
            quiet_reads: 0,
            proved_bytes: 0,
            reserved: Reserved::default(),
            is_outgrown: false,
            window_bytes: 0,
            window_start: Monotonic(0),
        }
    }

    /// Takes the next frame off the front of `buffer`, or says what is needed to get one.
    ///
    /// # Errors
    /// [`FrameRefused`]: close the connection once the requests before are answered.
    pub fn next(&mut self, buffer: &mut BytesMut) -> Result<Step, FrameRefused> {
        let Some(prefix) = buffer.first_chunk::<LENGTH_BYTES>() else {
            self.make_room(buffer, self.recv_bytes);
            return Ok(Step::Read);
        };
        let size = self.check_size(i32::from_be_bytes(*prefix))?;
        let arrived = buffer.len() - LENGTH_BYTES;
        if size <= arrived {
            buffer.advance(LENGTH_BYTES);
            self.proved_bytes = size;
            let reserved = std::mem::take(&mut self.reserved);
            self.is_outgrown |= FRAME_FREE_BYTES_MAX < reserved.frame_bytes();
            return Ok(Step::Frame(Frame {
                bytes: buffer.split_to(size),
                reserved,
            }));
        }
        if let Some(step) = self.reservation_due(size, arrived) {
            return Ok(step);
        }
        let room = self.room_for(size, arrived);
        self.make_room(buffer, room);
        Ok(Step::Read)
    }

    /// Takes note of a read of `bytes`, to offer more or less room to the next one.
    pub fn on_read(&mut self, bytes: usize, now: Monotonic) -> Room {
        if !self.reserved.is_empty() {
            self.window_bytes += bytes;
            if RESERVATION_PROGRESS_BYTES_MIN <= self.window_bytes {
                self.open_window(now);
            }
        }
        if self.recv_bytes <= bytes {
            self.quiet_reads = 0;
            let more = (self.recv_bytes * 2).min(RECV_BYTES_MAX) - self.recv_bytes;
            return if more == 0 {
                Room::Keep
            } else {
                Room::Grow(more)
            };
        }
        if self.recv_bytes / 4 <= bytes {
            self.quiet_reads = 0;
            return Room::Keep;
        }
        self.quiet_reads += 1;
        if self.quiet_reads < QUIET_READS_MAX {
            return Room::Keep;
        }
        self.quiet_reads = 0;
        let less = self.recv_bytes - (self.recv_bytes / 2).max(RECV_BYTES_MIN);
        self.recv_bytes -= less;
        if less == 0 {
            Room::Keep
        } else {
            Room::GiveBack(less)
        }
    }

    /// Takes note that the room asked for by [`Room::Grow`] is there.
    pub fn on_room(&mut self, bytes: usize) {
        self.recv_bytes += bytes;
        assert!(self.recv_bytes <= RECV_BYTES_MAX);
    }

    /// Gives the buffer's memory back when no frame has begun: the peer has been silent for a while. The next read begins
    /// small. Returns the room that is given back.
    pub fn on_silence(&mut self, buffer: &mut BytesMut) -> usize {
        if !buffer.is_empty() {
            return 0;
        }
        *buffer = BytesMut::new();
        self.quiet_reads = 0;
        self.is_outgrown = false;
        self.take_room()
    }

    /// What a connection that ends must give back of its room.
    pub fn take_room(&mut self) -> usize {
        let room = self.recv_bytes - RECV_BYTES_MIN;
        self.recv_bytes = RECV_BYTES_MIN;
        room
    }

    /// Takes note that the reservation asked for by [`Step::Reserve`] is granted.
    pub fn on_reserved(&mut self, pool: Pool, bytes: usize, now: Monotonic) {
        self.reserved.add(pool, bytes);
        self.open_window(now);
    }

    /// When to close the connection unless more bytes come, and whether only if others wait for first parts: `None` while
    /// nothing is reserved. It counts while receiving, not while a further reservation is queued.
    #[must_use]
    pub fn stall_deadline(&self) -> Option<Stall> {
        (!self.reserved.is_empty()).then(|| Stall {
            deadline: self.window_start.plus_ms(RESERVATION_STALL_MS_MAX),
            only_if_wanted: self.reserved.of(Pool::Growth) == 0,
        })
    }

    /// Whether no part of a frame has reserved anything.
    #[must_use]
    pub fn holds_nothing(&self) -> bool {
        self.reserved.is_empty()
    }

    /// What a connection that closes in the middle of a frame must release.
    pub fn take_reserved(&mut self) -> Reserved {
        std::mem::take(&mut self.reserved)
    }

    fn check_size(&self, claimed: i32) -> Result<usize, FrameRefused> {
        let Ok(size) = usize::try_from(claimed) else {
            return Err(FrameRefused::Negative(claimed));
        };
        if self.frame_bytes_max < size {
            return Err(FrameRefused::TooLarge(claimed));
        }
        if size < FRAME_BYTES_MIN {
            return Err(FrameRefused::TooShort(claimed));
        }
        Ok(size)
    }

    /// The reservation that a frame of `size` needs before it may receive beyond `arrived`.
    fn reservation_due(&self, size: usize, arrived: usize) -> Option<Step> {
        let held = |pool| self.reserved.of(pool);
        // Two of the smallest reads are free, so that an announcement with little behind it holds nothing.
        let free = self.recv_bytes.max(2 * RECV_BYTES_MIN);
        if free < size && free < arrived + RECV_BYTES_MIN && held(Pool::First) == 0 {
            return Some(Step::Reserve {
                pool: Pool::First,
                bytes: size.min(FRAME_FREE_BYTES_MAX) - RECV_BYTES_MIN,
            });
        }
        if FRAME_GROW_BYTES_MAX < size
            && FRAME_GROW_BYTES_MAX <= arrived
            && held(Pool::Remainder) == 0
        {
            return Some(Step::Reserve {
                pool: Pool::Remainder,
                bytes: size - FRAME_GROW_BYTES_MAX,
            });
        }
        if FRAME_FREE_BYTES_MAX < size
            && FRAME_FREE_BYTES_MAX < arrived + self.recv_bytes
            && held(Pool::Growth) == 0
        {
            let bytes = size.min(FRAME_GROW_BYTES_MAX) - FRAME_FREE_BYTES_MAX;
            return Some(Step::Reserve {
                pool: Pool::Growth,
                bytes,
            });
        }
        None
    }

    /// Room for the next read of an incomplete frame of `size`.
    fn room_for(&self, size: usize, arrived: usize) -> usize {
        if self.reserved.of(Pool::Remainder) > 0 {
            return size - arrived;
        }
        if self.reserved.of(Pool::Growth) > 0 {
            let missing = size.min(FRAME_GROW_BYTES_MAX).saturating_sub(arrived);
            return missing
                .min(arrived.max(self.proved_bytes))
                .max(self.recv_bytes);
        }
        self.recv_bytes
    }

    /// Offers at least half of `wanted` to the next read: a buffer that is nearly there is not worth another allocation.
    fn make_room(&mut self, buffer: &mut BytesMut, wanted: usize) {
        let is_short = buffer.capacity() - buffer.len() < wanted.div_ceil(2);
        // `reserve` would take back all of a large frame's memory as soon as the frame is dropped, and an idle
        // connection would then hold it for ever.
        if self.is_outgrown && (is_short || buffer.len() <= RECV_BYTES_MIN) {
            let mut fresh = BytesMut::with_capacity(buffer.len() + wanted);
            fresh.extend_from_slice(buffer);
            *buffer = fresh;
            self.is_outgrown = false;
        } else if is_short {
            buffer.reserve(wanted);
        }
    }

    fn open_window(&mut self, now: Monotonic) {
        self.window_start = now;
        self.window_bytes = 0;
    }
}
