//! ConsumerGroupDescribe (69): the members and states of consumer groups. Source: KIP-848.

use pelton_model::TopicId;

use crate::codec::Str;
use crate::{message, structure};

message! {
    /// Asks for consumer groups.
    ConsumerGroupDescribeRequest, key 69, versions 0-1, flexible 0+ {
        /// The groups.
        group_ids: Vec<Str>, 0+;
        /// Whether to tell what the client may do to the group.
        include_authorized_operations: bool, 0+;
    }
}

message! {
    /// The groups.
    ConsumerGroupDescribeResponse, key 69, versions 0-1, flexible 0+ {
        /// How long the client was or will be held back, in milliseconds.
        throttle_time_ms: i32, 0+;
        /// The groups.
        groups: Vec<DescribedGroup>, 0+;
    }
}

structure! {
    /// A group.
    DescribedGroup {
        /// The outcome.
        error_code: i16, 0+;
        /// What went wrong, in words; null when nothing did.
        error_message: Option<Str>, 0+, nullable 0+ default null;
        /// The group's id.
        group_id: Str, 0+;
        /// The group's state, as Kafka spells it.
        group_state: Str, 0+;
        /// The group's epoch.
        group_epoch: i32, 0+;
        /// The epoch of the group's target assignment.
        assignment_epoch: i32, 0+;
        /// The assignor.
        assignor_name: Str, 0+;
        /// The members.
        members: Vec<Member>, 0+;
        /// What the client may do to the group, as bits; the least integer when not asked.
        authorized_operations: i32, 0+, default -2_147_483_648;
    }
}

structure! {
    /// A member.
    Member {
        /// The member's id.
        member_id: Str, 0+;
        /// The static member's name; null for a dynamic member.
        instance_id: Option<Str>, 0+, nullable 0+ default null;
        /// The member's rack; null when it has none.
        rack_id: Option<Str>, 0+, nullable 0+ default null;
        /// The member's epoch.
        member_epoch: i32, 0+;
        /// The client's id.
        client_id: Str, 0+;
        /// The client's address.
        client_host: Str, 0+;
        /// The names of the topics it wants.
        subscribed_topic_names: Vec<Str>, 0+;
        /// The pattern of the topics it wants.
        subscribed_topic_regex: Option<Str>, 0+, nullable 0+ default null;
        /// What the member holds.
        assignment: Assignment, 0+;
        /// What the member should hold.
        target_assignment: Assignment, 0+;
        /// 0 for the classic protocol, 1 for the consumer protocol; −1 when unknown.
        member_type: i8, 1+, default -1;
    }
}

structure! {
    /// Partitions of several topics.
    Assignment {
        /// The partitions, by topic.
        topic_partitions: Vec<TopicPartitions>, 0+;
    }
}

structure! {
    /// Partitions of one topic.
    TopicPartitions {
        /// The topic's id.
        topic_id: TopicId, 0+;
        /// The topic's name.
        topic_name: Str, 0+;
        /// The partitions.
        partitions: Vec<i32>, 0+;
    }
}
