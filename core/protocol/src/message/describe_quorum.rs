//! DescribeQuorum (55): who keeps the metadata log, and how far each voter is. Source: KIP-595, KIP-836, KIP-853.

use pelton_model::TopicId;

use crate::codec::Str;
use crate::{message, structure};

message! {
    /// Asks for the quorum of a partition: `__cluster_metadata-0` is the only one that has any.
    DescribeQuorumRequest, key 55, versions 0-2, flexible 0+ {
        /// The topics.
        topics: Vec<TopicData>, 0+;
    }
}

structure! {
    /// A topic's partitions.
    TopicData {
        /// The topic's name.
        topic_name: Str, 0+;
        /// The partitions.
        partitions: Vec<PartitionData>, 0+;
    }
}

structure! {
    /// A partition.
    PartitionData {
        /// The partition's index.
        partition_index: i32, 0+;
    }
}

message! {
    /// The quorum.
    DescribeQuorumResponse, key 55, versions 0-2, flexible 0+ {
        /// What went wrong with the request as a whole.
        error_code: i16, 0+;
        /// That in words.
        error_message: Option<Str>, 2+, nullable 2+;
        /// The topics.
        topics: Vec<described::TopicData>, 0+;
        /// The voters' addresses.
        nodes: Vec<Node>, 2+;
    }
}

/// What the answer calls by the names that the request uses, too.
pub mod described {
    use super::ReplicaState;
    use crate::codec::Str;
    use crate::structure;

    structure! {
        /// A topic's answers.
        TopicData {
            /// The topic's name.
            topic_name: Str, 0+;
            /// The partitions.
            partitions: Vec<PartitionData>, 0+;
        }
    }

    structure! {
        /// A partition's quorum.
        PartitionData {
            /// The partition's index.
            partition_index: i32, 0+;
            /// The outcome.
            error_code: i16, 0+;
            /// The outcome in words.
            error_message: Option<Str>, 2+, nullable 2+;
            /// The leader; −1 when it is not known.
            leader_id: i32, 0+;
            /// The leader epoch.
            leader_epoch: i32, 0+;
            /// The end of what is committed.
            high_watermark: i64, 0+;
            /// Who votes.
            current_voters: Vec<ReplicaState>, 0+;
            /// Who only reads.
            observers: Vec<ReplicaState>, 0+;
        }
    }
}

structure! {
    /// How far a replica of the log is.
    ReplicaState {
        /// The node.
        replica_id: i32, 0+;
        /// The directory that holds its log.
        replica_directory_id: TopicId, 2+;
        /// Its log end; −1 when it is not known.
        log_end_offset: i64, 0+;
        /// When it last fetched, by the leader's clock; −1 when it is not known.
        last_fetch_timestamp: i64, 1+, default -1;
        /// When it last had everything, by the leader's clock; −1 when it is not known.
        last_caught_up_timestamp: i64, 1+, default -1;
    }
}

structure! {
    /// A voter.
    Node {
        /// The node.
        node_id: i32, 2+;
        /// Where its controller listens.
        listeners: Vec<Listener>, 2+;
    }
}

structure! {
    /// An address.
    Listener {
        /// The listener's name.
        name: Str, 2+;
        /// The host.
        host: Str, 2+;
        /// The port.
        port: u16, 2+;
    }
}
