//! Limits on connections, with Kafka's meaning.

use std::time::Duration;

use kafka_protocol::messages::ApiKey;
use pelton_tests::answer;
use pelton_tests::broker::Broker;
use pelton_tests::raw::{Raw, Reply, probe};
use pelton_tests::request::{Resource, incremental_alter_configs};

use super::{eventually, options};

/// Goal: an address may have so many connections and no more; they are accepted and closed at once. Method: the limit, and a limit of
/// its own over a general one of none; a place that is left can be taken.
#[test]
fn per_address() {
    fn check(settings: &[&str], allowed: usize) {
        let Some(broker) = Broker::start_own(options(2, settings)) else { return };
        let mut held: Vec<Raw> = Vec::new();
        // The connection by which the start was watched may be there a moment longer.
        eventually("not as many as allowed", || {
            held = (0..allowed).map(|_| broker.connect()).collect();
            held.iter_mut().all(Raw::is_alive)
        });
        assert_eq!(broker.connect().receive(Duration::from_secs(5)), Reply::Closed);
        assert!(held.iter_mut().all(Raw::is_alive));
        held.pop();
        eventually("the place is not free", || broker.connect().is_alive());
    }
    check(&["max.connections.per.ip=3"], 3);
    check(&["max.connections.per.ip=1", "max.connections.per.ip.overrides=127.0.0.1:4"], 4);
    check(&["max.connections.per.ip=1", "max.connections.per.ip.overrides=localhost:4"], 4);
}

/// Goal: beyond all that there may be, a connection waits for a place instead of being refused. Method: two places and a third
/// connection, which is answered when one of the two leaves.
#[test]
fn in_all() {
    let Some(broker) = Broker::start_own(options(2, &["max.connections=2"])) else { return };
    let mut held: Vec<Raw> = (0..2).map(|_| broker.connect()).collect();
    eventually("two are not served", || held.iter_mut().all(Raw::is_alive));
    let mut third = broker.connect();
    assert!(third.send(&probe()));
    assert_eq!(third.receive(Duration::from_millis(300)), Reply::Silence);
    held.pop();
    assert!(super::is_answered(&mut third));
    assert!(held.iter_mut().all(Raw::is_alive));
}

/// Goal: a limit that is lowered while the broker runs closes those that were silent longest. Method: five connections, a limit of
/// three set by the last one; who is still there.
#[test]
fn lowered_while_running() {
    let Some(broker) = Broker::start_own(options(1, &[])) else { return };
    let mut held: Vec<Raw> = (0..5).map(|_| broker.connect()).collect();
    for connection in &mut held {
        assert!(connection.is_alive());
        std::thread::sleep(Duration::from_millis(20));
    }
    let change = Resource { kind: 4, name: "", changes: vec![(0, "max.connections", Some("3"))] };
    let request = incremental_alter_configs(1, &[change], false);
    let Reply::Frame(frame) = held[4].ask(&request) else { panic!("it is not answered") };
    let summary = answer::summary(ApiKey::IncrementalAlterConfigs, 1, &frame);
    assert!(summary.starts_with("ok"), "{summary}");
    for connection in &mut held[..2] {
        assert_eq!(connection.receive(Duration::from_secs(10)), Reply::Closed);
    }
    assert!(held[2..].iter_mut().all(Raw::is_alive));
}

/// Goal: connections that come too fast wait, and all are served in the end. Method: thirty at once where ten a second may come.
#[test]
fn too_fast() {
    let Some(broker) = Broker::start_own(options(2, &["max.connection.creation.rate=10"])) else {
        return;
    };
    let mut held: Vec<Raw> = (0..30).map(|_| broker.connect()).collect();
    for connection in &mut held {
        assert!(connection.send(&probe()));
    }
    let first = held.iter_mut().filter_map(|it| it.receive(Duration::from_millis(1)).correlation());
    assert!(first.count() < 30, "nobody had to wait");
    let mut late = broker.connect();
    eventually("the last one is not served", || late.is_alive());
}
