//! Compaction of the shard's logs.

use std::cell::Cell;

use pelton_model::Offset;

use super::slot::Slot;
use crate::boot::Opening;
use crate::env::Env;

/// What compaction knows of one log.
#[derive(Debug, Default)]
pub(crate) struct CleanState {
    /// Everything below was cleaned; `None` before the first pass.
    pub(crate) to: Cell<Option<Offset>>,
}

impl<E: Env> Slot<E> {
    /// Goes on where an earlier process stopped cleaning this log.
    pub(crate) fn resume_cleaning(&self, opening: &Opening) {
        let known = opening.partition(&self.topic, self.id.partition.0);
        let same = |found| found == self.id.topic_id;
        let to = known
            .filter(|known| known.topic_id.is_none_or(same))
            .and_then(|known| known.cleaned_to);
        // A log that lost its end is cleaned from its start: what lies there may be other records.
        self.cleaned
            .to
            .set(to.filter(|to| *to <= self.log.log_end()));
    }
}
