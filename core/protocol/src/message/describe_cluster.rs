//! DescribeCluster (60): the cluster's id, controller and brokers. Source: KIP-700, KIP-919, KIP-1073.

use crate::codec::Str;
use crate::{message, structure};

message! {
    /// Asks who is in the cluster.
    DescribeClusterRequest, key 60, versions 0-2, flexible 0+ {
        /// Whether to tell what the client may do to the cluster.
        include_cluster_authorized_operations: bool, 0+;
        /// 1 asks for brokers, 2 for controllers.
        endpoint_type: i8, 1+, default 1;
        /// Whether to name fenced brokers too.
        include_fenced_brokers: bool, 2+;
    }
}

message! {
    /// The cluster's id, controller and brokers.
    DescribeClusterResponse, key 60, versions 0-2, flexible 0+ {
        /// How long the client was or will be held back, in milliseconds.
        throttle_time_ms: i32, 0+;
        /// The outcome.
        error_code: i16, 0+;
        /// What went wrong, in words; null when nothing did.
        error_message: Option<Str>, 0+, nullable 0+ default null;
        /// 1 when brokers are told, 2 when controllers.
        endpoint_type: i8, 1+, default 1;
        /// The cluster's id.
        cluster_id: Str, 0+;
        /// The controller's node id; −1 is unknown.
        controller_id: i32, 0+, default -1;
        /// The brokers that are alive.
        brokers: Vec<DescribeClusterBroker>, 0+;
        /// What the client may do to the cluster, as bits; the least integer when not asked.
        cluster_authorized_operations: i32, 0+, default -2_147_483_648;
    }
}

structure! {
    /// A broker and where it is reached.
    DescribeClusterBroker {
        /// The node's id.
        broker_id: i32, 0+;
        /// Its host.
        host: Str, 0+;
        /// Its port.
        port: i32, 0+;
        /// Its rack; null when it has none.
        rack: Option<Str>, 0+, nullable 0+ default null;
        /// Whether the broker is fenced.
        is_fenced: bool, 2+;
    }
}
