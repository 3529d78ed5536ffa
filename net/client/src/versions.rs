//! Which version of each API two sides share.

use pelton_protocol::codec::{Message, Versions};
use pelton_protocol::message::api_versions::ApiVersionsResponse;

/// APIs kept of a broker's list; Kafka has fewer than a hundred.
const APIS_MAX: usize = 1024;

/// What a broker serves.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServedVersions(Vec<(i16, Versions)>);

impl ServedVersions {
    pub(crate) fn new(response: &ApiVersionsResponse) -> Self {
        let rows = response.api_keys.iter().take(APIS_MAX);
        let rows = rows.filter(|row| row.min_version <= row.max_version);
        Self(
            rows.map(|row| {
                (
                    row.api_key,
                    Versions::range(row.min_version, row.max_version),
                )
            })
            .collect(),
        )
    }

    /// What the broker speaks of the API with this key.
    pub(crate) fn of(&self, key: i16) -> Option<Versions> {
        self.0
            .iter()
            .find(|(served, _)| *served == key)
            .map(|(_, versions)| *versions)
    }

    /// The highest version up to `version_max` that both sides speak.
    pub(crate) fn pick<Q: Message>(&self, version_max: i16) -> Option<i16> {
        let theirs = self.of(Q::KEY)?;
        let highest = Q::VERSIONS.max.min(theirs.max).min(version_max);
        let lowest = Q::VERSIONS.min.max(theirs.min);
        (lowest <= highest).then_some(highest)
    }
}

#[cfg(test)]
mod tests {
    use pelton_protocol::message::api_versions::ApiVersion;
    use pelton_protocol::message::produce::ProduceRequest;

    use super::*;

    // Goal: the highest common version. Method: a table of the broker's ranges and the cap against Produce 3–13.
    #[test]
    fn picks_the_highest_common_version() {
        fn check(theirs: (i16, i16), version_max: i16, expected: Option<i16>) {
            let response = ApiVersionsResponse {
                api_keys: vec![ApiVersion {
                    api_key: 0,
                    min_version: theirs.0,
                    max_version: theirs.1,
                }],
                ..ApiVersionsResponse::default()
            };
            let served = ServedVersions::new(&response);
            assert_eq!(served.pick::<ProduceRequest>(version_max), expected);
        }
        check((0, 13), i16::MAX, Some(13));
        check((0, 99), i16::MAX, Some(13));
        check((0, 9), i16::MAX, Some(9));
        check((0, 13), 12, Some(12));
        check((0, 2), i16::MAX, None);
        check((14, 15), i16::MAX, None);
        check((5, 3), i16::MAX, None);
    }
}
