//! What is worth another try, and when. Pure: time and randomness come in as arguments.
//!
//! Source: the retriable exceptions of Kafka's clients; KIP-580 (exponential back-off).

use pelton_model::{ErrorCode, Monotonic};

/// Whether a broker that answered this may answer otherwise later.
pub(crate) fn is_retriable(error: ErrorCode) -> bool {
    is_stale_metadata(error)
        || matches!(
            error,
            ErrorCode::CorruptMessage
                | ErrorCode::RequestTimedOut
                | ErrorCode::BrokerNotAvailable
                | ErrorCode::NetworkException
                | ErrorCode::CoordinatorLoadInProgress
                | ErrorCode::CoordinatorNotAvailable
                | ErrorCode::NotCoordinator
                | ErrorCode::NotEnoughReplicas
                | ErrorCode::NotEnoughReplicasAfterAppend
                | ErrorCode::NotController
                | ErrorCode::OffsetNotAvailable
                | ErrorCode::ConcurrentTransactions
                | ErrorCode::UnstableOffsetCommit
                | ErrorCode::ThrottlingQuotaExceeded
        )
}

/// Whether the error says that topics or leaders are not where the client believes.
pub(crate) fn is_stale_metadata(error: ErrorCode) -> bool {
    matches!(
        error,
        ErrorCode::UnknownTopicOrPartition
            | ErrorCode::LeaderNotAvailable
            | ErrorCode::NotLeaderOrFollower
            | ErrorCode::ReplicaNotAvailable
            | ErrorCode::KafkaStorageError
            | ErrorCode::FencedLeaderEpoch
            | ErrorCode::UnknownLeaderEpoch
            | ErrorCode::ListenerNotFound
            | ErrorCode::UnknownTopicId
            | ErrorCode::InconsistentTopicId
    )
}

/// How long to wait between tries: doubling, with a fifth of jitter either way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    first_ms: u64,
    last_ms: u64,
    failures: u32,
    not_before: Monotonic,
}

impl Backoff {
    pub(crate) fn new(first_ms: u64, last_ms: u64) -> Self {
        Self {
            first_ms,
            last_ms: last_ms.max(first_ms),
            failures: 0,
            not_before: Monotonic(0),
        }
    }

    /// When the next try may begin.
    pub(crate) fn not_before(&self) -> Monotonic {
        self.not_before
    }

    /// Failures in a row.
    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    pub(crate) fn succeeded(&mut self) {
        self.failures = 0;
        self.not_before = Monotonic(0);
    }

    /// Notes a failure; `random` is any number.
    pub(crate) fn failed(&mut self, now: Monotonic, random: u64) {
        let doubled = self.first_ms.saturating_mul(1 << self.failures.min(20));
        let base = doubled.min(self.last_ms);
        let spread = base / 5;
        let jitter = random % (2 * spread + 1);
        self.failures = self.failures.saturating_add(1);
        self.not_before = now.plus_ms(base - spread + jitter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Goal: waits double up to the bound and jitter stays within a fifth. Method: failures in a row, both extremes.
    #[test]
    fn backoff_doubles_to_its_bound() {
        let waits = |random: u64| {
            let mut backoff = Backoff::new(100, 1000);
            let mut waits = Vec::new();
            for _ in 0..6 {
                backoff.failed(Monotonic(0), random);
                waits.push(backoff.not_before().0 / 1_000_000);
            }
            backoff.succeeded();
            assert_eq!(backoff.not_before(), Monotonic(0));
            waits
        };
        assert_eq!(waits(0), [80, 160, 320, 640, 800, 800]);
        assert_eq!(waits(20)[0], 100);
        assert_eq!(waits(40)[0], 120);
        assert_eq!(waits(41)[0], 80);
    }

    // Goal: the answers that matter are judged as Kafka's clients judge them. Method: a table.
    #[test]
    fn judges_errors() {
        for (error, retriable) in [
            (ErrorCode::NotLeaderOrFollower, true),
            (ErrorCode::UnknownTopicOrPartition, true),
            (ErrorCode::NotEnoughReplicas, true),
            (ErrorCode::CorruptMessage, true),
            (ErrorCode::MessageTooLarge, false),
            (ErrorCode::InvalidRecord, false),
            (ErrorCode::OutOfOrderSequenceNumber, false),
            (ErrorCode::TopicAuthorizationFailed, false),
            (ErrorCode::UnknownServerError, false),
        ] {
            assert_eq!(is_retriable(error), retriable, "{error}");
        }
    }
}
