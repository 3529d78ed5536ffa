//! Connections that move to the shard whose partitions they use.
//!
//! Invariants:
//! 1. A connection moves between requests: nothing of it is under way, no memory is reserved, nobody waits for it.
//! 2. Its socket, the bytes it has sent, its place among the connections of the process and what is known of its traffic move in one
//!    message; from then on the old shard knows nothing of it.
//! 3. A shard that is busy takes connections only from busier ones, so that a popular partition does not draw all work to one core.
//!
//! Which connections are to move is the machine's decision ([`pelton_machine::connection::Traffic`]).

use std::cell::Cell;
use std::rc::Rc;

use bytes::BytesMut;
use pelton_machine::budget::HolderId;
use pelton_machine::connection::Traffic;
use pelton_model::ShardId;
use pelton_model::limits::{MOVE_BUSY_PERCENT_MAX, MOVES_PER_SECOND_MAX};
use pelton_transport::net::{Detached, Net};

use super::Shard;
use super::gate::Permit;
use super::message::{Message, Request, Response};
use crate::connection;
use crate::env::Env;

/// A connection on its way.
#[derive(Debug)]
pub struct Adoption {
    pub(crate) socket: Detached,
    /// What it has sent of its next request.
    pub(crate) unread: BytesMut,
    pub(crate) listener_index: usize,
    pub(crate) id: HolderId,
    pub(crate) permit: Permit,
    pub(crate) traffic: Traffic,
}

/// What a shard knows of moves.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    /// Handed away since the last second began.
    recent: Cell<u32>,
    /// Handed away and taken in, from the start.
    pub(crate) left: Cell<u64>,
    pub(crate) come: Cell<u64>,
    /// How much of its time the shard is busy.
    busy_percent: Cell<u8>,
    busy_ns: Cell<u64>,
    looked_at_ns: Cell<u64>,
}

impl<E: Env> Shard<E> {
    /// Whether one more connection may be handed away in this second.
    pub(crate) fn may_hand_away(&self) -> bool {
        self.moves.recent.get() < MOVES_PER_SECOND_MAX && !self.is_stopping.get()
    }

    /// Asks `shard` whether it takes one more connection of this one.
    pub(crate) async fn is_taken_by(&self, shard: ShardId) -> bool {
        self.moves.recent.set(self.moves.recent.get() + 1);
        let busy_percent = self.moves.busy_percent.get();
        let request = Request::TakesMore { busy_percent };
        matches!(
            self.calls.call(shard, request).await,
            Response::TakesMore(true)
        )
    }

    /// Whether this shard takes a connection of one that is so busy.
    pub(crate) fn takes_more(&self, busy_percent: u8) -> bool {
        let own = self.moves.busy_percent.get();
        !self.is_stopping.get() && (own < MOVE_BUSY_PERCENT_MAX || own < busy_percent)
    }

    /// Hands a connection away.
    pub(crate) fn hand_away(&self, to: ShardId, adoption: Adoption) {
        self.moves.left.set(self.moves.left.get() + 1);
        self.calls.post(to, Message::Adopt(Box::new(adoption)));
    }

    /// Takes a connection in.
    pub(crate) fn adopt(self: &Rc<Self>, mut adoption: Adoption) {
        if self.is_stopping.get() {
            return;
        }
        match self.net.attach(adoption.socket) {
            Ok(socket) => {
                self.moves.come.set(self.moves.come.get() + 1);
                adoption.traffic.rest(self.net.now());
                let arrived = connection::Arrived {
                    id: adoption.id,
                    permit: adoption.permit,
                    listener_index: adoption.listener_index,
                    unread: adoption.unread,
                    traffic: adoption.traffic,
                };
                connection::start(self, socket, arrived);
            }
            Err(error) => tracing::debug!(%error, "cannot take a connection in"),
        }
    }

    /// Looks, once a second, how busy the shard was.
    pub(crate) fn look_at_load(&self) {
        let moves = &self.moves;
        moves.recent.set(0);
        let load = self.net.load();
        let (busy_ns, now_ns) = (load.busy_ns.unwrap_or(load.cpu_ns), self.net.now().0);
        let busy = busy_ns.saturating_sub(moves.busy_ns.replace(busy_ns));
        let passed = now_ns.saturating_sub(moves.looked_at_ns.replace(now_ns));
        let percent = busy.saturating_mul(100) / passed.max(1);
        moves
            .busy_percent
            .set(u8::try_from(percent.min(100)).unwrap_or(100));
    }
}
