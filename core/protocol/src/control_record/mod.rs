//! Control records of a KRaft log and of its snapshots.
//!
//! ```text
//! key:   version int16 (0) | type int16
//! value: the message of that type; its first field is its version
//! ```
//!
//! Invariants:
//! 1. An unknown type, version or tagged field is an error that names it.
//! 2. The version inside a message is the one in which it is written.
//!
//! Source: KIP-98 (control batches), KIP-595, KIP-630, KIP-853.

mod voters;

use std::fmt;

use bytes::Bytes;
use pelton_model::TopicId;
use pelton_model::record_type::control::{
    ControlRecord, KRaftVersionRecord, LeaderChangeMessage, SnapshotFooterRecord,
    SnapshotHeaderRecord, Voter, VotersRecord,
};

use crate::codec::{DecodeError, Message, Reader, Writer};
use crate::fuzz::Target;
use crate::{message_for, wire};

/// The version of the key.
const KEY_VERSION: i16 = 0;
/// Bytes of the key.
const KEY_BYTES: usize = 4;

wire! {
    Voter {
        voter_id: i32, 0+;
        voter_directory_id: TopicId, 1+;
    }
}

message_for! {
    LeaderChangeMessage, key 2, versions 0-1, flexible 0+ {
        version: i16, 0+;
        leader_id: i32, 0+;
        voters: Vec<Voter>, 0+;
        granting_voters: Vec<Voter>, 0+;
    }
}

message_for! {
    SnapshotHeaderRecord, key 3, versions 0-0, flexible 0+ {
        version: i16, 0+;
        last_contained_log_timestamp: i64, 0+;
    }
}

message_for! {
    SnapshotFooterRecord, key 4, versions 0-0, flexible 0+ {
        version: i16, 0+;
    }
}

message_for! {
    KRaftVersionRecord, key 5, versions 0-0, flexible 0+ {
        version: i16, 0+;
        kraft_version: i16, 0+;
    }
}

/// Why bytes are not a control record that we know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlError {
    /// The key is not four bytes, or of another version.
    Key,
    /// No control record of a KRaft log has this type.
    UnknownType(i16),
    /// The message has no such version.
    UnknownVersion {
        /// The type.
        key_type: i16,
        /// The version.
        version: i16,
    },
    /// The value is not what the schema says.
    Body {
        /// The type.
        key_type: i16,
        /// What is wrong.
        cause: DecodeError,
    },
    /// The message has a tagged field that we do not know.
    UnknownTag {
        /// The type.
        key_type: i16,
        /// The tag.
        tag: u32,
    },
    /// Bytes follow the message.
    Trailing(i16),
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key => f.write_str("malformed key of a control record"),
            Self::UnknownType(key_type) => write!(f, "unknown control record type {key_type}"),
            Self::UnknownVersion { key_type, version } => {
                write!(
                    f,
                    "unknown version {version} of control record type {key_type}"
                )
            }
            Self::Body { key_type, cause } => {
                write!(f, "malformed control record of type {key_type}: {cause}")
            }
            Self::UnknownTag { key_type, tag } => {
                write!(
                    f,
                    "unknown tagged field {tag} of control record type {key_type}"
                )
            }
            Self::Trailing(key_type) => {
                write!(f, "bytes follow the control record of type {key_type}")
            }
        }
    }
}

impl std::error::Error for ControlError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Body { cause, .. } => Some(cause),
            Self::Key
            | Self::UnknownType(_)
            | Self::UnknownVersion { .. }
            | Self::UnknownTag { .. }
            | Self::Trailing(_) => None,
        }
    }
}

/// Encodes a record as key and value.
///
/// # Panics
/// When its `version` field is none of Kafka 4.3's.
#[must_use]
pub fn encode(record: &ControlRecord) -> (Bytes, Bytes) {
    let mut key = Writer::new();
    key.int16(KEY_VERSION);
    key.int16(record.key_type());
    let mut value = Writer::new();
    match record {
        ControlRecord::LeaderChange(body) => body.encode(&mut value, body.version),
        ControlRecord::SnapshotHeader(body) => body.encode(&mut value, body.version),
        ControlRecord::SnapshotFooter(body) => body.encode(&mut value, body.version),
        ControlRecord::KRaftVersion(body) => body.encode(&mut value, body.version),
        ControlRecord::Voters(body) => body.encode(&mut value, body.version),
    }
    (key.into_bytes(), value.into_bytes())
}

/// Decodes a record from its key and value.
///
/// # Errors
/// When it is no control record of Kafka 4.3's KRaft logs.
pub fn decode(key: &[u8], value: &[u8]) -> Result<ControlRecord, ControlError> {
    let mut reader = Reader::new(key);
    if key.len() != KEY_BYTES || reader.int16() != Ok(KEY_VERSION) {
        return Err(ControlError::Key);
    }
    match reader.int16().map_err(|_| ControlError::Key)? {
        LeaderChangeMessage::KEY => body(value).map(ControlRecord::LeaderChange),
        SnapshotHeaderRecord::KEY => body(value).map(ControlRecord::SnapshotHeader),
        SnapshotFooterRecord::KEY => body(value).map(ControlRecord::SnapshotFooter),
        KRaftVersionRecord::KEY => body(value).map(ControlRecord::KRaftVersion),
        VotersRecord::KEY => body(value).map(ControlRecord::Voters),
        other => Err(ControlError::UnknownType(other)),
    }
}

/// Every control record with its schema and codec, for tests and fuzzers.
#[must_use]
pub fn targets() -> &'static [Target] {
    const TARGETS: &[Target] = &[
        Target::of::<LeaderChangeMessage>(),
        Target::of::<SnapshotHeaderRecord>(),
        Target::of::<SnapshotFooterRecord>(),
        Target::of::<KRaftVersionRecord>(),
        Target::of::<VotersRecord>(),
    ];
    TARGETS
}

fn body<M: Message>(value: &[u8]) -> Result<M, ControlError> {
    let key_type = M::KEY;
    let malformed = |cause| ControlError::Body { key_type, cause };
    // Each of these messages begins with its own version.
    let version = Reader::new(value).int16().map_err(malformed)?;
    if !M::VERSIONS.contains(version) {
        return Err(ControlError::UnknownVersion { key_type, version });
    }
    let mut reader = Reader::new(value);
    let body = M::decode(&mut reader, version).map_err(malformed)?;
    if let Some(tag) = reader.unknown_tag() {
        return Err(ControlError::UnknownTag { key_type, tag });
    }
    if reader.remaining() > 0 {
        return Err(ControlError::Trailing(key_type));
    }
    Ok(body)
}
