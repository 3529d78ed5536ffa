//! Tests of broker configurations.

use super::*;
use crate::config::properties;

fn resolve(settings: &[(&str, &str)]) -> Result<BrokerConfig, ConfigError> {
    let set = settings
        .iter()
        .map(|&(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    BrokerConfig::resolve(set, "machine.example")
}

// Goal: a start without any file is local and complete. Method: the fields that a newcomer meets.
#[test]
fn without_a_file() {
    let config = BrokerConfig::resolve(single_node_settings(), "machine.example").expect("valid");
    assert_eq!(config.node_id, NodeId(1));
    assert_eq!(
        config.listeners[0].to_string(),
        "PLAINTEXT://127.0.0.1:9092"
    );
    assert_eq!(config.advertised_listeners, config.listeners);
    assert_eq!(config.log_dirs, [PathBuf::from("./pelton-data")]);
    assert_eq!(config.num_partitions, 1);
    assert_eq!(
        config.socket_request_max_bytes,
        crate::limits::REQUEST_BYTES_MAX
    );
    assert_eq!(config.socket_send_buffer_bytes, Some(102_400));
    assert_eq!(config.offsets_topic.replication_factor, 1);
    assert!(config.auto_create_topics_enable);
    assert_eq!(config.notes, [""; 0]);
}

// Goal: Kafka's shipped single-node file is read unchanged. Method: its settings, as a file.
#[test]
fn kafkas_own_file() {
    let file = b"process.roles=broker,controller\nnode.id=1\n\
        controller.quorum.bootstrap.servers=localhost:9093\n\
        listeners=PLAINTEXT://:9092,CONTROLLER://:9093\n\
        inter.broker.listener.name=PLAINTEXT\n\
        advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n\
        controller.listener.names=CONTROLLER\n\
        listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL\n\
        num.network.threads=3\nnum.io.threads=8\nsocket.send.buffer.bytes=102400\n\
        log.dirs=/tmp/kraft-combined-logs\nnum.partitions=1\noffsets.topic.replication.factor=1\n\
        transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n\
        log.retention.hours=168\nlog.segment.bytes=1073741824\n";
    let set: BTreeMap<_, _> = properties::parse(file)
        .expect("well-formed")
        .into_iter()
        .map(|(name, entry)| (name, entry.value))
        .collect();
    assert_eq!(
        crate::config::names::review(set.keys().map(String::as_str)).unknown,
        []
    );
    let config = BrokerConfig::resolve(set, "machine.example").expect("valid");
    assert_eq!(config.listeners.len(), 1);
    assert_eq!(config.listeners[0].host, "");
    assert_eq!(
        config.advertised_listeners[0].to_string(),
        "PLAINTEXT://localhost:9092"
    );
    assert_eq!(config.log_dirs, [PathBuf::from("/tmp/kraft-combined-logs")]);
    assert_eq!(
        config.notes.len(),
        2,
        "the share-state topic keeps Kafka's 3 and 2"
    );
}

#[track_caller]
fn check_listeners(settings: &[(&str, &str)], expected: Result<&str, &str>) {
    match (resolve(settings), expected) {
        (Ok(config), Ok(told)) => {
            let shown: Vec<_> = config
                .advertised_listeners
                .iter()
                .map(ToString::to_string)
                .collect();
            assert_eq!(shown.join(","), told, "{settings:?}");
        }
        (Err(error), Err(part)) => {
            assert!(error.to_string().contains(part), "{settings:?}: {error}");
        }
        (result, _) => panic!("{settings:?}: {result:?}"),
    }
}

// Goal: clients are told what Kafka would tell them. Method: a table.
#[test]
fn listeners_told() {
    let check = check_listeners;
    check(&[], Ok("PLAINTEXT://machine.example:9092"));
    check(
        &[("listeners", "PLAINTEXT://[::1]:1")],
        Ok("PLAINTEXT://[::1]:1"),
    );
    check(&[("listeners", "plaintext://h:0")], Ok("PLAINTEXT://h:0"));
    check(
        &[
            ("listeners", "PLAINTEXT://0.0.0.0:1"),
            ("advertised.listeners", "PLAINTEXT://b.example:2"),
        ],
        Ok("PLAINTEXT://b.example:2"),
    );
    check(
        &[
            ("listeners", "IN://a:1,OUT://b:2"),
            (
                "listener.security.protocol.map",
                "IN:PLAINTEXT,OUT:PLAINTEXT",
            ),
            ("advertised.listeners", "OUT://c:3"),
        ],
        Ok("IN://a:1,OUT://c:3"),
    );
}

// Goal: listeners that cannot work are refused in plain words. Method: a table.
#[test]
fn listeners_refused() {
    let check = check_listeners;
    check(
        &[("listeners", "PLAINTEXT://0.0.0.0:1")],
        Err("clients cannot connect"),
    );
    check(
        &[("listeners", "SSL://a:1")],
        Err("only PLAINTEXT listeners are served"),
    );
    check(&[("listeners", "FOO://a:1")], Err("FOO has no protocol"));
    check(
        &[("listeners", "PLAINTEXT://a")],
        Err("must look like NAME://host:port"),
    );
    check(
        &[("listeners", "PLAINTEXT://a:99999")],
        Err("must look like NAME://host:port"),
    );
    check(
        &[("listeners", "a:9092")],
        Err("must look like NAME://host:port"),
    );
    check(&[("listeners", "")], Err("needs a listener"));
    check(
        &[("listeners", "PLAINTEXT://a:1,PLAINTEXT://b:2")],
        Err("its own name"),
    );
    check(
        &[
            ("listeners", "PLAINTEXT://a:1,B://a:1"),
            (
                "listener.security.protocol.map",
                "PLAINTEXT:PLAINTEXT,B:PLAINTEXT",
            ),
        ],
        Err("its own port"),
    );
    check(
        &[("advertised.listeners", "OUT://a:1")],
        Err("OUT is not among the listeners"),
    );
}

// Goal: what cannot be served is refused with the remedy. Method: a table of single settings.
#[test]
fn refusals() {
    fn check(settings: &[(&str, &str)], part: &str) {
        let error = resolve(settings).expect_err("refused");
        assert!(error.to_string().contains(part), "{settings:?}: {error}");
    }
    check(&[("process.roles", "controller")], "broker,controller");
    check(
        &[("process.roles", "broker")],
        "cannot join other controllers",
    );
    check(
        &[
            ("process.roles", "broker,controller"),
            ("controller.quorum.voters", "1@a:1,2@b:1"),
        ],
        "name one voter",
    );
    check(&[("node.id", "1"), ("broker.id", "2")], "differ");
    check(&[("node.id", "-1")], "at least 0");
    check(&[("num.partitions", "0")], "at least 1");
    check(&[("num.io.threads", "many")], "not a number of type INT");
    check(
        &[("log.message.timestamp.type", "Now")],
        "CreateTime, LogAppendTime",
    );
    check(
        &[("default.replication.factor", "0")],
        "between 1 and 32767",
    );
    check(
        &[
            ("log.cleaner.min.compaction.lag.ms", "5"),
            ("log.cleaner.max.compaction.lag.ms", "1"),
        ],
        "min.compaction.lag.ms (5)",
    );
    check(
        &[("ssl.key.password", "secret"), ("num.partitions", "x")],
        "num.partitions",
    );
}

// Goal: the older names still work. Method: each alone, and beside the newer one.
#[test]
fn older_names() {
    let id = |settings| resolve(settings).expect("valid").node_id;
    assert_eq!(id(&[("broker.id", "7")]), NodeId(7));
    assert_eq!(id(&[("broker.id", "-1"), ("node.id", "3")]), NodeId(3));
}
