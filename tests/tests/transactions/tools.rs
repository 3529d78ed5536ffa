//! What operators see of transactions, and how they end them: Apache Kafka's `kafka-transactions` and `pelton txn`.

use std::process::Command;
use std::time::Instant;

use pelton_tests::batch::Batch;
use pelton_tests::broker::{self, Broker};
use pelton_tests::peer::{Peer, run, run_ok};
use pelton_tests::topic;
use pelton_tests::transactional::{Partition, TRANSACTIONAL};
use rdkafka::producer::{BaseRecord, Producer};

use super::{PATIENCE, TxnProducer, partitions, producer};

/// `kafka-transactions`, where it can be had.
fn transactions(broker: &Broker, arguments: &[&str]) -> Option<Command> {
    let mut command = Peer::Java.command()?;
    command.args(["transactions", "--bootstrap-server", &broker.bootstrap()]).args(arguments);
    Some(command)
}

/// The fields of each line but the first.
fn rows(text: &str) -> Vec<Vec<&str>> {
    text.lines().skip(1).map(|line| line.split_whitespace().collect()).collect()
}

/// `pelton txn`: the lines of its table but the first.
fn txn(broker: &Broker, arguments: &[&str]) -> Vec<Vec<String>> {
    let mut command = Command::new(broker::binary());
    command.arg("txn").args(arguments).args(["--bootstrap", &broker.bootstrap()]);
    let text = run_ok(command, b"", PATIENCE);
    let own = |row: Vec<&str>| row.into_iter().map(str::to_owned).collect();
    rows(&text).into_iter().map(own).collect()
}

/// A producer with a transaction that it does not end.
fn leave_open(broker: &Broker, id: &str, topic: &str) -> TxnProducer {
    let writer = producer(&broker.bootstrap(), id, &[]);
    writer.init_transactions(PATIENCE).expect("a producer id");
    writer.begin_transaction().expect("begun");
    let record: BaseRecord<'_, (), str> = BaseRecord::to(topic);
    writer.send(record.partition(0).payload("left open")).expect("there is room");
    writer.flush(PATIENCE).expect("delivered");
    writer
}

/// Waits until readers of what is committed get to the end.
fn await_stable(partition: &Partition<'_>) {
    let deadline = Instant::now() + PATIENCE;
    while partition.latest(1) != partition.latest(0) {
        assert!(Instant::now() < deadline, "readers are held up");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

// Goal: a transaction that no coordinator knows of holds readers up, is found, and is ended by an operator; one that is merely open is not
// taken for it. Method: a raw batch of long ago, with verification off; Kafka's find-hanging, describe-producers and abort.
#[test]
fn hanging_ones_are_found_and_aborted() {
    let Some(broker) = partitions::broker(2) else { return };
    let topic = topic::create(&broker, "hanging");
    let name = topic.name.as_str();
    let partition = Partition { broker: &broker, topic: &topic.name, index: 0 };
    let hanging = Batch { attributes: TRANSACTIONAL, ..Batch::of(3).by(4711, 5, 0) };
    let hanging = Batch { base_timestamp: 1_000, max_timestamp: Some(1_000), ..hanging };
    assert_eq!(partition.put(&hanging), (0, 0));
    let open = leave_open(&broker, "alive", name);
    assert_eq!((partition.latest(1), partition.latest(0)), (0, 4));

    let find = ["find-hanging", "--topic", name, "--max-transaction-timeout", "0"];
    let Some(command) = transactions(&broker, &find) else { return };
    let ok = |arguments: &[&str]| {
        run_ok(transactions(&broker, arguments).expect("it was there"), b"", PATIENCE)
    };
    let found = run_ok(command, b"", PATIENCE);
    let of_it = |text: &str| -> Vec<String> {
        let rows = rows(text);
        rows.iter().map(|row| row[..6].join(" ")).collect()
    };
    assert_eq!(of_it(&found), [format!("{name} 0 4711 5 -1 0")], "{found}");
    let producers = ok(&["describe-producers", "--topic", name, "--partition", "0"]);
    let starts = rows(&producers);
    let mut starts: Vec<&str> = starts.iter().map(|row| row[5]).collect();
    starts.sort_unstable();
    assert_eq!(starts, ["0", "3"], "{producers}");

    ok(&["abort", "--topic", name, "--partition", "0", "--start-offset", "0"]);
    assert_eq!((partition.latest(1), partition.latest(0)), (3, 5));
    assert_eq!(of_it(&ok(&find)), [""; 0]);
    open.commit_transaction(PATIENCE).expect("nobody has touched this one");
    await_stable(&partition);
}

// Goal: operators see an open transaction and can end it, after which its producer is fenced and readers go on. Method: a transaction that
// stays open; Kafka's list, describe and forceTerminateTransaction.
#[test]
fn kafkas_tool_ends_open_ones() {
    let Some(broker) = super::broker(&[]) else { return };
    let topic = topic::create(&broker, "open");
    let name = topic.name.as_str();
    let partition = Partition { broker: &broker, topic: &topic.name, index: 0 };
    let Some(command) = transactions(&broker, &["list"]) else { return };
    let writer = leave_open(&broker, "left", name);
    let ok = |arguments: &[&str]| {
        run_ok(transactions(&broker, arguments).expect("it was there"), b"", PATIENCE)
    };
    let listed = run_ok(command, b"", PATIENCE);
    let listed = rows(&listed);
    assert_eq!((listed.len(), listed[0][0], listed[0][3]), (1, "left", "Ongoing"), "{listed:?}");
    let described = ok(&["describe", "--transactional-id", "left"]);
    assert!(described.contains("Ongoing"), "{described}");
    assert!(described.contains(&format!("{name}-0")), "{described}");
    ok(&["forceTerminateTransaction", "--transactionalId", "left"]);
    await_stable(&partition);
    let described = ok(&["describe", "--transactional-id", "left"]);
    assert!(described.contains("CompleteAbort") || described.contains("Empty"), "{described}");
    assert!(writer.commit_transaction(PATIENCE).is_err(), "it is fenced");
    let unknown = transactions(&broker, &["describe", "--transactional-id", "nobody"]);
    assert!(!run(unknown.expect("it was there"), b"", PATIENCE).status.success());
}

// Goal: the same without Java. Method: `pelton txn` list, describe and abort.
#[test]
fn pelton_txn_ends_open_ones() {
    let Some(broker) = super::broker(&[]) else { return };
    let topic = topic::create(&broker, "open");
    let partition = Partition { broker: &broker, topic: &topic.name, index: 0 };
    let writer = leave_open(&broker, "left", &topic.name);
    let listed = txn(&broker, &["list", "--state", "Ongoing"]);
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!(listed[0][..2], ["left", "Ongoing"]);
    let described = txn(&broker, &["describe", "left"]);
    let place = format!("{}-0", topic.name);
    assert_eq!(described[0][..3], ["left", "Ongoing", &listed[0][2]], "{described:?}");
    assert_eq!(described[0].last(), Some(&place), "{described:?}");
    assert_eq!((partition.latest(1), partition.latest(0)), (0, 1));
    txn(&broker, &["abort", "left"]);
    await_stable(&partition);
    assert!(writer.commit_transaction(PATIENCE).is_err(), "it is fenced");
    assert_eq!(txn(&broker, &["list", "--state", "Ongoing"]), Vec::<Vec<String>>::new());
}
