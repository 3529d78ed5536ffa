//! The connection's side: to which shard a group's request goes, and the wait for its reply.
//!
//! Invariants:
//! 1. One message to each owner, whatever the number of groups.
//! 2. Whoever waits hears of a stop and of its own connection's end: a wait here is a wait of the connection, as a fetch's is.

use std::collections::BTreeMap;
use std::rc::Rc;

use pelton_machine::controller::OFFSETS_TOPIC;
use pelton_machine::group::{Command, Reply, partition_of};
use pelton_model::task::{Notify, OnceReceiver};
use pelton_model::{ErrorCode, PartitionId, ShardId, Str, TopicPartition};
use pelton_transport::net::Net;

use super::pending::{GroupReplies, Recipient};
use crate::connection::Client;
use crate::env::Env;
use crate::shard::Shard;
use crate::shard::message::{
    CallId, GroupCall, GroupsRequest, Message, Request, Response, WatchId,
};

/// The calls that went to one owner.
struct Asked {
    /// What is answered where the owner is not.
    refusals: GroupReplies,
    stage: Stage,
}

enum Stage {
    Done(GroupReplies),
    Sent(WatchId, Rc<Notify>, OnceReceiver<Response>),
    Waiting(WatchId, Rc<Notify>),
}

impl<E: Env> Shard<E> {
    /// The partition that coordinates a group, where there is one.
    pub(crate) fn group_partition(&self, group: &str) -> Option<TopicPartition> {
        let topic = self.topic_by_name(OFFSETS_TOPIC)?;
        Some(TopicPartition {
            topic_id: topic.id,
            partition: partition_of(group, topic.partition_count),
        })
    }

    /// Every partition that coordinates groups.
    pub(crate) fn group_partitions(&self) -> Vec<TopicPartition> {
        let Some(topic) = self.topic_by_name(OFFSETS_TOPIC) else {
            return Vec::new();
        };
        let partition = |index| TopicPartition {
            topic_id: topic.id,
            partition: PartitionId(index),
        };
        (0..topic.partition_count).map(partition).collect()
    }

    /// Takes in another shard's calls.
    pub(crate) fn groups_for_peer(
        self: &Rc<Self>,
        peer: ShardId,
        id: CallId,
        request: GroupsRequest,
    ) {
        let GroupsRequest { wait, calls } = request;
        let may_wait = calls.iter().any(|call| may_wait(&call.command));
        let recipient = if may_wait {
            Recipient::Message(peer, wait)
        } else {
            Recipient::Response(peer, id)
        };
        let response = match self.submit_groups(calls, recipient) {
            Some(replies) => Response::Groups(replies),
            None if may_wait => Response::GroupsWaiting,
            None => return,
        };
        self.calls.post(peer, Message::Response { id, response });
    }

    /// Replies have come for a connection of this shard.
    pub(crate) fn on_group_replies(&self, wait: WatchId, replies: GroupReplies) {
        if self.is_waiting(wait) {
            self.coordinators.replied.borrow_mut().insert(wait, replies);
            self.wake_fetches(&[wait]);
        }
    }

    fn end_group_wait(&self, wait: WatchId) -> Option<GroupReplies> {
        self.end_wait(wait);
        self.coordinators.replied.borrow_mut().remove(&wait)
    }
}

/// Whether a command may be kept until others have spoken.
fn may_wait(command: &Command) -> bool {
    match command {
        Command::JoinGroup(_) | Command::SyncGroup(_) => true,
        Command::Heartbeat(_)
        | Command::LeaveGroup(_)
        | Command::OffsetCommit(_)
        | Command::OffsetFetch(_)
        | Command::OffsetDelete(_)
        | Command::ListGroups(_)
        | Command::DescribeGroups(_)
        | Command::DeleteGroups(_)
        | Command::ConsumerGroupHeartbeat(_)
        | Command::ConsumerGroupDescribe(_) => false,
    }
}

impl<E: Env> Client<E> {
    /// Asks a group's coordinator.
    pub(crate) async fn ask_group(&self, group: &str, command: Command) -> Reply {
        let Some(id) = self.shard.group_partition(group) else {
            return command.refused(ErrorCode::NotCoordinator);
        };
        let call = GroupCall {
            partition: id.partition,
            command,
        };
        let asked = self.start_asking(self.shard.owner(id), vec![call]).await;
        let mut replies = self.finish_asking(asked).await.into_iter();
        replies.next().expect("each command has its reply")
    }

    /// Asks about each group at its own coordinator; the replies come in the order of the groups.
    pub(crate) async fn ask_each_group(
        &self,
        groups: Vec<Str>,
        command: impl Fn(Vec<Str>) -> Command,
    ) -> GroupReplies {
        let mut commands = Vec::with_capacity(groups.len());
        let mut refused = Vec::new();
        for group in groups {
            let partition = self.shard.group_partition(&group);
            let command = command(vec![group]);
            match partition {
                Some(partition) => commands.push((partition, command)),
                // Without the topic none has a coordinator.
                None => refused.push(command.refused(ErrorCode::NotCoordinator)),
            }
        }
        let mut replies = self.ask_groups(commands).await;
        replies.extend(refused);
        replies
    }

    /// Bits for a new member's id.
    pub(crate) fn random_bits(&self) -> u128 {
        let mut bytes = [0; 16];
        self.shard.net.random(&mut bytes);
        u128::from_be_bytes(bytes)
    }

    /// Asks coordinators, all at once; the replies come in the order of the commands.
    pub(crate) async fn ask_groups(
        &self,
        commands: Vec<(TopicPartition, Command)>,
    ) -> GroupReplies {
        let count = commands.len();
        let mut by_owner: BTreeMap<ShardId, (Vec<usize>, Vec<GroupCall>)> = BTreeMap::new();
        for (index, (id, command)) in commands.into_iter().enumerate() {
            let (indexes, calls) = by_owner.entry(self.shard.owner(id)).or_default();
            indexes.push(index);
            calls.push(GroupCall {
                partition: id.partition,
                command,
            });
        }
        let mut asked = Vec::with_capacity(by_owner.len());
        for (owner, (indexes, calls)) in by_owner {
            asked.push((indexes, self.start_asking(owner, calls).await));
        }
        let mut replies: Vec<Option<Reply>> = (0..count).map(|_| None).collect();
        for (indexes, asked) in asked {
            let got = self.finish_asking(asked).await;
            assert!(got.len() == indexes.len(), "a reply for each command");
            for (index, reply) in indexes.into_iter().zip(got) {
                replies[index] = Some(reply);
            }
        }
        let replies = replies.into_iter();
        replies
            .map(|reply| reply.expect("every owner has replied"))
            .collect()
    }

    async fn start_asking(&self, owner: ShardId, calls: Vec<GroupCall>) -> Asked {
        let shard = &self.shard;
        let refused = |call: &GroupCall| call.command.refused(ErrorCode::CoordinatorNotAvailable);
        let refusals = calls.iter().map(refused).collect();
        let wait = shard.next_wait();
        let stage = if owner == shard.id {
            match shard.submit_groups(calls, Recipient::Here(wait)) {
                Some(replies) => Stage::Done(replies),
                None => Stage::Waiting(wait, shard.begin_wait_as(wait)),
            }
        } else {
            let woken = shard.begin_wait_as(wait);
            let request = Request::Groups(GroupsRequest { wait, calls });
            let answer = shard.calls.start(owner, request).await;
            Stage::Sent(wait, woken, answer)
        };
        Asked { refusals, stage }
    }

    async fn finish_asking(&self, asked: Asked) -> GroupReplies {
        let replies = match asked.stage {
            Stage::Done(replies) => Some(replies),
            Stage::Sent(wait, woken, answer) => match answer.await {
                Some(Response::Groups(replies)) => {
                    self.shard.end_wait(wait);
                    Some(replies)
                }
                Some(Response::GroupsWaiting) => self.await_replies(wait, &woken).await,
                Some(_) | None => {
                    self.shard.end_wait(wait);
                    None
                }
            },
            Stage::Waiting(wait, woken) => self.await_replies(wait, &woken).await,
        };
        replies.unwrap_or(asked.refusals)
    }

    /// Waits for replies; none when the shard stops or the connection is closed meanwhile.
    async fn await_replies(&self, wait: WatchId, woken: &Notify) -> Option<GroupReplies> {
        self.registered.waiting_fetch.set(Some(wait));
        while !self.shard.coordinators.replied.borrow().contains_key(&wait)
            && !self.shard.is_stopping.get()
            && !self.registered.is_closed.get()
        {
            woken.notified().await;
        }
        self.registered.waiting_fetch.set(None);
        self.shard.end_group_wait(wait)
    }
}
