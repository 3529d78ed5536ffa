//! The settings of the transaction coordinators.

use super::ConfigError;
use super::values::Values;

/// `transaction.*` and its like, save how the topic of the transactions is created. Times are milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionConfig {
    /// `transaction.max.timeout.ms`.
    pub max_timeout_ms: i32,
    /// `transactional.id.expiration.ms`.
    pub id_expiration_ms: i32,
    /// `transaction.abort.timed.out.transaction.cleanup.interval.ms`.
    pub abort_interval_ms: u64,
    /// `transaction.remove.expired.transaction.cleanup.interval.ms`.
    pub remove_expired_interval_ms: u64,
    /// `transaction.state.log.load.buffer.size`.
    pub load_buffer_bytes: usize,
    /// `transaction.partition.verification.enable`.
    pub partition_verification: bool,
    /// `add.partitions.to.txn.retry.backoff.ms`.
    pub add_partitions_retry_backoff_ms: u64,
    /// `add.partitions.to.txn.retry.backoff.max.ms`.
    pub add_partitions_retry_backoff_max_ms: u64,
}

impl TransactionConfig {
    pub(super) fn resolve(values: Values<'_>) -> Result<Self, ConfigError> {
        let ms = |name| Ok(u64::try_from(values.i32(name)?).unwrap_or(0));
        let load_buffer = values.i32("transaction.state.log.load.buffer.size")?;
        Ok(Self {
            max_timeout_ms: values.i32("transaction.max.timeout.ms")?,
            id_expiration_ms: values.i32("transactional.id.expiration.ms")?,
            abort_interval_ms: ms("transaction.abort.timed.out.transaction.cleanup.interval.ms")?,
            remove_expired_interval_ms: ms(
                "transaction.remove.expired.transaction.cleanup.interval.ms",
            )?,
            load_buffer_bytes: usize::try_from(load_buffer).unwrap_or(0),
            partition_verification: values.bool("transaction.partition.verification.enable")?,
            add_partitions_retry_backoff_ms: ms("add.partitions.to.txn.retry.backoff.ms")?,
            add_partitions_retry_backoff_max_ms: ms("add.partitions.to.txn.retry.backoff.max.ms")?,
        })
    }
}
