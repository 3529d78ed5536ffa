//! The two kinds of coordinators behind one face: what the driver needs of a machine, whichever it is.
//!
//! 1. A decision leaves here with its records encoded and its replies wrapped; the driver never looks into either.

use bytes::Bytes;
use pelton_machine::controller::{OFFSETS_TOPIC, TRANSACTIONS_TOPIC};
use pelton_machine::group::{self, GroupShard, Now, Token};
use pelton_machine::image::MetadataImage;
use pelton_machine::transaction::{self, Ended, Markers, Terms, TransactionShard};
use pelton_model::compression::Compression;
use pelton_model::config::broker::BrokerConfig;
use pelton_model::record_type::group::GroupRecord;
use pelton_model::record_type::transaction::{TransactionLogValue, TransactionRecord};
use pelton_model::{ErrorCode, Monotonic, ProducerEpoch, ProducerId, Str};
use pelton_protocol::{group_record, transaction_record};

use super::spoil;

/// What a partition coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Groups: a partition of `__consumer_offsets`.
    Groups,
    /// Transactional ids: a partition of `__transaction_state`.
    Transactions,
}

impl Kind {
    /// Both.
    pub(crate) const ALL: [Self; 2] = [Self::Groups, Self::Transactions];

    /// The topic whose partitions are such coordinators.
    pub(crate) fn topic(self) -> &'static str {
        match self {
            Self::Groups => OFFSETS_TOPIC,
            Self::Transactions => TRANSACTIONS_TOPIC,
        }
    }

    /// Bytes of the log that are read at once.
    pub(super) fn load_bytes(self, config: &BrokerConfig) -> usize {
        match self {
            Self::Groups => config.group.offsets_load_buffer_bytes,
            Self::Transactions => config.transaction.load_buffer_bytes,
        }
    }

    /// The codec of its records.
    pub(super) fn compression(self, config: &BrokerConfig) -> Compression {
        match self {
            Self::Groups => config.group.offsets_topic_compression,
            Self::Transactions => Compression::None,
        }
    }

    /// How long an append may wait for its replicas.
    pub(super) fn write_timeout_ms(self, config: &BrokerConfig) -> u64 {
        match self {
            Self::Groups => config.group.offsets_commit_timeout_ms,
            Self::Transactions => u64::try_from(config.request_timeout_ms).unwrap_or(0),
        }
    }
}

/// A request to a coordinator.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a request is moved a few times and kept nowhere"
)]
pub enum Command {
    /// To one of groups.
    Group(group::Command),
    /// To one of transactional ids.
    Transaction(transaction::Command),
}

impl Command {
    /// The answer that refuses all of the request.
    pub(super) fn refused(&self, error: ErrorCode) -> Reply {
        match self {
            Self::Group(command) => Reply::Group(command.refused(error)),
            Self::Transaction(command) => Reply::Transaction(command.refused(error)),
        }
    }

    /// Whether the reply may wait for others: members that join, markers that are written.
    pub(super) fn may_wait(&self) -> bool {
        match self {
            Self::Group(command) => match command {
                group::Command::JoinGroup(_) | group::Command::SyncGroup(_) => true,
                group::Command::Heartbeat(_)
                | group::Command::LeaveGroup(_)
                | group::Command::OffsetCommit(_)
                | group::Command::OffsetFetch(_)
                | group::Command::OffsetDelete(_)
                | group::Command::ListGroups(_)
                | group::Command::DescribeGroups(_)
                | group::Command::DeleteGroups(_)
                | group::Command::ConsumerGroupHeartbeat(_)
                | group::Command::ConsumerGroupDescribe(_) => false,
            },
            Self::Transaction(command) => match command {
                transaction::Command::EndTxn(_) => true,
                transaction::Command::InitProducerId(_)
                | transaction::Command::AddPartitions(_)
                | transaction::Command::List(_)
                | transaction::Command::Describe(_) => false,
            },
        }
    }

    /// The producer in whose transaction its records are, if in one.
    pub(super) fn producer(&self) -> Option<(ProducerId, ProducerEpoch)> {
        match self {
            Self::Group(group::Command::OffsetCommit(commit)) => commit.producer,
            Self::Group(_) | Self::Transaction(_) => None,
        }
    }

    /// Whether a producer id may be wanted for it.
    pub(super) fn may_draw(&self) -> bool {
        match self {
            Self::Group(_) => false,
            Self::Transaction(command) => command.may_draw(),
        }
    }
}

/// A coordinator's answer.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Of one of groups.
    Group(group::Reply),
    /// Of one of transactional ids.
    Transaction(transaction::Reply),
}

impl Reply {
    /// The refusal that stands for it when its records could not be written.
    pub(super) fn spoiled(self, error: ErrorCode) -> Self {
        match self {
            Self::Group(reply) => Self::Group(spoil::spoil(reply, error)),
            Self::Transaction(reply) => Self::Transaction(reply.spoiled(error)),
        }
    }
}

/// A key and a value; a tombstone has none.
pub(super) type Encoded = (Bytes, Option<Bytes>);

/// What is done once the records before it are written.
#[derive(Debug)]
pub(super) enum Effect {
    /// A reply leaves.
    Reply(Token, Reply),
    /// Markers are written.
    Markers(Markers),
}

/// A decision of either machine.
#[derive(Debug, Default)]
pub(super) struct Made {
    /// One batch, all or nothing.
    pub(super) records: Vec<Encoded>,
    /// The producer in whose transaction the records are, if in one.
    pub(super) producer: Option<(ProducerId, ProducerEpoch)>,
    /// What follows them.
    pub(super) effects: Vec<Effect>,
    /// Transactions whose end was decided.
    pub(super) ended: Vec<Ended>,
}

impl Made {
    fn of_groups(decision: group::Decision) -> Self {
        let replies = decision.replies.into_iter();
        Self {
            records: decision.records.iter().map(group_record::encode).collect(),
            producer: decision.producer,
            effects: replies
                .map(|(token, reply)| Effect::Reply(token, Reply::Group(reply)))
                .collect(),
            ended: Vec::new(),
        }
    }

    fn of_transactions(decision: transaction::Decision, version: i16) -> Self {
        let encode = |record: &TransactionRecord| {
            let TransactionRecord::TransactionLog(_, value) = record;
            let is_flexible = 0 < version || value.as_ref().is_some_and(needs_version_1);
            transaction_record::encode(record, is_flexible)
        };
        let replies = decision.replies.into_iter();
        let replies = replies.map(|(token, reply)| Effect::Reply(token, Reply::Transaction(reply)));
        let markers = decision.markers.into_iter().map(Effect::Markers);
        Self {
            records: decision.records.iter().map(encode).collect(),
            producer: None,
            effects: replies.chain(markers).collect(),
            ended: decision.ended,
        }
    }
}

/// Whether a value says what only version 1 has room for.
fn needs_version_1(value: &TransactionLogValue) -> bool {
    value.previous_producer_id != -1
        || value.next_producer_id != -1
        || value.client_transaction_version != 0
}

/// What decisions are made with.
pub(super) struct Scene<'a> {
    /// The time.
    pub(super) now: Now,
    /// The metadata.
    pub(super) image: &'a MetadataImage,
    /// Gives a producer id that nobody has.
    pub(super) draw: &'a mut dyn FnMut() -> Option<ProducerId>,
}

impl Scene<'_> {
    fn terms(&mut self) -> Terms<'_> {
        Terms {
            now: self.now,
            version: self.image.transaction_version(),
            draw: self.draw,
        }
    }
}

/// One partition's state.
#[derive(Debug)]
pub(super) enum Machine {
    Groups(GroupShard),
    Transactions(TransactionShard),
}

impl Machine {
    pub(super) fn new(kind: Kind, config: &BrokerConfig) -> Self {
        match kind {
            Kind::Groups => Self::Groups(GroupShard::new(config.group.clone())),
            Kind::Transactions => {
                Self::Transactions(TransactionShard::new(config.transaction.clone()))
            }
        }
    }

    pub(super) fn configure(&mut self, config: &BrokerConfig) {
        match self {
            Self::Groups(groups) => groups.configure(config.group.clone()),
            Self::Transactions(transactions) => {
                transactions.configure(config.transaction.clone());
            }
        }
    }

    /// Applies what a log says.
    pub(super) fn replay(&mut self, loaded: &Loaded) {
        match (self, loaded) {
            (Self::Groups(groups), Loaded::Group(record)) => groups.replay(record),
            (Self::Groups(groups), Loaded::Pending(producer, record)) => {
                groups.replay_pending(*producer, record);
            }
            (Self::Groups(groups), Loaded::End(producer, is_commit)) => {
                groups.replay_end(*producer, *is_commit);
            }
            (Self::Transactions(transactions), Loaded::Transaction(record)) => {
                transactions.replay(record);
            }
            (Self::Groups(_), Loaded::Transaction(_))
            | (Self::Transactions(_), Loaded::Group(_) | Loaded::Pending(..) | Loaded::End(..)) => {
                unreachable!("a log is decoded for its own machine")
            }
        }
    }

    /// Ends loading.
    pub(super) fn loaded(&mut self, scene: &mut Scene<'_>) -> Made {
        match self {
            Self::Groups(groups) => {
                groups.loaded(scene.now);
                Made::default()
            }
            Self::Transactions(transactions) => {
                let version = scene.image.transaction_version();
                Made::of_transactions(transactions.loaded(&scene.terms()), version)
            }
        }
    }

    pub(super) fn decide(&mut self, scene: &mut Scene<'_>, token: Token, command: Command) -> Made {
        match (self, command) {
            (Self::Groups(groups), Command::Group(command)) => {
                Made::of_groups(groups.decide(scene.now, token, command, scene.image))
            }
            (Self::Transactions(transactions), Command::Transaction(command)) => {
                let version = scene.image.transaction_version();
                let decision = transactions.decide(&mut scene.terms(), token, command);
                Made::of_transactions(decision, version)
            }
            (Self::Groups(_), command @ Command::Transaction(_))
            | (Self::Transactions(_), command @ Command::Group(_)) => {
                // Who asks names a partition of the topic of its kind.
                unreachable!("{command:?} went to the other kind of coordinator")
            }
        }
    }

    pub(super) fn tick(&mut self, scene: &mut Scene<'_>) -> Made {
        match self {
            Self::Groups(groups) => Made::of_groups(groups.tick(scene.now, scene.image)),
            Self::Transactions(transactions) => {
                let version = scene.image.transaction_version();
                Made::of_transactions(transactions.tick(&mut scene.terms()), version)
            }
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Monotonic> {
        match self {
            Self::Groups(groups) => groups.next_deadline(),
            Self::Transactions(transactions) => transactions.next_deadline(),
        }
    }

    /// The state of groups, where it is that.
    pub(super) fn groups(&mut self) -> Option<&mut GroupShard> {
        match self {
            Self::Groups(groups) => Some(groups),
            Self::Transactions(_) => None,
        }
    }

    /// Forgets some of what concerns deleted topics; and the group to go on with.
    pub(super) fn topics_deleted(
        &mut self,
        names: &[Str],
        from: Option<&Str>,
    ) -> (Made, Option<Str>) {
        match self {
            Self::Groups(groups) => {
                let (decision, next) = groups.topics_deleted(names, from);
                (Made::of_groups(decision), next)
            }
            Self::Transactions(_) => (Made::default(), None),
        }
    }

    /// Takes in that partitions of a transaction have their marker.
    pub(super) fn marked(&mut self, scene: &mut Scene<'_>, marked: &transaction::Marked) -> Made {
        match self {
            Self::Groups(_) => Made::default(),
            Self::Transactions(transactions) => {
                let version = scene.image.transaction_version();
                Made::of_transactions(transactions.marked(&scene.terms(), marked), version)
            }
        }
    }

    /// Gives the partition up: the replies for all that wait.
    pub(super) fn resign(self) -> Vec<(Token, Reply)> {
        match self {
            Self::Groups(groups) => {
                let replies = groups.resign().into_iter();
                replies
                    .map(|(token, reply)| (token, Reply::Group(reply)))
                    .collect()
            }
            Self::Transactions(transactions) => {
                let replies = transactions.resign().into_iter();
                replies
                    .map(|(token, reply)| (token, Reply::Transaction(reply)))
                    .collect()
            }
        }
    }
}

/// What a log says to its coordinator.
#[derive(Debug)]
pub(super) enum Loaded {
    /// A record about groups.
    Group(GroupRecord),
    /// A record about groups that is part of a transaction.
    Pending(ProducerId, GroupRecord),
    /// The end of a producer's transaction, and whether it was committed.
    End(ProducerId, bool),
    /// A record about a transactional id.
    Transaction(TransactionRecord),
}

impl Loaded {
    /// What a record says; `None` where that is nothing to this kind of coordinator.
    pub(super) fn decode(
        kind: Kind,
        producer: Option<ProducerId>,
        key: &Bytes,
        value: Option<&Bytes>,
    ) -> Option<Self> {
        match kind {
            Kind::Groups => {
                let record = group_record::decode(key, value).ok()??;
                Some(match producer {
                    Some(producer) => Self::Pending(producer, record),
                    None => Self::Group(record),
                })
            }
            Kind::Transactions => {
                let record = transaction_record::decode(key, value).ok()??;
                Some(Self::Transaction(record))
            }
        }
    }
}
