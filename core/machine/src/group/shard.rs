//! [`GroupShard`]: the state of one partition of `__consumer_offsets`, and what may be done with it.

use pelton_model::config::group::GroupConfig;
use pelton_model::record_type::group::GroupRecord;
use pelton_model::{Monotonic, ProducerId, Str, Timestamp};

use super::{Command, Reply, Token};
use crate::image::MetadataImage;

/// Both clocks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// For deadlines.
    pub clock: Monotonic,
    /// For what is written.
    pub time: Timestamp,
}

/// What a coordinator wants done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// One batch, all or nothing; empty when nothing is to be written.
    pub records: Vec<GroupRecord>,
    /// Replies that may leave once `records` and those of all earlier decisions are durable.
    pub replies: Vec<(Token, Reply)>,
}

/// The groups and offsets of one partition of `__consumer_offsets`; see the module for how it is driven.
#[derive(Debug)]
pub struct GroupShard {
    config: GroupConfig,
}

impl GroupShard {
    /// A partition of which no record is known yet.
    #[must_use]
    pub fn new(config: GroupConfig) -> Self {
        Self { config }
    }

    /// Takes new settings; what is under way keeps the deadlines it has.
    pub fn configure(&mut self, config: GroupConfig) {
        self.config = config;
    }

    /// Applies a record of the log, in its order: while loading, before [`Self::loaded`].
    pub fn replay(&mut self, record: &GroupRecord) {
        let _ = record;
    }

    /// Applies a record of an open transaction: a committed offset that counts when the transaction does.
    pub fn replay_pending(&mut self, producer: ProducerId, record: &GroupRecord) {
        let _ = (producer, record);
    }

    /// Applies the end of a transaction.
    pub fn replay_end(&mut self, producer: ProducerId, committed: bool) {
        let _ = (producer, committed);
    }

    /// Ends loading: soft state begins, as if every member had just been heard of.
    pub fn loaded(&mut self, now: Now) {
        let _ = now;
    }

    /// Decides a request.
    #[must_use]
    pub fn decide(
        &mut self,
        now: Now,
        token: Token,
        command: Command,
        image: &MetadataImage,
    ) -> Decision {
        let _ = (now, image);
        Decision {
            records: Vec::new(),
            replies: vec![(
                token,
                command.refused(pelton_model::ErrorCode::CoordinatorNotAvailable),
            )],
        }
    }

    /// When [`Self::tick`] has something to do next.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Monotonic> {
        None
    }

    /// Does what is due by `now`, or a bounded part of it: then the next deadline is not later than `now`.
    #[must_use]
    pub fn tick(&mut self, now: Now, image: &MetadataImage) -> Decision {
        let _ = (now, image);
        Decision::default()
    }

    /// Forgets the offsets of topics that are deleted.
    #[must_use]
    pub fn topics_deleted(&mut self, topics: &[Str]) -> Decision {
        let _ = topics;
        Decision::default()
    }

    /// Gives the partition up: the replies for all that wait.
    #[must_use]
    pub fn resign(self) -> Vec<(Token, Reply)> {
        Vec::new()
    }
}
