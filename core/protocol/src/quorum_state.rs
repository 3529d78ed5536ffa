//! The `quorum-state` file beside the metadata log: which epoch this node knows of, and who leads it.
//!
//! ```text
//! {"leaderId":1,"leaderEpoch":3,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}
//! ```
//!
//! Invariants:
//! 1. What we write is what Apache Kafka 4.3 writes for a leader, byte for byte.
//! 2. Reading takes the epoch and nothing else: the rest is of use only to a quorum of several.
//!
//! The reader finds one number under one key; it is no JSON parser, and the file has no nested values that could fool
//! it. Source: KIP-595, KIP-853.

use pelton_model::{LeaderEpoch, NodeId};

const EPOCH_KEY: &str = "\"leaderEpoch\":";

/// The file's text for a node that leads `epoch`.
#[must_use]
pub fn encode(leader: NodeId, epoch: LeaderEpoch) -> String {
    format!(
        "{{\"leaderId\":{leader},{EPOCH_KEY}{epoch},\"votedId\":-1,\
         \"votedDirectoryId\":\"AAAAAAAAAAAAAAAAAAAAAA\",\"data_version\":1}}"
    )
}

/// The same in a static quorum (`kraft.version` 0), where Kafka writes the older form of the file.
#[must_use]
pub fn encode_static(leader: NodeId, epoch: LeaderEpoch) -> String {
    format!(
        "{{\"clusterId\":\"\",\"leaderId\":{leader},{EPOCH_KEY}{epoch},\"votedId\":-1,\
         \"appliedOffset\":0,\"currentVoters\":[{{\"voterId\":{leader}}}],\"data_version\":0}}"
    )
}

/// The epoch in the file's text; none when there is no such number, and the log alone must tell.
#[must_use]
pub fn leader_epoch(text: &str) -> Option<LeaderEpoch> {
    let (_, rest) = text.split_once(EPOCH_KEY)?;
    let rest = rest.trim_start();
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '-')?;
    rest[..end].parse().ok().map(LeaderEpoch)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Goal: Kafka's file is read and written. Method: a file of Apache Kafka 4.3.1, and broken ones.
    #[test]
    fn kafkas_file() {
        fn check(text: &str, epoch: Option<i32>) {
            assert_eq!(leader_epoch(text), epoch.map(LeaderEpoch));
        }
        let file = "{\"leaderId\":1,\"leaderEpoch\":3,\"votedId\":-1,\
                    \"votedDirectoryId\":\"AAAAAAAAAAAAAAAAAAAAAA\",\"data_version\":1}";
        assert_eq!(encode(NodeId(1), LeaderEpoch(3)), file);
        check(file, Some(3));
        let file = "{\"clusterId\":\"\",\"leaderId\":1,\"leaderEpoch\":3,\"votedId\":-1,\
                    \"appliedOffset\":0,\"currentVoters\":[{\"voterId\":1}],\"data_version\":0}";
        assert_eq!(encode_static(NodeId(1), LeaderEpoch(3)), file);
        check(file, Some(3));
        check("{\"leaderEpoch\": 12}", Some(12));
        check("{\"leaderEpoch\":", None);
        check("{\"leaderEpoch\":x}", None);
        check("{\"leaderEpoch\":99999999999}", None);
        check("", None);
    }
}
