//! ConsumerGroupHeartbeat (68): all that a member of a consumer group and its coordinator tell each other.
//! Source: KIP-848.

use pelton_model::TopicId;

use crate::codec::Str;
use crate::{message, structure};

message! {
    /// Joins, stays in, or leaves a consumer group.
    ConsumerGroupHeartbeatRequest, key 68, versions 0-1, flexible 0+ {
        /// The group's id.
        group_id: Str, 0+;
        /// The member's id.
        member_id: Str, 0+;
        /// The member's epoch: 0 joins, −1 leaves, −2 leaves for a while.
        member_epoch: i32, 0+;
        /// The static member's name; null for a dynamic member.
        instance_id: Option<Str>, 0+, nullable 0+ default null;
        /// The member's rack; null when nothing changed.
        rack_id: Option<Str>, 0+, nullable 0+ default null;
        /// How long the member may take to follow a rebalance, in milliseconds; −1 when it does not say.
        rebalance_timeout_ms: i32, 0+, default -1;
        /// The names of the topics it wants; null when nothing changed.
        subscribed_topic_names: Option<Vec<Str>>, 0+, nullable 0+ default null;
        /// The pattern of the topics it wants; null when nothing changed.
        subscribed_topic_regex: Option<Str>, 1+, nullable 1+ default null;
        /// The assignor it prefers; null when nothing changed.
        server_assignor: Option<Str>, 0+, nullable 0+ default null;
        /// The partitions it holds; null when nothing changed.
        topic_partitions: Option<Vec<TopicPartitions>>, 0+, nullable 0+ default null;
    }
}

structure! {
    /// Partitions of one topic.
    TopicPartitions {
        /// The topic's id.
        topic_id: TopicId, 0+;
        /// The partitions.
        partitions: Vec<i32>, 0+;
    }
}

message! {
    /// What the member is to do.
    ConsumerGroupHeartbeatResponse, key 68, versions 0-1, flexible 0+ {
        /// How long the client was or will be held back, in milliseconds.
        throttle_time_ms: i32, 0+;
        /// The outcome.
        error_code: i16, 0+;
        /// What went wrong, in words; null when nothing did.
        error_message: Option<Str>, 0+, nullable 0+ default null;
        /// The member's id.
        member_id: Option<Str>, 0+, nullable 0+ default null;
        /// The member's epoch.
        member_epoch: i32, 0+;
        /// How soon to call again, in milliseconds.
        heartbeat_interval_ms: i32, 0+;
        /// What the member should hold; null when nothing changed.
        assignment: Option<Assignment>, 0+, nullable 0+ default null;
    }
}

structure! {
    /// Partitions of several topics.
    Assignment {
        /// The partitions, by topic.
        topic_partitions: Vec<TopicPartitions>, 0+;
    }
}
