//! Transactions in the metrics, in the simulator.

use std::rc::Rc;

use pelton_protocol::codec::Str;
use pelton_protocol::message::add_partitions_to_txn::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, AddPartitionsToTxnTopic,
};
use pelton_protocol::message::end_txn::{EndTxnRequest, EndTxnResponse};
use pelton_protocol::message::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};
use pelton_tests::sim::stage::Stage;

use crate::scenes::{scene, scrape};

/// How long a transaction may stay open, ms, where it is to time out.
const SHORT_MS: i32 = 5_000;
const LONG_MS: i32 = 600_000;

/// Takes a transactional id over.
fn init(stage: &Stage, id: &'static str, transaction_timeout_ms: i32) -> (i64, i16) {
    let bench = Rc::clone(&stage.bench);
    stage.run(async move {
        bench.await_coordinator(id, 1).await;
        let asked = InitProducerIdRequest {
            transactional_id: Some(Str::from(id)),
            transaction_timeout_ms,
            ..InitProducerIdRequest::default()
        };
        let is_done = |answer: &InitProducerIdResponse| answer.error_code == 0;
        let answer = bench.insist("producer", 4, &asked, is_done).await;
        (answer.producer_id, answer.producer_epoch)
    })
}

/// Begins a transaction of an id with two partitions.
fn begin(stage: &Stage, id: &'static str, timeout_ms: i32) -> (i64, i16) {
    let (producer_id, epoch) = init(stage, id, timeout_ms);
    let bench = Rc::clone(&stage.bench);
    stage.run(async move {
        let asked = AddPartitionsToTxnRequest {
            v3_and_below_transactional_id: Str::from(id),
            v3_and_below_producer_id: producer_id,
            v3_and_below_producer_epoch: epoch,
            v3_and_below_topics: vec![AddPartitionsToTxnTopic {
                name: Str::from("topic"),
                partitions: vec![0, 5],
            }],
            ..AddPartitionsToTxnRequest::default()
        };
        let is_done = |answer: &AddPartitionsToTxnResponse| {
            let topic = &answer.results_by_topic_v3_and_below[0];
            topic.results_by_partition.iter().all(|partition| partition.partition_error_code == 0)
        };
        bench.insist("producer", 3, &asked, is_done).await;
    });
    (producer_id, epoch)
}

fn end(stage: &Stage, id: &'static str, producer: (i64, i16), committed: bool) {
    let bench = Rc::clone(&stage.bench);
    stage.run(async move {
        let asked = EndTxnRequest {
            transactional_id: Str::from(id),
            producer_id: producer.0,
            producer_epoch: producer.1,
            committed,
        };
        let is_done = |answer: &EndTxnResponse| answer.error_code == 0;
        bench.insist("producer", 3, &asked, is_done).await;
    });
}

/// What the shards tell together.
fn check(stage: &Stage, expected: &[(&str, f64)]) {
    let now = scrape(stage);
    for (name, value) in expected {
        let name = format!("pelton_transaction{name}");
        assert_eq!(now.sum(&name), *value, "{name}");
    }
}

// Goal: how many transactions are open, how old the oldest is, and how each one ended. Method: transactions of ids on several shards; one
// committed, one aborted, one taken over by another producer, one left alone until it times out, one that stays open.
#[test]
fn ends_are_counted_by_their_cause() {
    let often = [("transaction.abort.timed.out.transaction.cleanup.interval.ms", "100")];
    scene(11, &often, |stage| {
        stage.create_topic("topic", 6, &[]);
        let from = stage.world.now_ms();
        begin(stage, "stays", LONG_MS);
        let committed = begin(stage, "committed", LONG_MS);
        let aborted = begin(stage, "aborted", LONG_MS);
        begin(stage, "contested", LONG_MS);
        begin(stage, "slow", SHORT_MS);
        let none = [
            ("s_committed_total", 0.0),
            ("s_aborted_total", 0.0),
            ("s_fenced_total", 0.0),
            ("s_timed_out_total", 0.0),
        ];
        check(stage, &[("al_ids", 5.0), ("s_open", 5.0), ("s_ending", 0.0)]);
        check(stage, &none);
        end(stage, "committed", committed, true);
        end(stage, "aborted", aborted, false);
        init(stage, "contested", LONG_MS);
        check(stage, &[("al_ids", 5.0), ("s_open", 2.0)]);
        stage.wait_ms(20_000);
        let one = none.map(|(name, _)| (name, 1.0));
        check(stage, &one);
        check(stage, &[("al_ids", 5.0), ("s_open", 1.0), ("s_ending", 0.0)]);
        let ages = scrape(stage);
        let ages = ages.of("pelton_transactions_oldest_age_seconds");
        let oldest = ages.map(|(_, age)| age).fold(0.0, f64::max);
        let longest = (stage.world.now_ms() - from) as f64 / 1000.0;
        assert!((20.0..=longest).contains(&oldest), "{oldest} of {longest} s");
    });
}
