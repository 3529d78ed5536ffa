//! Whether the log directories of one node belong together.
//!
//! Invariants:
//! 1. All directories with an identity agree on the cluster and on the node; no two have the same id.
//! 2. A new directory joins the others with an identity of its own, except that the metadata directory is new only where all are: a
//!    metadata directory that lost its contents (a device that is not mounted, say) would begin a cluster without topics.
//!
//! Pure: the files are read and written by `identity`. Source: Kafka's `MetaPropertiesEnsemble`, KIP-858.

use std::path::Path;

use pelton_model::{NodeId, TopicId};

use super::{DirError, MetaProperties};

/// A log directory and the identity it carries; none when it is new.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// The directory.
    pub path: &'a Path,
    /// Its `meta.properties`.
    pub meta: Option<&'a MetaProperties>,
    /// Whether it holds the metadata log.
    pub is_metadata: bool,
}

/// Checks that the directories belong to one node of one cluster; the cluster's id, when any of them knows it.
///
/// # Errors
/// `MetaMismatch`, `SameDirectoryId`, `MetadataDirectoryNew`: the start must be refused.
pub fn agree(
    members: &[Member<'_>],
    node_id: NodeId,
    cluster_id: Option<&str>,
) -> Result<Option<String>, DirError> {
    let known = || {
        let known = members.iter();
        known.filter_map(|member| Some((member, member.meta?)))
    };
    let mut cluster_id = cluster_id.map(str::to_owned);
    for (member, meta) in known() {
        let mismatch = |property, found: String, expected: String| DirError::MetaMismatch {
            path: member.path.join(super::META_FILE),
            property,
            found,
            expected,
        };
        if meta.node_id != node_id {
            let (found, expected) = (meta.node_id.to_string(), node_id.to_string());
            return Err(mismatch("node.id", found, expected));
        }
        let expected = cluster_id.get_or_insert_with(|| meta.cluster_id.clone());
        if *expected != meta.cluster_id {
            let expected = expected.clone();
            return Err(mismatch("cluster.id", meta.cluster_id.clone(), expected));
        }
    }
    for (index, (member, meta)) in known().enumerate() {
        let same = known().take(index).find(|(_, other)| {
            meta.directory_id != TopicId::ZERO && other.directory_id == meta.directory_id
        });
        if let Some((other, _)) = same {
            return Err(DirError::SameDirectoryId {
                path: member.path.to_owned(),
                other: other.path.to_owned(),
                directory_id: meta.directory_id,
            });
        }
    }
    let is_new = |member: &&Member<'_>| member.is_metadata && member.meta.is_none();
    if let (Some(metadata), Some((other, _))) = (members.iter().find(is_new), known().next()) {
        return Err(DirError::MetadataDirectoryNew {
            path: metadata.path.to_owned(),
            other: other.path.to_owned(),
        });
    }
    Ok(cluster_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Goal: directories start together only when they belong together. Method: a table of sets, the first one with the metadata log.
    #[test]
    fn sets() {
        type Given = Option<(&'static str, i32, u8)>;
        fn check(given: &[Given], cluster_id: Option<&str>, expected: Result<Option<&str>, &str>) {
            let paths = ["/a", "/b", "/c"].map(Path::new);
            let metas: Vec<Option<MetaProperties>> = given
                .iter()
                .map(|given| {
                    given.map(|(cluster_id, node, id)| MetaProperties {
                        cluster_id: cluster_id.to_owned(),
                        node_id: NodeId(node),
                        directory_id: TopicId([id; 16]),
                    })
                })
                .collect();
            let members: Vec<Member<'_>> = paths
                .iter()
                .zip(&metas)
                .map(|(path, meta)| Member {
                    path,
                    meta: meta.as_ref(),
                    is_metadata: *path == Path::new("/a"),
                })
                .collect();
            let outcome = agree(&members, NodeId(1), cluster_id);
            match (outcome, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found.as_deref(), expected, "{given:?}"),
                (Err(error), Err(part)) => {
                    assert!(error.to_string().contains(part), "{given:?}: {error}");
                }
                (outcome, _) => panic!("{given:?}: {outcome:?}"),
            }
        }
        check(&[None], None, Ok(None));
        check(&[None, None], Some("x"), Ok(Some("x")));
        check(&[Some(("x", 1, 1)), None], None, Ok(Some("x")));
        check(&[Some(("x", 1, 1)), Some(("x", 1, 2))], None, Ok(Some("x")));
        // Directories of releases before 3.7 have no id yet.
        check(&[Some(("x", 1, 0)), Some(("x", 1, 0))], None, Ok(Some("x")));
        let clusters = "/b/meta.properties: cluster.id is y, expected x";
        check(&[Some(("x", 1, 1)), Some(("y", 1, 2))], None, Err(clusters));
        let configured = "/a/meta.properties: cluster.id is x, expected y";
        check(&[Some(("x", 1, 1))], Some("y"), Err(configured));
        let nodes = "/b/meta.properties: node.id is 2, expected 1";
        check(&[Some(("x", 1, 1)), Some(("x", 2, 2))], None, Err(nodes));
        let ids = "/c and /a have the same directory.id";
        check(
            &[Some(("x", 1, 1)), None, Some(("x", 1, 1))],
            None,
            Err(ids),
        );
        let new = "/a is new although /b is not";
        check(&[None, Some(("x", 1, 1))], None, Err(new));
    }
}
