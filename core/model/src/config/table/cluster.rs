//! Broker configuration names. Node identity, controller quorum, metadata log and replication.
//!
//! Rows are sorted by name. Source: what a running Apache Kafka 4.3 lists; the descriptions are ours.

use crate::config::key::{ConfigKey, broker_keys};

broker_keys! {
    pub(super) KEYS

    "auto.leader.rebalance.enable" Boolean "true" any High ReadOnly Ignored
        "Whether leadership returns to preferred replicas by itself.";
    "broker.heartbeat.interval.ms" Int "2000" any Medium ReadOnly Ignored
        "How often a broker calls its controller.";
    "broker.id" Int "-1" any High ReadOnly Served
        "The older name of `node.id`.";
    "broker.rack" String null any Medium ReadOnly Served
        "The rack or zone this broker stands in.";
    "broker.session.timeout.ms" Int "9000" any Medium ReadOnly Ignored
        "How long a silent broker stays unfenced.";
    hidden "cluster.id" String null any Low ReadOnly Served
        "Pelton's own: the cluster id a new data directory is given; a random one when unset.";
    "controlled.shutdown.enable" Boolean "true" any Medium ReadOnly Ignored
        "Whether a stopping broker hands its leaderships over first.";
    "controller.listener.names" List null any High ReadOnly Served
        "The listeners that controllers answer on.";
    hidden "controller.performance.always.log.threshold.ms" Long "2000" (min 0) Medium ReadOnly
        Ignored
        "Controller events slower than this are logged.";
    hidden "controller.performance.sample.period.ms" Long "60000" (min 100) Medium ReadOnly Ignored
        "How often the controller's speed is summarised.";
    "controller.quorum.append.linger.ms" Int "25" (min 0) Medium ReadOnly Ignored
        "How long the quorum leader gathers records before it writes.";
    "controller.quorum.auto.join.enable" Boolean "false" any Low ReadOnly Ignored
        "Whether a new controller joins the voters by itself.";
    "controller.quorum.bootstrap.servers" List "" any High ReadOnly Ignored
        "Controllers to ask for the current quorum.";
    "controller.quorum.election.backoff.max.ms" Int "1000" (min 0) High ReadOnly Ignored
        "The longest wait before a new election round.";
    "controller.quorum.election.timeout.ms" Int "1000" (min 0) High ReadOnly Ignored
        "How long an election may go without a winner.";
    "controller.quorum.fetch.max.bytes" Int "1048576" (min 1) Low ReadOnly Ignored
        "Metadata bytes fetched from the quorum leader at once.";
    "controller.quorum.fetch.snapshot.max.bytes" Int "1048576" (min 1) Low ReadOnly Ignored
        "Snapshot bytes fetched from the quorum leader at once.";
    "controller.quorum.fetch.timeout.ms" Int "2000" (min 0) High ReadOnly Ignored
        "How long a voter follows a silent leader.";
    "controller.quorum.request.timeout.ms" Int "2000" (min 0) Medium ReadOnly Ignored
        "How long a request within the quorum may take.";
    "controller.quorum.retry.backoff.ms" Int "20" (min 0) Low ReadOnly Ignored
        "The wait before a request within the quorum is tried again.";
    "controller.quorum.voters" List "" any High ReadOnly Served
        "The fixed voters of the quorum, as id@host:port.";
    "follower.fetch.last.tiered.offset.enable" Boolean "false" any Medium ClusterWide Ignored
        "Whether an empty follower starts at the end of the tiered part.";
    hidden "follower.replication.throttled.rate" Long "9223372036854775807" (min 0) Medium
        PerBroker Ignored
        "Bytes per second of throttled replication at the follower.";
    "initial.broker.registration.timeout.ms" Int "60000" any Medium ReadOnly Ignored
        "How long a starting broker tries to register.";
    hidden "internal.metadata.delete.delay.millis" Long "60000" any Low ReadOnly Ignored
        "How long a deleted metadata file stays on disk.";
    hidden "internal.metadata.log.segment.bytes" Int null any Low ReadOnly Served
        "A test-only segment size of the metadata log.";
    hidden "internal.metadata.max.batch.size.in.bytes" Int "8388608" any Low ReadOnly Ignored
        "The largest batch of the metadata log.";
    "leader.imbalance.check.interval.seconds" Long "300" (min 1) High ReadOnly Ignored
        "How often leadership is compared with the preferred replicas.";
    hidden "leader.replication.throttled.rate" Long "9223372036854775807" (min 0) Medium PerBroker
        Ignored
        "Bytes per second of throttled replication at the leader.";
    "metadata.log.dir" String null any High ReadOnly Served
        "The directory of the metadata log; the first data directory when unset.";
    "metadata.log.max.record.bytes.between.snapshots" Long "20971520" (min 1) High ReadOnly Served
        "Metadata bytes after which a snapshot is written.";
    "metadata.log.max.snapshot.interval.ms" Long "3600000" (min 0) High ReadOnly Served
        "The longest time between two metadata snapshots.";
    "metadata.log.segment.bytes" Int "1073741824" (min 8388608) High ReadOnly Served
        "The segment size of the metadata log.";
    "metadata.log.segment.ms" Long "604800000" any High ReadOnly Served
        "The age at which a segment of the metadata log rolls.";
    "metadata.max.idle.interval.ms" Int "500" (min 0) Low ReadOnly Planned
        "How often an idle controller writes a no-op record; 0 is never.";
    "metadata.max.retention.bytes" Long "104857600" any High ReadOnly Served
        "Bytes of metadata log and snapshots that are kept.";
    "metadata.max.retention.ms" Long "604800000" any High ReadOnly Served
        "How long metadata log segments and snapshots are kept.";
    "node.id" Int null (min 0) High ReadOnly Served
        "This node's id, unique in its cluster.";
    "num.replica.alter.log.dirs.threads" Int null any High ReadOnly Ignored
        "Threads that move replicas between log directories.";
    "num.replica.fetchers" Int "1" (min 1) High ClusterWide Ignored
        "Fetchers per leading broker.";
    "process.roles" List null (one_of "broker" "controller") High ReadOnly Served
        "What this process is: broker, controller, or both.";
    hidden "replica.alter.log.dirs.io.max.bytes.per.second" Long "9223372036854775807" (min 0)
        Medium PerBroker Served
        "Bytes per second of moves between log directories.";
    "replica.fetch.backoff.ms" Int "1000" (min 0) Medium ReadOnly Ignored
        "A follower's wait after a failed fetch.";
    "replica.fetch.max.bytes" Int "1048576" (min 0) Medium ReadOnly Ignored
        "Bytes a follower fetches per partition.";
    "replica.fetch.min.bytes" Int "1" any High ReadOnly Ignored
        "The least bytes a follower's fetch waits for.";
    "replica.fetch.response.max.bytes" Int "10485760" (min 0) Medium ReadOnly Ignored
        "Bytes a follower fetches at once.";
    "replica.fetch.wait.max.ms" Int "500" any High ReadOnly Ignored
        "How long a follower's fetch may wait.";
    "replica.high.watermark.checkpoint.interval.ms" Long "5000" any High ReadOnly Planned
        "How often high watermarks are written down.";
    "replica.lag.time.max.ms" Long "30000" any High ReadOnly Ignored
        "How long a follower may lag before it leaves the ISR.";
    "replica.selector.class" String null any Medium ReadOnly Ignored
        "A plugin class that picks the replica a consumer reads from.";
    "replica.socket.receive.buffer.bytes" Int "65536" any High ReadOnly Ignored
        "SO_RCVBUF of replication connections.";
    "replica.socket.timeout.ms" Int "30000" any High ReadOnly Ignored
        "How long a replication request may take.";
    hidden "server.max.startup.time.ms" Long "9223372036854775807" (min 0) Medium ReadOnly Ignored
        "How long a start may take before it is given up.";
    hidden "unstable.api.versions.enable" Boolean "false" any High ReadOnly Ignored
        "Whether API versions under development are served.";
    hidden "unstable.feature.versions.enable" Boolean "false" any High ReadOnly Ignored
        "Whether feature levels under development can be used.";
}
