//! Broker configuration names. Listeners, sockets, connections, requests and their quotas.
//!
//! Rows are sorted by name. Source: what a running Apache Kafka 4.3 lists; the descriptions are ours.

use crate::config::key::{ConfigKey, broker_keys};

broker_keys! {
    pub(super) KEYS

    "advertised.listeners" List null any High ReadOnly Served
        "The addresses that clients are told to connect to; those of `listeners` when unset.";
    "alter.log.dirs.replication.quota.window.num" Int "11" (min 1) Low ReadOnly Ignored
        "Samples kept to measure the quota of moves between log directories.";
    "alter.log.dirs.replication.quota.window.size.seconds" Int "1" (min 1) Low ReadOnly Ignored
        "The length of one sample of the quota of moves between log directories.";
    "background.threads" Int "10" (min 1) High ClusterWide Ignored
        "Threads for housekeeping work in Kafka's broker.";
    "client.quota.callback.class" Class null any Low ReadOnly Ignored
        "A plugin class that decides client quotas.";
    "config.providers" List "" any Low ClusterWide Ignored
        "Names of plugins that resolve placeholders in configuration values.";
    "connections.follow.window.ms" Long "500" (min 0) Low ReadOnly Served
        "Extension of Pelton: a connection whose requests go to one other core for two such windows moves there; 0: never.";
    "connections.max.idle.ms" Long "600000" any Medium ReadOnly Served
        "A connection without traffic for this long is closed.";
    "controller.quota.window.num" Int "11" (min 1) Low ReadOnly Ignored
        "Samples kept to measure quotas on controller mutations.";
    "controller.quota.window.size.seconds" Int "1" (min 1) Low ReadOnly Ignored
        "The length of one sample of quotas on controller mutations.";
    "controller.socket.timeout.ms" Int "30000" any Medium ReadOnly Ignored
        "How long the broker waits for a controller's socket.";
    "core.direct.listeners" List "" any Medium ReadOnly Served
        "Extension of Pelton: listeners that show clients every core as a node of its own, core i on the listener's port + i.";
    "delete.records.purgatory.purge.interval.requests" Int "1" any Medium ReadOnly Ignored
        "How many finished record deletions Kafka's purgatory keeps before it is cleaned.";
    "early.start.listeners" List null any High ReadOnly Ignored
        "Listeners that open before the authorizer is ready.";
    "fetch.max.bytes" Int "57671680" (min 1024) Medium ReadOnly Served
        "The most record bytes one fetch answer may carry, whatever the client asks.";
    "fetch.purgatory.purge.interval.requests" Int "1000" any Medium ReadOnly Ignored
        "How many finished fetches Kafka's purgatory keeps before it is cleaned.";
    "inter.broker.listener.name" String null any Medium ReadOnly Ignored
        "The listener by which brokers talk to each other.";
    "kafka.metrics.polling.interval.secs" Int "10" (min 1) Low ReadOnly Ignored
        "How often reporters of the old metrics library are polled.";
    "kafka.metrics.reporters" List "" any Low ReadOnly Ignored
        "Reporter classes of the old metrics library.";
    "listener.security.protocol.map" String
        "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL" any Low PerBroker Served
        "Which security protocol each listener name stands for.";
    "listeners" List "PLAINTEXT://:9092" any High PerBroker Served
        "The addresses this broker listens on, as NAME://host:port.";
    "max.connection.creation.rate" Int "2147483647" (min 0) Medium ClusterWide Served
        "Connections the broker accepts per second.";
    "max.connections" Int "2147483647" (min 0) Medium ClusterWide Served
        "Connections the broker holds at once.";
    "max.connections.per.ip" Int "2147483647" (min 0) Medium ClusterWide Served
        "Connections held at once for one address.";
    "max.connections.per.ip.overrides" String "" any Medium ClusterWide Served
        "Limits for single addresses, as host:count, over the general one.";
    "max.incremental.fetch.session.cache.slots" Int "1000" (min 0) Medium ReadOnly Served
        "Incremental fetch sessions kept at once.";
    "max.request.partition.size.limit" Int "2000" (min 1) Medium ReadOnly Served
        "Partitions one DescribeTopicPartitions answer may hold.";
    "metric.reporters" List "org.apache.kafka.common.metrics.JmxReporter" any Low ClusterWide
        Ignored
        "Plugin classes that receive metrics.";
    "metrics.group.partitions.max" Int "1000" (range 0 100000) Low ReadOnly Served
        "Extension of Pelton: committed offsets of groups with metrics of their own; the others are only counted.";
    "metrics.listener" String null any Medium ReadOnly Served
        "Extension of Pelton: HOST:PORT where metrics and health are served over HTTP; nowhere when unset.";
    "metrics.num.samples" Int "2" (min 1) Low ReadOnly Ignored
        "Samples kept per metric.";
    "metrics.partitions.max" Int "1000" (min 0) Low ReadOnly Served
        "Extension of Pelton: partitions with metrics of their own; the others are counted together.";
    "metrics.recording.level" String "INFO" any Low ReadOnly Ignored
        "How detailed the recorded metrics are.";
    "metrics.sample.window.ms" Long "30000" (min 1) Low ReadOnly Ignored
        "The length of one metric sample.";
    "metrics.series.max" Int "200" (range 0 10000) Low ReadOnly Served
        "Extension of Pelton: clients and topics with latencies of their own, on each shard; the others are counted together.";
    "num.io.threads" Int "8" (min 1) High ClusterWide Ignored
        "Request threads in Kafka's broker; Pelton runs one thread per core.";
    "num.network.threads" Int "3" (min 1) High ClusterWide Ignored
        "Network threads in Kafka's broker; Pelton runs one thread per core.";
    "producer.purgatory.purge.interval.requests" Int "1000" any Medium ReadOnly Ignored
        "How many finished produces Kafka's purgatory keeps before it is cleaned.";
    "queued.max.request.bytes" Long "-1" any Medium ReadOnly Served
        "Memory that requests and their answers may hold, over all shards; a tenth of the machine's, at most 1 GiB, below 1.";
    "queued.max.requests" Int "500" (min 1) High ReadOnly Served
        "Produce requests that each shard has under way before it stops reading.";
    "quota.window.num" Int "11" (min 1) Low ReadOnly Ignored
        "Samples kept to measure client quotas.";
    "quota.window.size.seconds" Int "1" (min 1) Low ReadOnly Ignored
        "The length of one client quota sample.";
    "replication.quota.window.num" Int "11" (min 1) Low ReadOnly Ignored
        "Samples kept to measure replication quotas.";
    "replication.quota.window.size.seconds" Int "1" (min 1) Low ReadOnly Ignored
        "The length of one replication quota sample.";
    "request.timeout.ms" Int "30000" any High ReadOnly Served
        "How long a request to another broker, or a wait on its behalf, may take.";
    "share.fetch.purgatory.purge.interval.requests" Int "1000" any Medium ReadOnly Ignored
        "How many finished share fetches Kafka's purgatory keeps before it is cleaned.";
    "slow.request.threshold.ms" Int "100" (min 0) Low ClusterWide Served
        "Extension of Pelton: a request that takes so long, without what it asked to wait, is kept with its stages.";
    "socket.connection.setup.timeout.max.ms" Long "30000" any Medium ReadOnly Ignored
        "The longest wait for an outgoing connection, after back-off.";
    "socket.connection.setup.timeout.ms" Long "10000" any Medium ReadOnly Ignored
        "The first wait for an outgoing connection.";
    "socket.listen.backlog.size" Int "50" (min 1) Medium ReadOnly Served
        "Connections that may wait to be accepted on a listener.";
    "socket.receive.buffer.bytes" Int "102400" any High ReadOnly Served
        "SO_RCVBUF of client connections; −1 leaves it to the system.";
    "socket.request.max.bytes" Int "104857600" (min 1) High ReadOnly Served
        "The largest request frame a client may send; a larger one closes its connection.";
    "socket.send.buffer.bytes" Int "102400" any High ReadOnly Served
        "SO_SNDBUF of client connections; −1 leaves it to the system.";
    "telemetry.max.bytes" Int "1048576" (min 1) Low ReadOnly Ignored
        "The largest compressed metrics push a client may send.";
}
