//! The pure parts: generator, writer and reader of trees, mask, comparison, shrinking, findings.

use std::collections::BTreeMap;

use kafka_protocol::messages::ApiKey;
use pelton_protocol::api;

use super::compare::differences;
use super::findings::Findings;
use super::generate;
use super::mask::Mask;
use super::shrink::shrink;
use super::step::{Damage, Outcome, Step};
use super::value::{self, Value};
use crate::batch::now_ms;

const SEEDS: u64 = 2000;

/// Goal: a seed is a sequence. Method: each is made twice, and no two neighbours are alike.
#[test]
fn a_seed_is_a_sequence() {
    for seed in 0..SEEDS {
        assert_eq!(generate::sequence(seed), generate::sequence(seed), "seed {seed}");
        assert_ne!(generate::sequence(seed), generate::sequence(seed + 1), "seed {seed}");
    }
}

/// Goal: every API and version that is served is asked, and one beyond. Method: what some thousand seeds ask.
#[test]
fn every_version_is_asked() {
    let mut asked = BTreeMap::<(i16, i16), usize>::new();
    for step in (0..SEEDS * 4).flat_map(generate::sequence) {
        *asked.entry((step.api as i16, step.version)).or_default() += 1;
    }
    for row in api::table() {
        for version in row.min..=row.max {
            assert!(asked.contains_key(&(row.key as i16, version)), "{} v{version}", row.name);
        }
    }
}

/// Goal: what a step sends means what its tree says. Method: honest bodies without slots are read again by the codec,
/// which leaves nothing over, and as a tree, which is written as the same bytes.
#[test]
fn bodies_are_well_formed() {
    for step in (0..SEEDS).flat_map(generate::sequence) {
        let row = api::row(step.api as i16).expect("only APIs that are served are asked");
        if step.damage != Damage::None || step.version > row.max || has_slot(&step.body) {
            continue;
        }
        let target = value::target(step.api as i16, "Request");
        let bytes = bytes::Bytes::from(value::encode(target, step.version, &step.body));
        let recoded = (target.recode)(&bytes, step.version);
        assert_eq!(recoded.map(|(_, left)| left), Ok(0), "{step}");
        let read = value::decode(target, step.version, &bytes).expect("the codec read it too");
        assert_eq!(value::encode(target, step.version, &read), bytes.to_vec(), "{step}");
    }
}

fn has_slot(value: &Value) -> bool {
    match value {
        Value::Slot(_) | Value::Batch(_) => true,
        Value::List(items) => items.iter().any(has_slot),
        Value::Struct(fields) => fields.iter().any(|(_, value)| has_slot(value)),
        _ => false,
    }
}

fn fields(fields: &[(&'static str, Value)]) -> Value {
    Value::Struct(fields.to_vec())
}

fn check_mask(api: ApiKey, answer: &[(&'static str, Value)], expected: &[(&'static str, Value)]) {
    let learned = BTreeMap::from([
        ("pid ~x0".to_owned(), Value::Int(4711)),
        ("node".to_owned(), Value::Int(3)),
        ("member ~g0 0".to_owned(), Value::text("m-1")),
    ]);
    let mask = Mask { api, prefix: "o1-1-", learned: &learned };
    assert_eq!(mask.apply(&fields(&[]), &fields(answer)), fields(expected), "{api:?}");
}

/// Goal: ids, times, addresses and words of the broker's own are put out of sight, "nothing" is not. Method: a table.
#[test]
fn the_mask_hides_what_may_differ() {
    use ApiKey::{InitProducerId, JoinGroup, ListGroups, ListOffsets, Metadata};
    let one = |name: &'static str, value: Value| vec![(name, value)];
    for (api, name, value, masked) in [
        (InitProducerId, "producer_id", Value::Int(4711), Value::text("<pid ~x0>")),
        (InitProducerId, "producer_id", Value::Int(4712), Value::text("<given>")),
        (InitProducerId, "producer_id", Value::Int(-1), Value::Int(-1)),
        (JoinGroup, "leader", Value::text("m-1"), Value::text("<member ~g0 0>")),
        (JoinGroup, "leader", Value::text(""), Value::text("")),
        (JoinGroup, "protocol_name", Value::text("o1-1-t0"), Value::text("~t0")),
        (Metadata, "controller_id", Value::Int(3), Value::text("<node>")),
        (Metadata, "controller_id", Value::Int(4), Value::Int(4)),
        (ListOffsets, "timestamp", Value::Int(now_ms()), Value::text("<now>")),
        (ListOffsets, "timestamp", Value::Int(-1), Value::Int(-1)),
    ] {
        check_mask(api, &one(name, value), &one(name, masked));
    }
    check_mask(Metadata, &[("throttle_time_ms", Value::Int(5))], &[]);
    let group = |name: &str| fields(&[("group_id", Value::text(name))]);
    let all = Value::List(vec![group("o1-1-g0"), group("another's")]);
    check_mask(ListGroups, &[("groups", all)], &[("groups", Value::List(vec![group("~g0")]))]);
}

fn check_differences(kafka: Value, pelton: Value, expected: &[&str]) {
    let step = Step::plain(ApiKey::Metadata, 12, 0, fields(&[]));
    let answer = |masked: Value| Outcome::Answer(Box::new(masked), Box::new(Value::Null));
    let found = differences(&step, &answer(kafka), &answer(pelton));
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(found, expected);
}

/// Goal: fields are compared by name, elements by what names them, refusals before what follows from them. Method: a table.
#[test]
fn answers_are_compared_field_by_field() {
    let topic = |name: &str, code: i64, id: i64| {
        let name = ("name", Value::text(name));
        fields(&[name, ("error_code", Value::Int(code)), ("is_internal", Value::Int(id))])
    };
    let topics = |of: Vec<Value>| fields(&[("topics", Value::List(of))]);
    let (a, b) = (topic("~a", 0, 0), topic("~b", 0, 0));
    check_differences(topics(vec![a.clone(), b.clone()]), topics(vec![b.clone(), a.clone()]), &[]);
    check_differences(
        topics(vec![a.clone()]),
        topics(vec![topic("~a", 3, 1)]),
        &["Metadata topics[].error_code: Kafka None, Pelton UnknownTopicOrPartition"],
    );
    check_differences(
        topics(vec![a.clone()]),
        topics(vec![topic("~a", 0, 1)]),
        &["Metadata topics[].is_internal: Kafka 0, Pelton 1"],
    );
    check_differences(
        topics(vec![b]),
        topics(Vec::new()),
        &["Metadata topics[]: Kafka {name: \"~b\", error_code: 0, is_internal: 0}, Pelton absent"],
    );
    // A topic named twice, a topic without partitions, a partition named twice.
    let part = |index: i64, code: i64| {
        fields(&[("partition_index", Value::Int(index)), ("error_code", Value::Int(code))])
    };
    let of = |name: &str, parts: Vec<Value>| {
        fields(&[("name", Value::text(name)), ("partitions", Value::List(parts))])
    };
    check_differences(
        topics(vec![of("~a", vec![part(0, 0), part(1, 0), part(2, 0)])]),
        topics(vec![
            of("~a", vec![part(0, 0)]),
            of("~a", vec![part(1, 3), part(2, 3), part(2, 0)]),
            of("~b", Vec::new()),
        ]),
        &["Metadata topics[].partitions[].error_code: Kafka None, Pelton UnknownTopicOrPartition"],
    );
    let step = Step::plain(ApiKey::Metadata, 12, 0, fields(&[]));
    let found = differences(&step, &Outcome::Closed, &Outcome::Silence);
    assert_eq!(found[0].to_string(), "Metadata : Kafka closed, Pelton silence");
}

/// Goal: a sequence shrinks to what shows the difference. Method: the difference is one step with one field.
#[test]
fn sequences_shrink() {
    let shows = |steps: &[Step]| {
        steps.iter().any(|step| step.body.each("topics").any(|it| it.str("name") == Some("~t1")))
    };
    let seed = (0..).find(|seed| {
        let steps = generate::sequence(*seed);
        steps.len() > 6 && shows(&steps[3..]) && shows(&steps)
    });
    let mut steps = generate::sequence(seed.expect("some sequence asks for the topic"));
    let last = steps.iter().rposition(|step| shows(std::slice::from_ref(step)));
    steps.truncate(last.expect("one step shows it") + 1);
    let small = shrink(steps, 1000, shows);
    assert_eq!(small.len(), 1);
    let name = fields(&[("name", Value::text("~t1"))]);
    assert_eq!(small[0].body, fields(&[("topics", Value::List(vec![name]))]));
}

/// Goal: a finding allows what its pattern says and no more, and has a reason. Method: a list of two, and the committed one.
#[test]
fn findings_allow_by_pattern() {
    let findings = Findings::parse("\n- `A x: Kafka *, Pelton 1`, `B *`: because.\n");
    let difference = |api: &str, pelton: &str| super::compare::Difference {
        api: api.to_owned(),
        path: "x".to_owned(),
        kafka: "5".to_owned(),
        pelton: pelton.to_owned(),
    };
    for (api, pelton, allowed) in
        [("A", "1", true), ("A", "12", false), ("B", "9", true), ("C", "1", false)]
    {
        assert_eq!(findings.allow(&difference(api, pelton)), allowed, "{api} {pelton}");
    }
    drop(Findings::committed());
}
