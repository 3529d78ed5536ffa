//! Produce: validate each batch once, queue the good ones with their owners, answer when all are decided.
//!
//! Invariants:
//! 1. A bad batch changes nothing for the others of its request.
//! 2. The batches of a request are queued in its order, those of one owner in one message.
//! 3. Record bytes are not copied, unless the topic wants another codec: each partition's batch is split off the frame.
//! 4. A transactional batch is appended only when its transaction is open (`verify`).
//! 5. What would hold the shard up (large compressed batches, other codecs) is done by its helper thread, before anything of the request
//!    is queued and before the connection's next request begins: batches keep their order.

mod verify;

use std::rc::Rc;

use bytes::{Buf, BytesMut};
use pelton_machine::partition::TxnGuard;
use pelton_model::batch::store::{Admitted, Here, Target, admit, admit_here};
use pelton_model::batch::validate::{InvalidBatch, ProduceRules, ValidBatch, only_batch};
use pelton_model::batch::{BatchHeader, Scratch};
use pelton_model::producer_state::{BatchFacts, ProducerStamp};
use pelton_model::slice::Slice;
use pelton_model::{ErrorCode, LeaderEpoch, PartitionId, ShardId, Timestamp, TopicPartition};
use pelton_protocol::api::ApiKey;
use pelton_protocol::codec::{FrameSplitter, Reader, Str};
use pelton_protocol::header;
use pelton_protocol::message::produce::{
    BatchIndexAndErrorMessage, LeaderIdAndEpoch, NodeEndpoint, PartitionProduceData,
    PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceData,
    TopicProduceResponse,
};
use pelton_transport::net::Net;

use self::verify::verify;
use crate::connection::Client;
use crate::dispatch::Request;
use crate::env::Env;
use crate::metrics::stages::AppendStages;
use crate::shard::Shard;
use crate::shard::append::{AppendGroup, AppendTerms};
use crate::shard::message::{
    self, AppendItem, AppendOutcome, AppendRequest, OffsetPosition, OffsetQuery, Response,
};
use crate::shard::topics::TopicEntry;

/// The client id that may write to Kafka's own topics.
const ADMIN_CLIENT_ID: &str = "__admin_client";

/// A Produce request whose batches are queued.
pub(crate) struct ProduceAnswer {
    correlation_id: i32,
    version: i16,
    is_silent: bool,
    response: ProduceResponse,
    /// Where each place of the group stands in the response: topic, partition.
    places: Vec<(usize, usize)>,
    group: Rc<AppendGroup>,
    has_failed: bool,
}

/// Validates and queues. The error says why the connection must be closed.
pub(crate) async fn begin<E: Env>(
    client: &Client<E>,
    request: Request,
) -> Result<ProduceAnswer, String> {
    let (version, correlation_id) = (request.version, request.correlation_id);
    let mut body = request.frame;
    body.advance(request.body_start);
    let mut decoded = ProduceRequest::decode(&mut Reader::new(&body), version)
        .map_err(|error| format!("Produce version {version}: {error}"))?;
    let shard = &client.shard;
    let is_admin = request.client_id.as_deref() == Some(ADMIN_CLIENT_ID);
    let mut intake = Intake::new(client, version, is_admin, &decoded, body);
    let mut responses: Vec<TopicProduceResponse> = (0..)
        .zip(decoded.topic_data)
        .map(|(index, topic)| intake.topic(index, topic))
        .collect();
    intake.labour(&mut responses).await;
    let Intake {
        mut admitted,
        mut has_failed,
        refused_records,
        ..
    } = intake;
    let transactional_id = decoded.transactional_id.take();
    has_failed |= verify(
        client,
        transactional_id,
        version,
        &mut admitted,
        &mut responses,
    )
    .await;
    if !is_acks(decoded.acks) {
        has_failed |= !admitted.is_empty();
        refuse_acks(&mut admitted, &mut responses);
    }
    let places: Vec<(usize, usize)> = admitted.iter().map(|one| one.place).collect();
    let items = (0_u32..).zip(admitted).map(|(index, one)| one.item(index));
    let items: Vec<AppendItem> = items.collect();
    let now = shard.net.now();
    client.timeline.on_handled(now);
    let group = AppendGroup::for_connection(places.len(), Rc::clone(&client.registered.wake), now);
    if places.is_empty() {
        client.registered.wake.notify();
    }
    let mut answer = ProduceAnswer {
        correlation_id,
        version,
        is_silent: decoded.acks == 0,
        response: ProduceResponse {
            responses,
            ..ProduceResponse::default()
        },
        places,
        group: Rc::clone(&group),
        has_failed,
    };
    let timeout_ms = u64::try_from(decoded.timeout_ms).unwrap_or(0);
    let terms = AppendTerms {
        until_committed: decoded.acks == -1,
        deadline: now.plus_ms(timeout_ms),
    };
    queue(client, items, terms, timeout_ms, &group).await;
    for (place, partition) in refused_records {
        let log_start = log_start(shard, partition).await;
        answer.response.responses[place.0].partition_responses[place.1].log_start_offset =
            log_start;
    }
    Ok(answer)
}

fn is_acks(acks: i16) -> bool {
    (-1..=1).contains(&acks)
}

/// Refuses what could be appended, were it not for the acks: the last thing that Kafka looks at before its log.
fn refuse_acks(admitted: &mut Vec<AdmittedBatch>, responses: &mut [TopicProduceResponse]) {
    for one in admitted.drain(..) {
        let (topic, partition) = one.place;
        let response = &mut responses[topic].partition_responses[partition];
        *response = refusal(response.index, &bare(ErrorCode::InvalidRequiredAcks));
    }
}

/// What is wrong with every batch of a request, if anything: any transactional batch without a transactional id.
fn refused_as_a_whole(request: &ProduceRequest, body: &[u8]) -> Option<ErrorCode> {
    if request.transactional_id.is_some() {
        return None;
    }
    let partitions = request
        .topic_data
        .iter()
        .flat_map(|topic| &topic.partition_data);
    let mut ranges = partitions.filter_map(|data| data.records.as_ref()?.range());
    let is_transactional = |batch: &[u8]| {
        BatchHeader::parse(batch)
            .is_ok_and(|header| header.is_transactional() && header.size_bytes() <= batch.len())
    };
    ranges
        .any(|range| is_transactional(&body[range]))
        .then_some(ErrorCode::TransactionalIdAuthorizationFailed)
}

/// The first offset of a partition; −1 when its owner cannot tell.
async fn log_start<E: Env>(shard: &Rc<Shard<E>>, partition: TopicPartition) -> i64 {
    let query = OffsetQuery {
        partition,
        current_leader_epoch: LeaderEpoch::NONE,
        position: OffsetPosition::Earliest,
        read_committed: false,
    };
    let owner = shard.owner(partition);
    let answer = shard
        .ask(owner, message::Request::Offsets(vec![query]))
        .await;
    if let Response::Offsets(answers) = answer {
        return answers.first().map_or(-1, |answer| answer.offset.0);
    }
    -1
}

/// Hands the batches to their owners, in order: one message to each.
async fn queue<E: Env>(
    client: &Client<E>,
    items: Vec<AppendItem>,
    terms: AppendTerms,
    timeout_ms: u64,
    group: &Rc<AppendGroup>,
) {
    let shard = &client.shard;
    let mut is_own = false;
    let mut remote: Vec<(ShardId, Vec<AppendItem>)> = Vec::new();
    for item in items {
        let owner = shard.owner(item.partition);
        if owner == shard.id {
            let place = item.index;
            is_own = true;
            shard.append(item, place, terms, group);
        } else if let Some((_, batches)) = remote.iter_mut().find(|(known, _)| *known == owner) {
            batches.push(item);
        } else {
            remote.push((owner, vec![item]));
        }
    }
    if is_own {
        client.note_owner(shard.id);
    }
    for (owner, items) in remote {
        client.note_owner(owner);
        let request = message::Request::Append(AppendRequest {
            until_committed: terms.until_committed,
            timeout_ms,
            items,
        });
        shard
            .calls
            .start_append(owner, request, Rc::clone(group))
            .await;
    }
}

/// Takes in the batches of one request.
struct Intake<'a, E: Env> {
    client: &'a Client<E>,
    shard: &'a Rc<Shard<E>>,
    now: Timestamp,
    version: i16,
    has_transactional_id: bool,
    has_odd_acks: bool,
    is_admin: bool,
    refused: Option<ErrorCode>,
    frame: FrameSplitter,
    /// What may be appended, in the order of the request once all is judged.
    admitted: Vec<AdmittedBatch>,
    /// What the helper thread is to judge.
    laborious: Vec<Labour>,
    has_failed: bool,
    /// Partitions whose batch Kafka's log refuses: it tells its start beside that.
    refused_records: Vec<((usize, usize), TopicPartition)>,
}

impl<'a, E: Env> Intake<'a, E> {
    fn new(
        client: &'a Client<E>,
        version: i16,
        is_admin: bool,
        decoded: &ProduceRequest,
        body: BytesMut,
    ) -> Self {
        Self {
            client,
            shard: &client.shard,
            now: client.shard.net.wall_clock(),
            version,
            has_transactional_id: decoded.transactional_id.is_some(),
            has_odd_acks: !is_acks(decoded.acks),
            is_admin,
            refused: refused_as_a_whole(decoded, &body),
            frame: FrameSplitter::new(body),
            admitted: Vec::new(),
            laborious: Vec::new(),
            has_failed: false,
            refused_records: Vec::new(),
        }
    }

    fn topic(&mut self, index: usize, data: TopicProduceData) -> TopicProduceResponse {
        let TopicProduceData {
            name,
            topic_id,
            partition_data,
        } = data;
        let topic = self.find(&name, topic_id);
        let places = (0..).zip(partition_data);
        let partition_responses = places
            .map(|(at, partition)| self.partition((index, at), &topic, partition))
            .collect();
        TopicProduceResponse {
            name,
            topic_id,
            partition_responses,
        }
    }

    fn find(
        &self,
        name: &Str,
        topic_id: pelton_model::TopicId,
    ) -> Result<Rc<TopicEntry>, ErrorCode> {
        if let Some(error) = self.refused {
            return Err(error);
        }
        let topic = if self.version < 13 {
            self.shard
                .topic_by_name(name)
                .ok_or(ErrorCode::UnknownTopicOrPartition)?
        } else {
            self.shard
                .topic_by_id(topic_id)
                .ok_or(ErrorCode::UnknownTopicId)?
        };
        if topic.is_internal && !self.is_admin {
            return Err(ErrorCode::InvalidTopicException);
        }
        self.client.on_topic(ApiKey::Produce, &topic);
        Ok(topic)
    }

    fn partition(
        &mut self,
        place: (usize, usize),
        topic: &Result<Rc<TopicEntry>, ErrorCode>,
        data: PartitionProduceData,
    ) -> PartitionProduceResponse {
        match self.admit(place, topic, &data) {
            Ok(()) => PartitionProduceResponse {
                index: data.index,
                ..PartitionProduceResponse::default()
            },
            Err(invalid) => {
                self.has_failed = true;
                refusal(data.index, &invalid)
            }
        }
    }

    fn admit(
        &mut self,
        place: (usize, usize),
        topic: &Result<Rc<TopicEntry>, ErrorCode>,
        data: &PartitionProduceData,
    ) -> Result<(), InvalidBatch> {
        let topic = topic.as_ref().map_err(|&error| bare(error))?;
        if !topic.has_partition(data.index) {
            return Err(bare(ErrorCode::UnknownTopicOrPartition));
        }
        let Some(range) = data.records.as_ref().and_then(|records| records.range()) else {
            return Err(bare(ErrorCode::InvalidRecord));
        };
        let partition = TopicPartition {
            topic_id: topic.id,
            partition: PartitionId(data.index),
        };
        let (rules, target) = (self.rules(topic), topic.config.stored_codec());
        let batch = self.frame.take(range);
        if self.has_odd_acks {
            // Kafka names what is no batch at all first.
            only_batch(&batch, &rules)?;
        }
        let here = admit_here(batch, &rules, target, &mut self.shard.scratch.borrow_mut());
        match here {
            Here::Done(judged) => self.judged(place, partition, judged),
            Here::Elsewhere(batch) => {
                self.laborious.push(Labour {
                    place,
                    index: data.index,
                    partition,
                    data: batch,
                    rules,
                    target,
                });
                Ok(())
            }
        }
    }

    fn rules(&self, topic: &TopicEntry) -> ProduceRules {
        ProduceRules {
            now: self.now,
            max_message_bytes: bytes_of(topic.config.max_message_bytes),
            segment_bytes: bytes_of(topic.config.segment_bytes),
            timestamp_type: topic.config.message_timestamp_type,
            before_max_ms: topic.config.message_timestamp_before_max_ms,
            after_max_ms: topic.config.message_timestamp_after_max_ms,
            compacted: topic.config.cleanup_policy.compact,
            produce_version: self.version,
            has_transactional_id: self.has_transactional_id,
            decompressed_bytes_max: u64::MAX,
        }
    }

    /// Takes in a batch that is judged.
    fn judged(
        &mut self,
        place: (usize, usize),
        partition: TopicPartition,
        judged: Result<Admitted, InvalidBatch>,
    ) -> Result<(), InvalidBatch> {
        let judged = judged.map_err(|invalid| match self.has_odd_acks {
            true => bare(ErrorCode::InvalidRequiredAcks),
            false => invalid,
        });
        let (batch, valid) = judged.inspect_err(|invalid| {
            if invalid.tells_log_start {
                self.refused_records.push((place, partition));
            }
        })?;
        self.admitted.push(AdmittedBatch {
            place,
            partition,
            batch,
            valid,
            guard: TxnGuard::None,
        });
        Ok(())
    }

    /// Has the helper thread judge what is left, and puts everything into the order of the request.
    async fn labour(&mut self, responses: &mut [TopicProduceResponse]) {
        if self.laborious.is_empty() {
            return;
        }
        let left = std::mem::take(&mut self.laborious);
        let done = self.shard.net.run_blocking(move || {
            let mut scratch = Scratch::default();
            let judge = |labour: Labour| {
                let judged = admit(labour.data, &labour.rules, labour.target, &mut scratch);
                (labour.place, labour.index, labour.partition, judged)
            };
            left.into_iter().map(judge).collect::<Vec<_>>()
        });
        for (place, index, partition, judged) in done.await {
            if let Err(invalid) = self.judged(place, partition, judged) {
                self.has_failed = true;
                responses[place.0].partition_responses[place.1] = refusal(index, &invalid);
            }
        }
        self.admitted.sort_by_key(|one| one.place);
    }
}

/// One partition's data, and by what rules it is to be judged.
struct Labour {
    place: (usize, usize),
    index: i32,
    partition: TopicPartition,
    data: BytesMut,
    rules: ProduceRules,
    target: Target,
}

/// A batch that may be appended.
struct AdmittedBatch {
    place: (usize, usize),
    partition: TopicPartition,
    batch: BytesMut,
    valid: ValidBatch,
    /// Why it may begin a transaction, if it is part of one.
    guard: TxnGuard,
}

impl AdmittedBatch {
    fn item(self, index: u32) -> AppendItem {
        let valid = &self.valid;
        let facts = BatchFacts {
            last_offset_delta: valid.last_offset_delta,
            producer: valid.producer.map(ProducerStamp::from),
            is_transactional: valid.is_transactional,
            max_timestamp: valid.max_timestamp,
        };
        AppendItem {
            index,
            partition: self.partition,
            batch: self.batch,
            facts,
            rewrite: valid.timestamp_rewrite,
            guard: self.guard,
        }
    }
}

fn bytes_of(value: u32) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

fn bare(error: ErrorCode) -> InvalidBatch {
    InvalidBatch {
        error,
        message: String::new(),
        record_errors: Vec::new(),
        tells_log_start: false,
    }
}

fn refusal(index: i32, invalid: &InvalidBatch) -> PartitionProduceResponse {
    let record_errors =
        invalid
            .record_errors
            .iter()
            .map(|(batch_index, text)| BatchIndexAndErrorMessage {
                batch_index: *batch_index,
                batch_index_error_message: Some(Str::from(text)),
            });
    PartitionProduceResponse {
        index,
        error_code: invalid.error.code(),
        base_offset: -1,
        record_errors: record_errors.collect(),
        error_message: (!invalid.message.is_empty()).then(|| Str::from(&invalid.message)),
        ..PartitionProduceResponse::default()
    }
}

fn endpoint<E: Env>(client: &Client<E>) -> NodeEndpoint {
    let identity = client.shard.identity();
    let told = &identity.endpoints[client.listener_index];
    NodeEndpoint {
        node_id: identity.node_id.0,
        host: told.host.clone(),
        port: i32::from(told.port),
        rack: client.shard.config.broker_rack.as_deref().map(Str::from),
    }
}

impl ProduceAnswer {
    /// Whether every batch is decided.
    pub(crate) fn is_complete(&self) -> bool {
        self.group.is_complete()
    }

    /// Whether nothing is to be sent (acks=0).
    pub(crate) fn is_silent(&self) -> bool {
        self.is_silent
    }

    /// When the batch was where that was decided last.
    pub(crate) fn stages(&self) -> AppendStages {
        self.group.stages()
    }

    /// Whether any batch of a complete answer failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed || self.group.has_failed()
    }

    /// Encodes a complete answer behind what is in `out`.
    pub(crate) fn encode<E: Env>(mut self, client: &Client<E>, out: &mut Vec<Slice>) {
        let mut names_leader = false;
        for (&(topic, partition), mut outcome) in self.places.iter().zip(self.group.take()) {
            if client.is_core_direct() {
                // Clients there know cores, and ask for the metadata when they are told of an error alone.
                outcome.leader = None;
            }
            let response = &mut self.response.responses[topic].partition_responses[partition];
            names_leader |= outcome.leader.is_some();
            fill(response, &outcome);
        }
        if names_leader {
            self.response.node_endpoints.push(endpoint(client));
        }
        client.shard.metrics.count_errors(&self.response);
        let writer = header::response_frame(self.correlation_id, self.version, &self.response);
        out.extend(writer.into_slices());
    }
}

fn fill(response: &mut PartitionProduceResponse, outcome: &AppendOutcome) {
    response.error_code = outcome.error.code();
    response.base_offset = outcome.base_offset.0;
    response.log_append_time_ms = outcome.log_append_time.0;
    response.log_start_offset = outcome.log_start.0;
    if let Some(leader) = outcome.leader {
        response.current_leader = LeaderIdAndEpoch {
            leader_id: leader.node.0,
            leader_epoch: leader.epoch.0,
        };
    }
}
