//! The fetch sessions of this shard's connections, and the interests that other shards' sessions have in its partitions.
//!
//! Invariant: a session that ends is told to every shard that may hold an interest of it, so that none stays for ever.

use pelton_machine::session::{Closed, Limits, Sessions, owner_of};
use pelton_model::ShardId;
use pelton_model::limits::FETCH_SESSION_COST_MAX;
use pelton_transport::net::Net;

use super::Shard;
use super::message::{Message, Request};
use crate::env::Env;

/// The sessions of one shard; the slots are shared out evenly.
pub(crate) fn sessions(slots: u32, shard: ShardId, shard_count: u16) -> Sessions {
    let slots = slots.div_ceil(u32::from(shard_count));
    Sessions::new(Limits {
        slots_max: usize::try_from(slots).unwrap_or(usize::MAX),
        cost_max: FETCH_SESSION_COST_MAX,
        shard,
        shard_count,
    })
}

impl<E: Env> Shard<E> {
    /// Partitions of own sessions changed.
    pub(crate) fn sessions_fired(&self, fired: &[(i32, u32)]) {
        for &(session, cell) in fired {
            self.session_fired(session, cell);
        }
    }

    /// A partition of an own session changed: wakes the fetch that waits for it, if one does.
    pub(crate) fn session_fired(&self, session: i32, cell: u32) {
        let waiter = self.sessions.borrow_mut().fired(session, cell);
        if let Some(waiter) = waiter {
            self.wake_fetches(&[waiter]);
        }
    }

    /// Ends a session that this shard keeps.
    pub(crate) fn close_session(&self, id: i32) {
        self.sessions.borrow_mut().close(id);
        self.withdraw_closed();
    }

    /// Ends a session that another shard keeps, if this is one's id.
    pub(crate) async fn close_foreign_session(&self, id: i32) {
        let owner = owner_of(id, self.shard_count).filter(|owner| *owner != self.id);
        if let Some(owner) = owner {
            // Nobody needs the answer, which brings the credit back.
            let _closing = self.calls.start(owner, Request::CloseSession(id)).await;
        }
    }

    /// Withdraws the interests of sessions that ended, and wakes whoever waits for them.
    pub(crate) fn withdraw_closed(&self) {
        let closed = self.sessions.borrow_mut().take_closed();
        for closed in closed {
            if let Some(waiter) = closed.waiter {
                self.wake_fetches(&[waiter]);
            }
            if closed.cells == 0 {
                continue;
            }
            for shard in self.shards() {
                if shard == self.id {
                    self.withdraw_interests(shard, closed);
                } else {
                    self.calls.post(shard, Message::SessionClosed(closed));
                }
            }
        }
    }

    /// A session of `peer` ended.
    pub(crate) fn withdraw_interests(&self, peer: ShardId, closed: Closed) {
        self.standing
            .borrow_mut()
            .close(peer, closed.id, closed.cells);
    }

    /// Random bits for a session's id.
    pub(crate) fn session_bits(&self) -> u32 {
        let mut bytes = [0; 4];
        self.net.random(&mut bytes);
        u32::from_le_bytes(bytes)
    }
}
