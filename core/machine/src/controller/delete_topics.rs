//! DeleteTopics, by name or by id.
//!
//! Invariants:
//! 1. One result per entry of the request, in its order; an entry that repeats one before it is answered once.
//! 2. The id of a deleted topic never names another one: ids are random and only the record of a creation binds them.

use std::collections::{BTreeMap, BTreeSet};

use pelton_model::record_type::metadata::RemoveTopicRecord;
use pelton_model::{ErrorCode, TopicId};

use super::{Decision, Refusal};
use crate::image::{MetadataImage, TopicImage};

/// A topic that a client wants gone: exactly one of name and id is given.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeletableTopic {
    /// Its name.
    pub name: Option<String>,
    /// Its id; zero for none.
    pub topic_id: TopicId,
}

/// The result for one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteTopicResult {
    /// The topic's name, where it was given or found.
    pub name: Option<String>,
    /// The topic's id, where it was given or found; zero otherwise.
    pub topic_id: TopicId,
    /// Whether it was deleted.
    pub result: Result<(), Refusal>,
}

/// Decides a DeleteTopics request; `delete_topic_enable` is the broker's config.
///
/// Kafka answers INVALID_REQUEST instead of TOPIC_DELETION_DISABLED to requests before version 3: the handler's part.
#[must_use]
pub fn delete_topics(
    image: &MetadataImage,
    topics: &[DeletableTopic],
    delete_topic_enable: bool,
) -> Decision<Vec<DeleteTopicResult>> {
    let mut uses: BTreeMap<&DeletableTopic, usize> = BTreeMap::new();
    for topic in topics {
        *uses.entry(topic).or_default() += 1;
    }
    let by_id = topics.iter().filter(|topic| topic.name.is_none());
    let by_id: BTreeSet<TopicId> = by_id.map(|topic| topic.topic_id).collect();
    let mut records = Vec::new();
    let mut results = Vec::with_capacity(topics.len());
    for topic in topics {
        // What is answered already is gone from the map: a repeated entry gets one answer.
        let Some(count) = uses.remove(topic) else {
            continue;
        };
        let found = find(image, topic);
        let result = if delete_topic_enable {
            decide(topic, found, count, &by_id)
        } else {
            Err(Refusal::bare(ErrorCode::TopicDeletionDisabled))
        };
        if let (Ok(()), Some(found)) = (&result, found) {
            let topic_id = found.id();
            records.push(RemoveTopicRecord { topic_id }.into());
        }
        let succeeded = found.filter(|_| result.is_ok());
        results.push(DeleteTopicResult {
            name: succeeded.map_or(topic.name.clone(), |found| Some(found.name().to_owned())),
            topic_id: succeeded.map_or(topic.topic_id, TopicImage::id),
            result,
        });
    }
    Decision { records, results }
}

fn find<'a>(image: &'a MetadataImage, topic: &DeletableTopic) -> Option<&'a TopicImage> {
    match &topic.name {
        Some(name) => image.topic_by_name(name),
        None => image.topic(topic.topic_id),
    }
}

fn decide(
    topic: &DeletableTopic,
    found: Option<&TopicImage>,
    count: usize,
    by_id: &BTreeSet<TopicId>,
) -> Result<(), Refusal> {
    let invalid = |text: &str| Err(Refusal::new(ErrorCode::InvalidRequest, text));
    match (&topic.name, topic.topic_id.is_zero()) {
        (None, true) => return invalid("Neither topic name nor id were specified."),
        (Some(_), false) => return invalid("You may not specify both topic name and topic id."),
        (Some(_), true) if 1 < count => return invalid("Duplicate topic name."),
        (None, false) if 1 < count => return invalid("Duplicate topic id."),
        (Some(_), true) | (None, false) => {}
    }
    let Some(found) = found else {
        return Err(Refusal::bare(match topic.name {
            Some(_) => ErrorCode::UnknownTopicOrPartition,
            None => ErrorCode::UnknownTopicId,
        }));
    };
    if topic.name.is_some() && by_id.contains(&found.id()) {
        return invalid("The provided topic name maps to an ID that was already supplied.");
    }
    Ok(())
}
