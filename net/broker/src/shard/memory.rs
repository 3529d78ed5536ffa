//! The memory of requests and answers: this shard's budget, and the remainders of large frames, which one shard keeps for all.
//!
//! Invariants:
//! 1. Whatever a connection was granted is given back exactly once: with the answer of its request, when its answer has left, or
//!    when it ends. What is granted to one that has gone meanwhile is given back at once.
//! 2. A connection waits for one reservation at a time, so at most one message of it is under way to the keeper.

use std::cell::{Cell, RefCell};

use pelton_machine::budget::{Admission, Grant, HolderId, MemoryBudget, Pool, Reserved};
use pelton_model::ShardId;
use pelton_model::map::Map;

use super::message::Message;
use super::{CONTROLLER_SHARD, Shard};
use crate::env::Env;

/// What the load did to connections, counted from the start.
#[derive(Debug, Default)]
pub(crate) struct Pressure {
    /// Closed at once: their address had as many as it may have.
    pub(crate) refused_of_address: Cell<u64>,
    /// Closed at once: no descriptors.
    pub(crate) refused_for_descriptors: Cell<u64>,
    /// Held up: there are as many as there may be, or they come too fast.
    pub(crate) held_up: Cell<u64>,
    /// Closed: a frame did not arrive while others waited for its memory.
    pub(crate) stalled_frames: Cell<u64>,
    /// Closed: an answer was not read while others waited for its memory.
    pub(crate) stalled_answers: Cell<u64>,
    /// Closed: the limit was lowered, or nothing was heard for too long.
    pub(crate) idle_closed: Cell<u64>,
    /// Waits for memory.
    pub(crate) memory_waits: Cell<u64>,
}

/// Adds one.
pub(crate) fn count(counter: &Cell<u64>) {
    counter.set(counter.get() + 1);
}

/// A shard's part of the memory.
#[derive(Debug)]
pub(crate) struct Memory {
    budget: RefCell<MemoryBudget>,
    /// On the keeper: who of another shard waits for a remainder.
    waiting_peers: RefCell<Map<HolderId, ShardId>>,
    pub(crate) pressure: Pressure,
}

impl Memory {
    pub(crate) fn new(budget: MemoryBudget) -> Self {
        Self {
            budget: RefCell::new(budget),
            waiting_peers: RefCell::default(),
            pressure: Pressure::default(),
        }
    }

    /// Takes memory if it is there and nobody waits for it; only for what this shard keeps itself.
    pub(crate) fn try_reserve(&self, pool: Pool, bytes: usize) -> bool {
        self.budget.borrow_mut().try_reserve(pool, bytes)
    }

    /// Whether answers have all the memory they may have.
    pub(crate) fn are_answers_crowded(&self) -> bool {
        self.budget.borrow().is_full(Pool::Answers)
    }

    /// Whether somebody waits for memory of this kind.
    pub(crate) fn is_wanted(&self, pool: Pool) -> bool {
        self.budget.borrow().is_wanted(pool)
    }

    /// Bytes that are reserved.
    pub(crate) fn used_bytes(&self) -> usize {
        self.budget.borrow().used_bytes()
    }

    /// Connections that wait for memory.
    pub(crate) fn waiting_count(&self) -> usize {
        self.budget.borrow().waiting_count()
    }

    /// Counts an answer that is there.
    pub(crate) fn charge_answer(&self, bytes: usize) {
        self.budget.borrow_mut().charge_answer(bytes);
    }
}

impl<E: Env> Shard<E> {
    /// Reserves for a connection, which is woken when it is granted later.
    pub(crate) fn reserve(&self, holder: HolderId, pool: Pool, bytes: usize) -> Admission {
        let admission = if pool == Pool::Remainder && self.id != CONTROLLER_SHARD {
            let message = Message::ReserveRemainder { holder, bytes };
            self.calls.post(CONTROLLER_SHARD, message);
            Admission::Queued
        } else {
            self.memory.budget.borrow_mut().reserve(holder, pool, bytes)
        };
        if admission == Admission::Queued {
            count(&self.memory.pressure.memory_waits);
        }
        admission
    }

    /// Gives back what a request held.
    pub(crate) fn release(&self, mut reserved: Reserved) {
        if reserved.is_empty() {
            return;
        }
        if self.id != CONTROLLER_SHARD {
            self.release_from(Pool::Remainder, reserved.take(Pool::Remainder));
        }
        let mut granted = Vec::new();
        self.memory
            .budget
            .borrow_mut()
            .release(reserved, &mut granted);
        self.grant(&granted);
    }

    /// Gives back memory of one kind.
    pub(crate) fn release_from(&self, pool: Pool, bytes: usize) {
        if bytes == 0 {
            return;
        }
        if pool == Pool::Remainder && self.id != CONTROLLER_SHARD {
            let message = Message::ReleaseRemainder { bytes };
            self.calls.post(CONTROLLER_SHARD, message);
            return;
        }
        let mut granted = Vec::new();
        self.memory
            .budget
            .borrow_mut()
            .release_from(pool, bytes, &mut granted);
        self.grant(&granted);
    }

    /// A connection that waited is gone.
    pub(crate) fn withdraw(&self, holder: HolderId) {
        if self.id != CONTROLLER_SHARD {
            let message = Message::WithdrawRemainder { holder };
            self.calls.post(CONTROLLER_SHARD, message);
        }
        let mut granted = Vec::new();
        self.memory.budget.borrow_mut().cancel(holder, &mut granted);
        self.grant(&granted);
    }

    /// On the keeper: a connection of `peer` asks for a remainder.
    pub(crate) fn reserve_for_peer(&self, peer: ShardId, holder: HolderId, bytes: usize) {
        let pool = Pool::Remainder;
        let admission = self.memory.budget.borrow_mut().reserve(holder, pool, bytes);
        match admission {
            Admission::Granted => self
                .calls
                .post(peer, Message::RemainderGranted { holder, bytes }),
            Admission::Queued => {
                self.memory.waiting_peers.borrow_mut().insert(holder, peer);
            }
        }
    }

    /// On the keeper: a connection of another shard waits no more.
    pub(crate) fn withdraw_for_peer(&self, holder: HolderId) {
        self.memory.waiting_peers.borrow_mut().remove(&holder);
        let mut granted = Vec::new();
        self.memory.budget.borrow_mut().cancel(holder, &mut granted);
        self.grant(&granted);
    }

    /// The keeper has granted a remainder to a connection of this shard.
    pub(crate) fn remainder_granted(&self, holder: HolderId, bytes: usize) {
        let connections = self.connections.borrow();
        match connections.get(&holder) {
            Some(registered) if registered.is_waiting.get() => registered.grant(),
            Some(_) | None => {
                drop(connections);
                self.release_from(Pool::Remainder, bytes);
            }
        }
    }

    /// Tells connections that the memory they waited for is theirs.
    fn grant(&self, grants: &[Grant]) {
        for grant in grants {
            let peer = self.memory.waiting_peers.borrow_mut().remove(&grant.holder);
            if let Some(peer) = peer {
                let (holder, bytes) = (grant.holder, grant.bytes);
                self.calls
                    .post(peer, Message::RemainderGranted { holder, bytes });
            } else if let Some(registered) = self.connections.borrow().get(&grant.holder) {
                registered.grant();
            }
        }
    }
}
