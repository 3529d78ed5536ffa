//! What a decision is made with and what it leaves behind.

use pelton_model::config::group::{ConsumerGroupTimes, GroupConfig};
use pelton_model::record_type::group::GroupRecord;
use pelton_model::record_type::metadata::RESOURCE_GROUP;
use pelton_model::{Monotonic, Str};

use super::timers::Timers;
use super::{Decision, JoinGroupReply, Now, Reply, SyncGroupReply, Token};
use crate::image::MetadataImage;

/// The clocks, the settings, the deadlines, and the decision under way.
#[derive(Debug)]
pub(super) struct Scene<'a> {
    /// The time.
    pub(super) now: Now,
    /// The settings.
    pub(super) config: &'a GroupConfig,
    /// The metadata; empty while loading.
    pub(super) image: &'a MetadataImage,
    /// All deadlines.
    pub(super) timers: &'a mut Timers,
    /// How many of the decision's records, from the first, are state already.
    pub(super) applied: usize,
    /// What is to be written and answered.
    pub(super) decision: Decision,
}

impl Scene<'_> {
    /// Writes a record.
    pub(super) fn write(&mut self, record: GroupRecord) {
        self.decision.records.push(record);
    }

    /// Writes a record that is state already. All of a decision's records are of one kind.
    pub(super) fn write_applied(&mut self, record: GroupRecord) {
        assert!(self.applied == self.decision.records.len());
        self.decision.records.push(record);
        self.applied += 1;
    }

    /// Answers a request.
    pub(super) fn reply(&mut self, token: Token, reply: Reply) {
        self.decision.replies.push((token, reply));
    }

    /// Answers a JoinGroup.
    pub(super) fn reply_join(&mut self, token: Token, reply: JoinGroupReply) {
        self.reply(token, Reply::JoinGroup(reply));
    }

    /// Refuses a JoinGroup.
    pub(super) fn refuse_join(
        &mut self,
        token: Token,
        error: pelton_model::ErrorCode,
        member_id: Str,
    ) {
        self.reply_join(token, JoinGroupReply::refused(error, member_id));
    }

    /// Answers a SyncGroup.
    pub(super) fn reply_sync(&mut self, token: Token, reply: SyncGroupReply) {
        self.reply(token, Reply::SyncGroup(reply));
    }

    /// What holds for a consumer group: the broker's settings, and the group's own configuration.
    pub(super) fn times(&self, group_id: &str) -> ConsumerGroupTimes {
        let own = self.image.configs(RESOURCE_GROUP, group_id);
        let consumer = &self.config.consumer;
        consumer.of_group(|name| own?.get(name).map(String::as_str))
    }

    /// The moment `ms` milliseconds from now; negative is now.
    pub(super) fn after_ms(&self, ms: i32) -> Monotonic {
        self.now.clock.plus_ms(u64::try_from(ms).unwrap_or(0))
    }
}
