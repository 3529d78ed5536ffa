//! The settings of metrics, which are Pelton's own.

use super::ConfigError;
use super::listener::parse_host_port;
use super::values::Values;

/// What is measured, and where it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsConfig {
    /// `metrics.listener`: host (empty for every interface) and port; nothing is measured without one.
    pub listener: Option<(String, u16)>,
    /// `metrics.partitions.max`: partitions that are told one by one.
    pub partitions_max: usize,
    /// `metrics.group.partitions.max`: committed offsets whose lag is told.
    pub group_partitions_max: usize,
    /// `metrics.series.max`: clients and topics that are told one by one, on each shard.
    pub series_max: usize,
    /// `slow.request.threshold.ms`.
    pub slow_request_ms: u64,
}

impl MetricsConfig {
    pub(super) fn resolve(values: Values<'_>) -> Result<Self, ConfigError> {
        const LISTENER: &str = "metrics.listener";
        let listener = match values.get(LISTENER).filter(|text| !text.is_empty()) {
            None => None,
            Some(text) => {
                let parsed = parse_host_port(text);
                let (host, port) = parsed.ok_or_else(|| {
                    ConfigError::invalid(LISTENER, text, "must look like HOST:PORT")
                })?;
                Some((host.to_owned(), port))
            }
        };
        let count = |name| Ok(usize::try_from(values.i32(name)?).unwrap_or(0));
        Ok(Self {
            listener,
            partitions_max: count("metrics.partitions.max")?,
            group_partitions_max: count("metrics.group.partitions.max")?,
            series_max: count("metrics.series.max")?,
            slow_request_ms: u64::try_from(values.i32("slow.request.threshold.ms")?).unwrap_or(0),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    // Goal: where metrics are served. Method: a table of settings.
    #[test]
    fn listeners() {
        fn check(text: Option<&str>, expected: Option<Option<(&str, u16)>>) {
            let text = text.map(|text| ("metrics.listener".to_owned(), text.to_owned()));
            let set: BTreeMap<String, String> = text.into_iter().collect();
            let values = Values::checked(&set).expect("any text");
            let found = MetricsConfig::resolve(values)
                .ok()
                .map(|config| config.listener);
            let expected = expected.map(|at| at.map(|(host, port)| (host.to_owned(), port)));
            assert_eq!(found, expected, "{set:?}");
        }
        check(None, Some(None));
        check(Some(""), Some(None));
        check(Some("127.0.0.1:0"), Some(Some(("127.0.0.1", 0))));
        check(Some("[::1]:9644"), Some(Some(("::1", 9644))));
        check(Some(":9644"), Some(Some(("", 9644))));
        check(Some("9644"), None);
        check(Some("a:b"), None);
        check(Some("a:70000"), None);
    }
}
