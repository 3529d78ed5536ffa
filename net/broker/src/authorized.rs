//! What a client may do, as the bits that Metadata and the describe calls return: everything, as in a Kafka without an authorizer.
//!
//! Source: KIP-430; the bit of an operation is its number in Kafka's `AclOperation`.

const READ: i32 = 1 << 3;
const WRITE: i32 = 1 << 4;
const CREATE: i32 = 1 << 5;
const DELETE: i32 = 1 << 6;
const ALTER: i32 = 1 << 7;
const DESCRIBE: i32 = 1 << 8;
const CLUSTER_ACTION: i32 = 1 << 9;
const DESCRIBE_CONFIGS: i32 = 1 << 10;
const ALTER_CONFIGS: i32 = 1 << 11;
const IDEMPOTENT_WRITE: i32 = 1 << 12;

/// Every operation on the cluster.
pub(crate) const CLUSTER_OPERATIONS: i32 = CREATE
    | CLUSTER_ACTION
    | DESCRIBE_CONFIGS
    | ALTER_CONFIGS
    | IDEMPOTENT_WRITE
    | ALTER
    | DESCRIBE;
/// Every operation on a group.
pub(crate) const GROUP_OPERATIONS: i32 =
    READ | DESCRIBE | DELETE | DESCRIBE_CONFIGS | ALTER_CONFIGS;
/// Every operation on a topic.
pub(crate) const TOPIC_OPERATIONS: i32 =
    READ | WRITE | CREATE | DESCRIBE | DELETE | ALTER | DESCRIBE_CONFIGS | ALTER_CONFIGS;
