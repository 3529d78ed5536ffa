//! What every request needs to know of a topic, by name and by id: kept beside the image so that the hot path neither walks persistent
//! maps nor parses configuration.
//!
//! Invariant: the entries are those of the image that the shard shows; they change with it, in the same stretch without await.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use pelton_machine::controller::is_internal_topic;
use pelton_machine::image::{MetadataDelta, MetadataImage, TopicImage};
use pelton_model::config::topic::TopicConfig;
use pelton_model::map::Map;
use pelton_model::record_type::metadata::RESOURCE_TOPIC;
use pelton_model::{Monotonic, TopicId};
use pelton_protocol::api::ApiKey;
use pelton_protocol::codec::Str;

use crate::metrics::Metrics;
use crate::metrics::series::Series;

/// A topic as requests see it.
#[derive(Debug)]
pub(crate) struct TopicEntry {
    pub(crate) name: Str,
    pub(crate) id: TopicId,
    pub(crate) partition_count: i32,
    pub(crate) config: Arc<TopicConfig>,
    pub(crate) is_internal: bool,
    /// Where its requests are counted, by API.
    series: RefCell<Vec<Rc<Series>>>,
}

impl TopicEntry {
    /// Whether the topic has a partition of this index.
    pub(crate) fn has_partition(&self, index: i32) -> bool {
        (0..self.partition_count).contains(&index)
    }

    /// Where its requests of an API are counted.
    pub(crate) fn series(&self, metrics: &Metrics, api: ApiKey, now: Monotonic) -> Rc<Series> {
        let mut known = self.series.borrow_mut();
        if let Some(series) = known.iter().find(|series| series.api == api.code()) {
            return Rc::clone(series);
        }
        let series = metrics.topic(api.code(), &self.name, now);
        known.push(Rc::clone(&series));
        series
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Topics {
    by_name: Map<Str, Rc<TopicEntry>>,
    by_id: Map<TopicId, Rc<TopicEntry>>,
}

impl Topics {
    pub(crate) fn by_name(&self, name: &str) -> Option<Rc<TopicEntry>> {
        self.by_name.get(name).cloned()
    }

    pub(crate) fn by_id(&self, id: TopicId) -> Option<Rc<TopicEntry>> {
        self.by_id.get(&id).cloned()
    }

    /// Follows the image; `config` gives a topic's configuration. With `all_changed` every topic's may be new.
    pub(crate) fn apply(
        &mut self,
        image: &MetadataImage,
        delta: &MetadataDelta,
        all_changed: bool,
        config: impl Fn(&str) -> Arc<TopicConfig>,
    ) {
        for (id, name) in &delta.topics_deleted {
            self.by_id.remove(id);
            // The name may belong to a new topic already.
            if self
                .by_name
                .get(name.as_str())
                .is_some_and(|entry| entry.id == *id)
            {
                self.by_name.remove(name.as_str());
            }
        }
        if all_changed {
            for topic in image.topics() {
                self.put(topic, config(topic.name()));
            }
            return;
        }
        let grown = delta.partitions.iter().map(|partition| partition.topic_id);
        let mut changed: Vec<TopicId> = grown.chain(delta.topics_created.iter().copied()).collect();
        let configured = delta
            .configs
            .iter()
            .filter(|resource| resource.resource_type == RESOURCE_TOPIC);
        changed.extend(configured.filter_map(|resource| image.topic_id(&resource.name)));
        changed.sort_unstable();
        changed.dedup();
        for topic in changed.into_iter().filter_map(|id| image.topic(id)) {
            self.put(topic, config(topic.name()));
        }
    }

    fn put(&mut self, topic: &TopicImage, config: Arc<TopicConfig>) {
        let entry = Rc::new(TopicEntry {
            name: Str::from(topic.name()),
            id: topic.id(),
            partition_count: topic.partition_count(),
            config,
            is_internal: is_internal_topic(topic.name()),
            series: RefCell::default(),
        });
        self.by_name.insert(entry.name.clone(), Rc::clone(&entry));
        self.by_id.insert(entry.id, entry);
    }
}
