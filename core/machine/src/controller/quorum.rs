//! The quorum of one: which epoch a start leads, and the control records that say so.
//!
//! Invariants:
//! 1. Each start leads a higher epoch than any before it, whether that one wrote anything or not.
//! 2. The first start names the voter set (one voter) and finalizes `kraft.version` 1, as a dynamic quorum of Kafka
//!    does; so Kafka can take the log over.
//!
//! There is no election and no other voter. Source: KIP-595, KIP-853.

use pelton_model::record_type::control::{
    ControlRecord, KRaftVersionFeature, KRaftVersionRecord, LeaderChangeMessage, Voter,
    VotersRecord, VotersRecordEndpoint, VotersRecordVoter,
};
use pelton_model::{LeaderEpoch, NodeId, TopicId};

use crate::image::MetadataImage;

/// The `kraft.version` with voters in the log.
const KRAFT_VERSION: i16 = 1;

/// The node as the quorum's only voter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuorumStart {
    /// The node's id.
    pub node_id: NodeId,
    /// The id of the directory that holds the metadata log.
    pub directory_id: TopicId,
    /// Where a controller of this node would listen.
    pub endpoints: Vec<VotersRecordEndpoint>,
    /// Whether the log has no record yet.
    pub first: bool,
}

/// The epoch that a start leads, after what the log and the `quorum-state` file say.
///
/// # Panics
/// After 2³¹ starts.
#[must_use]
pub fn next_epoch(image: &MetadataImage, quorum_state: Option<LeaderEpoch>) -> LeaderEpoch {
    let last = image
        .applied_epoch()
        .max(quorum_state.unwrap_or(LeaderEpoch::NONE));
    let next = last.0.max(0).checked_add(1);
    LeaderEpoch(next.expect("a node starts fewer than 2^31 times"))
}

/// The control records with which a start opens its epoch: one control batch, before any other record of the epoch.
#[must_use]
pub fn quorum_records(node: &QuorumStart) -> Vec<ControlRecord> {
    let voter = Voter {
        voter_id: node.node_id.0,
        voter_directory_id: node.directory_id,
    };
    let leader = LeaderChangeMessage {
        version: 0,
        leader_id: node.node_id.0,
        voters: vec![voter.clone()],
        granting_voters: vec![voter],
    };
    let mut records = vec![ControlRecord::LeaderChange(leader)];
    if node.first {
        records.push(ControlRecord::KRaftVersion(KRaftVersionRecord {
            version: 0,
            kraft_version: KRAFT_VERSION,
        }));
        let voter = VotersRecordVoter {
            voter_id: node.node_id.0,
            voter_directory_id: node.directory_id,
            endpoints: node.endpoints.clone(),
            kraft_version_feature: KRaftVersionFeature {
                min_supported_version: 0,
                max_supported_version: KRAFT_VERSION,
            },
        };
        records.push(ControlRecord::Voters(VotersRecord {
            version: 0,
            voters: vec![voter],
        }));
    }
    records
}
