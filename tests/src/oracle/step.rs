//! One request of a sequence, and what came back.

use std::fmt;

use kafka_protocol::messages::ApiKey;
use pelton_protocol::api;

use super::value::{self, Value};
use crate::wire;

/// What is wrong with a request's frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// Nothing.
    None,
    /// The last bytes are missing.
    Cut(usize),
    /// Bytes follow the body.
    Trailing(usize),
}

/// A request.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The API.
    pub api: ApiKey,
    /// The version; a broker may not know it.
    pub version: i16,
    /// Whose connection it goes on.
    pub actor: usize,
    /// The fields that matter.
    pub body: Value,
    /// What is wrong with the frame.
    pub damage: Damage,
}

impl Step {
    /// A request with an honest frame.
    #[must_use]
    pub fn plain(api: ApiKey, version: i16, actor: usize, body: Value) -> Self {
        Self { api, version, actor, body, damage: Damage::None }
    }

    /// The frame with a body whose names and slots are resolved.
    #[must_use]
    pub fn frame(&self, resolved: &Value) -> Vec<u8> {
        let key = self.api as i16;
        let row = api::row(key).expect("only APIs that are served are generated");
        let shape = self.version.clamp(row.min, row.max);
        let mut body = value::encode(value::target(key, "Request"), shape, resolved);
        match self.damage {
            Damage::None => {}
            Damage::Cut(count) => body.truncate(body.len().saturating_sub(count)),
            Damage::Trailing(count) => body.resize(body.len() + count, 1),
        }
        wire::request(key, self.version, row.request_header_version(shape) == 2, &body)
    }

    /// Whether no answer is due: Produce with acks=0.
    #[must_use]
    pub fn is_mute(&self) -> bool {
        self.api == ApiKey::Produce && self.body.int("acks").unwrap_or(0) == 0
    }

    /// Whether the brokers may have done different things without a word: a Produce that names a partition twice (Kafka takes one of
    /// them, Pelton both), one without acks that was refused in part, and a transaction that is named twice.
    #[must_use]
    pub fn is_ambiguous(&self, outcome: &Outcome) -> bool {
        if self.api != ApiKey::Produce {
            return self.repeats_transaction();
        }
        if *outcome == Outcome::Closed {
            return true;
        }
        let mut seen: Vec<(&Value, i64)> = Vec::new();
        for topic in self.body.each("topic_data") {
            let name = topic.get("name").or(topic.get("topic_id")).unwrap_or(&Value::Null);
            for partition in topic.each("partition_data") {
                seen.push((name, partition.int("index").unwrap_or(0)));
            }
        }
        (1..seen.len()).any(|at| seen[..at].contains(&seen[at]))
    }

    /// Whether it adds partitions to one transaction twice: of the two Kafka takes one, with what the other says of it.
    #[must_use]
    pub fn repeats_transaction(&self) -> bool {
        let transactions: Vec<&Value> = self.body.each("transactions").collect();
        let id = |place: usize| transactions[place].get("transactional_id");
        (1..transactions.len()).any(|at| (0..at).any(|before| id(before) == id(at)))
    }

    /// Whether the answer may wait for other members of the group.
    #[must_use]
    pub fn may_wait(&self) -> bool {
        matches!(self.api, ApiKey::JoinGroup | ApiKey::SyncGroup)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?} v{}", self.actor, self.api, self.version)?;
        if self.damage != Damage::None {
            write!(f, " ({:?})", self.damage)?;
        }
        write!(f, " {}", self.body)
    }
}

/// What came back.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// An answer: masked, and as it came.
    Answer(Box<Value>, Box<Value>),
    /// An answer that is no message of the version.
    Unreadable(String),
    /// The connection was closed.
    Closed,
    /// Nothing came in time.
    Silence,
    /// Nothing was due, and the connection lives.
    NoAnswer,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answer(masked, _) => write!(f, "{masked}"),
            Self::Unreadable(error) => write!(f, "unreadable: {error}"),
            Self::Closed => f.write_str("closed"),
            Self::Silence => f.write_str("silence"),
            Self::NoAnswer => f.write_str("no answer"),
        }
    }
}
