//! Small cases of differences that the oracle found and that were mended.

use kafka_protocol::messages::ApiKey;
use pelton_tests::broker::{Broker, unique};
use pelton_tests::oracle::side::Side;
use pelton_tests::oracle::step::Step;
use pelton_tests::oracle::value::Value;

fn fields<const N: usize>(fields: [(&'static str, Value); N]) -> Value {
    Value::Struct(fields.to_vec())
}

fn list<const N: usize>(items: [Value; N]) -> Value {
    Value::List(items.to_vec())
}

/// Asks once, and compares the masked answer.
fn check(broker: &Broker, api: ApiKey, version: i16, body: Value, expected: &str) {
    let step = Step::plain(api, version, 0, body);
    let side = Side::new(broker.address(), &format!("{}-", unique("found")));
    let outcomes = side.play(std::slice::from_ref(&step)).expect("the broker is there");
    assert_eq!(outcomes[0].to_string(), expected, "{step}");
}

/// Goal: these answers stay Kafka's. Method: a row for each, also asked of Kafka itself.
#[test]
fn answers_that_were_other_than_kafkas() {
    let broker = Broker::start();
    // A coordinator of a type that does not exist was UNKNOWN_SERVER_ERROR.
    let one = fields([("key", Value::text("a")), ("key_type", Value::Int(5))]);
    check(&broker, ApiKey::FindCoordinator, 1, one, "{error_code: 42, node_id: -1}");
    let many =
        fields([("coordinator_keys", list([Value::text("a")])), ("key_type", Value::Int(3))]);
    let refused = r#"{coordinators: [{key: "a", node_id: -1, error_code: 42}]}"#;
    check(&broker, ApiKey::FindCoordinator, 4, many, refused);
    // The configurations of a topic that was refused were null.
    let topic = fields([
        ("name", Value::text("~a b")),
        ("num_partitions", Value::Int(1)),
        ("replication_factor", Value::Int(1)),
    ]);
    let refused = concat!(
        r#"{topics: [{name: "~a b", topic_id: 0x00000000000000000000000000000000, "#,
        "error_code: 17, num_partitions: -1, replication_factor: -1, configs: []}]}"
    );
    check(&broker, ApiKey::CreateTopics, 7, fields([("topics", list([topic]))]), refused);
    // A group without a name was GROUP_ID_NOT_FOUND.
    let group = fields([("group_ids", list([Value::text("")]))]);
    let refused = concat!(
        r#"{groups: [{error_code: 24, group_id: "", group_state: "", group_epoch: 0, "#,
        r#"assignment_epoch: 0, assignor_name: "", members: [], "#,
        "authorized_operations: -2147483648}]}"
    );
    check(&broker, ApiKey::ConsumerGroupDescribe, 1, group, refused);
}
