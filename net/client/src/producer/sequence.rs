//! The sequences of an idempotent producer in one partition, and what a broker's answer means for a batch. Pure.
//!
//! 1. A batch keeps its stamp (producer id, epoch, first sequence) however often it is sent, so that the broker can tell
//!    it is the same one.
//! 2. A gap can only be closed by a new epoch, in which sequences begin at 0 again; stamps are then drawn anew, and only
//!    when no batch of the partition is under way.
//! 3. Each partition counts its own epoch: brokers compare epochs per producer id *and* partition.
//!
//! Weakness, as in Kafka's clients: when a batch was given up without an answer (`delivery_timeout_ms`), those after it
//! get new stamps; one of them that had been written without an answer is then written twice.
//! Source: KIP-98, KIP-360.

use bytes::BytesMut;
use pelton_model::batch::{BatchHeader, HEADER_BYTES, patch};
use pelton_model::{ErrorCode, ProducerEpoch, ProducerId, Sequence, Timestamp};

use super::record::BatchAck;
use crate::error::ClientError;
use crate::retry;

/// Who produces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) producer_id: ProducerId,
    pub(crate) epoch: ProducerEpoch,
}

/// What a batch carries in its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) identity: Identity,
    pub(crate) base_sequence: Sequence,
}

impl Stamp {
    /// Writes the stamp into a finished batch, and its CRC anew.
    pub(crate) fn write(&self, batch: &mut BytesMut) {
        let mut header = BatchHeader::parse(batch).expect("the batch was built here");
        let max_timestamp = header.max_timestamp;
        header.producer_id = self.identity.producer_id;
        header.producer_epoch = self.identity.epoch;
        header.base_sequence = self.base_sequence;
        // Another value first, so that setting the right one writes the CRC.
        header.max_timestamp = Timestamp(max_timestamp.0.wrapping_add(1));
        batch[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
        let timestamp_type = header.attributes.timestamp_type();
        patch::set_max_timestamp(batch, timestamp_type, max_timestamp);
    }
}

/// One partition's counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sequences {
    identity: Option<Identity>,
    next: Sequence,
    needs_reset: bool,
}

impl Default for Sequences {
    fn default() -> Self {
        Self {
            identity: None,
            next: Sequence(0),
            needs_reset: false,
        }
    }
}

impl Sequences {
    /// Stamps the next batch, of `record_count` records; `producer` is who produces from now on.
    pub(crate) fn stamp(&mut self, producer: Identity, record_count: i32) -> Stamp {
        assert!(!self.needs_reset);
        let identity = *self.identity.get_or_insert(producer);
        let base_sequence = self.next;
        self.next = self.next.plus(record_count);
        Stamp {
            identity,
            base_sequence,
        }
    }

    /// Asks for a new epoch: the broker does not have what was stamped last.
    pub(crate) fn ask_reset(&mut self) {
        self.needs_reset = true;
    }

    pub(crate) fn needs_reset(&self) -> bool {
        self.needs_reset
    }

    /// Begins the next epoch at sequence 0; false when epochs are used up, and another producer id is wanted.
    pub(crate) fn reset(&mut self) -> bool {
        self.needs_reset = false;
        self.next = Sequence(0);
        let Some(identity) = &mut self.identity else {
            return true;
        };
        match identity.epoch.0.checked_add(1) {
            Some(epoch) => {
                identity.epoch = ProducerEpoch(epoch);
                true
            }
            None => {
                self.identity = None;
                false
            }
        }
    }
}

/// What is to be done with a batch after an attempt.
#[derive(Clone, Debug)]
pub(crate) enum Verdict {
    /// It is written.
    Acked(BatchAck),
    /// Send it again as it is.
    Retry(ClientError),
    /// Send it again in a new epoch.
    RetryInNewEpoch(ClientError),
    /// Give it up.
    Fail(ClientError),
}

/// Judges the broker's refusal of a batch. `is_oldest` says that no earlier batch of the partition is unsettled.
pub(crate) fn judge(
    error: ErrorCode,
    refusal: ClientError,
    is_idempotent: bool,
    is_oldest: bool,
) -> Verdict {
    let unknown_offset = BatchAck {
        base_offset: None,
        log_append_time: None,
    };
    let is_gap = error == ErrorCode::OutOfOrderSequenceNumber;
    let is_forgotten = error == ErrorCode::UnknownProducerId;
    if error == ErrorCode::DuplicateSequenceNumber {
        Verdict::Acked(unknown_offset)
    } else if is_idempotent && is_gap && !is_oldest {
        // The batch before this one is to be sent again, and this one only has to wait for it.
        Verdict::Retry(refusal)
    } else if is_idempotent && (is_gap || is_forgotten) {
        Verdict::RetryInNewEpoch(refusal)
    } else if retry::is_retriable(error) {
        Verdict::Retry(refusal)
    } else {
        Verdict::Fail(refusal)
    }
}

#[cfg(test)]
mod tests {
    use pelton_model::batch::{BatchBuilder, BuilderOptions, verify_crc};

    use super::*;

    const PRODUCER: Identity = Identity {
        producer_id: ProducerId(7),
        epoch: ProducerEpoch(0),
    };

    // Goal: sequences run on, and begin anew in a higher epoch. Method: stamps around a reset and at the last epoch.
    #[test]
    fn sequences_run_and_reset() {
        let mut sequences = Sequences::default();
        let stamp = |sequences: &mut Sequences, count| {
            let stamp = sequences.stamp(PRODUCER, count);
            (stamp.identity.epoch.0, stamp.base_sequence.0)
        };
        assert_eq!(stamp(&mut sequences, 3), (0, 0));
        assert_eq!(stamp(&mut sequences, 5), (0, 3));
        sequences.ask_reset();
        assert!(sequences.needs_reset());
        assert!(sequences.reset());
        assert_eq!(stamp(&mut sequences, 1), (1, 0));
        sequences.identity = Some(Identity {
            epoch: ProducerEpoch(i16::MAX),
            ..PRODUCER
        });
        assert!(!sequences.reset());
        assert_eq!(stamp(&mut sequences, 1), (0, 0));
    }

    // Goal: a stamped batch is the same batch with a valid CRC. Method: stamp twice, compare headers.
    #[test]
    fn stamps_keep_the_batch_valid() {
        let mut builder = BatchBuilder::new(BuilderOptions::default());
        builder.append(Timestamp(5), Some(b"k"), None, &[]);
        let mut batch = builder.build_mut();
        let before = BatchHeader::parse(&batch).unwrap();
        for sequence in [9, 0] {
            let stamp = Stamp {
                identity: PRODUCER,
                base_sequence: Sequence(sequence),
            };
            stamp.write(&mut batch);
            assert!(verify_crc(&batch));
            let header = BatchHeader::parse(&batch).unwrap();
            assert_eq!(header.producer_id, ProducerId(7));
            assert_eq!(header.base_sequence, Sequence(sequence));
            assert_eq!(header.max_timestamp, before.max_timestamp);
            assert_eq!(header.record_count, before.record_count);
        }
    }

    // Goal: every kind of answer is judged. Method: a table.
    #[test]
    fn judges_refusals() {
        fn check(error: ErrorCode, is_idempotent: bool, is_oldest: bool, expected: &str) {
            let refusal = ClientError::Closed { what: "test" };
            let verdict = format!("{:?}", judge(error, refusal, is_idempotent, is_oldest));
            assert_eq!(verdict.split('(').next(), Some(expected), "{error}");
        }
        check(ErrorCode::DuplicateSequenceNumber, true, true, "Acked");
        check(ErrorCode::OutOfOrderSequenceNumber, true, false, "Retry");
        check(
            ErrorCode::OutOfOrderSequenceNumber,
            true,
            true,
            "RetryInNewEpoch",
        );
        check(ErrorCode::OutOfOrderSequenceNumber, false, true, "Fail");
        check(ErrorCode::UnknownProducerId, true, true, "RetryInNewEpoch");
        check(ErrorCode::InvalidProducerEpoch, true, true, "Fail");
        check(ErrorCode::NotLeaderOrFollower, true, true, "Retry");
        check(ErrorCode::NotEnoughReplicas, false, true, "Retry");
        check(ErrorCode::MessageTooLarge, true, true, "Fail");
    }
}
