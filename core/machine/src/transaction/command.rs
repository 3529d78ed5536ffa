//! What a coordinator is asked and what it answers: requests and responses without their wire form.

use pelton_model::{ErrorCode, ProducerEpoch, ProducerId, Str};

/// A request to one coordinator.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Takes a transactional id over.
    InitProducerId(InitProducerId),
    /// Adds partitions to a transaction, or looks whether they are there.
    AddPartitions(AddPartitions),
    /// Ends a transaction.
    EndTxn(EndTxn),
    /// Lists this coordinator's transactional ids.
    List(ListTransactions),
    /// Describes transactional ids of this coordinator.
    Describe(Vec<Str>),
}

/// A code for each partition, by topic.
pub type PartitionCodes = Vec<(Str, Vec<(i32, ErrorCode)>)>;

/// The answer to the [`Command`] of the same name.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// The producer id and epoch to go on with.
    InitProducerId(Result<(ProducerId, ProducerEpoch), ErrorCode>),
    /// A code for each partition, in the order asked.
    AddPartitions(PartitionCodes),
    /// The producer id and epoch to go on with.
    EndTxn(Result<(ProducerId, ProducerEpoch), ErrorCode>),
    /// This coordinator's share; an error is the whole request's.
    List(Result<Vec<ListedTransaction>, ErrorCode>),
    /// In the order asked.
    Describe(Vec<(Str, Result<DescribedTransaction, ErrorCode>)>),
}

impl Command {
    /// The answer that refuses all of the request, in the shape that clients expect.
    #[must_use]
    pub fn refused(&self, error: ErrorCode) -> Reply {
        match self {
            Self::InitProducerId(_) => Reply::InitProducerId(Err(error)),
            Self::AddPartitions(add) => Reply::AddPartitions(add.all(error)),
            Self::EndTxn(_) => Reply::EndTxn(Err(error)),
            Self::List(_) => Reply::List(Err(error)),
            Self::Describe(ids) => {
                let refused = |id: &Str| (id.clone(), Err(error));
                Reply::Describe(ids.iter().map(refused).collect())
            }
        }
    }

    /// Whether a producer id may be wanted for it.
    #[must_use]
    pub fn may_draw(&self) -> bool {
        match self {
            Self::InitProducerId(_) | Self::EndTxn(_) => true,
            Self::AddPartitions(_) | Self::List(_) | Self::Describe(_) => false,
        }
    }
}

impl Reply {
    /// The refusal that stands for this reply when its records could not be written.
    #[must_use]
    pub fn spoiled(self, error: ErrorCode) -> Self {
        match self {
            Self::InitProducerId(_) => Self::InitProducerId(Err(error)),
            Self::AddPartitions(mut topics) => {
                for (_, code) in topics.iter_mut().flat_map(|(_, codes)| codes) {
                    *code = error;
                }
                Self::AddPartitions(topics)
            }
            Self::EndTxn(_) => Self::EndTxn(Err(error)),
            Self::List(_) => Self::List(Err(error)),
            Self::Describe(described) => {
                let described = described.into_iter().map(|(id, _)| (id, Err(error)));
                Self::Describe(described.collect())
            }
        }
    }
}

/// A producer takes a transactional id over.
#[derive(Clone, Debug, PartialEq)]
pub struct InitProducerId {
    /// The transactional id; not empty.
    pub transactional_id: Str,
    /// How long its transactions may stay open.
    pub timeout_ms: i32,
    /// The producer id and epoch that the producer had, when it goes on after an error (KIP-360).
    pub expected: Option<(ProducerId, ProducerEpoch)>,
}

/// What is to become of partitions that are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddMode {
    /// Only look whether the transaction has them.
    Verify,
    /// Add them, for a client that works by this transaction version.
    Add(i16),
}

/// Partitions that a transaction writes to.
#[derive(Clone, Debug, PartialEq)]
pub struct AddPartitions {
    /// The transactional id.
    pub transactional_id: Str,
    /// The producer's id.
    pub producer_id: ProducerId,
    /// The producer's epoch.
    pub producer_epoch: ProducerEpoch,
    /// What is to become of them.
    pub mode: AddMode,
    /// The partitions, by topic name.
    pub topics: Vec<(Str, Vec<i32>)>,
}

impl AddPartitions {
    /// The same code for every partition.
    #[must_use]
    pub fn all(&self, error: ErrorCode) -> PartitionCodes {
        self.each(|_, _| error)
    }

    /// A code for every partition.
    pub(super) fn each(&self, code: impl Fn(&Str, i32) -> ErrorCode) -> PartitionCodes {
        let topic = |(topic, partitions): &(Str, Vec<i32>)| {
            let codes = partitions.iter();
            let codes = codes.map(|&partition| (partition, code(topic, partition)));
            (topic.clone(), codes.collect())
        };
        self.topics.iter().map(topic).collect()
    }
}

/// A producer ends its transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct EndTxn {
    /// The transactional id.
    pub transactional_id: Str,
    /// The producer's id.
    pub producer_id: ProducerId,
    /// The producer's epoch.
    pub producer_epoch: ProducerEpoch,
    /// Whether it is committed, not aborted.
    pub commit: bool,
    /// The transaction version that the client works by.
    pub client_version: i16,
}

/// Partitions of a transaction that have their marker, or never will.
#[derive(Clone, Debug, PartialEq)]
pub struct Marked {
    /// The transactional id.
    pub transactional_id: Str,
    /// The producer of the markers.
    pub producer_id: ProducerId,
    /// The epoch of the markers.
    pub producer_epoch: ProducerEpoch,
    /// The partitions, by topic name.
    pub partitions: Vec<(Str, Vec<i32>)>,
}

/// Which transactional ids to list; empty filters let all pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListTransactions {
    /// States, as Kafka spells them.
    pub states: Vec<Str>,
    /// Only those whose transaction began longer ago than this; negative lets all pass.
    pub longer_than_ms: i64,
}

/// A transactional id as lists show it.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedTransaction {
    /// The transactional id.
    pub transactional_id: Str,
    /// The producer's id.
    pub producer_id: ProducerId,
    /// The state's name.
    pub state: &'static str,
}

/// A transactional id as tools describe it.
#[derive(Clone, Debug, PartialEq)]
pub struct DescribedTransaction {
    /// The state's name.
    pub state: &'static str,
    /// How long a transaction may stay open.
    pub timeout_ms: i32,
    /// When the transaction began; −1 when there never was one.
    pub started_ms: i64,
    /// The producer's id.
    pub producer_id: ProducerId,
    /// The producer's epoch.
    pub producer_epoch: ProducerEpoch,
    /// The partitions of the transaction; while it ends, those without a marker.
    pub partitions: Vec<(Str, Vec<i32>)>,
}
