//! Reads answers with the `kafka-protocol` crate and says in one short line what they are.
//!
//! A line is `ok` or the error codes that are not zero, in the order of the answer, then details after semicolons:
//! `OffsetOutOfRange; high -1; stable -1; start -1; bytes 0`. Nothing here is Pelton's code.

use std::collections::BTreeSet;

use bytes::Bytes;
use kafka_protocol::error::ParseResponseErrorCode;
use kafka_protocol::messages::{
    AlterConfigsResponse, ApiKey, ApiVersionsResponse, CreatePartitionsResponse,
    CreateTopicsResponse, DeleteRecordsResponse, DeleteTopicsResponse, DescribeClusterResponse,
    DescribeConfigsResponse, DescribeLogDirsResponse, FetchResponse,
    IncrementalAlterConfigsResponse, InitProducerIdResponse, ListConfigResourcesResponse,
    ListOffsetsResponse, MetadataResponse, OffsetForLeaderEpochResponse, ProduceResponse,
    ResponseHeader, UpdateFeaturesResponse,
};
use kafka_protocol::protocol::Decodable;

/// Decodes the frame that answers `api` in `version`: header, body, and not a byte more.
///
/// # Errors
/// Says what does not decode.
pub fn decode<T: Decodable>(api: ApiKey, version: i16, frame: &[u8]) -> Result<T, String> {
    let mut bytes = Bytes::copy_from_slice(frame);
    let header = ResponseHeader::decode(&mut bytes, api.response_header_version(version))
        .map_err(|error| format!("header: {error}"))?;
    if header.correlation_id != crate::wire::CORRELATION {
        return Err(format!("correlation id {}", header.correlation_id));
    }
    let body = T::decode(&mut bytes, version).map_err(|error| format!("body: {error}"))?;
    if bytes.is_empty() { Ok(body) } else { Err(format!("{} bytes too many", bytes.len())) }
}

/// What an answer says, in one line.
#[must_use]
pub fn summary(api: ApiKey, version: i16, frame: &[u8]) -> String {
    let line = match api {
        ApiKey::ApiVersions => api_versions(version, frame),
        ApiKey::Metadata => decode(api, version, frame).map(|answer| metadata(&answer)),
        ApiKey::Produce => decode(api, version, frame).map(|answer| produce(&answer)),
        ApiKey::Fetch => decode(api, version, frame).map(|answer| fetch(&answer)),
        // The crate knows 10 versions; the eleventh only gave a timestamp a meaning.
        ApiKey::ListOffsets => {
            decode(api, version.min(10), frame).map(|answer| list_offsets(&answer))
        }
        ApiKey::CreateTopics => decode::<CreateTopicsResponse>(api, version, frame)
            .map(|answer| per_topic(answer.topics.iter().map(|topic| topic.error_code))),
        ApiKey::DeleteTopics => decode::<DeleteTopicsResponse>(api, version, frame)
            .map(|answer| per_topic(answer.responses.iter().map(|topic| topic.error_code))),
        ApiKey::DeleteRecords => decode::<DeleteRecordsResponse>(api, version, frame)
            .map(|answer| delete_records(&answer)),
        ApiKey::CreatePartitions => decode::<CreatePartitionsResponse>(api, version, frame)
            .map(|answer| per_topic(answer.results.iter().map(|topic| topic.error_code))),
        ApiKey::AlterConfigs => decode::<AlterConfigsResponse>(api, version, frame)
            .map(|answer| per_resource(answer.responses.iter().map(|one| one.error_code))),
        ApiKey::IncrementalAlterConfigs => {
            decode::<IncrementalAlterConfigsResponse>(api, version, frame)
                .map(|answer| per_resource(answer.responses.iter().map(|one| one.error_code)))
        }
        ApiKey::DescribeConfigs => {
            decode::<DescribeConfigsResponse>(api, version, frame).map(|answer| {
                let errors = answer.results.iter().map(|one| one.error_code);
                let configs: usize = answer.results.iter().map(|one| one.configs.len()).sum();
                format!("{}; configs {configs}", codes(errors))
            })
        }
        ApiKey::InitProducerId => {
            decode::<InitProducerIdResponse>(api, version, frame).map(|answer| {
                let id = answer.producer_id.0;
                let id = if id < 0 { id.to_string() } else { "given".to_owned() };
                format!("{}; id {id}; epoch {}", codes([answer.error_code]), answer.producer_epoch)
            })
        }
        // The crate knows 4 versions; the fifth adds a flag.
        ApiKey::DescribeLogDirs => decode::<DescribeLogDirsResponse>(api, version.min(4), frame)
            .map(|answer| {
                let dirs = answer.results.iter().map(|dir| dir.error_code);
                format!("{}; directories {}", codes(dirs), answer.results.len())
            }),
        ApiKey::DescribeCluster => {
            decode::<DescribeClusterResponse>(api, version, frame).map(|answer| {
                format!("{}; brokers {}", codes([answer.error_code]), answer.brokers.len())
            })
        }
        ApiKey::OffsetForLeaderEpoch => {
            decode(api, version, frame).map(|answer| offset_for_leader_epoch(&answer))
        }
        ApiKey::UpdateFeatures => {
            decode::<UpdateFeaturesResponse>(api, version, frame).map(|answer| {
                let results = answer.results.iter().map(|one| one.error_code);
                let errors = std::iter::once(answer.error_code).chain(results);
                format!("{}; results {}", codes(errors), answer.results.len())
            })
        }
        ApiKey::ListConfigResources => {
            decode(api, version, frame).map(|answer| config_resources(&answer))
        }
        other => crate::admin::summary(other, version, frame),
    };
    line.unwrap_or_else(|error| format!("an answer that does not decode ({error})"))
}

pub(crate) fn codes(codes: impl IntoIterator<Item = i16>) -> String {
    let names: Vec<String> =
        codes.into_iter().filter_map(|code| code.err()).map(|error| format!("{error:?}")).collect();
    if names.is_empty() { "ok".to_owned() } else { names.join(" ") }
}

/// The errors, and how many topics were answered.
/// The errors, and the low watermarks.
fn delete_records(answer: &DeleteRecordsResponse) -> String {
    let partitions: Vec<_> = answer.topics.iter().flat_map(|topic| &topic.partitions).collect();
    let low: Vec<String> = partitions.iter().map(|part| part.low_watermark.to_string()).collect();
    let codes = codes(partitions.iter().map(|part| part.error_code));
    format!("{codes}; low {}", low.join(" "))
}

fn per_topic(errors: impl ExactSizeIterator<Item = i16>) -> String {
    let count = errors.len();
    format!("{}; topics {count}", codes(errors))
}

/// The errors, and how many resources were answered.
fn per_resource(errors: impl ExactSizeIterator<Item = i16>) -> String {
    let count = errors.len();
    format!("{}; resources {count}", codes(errors))
}

/// The errors, and of which types there are resources.
fn config_resources(answer: &ListConfigResourcesResponse) -> String {
    let kinds: BTreeSet<i8> = answer.config_resources.iter().map(|one| one.resource_type).collect();
    format!("{}; types {kinds:?}", codes([answer.error_code]))
}

/// A version that the broker does not know is answered in the layout of version 0.
fn api_versions(version: i16, frame: &[u8]) -> Result<String, String> {
    let shape = if (0..=4).contains(&version) { version } else { 0 };
    let answer: ApiVersionsResponse = decode(ApiKey::ApiVersions, shape, frame)?;
    let own = answer.api_keys.iter().find(|api| api.api_key == ApiKey::ApiVersions as i16);
    let code = codes([answer.error_code]);
    Ok(own.map_or_else(
        || format!("{code}; own range absent"),
        |own| format!("{code}; own range {}-{}", own.min_version, own.max_version),
    ))
}

fn metadata(answer: &MetadataResponse) -> String {
    let mut errors = vec![answer.error_code];
    errors.extend(answer.topics.iter().map(|topic| topic.error_code));
    format!("{}; topics {}", codes(errors), answer.topics.len())
}

fn produce(answer: &ProduceResponse) -> String {
    let partitions = || answer.responses.iter().flat_map(|topic| &topic.partition_responses);
    let mut line = codes(partitions().map(|partition| partition.error_code));
    for partition in partitions() {
        line += &format!(
            "; base {}; time {}; start {}",
            partition.base_offset,
            time(partition.log_append_time_ms),
            partition.log_start_offset
        );
        let indexes: Vec<i32> = partition.record_errors.iter().map(|e| e.batch_index).collect();
        if !indexes.is_empty() {
            line += &format!("; records {indexes:?}");
        }
    }
    line
}

fn fetch(answer: &FetchResponse) -> String {
    let partitions = || answer.responses.iter().flat_map(|topic| &topic.partitions);
    let mut errors = vec![answer.error_code];
    errors.extend(partitions().map(|partition| partition.error_code));
    let mut line = codes(errors);
    for partition in partitions() {
        line += &format!(
            "; high {}; stable {}; start {}; bytes {}",
            partition.high_watermark,
            partition.last_stable_offset,
            partition.log_start_offset,
            partition.records.as_ref().map_or(-1, |records| records.len() as i64),
        );
    }
    let session = if answer.session_id == 0 { "none" } else { "given" };
    format!("{line}; session {session}")
}

fn list_offsets(answer: &ListOffsetsResponse) -> String {
    let partitions = || answer.topics.iter().flat_map(|topic| &topic.partitions);
    let mut line = codes(partitions().map(|partition| partition.error_code));
    for partition in partitions() {
        let time = time(partition.timestamp);
        line += &format!(
            "; time {time}; offset {}; epoch {}",
            partition.offset, partition.leader_epoch
        );
    }
    line
}

/// A timestamp, or `now` for one of the last or the next hour.
fn time(timestamp: i64) -> String {
    let recent = (timestamp - crate::batch::now_ms()).abs() < 3_600_000;
    if recent { "now".to_owned() } else { timestamp.to_string() }
}

fn offset_for_leader_epoch(answer: &OffsetForLeaderEpochResponse) -> String {
    let partitions = || answer.topics.iter().flat_map(|topic| &topic.partitions);
    let mut line = codes(partitions().map(|partition| partition.error_code));
    for partition in partitions() {
        line += &format!("; epoch {}; end {}", partition.leader_epoch, partition.end_offset);
    }
    line
}
