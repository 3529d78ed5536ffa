//! A client's connection: requests out, answers in, in the order of the requests.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use bytes::{Buf, Bytes, BytesMut};
use pelton_protocol::api;
use pelton_protocol::codec::{Message, Reader, Str};
use pelton_protocol::header::{ResponseHeader, request_frame};
use pelton_transport::net::{Connection, Net};

use super::broker::address;
use super::net::{Network, SimConnection};
use super::world::{Owner, World};

/// The connection is gone, or an answer did not come in time: what was asked may or may not have happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Nobody listens.
    Refused,
    /// The other side closed in order.
    Closed,
    /// The connection broke.
    Broken,
    /// No answer.
    TimedOut,
}

/// See the module.
pub struct Link {
    world: World,
    connection: SimConnection,
    buffer: BytesMut,
    next_id: i32,
    expected: VecDeque<i32>,
    name: Str,
}

impl Link {
    /// Connects.
    ///
    /// # Errors
    /// `Refused` when nobody listens.
    pub async fn open(world: &World, network: &Network, name: &str) -> Result<Self, Lost> {
        let net = network.for_owner(Owner::Clients);
        let connection = net.connect(address()).await.map_err(|_| Lost::Refused)?;
        Ok(Self {
            world: world.clone(),
            connection,
            buffer: BytesMut::new(),
            next_id: 1,
            expected: VecDeque::new(),
            name: Str::from(name),
        })
    }

    /// Sends a request; `is_answered` says whether an answer will come.
    ///
    /// # Errors
    /// When the connection is gone.
    pub async fn post<M: Message>(
        &mut self,
        version: i16,
        request: &M,
        is_answered: bool,
    ) -> Result<(), Lost> {
        let id = self.next_id;
        self.next_id += 1;
        if is_answered {
            self.expected.push_back(id);
        }
        let frame = request_frame(id, Some(&self.name), version, request).into_bytes();
        self.send(frame).await
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// When the connection is gone.
    pub async fn send(&mut self, bytes: Bytes) -> Result<(), Lost> {
        let mut slices = vec![pelton_model::slice::Slice::Bytes(bytes)];
        let sending = self.connection.send(&mut slices);
        let sent = within(&self.world, 60_000, sending).await.ok_or(Lost::TimedOut)?;
        sent.map_err(|_| Lost::Broken)
    }

    /// The answer to the oldest request that is not answered yet.
    ///
    /// # Errors
    /// When the connection is gone, or nothing came within `patience_ms`.
    ///
    /// # Panics
    /// When it answers another request, or is no answer at all.
    pub async fn take<M: Message>(&mut self, version: i16, patience_ms: u64) -> Result<M, Lost> {
        let frame = self.frame(patience_ms).await?;
        let row = api::row(M::KEY).expect("a row");
        let mut reader = Reader::shared(&frame);
        let header = ResponseHeader::decode(&mut reader, row, version).expect("a header");
        let expected = self.expected.pop_front();
        assert_eq!(
            expected,
            Some(header.correlation_id),
            "{}: answers are not in the order of the requests",
            self.name
        );
        let message = M::decode(&mut reader, version);
        Ok(message.unwrap_or_else(|error| panic!("{}: {error}: {frame:?}", M::NAME)))
    }

    /// Asks and waits for the answer.
    ///
    /// # Errors
    /// As [`Link::post`] and [`Link::take`].
    pub async fn call<Q: Message, S: Message>(
        &mut self,
        version: i16,
        request: &Q,
        patience_ms: u64,
    ) -> Result<S, Lost> {
        self.post(version, request, true).await?;
        self.take(version, patience_ms).await
    }

    /// Waits for the other side to close; true when it did within the time.
    pub async fn closes_within(&mut self, patience_ms: u64) -> bool {
        match self.frame(patience_ms).await {
            Ok(frame) => panic!("{}: bytes that nobody asked for: {frame:?}", self.name),
            Err(lost) => lost != Lost::TimedOut,
        }
    }

    async fn frame(&mut self, patience_ms: u64) -> Result<Bytes, Lost> {
        let deadline = self.world.now() + patience_ms * 1_000_000;
        loop {
            if let Some(prefix) = self.buffer.first_chunk::<4>() {
                let size = usize::try_from(i32::from_be_bytes(*prefix)).expect("a frame's length");
                if size <= self.buffer.len() - 4 {
                    self.buffer.advance(4);
                    return Ok(self.buffer.split_to(size).freeze());
                }
            }
            self.buffer.reserve(64 * 1024);
            let left_ms = deadline.saturating_sub(self.world.now()) / 1_000_000;
            let receiving = self.connection.recv(&mut self.buffer);
            match within(&self.world, left_ms, receiving).await {
                None => return Err(Lost::TimedOut),
                Some(Ok(0)) => return Err(Lost::Closed),
                Some(Ok(_)) => {}
                Some(Err(_)) => return Err(Lost::Broken),
            }
        }
    }
}

/// The output of `future`, or `None` when `ms` have passed before.
pub async fn within<F: Future>(world: &World, ms: u64, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut timer = pin!(world.sleep(ms * 1_000_000));
    poll_fn(|context| {
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(Some(output));
        }
        timer.as_mut().poll(context).map(|()| None)
    })
    .await
}
