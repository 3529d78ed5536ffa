//! Kafka's error codes, the outcome half of every answer.
//!
//! Invariants:
//! 1. Codes and names are Apache Kafka 4.3's, complete from −1 to 133; messages are our own words.
//! 2. Every code has exactly one variant, so a `match` on [`ErrorCode`] is exhaustive.
//!
//! What it does not do: say which code an API may answer; that is each handler's table.
//! Source: the public protocol guide of Apache Kafka 4.3, "Error Codes".

use std::fmt;

macro_rules! error_codes {
    ($($variant:ident = $code:literal, $name:literal, $message:literal;)*) => {
        /// One of Kafka's error codes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(i16)]
        pub enum ErrorCode {
            $(#[doc = $message] $variant = $code,)*
        }

        impl ErrorCode {
            /// Every code, from −1 up.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The code of this number; `None` when Kafka 4.3 has no such code.
            #[must_use]
            pub fn from_code(code: i16) -> Option<Self> {
                match code {
                    $($code => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// Kafka's name in upper snake case.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// What it means, for people.
            #[must_use]
            pub fn message(self) -> &'static str {
                match self {
                    $(Self::$variant => $message,)*
                }
            }
        }
    };
}

error_codes! {
    UnknownServerError = -1, "UNKNOWN_SERVER_ERROR",
        "The broker met an unexpected condition.";
    None = 0, "NONE",
        "No error.";
    OffsetOutOfRange = 1, "OFFSET_OUT_OF_RANGE",
        "The offset lies outside the partition's log.";
    CorruptMessage = 2, "CORRUPT_MESSAGE",
        "The batch fails its checksum, has an impossible size, or is otherwise damaged.";
    UnknownTopicOrPartition = 3, "UNKNOWN_TOPIC_OR_PARTITION",
        "The topic or partition does not exist on this broker.";
    InvalidFetchSize = 4, "INVALID_FETCH_SIZE",
        "The fetch size is not valid.";
    LeaderNotAvailable = 5, "LEADER_NOT_AVAILABLE",
        "The partition has no leader at the moment.";
    NotLeaderOrFollower = 6, "NOT_LEADER_OR_FOLLOWER",
        "This broker is not the leader, or not a replica, of the partition.";
    RequestTimedOut = 7, "REQUEST_TIMED_OUT",
        "The request did not finish in time.";
    BrokerNotAvailable = 8, "BROKER_NOT_AVAILABLE",
        "The broker is not available.";
    ReplicaNotAvailable = 9, "REPLICA_NOT_AVAILABLE",
        "The replica is not available for this partition.";
    MessageTooLarge = 10, "MESSAGE_TOO_LARGE",
        "The batch is larger than the topic allows.";
    StaleControllerEpoch = 11, "STALE_CONTROLLER_EPOCH",
        "The controller's epoch is out of date.";
    OffsetMetadataTooLarge = 12, "OFFSET_METADATA_TOO_LARGE",
        "The metadata text of the committed offset is too long.";
    NetworkException = 13, "NETWORK_EXCEPTION",
        "The connection ended before the response arrived.";
    CoordinatorLoadInProgress = 14, "COORDINATOR_LOAD_IN_PROGRESS",
        "The coordinator is still loading its state.";
    CoordinatorNotAvailable = 15, "COORDINATOR_NOT_AVAILABLE",
        "No coordinator is available.";
    NotCoordinator = 16, "NOT_COORDINATOR",
        "This broker is not the coordinator asked for.";
    InvalidTopicException = 17, "INVALID_TOPIC_EXCEPTION",
        "The topic name is not valid, or the topic may not be used this way.";
    RecordListTooLarge = 18, "RECORD_LIST_TOO_LARGE",
        "The batch is larger than a segment may be.";
    NotEnoughReplicas = 19, "NOT_ENOUGH_REPLICAS",
        "Fewer replicas are in sync than the topic requires.";
    NotEnoughReplicasAfterAppend = 20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "The batch was written, but to fewer in-sync replicas than required.";
    InvalidRequiredAcks = 21, "INVALID_REQUIRED_ACKS",
        "The acks value is none of -1, 0 and 1.";
    IllegalGeneration = 22, "ILLEGAL_GENERATION",
        "The group is at another generation.";
    InconsistentGroupProtocol = 23, "INCONSISTENT_GROUP_PROTOCOL",
        "The member's protocols do not match those of the group.";
    InvalidGroupId = 24, "INVALID_GROUP_ID",
        "The group id is not valid.";
    UnknownMemberId = 25, "UNKNOWN_MEMBER_ID",
        "The coordinator does not know this member.";
    InvalidSessionTimeout = 26, "INVALID_SESSION_TIMEOUT",
        "The session timeout is outside the range the broker allows.";
    RebalanceInProgress = 27, "REBALANCE_IN_PROGRESS",
        "The group is rebalancing; the member must rejoin.";
    InvalidCommitOffsetSize = 28, "INVALID_COMMIT_OFFSET_SIZE",
        "The size of the offset commit is not valid.";
    TopicAuthorizationFailed = 29, "TOPIC_AUTHORIZATION_FAILED",
        "Not authorized for the topic.";
    GroupAuthorizationFailed = 30, "GROUP_AUTHORIZATION_FAILED",
        "Not authorized for the group.";
    ClusterAuthorizationFailed = 31, "CLUSTER_AUTHORIZATION_FAILED",
        "Not authorized for the cluster.";
    InvalidTimestamp = 32, "INVALID_TIMESTAMP",
        "A record's timestamp is outside the range the topic allows.";
    UnsupportedSaslMechanism = 33, "UNSUPPORTED_SASL_MECHANISM",
        "The broker does not offer this SASL mechanism.";
    IllegalSaslState = 34, "ILLEGAL_SASL_STATE",
        "The request does not fit the state of the SASL exchange.";
    UnsupportedVersion = 35, "UNSUPPORTED_VERSION",
        "The broker does not serve this version of the API.";
    TopicAlreadyExists = 36, "TOPIC_ALREADY_EXISTS",
        "A topic of this name exists already.";
    InvalidPartitions = 37, "INVALID_PARTITIONS",
        "The number of partitions is not valid.";
    InvalidReplicationFactor = 38, "INVALID_REPLICATION_FACTOR",
        "The replication factor is not positive or exceeds the brokers available.";
    InvalidReplicaAssignment = 39, "INVALID_REPLICA_ASSIGNMENT",
        "The replica assignment is not valid.";
    InvalidConfig = 40, "INVALID_CONFIG",
        "A configuration name or value is not valid.";
    NotController = 41, "NOT_CONTROLLER",
        "This node is not the active controller.";
    InvalidRequest = 42, "INVALID_REQUEST",
        "The request is malformed or contradicts itself.";
    UnsupportedForMessageFormat = 43, "UNSUPPORTED_FOR_MESSAGE_FORMAT",
        "The partition's record format does not support the request.";
    PolicyViolation = 44, "POLICY_VIOLATION",
        "The request breaks a configured policy.";
    OutOfOrderSequenceNumber = 45, "OUT_OF_ORDER_SEQUENCE_NUMBER",
        "The batch's sequence does not follow the producer's last one.";
    DuplicateSequenceNumber = 46, "DUPLICATE_SEQUENCE_NUMBER",
        "The batch was appended before.";
    InvalidProducerEpoch = 47, "INVALID_PRODUCER_EPOCH",
        "The producer's epoch is older than the current one.";
    InvalidTxnState = 48, "INVALID_TXN_STATE",
        "The transaction is in a state that does not allow this.";
    InvalidProducerIdMapping = 49, "INVALID_PRODUCER_ID_MAPPING",
        "The producer id does not belong to this transactional id.";
    InvalidTransactionTimeout = 50, "INVALID_TRANSACTION_TIMEOUT",
        "The transaction timeout is outside the range the broker allows.";
    ConcurrentTransactions = 51, "CONCURRENT_TRANSACTIONS",
        "The producer has another operation on its transaction under way.";
    TransactionCoordinatorFenced = 52, "TRANSACTION_COORDINATOR_FENCED",
        "The transaction coordinator's epoch is out of date.";
    TransactionalIdAuthorizationFailed = 53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        "Not authorized for the transactional id.";
    SecurityDisabled = 54, "SECURITY_DISABLED",
        "The security feature is not enabled.";
    OperationNotAttempted = 55, "OPERATION_NOT_ATTEMPTED",
        "The operation was not attempted, since an earlier one in the batch failed.";
    KafkaStorageError = 56, "KAFKA_STORAGE_ERROR",
        "The log directory of the partition failed.";
    LogDirNotFound = 57, "LOG_DIR_NOT_FOUND",
        "The log directory is not one of this broker's.";
    SaslAuthenticationFailed = 58, "SASL_AUTHENTICATION_FAILED",
        "Authentication failed.";
    UnknownProducerId = 59, "UNKNOWN_PRODUCER_ID",
        "The broker has no state of this producer id.";
    ReassignmentInProgress = 60, "REASSIGNMENT_IN_PROGRESS",
        "A reassignment of the partition is in progress.";
    DelegationTokenAuthDisabled = 61, "DELEGATION_TOKEN_AUTH_DISABLED",
        "Delegation tokens are not enabled.";
    DelegationTokenNotFound = 62, "DELEGATION_TOKEN_NOT_FOUND",
        "The delegation token does not exist.";
    DelegationTokenOwnerMismatch = 63, "DELEGATION_TOKEN_OWNER_MISMATCH",
        "The principal is neither owner nor renewer of the token.";
    DelegationTokenRequestNotAllowed = 64, "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED",
        "Delegation token requests are not allowed on this connection.";
    DelegationTokenAuthorizationFailed = 65, "DELEGATION_TOKEN_AUTHORIZATION_FAILED",
        "Not authorized for the delegation token.";
    DelegationTokenExpired = 66, "DELEGATION_TOKEN_EXPIRED",
        "The delegation token has expired.";
    InvalidPrincipalType = 67, "INVALID_PRINCIPAL_TYPE",
        "The principal type is not supported.";
    NonEmptyGroup = 68, "NON_EMPTY_GROUP",
        "The group still has members.";
    GroupIdNotFound = 69, "GROUP_ID_NOT_FOUND",
        "The group does not exist.";
    FetchSessionIdNotFound = 70, "FETCH_SESSION_ID_NOT_FOUND",
        "The fetch session does not exist.";
    InvalidFetchSessionEpoch = 71, "INVALID_FETCH_SESSION_EPOCH",
        "The fetch session is at another epoch.";
    ListenerNotFound = 72, "LISTENER_NOT_FOUND",
        "The leader has no listener of the name asked for.";
    TopicDeletionDisabled = 73, "TOPIC_DELETION_DISABLED",
        "Topic deletion is disabled.";
    FencedLeaderEpoch = 74, "FENCED_LEADER_EPOCH",
        "The leader epoch is older than the broker's.";
    UnknownLeaderEpoch = 75, "UNKNOWN_LEADER_EPOCH",
        "The leader epoch is newer than the broker's.";
    UnsupportedCompressionType = 76, "UNSUPPORTED_COMPRESSION_TYPE",
        "The compression type does not fit the version of the request.";
    StaleBrokerEpoch = 77, "STALE_BROKER_EPOCH",
        "The broker's epoch has changed.";
    OffsetNotAvailable = 78, "OFFSET_NOT_AVAILABLE",
        "The leader has not caught up to its high watermark since its election.";
    MemberIdRequired = 79, "MEMBER_ID_REQUIRED",
        "The member must join again with the member id it was given.";
    PreferredLeaderNotAvailable = 80, "PREFERRED_LEADER_NOT_AVAILABLE",
        "The preferred leader is not available.";
    GroupMaxSizeReached = 81, "GROUP_MAX_SIZE_REACHED",
        "The group has reached its largest size.";
    FencedInstanceId = 82, "FENCED_INSTANCE_ID",
        "Another member has registered the same group instance id.";
    EligibleLeadersNotAvailable = 83, "ELIGIBLE_LEADERS_NOT_AVAILABLE",
        "No replica that may become leader is available.";
    ElectionNotNeeded = 84, "ELECTION_NOT_NEEDED",
        "The partition needs no leader election.";
    NoReassignmentInProgress = 85, "NO_REASSIGNMENT_IN_PROGRESS",
        "No reassignment of the partition is in progress.";
    GroupSubscribedToTopic = 86, "GROUP_SUBSCRIBED_TO_TOPIC",
        "The group is subscribed to the topic, so its offsets may not be deleted.";
    InvalidRecord = 87, "INVALID_RECORD",
        "The batch or one of its records breaks a rule of the broker.";
    UnstableOffsetCommit = 88, "UNSTABLE_OFFSET_COMMIT",
        "Offsets of an open transaction have yet to be decided.";
    ThrottlingQuotaExceeded = 89, "THROTTLING_QUOTA_EXCEEDED",
        "The quota is exceeded.";
    ProducerFenced = 90, "PRODUCER_FENCED",
        "A newer producer uses the same transactional id.";
    ResourceNotFound = 91, "RESOURCE_NOT_FOUND",
        "The resource does not exist.";
    DuplicateResource = 92, "DUPLICATE_RESOURCE",
        "The resource appears or exists twice.";
    UnacceptableCredential = 93, "UNACCEPTABLE_CREDENTIAL",
        "The credential does not meet the requirements.";
    InconsistentVoterSet = 94, "INCONSISTENT_VOTER_SET",
        "The voter sets of sender and receiver differ.";
    InvalidUpdateVersion = 95, "INVALID_UPDATE_VERSION",
        "The update version is not valid.";
    FeatureUpdateFailed = 96, "FEATURE_UPDATE_FAILED",
        "The features could not be updated.";
    PrincipalDeserializationFailure = 97, "PRINCIPAL_DESERIALIZATION_FAILURE",
        "The forwarded principal could not be decoded.";
    SnapshotNotFound = 98, "SNAPSHOT_NOT_FOUND",
        "The snapshot does not exist.";
    PositionOutOfRange = 99, "POSITION_OUT_OF_RANGE",
        "The position lies outside the snapshot.";
    UnknownTopicId = 100, "UNKNOWN_TOPIC_ID",
        "No topic has this id on this broker.";
    DuplicateBrokerRegistration = 101, "DUPLICATE_BROKER_REGISTRATION",
        "A live broker is registered with this id.";
    BrokerIdNotRegistered = 102, "BROKER_ID_NOT_REGISTERED",
        "No broker is registered with this id.";
    InconsistentTopicId = 103, "INCONSISTENT_TOPIC_ID",
        "The log's topic id is not the one in the request.";
    InconsistentClusterId = 104, "INCONSISTENT_CLUSTER_ID",
        "The cluster id is not this cluster's.";
    TransactionalIdNotFound = 105, "TRANSACTIONAL_ID_NOT_FOUND",
        "The transactional id does not exist.";
    FetchSessionTopicIdError = 106, "FETCH_SESSION_TOPIC_ID_ERROR",
        "The fetch session mixes topic names and topic ids.";
    IneligibleReplica = 107, "INELIGIBLE_REPLICA",
        "A replica of the new ISR may not join it.";
    NewLeaderElected = 108, "NEW_LEADER_ELECTED",
        "The change went through and elected another leader.";
    OffsetMovedToTieredStorage = 109, "OFFSET_MOVED_TO_TIERED_STORAGE",
        "The offset was moved to tiered storage.";
    FencedMemberEpoch = 110, "FENCED_MEMBER_EPOCH",
        "The member's epoch is fenced; it must abandon its partitions and rejoin.";
    UnreleasedInstanceId = 111, "UNRELEASED_INSTANCE_ID",
        "The group instance id is still held by another member.";
    UnsupportedAssignor = 112, "UNSUPPORTED_ASSIGNOR",
        "The broker or the group does not support the assignor.";
    StaleMemberEpoch = 113, "STALE_MEMBER_EPOCH",
        "The member's epoch is out of date; retry with the new one.";
    MismatchedEndpointType = 114, "MISMATCHED_ENDPOINT_TYPE",
        "The request came to the wrong kind of endpoint.";
    UnsupportedEndpointType = 115, "UNSUPPORTED_ENDPOINT_TYPE",
        "The endpoint type is not supported.";
    UnknownControllerId = 116, "UNKNOWN_CONTROLLER_ID",
        "The controller id is not known.";
    UnknownSubscriptionId = 117, "UNKNOWN_SUBSCRIPTION_ID",
        "The client's subscription id is out of date.";
    TelemetryTooLarge = 118, "TELEMETRY_TOO_LARGE",
        "The telemetry is larger than the broker accepts.";
    InvalidRegistration = 119, "INVALID_REGISTRATION",
        "The registration is not valid.";
    TransactionAbortable = 120, "TRANSACTION_ABORTABLE",
        "The transaction met an error and must be aborted.";
    InvalidRecordState = 121, "INVALID_RECORD_STATE",
        "The delivery state of the record does not allow this.";
    ShareSessionNotFound = 122, "SHARE_SESSION_NOT_FOUND",
        "The share session does not exist.";
    InvalidShareSessionEpoch = 123, "INVALID_SHARE_SESSION_EPOCH",
        "The share session is at another epoch.";
    FencedStateEpoch = 124, "FENCED_STATE_EPOCH",
        "The share state's epoch is out of date.";
    InvalidVoterKey = 125, "INVALID_VOTER_KEY",
        "The voter key is not the receiving replica's.";
    DuplicateVoter = 126, "DUPLICATE_VOTER",
        "The voter is already in the voter set.";
    VoterNotFound = 127, "VOTER_NOT_FOUND",
        "The voter is not in the voter set.";
    InvalidRegularExpression = 128, "INVALID_REGULAR_EXPRESSION",
        "The regular expression is not valid.";
    RebootstrapRequired = 129, "REBOOTSTRAP_REQUIRED",
        "The client's metadata is stale; it must start again from its bootstrap servers.";
    StreamsInvalidTopology = 130, "STREAMS_INVALID_TOPOLOGY",
        "The streams topology is not valid.";
    StreamsInvalidTopologyEpoch = 131, "STREAMS_INVALID_TOPOLOGY_EPOCH",
        "The streams topology epoch is not valid.";
    StreamsTopologyFenced = 132, "STREAMS_TOPOLOGY_FENCED",
        "The streams topology epoch is out of date.";
    ShareSessionLimitReached = 133, "SHARE_SESSION_LIMIT_REACHED",
        "The limit of share sessions is reached.";
}

impl ErrorCode {
    /// The number on the wire.
    #[must_use]
    pub fn code(self) -> i16 {
        self as i16
    }

    /// Whether this is an error at all.
    #[must_use]
    pub fn is_error(self) -> bool {
        self != Self::None
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Goal: the table is complete and consistent. Method: every number, both ways; names against variants.
    #[test]
    fn table_is_complete() {
        assert_eq!(ErrorCode::ALL.len(), 135);
        for (index, &error) in ErrorCode::ALL.iter().enumerate() {
            assert_eq!(usize::try_from(error.code() + 1), Ok(index));
            assert_eq!(ErrorCode::from_code(error.code()), Some(error));
            let squeezed = error.name().replace('_', "").to_lowercase();
            assert_eq!(squeezed, format!("{error:?}").to_lowercase());
            assert!(error.message().ends_with('.'));
        }
        assert_eq!(ErrorCode::from_code(-2), None);
        assert_eq!(ErrorCode::from_code(134), None);
    }
}
