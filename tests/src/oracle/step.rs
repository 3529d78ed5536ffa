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
        self.api == ApiKey::Produce && self.body.int("acks") == Some(0)
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
