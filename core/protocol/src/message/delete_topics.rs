//! DeleteTopics (20): by name, from version 6 on also by id. Source: KIP-516, KIP-599.

use pelton_model::TopicId;

use crate::codec::Str;
use crate::{message, structure};

message! {
    /// Deletes topics.
    DeleteTopicsRequest, key 20, versions 1-6, flexible 4+ {
        /// The topics by name or id, from version 6 on.
        topics: Vec<DeleteTopicState>, 6+;
        /// The topics by name, in old versions.
        topic_names: Vec<Str>, 0-5;
        /// How long the client waits for the outcome, in milliseconds.
        timeout_ms: i32, 0+;
    }
}

structure! {
    /// A topic to delete, by name or id.
    DeleteTopicState {
        /// The topic's name; null where the id tells.
        name: Option<Str>, 6+, nullable 6+ default null;
        /// The topic's id; zero where the name tells.
        topic_id: TopicId, 6+;
    }
}

message! {
    /// What became of each topic.
    DeleteTopicsResponse, key 20, versions 1-6, flexible 4+ {
        /// How long the client was or will be held back, in milliseconds.
        throttle_time_ms: i32, 1+;
        /// The outcome per topic.
        responses: Vec<DeletableTopicResult>, 0+;
    }
}

structure! {
    /// A topic's outcome.
    DeletableTopicResult {
        /// The topic's name; null when an id is unknown.
        name: Option<Str>, 0+, nullable 6+;
        /// The topic's id; zero where the name tells.
        topic_id: TopicId, 6+;
        /// The outcome.
        error_code: i16, 0+;
        /// What went wrong, in words; null when nothing did.
        error_message: Option<Str>, 5+, nullable 5+ default null;
    }
}
