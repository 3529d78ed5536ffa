//! The connection's side: to which shard a request to a coordinator goes, and the wait for its reply.
//!
//! Invariants:
//! 1. One message to each owner, whatever the number of groups or transactional ids.
//! 2. Whoever waits hears of a stop and of its own connection's end: a wait here is a wait of the connection, as a fetch's is.

use std::collections::BTreeMap;
use std::rc::Rc;

use pelton_machine::group::partition_of;
use pelton_machine::partition::TxnGuard;
use pelton_machine::{group, transaction};
use pelton_model::task::{Notify, OnceReceiver, oneshot};
use pelton_model::{ErrorCode, PartitionId, ShardId, Str, TopicPartition};
use pelton_transport::net::Net;

use super::pending::{Recipient, Replies};
use super::{Command, Kind, Reply};
use crate::connection::Client;
use crate::env::Env;
use crate::shard::Shard;
use crate::shard::message::{
    CallId, CoordinatorCall, CoordinatorRequest, Message, Request, Response, WatchId,
};

/// The calls that went to one owner.
struct Asked {
    /// What is answered where the owner is not.
    refusals: Replies,
    stage: Stage,
}

enum Stage {
    Done(Replies),
    Sent(WatchId, Rc<Notify>, OnceReceiver<Response>),
    Waiting(WatchId, Rc<Notify>),
}

impl<E: Env> Shard<E> {
    /// The partition that coordinates a group or a transactional id, where there is one.
    pub(crate) fn coordinator_partition(&self, kind: Kind, name: &str) -> Option<TopicPartition> {
        let topic = self.topic_by_name(kind.topic())?;
        Some(TopicPartition {
            topic_id: topic.id,
            partition: partition_of(name, topic.partition_count),
        })
    }

    /// Every partition that coordinates groups or transactional ids.
    pub(crate) fn coordinator_partitions(&self, kind: Kind) -> Vec<TopicPartition> {
        let Some(topic) = self.topic_by_name(kind.topic()) else {
            return Vec::new();
        };
        let partition = |index| TopicPartition {
            topic_id: topic.id,
            partition: PartitionId(index),
        };
        (0..topic.partition_count).map(partition).collect()
    }

    /// Takes in another shard's calls.
    pub(crate) fn coordinate_for_peer(
        self: &Rc<Self>,
        peer: ShardId,
        id: CallId,
        request: CoordinatorRequest,
    ) {
        let CoordinatorRequest { wait, calls } = request;
        let may_wait = calls.iter().any(|call| call.command.may_wait());
        let recipient = if may_wait {
            Recipient::Message(peer, wait)
        } else {
            Recipient::Response(peer, id)
        };
        let response = match self.submit(calls, recipient) {
            Some(replies) => Response::Coordinators(replies),
            None if may_wait => Response::CoordinatorsWaiting,
            None => return,
        };
        self.calls.post(peer, Message::Response { id, response });
    }

    /// Replies have come for a connection of this shard.
    pub(crate) fn on_coordinator_replies(&self, wait: WatchId, replies: Replies) {
        if self.is_waiting(wait) {
            self.coordinators.replied.borrow_mut().insert(wait, replies);
            self.wake_fetches(&[wait]);
        }
    }

    fn end_coordinator_wait(&self, wait: WatchId) -> Option<Replies> {
        self.end_wait(wait);
        self.coordinators.replied.borrow_mut().remove(&wait)
    }

    /// Asks a coordinator what it answers at once, or as soon as it is written; not for a connection but for a task of this shard.
    pub(super) async fn ask_coordinator(
        self: &Rc<Self>,
        partition: TopicPartition,
        command: Command,
    ) -> Reply {
        assert!(!command.may_wait(), "what may wait long is a connection's");
        let refused = command.refused(ErrorCode::CoordinatorNotAvailable);
        let calls = vec![call(partition, command)];
        let owner = self.owner(partition);
        let replies = if owner == self.id {
            let (sender, receiver) = oneshot();
            match self.submit(calls, Recipient::Task(sender)) {
                Some(replies) => Some(replies),
                None => receiver.await,
            }
        } else {
            let wait = self.next_wait();
            let request = Request::Coordinators(CoordinatorRequest { wait, calls });
            let response = self.calls.call(owner, request).await;
            // Anything else says that the owner stops.
            if let Response::Coordinators(replies) = response {
                Some(replies)
            } else {
                None
            }
        };
        replies
            .and_then(|replies| replies.into_iter().next())
            .unwrap_or(refused)
    }
}

/// A call outside of transactions.
fn call(partition: TopicPartition, command: Command) -> CoordinatorCall {
    CoordinatorCall {
        partition,
        command,
        guard: TxnGuard::None,
    }
}

fn of_group(reply: Reply) -> group::Reply {
    match reply {
        Reply::Group(reply) => reply,
        Reply::Transaction(_) => unreachable!("replies are of their commands' kinds"),
    }
}

impl<E: Env> Client<E> {
    /// Asks a group's coordinator.
    pub(crate) async fn ask_group(&self, group: &str, command: group::Command) -> group::Reply {
        let Some(id) = self.shard.coordinator_partition(Kind::Groups, group) else {
            return command.refused(ErrorCode::NotCoordinator);
        };
        let replies = self.ask_groups(vec![(id, command)]).await;
        let mut replies = replies.into_iter();
        replies.next().expect("each command has its reply")
    }

    /// Asks about each group at its own coordinator; the replies come in the order of the groups.
    pub(crate) async fn ask_each_group(
        &self,
        groups: Vec<Str>,
        command: impl Fn(Vec<Str>) -> group::Command,
    ) -> Vec<group::Reply> {
        let mut commands = Vec::with_capacity(groups.len());
        let mut refused = Vec::new();
        for group in groups {
            let partition = self.shard.coordinator_partition(Kind::Groups, &group);
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

    /// Asks coordinators of groups, all at once; the replies come in the order of the commands.
    pub(crate) async fn ask_groups(
        &self,
        commands: Vec<(TopicPartition, group::Command)>,
    ) -> Vec<group::Reply> {
        let commands = commands.into_iter();
        let calls = commands.map(|(id, command)| call(id, Command::Group(command)));
        let replies = self.ask_coordinators(calls.collect()).await.into_iter();
        replies.map(of_group).collect()
    }

    /// Asks a group's coordinator, whose records are part of a transaction.
    pub(crate) async fn ask_group_guarded(
        &self,
        partition: TopicPartition,
        guard: TxnGuard,
        command: group::Command,
    ) -> group::Reply {
        let calls = vec![CoordinatorCall {
            partition,
            command: Command::Group(command),
            guard,
        }];
        let mut replies = self.ask_coordinators(calls).await.into_iter();
        of_group(replies.next().expect("each command has its reply"))
    }

    /// Asks a transactional id's coordinator.
    pub(crate) async fn ask_transaction(
        &self,
        transactional_id: &str,
        command: transaction::Command,
    ) -> transaction::Reply {
        let kind = Kind::Transactions;
        let Some(id) = self.shard.coordinator_partition(kind, transactional_id) else {
            return command.refused(ErrorCode::NotCoordinator);
        };
        let replies = self.ask_transactions(vec![(id, command)]).await;
        let mut replies = replies.into_iter();
        replies.next().expect("each command has its reply")
    }

    /// Asks coordinators of transactional ids, all at once; the replies come in the order of the commands.
    pub(crate) async fn ask_transactions(
        &self,
        commands: Vec<(TopicPartition, transaction::Command)>,
    ) -> Vec<transaction::Reply> {
        let commands = commands.into_iter();
        let calls = commands.map(|(id, command)| call(id, Command::Transaction(command)));
        let replies = self.ask_coordinators(calls.collect()).await.into_iter();
        let unwrapped = replies.map(|reply| match reply {
            Reply::Transaction(reply) => reply,
            Reply::Group(_) => unreachable!("replies are of their commands' kinds"),
        });
        unwrapped.collect()
    }

    async fn ask_coordinators(&self, calls: Vec<CoordinatorCall>) -> Replies {
        let count = calls.len();
        let mut by_owner: BTreeMap<ShardId, (Vec<usize>, Vec<CoordinatorCall>)> = BTreeMap::new();
        for (index, call) in calls.into_iter().enumerate() {
            let owner = self.shard.owner(call.partition);
            let (indexes, calls) = by_owner.entry(owner).or_default();
            indexes.push(index);
            calls.push(call);
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

    async fn start_asking(&self, owner: ShardId, calls: Vec<CoordinatorCall>) -> Asked {
        let shard = &self.shard;
        let refused =
            |call: &CoordinatorCall| call.command.refused(ErrorCode::CoordinatorNotAvailable);
        let refusals = calls.iter().map(refused).collect();
        let wait = shard.next_wait();
        let stage = if owner == shard.id {
            match shard.submit(calls, Recipient::Here(wait)) {
                Some(replies) => Stage::Done(replies),
                None => Stage::Waiting(wait, shard.begin_wait_as(wait)),
            }
        } else {
            let woken = shard.begin_wait_as(wait);
            let request = Request::Coordinators(CoordinatorRequest { wait, calls });
            let answer = shard.calls.start(owner, request).await;
            Stage::Sent(wait, woken, answer)
        };
        Asked { refusals, stage }
    }

    async fn finish_asking(&self, asked: Asked) -> Replies {
        let replies = match asked.stage {
            Stage::Done(replies) => Some(replies),
            Stage::Sent(wait, woken, answer) => match answer.await {
                Some(Response::Coordinators(replies)) => {
                    self.shard.end_wait(wait);
                    Some(replies)
                }
                Some(Response::CoordinatorsWaiting) => self.await_replies(wait, &woken).await,
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
    async fn await_replies(&self, wait: WatchId, woken: &Notify) -> Option<Replies> {
        self.registered.waiting_fetch.set(Some(wait));
        while !self.shard.coordinators.replied.borrow().contains_key(&wait)
            && !self.shard.is_stopping.get()
            && !self.registered.is_closed.get()
        {
            woken.notified().await;
        }
        self.registered.waiting_fetch.set(None);
        self.shard.end_coordinator_wait(wait)
    }
}
