//! The broker's settings as they are now: the file's, with what clients set while it runs.
//!
//! Invariants:
//! 1. Every shard counts in the same settings before the change is answered.
//! 2. Settings in the metadata that cannot be used are told once for each change, and left out.

use std::sync::Arc;

use pelton_machine::image::{MetadataDelta, MetadataImage};
use pelton_model::config::Settings;
use pelton_model::config::broker::BrokerConfig;
use pelton_model::config::connections::ConnectionLimits;
use pelton_model::record_type::metadata::{GROUP_VERSION_FEATURE, RESOURCE_BROKER};

use pelton_transport::net::{Net as _, TaskClass};

use super::{CONTROLLER_SHARD, Shard, gate};
use crate::env::Env;

/// How transactional batches are verified.
pub(crate) struct VerificationTerms {
    /// Whether clients that add partitions themselves are checked.
    pub(crate) is_enabled: bool,
    /// The pause before a coordinator that is ending a transaction is asked again.
    pub(crate) retry_ms: u64,
    /// How long that goes on.
    pub(crate) retry_ms_max: u64,
}

impl<E: Env> Shard<E> {
    /// How transactional batches are verified.
    pub(crate) fn verification_terms(&self) -> VerificationTerms {
        let transaction = &self.settings().transaction;
        VerificationTerms {
            is_enabled: transaction.partition_verification,
            retry_ms: transaction.add_partitions_retry_backoff_ms,
            retry_ms_max: transaction.add_partitions_retry_backoff_max_ms,
        }
    }

    /// The settings as they are now; [`Shard::config`] has those of the start, which suffices for what cannot change.
    pub(crate) fn settings(&self) -> Arc<BrokerConfig> {
        Arc::clone(&self.settings.borrow())
    }

    /// The settings for coordinators, as far as the features in force let them count.
    pub(crate) fn coordinator_settings(&self) -> Arc<BrokerConfig> {
        let settings = self.settings();
        let group_version = self.image().feature(GROUP_VERSION_FEATURE);
        if group_version.is_some_and(|level| 1 <= level) {
            return settings;
        }
        let mut without = BrokerConfig::clone(&settings);
        without.group.consumer_protocol = false;
        Arc::new(without)
    }

    /// Counts in what clients set; whether anything of it may have changed.
    pub(crate) fn apply_settings(
        &self,
        image: &MetadataImage,
        delta: &MetadataDelta,
        is_first: bool,
    ) -> bool {
        let own = self.config.node_id.to_string();
        let is_ours = |name: &str| name.is_empty() || name == own;
        let is_changed = delta
            .configs
            .iter()
            .any(|resource| resource.resource_type == RESOURCE_BROKER && is_ours(&resource.name));
        if !is_first && !is_changed {
            return false;
        }
        let (settings, faults) = self
            .config
            .with_dynamic(settings_of(image, ""), settings_of(image, &own));
        if self.id == CONTROLLER_SHARD {
            for error in faults {
                tracing::warn!(%error, "a dynamic setting cannot be used");
            }
        }
        self.metrics.follow(&settings.metrics);
        if self.id == CONTROLLER_SHARD {
            self.limit_connections(&settings.connection_limits);
        }
        *self.settings.borrow_mut() = Arc::new(settings);
        true
    }
}

impl<E: Env> Shard<E> {
    /// Limits connections; what is said of hosts by name holds as soon as the system knows their addresses.
    fn limit_connections(&self, limits: &ConnectionLimits) {
        self.gate.set_limits(limits, &[]);
        if !gate::names_hosts(limits) {
            return;
        }
        let (net, gate, limits) = (self.net.clone(), Arc::clone(&self.gate), limits.clone());
        self.net.spawn(TaskClass::Background, async move {
            let asked = limits.clone();
            let resolve = move || gate::resolve_overrides(&asked);
            let resolved = net.run_blocking(resolve).await;
            gate.set_limits(&limits, &resolved);
        });
    }
}

fn settings_of(image: &MetadataImage, broker: &str) -> Settings {
    let configs = image.configs(RESOURCE_BROKER, broker).into_iter().flatten();
    configs
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}
