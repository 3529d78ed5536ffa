//! The load generator against a real broker: what it says it did is what the broker has.

use kafka_protocol::messages::{ApiKey, ListOffsetsResponse};
use pelton_perf::{Kind, Load, Outcome, RunOptions, Target, run};
use pelton_tests::answer;
use pelton_tests::broker::{Broker, unique};
use pelton_tests::raw::Reply;
use pelton_tests::request::ListOffsets;

/// Runs a short load on a topic that stays.
fn under(broker: &Broker, topic: &str, load: Load) -> Outcome {
    let target = Target {
        address: broker.address(),
        topic: topic.to_owned(),
        is_bare: false,
        keeps_topic: true,
    };
    let options = RunOptions { sleeps: true, ..RunOptions::default() };
    let outcome = run(&load, &target, &options).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(outcome.shed(), 0, "{:?}", outcome.failures);
    outcome
}

/// The end of the log, of all partitions together.
fn log_end(broker: &Broker, topic: &str, partitions: i32) -> u64 {
    let request =
        ListOffsets { partitions: (0..partitions).collect(), ..ListOffsets::at(topic, 5, -1) };
    let Reply::Frame(frame) = broker.connect().ask(&request.frame()) else {
        panic!("ListOffsets is not answered");
    };
    let answer: ListOffsetsResponse =
        answer::decode(ApiKey::ListOffsets, 5, &frame).expect("ListOffsets decodes");
    answer.topics[0].partitions.iter().map(|each| each.offset.unsigned_abs()).sum()
}

/// Goal: every record that is reported as written is in the log, and nothing else, for every way to write. Method: short closed
/// and open loops, and the log end offsets.
#[test]
fn written_is_what_the_log_has() {
    let broker = Broker::start();
    let short = Load { warm_up: 0.1, seconds: 0.4, ..Load::default() };
    let check = |name: &str, load: Load| {
        let topic = unique(name);
        let outcome = under(&broker, &topic, load.clone());
        assert!(0 < outcome.produce.requests, "{name}");
        assert!(outcome.produce.records <= outcome.records_written, "{name}");
        assert!(0.0 < outcome.produce.latency.p50_us, "{name}");
        let partitions = i32::try_from(load.partitions).expect("few partitions");
        assert_eq!(log_end(&broker, &topic, partitions), outcome.records_written, "{name}");
    };
    check("closed", Load { connections: 3, depth: 4, records: 7, ..short.clone() });
    check("open", Load { connections: 2, rate: 500.0, ..short.clone() });
    check("idempotent", Load { depth: 5, idempotent: true, partitions: 3, ..short.clone() });
    let packed = Load { compression: "lz4".to_owned(), records: 50, ..short.clone() };
    check("packed", packed);
    let keyed = Load { partitions: 6, partitions_per_request: 4, key_bytes: 8, ..short.clone() };
    check("keyed", keyed);
    check("in-sync", Load { acks: -1, ..short });
}

/// Goal: consumers get what was written, and are timed from when it was due. Method: a tail of stamped records, a mix, and a
/// fetch load over what was prepared for it.
#[test]
fn read_is_what_was_written() {
    let broker = Broker::start();
    let short = Load { warm_up: 0.1, seconds: 0.5, rate: 400.0, ..Load::default() };
    let tail = Load { kind: Kind::Tail, partitions: 2, ..short.clone() };
    let outcome = under(&broker, &unique("tail"), tail);
    assert_eq!(outcome.undelivered, 0);
    assert_eq!(outcome.delivery.count, outcome.produce.latency.count);
    let mixed = Load { kind: Kind::Mixed, consumers: 2, records: 5, ..short.clone() };
    let outcome = under(&broker, &unique("mixed"), mixed);
    assert_eq!(outcome.undelivered, 0);
    assert!(0 < outcome.fetch.records);
    let fetch = Load {
        kind: Kind::Fetch,
        rate: 0.0,
        records: 10,
        prefill_bytes: 1 << 20,
        fetch_bytes: 64 << 10,
        ..short
    };
    let outcome = under(&broker, &unique("fetch"), fetch);
    assert!(0 < outcome.fetch.requests);
    assert_eq!(outcome.fetch.records % 10, 0);
}
