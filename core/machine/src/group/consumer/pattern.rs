//! Topic patterns: a member says which topics it wants, the coordinator finds them.
//!
//! 1. What a pattern stands for is written, and looked at again when topics have come or gone (not more often than every
//!    10 s) and every `group.consumer.regex.refresh.interval.ms`.

use std::collections::BTreeSet;

use pelton_model::record_type::group::{
    ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue, GroupRecord,
};
use pelton_model::{ErrorCode, Str};

use super::Refused;
use crate::group::scene::Scene;
use crate::group::shard::Group;
use crate::image::MetadataImage;
use crate::pattern::{self, Regex};

/// Between two looks at all topics for topics that came or went.
const REFRESH_MS_MIN: i64 = 10_000;

/// Compiles a pattern.
pub(super) fn compile(pattern: &Str) -> Result<Regex, Refused> {
    pattern::whole(pattern).map_err(|reason| {
        let words = format!(
            "SubscribedTopicRegex `{pattern}` is not a valid regular expression: {reason}."
        );
        (ErrorCode::InvalidRegularExpression, words)
    })
}

impl Group {
    /// Resolves what is not, and what was resolved too long ago; whether that changed any member's topics.
    pub(super) fn refresh_patterns(
        &mut self,
        scene: &mut Scene<'_>,
        image: &MetadataImage,
    ) -> bool {
        let Some(consumer) = &self.hard.consumer else {
            return false;
        };
        let used: BTreeSet<Str> = consumer
            .members
            .values()
            .filter_map(|member| member.regex().cloned())
            .collect();
        let unused = consumer
            .regexes
            .keys()
            .filter(|regex| !used.contains(*regex));
        let unused: Vec<Str> = unused.cloned().collect();
        let refresh_ms = i64::from(scene.config.consumer.regex_refresh_interval_ms);
        let is_due = |regex: &&Str| match consumer.regexes.get(*regex) {
            None => true,
            Some(resolved) => {
                let age_ms = scene.now.time.0.saturating_sub(resolved.timestamp);
                let has_moved = resolved.version != image.applied().0;
                refresh_ms < age_ms || (has_moved && REFRESH_MS_MIN < age_ms)
            }
        };
        let due: Vec<Str> = used.iter().filter(is_due).cloned().collect();
        for regex in unused {
            self.put_pattern(scene, regex, None);
        }
        let mut has_changed = false;
        for regex in due {
            // It was compiled when it came; a log of another broker may hold what only that can compile.
            let Ok(compiled) = compile(&regex) else {
                continue;
            };
            let matches = image
                .topics()
                .filter(|topic| compiled.is_match(topic.name()));
            let mut topics: Vec<Str> = matches.map(|topic| Str::from(topic.name())).collect();
            topics.sort_unstable();
            let consumer = self.hard.consumer.as_ref();
            let before = consumer.and_then(|consumer| consumer.regexes.get(&regex));
            has_changed |= before.is_none_or(|before| before.topics != topics);
            let value = ConsumerGroupRegularExpressionValue {
                topics,
                version: image.applied().0,
                timestamp: scene.now.time.0,
            };
            self.put_pattern(scene, regex, Some(value));
        }
        has_changed
    }

    fn put_pattern(
        &mut self,
        scene: &mut Scene<'_>,
        regular_expression: Str,
        value: Option<ConsumerGroupRegularExpressionValue>,
    ) {
        let key = ConsumerGroupRegularExpressionKey {
            group_id: self.classic.group_id.clone(),
            regular_expression,
        };
        self.put(
            scene,
            GroupRecord::ConsumerGroupRegularExpression(key, value),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Goal: patterns match whole names, and what is no pattern or too large is refused. Method: a table.
    #[test]
    fn patterns() {
        fn check(pattern: &str, name: &str, expected: Option<bool>) {
            let matched = compile(&Str::from(pattern)).map(|regex| regex.is_match(name));
            assert_eq!(matched.ok(), expected, "{pattern}");
        }
        check("t.*", "t1", Some(true));
        check("t", "t1", Some(false));
        check("a|t1", "t1", Some(true));
        check("a|t", "at", Some(false));
        check("", "t1", Some(false));
        check("t(", "t1", None);
        check(")(", "", None);
        check("(a{1000}){1000}", "a", None);
        check(&"a".repeat(100_000), "a", None);
    }
}
