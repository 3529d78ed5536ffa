//! LeaveGroup: members go, by themselves or by an administrator's hand.

use pelton_model::{ErrorCode, Str};

use super::Classic;
use crate::group::scene::Scene;
use crate::group::{LeavingMember, LeftMember};

impl Classic {
    /// Takes members out; each has its own outcome.
    pub(in crate::group) fn leave(
        &mut self,
        scene: &mut Scene<'_>,
        members: Vec<LeavingMember>,
    ) -> Vec<LeftMember> {
        let mut outcomes = Vec::with_capacity(members.len());
        let mut has_left = false;
        for leaving in members {
            let error = match self.find_leaving(&leaving) {
                Ok(member_id) => {
                    self.remove(scene, &member_id);
                    has_left = true;
                    ErrorCode::None
                }
                Err(error) => error,
            };
            outcomes.push(LeftMember {
                member_id: leaving.member_id,
                group_instance_id: leaving.group_instance_id,
                error,
            });
        }
        if has_left {
            self.on_departure(scene);
        }
        outcomes
    }

    fn find_leaving(&self, leaving: &LeavingMember) -> Result<Str, ErrorCode> {
        let instance_id = leaving.group_instance_id.as_ref();
        if leaving.member_id.is_empty() {
            // An administrator knows a static member by its name alone.
            let named = instance_id.and_then(|id| self.static_members.get(id));
            return named.cloned().ok_or(ErrorCode::UnknownMemberId);
        }
        if !self.pending.contains_key(&leaving.member_id) {
            self.check_member(&leaving.member_id, instance_id)?;
        }
        Ok(leaving.member_id.clone())
    }
}
