//! The quorum of one: which epoch a start leads, and the control records that say so.
//!
//! Invariants:
//! 1. Each start leads a higher epoch than any before it, whether that one wrote anything or not.
//! 2. In a dynamic quorum (`kraft.version` 1) the log names the voter set, and every snapshot after it. A first start writes both,
//!    as Kafka does with what its formatting left in the snapshot at offset 0; so Kafka can take the log over.
//! 3. In a static quorum (`kraft.version` 0) neither the log nor a snapshot speaks of voters.
//! 4. A log whose voters are others is never written to.
//!
//! There is no election and no other voter. Source: KIP-595, KIP-853.

use pelton_model::record_type::control::{
    ControlRecord, KRaftVersionFeature, KRaftVersionRecord, LeaderChangeMessage, Voter,
    VotersRecord, VotersRecordEndpoint, VotersRecordVoter,
};
use pelton_model::{LeaderEpoch, NodeId, TopicId};

use super::StartError;
use crate::image::MetadataImage;

/// The `kraft.version` with voters in the log, and the highest that we know.
const KRAFT_VERSION: i16 = 1;

/// What the control records of a log and its snapshots say about the quorum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuorumImage {
    kraft_version: i16,
    voters: Vec<VotersRecordVoter>,
    /// Whether the voters stand in the log or in a snapshot of it, and not only in what formatting wrote.
    voters_are_logged: bool,
}

/// The node as the quorum's only voter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuorumStart {
    /// The node's id.
    pub node_id: NodeId,
    /// The id of the directory that holds the metadata log.
    pub directory_id: TopicId,
    /// Where a controller of this node would listen.
    pub endpoints: Vec<VotersRecordEndpoint>,
}

impl QuorumStart {
    fn voter(&self) -> VotersRecordVoter {
        VotersRecordVoter {
            voter_id: self.node_id.0,
            voter_directory_id: self.directory_id,
            endpoints: self.endpoints.clone(),
            kraft_version_feature: KRaftVersionFeature {
                min_supported_version: 0,
                max_supported_version: KRAFT_VERSION,
            },
        }
    }
}

impl QuorumImage {
    /// A dynamic quorum of this node alone, as formatting sets it up.
    #[must_use]
    pub fn formatted(node: &QuorumStart) -> Self {
        Self {
            kraft_version: KRAFT_VERSION,
            voters: vec![node.voter()],
            voters_are_logged: false,
        }
    }

    /// Applies a control record of the log, or of a snapshot of it.
    pub fn replay(&mut self, record: &ControlRecord) {
        match record {
            ControlRecord::KRaftVersion(record) => self.kraft_version = record.kraft_version,
            ControlRecord::Voters(record) => {
                self.voters.clone_from(&record.voters);
                self.voters_are_logged = true;
            }
            ControlRecord::LeaderChange(_)
            | ControlRecord::SnapshotHeader(_)
            | ControlRecord::SnapshotFooter(_) => {}
        }
    }

    /// Notes that what was replayed came from the snapshot that formatting writes: the log does not say it yet.
    pub fn is_only_formatted(&mut self) {
        self.voters_are_logged = false;
    }

    /// The finalized `kraft.version`.
    #[must_use]
    pub fn kraft_version(&self) -> i16 {
        self.kraft_version
    }

    /// The only voter as clients are told: one of a static quorum has no directory there.
    #[must_use]
    pub fn voter(&self, node: &QuorumStart) -> VotersRecordVoter {
        match self.voters.as_slice() {
            [only] => only.clone(),
            _ => VotersRecordVoter {
                voter_directory_id: TopicId::ZERO,
                ..node.voter()
            },
        }
    }

    /// What a snapshot says about the quorum: nothing in a static one.
    #[must_use]
    pub fn snapshot_records(&self) -> Vec<ControlRecord> {
        if self.kraft_version == 0 {
            return Vec::new();
        }
        let version = KRaftVersionRecord {
            version: 0,
            kraft_version: self.kraft_version,
        };
        let voters = VotersRecord {
            version: 0,
            voters: self.voters.clone(),
        };
        vec![
            ControlRecord::KRaftVersion(version),
            ControlRecord::Voters(voters),
        ]
    }

    /// Checks that this node may write to the log.
    ///
    /// # Errors
    /// When the log has other voters, or a `kraft.version` that we do not know.
    pub fn check(&self, node: NodeId) -> Result<(), StartError> {
        if !(0..=KRAFT_VERSION).contains(&self.kraft_version) {
            return Err(StartError::KRaftVersion(self.kraft_version));
        }
        let ids = self.voters.iter().map(|voter| NodeId(voter.voter_id));
        let others: Vec<NodeId> = ids.filter(|id| *id != node).collect();
        if others.is_empty() {
            Ok(())
        } else {
            Err(StartError::OtherVoters(others))
        }
    }

    /// Whether a start has to write the voters: the log does not name them, or names this node with another directory.
    fn voters_are_due(&self, node: &QuorumStart) -> bool {
        let is_ours = |voter: &VotersRecordVoter| voter.voter_directory_id == node.directory_id;
        self.kraft_version > 0 && !(self.voters_are_logged && self.voters.iter().all(is_ours))
    }

    /// The voters that a start writes: what formatting noted of this directory, else what this node says of itself.
    fn due_voters(&self, node: &QuorumStart) -> Vec<VotersRecordVoter> {
        match self.voters.as_slice() {
            [only] if only.voter_directory_id == node.directory_id => self.voters.clone(),
            _ => vec![node.voter()],
        }
    }
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
pub fn quorum_records(quorum: &QuorumImage, node: &QuorumStart) -> Vec<ControlRecord> {
    let voter = Voter {
        voter_id: node.node_id.0,
        voter_directory_id: node.directory_id,
    };
    // Kafka reads this message in version 0 only, which has no directories.
    let leader = LeaderChangeMessage {
        version: 0,
        leader_id: node.node_id.0,
        voters: vec![voter.clone()],
        granting_voters: vec![voter],
    };
    let mut records = vec![ControlRecord::LeaderChange(leader)];
    if quorum.voters_are_due(node) {
        records.push(ControlRecord::KRaftVersion(KRaftVersionRecord {
            version: 0,
            kraft_version: quorum.kraft_version,
        }));
        records.push(ControlRecord::Voters(VotersRecord {
            version: 0,
            voters: quorum.due_voters(node),
        }));
    }
    records
}

#[cfg(test)]
mod tests;
