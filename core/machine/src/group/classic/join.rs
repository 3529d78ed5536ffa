//! JoinGroup: members come.

use pelton_model::limits::{
    GROUP_BYTES_MAX, GROUP_MEMBER_BYTES_MAX, GROUP_NEW_MEMBER_JOIN_TIMEOUT_MS, GROUP_PENDING_MAX,
};
use pelton_model::{ErrorCode, Str};

use super::{Classic, Member, State, protocols_bytes, session_due, size_max};
use crate::group::scene::Scene;
use crate::group::timers::Session;
use crate::group::{Client, JoinGroup, SyncGroupReply, Token};

impl Classic {
    /// Lets a member join, or sends it back.
    pub(in crate::group) fn join(
        &mut self,
        scene: &mut Scene<'_>,
        token: Token,
        mut join: JoinGroup,
    ) {
        join.protocols = distinct(join.protocols);
        if !self.accepts(scene, &join.member_id) {
            let member_id = join.member_id.clone();
            self.remove(scene, &member_id);
            scene.refuse_join(token, ErrorCode::GroupMaxSizeReached, Str::default());
            // It may be the last that was awaited.
            return self.complete_if_all_joined(scene);
        }
        if !self.supports(&join.protocol_type, &join.protocols) {
            let error = ErrorCode::InconsistentGroupProtocol;
            return scene.refuse_join(token, error, join.member_id);
        }
        if !self.has_room_for(&join) {
            return scene.refuse_join(token, ErrorCode::GroupMaxSizeReached, Str::default());
        }
        if join.member_id.is_empty() {
            self.join_without_id(scene, token, join);
        } else {
            self.join_with_id(scene, token, join);
        }
    }

    /// Whether the group takes one more member, or this one again.
    fn accepts(&self, scene: &Scene<'_>, member_id: &Str) -> bool {
        let member = self.members.get(member_id);
        match self.state {
            State::Empty => true,
            // Those that wait count, not those of the last generation: a group that has become too large shrinks to
            // those that rejoin first.
            State::PreparingRebalance => {
                member.is_some_and(|member| member.join.is_some())
                    || self.awaiting_join < size_max(scene)
            }
            State::CompletingRebalance | State::Stable => {
                member.is_some() || self.members.len() < size_max(scene)
            }
        }
    }

    /// Whether what the member brings fits in memory and in one record.
    fn has_room_for(&self, join: &JoinGroup) -> bool {
        let bytes = protocols_bytes(&join.protocols);
        let before = self
            .members
            .get(&join.member_id)
            .map_or(0, Member::size_bytes);
        bytes <= GROUP_MEMBER_BYTES_MAX && self.bytes - before + bytes <= GROUP_BYTES_MAX
    }

    fn join_without_id(&mut self, scene: &mut Scene<'_>, token: Token, join: JoinGroup) {
        let name = join.group_instance_id.as_ref().unwrap_or(&join.client.id);
        let member_id = new_member_id(name, join.random);
        if let Some(instance_id) = join.group_instance_id.clone() {
            if let Some(before) = self.static_members.get(&instance_id).cloned() {
                return self.replace_static(scene, token, join, &before, member_id);
            }
            return self.add(scene, token, join, member_id);
        }
        if !join.requires_member_id {
            return self.add(scene, token, join, member_id);
        }
        if self.pending.len() >= GROUP_PENDING_MAX {
            return scene.refuse_join(token, ErrorCode::GroupMaxSizeReached, Str::default());
        }
        let mut session = Session::default();
        let deadline = scene.after_ms(join.session_timeout_ms);
        session.extend(scene.timers, deadline, || {
            session_due(&self.group_id, &member_id)
        });
        self.pending.insert(member_id.clone(), session);
        scene.refuse_join(token, ErrorCode::MemberIdRequired, member_id);
    }

    fn join_with_id(&mut self, scene: &mut Scene<'_>, token: Token, join: JoinGroup) {
        let member_id = join.member_id.clone();
        if self.pending.contains_key(&member_id) {
            // Only dynamic members are sent back for an id.
            if join.group_instance_id.is_some() {
                return scene.refuse_join(token, ErrorCode::UnknownMemberId, member_id);
            }
            return self.add(scene, token, join, member_id);
        }
        let known = self.check_member(&member_id, join.group_instance_id.as_ref());
        if let Err(error) = known {
            return scene.refuse_join(token, error, member_id);
        }
        let same = self
            .members
            .get(&member_id)
            .is_some_and(|member| member.protocols == join.protocols);
        match self.state {
            State::PreparingRebalance => self.update_then_rebalance(scene, token, join),
            // The answer to its first JoinGroup may have been lost: the generation is told again.
            State::CompletingRebalance if same => {
                let reply = self.joined(&member_id, self.is_leader(&member_id));
                scene.reply_join(token, reply);
            }
            State::CompletingRebalance => self.update_then_rebalance(scene, token, join),
            // A leader that rejoins wants a rebalance, for topics that changed, say; a follower only with another
            // subscription.
            State::Stable if same && !self.is_leader(&member_id) => {
                let reply = self.joined(&member_id, false);
                scene.reply_join(token, reply);
            }
            State::Stable => self.update_then_rebalance(scene, token, join),
            State::Empty => scene.refuse_join(token, ErrorCode::UnknownMemberId, member_id),
        }
    }

    /// Adds a member and waits for the others.
    fn add(&mut self, scene: &mut Scene<'_>, token: Token, join: JoinGroup, member_id: Str) {
        if self.state == State::PreparingRebalance && self.was_empty {
            self.new_member_added = true;
        }
        if let Some(mut session) = self.pending.remove(&member_id) {
            session.end(scene.timers, || session_due(&self.group_id, &member_id));
        }
        if self.members.is_empty() {
            self.protocol_type = Some(join.protocol_type);
        }
        let member = Member {
            instance_id: join.group_instance_id,
            client: join.client,
            rebalance_timeout_ms: join.rebalance_timeout_ms,
            session_timeout_ms: join.session_timeout_ms,
            protocols: join.protocols,
            assignment: bytes::Bytes::new(),
            join: Some(token),
            sync: None,
            is_new: true,
            session: Session::default(),
        };
        self.insert(member_id.clone(), member);
        // It does not know its id yet, so it cannot send heartbeats; but a client that gives up and asks again leaves
        // a member behind each time.
        self.extend_session_by(scene, &member_id, GROUP_NEW_MEMBER_JOIN_TIMEOUT_MS);
        self.rebalance_or_complete(scene);
    }

    fn update_then_rebalance(&mut self, scene: &mut Scene<'_>, token: Token, join: JoinGroup) {
        let member_id = join.member_id.clone();
        self.update(scene, &member_id, token, join);
        self.rebalance_or_complete(scene);
    }

    /// Takes over what a member says, and lets it wait for the next generation.
    fn update(&mut self, scene: &mut Scene<'_>, member_id: &Str, token: Token, join: JoinGroup) {
        let Some(mut member) = self.take(member_id) else {
            return;
        };
        // Its earlier request is of a connection that is gone, or it would not ask again.
        if let Some(before) = member.join.replace(token) {
            scene.refuse_join(before, ErrorCode::RebalanceInProgress, member_id.clone());
        }
        member.protocols = join.protocols;
        member.rebalance_timeout_ms = join.rebalance_timeout_ms;
        member.session_timeout_ms = join.session_timeout_ms;
        self.insert(member_id.clone(), member);
    }

    /// A static member comes back without its id (KIP-345): the new one takes the place of the old.
    fn replace_static(
        &mut self,
        scene: &mut Scene<'_>,
        token: Token,
        join: JoinGroup,
        before: &Str,
        member_id: Str,
    ) {
        let leader_before = self.leader.clone().unwrap_or_default();
        self.rename_static(scene, before, &member_id, join.client.clone());
        let skips_assignment = join.skips_assignment;
        self.update(scene, &member_id, token, join);
        self.extend_session(scene, &member_id);
        match self.state {
            State::Stable if self.choose_protocol() == self.protocol => {
                scene.write(self.record());
                let mut reply =
                    self.joined(&member_id, skips_assignment && self.is_leader(&member_id));
                if skips_assignment {
                    reply.skip_assignment = self.is_leader(&member_id);
                } else {
                    // An old client that is told it leads would assign anew. It is told its former self does.
                    reply.leader = leader_before;
                }
                self.finish_join(scene, &member_id, reply);
            }
            State::Stable => self.rebalance_or_complete(scene),
            // The leader may already be assigning to the old id.
            State::CompletingRebalance => self.prepare_rebalance(scene),
            State::PreparingRebalance | State::Empty => self.complete_if_all_joined(scene),
        }
    }

    fn rename_static(&mut self, scene: &mut Scene<'_>, before: &Str, after: &Str, client: Client) {
        let was_pending_sync = self.pending_sync.remove(before);
        let Some(mut member) = self.take(before) else {
            return;
        };
        member
            .session
            .end(scene.timers, || session_due(&self.group_id, before));
        let fenced = ErrorCode::FencedInstanceId;
        if let Some(token) = member.join.take() {
            scene.refuse_join(token, fenced, before.clone());
        }
        if let Some(token) = member.sync.take() {
            scene.reply_sync(token, SyncGroupReply::refused(fenced));
        }
        member.client = client;
        member.is_new = false;
        self.insert(after.clone(), member);
        if self.is_leader(before) {
            self.leader = Some(after.clone());
        }
        if was_pending_sync {
            self.pending_sync.insert(after.clone());
        }
    }
}

/// The protocols without those that repeat a name: the first counts.
fn distinct(protocols: Vec<crate::group::Protocol>) -> Vec<crate::group::Protocol> {
    let mut seen = std::collections::BTreeSet::new();
    let is_first = |protocol: &crate::group::Protocol| seen.insert(protocol.name.clone());
    protocols.into_iter().filter(is_first).collect()
}

/// What a member is called takes at most this in its id, which with a UUID must fit a string of the protocol.
const MEMBER_NAME_BYTES_MAX: usize = 0x7fff - 37;

/// A member's id: what it is called, and a random UUID (version 4).
pub(in crate::group) fn new_member_id(name: &Str, random: u128) -> Str {
    let bits = (random & !(0xf << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62);
    let hex = format!("{bits:032x}");
    let name = &name[..name.floor_char_boundary(MEMBER_NAME_BYTES_MAX)];
    Str::from(format!(
        "{name}-{}-{}-{}-{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    ))
}
