//! The control records of a KRaft log and of its snapshots.
//!
//! Invariants:
//! 1. They appear only in control batches; their key names the type, their value is the struct here.
//! 2. They never change the metadata image: they speak of the quorum and of the snapshot file.
//!
//! Source: KIP-595, KIP-630, KIP-853.

use crate::id::TopicId;

/// A control record of a KRaft log or snapshot; [`ControlRecord::key_type`] is the type in its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlRecord {
    /// A new leader of the quorum, first record of its epoch.
    LeaderChange(LeaderChangeMessage),
    /// The first record of a snapshot.
    SnapshotHeader(SnapshotHeaderRecord),
    /// The last record of a snapshot.
    SnapshotFooter(SnapshotFooterRecord),
    /// The finalized `kraft.version`.
    KRaftVersion(KRaftVersionRecord),
    /// The voter set.
    Voters(VotersRecord),
}

impl ControlRecord {
    /// The control type in the record's key.
    #[must_use]
    pub fn key_type(&self) -> i16 {
        match self {
            Self::LeaderChange(_) => 2,
            Self::SnapshotHeader(_) => 3,
            Self::SnapshotFooter(_) => 4,
            Self::KRaftVersion(_) => 5,
            Self::Voters(_) => 6,
        }
    }
}

/// A voter of the quorum, by id and directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Voter {
    /// The voter's node id.
    pub voter_id: i32,
    /// The id of its metadata log directory; zero when unknown.
    pub voter_directory_id: TopicId,
}

/// Announces the leader of an epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaderChangeMessage {
    /// The version of this message.
    pub version: i16,
    /// The leader's node id.
    pub leader_id: i32,
    /// The voters of the epoch.
    pub voters: Vec<Voter>,
    /// Those that voted for the leader.
    pub granting_voters: Vec<Voter>,
}

/// Opens a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotHeaderRecord {
    /// The version of this record.
    pub version: i16,
    /// The append time of the last record that the snapshot contains, in ms.
    pub last_contained_log_timestamp: i64,
}

/// Closes a snapshot: without it the file is incomplete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotFooterRecord {
    /// The version of this record.
    pub version: i16,
}

/// Finalizes `kraft.version`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KRaftVersionRecord {
    /// The version of this record.
    pub version: i16,
    /// The finalized level.
    pub kraft_version: i16,
}

/// The voter set in force from this record on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VotersRecord {
    /// The version of this record.
    pub version: i16,
    /// The voters.
    pub voters: Vec<VotersRecordVoter>,
}

/// A voter with what others need to reach it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VotersRecordVoter {
    /// The voter's node id.
    pub voter_id: i32,
    /// The id of its metadata log directory.
    pub voter_directory_id: TopicId,
    /// Where it listens.
    pub endpoints: Vec<VotersRecordEndpoint>,
    /// The range of `kraft.version` that it supports.
    pub kraft_version_feature: KRaftVersionFeature,
}

/// An endpoint of a voter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VotersRecordEndpoint {
    /// The listener's name.
    pub name: String,
    /// The host.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// A range of `kraft.version`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KRaftVersionFeature {
    /// The lowest level.
    pub min_supported_version: i16,
    /// The highest level.
    pub max_supported_version: i16,
}
