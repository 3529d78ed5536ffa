//! WriteTxnMarkers (27): ends transactions in their partitions. Source: KIP-98, KIP-1228.

use crate::codec::Str;
use crate::{message, structure};

message! {
    /// Markers to be written.
    WriteTxnMarkersRequest, key 27, versions 1-2, flexible 1+ {
        /// The markers.
        markers: Vec<WritableTxnMarker>, 0+;
    }
}

structure! {
    /// The end of a producer's transaction.
    WritableTxnMarker {
        /// The producer's id.
        producer_id: i64, 0+;
        /// The producer's epoch.
        producer_epoch: i16, 0+;
        /// Whether the transaction is committed, not aborted.
        transaction_result: bool, 0+;
        /// The topics.
        topics: Vec<WritableTxnMarkerTopic>, 0+;
        /// The epoch of the transaction's coordinator.
        coordinator_epoch: i32, 0+;
        /// The transaction's version: from 2 on the producer's epoch ends with it.
        transaction_version: i8, 2+, default 0;
    }
}

structure! {
    /// A topic.
    WritableTxnMarkerTopic {
        /// The topic's name.
        name: Str, 0+;
        /// The partitions.
        partition_indexes: Vec<i32>, 0+;
    }
}

message! {
    /// What became of each marker.
    WriteTxnMarkersResponse, key 27, versions 1-2, flexible 1+ {
        /// The markers.
        markers: Vec<WritableTxnMarkerResult>, 0+;
    }
}

structure! {
    /// A producer's markers.
    WritableTxnMarkerResult {
        /// The producer's id.
        producer_id: i64, 0+;
        /// The topics.
        topics: Vec<WritableTxnMarkerTopicResult>, 0+;
    }
}

structure! {
    /// A topic's outcomes.
    WritableTxnMarkerTopicResult {
        /// The topic's name.
        name: Str, 0+;
        /// The partitions.
        partitions: Vec<WritableTxnMarkerPartitionResult>, 0+;
    }
}

structure! {
    /// A partition's outcome.
    WritableTxnMarkerPartitionResult {
        /// The partition's index.
        partition_index: i32, 0+;
        /// The outcome.
        error_code: i16, 0+;
    }
}
