//! The small text files beside the logs, in Apache Kafka's own forms.
//!
//! | file | contents |
//! |---|---|
//! | `*-offset-checkpoint` | `0`, number of rows, rows `topic partition offset`, one a line |
//! | `leader-epoch-checkpoint` | `0`, number of rows, rows `epoch offset`, one a line |
//! | `partition.metadata` | `version: 0`, `topic_id: ` + base64 |
//! | `meta.properties` | Java properties: `version=1`, `cluster.id`, `node.id`, `directory.id` |
//! | `.kafka_cleanshutdown` | `{"version":0,"brokerEpoch":N}`, or empty in older releases |
//!
//! Invariants:
//! 1. A decoder takes any bytes, never panics, and reserves nothing by a count it reads.
//! 2. A checkpoint is believed whole or not at all: a wrong count, version or row makes it unreadable.

use std::fmt::Write as _;

use pelton_model::{LeaderEpoch, NodeId, Offset, PartitionId, TopicId};

use crate::dir::{CheckpointRow, MetaProperties};
use crate::epoch::EpochEntry;

/// Why a text file is unreadable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormatError(pub &'static str);

fn text(bytes: &[u8]) -> Result<&str, FormatError> {
    std::str::from_utf8(bytes).map_err(|_| FormatError("not UTF-8"))
}

/// The rows of a checkpoint file, checked against its version and count.
fn rows(bytes: &[u8]) -> Result<impl Iterator<Item = &str>, FormatError> {
    let text = text(bytes)?;
    let mut lines = text.lines();
    if lines.next().map(str::trim) != Some("0") {
        return Err(FormatError("unknown version"));
    }
    let count = lines
        .next()
        .and_then(|line| line.trim().parse::<u64>().ok());
    let count = count.ok_or(FormatError("no count"))?;
    let rows = lines.filter(|line| !line.trim().is_empty());
    if rows.clone().count() as u64 != count {
        return Err(FormatError("the count does not match"));
    }
    Ok(rows)
}

fn number<N: std::str::FromStr>(field: Option<&str>) -> Result<N, FormatError> {
    field
        .and_then(|field| field.parse().ok())
        .ok_or(FormatError("malformed row"))
}

/// Decodes an offset checkpoint.
///
/// # Errors
/// When any line is malformed; the caller treats the whole file as absent.
pub fn decode_checkpoint(bytes: &[u8]) -> Result<Vec<CheckpointRow>, FormatError> {
    rows(bytes)?
        .map(|row| {
            let mut fields = row.split_ascii_whitespace();
            let topic = fields
                .next()
                .ok_or(FormatError("malformed row"))?
                .to_owned();
            let partition = PartitionId(number(fields.next())?);
            let offset = Offset(number(fields.next())?);
            if fields.next().is_some() || offset.0 < 0 || partition.0 < 0 {
                return Err(FormatError("malformed row"));
            }
            Ok(CheckpointRow {
                topic,
                partition,
                offset,
            })
        })
        .collect()
}

/// Encodes an offset checkpoint.
#[must_use]
pub fn encode_checkpoint(rows: &[CheckpointRow]) -> Vec<u8> {
    let mut out = format!("0\n{}\n", rows.len());
    for row in rows {
        writeln!(out, "{} {} {}", row.topic, row.partition, row.offset)
            .expect("writing to a String cannot fail");
    }
    out.into_bytes()
}

/// Decodes `leader-epoch-checkpoint`.
///
/// # Errors
/// When any line is malformed; the history is then rebuilt from the batches.
pub fn decode_epochs(bytes: &[u8]) -> Result<Vec<EpochEntry>, FormatError> {
    rows(bytes)?
        .map(|row| {
            let mut fields = row.split_ascii_whitespace();
            let epoch = LeaderEpoch(number(fields.next())?);
            let start_offset = Offset(number(fields.next())?);
            if fields.next().is_some() || start_offset.0 < 0 || epoch.0 < 0 {
                return Err(FormatError("malformed row"));
            }
            Ok(EpochEntry {
                epoch,
                start_offset,
            })
        })
        .collect()
}

/// Encodes `leader-epoch-checkpoint`.
#[must_use]
pub fn encode_epochs(entries: &[EpochEntry]) -> Vec<u8> {
    let mut out = format!("0\n{}\n", entries.len());
    for entry in entries {
        writeln!(out, "{} {}", entry.epoch, entry.start_offset)
            .expect("writing to a String cannot fail");
    }
    out.into_bytes()
}

/// Decodes `partition.metadata`.
///
/// # Errors
/// When version or topic id are missing or malformed.
pub fn decode_partition_metadata(bytes: &[u8]) -> Result<TopicId, FormatError> {
    let mut version = None;
    let mut topic_id = None;
    for line in text(bytes)?.lines() {
        match line.split_once(':') {
            Some(("version", value)) => version = value.trim().parse::<i32>().ok(),
            Some(("topic_id", value)) => topic_id = value.trim().parse::<TopicId>().ok(),
            Some(_) | None => return Err(FormatError("unknown line")),
        }
    }
    if version != Some(0) {
        return Err(FormatError("unknown version"));
    }
    topic_id
        .filter(|id| !id.is_zero())
        .ok_or(FormatError("no topic id"))
}

/// Encodes `partition.metadata`.
#[must_use]
pub fn encode_partition_metadata(topic_id: TopicId) -> Vec<u8> {
    format!("version: 0\ntopic_id: {topic_id}").into_bytes()
}

/// Decodes `meta.properties`. The directory id is absent in files of releases before 3.7.
///
/// # Errors
/// When it is not version 1 or lacks cluster or node id.
pub fn decode_meta(bytes: &[u8]) -> Result<(MetaProperties, bool), FormatError> {
    let (mut version, mut cluster, mut node, mut directory) = (None, None, None, None);
    for line in text(bytes)?.lines() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        let (key, value) = line
            .split_once(['=', ':'])
            .ok_or(FormatError("a line without a value"))?;
        let value = value.trim().replace('\\', "");
        match key.trim_end() {
            "version" => version = Some(value),
            "cluster.id" => cluster = Some(value),
            "node.id" => node = Some(value),
            "directory.id" => directory = Some(value),
            _ => {}
        }
    }
    if version.as_deref() != Some("1") {
        return Err(FormatError("version is not 1"));
    }
    let cluster_id = cluster
        .filter(|id| !id.is_empty())
        .ok_or(FormatError("no cluster.id"))?;
    let node_id = node
        .and_then(|id| id.parse::<i32>().ok())
        .filter(|&id| id >= 0)
        .ok_or(FormatError("no valid node.id"))?;
    let has_directory = directory.is_some();
    let directory_id = match directory {
        Some(id) => id
            .parse()
            .map_err(|_| FormatError("directory.id is not a UUID"))?,
        None => TopicId::ZERO,
    };
    let meta = MetaProperties {
        cluster_id,
        node_id: NodeId(node_id),
        directory_id,
    };
    Ok((meta, has_directory))
}

/// Encodes `meta.properties`.
#[must_use]
pub fn encode_meta(meta: &MetaProperties) -> Vec<u8> {
    format!(
        "cluster.id={}\ndirectory.id={}\nnode.id={}\nversion=1\n",
        meta.cluster_id, meta.directory_id, meta.node_id
    )
    .into_bytes()
}

/// The broker epoch in `.kafka_cleanshutdown`, if it names one. Any contents mean a clean stop.
#[must_use]
pub fn decode_clean_marker(bytes: &[u8]) -> Option<i64> {
    let (_, after) = text(bytes).ok()?.split_once("\"brokerEpoch\"")?;
    let value = after.trim_start().strip_prefix(':')?.trim_start();
    let end = value
        .find(|c: char| c != '-' && !c.is_ascii_digit())
        .unwrap_or(value.len());
    value[..end].parse().ok().filter(|&epoch| epoch >= 0)
}

/// Encodes `.kafka_cleanshutdown`.
#[must_use]
pub fn encode_clean_marker(broker_epoch: i64) -> Vec<u8> {
    format!("{{\"version\":0,\"brokerEpoch\":{broker_epoch}}}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // Goal: Kafka's files are understood, damaged ones refused. Method: a table per file.
    #[test]
    fn checkpoints() {
        fn check(text: &str, expected: Option<&[(&str, i32, i64)]>) {
            let found = decode_checkpoint(text.as_bytes()).ok();
            let expected = expected.map(|rows| {
                rows.iter()
                    .map(|&(topic, partition, offset)| CheckpointRow {
                        topic: topic.to_owned(),
                        partition: PartitionId(partition),
                        offset: Offset(offset),
                    })
                    .collect::<Vec<_>>()
            });
            assert_eq!(found, expected, "{text:?}");
            if let Some(rows) = found {
                assert_eq!(decode_checkpoint(&encode_checkpoint(&rows)), Ok(rows));
            }
        }
        check("0\n0\n", Some(&[]));
        check(
            "0\n2\na 0 5\nb.c 12 9\n",
            Some(&[("a", 0, 5), ("b.c", 12, 9)]),
        );
        check("0\n1\na 0 5", Some(&[("a", 0, 5)]));
        check("", None);
        check("1\n0\n", None);
        check("0\nx\n", None);
        check("0\n2\na 0 5\n", None);
        check("0\n1\na 0\n", None);
        check("0\n1\na 0 5 6\n", None);
        check("0\n1\na 0 -5\n", None);
        check("0\n1\na b 5\n", None);
        check("0\n99999999999999999999\na 0 5\n", None);
    }

    // Goal: the epoch history round-trips. Method: a table.
    #[test]
    fn epochs() {
        fn check(text: &str, expected: Option<&[(i32, i64)]>) {
            let found = decode_epochs(text.as_bytes()).ok();
            let pairs = found.map(|entries| {
                assert_eq!(decode_epochs(&encode_epochs(&entries)), Ok(entries.clone()));
                entries
                    .iter()
                    .map(|e| (e.epoch.0, e.start_offset.0))
                    .collect::<Vec<_>>()
            });
            assert_eq!(pairs.as_deref(), expected, "{text:?}");
        }
        check("0\n2\n0 0\n3 17\n", Some(&[(0, 0), (3, 17)]));
        check("0\n1\n0 0 0\n", None);
        check("0\n1\n-1 0\n", None);
        check("0\n1\n0 -1\n", None);
    }

    // Goal: identity files. Method: a table with what Java writes.
    #[test]
    fn meta_properties() {
        fn check(text: &str, expected: Result<(&str, i32, bool), &'static str>) {
            let found = decode_meta(text.as_bytes());
            let found = found
                .as_ref()
                .map_err(|e| e.0)
                .map(|(meta, has_directory)| {
                    (meta.cluster_id.as_str(), meta.node_id.0, *has_directory)
                });
            assert_eq!(found, expected, "{text:?}");
        }
        let java = "#\n#Mon Nov 30 09:00:00 UTC 2026\ncluster.id=abc-_d\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n\
                    node.id=3\nversion=1\n";
        check(java, Ok(("abc-_d", 3, true)));
        check(
            "version=1\ncluster.id=x\nnode.id=0\nfuture=1\n",
            Ok(("x", 0, false)),
        );
        check("", Err("version is not 1"));
        check("version=0\nbroker.id=1\n", Err("version is not 1"));
        check("version=1\nnode.id=1\n", Err("no cluster.id"));
        check(
            "version=1\ncluster.id=x\nnode.id=-1\n",
            Err("no valid node.id"),
        );
        check(
            "version=1\ncluster.id=x\nnode.id=1\ndirectory.id=?\n",
            Err("directory.id is not a UUID"),
        );
        check("garbage\n", Err("a line without a value"));
        let (meta, _) = decode_meta(java.as_bytes()).expect("valid");
        assert_eq!(decode_meta(&encode_meta(&meta)), Ok((meta, true)));
    }

    // Goal: partition.metadata and the clean marker. Method: tables.
    #[test]
    fn markers() {
        let id = TopicId([7; 16]);
        assert_eq!(
            decode_partition_metadata(&encode_partition_metadata(id)),
            Ok(id)
        );
        for bad in [
            "",
            "version: 0",
            "version: 1\ntopic_id: BwcHBwcHBwcHBwcHBwcHBw",
            "x",
        ] {
            assert!(
                decode_partition_metadata(bad.as_bytes()).is_err(),
                "{bad:?}"
            );
        }
        assert_eq!(decode_clean_marker(&encode_clean_marker(42)), Some(42));
        assert_eq!(
            decode_clean_marker(b"{\"brokerEpoch\" : 7 , \"version\":0}"),
            Some(7)
        );
        assert_eq!(decode_clean_marker(b""), None);
        assert_eq!(
            decode_clean_marker(b"{\"version\":0,\"brokerEpoch\":-1}"),
            None
        );
    }

    /// A fuzz target: any bytes through every decoder.
    fn decode_anything(bytes: &[u8]) {
        drop(decode_checkpoint(bytes));
        drop(decode_epochs(bytes));
        drop(decode_meta(bytes));
        std::hint::black_box(decode_partition_metadata(bytes).ok());
        std::hint::black_box(decode_clean_marker(bytes));
    }

    proptest! {
        // Goal: no decoder panics. Method: random bytes, and random edits of text that nearly decodes.
        #[test]
        fn decoders_take_anything(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            text in "[0-9a-z \n:=#\"-]{0,80}",
        ) {
            decode_anything(&bytes);
            decode_anything(text.as_bytes());
            decode_anything(format!("0\n1\n{text}").as_bytes());
        }
    }
}
