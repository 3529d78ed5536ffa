//! Administration: topics, partitions, offsets, the cluster.
//!
//! A request that changes something is sent once: after a lost connection its outcome is unknown, and the caller is told so.
//! Questions are asked again until `operation_timeout_ms` is over.

use std::collections::BTreeMap;

use pelton_model::{ErrorCode, TopicId};
use pelton_protocol::codec::{Message, Str};
use pelton_protocol::message::create_partitions::{
    CreatePartitionsRequest, CreatePartitionsResponse, CreatePartitionsTopic,
};
use pelton_protocol::message::create_topics::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig, CreateTopicsRequest,
    CreateTopicsResponse,
};
use pelton_protocol::message::delete_topics::{
    DeleteTopicState, DeleteTopicsRequest, DeleteTopicsResponse,
};
use pelton_protocol::message::describe_cluster::{DescribeClusterRequest, DescribeClusterResponse};
use pelton_protocol::message::list_offsets::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopic,
};
use pelton_protocol::message::metadata::{MetadataRequest, MetadataResponse};
use pelton_transport::net::Net;

use crate::address::Address;
use crate::client::Client;
use crate::error::ClientError;
use crate::limits;
use crate::metadata::{self, Broker, TopicMetadata};

/// The first version of DeleteTopics that takes `topics` instead of `topic_names`.
const DELETE_TOPICS_STATES_VERSION: i16 = 6;

/// Administrative calls over a client's connections.
pub struct Admin<N: Net> {
    client: Client<N>,
}

/// A topic to create. [`NewTopic::new`] leaves partitions and replicas to the broker.
#[derive(Clone, Debug, Default)]
pub struct NewTopic {
    /// The name.
    pub name: Str,
    /// The number of partitions; −1 leaves it to the broker.
    pub partitions: i32,
    /// The number of replicas; −1 leaves it to the broker.
    pub replication_factor: i16,
    /// The replicas of each partition by hand; empty leaves them to the broker. Then both numbers must be −1.
    pub assignments: BTreeMap<i32, Vec<i32>>,
    /// The configuration.
    pub configs: Vec<(Str, Str)>,
}

impl NewTopic {
    /// A topic as the broker's defaults have it.
    #[must_use]
    pub fn new(name: impl Into<Str>) -> Self {
        Self {
            name: name.into(),
            partitions: -1,
            replication_factor: -1,
            ..Self::default()
        }
    }
}

/// A topic that was created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedTopic {
    /// The name.
    pub name: Str,
    /// The id; zero when the broker tells none.
    pub topic_id: TopicId,
    /// The number of partitions; −1 when the broker tells none.
    pub partitions: i32,
    /// The number of replicas; −1 when the broker tells none.
    pub replication_factor: i16,
}

/// The cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterDescription {
    /// The cluster's id.
    pub cluster_id: Str,
    /// The controller's node id; none when unknown.
    pub controller_id: Option<i32>,
    /// The brokers.
    pub brokers: Vec<Broker>,
}

/// Which offset is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetQuery {
    /// The first one kept.
    Earliest,
    /// The one after the last one committed.
    Latest,
    /// The one before which every transaction has ended: where readers of committed records end.
    LastStable,
    /// The first one whose record is not older than this time (milliseconds since the Unix epoch).
    Timestamp(i64),
    /// That of the record with the largest time.
    MaxTimestamp,
}

impl OffsetQuery {
    /// The first version of ListOffsets that knows the question.
    fn version_min(self) -> i16 {
        match self {
            Self::Earliest | Self::Latest | Self::Timestamp(_) => 1,
            Self::LastStable => 2,
            Self::MaxTimestamp => 7,
        }
    }

    fn wire(self) -> i64 {
        match self {
            Self::Latest | Self::LastStable => -1,
            Self::Earliest => -2,
            Self::MaxTimestamp => -3,
            Self::Timestamp(timestamp) => timestamp,
        }
    }
}

/// An offset that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedOffset {
    /// The offset; none when no record is young enough.
    pub offset: Option<i64>,
    /// The record's time; none where the question was for an end.
    pub timestamp: Option<i64>,
    /// The leader epoch of the record; −1 is unknown.
    pub leader_epoch: i32,
}

impl<N: Net> Admin<N> {
    /// Calls over `client`'s connections.
    #[must_use]
    pub fn new(client: &Client<N>) -> Self {
        Self {
            client: client.clone(),
        }
    }

    pub(crate) fn client(&self) -> &Client<N> {
        &self.client
    }

    /// Creates topics; one outcome per topic, in the broker's order.
    ///
    /// # Errors
    /// The request as a whole failed; whether topics were created is then unknown, unless nobody was reached.
    pub async fn create_topics(
        &self,
        topics: &[NewTopic],
        validate_only: bool,
    ) -> Result<Vec<(Str, Result<CreatedTopic, ClientError>)>, ClientError> {
        let request = CreateTopicsRequest {
            topics: topics.iter().map(creatable).collect(),
            timeout_ms: self.timeout_ms(),
            validate_only,
        };
        let response: CreateTopicsResponse = self.call_controller(&request).await?;
        let outcome = |topic: pelton_protocol::message::create_topics::CreatableTopicResult| {
            let (name, message) = (topic.name.clone(), topic.error_message);
            let checked =
                ClientError::refused("creating topic", name.clone(), topic.error_code, message);
            let created = checked.map(|()| CreatedTopic {
                name: topic.name,
                topic_id: topic.topic_id,
                partitions: topic.num_partitions,
                replication_factor: topic.replication_factor,
            });
            (name, created)
        };
        Ok(response.topics.into_iter().map(outcome).collect())
    }

    /// Deletes topics by name; one outcome per topic, in the broker's order.
    ///
    /// # Errors
    /// As [`Admin::create_topics`].
    pub async fn delete_topics(
        &self,
        topics: &[Str],
    ) -> Result<Vec<(Str, Result<(), ClientError>)>, ClientError> {
        let connection = self.client.controller().await?;
        let version = connection.version::<DeleteTopicsRequest>()?;
        let mut request = DeleteTopicsRequest {
            timeout_ms: self.timeout_ms(),
            ..DeleteTopicsRequest::default()
        };
        if version < DELETE_TOPICS_STATES_VERSION {
            request.topic_names = topics.to_vec();
        } else {
            let by_name = topics.iter().map(|name| DeleteTopicState {
                name: Some(name.clone()),
                ..DeleteTopicState::default()
            });
            request.topics = by_name.collect();
        }
        let response: DeleteTopicsResponse = connection.call(version, &request).await?;
        let mut outcomes = Vec::with_capacity(response.responses.len());
        for topic in response.responses {
            let name = topic.name.unwrap_or_default();
            self.client.metadata().borrow_mut().forget_topic(&name);
            let (code, message) = (topic.error_code, topic.error_message);
            let outcome = ClientError::refused("deleting topic", name.clone(), code, message);
            outcomes.push((name, outcome));
        }
        Ok(outcomes)
    }

    /// Raises the number of partitions of topics to a count each; one outcome per topic, in the broker's order.
    ///
    /// # Errors
    /// As [`Admin::create_topics`].
    pub async fn create_partitions(
        &self,
        topics: &[(Str, i32)],
        validate_only: bool,
    ) -> Result<Vec<(Str, Result<(), ClientError>)>, ClientError> {
        let grown = topics.iter().map(|(name, count)| CreatePartitionsTopic {
            name: name.clone(),
            count: *count,
            assignments: None,
        });
        let request = CreatePartitionsRequest {
            topics: grown.collect(),
            timeout_ms: self.timeout_ms(),
            validate_only,
        };
        let response: CreatePartitionsResponse = self.call_controller(&request).await?;
        let mut outcomes = Vec::with_capacity(response.results.len());
        for topic in response.results {
            self.client
                .metadata()
                .borrow_mut()
                .forget_topic(&topic.name);
            let (code, message) = (topic.error_code, topic.error_message);
            let operation = "adding partitions to topic";
            let outcome = ClientError::refused(operation, topic.name.clone(), code, message);
            outcomes.push((topic.name, outcome));
        }
        Ok(outcomes)
    }

    /// Every topic, sorted by name.
    ///
    /// # Errors
    /// Nobody answers.
    pub async fn list_topics(&self) -> Result<Vec<TopicMetadata>, ClientError> {
        let request = MetadataRequest {
            topics: None,
            allow_auto_topic_creation: false,
            ..MetadataRequest::default()
        };
        let response: MetadataResponse = self.client.call(&request).await?;
        let code = response.error_code;
        ClientError::refused("listing topics of", "the cluster", code, None)?;
        let mut topics = Vec::with_capacity(response.topics.len());
        for topic in &response.topics {
            if let Some(name) = topic.name.as_ref().filter(|_| topic.error_code == 0) {
                topics.push(metadata::topic(name, topic));
            }
        }
        topics.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(topics)
    }

    /// The topics named, one outcome each; nothing is created.
    ///
    /// # Errors
    /// Nobody answers.
    pub async fn describe_topics(
        &self,
        topics: &[Str],
    ) -> Result<Vec<(Str, Result<TopicMetadata, ClientError>)>, ClientError> {
        let broken = self.client.refresh_once(topics, false).await?;
        let broken: BTreeMap<Str, ErrorCode> = broken.into_iter().collect();
        let metadata = self.client.metadata().borrow();
        let describe = |name: &Str| {
            let unknown = || ErrorCode::UnknownTopicOrPartition;
            let described = match metadata.topic(name) {
                Some(topic) => Ok(TopicMetadata::clone(topic)),
                None => Err(ClientError::Refused {
                    operation: "describing topic",
                    object: name.clone(),
                    error: broken.get(name).copied().unwrap_or_else(unknown),
                    message: None,
                }),
            };
            (name.clone(), described)
        };
        Ok(topics.iter().map(describe).collect())
    }

    /// The cluster's id, controller and brokers.
    ///
    /// # Errors
    /// Nobody answers, or the broker refuses.
    pub async fn describe_cluster(&self) -> Result<ClusterDescription, ClientError> {
        let request = DescribeClusterRequest::default();
        let response: DescribeClusterResponse = self.client.call(&request).await?;
        let (code, message) = (response.error_code, response.error_message);
        ClientError::refused("describing", "the cluster", code, message)?;
        let brokers = response.brokers.into_iter().map(|broker| Broker {
            node_id: broker.broker_id,
            address: Address::new(broker.host, metadata::port(broker.port)),
            rack: broker.rack,
            is_fenced: broker.is_fenced,
        });
        Ok(ClusterDescription {
            cluster_id: response.cluster_id,
            controller_id: Some(response.controller_id).filter(|node_id| *node_id >= 0),
            brokers: brokers.collect(),
        })
    }

    /// Offsets of partitions, in the order asked; leaders are asked until they answer.
    ///
    /// # Errors
    /// One of the partitions does not exist or has no leader within `operation_timeout_ms`.
    pub async fn list_offsets(
        &self,
        queries: &[(Str, i32, OffsetQuery)],
    ) -> Result<Vec<ListedOffset>, ClientError> {
        let deadline = self.client.net().now();
        let deadline = deadline.plus_ms(self.client.options().operation_timeout_ms);
        let mut backoff = self.client.retry_backoff();
        let mut found = vec![None; queries.len()];
        loop {
            let failure = match self.list_missing(queries, &mut found).await {
                Ok(()) => return Ok(found.into_iter().flatten().collect()),
                Err(failure) => failure,
            };
            backoff.failed(self.client.net().now(), self.client.random());
            if !failure.is_retriable() || deadline <= backoff.not_before() {
                return Err(failure);
            }
            self.client.net().sleep_until(backoff.not_before()).await;
            for (topic, ..) in queries {
                self.client.metadata().borrow_mut().forget_topic(topic);
            }
        }
    }

    /// Asks for what is not in `found` yet; the first failure is told when all leaders have answered.
    async fn list_missing(
        &self,
        queries: &[(Str, i32, OffsetQuery)],
        found: &mut [Option<ListedOffset>],
    ) -> Result<(), ClientError> {
        let mut by_leader: BTreeMap<i32, Vec<usize>> = BTreeMap::new();
        for (index, (topic, partition, _)) in queries.iter().enumerate() {
            if found[index].is_some() {
                continue;
            }
            let known = self.client.topic(topic, false).await?;
            let Some(known) = known.partition(*partition) else {
                return Err(ClientError::NoPartition {
                    topic: topic.clone(),
                    partition: Some(*partition),
                    count: known.partitions.len(),
                });
            };
            let leader = known.leader.ok_or_else(|| ClientError::Refused {
                operation: "offsets of",
                object: format!("{topic}-{partition}").into(),
                error: ErrorCode::LeaderNotAvailable,
                message: None,
            })?;
            by_leader.entry(leader).or_default().push(index);
        }
        let mut outcome = Ok(());
        for (leader, asked) in by_leader {
            let answered = self.ask_leader(leader, queries, &asked, found).await;
            outcome = outcome.and(answered);
        }
        outcome
    }

    async fn ask_leader(
        &self,
        leader: i32,
        queries: &[(Str, i32, OffsetQuery)],
        asked: &[usize],
        found: &mut [Option<ListedOffset>],
    ) -> Result<(), ClientError> {
        let connection = self.client.connection_to(leader).await?;
        let version = connection.version::<ListOffsetsRequest>()?;
        // The same partition may be asked about twice, which one request cannot hold: each query is a request.
        for asked in asked.chunks(limits::IN_FLIGHT_MAX / 2) {
            let mut replies = Vec::with_capacity(asked.len());
            for &index in asked {
                let (topic, partition, query) = &queries[index];
                if version < query.version_min() {
                    let code = ErrorCode::UnsupportedVersion.code();
                    ClientError::refused("offsets of", format!("{topic}-{partition}"), code, None)?;
                }
                let request = list_request(topic, *partition, *query, self.timeout_ms());
                let timeout_ms = self.client.options().request_timeout_ms;
                replies.push(connection.start(version, &request, timeout_ms)?);
            }
            for (&index, reply) in asked.iter().zip(replies) {
                let (topic, partition, _) = &queries[index];
                let response: ListOffsetsResponse = reply.await?;
                found[index] = Some(listed(response, &format!("{topic}-{partition}"))?);
            }
        }
        Ok(())
    }

    async fn call_controller<Q: Message, S: Message>(&self, request: &Q) -> Result<S, ClientError> {
        let connection = self.client.controller().await?;
        connection.call(connection.version::<Q>()?, request).await
    }

    /// What brokers are told: less than the connection waits, so that their answer still comes.
    fn timeout_ms(&self) -> i32 {
        let timeout_ms = self.client.options().request_timeout_ms;
        i32::try_from(timeout_ms.saturating_mul(9) / 10).unwrap_or(i32::MAX)
    }
}

fn creatable(topic: &NewTopic) -> CreatableTopic {
    let assignments = topic.assignments.iter();
    let configs = topic.configs.iter();
    CreatableTopic {
        name: topic.name.clone(),
        num_partitions: topic.partitions,
        replication_factor: topic.replication_factor,
        assignments: assignments
            .map(|(partition, nodes)| CreatableReplicaAssignment {
                partition_index: *partition,
                broker_ids: nodes.clone(),
            })
            .collect(),
        configs: configs
            .map(|(name, value)| CreatableTopicConfig {
                name: name.clone(),
                value: Some(value.clone()),
            })
            .collect(),
    }
}

/// The one partition's offset in a response to [`list_request`].
fn listed(response: ListOffsetsResponse, object: &str) -> Result<ListedOffset, ClientError> {
    let topics = response.topics.into_iter();
    let answer = topics.flat_map(|topic| topic.partitions).next();
    let answer = answer.unwrap_or_default();
    ClientError::refused("offsets of", object, answer.error_code, None)?;
    Ok(ListedOffset {
        offset: Some(answer.offset).filter(|offset| *offset >= 0),
        timestamp: Some(answer.timestamp).filter(|timestamp| *timestamp >= 0),
        leader_epoch: answer.leader_epoch,
    })
}

fn list_request(
    topic: &Str,
    partition: i32,
    query: OffsetQuery,
    timeout_ms: i32,
) -> ListOffsetsRequest {
    ListOffsetsRequest {
        replica_id: -1,
        isolation_level: i8::from(query == OffsetQuery::LastStable),
        topics: vec![ListOffsetsTopic {
            name: topic.clone(),
            partitions: vec![ListOffsetsPartition {
                partition_index: partition,
                current_leader_epoch: -1,
                timestamp: query.wire(),
            }],
        }],
        timeout_ms,
    }
}
