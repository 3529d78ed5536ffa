//! Writing to the metadata log: a batch for each decision, durable before it is replayed.

use bytes::Bytes;
use pelton_machine::controller::{self, QuorumStart};
use pelton_model::Timestamp;
use pelton_model::record_type::metadata::MetadataRecord;
use pelton_protocol::metadata_record;
use pelton_storage::{BatchFacts, StorageError};
use pelton_transport::net::Net;

use super::Controller;
use crate::env::Env;
use crate::shard::Shard;

impl<E: Env> Controller<E> {
    /// Appends the records of one decision, makes them durable and replays them.
    pub(super) async fn write(
        &self,
        shard: &Shard<E>,
        records: &[MetadataRecord],
    ) -> Result<(), StorageError> {
        let (base_offset, epoch, now) = (self.log.log_end(), self.epoch, shard.net.wall_clock());
        let batch = metadata_record::batch_of(records, base_offset, epoch, now);
        self.append(batch, records.len(), now).await?;
        self.log.sync().await?;
        let mut image = self.image.borrow_mut();
        for (index, record) in (0_i64..).zip(records) {
            image
                .replay(base_offset.plus(index), epoch, record)
                .expect("the machine decides only what the image can replay");
        }
        Ok(())
    }

    /// The control records that begin the epoch of this run; made durable together with what follows.
    pub(super) async fn open_epoch(
        &self,
        shard: &Shard<E>,
        quorum: &QuorumStart,
    ) -> Result<(), StorageError> {
        let records = controller::quorum_records(&self.quorum.borrow(), quorum);
        let (base_offset, now) = (self.log.log_end(), shard.net.wall_clock());
        let batch = metadata_record::control_batch_of(&records, base_offset, self.epoch, now);
        self.log.assign_epoch(self.epoch).await?;
        self.append(batch, records.len(), now).await?;
        for (index, record) in (0_i64..).zip(&records) {
            self.quorum.borrow_mut().replay(record);
            self.image
                .borrow_mut()
                .advance(base_offset.plus(index), self.epoch);
        }
        Ok(())
    }

    async fn append(&self, batch: Bytes, count: usize, now: Timestamp) -> Result<(), StorageError> {
        let base_offset = self.log.log_end();
        let count = i64::try_from(count).expect("a batch's records are counted by an i32");
        let facts = BatchFacts {
            base_offset,
            last_offset: base_offset.plus(count - 1),
            max_timestamp: now,
            leader_epoch: self.epoch,
        };
        if self.log.roll_due(now) {
            self.log.roll(None).await?;
        }
        let size_bytes = batch.len() as u64;
        self.log.append(&[batch], &[facts]).await?;
        self.unsnapshotted_bytes
            .set(self.unsnapshotted_bytes.get() + size_bytes);
        self.last_timestamp.set(self.last_timestamp.get().max(now));
        Ok(())
    }
}
