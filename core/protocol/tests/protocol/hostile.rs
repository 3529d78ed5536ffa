//! Bytes that a stranger may send: no decoder panics, none allocates by claim.

use bytes::Bytes;
use pelton_protocol::fuzz::{self, Target, records, targets};
use proptest::prelude::*;

use crate::generate::{self, Random};

fn each_version(mut visit: impl FnMut(&'static Target, i16)) {
    for target in targets().iter().chain(records()) {
        for version in target.versions.min..=target.versions.max {
            visit(target, version);
        }
    }
}

/// Runs a target on a body.
fn run(target: &Target, version: i16, body: &[u8]) {
    let mut input = vec![u8::try_from(version).unwrap()];
    input.extend(body);
    (target.run)(&input);
}

// Goal: a message cut anywhere is an error. Method: every strict prefix of random valid messages.
#[test]
fn truncation_is_an_error() {
    each_version(|target, version| {
        for seed in 0..4 {
            let bytes = Bytes::from(generate::message(target, version, &mut Random(seed)));
            for length in (0..bytes.len()).rev().take(400) {
                let cut = (target.recode)(&bytes.slice(..length), version);
                assert!(
                    cut.is_err(),
                    "{} v{version} seed {seed} cut at {length}",
                    target.name
                );
            }
        }
    });
}

// Goal: claims of 2³¹−1, 2³¹ and −2 anywhere are survived quickly. Method: overwrite every position of valid messages with
// a fixed and with a compact claim; a decoder that believed one would ask for gigabytes.
#[test]
fn huge_claims_anywhere() {
    const CLAIMS: [&[u8]; 6] = [
        &[0x7f, 0xff, 0xff, 0xff],
        &[0x80, 0, 0, 0],
        &[0xff, 0xff, 0xff, 0xfe],
        &[0xff, 0xff, 0xff, 0xff, 0x07],
        &[0xff, 0xff, 0xff, 0xff, 0x0f],
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
    ];
    each_version(|target, version| {
        let bytes = generate::message(target, version, &mut Random(9));
        for position in 0..bytes.len().min(200) {
            for claim in CLAIMS {
                let mut bad = bytes.clone();
                bad.truncate(position);
                bad.extend(claim);
                bad.extend(&bytes[(position + claim.len()).min(bytes.len())..]);
                run(target, version, &bad);
            }
        }
    });
}

// Goal: trailing bytes and unknown tagged fields change nothing. Method: valid messages with bytes added.
#[test]
fn what_follows_is_left_alone() {
    each_version(|target, version| {
        let bytes = generate::message(target, version, &mut Random(3));
        let mut longer = bytes.clone();
        longer.extend(b"trailing");
        let recoded = (target.recode)(&longer.into(), version);
        assert_eq!(recoded, Ok((bytes.into(), 8)), "{} v{version}", target.name);
    });
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 256, ..ProptestConfig::default() })]

    // Goal: arbitrary bytes never panic a decoder. Method: noise at every decoder and version.
    #[test]
    fn noise(body in prop::collection::vec(any::<u8>(), 0..200)) {
        each_version(|target, version| run(target, version, &body));
        fuzz::request(&body);
        fuzz::metadata_value(&body);
        fuzz::metadata_batch(&body);
    }

    // Goal: nearly valid bytes never panic a decoder. Method: a few bytes of a valid message changed.
    #[test]
    fn mutation(seed: u64, changes in prop::collection::vec((any::<usize>(), any::<u8>()), 1..4)) {
        each_version(|target, version| {
            let mut bytes = generate::message(target, version, &mut Random(seed));
            let length = bytes.len();
            for (position, byte) in &changes {
                if let Some(changed) = bytes.get_mut(position % length.max(1)) {
                    *changed = *byte;
                }
            }
            run(target, version, &bytes);
        });
    }
}
