//! The consumer's Fetch requests and what their answers mean.

use std::collections::BTreeMap;
use std::task::{Context, Waker};

use pelton_model::{ErrorCode, TopicId};
use pelton_protocol::codec::Str;
use pelton_protocol::message::fetch::{
    FetchPartition, FetchRequest, FetchResponse, FetchTopic, FetchableTopicResponse, PartitionData,
};
use pelton_transport::net::Net;

use super::assignment::{Remedy, SlotId, remedy};
use super::unpack::Unpacker;
use super::{Asked, Consumer, Fetching, IsolationLevel};
use crate::address::Address;
use crate::connection::Connection;
use crate::error::ClientError;
use crate::metadata;

/// The first version of Fetch that names topics by id.
const FETCH_BY_ID_VERSION: i16 = 13;

impl<N: Net> Consumer<N> {
    /// Begins a Fetch at each leader that has none and leads something idle.
    pub(super) fn start_fetches(&mut self) {
        let now = self.client.net().now();
        let mut by_leader: BTreeMap<i32, Vec<SlotId>> = BTreeMap::new();
        for slot in self.assignment.fetchable(now) {
            let (topic, partition) = self.assignment.partition_of(slot);
            if let Some(leader) = self.chores.leader_of(topic, partition)
                && !self.in_flight.contains_key(&leader)
            {
                by_leader.entry(leader).or_default().push(slot);
            }
        }
        for (leader, slots) in by_leader {
            if let Some(connection) = self.chores.connection_to(leader) {
                self.start_fetch(leader, &connection, &slots);
            }
        }
    }

    fn start_fetch(&mut self, leader: i32, connection: &Connection<N>, slots: &[SlotId]) {
        let (request, asked) = self.request(slots);
        let has_ids = asked.iter().all(|asked| !asked.topic_id.is_zero());
        let version_max = if has_ids {
            i16::MAX
        } else {
            FETCH_BY_ID_VERSION - 1
        };
        let wait_ms = u64::from(self.options.fetch_wait_ms_max);
        let timeout_ms = self
            .client
            .options()
            .request_timeout_ms
            .saturating_add(wait_ms);
        let version = connection.version_up_to::<FetchRequest>(version_max);
        let reply = version.and_then(|version| connection.start(version, &request, timeout_ms));
        match reply {
            Ok(reply) => {
                for asked in &asked {
                    self.assignment.on_sent(asked.slot);
                }
                let fetching = Fetching {
                    reply,
                    answer: None,
                    asked,
                };
                self.in_flight.insert(leader, fetching);
            }
            Err(error) => {
                tracing::debug!(leader, error = %error, "no fetch");
                self.pause(&asked, Remedy::Refresh);
            }
        }
    }

    fn request(&self, slots: &[SlotId]) -> (FetchRequest, Vec<Asked>) {
        let mut topics: Vec<FetchTopic> = Vec::new();
        let mut all_asked = Vec::with_capacity(slots.len());
        let metadata = self.client.metadata().borrow();
        for &slot in slots {
            let (name, partition) = self.assignment.partition_of(slot);
            let known = metadata.topic(name);
            let asked = Asked {
                slot,
                topic_id: known.map_or(TopicId::ZERO, |topic| topic.topic_id),
                offset: self.assignment.next_offset(slot),
            };
            let data = FetchPartition {
                partition,
                current_leader_epoch: known
                    .and_then(|topic| topic.partition(partition))
                    .map_or(-1, |known| known.leader_epoch),
                fetch_offset: asked.offset,
                partition_max_bytes: wire(self.options.partition_bytes_max),
                ..FetchPartition::default()
            };
            match topics.iter_mut().find(|topic| topic.topic == *name) {
                Some(topic) => topic.partitions.push(data),
                None => topics.push(FetchTopic {
                    topic: name.clone(),
                    topic_id: asked.topic_id,
                    partitions: vec![data],
                }),
            }
            all_asked.push(asked);
        }
        let request = FetchRequest {
            max_wait_ms: wire(self.options.fetch_wait_ms_max),
            min_bytes: wire(self.options.fetch_bytes_min),
            max_bytes: wire(self.options.fetch_bytes_max),
            isolation_level: match self.options.isolation_level {
                IsolationLevel::ReadUncommitted => 0,
                IsolationLevel::ReadCommitted => 1,
            },
            topics,
            ..FetchRequest::default()
        };
        (request, all_asked)
    }

    /// Takes in every answer that is there.
    pub(super) fn take_answers(&mut self) -> Result<(), ClientError> {
        let mut context = Context::from_waker(Waker::noop());
        let mut answered = Vec::new();
        for (leader, fetching) in &mut self.in_flight {
            if fetching.poll(&mut context) {
                answered.push(*leader);
            }
        }
        let mut outcome = Ok(());
        for leader in answered {
            let Some(Fetching { answer, asked, .. }) = self.in_flight.remove(&leader) else {
                continue;
            };
            outcome = outcome.and(match answer {
                Some(Ok(response)) => self.on_answer(response, &asked),
                Some(Err(error)) => self.on_lost(leader, &asked, error),
                None => Ok(()),
            });
        }
        outcome
    }

    /// The connection failed with the request.
    fn on_lost(
        &mut self,
        leader: i32,
        asked: &[Asked],
        error: ClientError,
    ) -> Result<(), ClientError> {
        tracing::debug!(leader, error = %error, "fetch lost");
        self.pause(asked, Remedy::Refresh);
        let is_final = !error.is_retriable() && !matches!(error, ClientError::Closed { .. });
        if is_final { Err(error) } else { Ok(()) }
    }

    fn on_answer(&mut self, response: FetchResponse, asked: &[Asked]) -> Result<(), ClientError> {
        if let Err(error) =
            ClientError::refused("fetching from", "the leader", response.error_code, None)
        {
            self.pause(asked, Remedy::Refresh);
            return if error.is_retriable() {
                Ok(())
            } else {
                Err(error)
            };
        }
        for node in &response.node_endpoints {
            let address = Address::new(node.host.clone(), metadata::port(node.port));
            let mut metadata = self.client.metadata().borrow_mut();
            metadata.learn_broker(node.node_id, address, node.rack.clone());
        }
        let mut responses = response.responses;
        let mut outcome = Ok(());
        for asked in asked {
            let (topic, partition) = self.assignment.partition_of(asked.slot);
            let topic = topic.clone();
            match take(&mut responses, &topic, asked.topic_id, partition) {
                Some(data) => outcome = outcome.and(self.on_partition(asked, &topic, data)),
                // A partition that the broker left out is asked for again.
                None => self.pause(std::slice::from_ref(asked), Remedy::Refresh),
            }
        }
        outcome
    }

    fn on_partition(
        &mut self,
        asked: &Asked,
        topic: &Str,
        data: PartitionData,
    ) -> Result<(), ClientError> {
        let partition = data.partition_index;
        let object = || format!("{topic}-{partition}");
        if let Err(refusal) = ClientError::refused("fetching from", object(), data.error_code, None)
        {
            let error = refusal
                .error_code()
                .unwrap_or(ErrorCode::UnknownServerError);
            let remedy = remedy(error);
            let leader = &data.current_leader;
            let is_known = remedy == Remedy::Refresh
                && self.client.metadata().borrow_mut().learn_leader(
                    topic,
                    partition,
                    leader.leader_id,
                    leader.leader_epoch,
                );
            let paused = if is_known { Remedy::Retry } else { remedy };
            self.pause(std::slice::from_ref(asked), paused);
            return if remedy == Remedy::Fail {
                Err(refusal)
            } else {
                Ok(())
            };
        }
        let records = data.records.as_ref().and_then(|records| records.bytes());
        let fetched = records.filter(|bytes| !bytes.is_empty()).map(|bytes| {
            let check_crcs = self.options.check_crcs;
            Unpacker::new(
                topic.clone(),
                partition,
                bytes.clone(),
                asked.offset,
                check_crcs,
            )
            .without(data.aborted_transactions.unwrap_or_default())
        });
        let (slot, offset) = (asked.slot, asked.offset);
        let (high_watermark, log_start) = (data.high_watermark, data.log_start_offset);
        self.assignment
            .on_fetched(slot, offset, high_watermark, log_start, fetched);
        Ok(())
    }

    fn pause(&mut self, asked: &[Asked], remedy: Remedy) {
        let now = self.client.net().now();
        for asked in asked {
            let random = self.client.random();
            if remedy == Remedy::Refresh {
                let (topic, _) = self.assignment.partition_of(asked.slot);
                self.chores.refresh_later(topic);
            }
            self.assignment
                .on_failed(asked.slot, asked.offset, remedy, now, random);
        }
    }
}

/// Takes a partition's data out of a response; topics go by name or by id, as they were asked.
fn take(
    responses: &mut [FetchableTopicResponse],
    name: &Str,
    topic_id: TopicId,
    partition: i32,
) -> Option<PartitionData> {
    let mut topics = responses.iter_mut().filter(|topic| {
        if topic.topic_id.is_zero() {
            topic.topic == *name
        } else {
            topic.topic_id == topic_id
        }
    });
    topics.find_map(|topic| {
        let mut partitions = topic.partitions.iter();
        let index = partitions.position(|data| data.partition_index == partition)?;
        Some(topic.partitions.swap_remove(index))
    })
}

fn wire(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}
