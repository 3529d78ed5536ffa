//! `sync.policy` changed while records come.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use pelton_model::compression::Compression;
use pelton_protocol::codec::Str;
use pelton_protocol::message::incremental_alter_configs::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
};
use pelton_protocol::message::produce::ProduceResponse;
use pelton_tests::sim::bench::{Bench, PATIENCE_MS, Topic};
use pelton_tests::sim::oracle::RecordId;
use pelton_tests::sim::producer::{data, request};
use pelton_tests::sim::records::batch;
use pelton_tests::sim::stage::play;

use super::for_seeds;

const PARTITIONS: i32 = 4;

/// What the clients know of the policy and of what is durable.
#[derive(Default)]
struct Facts {
    /// Counts the changes; odd while `group` is in force for certain.
    phase: Cell<u64>,
    /// Ends below which everything was acknowledged under `group`.
    durable: RefCell<[i64; PARTITIONS as usize]>,
    acknowledged: Cell<u64>,
    is_over: Cell<bool>,
}

async fn set_policy(bench: &Bench, topic: &Topic, policy: &str) {
    let change = AlterableConfig {
        name: Str::from("sync.policy"),
        config_operation: 0,
        value: Some(Str::from(policy)),
    };
    let request = IncrementalAlterConfigsRequest {
        resources: vec![AlterConfigsResource {
            resource_type: 2,
            resource_name: topic.name.clone(),
            configs: vec![change],
        }],
        validate_only: false,
    };
    let answer: IncrementalAlterConfigsResponse =
        bench.insist("admin", 1, &request, |_| true).await;
    assert_eq!(answer.responses[0].error_code, 0, "{:?}", answer.responses[0].error_message);
}

/// Sends batches, one after the other, to partitions in turn.
async fn produce(bench: Rc<Bench>, topic: Topic, facts: Rc<Facts>) {
    let producer = bench.oracle.borrow_mut().producer();
    let mut link = bench.link("producer").await;
    for number in 0_i32.. {
        if facts.is_over.get() {
            return;
        }
        let partition = (number + i32::try_from(producer).expect("few")) % PARTITIONS;
        let id = RecordId { producer, number: number.unsigned_abs() };
        let bytes = batch(&[id], None, 200, Compression::None);
        let produce = request(&topic, 1, vec![data(partition, &bytes)]);
        let phase = facts.phase.get();
        let answer: ProduceResponse =
            link.call(13, &produce, PATIENCE_MS).await.expect("an answer");
        let answer = &answer.responses[0].partition_responses[0];
        assert_eq!(answer.error_code, 0);
        facts.acknowledged.set(facts.acknowledged.get() + 1);
        if phase % 2 == 1 && facts.phase.get() == phase {
            let mut durable = facts.durable.borrow_mut();
            let end = &mut durable[usize::try_from(partition).expect("small")];
            *end = (*end).max(answer.base_offset + 1);
        }
        bench.pause(3).await;
    }
}

/// Goal: a policy that is changed under load holds from the answer on, both ways: what is acknowledged under `group` survives a power
/// cut, appends go on through each change, and nothing waits for a sync that nobody makes. Method: none → group → none several times
/// while three producers send; the power goes in the end, whichever policy holds then.
#[test]
fn none_group_none() {
    for_seeds(12, |seed| {
        play(seed, 3, &[], |stage| {
            let topic = stage.create_topic("topic", PARTITIONS, &[("sync.policy", "none")]);
            let (bench, facts) = (Rc::clone(&stage.bench), Rc::new(Facts::default()));
            let (changed, told) = (topic.clone(), Rc::clone(&facts));
            let changes = 2 + seed % 3;
            stage.run(async move {
                for _ in 0..3 {
                    let load = produce(Rc::clone(&bench), changed.clone(), Rc::clone(&told));
                    bench.start(load);
                }
                for change in 1..=changes {
                    bench.world.sleep(20_000_000).await;
                    let policy = if change % 2 == 1 { "group" } else { "none" };
                    if change % 2 == 0 {
                        // From now on the change may be in force.
                        told.phase.set(change);
                    }
                    set_policy(&bench, &changed, policy).await;
                    told.phase.set(change);
                }
                bench.world.sleep(20_000_000).await;
                told.is_over.set(true);
            });
            assert!(20 < facts.acknowledged.get(), "{} were sent", facts.acknowledged.get());
            let durable = *facts.durable.borrow();
            assert!(durable.iter().any(|end| 0 < *end), "nothing was sent under `group`");
            stage.restart(true);
            for (partition, durable) in (0..).zip(durable) {
                let (error, end) = stage.fetch(&topic, partition, 0);
                assert_eq!(error, 0);
                assert!(durable <= end, "{partition}: {durable} was durable, the end is {end}");
            }
        })
    });
}
