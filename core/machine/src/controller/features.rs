//! Features: what this program supports, what a new log finalizes, what clients are told, and UpdateFeatures.
//!
//! Invariants:
//! 1. A feature is told to clients only when it has a row here: they change their flows by it, so its row comes with what it
//!    switches on. Levels of other features, which a Kafka left in the log, stay there and count for nothing.
//! 2. All changes of a request are made, or none is.
//! 3. A log without a level of a feature has it off until somebody raises it, whatever a new log would begin with.
//!
//! `kraft.version` is not in the metadata but in the quorum's control records: see [`super::QuorumImage`].
//! Source: KIP-584, KIP-778, KIP-1022, answers of Apache Kafka 4.3.1.

use std::collections::BTreeMap;
use std::fmt::Display;

use pelton_model::record_type::metadata::{
    BrokerFeature, FeatureLevelRecord, GROUP_VERSION_FEATURE, KRAFT_VERSION_FEATURE,
    METADATA_VERSION_FEATURE, MetadataRecord, TRANSACTION_VERSION_FEATURE,
};
use pelton_model::{ErrorCode, NodeId};

use super::start::{METADATA_VERSION, METADATA_VERSION_MIN};
use super::{Decision, Refusal};
use crate::image::MetadataImage;

/// A feature that works.
struct Feature {
    name: &'static str,
    min: i16,
    max: i16,
    /// The level that a new log finalizes; none when no metadata record says it.
    at_format: Option<i16>,
}

/// Every feature that works, the metadata version first, as in a log.
static FEATURES: &[Feature] = &[
    Feature {
        name: METADATA_VERSION_FEATURE,
        min: METADATA_VERSION_MIN,
        max: METADATA_VERSION,
        at_format: Some(METADATA_VERSION),
    },
    Feature {
        name: GROUP_VERSION_FEATURE,
        min: 0,
        max: 1,
        at_format: Some(1),
    },
    Feature {
        name: KRAFT_VERSION_FEATURE,
        min: 0,
        max: 1,
        at_format: None,
    },
    Feature {
        name: TRANSACTION_VERSION_FEATURE,
        min: 0,
        max: 2,
        at_format: Some(2),
    },
];

/// Features of Apache Kafka 4.3 that do not work here: a log may have a level of them, which may be switched off.
const ELSEWHERE: &[&str] = &[
    "eligible.leader.replicas.version",
    "share.version",
    "streams.version",
];

/// The metadata versions whose records differ from those before: nothing goes back over them.
const METADATA_CHANGED_AT: &[i16] = &[7, 8, 11, 13, 14, 15, 17, 23, 30];

fn feature(name: &str) -> Option<&'static Feature> {
    FEATURES.iter().find(|feature| feature.name == name)
}

/// The feature ranges that this program supports.
#[must_use]
pub fn supported_features() -> Vec<BrokerFeature> {
    let range = |feature: &Feature| BrokerFeature {
        name: feature.name.to_owned(),
        min_supported_version: feature.min,
        max_supported_version: feature.max,
    };
    FEATURES.iter().map(range).collect()
}

/// What a new log begins with unless its `bootstrap.checkpoint` says otherwise.
#[must_use]
pub fn bootstrap_records() -> Vec<MetadataRecord> {
    let record = |feature: &Feature| Some(level_record(feature.name, feature.at_format?));
    FEATURES.iter().filter_map(record).collect()
}

fn level_record(name: &str, feature_level: i16) -> MetadataRecord {
    let name = name.to_owned();
    FeatureLevelRecord {
        name,
        feature_level,
    }
    .into()
}

/// The finalized features that clients are told, sorted by name.
#[must_use]
pub fn finalized_features(image: &MetadataImage, kraft_version: i16) -> Vec<(&'static str, i16)> {
    let level = |feature: &Feature| (feature.name, current(image, kraft_version, feature.name));
    let mut levels: Vec<_> = FEATURES.iter().map(level).collect();
    levels.retain(|(_, level)| *level != 0);
    levels.sort_unstable();
    levels
}

/// The level in force; 0 is off.
fn current(image: &MetadataImage, kraft_version: i16, name: &str) -> i16 {
    if name == KRAFT_VERSION_FEATURE {
        kraft_version
    } else {
        image.feature(name).unwrap_or(0)
    }
}

/// A wanted change of a feature's level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureUpdate {
    /// The feature's name.
    pub name: String,
    /// The new level; 0 switches it off.
    pub level: i16,
    /// Kafka's number: 1 raises, 2 lowers without loss, 3 lowers whatever is lost.
    pub upgrade_type: i8,
}

/// What an UpdateFeatures request depends on besides the image.
#[derive(Clone, Copy, Debug)]
pub struct UpdateFeaturesOptions {
    /// This node, as texts name it.
    pub node: NodeId,
    /// The finalized `kraft.version`.
    pub kraft_version: i16,
    /// Whether to check only.
    pub validate_only: bool,
}

const UPGRADE: i8 = 1;
const SAFE_DOWNGRADE: i8 = 2;
const UNSAFE_DOWNGRADE: i8 = 3;

/// Decides an UpdateFeatures request.
#[must_use]
pub fn update_features(
    image: &MetadataImage,
    updates: &[FeatureUpdate],
    options: UpdateFeaturesOptions,
) -> Decision<Result<(), Refusal>> {
    // Of two changes of one feature the later counts, as in Kafka.
    let updates: BTreeMap<&str, &FeatureUpdate> = updates
        .iter()
        .map(|update| (update.name.as_str(), update))
        .collect();
    let mut records = Vec::new();
    for update in updates.into_values() {
        let level = current(image, options.kraft_version, &update.name);
        if let Err(why) = check(update, level, options.node) {
            let text = format!(
                "The update failed for all features since the following feature had an error: {why}"
            );
            return Decision {
                records: Vec::new(),
                results: Err(Refusal::new(ErrorCode::InvalidUpdateVersion, text)),
            };
        }
        if level != update.level {
            records.push(level_record(&update.name, update.level));
        }
    }
    if options.validate_only {
        records.clear();
    }
    Decision {
        records,
        results: Ok(()),
    }
}

/// Checks one change against the level in force; the error is Kafka's text.
fn check(update: &FeatureUpdate, current: i16, node: NodeId) -> Result<(), String> {
    let (name, level, kind) = (update.name.as_str(), update.level, update.upgrade_type);
    let invalid = |reason: &dyn Display| {
        let text = format!("Invalid update version {level} for feature {name}. {reason}");
        Err(text)
    };
    if ![UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE].contains(&kind) {
        return invalid(&"The controller does not support the given upgrade type.");
    }
    if level < 0 {
        return invalid(&"A feature version cannot be less than 0.");
    }
    match feature(name) {
        Some(known) if !(known.min..=known.max).contains(&level) => {
            let (min, max) = (known.min, known.max);
            let text = format!("Local controller {node} only supports versions {min}-{max}");
            return invalid(&text);
        }
        None if level != 0 => {
            let text = format!("Local controller {node} does not support this feature.");
            return invalid(&text);
        }
        Some(_) | None => {}
    }
    if level < current && kind == UPGRADE {
        return invalid(
            &"Can't downgrade the version of this feature without setting the upgrade type to \
              either safe or unsafe downgrade.",
        );
    }
    if current < level && kind != UPGRADE {
        return invalid(&"Can't downgrade to a newer version.");
    }
    match name {
        METADATA_VERSION_FEATURE => check_metadata_version(current, level, kind),
        KRAFT_VERSION_FEATURE if level < current => {
            invalid(&"Can't downgrade the version of this feature.")
        }
        // Kafka could: it would name the voters of `controller.quorum.voters` in the log from then on.
        KRAFT_VERSION_FEATURE if current < level => {
            invalid(&"The quorum is a static one, and stays so.")
        }
        _ if feature(name).is_none() && !ELSEWHERE.contains(&name) => {
            invalid(&format!("Feature {name} not found."))
        }
        _ => Ok(()),
    }
}

/// A metadata version goes back only where no record would have to be written anew.
fn check_metadata_version(current: i16, level: i16, kind: i8) -> Result<(), String> {
    let crossed = level.saturating_add(1)..=current;
    let changed = METADATA_CHANGED_AT.iter().any(|at| crossed.contains(at));
    if !changed {
        return Ok(());
    }
    let reason = if kind == UNSAFE_DOWNGRADE {
        "Unsafe metadata downgrade is not supported in this version."
    } else {
        "Refusing to perform the requested downgrade because it might delete metadata information."
    };
    Err(format!(
        "Unsupported metadata.version downgrade from {current} to {level}. {reason}"
    ))
}

#[cfg(test)]
mod tests {
    use pelton_model::{LeaderEpoch, Offset};

    use super::*;

    fn image(levels: &[(&str, i16)]) -> MetadataImage {
        let mut image = MetadataImage::new();
        for (offset, (name, level)) in (0_i64..).zip(levels) {
            let record = level_record(name, *level);
            image
                .replay(Offset(offset), LeaderEpoch(1), &record)
                .unwrap();
        }
        image
    }

    fn update(name: &str, level: i16, upgrade_type: i8) -> FeatureUpdate {
        FeatureUpdate {
            name: name.to_owned(),
            level,
            upgrade_type,
        }
    }

    const OPTIONS: UpdateFeaturesOptions = UpdateFeaturesOptions {
        node: NodeId(1),
        kraft_version: 1,
        validate_only: false,
    };

    const NEW: &[(&str, i16)] = &[
        ("metadata.version", 30),
        ("group.version", 1),
        ("transaction.version", 2),
    ];

    // Goal: a new log has what Kafka's defaults finalize of what works, the metadata version first. Method: the records,
    // and what clients are told of them.
    #[test]
    fn new_log() {
        let expected: Vec<_> = NEW
            .iter()
            .map(|(name, level)| level_record(name, *level))
            .collect();
        assert_eq!(bootstrap_records(), expected);
        let told = [
            ("group.version", 1),
            ("kraft.version", 1),
            ("metadata.version", 30),
            ("transaction.version", 2),
        ];
        assert_eq!(finalized_features(&image(NEW), 1), told);
    }

    // Goal: clients hear of nothing that does not work, and of nothing that is off. Method: a log of a Kafka 4.3 with all
    // its features, and an old one of a static quorum.
    #[test]
    fn told() {
        let kafkas = [
            ("metadata.version", 30),
            ("share.version", 1),
            ("group.version", 1),
            ("eligible.leader.replicas.version", 1),
        ];
        let told = [
            ("group.version", 1),
            ("kraft.version", 1),
            ("metadata.version", 30),
        ];
        assert_eq!(finalized_features(&image(&kafkas), 1), told);
        let old = image(&[("metadata.version", 21)]);
        assert_eq!(finalized_features(&old, 0), [("metadata.version", 21)]);
    }

    // Goal: Kafka's texts, in its order of checks. Method: each way to be refused.
    #[test]
    fn refusals() {
        fn check(wanted: (&str, i16, i8), expected: &str) {
            let (name, level, kind) = wanted;
            let decision = update_features(&image(NEW), &[update(name, level, kind)], OPTIONS);
            assert_eq!(decision.records, []);
            let refusal = decision.results.unwrap_err();
            assert_eq!(refusal.error, ErrorCode::InvalidUpdateVersion);
            let message = refusal.message.unwrap();
            let (_, why) = message.split_once(" an error: ").unwrap();
            assert_eq!(why, expected);
        }
        check(
            ("group.version", 0, 0),
            "Invalid update version 0 for feature group.version. The controller does not support \
             the given upgrade type.",
        );
        check(
            ("group.version", -1, 1),
            "Invalid update version -1 for feature group.version. A feature version cannot be less \
             than 0.",
        );
        check(
            ("group.version", 2, 1),
            "Invalid update version 2 for feature group.version. Local controller 1 only supports \
             versions 0-1",
        );
        check(
            ("no.such", 1, 1),
            "Invalid update version 1 for feature no.such. Local controller 1 does not support \
             this feature.",
        );
        check(
            ("no.such", 0, 2),
            "Invalid update version 0 for feature no.such. Feature no.such not found.",
        );
        check(
            ("group.version", 0, 1),
            "Invalid update version 0 for feature group.version. Can't downgrade the version of \
             this feature without setting the upgrade type to either safe or unsafe downgrade.",
        );
        check(
            ("kraft.version", 0, 2),
            "Invalid update version 0 for feature kraft.version. Can't downgrade the version of \
             this feature.",
        );
        check(
            ("metadata.version", 29, 2),
            "Unsupported metadata.version downgrade from 30 to 29. Refusing to perform the \
             requested downgrade because it might delete metadata information.",
        );
        check(
            ("metadata.version", 29, 3),
            "Unsupported metadata.version downgrade from 30 to 29. Unsafe metadata downgrade is \
             not supported in this version.",
        );
        check(
            ("metadata.version", 0, 2),
            "Invalid update version 0 for feature metadata.version. Local controller 1 only \
             supports versions 7-30",
        );
    }

    // Goal: levels rise and fall, all of a request or none. Method: requests and the records they come to.
    #[test]
    fn changes() {
        fn check(levels: &[(&str, i16)], wanted: &[(&str, i16, i8)], expected: &[(&str, i16)]) {
            let image = image(levels);
            let wanted: Vec<_> = wanted.iter().map(|w| update(w.0, w.1, w.2)).collect();
            let expected: Vec<_> = expected.iter().map(|e| level_record(e.0, e.1)).collect();
            let decision = update_features(&image, &wanted, OPTIONS);
            assert_eq!(decision.records, expected);
            let checked = update_features(
                &image,
                &wanted,
                UpdateFeaturesOptions {
                    validate_only: true,
                    ..OPTIONS
                },
            );
            assert_eq!(checked.records, []);
            assert_eq!(checked.results, decision.results);
        }
        let old = &[("metadata.version", 29)];
        check(old, &[("group.version", 1, 1)], &[("group.version", 1)]);
        check(
            old,
            &[("metadata.version", 30, 1)],
            &[("metadata.version", 30)],
        );
        check(
            old,
            &[("metadata.version", 23, 2)],
            &[("metadata.version", 23)],
        );
        check(old, &[("metadata.version", 22, 2)], &[]);
        check(old, &[("group.version", 1, 1), ("no.such", 1, 1)], &[]);
        check(
            old,
            &[("group.version", 0, 1), ("group.version", 1, 1)],
            &[("group.version", 1)],
        );
        check(
            NEW,
            &[("group.version", 1, 1), ("kraft.version", 1, 1)],
            &[],
        );
        check(NEW, &[("group.version", 0, 2)], &[("group.version", 0)]);
        let kafkas = &[("metadata.version", 30), ("share.version", 1)];
        check(kafkas, &[("share.version", 0, 2)], &[("share.version", 0)]);
        check(
            kafkas,
            &[("transaction.version", 2, 1)],
            &[("transaction.version", 2)],
        );
        check(old, &[], &[]);
    }
}
