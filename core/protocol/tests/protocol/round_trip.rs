//! What is read is written back identically.

use bytes::Bytes;
use pelton_protocol::api;
use pelton_protocol::fuzz::{Target, records, targets};
use proptest::prelude::*;

use crate::generate::{self, Random};

fn check(target: &Target, version: i16, seed: u64) {
    let bytes = Bytes::from(generate::message(target, version, &mut Random(seed)));
    let recoded = (target.recode)(&bytes, version);
    assert_eq!(
        recoded,
        Ok((bytes, 0)),
        "{} v{version} seed {seed}",
        target.name
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

    // Goal: every message in every version is read and written without loss. Method: random canonical bytes.
    #[test]
    fn every_message_and_version(seed: u64) {
        for target in targets().iter().chain(records()) {
            for version in target.versions.min..=target.versions.max {
                check(target, version, seed);
            }
        }
    }
}

// Goal: these tests, the other codec, the captures and the fuzzers miss no API. Method: every row of the table has its two targets.
#[test]
fn every_api_is_covered() {
    for row in api::table() {
        let of_row = targets()
            .iter()
            .filter(|target| target.key == row.key as i16);
        let mut names: Vec<String> = of_row.map(|target| target.name.to_owned()).collect();
        names.sort();
        let expected = ["Request", "Response"].map(|kind| format!("{}{kind}", row.name));
        assert_eq!(names, expected);
    }
}
