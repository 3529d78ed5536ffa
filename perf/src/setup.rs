//! What is done before and after a load, at leisure, by Pelton's client: topics, idle partitions and connections, leaders,
//! offsets, producer ids.
//!
//! Invariants:
//! 1. The load's connections are made to the leaders that the broker names; a bare program (`--bare`), which knows no
//!    metadata, is its own leader of everything.
//! 2. A topic that a run created is deleted after it, unless it is to be kept.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use pelton_client::{
    Address, Admin, Client, ClientError, ClientOptions, NewTopic, OffsetQuery, Str, TopicMetadata,
};
use pelton_model::{ErrorCode, ProducerEpoch, ProducerId};
use pelton_protocol::codec::{Message, Reader};
use pelton_protocol::message::api_versions::{ApiVersionsRequest, ApiVersionsResponse};
use pelton_protocol::message::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};
use pelton_protocol::message::list_offsets::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopic,
};
use pelton_transport::boot::block_on;
use pelton_transport::net::Net;

use crate::connection::dial;
use crate::error::{PerfError, io_error};
use crate::frame::{FRAME_BYTES_MAX, Idempotence, encode};
use crate::load::Load;

/// Idle partitions are created in topics of at most so many: brokers bound one request.
const IDLE_PARTITIONS_PER_TOPIC: u32 = 5_000;

/// Where a load goes.
#[derive(Clone, Debug)]
pub struct Target {
    /// The broker.
    pub address: SocketAddr,
    /// The topic; it is created if it is not there.
    pub topic: String,
    /// It is a program that knows Produce, Fetch and ListOffsets and nothing else.
    pub is_bare: bool,
    /// The topic stays.
    pub keeps_topic: bool,
}

/// A partition of the topic under load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) partition: i32,
    pub(crate) leader: SocketAddr,
    /// The first offset.
    pub(crate) start: i64,
    /// The offset after the last one.
    pub(crate) end: i64,
}

fn client_error(operation: &'static str) -> impl Fn(ClientError) -> PerfError {
    move |source| PerfError::Client { operation, source }
}

/// Runs what `main` does with a client of the broker.
macro_rules! with_client {
    ($address:expr, |$client:ident| $main:expr) => {{
        let address = Address::new($address.ip().to_string(), $address.port());
        let run = block_on(|net| {
            Box::pin(async move {
                let options = ClientOptions::default();
                let connected = Client::connect(&net, &[address], options).await;
                let $client = connected.map_err(client_error("connecting"))?;
                $main
            })
        });
        run.map_err(PerfError::Runtime)?
    }};
}

/// Creates the topic and the idle partitions.
pub(crate) fn create(target: &Target, load: &Load) -> Result<(), PerfError> {
    if target.is_bare {
        return Ok(());
    }
    let pairs = load.topic_settings.iter();
    let main = NewTopic {
        name: Str::from(target.topic.as_str()),
        partitions: i32::try_from(load.partitions).unwrap_or(i32::MAX),
        replication_factor: -1,
        configs: pairs.map(|(name, value)| (name.as_str().into(), value.as_str().into())).collect(),
        ..NewTopic::default()
    };
    let mut topics = vec![main];
    topics.extend(idle_topics(&target.topic, load.idle_partitions).map(|(name, partitions)| {
        NewTopic { partitions, replication_factor: -1, ..NewTopic::new(name) }
    }));
    with_client!(target.address, |client| {
        let admin = Admin::new(&client);
        for topic in topics {
            let failed = client_error("creating a topic");
            let created = admin.create_topics(&[topic], false).await.map_err(&failed)?;
            for (_, outcome) in created {
                match outcome {
                    Ok(_) => {}
                    Err(ClientError::Refused { error: ErrorCode::TopicAlreadyExists, .. }) => {}
                    Err(error) => return Err(failed(error)),
                }
            }
        }
        Ok(())
    })
}

/// Deletes what [`create`] created.
pub(crate) fn delete(target: &Target, load: &Load) -> Result<(), PerfError> {
    if target.is_bare || target.keeps_topic {
        return Ok(());
    }
    let mut names = vec![Str::from(target.topic.as_str())];
    names.extend(
        idle_topics(&target.topic, load.idle_partitions).map(|(name, _)| Str::from(name.as_str())),
    );
    with_client!(target.address, |client| {
        let admin = Admin::new(&client);
        for name in names {
            admin.delete_topics(&[name]).await.map_err(client_error("deleting a topic"))?;
        }
        Ok(())
    })
}

fn idle_topics(topic: &str, partitions: u32) -> impl Iterator<Item = (String, i32)> {
    let count = partitions.div_ceil(IDLE_PARTITIONS_PER_TOPIC);
    (0..count).map(move |index| {
        let rest = partitions - index * IDLE_PARTITIONS_PER_TOPIC;
        (format!("{topic}-idle-{index}"), rest.min(IDLE_PARTITIONS_PER_TOPIC) as i32)
    })
}

/// How often a broker is asked for leaders that it does not have yet, and how long it is left alone meanwhile.
const LEADER_TRIES: u32 = 1_000;
const LEADER_PAUSE: Duration = Duration::from_millis(10);

/// The leaders and ends of the topic's partitions, in order of leaders.
pub(crate) fn places(target: &Target, load: &Load) -> Result<Vec<Place>, PerfError> {
    let mut tries = 1;
    loop {
        match places_now(target, load) {
            Err(PerfError::Answer { request: "Metadata", .. }) if tries < LEADER_TRIES => {
                tries += 1;
                std::thread::sleep(LEADER_PAUSE);
            }
            found => return found,
        }
    }
}

fn places_now(target: &Target, load: &Load) -> Result<Vec<Place>, PerfError> {
    let partitions = 0..i32::try_from(load.partitions).unwrap_or(i32::MAX);
    if target.is_bare {
        let end = bare_end(target)?;
        return Ok(partitions
            .map(|partition| Place { partition, leader: target.address, start: 0, end })
            .collect());
    }
    let topic = Str::from(target.topic.as_str());
    let mut places: Vec<Place> = with_client!(target.address, |client| {
        let failed = client_error("asking for leaders and offsets");
        let metadata = client.topic(&topic, false).await.map_err(&failed)?;
        let admin = Admin::new(&client);
        let ask = |query| -> Vec<_> {
            partitions.clone().map(|partition| (topic.clone(), partition, query)).collect()
        };
        let starts = admin.list_offsets(&ask(OffsetQuery::Earliest)).await.map_err(&failed)?;
        let ends = admin.list_offsets(&ask(OffsetQuery::Latest)).await.map_err(&failed)?;
        let place = |((partition, start), end): ((i32, _), _)| {
            let start: &pelton_client::ListedOffset = start;
            let end: &pelton_client::ListedOffset = end;
            Ok(Place {
                partition,
                leader: leader(&client, &metadata, partition)?,
                start: start.offset.unwrap_or(0),
                end: end.offset.unwrap_or(0),
            })
        };
        partitions.clone().zip(&starts).zip(&ends).map(place).collect::<Result<_, PerfError>>()
    })?;
    places.sort_by_key(|place| (place.leader, place.partition));
    Ok(places)
}

fn leader<N: Net>(
    client: &Client<N>,
    topic: &TopicMetadata,
    partition: i32,
) -> Result<SocketAddr, PerfError> {
    let what = "there is no leader";
    let missing = || PerfError::Answer { request: "Metadata", what };
    let known = topic.partition(partition).and_then(|known| known.leader);
    let brokers = client.brokers();
    let broker = known.and_then(|id| brokers.iter().find(|broker| broker.node_id == id));
    let address = &broker.ok_or_else(missing)?.address;
    let resolved = (address.host.as_str(), address.port).to_socket_addrs();
    let mut resolved = resolved.map_err(io_error("resolving", address.to_string()))?;
    resolved.next().ok_or_else(missing)
}

/// Where a bare program's partition 0 ends.
fn bare_end(target: &Target) -> Result<i64, PerfError> {
    const VERSION: i16 = 1;
    let partition = ListOffsetsPartition { timestamp: -1, ..Default::default() };
    let topic =
        ListOffsetsTopic { name: Str::from(target.topic.as_str()), partitions: vec![partition] };
    let request = ListOffsetsRequest { replica_id: -1, topics: vec![topic], ..Default::default() };
    let mut stream = dial(target.address)?;
    let answer = exchange(&mut stream, target.address, VERSION, &request)?;
    let mut reader = Reader::new(&answer);
    let what = "it cannot be read";
    let unreadable = |_| PerfError::Answer { request: "ListOffsets", what };
    reader.int32().map_err(unreadable)?;
    let answer = ListOffsetsResponse::decode(&mut reader, VERSION).map_err(unreadable)?;
    let partition = answer.topics.first().and_then(|topic| topic.partitions.first());
    partition
        .map(|partition| partition.offset)
        .ok_or(PerfError::Answer { request: "ListOffsets", what: "it names no partition" })
}

/// Sends one request over a blocking connection and waits for the answer's frame.
fn exchange<M: Message>(
    stream: &mut TcpStream,
    address: SocketAddr,
    version: i16,
    request: &M,
) -> Result<Vec<u8>, PerfError> {
    let failed = || io_error("asking", address.to_string());
    stream.write_all(&encode(version, request)).map_err(failed())?;
    let mut length = [0; 4];
    stream.read_exact(&mut length).map_err(failed())?;
    let length = u32::from_be_bytes(length) as usize;
    if FRAME_BYTES_MAX < length {
        return Err(PerfError::Answer { request: M::NAME, what: "it is too large" });
    }
    let mut answer = vec![0; length];
    stream.read_exact(&mut answer).map_err(failed())?;
    Ok(answer)
}

/// Connections that do nothing after the first request, which has the broker set up all it keeps for one.
pub(crate) fn idle_connections(target: &Target, count: usize) -> Result<Vec<TcpStream>, PerfError> {
    let mut streams = Vec::with_capacity(count);
    for _ in 0..count {
        let mut stream = dial(target.address)?;
        if !target.is_bare {
            is_answered(&mut stream, target.address)?;
        }
        streams.push(stream);
    }
    Ok(streams)
}

/// Asks what a broker speaks, and whether it answers at all.
pub(crate) fn is_answered(stream: &mut TcpStream, address: SocketAddr) -> Result<(), PerfError> {
    let version = ApiVersionsResponse::VERSIONS.min;
    exchange(stream, address, version, &ApiVersionsRequest::default()).map(drop)
}

/// As many producer ids.
pub(crate) fn producer_ids(target: &Target, count: usize) -> Result<Vec<Idempotence>, PerfError> {
    with_client!(target.address, |client| {
        let failed = client_error("asking for a producer id");
        let request = InitProducerIdRequest {
            transaction_timeout_ms: i32::MAX,
            ..InitProducerIdRequest::default()
        };
        let mut ids = Vec::with_capacity(count);
        while ids.len() < count {
            let answer: InitProducerIdResponse = client.call(&request).await.map_err(&failed)?;
            if answer.error_code != 0 {
                return Err(PerfError::Answer {
                    request: "InitProducerId",
                    what: "it is an error",
                });
            }
            let epoch = ProducerEpoch(answer.producer_epoch);
            ids.push(Idempotence { producer_id: ProducerId(answer.producer_id), epoch });
        }
        Ok(ids)
    })
}
