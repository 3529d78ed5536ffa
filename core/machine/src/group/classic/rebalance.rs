//! The course of a rebalance: members are awaited, a generation begins, its assignment is awaited.
//!
//! 1. The generation grows by one with each rebalance that completes, not with each that begins.
//! 2. A rebalance ends: by the last member that joins, by the rebalance timeout, or by the sessions of members that do not
//!    call. What began it is not asked.

use pelton_model::{ErrorCode, Monotonic, Str};

use super::{Classic, JoinWait, State};
use crate::group::SyncGroupReply;
use crate::group::scene::Scene;
use crate::group::timers::{Due, Timers};

impl Classic {
    /// Begins a rebalance, or completes the one under way if nobody is awaited any more.
    pub(super) fn rebalance_or_complete(&mut self, scene: &mut Scene<'_>) {
        match self.state {
            State::Empty | State::CompletingRebalance | State::Stable => {
                self.prepare_rebalance(scene)
            }
            State::PreparingRebalance => self.complete_if_all_joined(scene),
        }
    }

    /// Begins a rebalance.
    pub(super) fn prepare_rebalance(&mut self, scene: &mut Scene<'_>) {
        if self.state == State::CompletingRebalance {
            // The generation ends before its assignment came: whoever waits for it joins again.
            self.drop_assignments();
            self.finish_syncs(scene, ErrorCode::RebalanceInProgress);
        }
        self.pending_sync.clear();
        self.stop_waiting_for_syncs(scene.timers);
        let is_initial = self.state == State::Empty;
        self.go(State::PreparingRebalance, scene.now.time);
        if is_initial {
            let delay_ms = scene.config.initial_rebalance_delay_ms.max(0);
            let remaining_ms = self.rebalance_timeout_ms().saturating_sub(delay_ms).max(0);
            self.new_member_added = false;
            self.wait_for_more(scene, delay_ms, remaining_ms);
        } else if self.have_all_joined() {
            self.complete_join(scene);
        } else {
            self.wait_for_rejoins(scene);
        }
    }

    /// Completes the join phase when nobody is awaited; not the first rebalance of a group, which waits its time.
    pub(super) fn complete_if_all_joined(&mut self, scene: &mut Scene<'_>) {
        if self.state == State::PreparingRebalance && !self.was_empty && self.have_all_joined() {
            self.complete_join(scene);
        }
    }

    pub(super) fn have_all_joined(&self) -> bool {
        self.awaiting_join == self.members.len() && self.pending.is_empty()
    }

    /// Begins the next generation with those that have joined.
    pub(super) fn complete_join(&mut self, scene: &mut Scene<'_>) {
        assert!(self.state == State::PreparingRebalance);
        self.stop_waiting_for_joins(scene.timers);
        // Static members stay until their session ends.
        let is_out = |(_, member): &(&Str, &super::Member)| {
            member.join.is_none() && member.instance_id.is_none()
        };
        let out: Vec<Str> = self
            .members
            .iter()
            .filter(is_out)
            .map(|(id, _)| id.clone())
            .collect();
        for member_id in &out {
            self.remove(scene, member_id);
        }
        if self.members.is_empty() {
            return self.become_empty(scene);
        }
        if !self.elect_leader() {
            // Only static members are left, none of which has called: their sessions decide.
            return self.wait_for_rejoins(scene);
        }
        self.generation = self.generation.wrapping_add(1).max(0);
        self.protocol = self.choose_protocol();
        self.note_topics();
        self.go(State::CompletingRebalance, scene.now.time);
        self.announce_generation(scene);
    }

    fn become_empty(&mut self, scene: &mut Scene<'_>) {
        self.generation = self.generation.wrapping_add(1).max(0);
        self.protocol = None;
        self.leader = None;
        self.note_topics();
        self.go(State::Empty, scene.now.time);
        scene.write(self.record());
    }

    /// Lets a member that has joined lead; whether there is one.
    fn elect_leader(&mut self) -> bool {
        let has_joined = |id: &Str| {
            self.members
                .get(id)
                .is_some_and(|member| member.join.is_some())
        };
        if self.leader.as_ref().is_some_and(has_joined) {
            return true;
        }
        let joined = self
            .members
            .iter()
            .find(|(_, member)| member.join.is_some());
        match joined.map(|(id, _)| id.clone()) {
            None => false,
            Some(id) => {
                self.leader = Some(id);
                true
            }
        }
    }

    /// Tells every member of the new generation, and awaits that each asks for its assignment.
    fn announce_generation(&mut self, scene: &mut Scene<'_>) {
        let ids: Vec<Str> = self.members.keys().cloned().collect();
        for id in &ids {
            let reply = self.joined(id, self.is_leader(id));
            self.finish_join(scene, id, reply);
            self.extend_session(scene, id);
            if let Some(member) = self.members.get_mut(id) {
                member.is_new = false;
            }
        }
        self.pending_sync = ids.into_iter().collect();
        let at = scene.after_ms(self.rebalance_timeout_ms());
        scene.timers.arm(at, self.sync_due());
        self.sync_at = Some(at);
    }

    fn wait_for_more(&mut self, scene: &mut Scene<'_>, delay_ms: i32, remaining_ms: i32) {
        let at = scene.after_ms(delay_ms);
        self.stop_waiting_for_joins(scene.timers);
        scene.timers.arm(at, self.join_due());
        self.join_wait = JoinWait::Initial {
            at,
            delay_ms,
            remaining_ms,
        };
    }

    fn wait_for_rejoins(&mut self, scene: &mut Scene<'_>) {
        // At least a millisecond: a wait that is over at once would come back for ever within one tick.
        let at = scene.after_ms(self.rebalance_timeout_ms().max(1));
        self.stop_waiting_for_joins(scene.timers);
        scene.timers.arm(at, self.join_due());
        self.join_wait = JoinWait::Rejoin { at };
    }

    pub(super) fn stop_waiting_for_joins(&mut self, timers: &mut Timers) {
        match std::mem::replace(&mut self.join_wait, JoinWait::None) {
            JoinWait::None => {}
            JoinWait::Initial { at, .. } | JoinWait::Rejoin { at } => {
                timers.disarm(at, self.join_due())
            }
        }
    }

    pub(super) fn stop_waiting_for_syncs(&mut self, timers: &mut Timers) {
        if let Some(at) = self.sync_at.take() {
            timers.disarm(at, self.sync_due());
        }
    }

    /// The wait for members has ended.
    pub(in crate::group) fn on_join_due(&mut self, scene: &mut Scene<'_>) {
        match std::mem::replace(&mut self.join_wait, JoinWait::None) {
            JoinWait::None => {}
            JoinWait::Initial {
                delay_ms,
                remaining_ms,
                ..
            } if self.new_member_added && remaining_ms > 0 => {
                self.new_member_added = false;
                let next_ms = scene
                    .config
                    .initial_rebalance_delay_ms
                    .clamp(0, remaining_ms);
                self.wait_for_more(scene, next_ms, (remaining_ms - delay_ms).max(0));
            }
            JoinWait::Initial { .. } | JoinWait::Rejoin { .. } => self.complete_join(scene),
        }
    }

    /// The wait for SyncGroups has ended: members that have not asked for their assignment are out.
    pub(in crate::group) fn on_sync_due(&mut self, scene: &mut Scene<'_>) {
        self.sync_at = None;
        match self.state {
            State::Empty | State::PreparingRebalance => {}
            State::CompletingRebalance | State::Stable => {
                if self.pending_sync.is_empty() {
                    return;
                }
                for member_id in std::mem::take(&mut self.pending_sync) {
                    self.remove(scene, &member_id);
                }
                self.prepare_rebalance(scene);
            }
        }
    }

    /// A session may have ended.
    pub(in crate::group) fn on_session_due(
        &mut self,
        scene: &mut Scene<'_>,
        at: Monotonic,
        member_id: &Str,
    ) {
        let now = scene.now.clock;
        let due = || super::session_due(&self.group_id, member_id);
        if let Some(session) = self.pending.get_mut(member_id) {
            if session.is_over(scene.timers, at, now, due) {
                self.pending.remove(member_id);
                self.complete_if_all_joined(scene);
            }
            return;
        }
        let Some(member) = self.members.get_mut(member_id) else {
            return;
        };
        if !member.session.is_over(scene.timers, at, now, due) {
            return;
        }
        // A member that waits here cannot call; a new one that waits too long is given up.
        if !member.is_new && (member.join.is_some() || member.sync.is_some()) {
            return;
        }
        self.remove(scene, member_id);
        self.on_departure(scene);
    }

    /// Members are gone.
    pub(super) fn on_departure(&mut self, scene: &mut Scene<'_>) {
        match self.state {
            State::Stable | State::CompletingRebalance => self.prepare_rebalance(scene),
            State::PreparingRebalance => self.complete_if_all_joined(scene),
            State::Empty => {}
        }
    }

    fn drop_assignments(&mut self) {
        for member in self.members.values_mut() {
            self.bytes -= member.assignment.len();
            member.assignment = bytes::Bytes::new();
        }
    }

    /// Answers all that wait for their assignment.
    pub(super) fn finish_syncs(&mut self, scene: &mut Scene<'_>, error: ErrorCode) {
        let is_fine = error == ErrorCode::None;
        let waiting = |(_, member): &(&Str, &super::Member)| member.sync.is_some();
        let ids: Vec<Str> = self
            .members
            .iter()
            .filter(waiting)
            .map(|(id, _)| id.clone())
            .collect();
        for id in &ids {
            let Some(member) = self.members.get_mut(id) else {
                continue;
            };
            let reply = SyncGroupReply {
                error,
                protocol_type: self.protocol_type.clone().filter(|_| is_fine),
                protocol_name: self.protocol.clone().filter(|_| is_fine),
                assignment: member.assignment(),
            };
            if let Some(token) = member.sync.take() {
                scene.reply_sync(token, reply);
            }
            // Its session was not looked at while it waited.
            self.extend_session(scene, id);
        }
    }

    fn join_due(&self) -> Due {
        Due::Join {
            group_id: self.group_id.clone(),
        }
    }

    fn sync_due(&self) -> Due {
        Due::Sync {
            group_id: self.group_id.clone(),
        }
    }
}
