//! Blocks of producer ids.
//!
//! Invariant: an id is handed out once in the life of a cluster. The record is synced before the block is used, so a
//! crash loses ids but never repeats one.

use pelton_model::record_type::metadata::ProducerIdsRecord;
use pelton_model::{ErrorCode, NodeId, limits};

use super::{Decision, Refusal};
use crate::image::MetadataImage;

/// Producer ids for one broker: `count` from `first` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerIdBlock {
    /// The first id.
    pub first: i64,
    /// How many.
    pub count: i64,
}

/// Decides on the next block for a broker.
///
/// # Errors
/// When the broker is not registered, its epoch is another one, or 2⁶³ ids were handed out.
pub fn allocate_producer_ids(
    image: &MetadataImage,
    broker_id: NodeId,
    broker_epoch: i64,
) -> Result<Decision<ProducerIdBlock>, Refusal> {
    let broker = image
        .broker(broker_id)
        .ok_or_else(|| Refusal::bare(ErrorCode::BrokerIdNotRegistered))?;
    if broker.broker_epoch != broker_epoch {
        return Err(Refusal::bare(ErrorCode::StaleBrokerEpoch));
    }
    let block = ProducerIdBlock {
        first: image.next_producer_id(),
        count: limits::PRODUCER_ID_BLOCK_IDS,
    };
    let next_producer_id = block.first.checked_add(block.count).ok_or_else(|| {
        let text = "Exhausted all producerIds as the next block's end producerId has exceeded the \
                    int64 type limit";
        Refusal::new(ErrorCode::UnknownServerError, text)
    })?;
    assert!(block.first < next_producer_id);
    let record = ProducerIdsRecord {
        broker_id: broker_id.0,
        broker_epoch,
        next_producer_id,
    };
    Ok(Decision {
        records: vec![record.into()],
        results: block,
    })
}
