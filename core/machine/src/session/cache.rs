//! A shard's sessions: which request belongs to which, and which one must go for another.
//!
//! A session may take the place of another when that has not been used for [`EVICTION_MS_MIN`], or when it is worth more: followers' come
//! before consumers', then many partitions before few; but none that is younger than [`EVICTION_MS_MIN`] goes, save a consumer's for a
//! follower's. As in Kafka, a session's rank is that of its last use.

use std::collections::BTreeSet;

use pelton_model::limits::FETCH_SESSION_ID_DRAWS_MAX;
use pelton_model::map::Map;
use pelton_model::{ErrorCode, Monotonic, ShardId};

use super::state::Session;
use super::{
    Begun, EVICTION_MS_MIN, FINAL_EPOCH, INITIAL_EPOCH, Request, Told, Turn, Wish, next_epoch,
};

/// The bounds of one shard's sessions.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Sessions.
    pub slots_max: usize,
    /// Partitions of all sessions, and long names.
    pub cost_max: usize,
    /// The shard that keeps them.
    pub shard: ShardId,
    /// How many shards there are.
    pub shard_count: u16,
}

/// Whose session it is.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// Whether a follower's.
    pub privileged: bool,
    /// Whether its requests name topics by id.
    pub uses_topic_ids: bool,
    /// Whether only the records of finished transactions are wanted.
    pub read_committed: bool,
}

/// What the answer to a request of a session is made from.
#[derive(Debug)]
pub enum Reply<'a> {
    /// The session.
    Session(&'a mut Session),
    /// The session is gone meanwhile: answer without one, and the client begins anew.
    Gone,
    /// Another request was served meanwhile: nothing but an error.
    Overtaken,
}

/// A session that ended: its interests are to be withdrawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed {
    /// Its id.
    pub id: i32,
    /// The numbers of partitions that may have interests are below.
    pub cells: u32,
    /// The request that waits for it, which is to be woken.
    pub waiter: Option<u64>,
}

/// A session's value among those that may be evicted: privileged or not, how many partitions, which.
type Rank = (bool, usize, i32);

/// See the module.
#[derive(Debug)]
pub struct Sessions {
    limits: Limits,
    sessions: Map<i32, Session>,
    last_used: BTreeSet<(Monotonic, i32)>,
    evictable_by_all: BTreeSet<Rank>,
    evictable_by_privileged: BTreeSet<Rank>,
    cost: usize,
    closed: Vec<Closed>,
}

impl Sessions {
    /// No sessions yet.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        assert!(limits.shard.0 < limits.shard_count);
        Self {
            limits,
            sessions: Map::default(),
            last_used: BTreeSet::new(),
            evictable_by_all: BTreeSet::new(),
            evictable_by_privileged: BTreeSet::new(),
            cost: 0,
            closed: Vec::new(),
        }
    }

    /// The number of sessions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// The number of their partitions, long names counted in.
    #[must_use]
    pub fn cost(&self) -> usize {
        self.cost
    }

    /// Decides how a request is served, and brings its session up to date.
    pub fn begin(&mut self, now: Monotonic, request: &Request<'_>) -> Begun {
        if request.epoch == INITIAL_EPOCH || request.epoch == FINAL_EPOCH {
            self.close(request.id);
            return if request.epoch == FINAL_EPOCH {
                Begun::Sessionless
            } else {
                Begun::Full
            };
        }
        let Some(session) = self.sessions.get_mut(&request.id) else {
            return Begun::Refused(ErrorCode::FetchSessionIdNotFound);
        };
        if session.epoch != request.epoch {
            return Begun::Refused(ErrorCode::InvalidFetchSessionEpoch);
        }
        if session.uses_topic_ids != request.uses_topic_ids {
            return Begun::Refused(ErrorCode::FetchSessionTopicIdError);
        }
        let cost = session.cost;
        session.update(request);
        self.cost = self.cost - cost + session.cost;
        if session.is_empty() {
            self.close(request.id);
            return Begun::Sessionless;
        }
        session.epoch = next_epoch(session.epoch);
        let epoch = session.epoch;
        if self.limits.cost_max < self.cost {
            self.close(request.id);
            return Begun::Refused(ErrorCode::FetchSessionIdNotFound);
        }
        self.touch(request.id, now);
        let id = request.id;
        Begun::Incremental(Turn { id, epoch })
    }

    /// The session of a request that was begun, now that it is answered.
    pub fn reply(&mut self, turn: Turn) -> Reply<'_> {
        match self.sessions.get_mut(&turn.id) {
            None => Reply::Gone,
            Some(session) if session.epoch != turn.epoch => Reply::Overtaken,
            Some(session) => Reply::Session(session),
        }
    }

    /// The session of a request that is under way; `None` when it is gone or another request was served meanwhile.
    pub fn session(&mut self, turn: Turn) -> Option<&mut Session> {
        self.sessions
            .get_mut(&turn.id)
            .filter(|session| session.epoch == turn.epoch)
    }

    /// Opens a session for what a full request named, with what its answer tells; `None` when there is no room. `draw` gives random bits.
    pub fn create(
        &mut self,
        now: Monotonic,
        origin: Origin,
        opened: &[(Wish, Told)],
        draw: impl FnMut() -> u32,
    ) -> Option<i32> {
        let mut session = Session::new(
            now,
            origin.privileged,
            origin.uses_topic_ids,
            origin.read_committed,
        );
        for (wish, told) in opened {
            let cell = session.want(wish);
            // Returned records do not move a partition yet: the order is the client's.
            let told = Told {
                size_bytes: 0,
                is_armed: false,
                ..*told
            };
            session.tell(cell, &told);
        }
        if self.limits.cost_max < session.cost || self.limits.slots_max == 0 {
            return None;
        }
        while self.limits.slots_max <= self.sessions.len()
            || self.limits.cost_max - session.cost < self.cost
        {
            if !self.evict((origin.privileged, session.len(), 0), now) {
                return None;
            }
        }
        let id = self.draw_id(draw)?;
        self.cost += session.cost;
        self.sessions.insert(id, session);
        self.touch(id, now);
        Some(id)
    }

    /// Ends a session; returns whether there was one.
    pub fn close(&mut self, id: i32) -> bool {
        let Some(session) = self.sessions.remove(&id) else {
            return false;
        };
        self.last_used.remove(&(session.last_used, id));
        let rank = (session.privileged, session.ranked_count, id);
        self.evictable_by_all.remove(&rank);
        self.evictable_by_privileged.remove(&rank);
        self.cost -= session.cost;
        self.closed.push(Closed {
            id,
            // Interests are armed by the reads of incremental requests only.
            cells: if session.epoch == next_epoch(INITIAL_EPOCH) {
                0
            } else {
                session.cell_count()
            },
            waiter: session.waiter(),
        });
        true
    }

    /// Takes the sessions that ended.
    pub fn take_closed(&mut self) -> Vec<Closed> {
        std::mem::take(&mut self.closed)
    }

    /// An interest of a session's partition fired: gives the waiting request to wake.
    pub fn fired(&mut self, id: i32, cell: u32) -> Option<u64> {
        self.sessions.get_mut(&id)?.fired(cell)
    }

    fn draw_id(&self, mut draw: impl FnMut() -> u32) -> Option<i32> {
        let count = u32::from(self.limits.shard_count);
        for _ in 0..FETCH_SESSION_ID_DRAWS_MAX {
            let bits = draw() >> 1;
            let id = bits - bits % count + u32::from(self.limits.shard.0);
            if let Ok(id) = i32::try_from(id)
                && id != 0
                && !self.sessions.contains_key(&id)
            {
                return Some(id);
            }
        }
        None
    }

    fn touch(&mut self, id: i32, now: Monotonic) {
        let session = self
            .sessions
            .get_mut(&id)
            .expect("the caller has just used it");
        self.last_used.remove(&(session.last_used, id));
        let before = (session.privileged, session.ranked_count, id);
        self.evictable_by_all.remove(&before);
        self.evictable_by_privileged.remove(&before);
        session.last_used = now;
        session.ranked_count = session.len();
        self.last_used.insert((now, id));
        let rank = (session.privileged, session.ranked_count, id);
        let is_old = is_past(session.created, now);
        if !session.privileged || is_old {
            self.evictable_by_privileged.insert(rank);
        }
        if is_old {
            self.evictable_by_all.insert(rank);
        }
    }

    fn evict(&mut self, rank: Rank, now: Monotonic) -> bool {
        let Some(&(used, unused)) = self.last_used.first() else {
            return false;
        };
        if is_past(used, now) {
            return self.close(unused);
        }
        let evictable = if rank.0 {
            &self.evictable_by_privileged
        } else {
            &self.evictable_by_all
        };
        match evictable.first() {
            Some(&least) if least <= rank => self.close(least.2),
            Some(_) | None => false,
        }
    }
}

fn is_past(instant: Monotonic, now: Monotonic) -> bool {
    instant.plus_ms(EVICTION_MS_MIN) < now
}
