//! The last slow requests of one shard, with their stages.

use std::collections::VecDeque;

use pelton_model::Monotonic;
use pelton_model::limits::SLOW_REQUESTS_MAX;
use pelton_protocol::codec::Str;

use super::stages::StageTimes;

/// A request that took `slow.request.threshold.ms` or longer.
#[derive(Clone, Debug)]
pub struct SlowRequest {
    /// The API's number.
    pub api: i16,
    /// Who asked.
    pub client_id: Option<Str>,
    /// The first topic, of those that append or read.
    pub topic: Option<Str>,
    /// The client's number of it.
    pub correlation_id: i32,
    /// Its size.
    pub bytes_in: u64,
    /// The answer's size.
    pub bytes_out: u64,
    /// When its answer had left.
    pub ended: Monotonic,
    /// Where the time went.
    pub stages: StageTimes,
}

/// A bounded list that forgets the oldest.
#[derive(Debug, Default)]
pub(crate) struct SlowRing {
    kept: VecDeque<SlowRequest>,
    count: u64,
}

impl SlowRing {
    pub(crate) fn push(&mut self, request: SlowRequest) {
        if self.kept.len() == SLOW_REQUESTS_MAX {
            self.kept.pop_front();
        }
        self.kept.push_back(request);
        self.count += 1;
    }

    /// How many there were in all.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Those that are kept, oldest first.
    pub(crate) fn report(&self) -> Vec<SlowRequest> {
        self.kept.iter().cloned().collect()
    }
}
