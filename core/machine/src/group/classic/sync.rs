//! SyncGroup and Heartbeat: members of a generation get their assignment and stay.

use std::collections::BTreeMap;

use bytes::Bytes;
use pelton_model::limits::GROUP_BYTES_MAX;
use pelton_model::{ErrorCode, Str};

use super::{Classic, State};
use crate::group::scene::Scene;
use crate::group::{Heartbeat, SyncGroup, SyncGroupReply, Token};

impl Classic {
    /// Hands out an assignment, takes one from the leader, or lets the member wait for it.
    pub(in crate::group) fn sync(&mut self, scene: &mut Scene<'_>, token: Token, sync: SyncGroup) {
        if let Err(error) = self.check_sync(&sync) {
            return scene.reply_sync(token, SyncGroupReply::refused(error));
        }
        match self.state {
            State::Empty => {
                scene.reply_sync(token, SyncGroupReply::refused(ErrorCode::UnknownMemberId))
            }
            State::PreparingRebalance => {
                let error = ErrorCode::RebalanceInProgress;
                scene.reply_sync(token, SyncGroupReply::refused(error));
            }
            State::CompletingRebalance => {
                self.wait_for_assignment(scene, token, &sync.member_id);
                if self.is_leader(&sync.member_id) {
                    self.assign(scene, sync);
                }
            }
            State::Stable => {
                self.has_synced(scene, &sync.member_id);
                let assignment = self
                    .members
                    .get(&sync.member_id)
                    .map(super::Member::assignment);
                let reply = SyncGroupReply {
                    error: ErrorCode::None,
                    protocol_type: self.protocol_type.clone(),
                    protocol_name: self.protocol.clone(),
                    assignment: assignment.unwrap_or_default(),
                };
                scene.reply_sync(token, reply);
            }
        }
    }

    fn check_sync(&self, sync: &SyncGroup) -> Result<(), ErrorCode> {
        self.check_member(&sync.member_id, sync.group_instance_id.as_ref())?;
        if sync.generation_id != self.generation {
            return Err(ErrorCode::IllegalGeneration);
        }
        let differs = |said: &Option<Str>, ours: &Option<Str>| said.is_some() && said != ours;
        if differs(&sync.protocol_type, &self.protocol_type)
            || differs(&sync.protocol_name, &self.protocol)
        {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        Ok(())
    }

    fn wait_for_assignment(&mut self, scene: &mut Scene<'_>, token: Token, member_id: &Str) {
        self.has_synced(scene, member_id);
        let Some(member) = self.members.get_mut(member_id) else {
            return;
        };
        // Its earlier request is of a connection that is gone, or it would not ask again.
        if let Some(before) = member.sync.replace(token) {
            let error = ErrorCode::RebalanceInProgress;
            scene.reply_sync(before, SyncGroupReply::refused(error));
        }
    }

    fn has_synced(&mut self, scene: &mut Scene<'_>, member_id: &Str) {
        self.pending_sync.remove(member_id);
        if self.pending_sync.is_empty() {
            self.stop_waiting_for_syncs(scene.timers);
        }
    }

    /// Takes the leader's assignment: it is written, and members hear of it once it is durable.
    fn assign(&mut self, scene: &mut Scene<'_>, sync: SyncGroup) {
        let bytes: usize = sync
            .assignments
            .iter()
            .map(|(_, assignment)| assignment.len())
            .sum();
        if self.bytes.saturating_add(bytes) > GROUP_BYTES_MAX {
            // It cannot be written. Kafka, whose record would be too large, says the same and rebalances.
            self.finish_syncs(scene, ErrorCode::UnknownServerError);
            return self.prepare_rebalance(scene);
        }
        let mut assignments: BTreeMap<Str, Bytes> = sync.assignments.into_iter().collect();
        for (id, member) in &mut self.members {
            self.bytes -= member.assignment.len();
            member.assignment = assignments.remove(id).unwrap_or_default();
            self.bytes += member.assignment.len();
        }
        self.go(State::Stable, scene.now.time);
        scene.write(self.record());
        self.finish_syncs(scene, ErrorCode::None);
    }

    /// A member is alive; what it may do.
    pub(in crate::group) fn heartbeat(
        &mut self,
        scene: &mut Scene<'_>,
        heartbeat: &Heartbeat,
    ) -> ErrorCode {
        let member_id = &heartbeat.member_id;
        let checked = self.check_member(member_id, heartbeat.group_instance_id.as_ref());
        if let Err(error) = checked {
            return error;
        }
        if heartbeat.generation_id != self.generation {
            return ErrorCode::IllegalGeneration;
        }
        match self.state {
            State::Empty => ErrorCode::UnknownMemberId,
            State::PreparingRebalance => {
                self.extend_session(scene, member_id);
                ErrorCode::RebalanceInProgress
            }
            State::CompletingRebalance | State::Stable => {
                self.extend_session(scene, member_id);
                ErrorCode::None
            }
        }
    }
}
