// Topics: made in every right and wrong way, told, grown, elected, reassigned, deleted, and three hundred at once.
package walk;

import static walk.Walk.*;

import java.util.*;
import java.util.stream.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.config.ConfigResource;

final class Topics {
    static KafkaFuture<Void> tryCreate(String n, int parts, int rf, String... kv) {
        Map<String, String> c = new HashMap<>();
        for (int i = 0; i < kv.length; i += 2) c.put(kv[i], kv[i + 1]);
        return admin.createTopics(List.of(new NewTopic(n, parts, (short) rf).configs(c))).all();
    }
    static void topics() throws Exception {
        String t = run + "topic", zero = "00000000-0000-0000-0000-000000000000";
        int me = Integer.parseInt(anyBroker());
        check("create-validate-only", () -> {
            var r = admin.createTopics(List.of(new NewTopic(t, 3, (short) 1)), new CreateTopicsOptions().validateOnly(true));
            eq(3, r.numPartitions(t).get()); eq(1, r.replicationFactor(t).get());
            int n = r.config(t).get().entries().size();
            eq("UnknownTopicOrPartition", error(admin.describeTopics(List.of(t)).allTopicNames()));
            return n + " configs, nothing created, topic id zero: " + r.topicId(t).get().equals(Uuid.ZERO_UUID);
        });
        check("create", () -> {
            var r = admin.createTopics(List.of(new NewTopic(t, 3, (short) 1).configs(Map.of("retention.ms", "123456"))));
            r.all().get();
            want(!r.topicId(t).get().equals(Uuid.ZERO_UUID), "topic id is zero");
            eq("123456", r.config(t).get().get("retention.ms").value());
            eq(ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, r.config(t).get().get("retention.ms").source());
            return r.config(t).get().entries().size() + " configs returned";
        });
        check("create-defaults", () -> {
            String d = run + "defaults";
            var r = admin.createTopics(List.of(new NewTopic(d, Optional.empty(), Optional.empty())));
            r.all().get();
            Object n = eq(Integer.parseInt(brokerSetting("num.partitions")), r.numPartitions(d).get());
            drop(d); return n + " partition(s)";
        });
        check("create-existing", () -> expect("TopicExists", tryCreate(t, 1, 1)));
        check("create-existing-validate-only", () -> expect("TopicExists", admin.createTopics(List.of(new NewTopic(t, 1, (short) 1)), new CreateTopicsOptions().validateOnly(true)).all()));
        for (String[] bad : new String[][] {{"slash", "a/b"}, {"dot", "."}, {"dots", ".."}, {"empty", ""}, {"long", "x".repeat(250)}, {"space", "a b"}, {"unicode", "é"}})
            check("create-name-" + bad[0], () -> expect("InvalidTopic", tryCreate(bad[1], 1, 1)));
        check("create-name-collision", () -> { create(run + "a.b", 1); try { return expect("InvalidTopic", tryCreate(run + "a_b", 1, 1)); } finally { drop(run + "a.b"); } });
        check("create-longest-name", () -> { String l = (run + "x".repeat(249)).substring(0, 249); create(l, 1); drop(l); return "249 characters"; });
        check("create-partitions-0", () -> expect("InvalidPartitions", tryCreate(t + "x", 0, 1)));
        check("create-replication-0", () -> expect("InvalidReplicationFactor", tryCreate(t + "x", 1, 0)));
        check("create-replication-too-high", () -> expect("InvalidReplicationFactor", tryCreate(t + "x", 1, 99)));
        check("create-config-unknown", () -> expect("InvalidConfiguration", tryCreate(t + "x", 1, 1, "no.such.config", "1")));
        check("create-config-bad-value", () -> expect("InvalidConfiguration", tryCreate(t + "x", 1, 1, "retention.ms", "abc")));
        check("create-config-out-of-range", () -> expect("InvalidConfiguration", tryCreate(t + "x", 1, 1, "segment.bytes", "1")));
        check("create-assignment", () -> {
            admin.createTopics(List.of(new NewTopic(run + "asg", Map.of(0, List.of(me), 1, List.of(me))))).all().get();
            try { return eq(2, admin.describeTopics(List.of(run + "asg")).allTopicNames().get().get(run + "asg").partitions().size()) + " partitions"; } finally { drop(run + "asg"); }
        });
        check("create-assignment-unknown-broker", () -> expect("InvalidReplicaAssignment", admin.createTopics(List.of(new NewTopic(t + "x", Map.of(0, List.of(4711))))).all()));
        check("create-assignment-gap", () -> expect("InvalidReplicaAssignment", admin.createTopics(List.of(new NewTopic(t + "x", Map.of(0, List.of(me), 2, List.of(me))))).all()));
        check("create-assignment-duplicate", () -> expect("InvalidReplicaAssignment", admin.createTopics(List.of(new NewTopic(t + "x", Map.of(0, List.of(me, me))))).all()));
        check("create-mixed-request", () -> {
            var r = admin.createTopics(List.of(new NewTopic(run + "ok", 1, (short) 1), new NewTopic("b/d", 1, (short) 1)));
            eq("InvalidTopic", error(r.values().get("b/d"))); r.values().get(run + "ok").get(); drop(run + "ok");
            return "one made, one refused";
        });
        check("list", () -> { want(admin.listTopics().names().get().contains(t), "not listed"); return "listed"; });
        check("list-internal", () -> {
            try (var c = consumer("group.id", run + "touch")) { c.assign(List.of(tp(t, 0))); c.commitSync(Map.of(tp(t, 0), new OffsetAndMetadata(0))); }
            want(!admin.listTopics().names().get().contains("__consumer_offsets"), "internal topic without asking");
            want(admin.listTopics(new ListTopicsOptions().listInternal(true)).namesToListings().get().get("__consumer_offsets").isInternal(), "not internal");
            admin.deleteConsumerGroups(List.of(run + "touch")).all().get();
            return "__consumer_offsets only with listInternal";
        });
        check("describe", () -> {
            TopicDescription d = admin.describeTopics(List.of(t), new DescribeTopicsOptions().includeAuthorizedOperations(true)).allTopicNames().get().get(t);
            eq(3, d.partitions().size());
            var p = d.partitions().get(0);
            want(p.leader() != null && p.replicas().size() == 1 && p.isr().size() == 1 && p.elr() != null && p.elr().isEmpty(), p.toString());
            return "operations " + new TreeSet<>(d.authorizedOperations());
        });
        check("describe-by-id", () -> {
            Uuid id = admin.describeTopics(List.of(t)).allTopicNames().get().get(t).topicId();
            return "name " + eq(t, admin.describeTopics(TopicCollection.ofTopicIds(List.of(id))).allTopicIds().get().get(id).name());
        });
        check("describe-unknown", () -> expect("UnknownTopicOrPartition", admin.describeTopics(List.of(t + "x")).allTopicNames()));
        check("describe-unknown-id", () -> expect("UnknownTopicId", admin.describeTopics(TopicCollection.ofTopicIds(List.of(Uuid.randomUuid()))).allTopicIds()));
        check("describe-invalid-name", () -> expect("InvalidTopic", admin.describeTopics(List.of("a/b")).allTopicNames()));
        check("describe-does-not-create", () -> { want(!admin.listTopics().names().get().contains(t + "x"), "created by describe"); return "not created"; });
        check("partitions-validate-only", () -> {
            admin.createPartitions(Map.of(t, NewPartitions.increaseTo(9)), new CreatePartitionsOptions().validateOnly(true)).all().get();
            return "still " + eq(3, admin.describeTopics(List.of(t)).allTopicNames().get().get(t).partitions().size());
        });
        check("partitions-increase", () -> {
            admin.createPartitions(Map.of(t, NewPartitions.increaseTo(5))).all().get();
            want(until(5, () -> admin.describeTopics(List.of(t)).allTopicNames().get().get(t).partitions().size() == 5), "not 5");
            return "now 5";
        });
        check("partitions-same", () -> expect("InvalidPartitions", admin.createPartitions(Map.of(t, NewPartitions.increaseTo(5))).all()));
        check("partitions-decrease", () -> expect("InvalidPartitions", admin.createPartitions(Map.of(t, NewPartitions.increaseTo(2))).all()));
        check("partitions-unknown-topic", () -> expect("UnknownTopicOrPartition", admin.createPartitions(Map.of(t + "x", NewPartitions.increaseTo(2))).all()));
        check("partitions-bad-assignment", () -> expect("InvalidReplicaAssignment", admin.createPartitions(Map.of(t, NewPartitions.increaseTo(6, List.of(List.of(4711))))).all()));
        check("partitions-assignment-count", () -> expect("InvalidReplicaAssignment", admin.createPartitions(Map.of(t, NewPartitions.increaseTo(7, List.of(List.of(me))))).all()));
        for (ElectionType type : ElectionType.values())
            check("elect-" + type.name().toLowerCase(), () -> {
                var r = admin.electLeaders(type, Set.of(tp(t, 0), tp(t + "x", 0))).partitions().get();
                return "known: " + eq("ElectionNotNeeded", r.get(tp(t, 0)).map(Walk::name).orElse("none"))
                    + ", unknown: " + eq("UnknownTopicOrPartition", r.get(tp(t + "x", 0)).map(Walk::name).orElse("none"));
            });
        check("elect-all", () -> admin.electLeaders(ElectionType.PREFERRED, null).partitions().get().size() + " partitions answered");
        check("reassign-to-itself", () -> { admin.alterPartitionReassignments(Map.of(tp(t, 0), Optional.of(new NewPartitionReassignment(List.of(me))))).all().get(); return "accepted"; });
        check("reassign-cancel-none", () -> expect("NoReassignmentInProgress", admin.alterPartitionReassignments(Map.of(tp(t, 0), Optional.empty())).all()));
        check("reassign-unknown-broker", () -> expect("InvalidReplicaAssignment", admin.alterPartitionReassignments(Map.of(tp(t, 0), Optional.of(new NewPartitionReassignment(List.of(4711))))).all()));
        check("reassign-unknown-topic", () -> expect("UnknownTopicOrPartition", admin.alterPartitionReassignments(Map.of(tp(t + "x", 0), Optional.of(new NewPartitionReassignment(List.of(me))))).all()));
        check("reassign-list", () -> eq(0, admin.listPartitionReassignments().reassignments().get().size()) + " in progress");
        check("replica-log-dir", () -> { var r = new TopicPartitionReplica(t, 0, me); want(admin.describeReplicaLogDirs(List.of(r)).all().get().get(r).getCurrentReplicaLogDir() != null, "none"); return "a directory"; });
        check("replica-log-dir-move-nowhere", () -> expect("LogDirNotFound", admin.alterReplicaLogDirs(Map.of(new TopicPartitionReplica(t, 0, me), "/no/such/dir")).all()));
        check("delete-unknown", () -> expect("UnknownTopicOrPartition", admin.deleteTopics(List.of(t + "x")).all()));
        check("delete-unknown-id", () -> expect("UnknownTopicId", admin.deleteTopics(TopicCollection.ofTopicIds(List.of(Uuid.randomUuid()))).all()));
        check("delete-by-id-and-recreate", () -> {
            Uuid id = admin.describeTopics(List.of(t)).allTopicNames().get().get(t).topicId();
            admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all().get();
            want(until(5, () -> !admin.listTopics().names().get().contains(t)), "still listed");
            var r = admin.createTopics(List.of(new NewTopic(t, 1, (short) 1))); r.all().get();
            want(!r.topicId(t).get().equals(id), "the same id again");
            return "new id; old id: " + expect("UnknownTopicId", admin.describeTopics(TopicCollection.ofTopicIds(List.of(id))).allTopicIds());
        });
        drop(t);
    }

    static void bulk() throws Exception {
        List<String> names = IntStream.range(0, 300).mapToObj(i -> run + "bulk-" + i).toList();
        check("create-300", () -> { admin.createTopics(names.stream().map(n -> new NewTopic(n, 2, (short) 1)).toList()).all().get(); return "300 topics of 2 partitions in one request"; });
        check("list-300", () -> { want(until(10, () -> admin.listTopics().names().get().containsAll(names)), "missing"); return "all listed"; });
        for (int limit : new int[] {2000, 50})
            check("describe-300-limit-" + limit, () -> {
                var d = admin.describeTopics(names, new DescribeTopicsOptions().partitionSizeLimitPerResponse(limit)).allTopicNames().get();
                return eq(600, d.values().stream().mapToInt(x -> x.partitions().size()).sum()) + " partitions";
            });
        check("describe-pages-inside-a-topic", () -> {
            create(run + "wide", 25);
            var d = admin.describeTopics(List.of(run + "wide"), new DescribeTopicsOptions().partitionSizeLimitPerResponse(10)).allTopicNames().get().get(run + "wide");
            eq(IntStream.range(0, 25).boxed().toList(), d.partitions().stream().map(TopicPartitionInfo::partition).toList());
            drop(run + "wide"); return "25 partitions in pages of 10, in order";
        });
        check("describe-configs-300", () -> { var r = admin.describeConfigs(names.stream().map(n -> res(ConfigResource.Type.TOPIC, n)).toList()).all().get(); return eq(300, r.size()) + " topics"; });
        check("list-offsets-600", () -> {
            Map<TopicPartition, OffsetSpec> m = new HashMap<>();
            for (String n : names) for (int i = 0; i < 2; i++) m.put(tp(n, i), OffsetSpec.latest());
            return admin.listOffsets(m).all().get().values().stream().filter(x -> x.offset() == 0).count() + " at offset 0";
        });
        check("delete-300", () -> { admin.deleteTopics(names).all().get(); want(until(10, () -> admin.listTopics().names().get().stream().noneMatch(n -> n.startsWith(run + "bulk-"))), "left"); return "gone"; });
    }
}
