//! From a frame to a handler: one look at the API table decides whether a request is served, refused or the end of its connection.

use std::cell::RefCell;

use bytes::BytesMut;
use pelton_machine::connection::{Outcome, RequestClass};
use pelton_model::slice::Slice;
use pelton_protocol::api::{self, Admission, ApiKey, ApiRow, Class};
use pelton_protocol::codec::{Message, Reader, Str};
use pelton_protocol::header::{self, RequestHeader};
use pelton_protocol::message::api_versions::ApiVersionsResponse;

use crate::connection::Client;
use crate::env::Env;
use crate::handler::produce::ProduceAnswer;
use crate::handler::{
    self, Handled, acls, add_offsets_to_txn, add_partitions_to_txn, alter_configs,
    alter_partition_reassignments, alter_replica_log_dirs, api_versions, consumer_group_describe,
    consumer_group_heartbeat, create_partitions, create_topics, delete_groups, delete_records,
    delete_topics, describe_cluster, describe_configs, describe_groups, describe_log_dirs,
    describe_producers, describe_quorum, describe_topic_partitions, describe_transactions,
    elect_leaders, end_txn, fetch, find_coordinator, heartbeat, init_producer_id, join_group,
    leave_group, list_config_resources, list_groups, list_offsets, list_partition_reassignments,
    list_transactions, metadata, offset_commit, offset_delete, offset_fetch,
    offset_for_leader_epoch, sync_group, txn_offset_commit, unregister_broker, update_features,
    write_txn_markers,
};

/// A request whose header is understood.
pub(crate) struct Request {
    /// `None` for an ApiVersions request of a version nobody knows yet.
    row: Option<&'static ApiRow>,
    pub(crate) version: i16,
    pub(crate) correlation_id: i32,
    pub(crate) client_id: Option<Str>,
    pub(crate) frame: BytesMut,
    /// Where the body begins in the frame.
    pub(crate) body_start: usize,
    /// The error codes of its response.
    errors: Option<RefCell<Vec<i16>>>,
}

impl Request {
    /// Reads the header; the error says why the connection must be closed. `counts_errors`: whether somebody wants to know
    /// of the error codes that are answered.
    pub(crate) fn parse(frame: BytesMut, counts_errors: bool) -> Result<Self, String> {
        let (Some(key), Some(version)) = (int16_at(&frame, 0), int16_at(&frame, 2)) else {
            return Err("a header is cut short".to_owned());
        };
        match api::admit(key, version) {
            Admission::Close => Err(format!("API {key} version {version} is not served")),
            Admission::AnswerUnsupportedVersion => {
                let id = frame.get(4..8).and_then(|bytes| bytes.try_into().ok());
                let correlation_id = id.map(i32::from_be_bytes).ok_or("a header is cut short")?;
                Ok(Self {
                    row: None,
                    version,
                    correlation_id,
                    client_id: None,
                    frame,
                    body_start: 8,
                    errors: counts_errors.then(RefCell::default),
                })
            }
            Admission::Serve(row) => {
                let mut reader = Reader::new(&frame);
                let header = RequestHeader::decode(&mut reader)
                    .map_err(|error| format!("a {} header: {error}", row.name))?;
                let body_start = reader.position();
                Ok(Self {
                    row: Some(row),
                    version,
                    correlation_id: header.correlation_id,
                    client_id: header.client_id,
                    frame,
                    body_start,
                    errors: counts_errors.then(RefCell::default),
                })
            }
        }
    }

    /// The number of its API.
    pub(crate) fn api_code(&self) -> i16 {
        self.row.map_or(ApiKey::ApiVersions, |row| row.key).code()
    }

    /// How it orders with others of its connection.
    pub(crate) fn class(&self) -> RequestClass {
        match self.row.map(|row| row.class) {
            Some(Class::Produce) => RequestClass::Produce,
            Some(Class::Barrier) | None => RequestClass::Barrier,
        }
    }

    /// Decodes the body; the error says why the connection must be closed.
    pub(crate) fn body<M: Message>(&self) -> Result<M, String> {
        let mut reader = Reader::new(&self.frame[self.body_start..]);
        M::decode(&mut reader, self.version)
            .map_err(|error| format!("{} version {}: {error}", M::NAME, self.version))
    }

    /// Notes the error codes of a response, to be counted when the request is done.
    pub(crate) fn note_errors<M: Message>(&self, response: &M) {
        let Some(errors) = &self.errors else { return };
        response.visit_error_codes(&mut |code| {
            if code != 0 {
                errors.borrow_mut().push(code);
            }
        });
    }

    /// A whole response.
    pub(crate) fn respond<M: Message>(&self, response: &M) -> Outcome<Answer> {
        self.note_errors(response);
        let writer = header::response_frame(self.correlation_id, self.version, response);
        Outcome::Answer(Answer::Slices(writer.into_slices()))
    }
}

fn int16_at(bytes: &[u8], at: usize) -> Option<i16> {
    bytes
        .get(at..at + 2)
        .and_then(|bytes| bytes.try_into().ok())
        .map(i16::from_be_bytes)
}

/// An answer on its way out.
pub(crate) enum Answer {
    /// Encoded.
    Slices(Vec<Slice>),
    /// To be encoded when its turn comes.
    Produce(ProduceAnswer),
}

/// What became of a request that was begun.
pub(crate) enum Begun {
    /// Its batches are under way; the connection is woken when all are decided.
    Produce(ProduceAnswer),
    /// It is done.
    Done(Outcome<Answer>),
}

impl Answer {
    /// Adds the answer behind what is in `out`.
    pub(crate) fn push<E: Env>(self, client: &Client<E>, out: &mut Vec<Slice>) {
        match self {
            Self::Produce(answer) => answer.encode(client, out),
            Self::Slices(slices) => out.extend(slices),
        }
    }
}

/// Begins a request: Produce up to the point where its batches are queued, everything else to its end.
pub(crate) async fn begin<E: Env>(client: &Client<E>, request: Request) -> Begun {
    let Some(row) = request.row else {
        let response = ApiVersionsResponse::unsupported_version();
        let writer = header::response_frame(request.correlation_id, 0, &response);
        return Begun::Done(Outcome::Answer(Answer::Slices(writer.into_slices())));
    };
    if row.key == ApiKey::Produce {
        return match handler::produce::begin(client, request).await {
            Ok(answer) => Begun::Produce(answer),
            Err(problem) => Begun::Done(client.refuse(&problem)),
        };
    }
    let outcome = handled(client, &request, row.key).await;
    if let Some(errors) = &request.errors {
        let metrics = &client.shard.metrics;
        metrics.count_error_codes(row.key.code(), &errors.take());
    }
    Begun::Done(outcome.unwrap_or_else(|problem| client.refuse(&problem)))
}

/// Every API but Produce, to its handler.
async fn handled<E: Env>(client: &Client<E>, asked: &Request, key: ApiKey) -> Handled {
    match key {
        ApiKey::Produce => unreachable!("begun elsewhere"),
        ApiKey::Fetch => fetch::handle(client, asked).await,
        ApiKey::ListOffsets => list_offsets::handle(client, asked).await,
        ApiKey::Metadata => metadata::handle(client, asked).await,
        ApiKey::ApiVersions => api_versions::handle(client, asked),
        ApiKey::CreateTopics => create_topics::handle(client, asked).await,
        ApiKey::DeleteTopics => delete_topics::handle(client, asked).await,
        ApiKey::DeleteRecords => delete_records::handle(client, asked).await,
        ApiKey::InitProducerId => init_producer_id::handle(client, asked).await,
        ApiKey::OffsetForLeaderEpoch => offset_for_leader_epoch::handle(client, asked).await,
        ApiKey::DescribeConfigs => describe_configs::handle(client, asked).await,
        ApiKey::AlterConfigs => alter_configs::handle(client, asked).await,
        ApiKey::IncrementalAlterConfigs => alter_configs::handle_incremental(client, asked).await,
        ApiKey::CreatePartitions => create_partitions::handle(client, asked).await,
        ApiKey::DescribeLogDirs => describe_log_dirs::handle(client, asked).await,
        ApiKey::AlterReplicaLogDirs => alter_replica_log_dirs::handle(client, asked).await,
        ApiKey::DescribeAcls => acls::describe(asked),
        ApiKey::CreateAcls => acls::create(asked),
        ApiKey::DeleteAcls => acls::delete(asked),
        ApiKey::ElectLeaders => elect_leaders::handle(client, asked).await,
        ApiKey::AlterPartitionReassignments => {
            alter_partition_reassignments::handle(client, asked).await
        }
        ApiKey::ListPartitionReassignments => {
            list_partition_reassignments::handle(client, asked).await
        }
        ApiKey::DescribeQuorum => describe_quorum::handle(client, asked).await,
        ApiKey::DescribeProducers => describe_producers::handle(client, asked).await,
        ApiKey::UnregisterBroker => unregister_broker::handle(client, asked),
        ApiKey::DescribeTopicPartitions => describe_topic_partitions::handle(client, asked).await,
        ApiKey::DescribeCluster => describe_cluster::handle(client, asked),
        ApiKey::WriteTxnMarkers => write_txn_markers::handle(client, asked).await,
        ApiKey::AddPartitionsToTxn => add_partitions_to_txn::handle(client, asked).await,
        ApiKey::AddOffsetsToTxn => add_offsets_to_txn::handle(client, asked).await,
        ApiKey::EndTxn => end_txn::handle(client, asked).await,
        ApiKey::TxnOffsetCommit => txn_offset_commit::handle(client, asked).await,
        ApiKey::DescribeTransactions => describe_transactions::handle(client, asked).await,
        ApiKey::ListTransactions => list_transactions::handle(client, asked).await,
        ApiKey::UpdateFeatures => update_features::handle(client, asked).await,
        ApiKey::ListConfigResources => list_config_resources::handle(client, asked),
        ApiKey::OffsetCommit => offset_commit::handle(client, asked).await,
        ApiKey::OffsetFetch => offset_fetch::handle(client, asked).await,
        ApiKey::FindCoordinator => find_coordinator::handle(client, asked).await,
        ApiKey::JoinGroup => join_group::handle(client, asked).await,
        ApiKey::Heartbeat => heartbeat::handle(client, asked).await,
        ApiKey::LeaveGroup => leave_group::handle(client, asked).await,
        ApiKey::SyncGroup => sync_group::handle(client, asked).await,
        ApiKey::DescribeGroups => describe_groups::handle(client, asked).await,
        ApiKey::ListGroups => list_groups::handle(client, asked).await,
        ApiKey::DeleteGroups => delete_groups::handle(client, asked).await,
        ApiKey::OffsetDelete => offset_delete::handle(client, asked).await,
        ApiKey::ConsumerGroupHeartbeat => consumer_group_heartbeat::handle(client, asked).await,
        ApiKey::ConsumerGroupDescribe => consumer_group_describe::handle(client, asked).await,
    }
}
